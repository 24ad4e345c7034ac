//! A context: the memory that it allocates on its GPU, and the objects that belong to it.

use crate::c;
use crate::machine::gpu::SimulatedGpu;
use crate::model::account::Account;
use crate::model::behaviour::{
    ASSERT_MODULE_BYTES, CHANNELS_IN_A_CONTEXT, CHANNELS_PER_CHARGE, PRINTF_MODULE_BYTES,
    VARIABLES_BYTES,
};
use crate::model::limits::{ContextLimits, STACK_SIZE, rounded_stack, stack_charge};
use crate::model::ptx::PtxImage;
use crate::model::status::*;
use std::collections::BTreeMap;

/// A context. A primary context keeps its handle when it is created again; the entry of a destroyed one stays, so that
/// its handle is known.
#[derive(Default)]
pub struct Context {
    pub device: usize,
    /// The GPU of the device, by its NVML index.
    pub gpu: usize,
    pub primary: bool,
    pub alive: bool,
    /// Number of times that the context was created.
    pub generation: u32,
    pub limits: ContextLimits,
    /// `true` if `CUDA_LAUNCH_BLOCKING` was set when the context was created (process/env-launch-blocking).
    pub blocking: bool,
    /// Device memory in addition to the allocations: the context itself, its modules, its larger limits.
    charged_bytes: u64,
    /// The streams of the context, and the highest number of them so far: their memory stays.
    streams: u32,
    most_streams: u32,
    /// Memory that was allocated for modules that use the device heap, print or assert, and that the context keeps.
    device_code_bytes: u64,
    modules_with_variables: u32,
}

/// The context of an object, in the generation that the object was created in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextOwner {
    pub context: u64,
    pub generation: u32,
    pub device: usize,
}

/// Returns how often memory is allocated for this many visible GPUs and streams of a context.
fn charges(devices: usize, streams: u32) -> u64 {
    let channels = (devices as u32 + streams).saturating_sub(CHANNELS_IN_A_CONTEXT);
    u64::from(channels.div_ceil(CHANNELS_PER_CHARGE))
}

impl Context {
    /// Returns a context that does not exist yet.
    pub fn new(device: usize, gpu: usize, primary: bool) -> Self {
        Self {
            device,
            gpu,
            primary,
            ..Self::default()
        }
    }

    /// Creates the context on a machine with `devices` visible devices: allocates its memory, and sets its limits to
    /// the defaults.
    pub fn make(&mut self, account: &mut Account, devices: usize) -> Outcome {
        let machine = account.machine()?;
        let gpu = machine.gpu(self.gpu);
        let bytes = gpu.context_bytes + charges(devices, 0) * gpu.stream_bytes;
        account.charge(self.gpu, bytes)?;
        account.context_made(self.gpu)?;
        *self = Self {
            alive: true,
            generation: self.generation + 1,
            charged_bytes: bytes,
            limits: ContextLimits::new(&machine.description),
            blocking: c::env(c"CUDA_LAUNCH_BLOCKING").is_some_and(|value| value == b"1"),
            ..Self::new(self.device, self.gpu, self.primary)
        };
        Ok(())
    }

    /// Destroys the context, and frees its memory and `allocated_bytes` of allocations.
    pub fn destroy(&mut self, account: &mut Account, allocated_bytes: u64) {
        self.alive = false;
        account.refund(
            self.gpu,
            std::mem::take(&mut self.charged_bytes) + allocated_bytes,
        );
        account.context_gone(self.gpu);
    }

    /// Allocates memory, which is freed when the context is destroyed.
    fn charge(&mut self, account: &mut Account, bytes: u64) -> Outcome {
        account.charge(self.gpu, bytes)?;
        self.charged_bytes += bytes;
        Ok(())
    }

    /// Frees a part of the memory that [`Self::charge`] allocated.
    fn refund(&mut self, account: &mut Account, bytes: u64) {
        self.charged_bytes = self.charged_bytes.saturating_sub(bytes);
        account.refund(self.gpu, bytes);
    }

    /// Allocates memory for a stream that is about to be created, if the streams before it left no space.
    pub fn add_stream(&mut self, account: &mut Account, devices: usize) -> Outcome {
        let (most, wanted) = (self.most_streams, self.streams + 1);
        if wanted > most && charges(devices, wanted) > charges(devices, most) {
            let bytes = account.machine()?.gpu(self.gpu).stream_bytes;
            self.charge(account, bytes)?;
        }
        (self.streams, self.most_streams) = (wanted, most.max(wanted));
        Ok(())
    }

    /// Notes that a stream was destroyed; its memory stays.
    pub fn remove_stream(&mut self) {
        self.streams = self.streams.saturating_sub(1);
    }

    /// Allocates the memory of a module.
    pub fn add_module(&mut self, account: &mut Account, image: &PtxImage) -> Outcome {
        let gpu = account.machine()?.gpu(self.gpu);
        self.charge_device_code(account, image, gpu)?;
        self.charge_variables(account, image)?;
        self.charge(account, gpu.module_bytes)
    }

    /// Frees the memory of a module, and with the last one that has variables also the block that they share.
    pub fn remove_module(&mut self, account: &mut Account, image: &PtxImage) -> Outcome {
        self.refund(account, image.large_variables_bytes());
        if image.has_small_variables() {
            self.modules_with_variables = self.modules_with_variables.saturating_sub(1);
            if self.modules_with_variables == 0 {
                self.refund(account, VARIABLES_BYTES);
            }
        }
        let bytes = account.machine()?.gpu(self.gpu).module_bytes;
        self.refund(account, bytes);
        Ok(())
    }

    /// Allocates the memory of the first module of a context that uses the device heap, prints or asserts.
    fn charge_device_code(
        &mut self,
        account: &mut Account,
        image: &PtxImage,
        gpu: &SimulatedGpu,
    ) -> Outcome {
        let bytes = match (image.uses_heap, image.uses_printf, image.uses_assert) {
            (false, false, false) => return Ok(()),
            (true, false, false) => gpu.heap_module_bytes,
            (false, true, false) => PRINTF_MODULE_BYTES,
            (false, false, true) => ASSERT_MODULE_BYTES,
            _ => return Err(SIM_NOT_MODELLED),
        };
        match self.device_code_bytes {
            0 => self.charge(account, bytes)?,
            before if before == bytes => {}
            _ => return Err(SIM_NOT_MODELLED),
        }
        self.device_code_bytes = bytes;
        Ok(())
    }

    /// Allocates the block that the small variables of modules share, and the memory of the large ones of this module.
    fn charge_variables(&mut self, account: &mut Account, image: &PtxImage) -> Outcome {
        self.charge(account, image.large_variables_bytes())?;
        if image.has_small_variables() {
            if self.modules_with_variables == 0 {
                self.charge(account, VARIABLES_BYTES)?;
            }
            self.modules_with_variables += 1;
        }
        Ok(())
    }

    /// Returns a limit, in its own unit.
    pub fn limit(&self, account: &Account, which: u32) -> Outcome<u64> {
        self.limits.get(which, account.machine()?.gpu(self.gpu))
    }

    /// Sets a limit.
    pub fn set_limit(&mut self, account: &mut Account, which: u32, value: u64) -> Outcome {
        if which == STACK_SIZE {
            return self.set_stack(account, value);
        }
        self.limits
            .set(which, value, account.machine()?.gpu(self.gpu))
    }

    /// Raises the stack limit for a kernel with threads that need more local memory
    /// (limits/local-memory-never-shrinks). The memory after a failure is not known.
    pub fn grow_stack(&mut self, account: &mut Account, frame_bytes: u64) -> Outcome {
        if frame_bytes <= self.limits.stack_bytes {
            return Ok(());
        }
        self.set_stack(account, frame_bytes)
            .map_err(|_| SIM_NOT_MODELLED)
    }

    /// Sets the stack size. A stack that does not fit is an invalid value (limits/stack-larger-than-the-gpu).
    fn set_stack(&mut self, account: &mut Account, value: u64) -> Outcome {
        let machine = account.machine()?;
        let value = rounded_stack(value)?;
        let (description, gpu) = (&machine.description, machine.gpu(self.gpu));
        let before = stack_charge(self.limits.stack_bytes, description, gpu).unwrap_or(0);
        let after = stack_charge(value, description, gpu).ok_or(INVALID_VALUE)?;
        // Measured: the memory is allocated when the limit is set, and a lower limit frees it as promptly.
        if after > before {
            self.charge(account, after - before)
                .map_err(|_| INVALID_VALUE)?;
        } else {
            self.refund(account, before - after);
        }
        self.limits.stack_bytes = value;
        Ok(())
    }

    /// Makes the sizes of the device heap and of the printf buffer final.
    pub fn fix_sizes(&mut self, account: &mut Account, heap: bool, printf: bool) -> Outcome {
        if heap {
            self.fix_heap(account)?;
        }
        self.limits.printf_fixed |= printf;
        Ok(())
    }

    /// Gives the heap its final size and its memory, a little more than that size.
    fn fix_heap(&mut self, account: &mut Account) -> Outcome {
        if self.limits.heap_fixed {
            return Ok(());
        }
        let more = account.machine()?.gpu(self.gpu).heap_launch_bytes;
        let bytes = self.limits.malloc_heap_bytes.saturating_add(more);
        // Measured (memory/first-launch-out-of-memory).
        self.charge(account, bytes)
            .map_err(|_| LAUNCH_OUT_OF_RESOURCES)?;
        self.limits.heap_fixed = true;
        Ok(())
    }
}

/// The contexts of a process, by handle.
#[derive(Default)]
pub struct Contexts(BTreeMap<u64, Context>);

impl Contexts {
    /// Adds a context, created or not.
    pub fn insert(&mut self, handle: u64, context: Context) {
        self.0.insert(handle, context);
    }

    /// Forgets a context.
    pub fn remove(&mut self, handle: u64) {
        self.0.remove(&handle);
    }

    /// Returns a context by its handle, destroyed or not; `INVALID_CONTEXT` for any other handle.
    pub fn get(&self, handle: u64) -> Outcome<&Context> {
        self.0.get(&handle).ok_or(INVALID_CONTEXT)
    }

    /// Returns a context by its handle, for changes.
    pub fn get_mut(&mut self, handle: u64) -> Outcome<&mut Context> {
        self.0.get_mut(&handle).ok_or(INVALID_CONTEXT)
    }

    /// Returns the current generation of a context, if it exists now.
    pub fn owner(&self, handle: u64) -> Option<ContextOwner> {
        let context = self.0.get(&handle).filter(|context| context.alive)?;
        Some(ContextOwner {
            context: handle,
            generation: context.generation,
            device: context.device,
        })
    }

    /// Returns `true` if an object's context still has the generation that the object was created in.
    pub fn is_live(&self, owner: ContextOwner) -> bool {
        self.owner(owner.context) == Some(owner)
    }

    /// Returns the number of contexts that exist now.
    pub fn alive(&self) -> usize {
        self.0.values().filter(|context| context.alive).count()
    }
}

#[cfg(test)]
mod tests {
    use super::charges;

    #[test]
    fn visible_gpus_and_streams_share_channels() {
        let streams = [0, 1, 2, 5, 6, 10];
        assert_eq!(
            streams.map(|streams| charges(1, streams)),
            [0, 0, 1, 1, 2, 3]
        );
        assert_eq!(
            streams.map(|streams| charges(2, streams)),
            [0, 1, 1, 2, 2, 3]
        );
        assert_eq!([charges(3, 0), charges(4, 0)], [1, 1]);
    }
}
