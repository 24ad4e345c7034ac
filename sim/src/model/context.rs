//! Contexts: what makes one, what it costs, and what is left of it when it is gone.

use crate::c;
use crate::model::behaviour::SET_DEVICE_EAGER_FROM;
use crate::model::charge::charges;
use crate::model::limits::Limits;
use crate::model::process::Process;
use crate::model::status::*;
use crate::model::thread::Thread;
use std::collections::BTreeSet;

/// One context. A primary one keeps its handle from life to life; the entry of a destroyed one stays, to be told from what never was.
pub struct Context {
    pub device: usize,
    pub primary: bool,
    pub alive: bool,
    pub life: u32,
    /// Device memory beside the allocations: the context's own, its modules, its larger limits.
    pub charged_bytes: u64,
    pub limits: Limits,
    /// Its streams, and the most there were: their memory stays.
    pub streams: u32,
    pub most_streams: u32,
    /// What it took for modules that use the device heap, print or assert, and keeps.
    pub device_code_bytes: u64,
    pub modules_with_variables: u32,
    /// Contexts of other devices whose memory it may use.
    pub peers: BTreeSet<u64>,
    /// `CUDA_LAUNCH_BLOCKING` was set when it was made (process/env-launch-blocking).
    pub blocking: bool,
}

/// The context an object belongs to, in the life it was made in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pub context: u64,
    pub life: u32,
    pub device: usize,
}

impl Context {
    /// A primary context that does not exist yet.
    pub fn primary(device: usize) -> Self {
        Self {
            device,
            primary: true,
            alive: false,
            life: 0,
            charged_bytes: 0,
            limits: Limits::default(),
            streams: 0,
            most_streams: 0,
            device_code_bytes: 0,
            modules_with_variables: 0,
            peers: BTreeSet::new(),
            blocking: false,
        }
    }
}

impl Process {
    /// Brings a context to life: its memory is taken, its limits are the defaults.
    fn bring_to_life(&mut self, handle: u64) -> Outcome {
        let node = self.node()?;
        let context = self.contexts.get_mut(&handle).ok_or(INVALID_CONTEXT)?;
        let gpu = self.devices[context.device].gpu;
        let model = &node.machine.gpus[gpu];
        let bytes = model.context_bytes + charges(self.devices.len(), 0) * model.stream_bytes;
        self.account.charge(node, gpu, bytes)?;
        self.account.context_made(node, gpu)?;
        let owner = Owner { context: handle, life: context.life + 1, device: context.device };
        *context = Context {
            primary: context.primary,
            alive: true,
            life: owner.life,
            charged_bytes: bytes,
            limits: Limits::of(&node.machine),
            blocking: c::env(c"CUDA_LAUNCH_BLOCKING").is_some_and(|value| value == b"1"),
            ..Context::primary(context.device)
        };
        self.load_libraries_into(owner).inspect_err(|_| self.end_life(handle))
    }

    /// Ends a context's life: memory, modules, streams and events go with it. Stream-ordered allocations stay, they are the pool's.
    fn end_life(&mut self, handle: u64) {
        let (Ok(node), Some(context)) = (self.node(), self.contexts.get_mut(&handle)) else {
            return;
        };
        let device = &mut self.devices[context.device];
        context.alive = false;
        for address in device.blocks.of_context(handle) {
            self.contents.forget(address);
            self.shared.freed(address, device.blocks.block_bytes(address));
        }
        let bytes = std::mem::take(&mut context.charged_bytes) + device.blocks.free_context(handle);
        self.account.refund(node, device.gpu, bytes);
        self.account.context_gone(node, device.gpu);
    }

    /// `cuDevicePrimaryCtxRetain`: makes the context if nobody has it; does not make it current.
    pub fn retain_primary(&mut self, device: usize) -> Outcome<u64> {
        let handle = self.devices[device].primary_handle;
        if !self.devices[device].primary.active {
            self.may_make_context(false)?;
            self.bring_to_life(handle)?;
        }
        self.devices[device].primary.retained();
        Ok(handle)
    }

    /// `cuDevicePrimaryCtxRelease`: the last release destroys the context and leaves it current wherever it is.
    pub fn release_primary(&mut self, device: usize) -> Outcome {
        if self.devices[device].primary.release()? {
            self.end_life(self.devices[device].primary_handle);
        }
        Ok(())
    }

    /// `cuDevicePrimaryCtxReset`: destroys the context under everybody who uses it.
    pub fn reset_primary(&mut self, device: usize) {
        if self.devices[device].primary.reset() {
            self.end_life(self.devices[device].primary_handle);
        }
    }

    /// `cuCtxCreate`: a context beside the primary one, at the full price.
    pub fn create_context(&mut self, device: usize) -> Outcome<u64> {
        self.may_make_context(false)?;
        let handle = self.handle();
        self.contexts.insert(handle, Context { primary: false, ..Context::primary(device) });
        if let Err(code) = self.bring_to_life(handle) {
            self.contexts.remove(&handle);
            return Err(code);
        }
        Ok(handle)
    }

    /// `cuCtxDestroy`: takes the context off this thread's stack, but not off any other's.
    pub fn destroy_context(&mut self, handle: u64, thread: &mut Thread) -> Outcome {
        let context = self.contexts.get(&handle).ok_or(INVALID_CONTEXT)?;
        if context.primary || !context.alive {
            return Err(SIM_NOT_MODELLED);
        }
        self.end_life(handle);
        if thread.current() == Some(handle) {
            thread.stack.pop();
        }
        Ok(())
    }

    /// A context that may be made current.
    pub fn selectable(&self, handle: u64) -> Outcome<u64> {
        match self.contexts.get(&handle) {
            None => Err(INVALID_CONTEXT),
            // A primary context may be made current after its end (fault/reset-after-a-fault).
            Some(context) if context.alive || context.primary => Ok(handle),
            Some(_) => Err(SIM_NOT_MODELLED),
        }
    }

    /// The current context as the driver sees it: 201 without one, 709 when it is gone.
    pub fn current(&self, thread: &Thread) -> Outcome<Owner> {
        self.node()?;
        let handle = thread.current().ok_or(INVALID_CONTEXT)?;
        // What the driver does in a context that the runtime chose and has not made yet is not known.
        let missing = if self.is_unmade(handle) { SIM_NOT_MODELLED } else { CONTEXT_IS_DESTROYED };
        let owner = self.owner(handle).ok_or(missing)?;
        self.unharmed().map(|()| owner)
    }

    /// The current context, as a call finds it that waits for its device.
    pub fn wait_for_current(&mut self, thread: &Thread) -> Outcome {
        self.surface_of_stream(0, thread);
        let owner = self.current(thread)?;
        self.wait(owner)
    }

    /// The device of the current context, which may be a primary one that does not exist: not yet, or no longer.
    pub fn current_device(&self, thread: &Thread) -> Outcome<usize> {
        self.node()?;
        let handle = thread.current().ok_or(INVALID_CONTEXT)?;
        // A context keeps its device after its end (device/destroyed-while-current-elsewhere).
        self.contexts.get(&handle).map(|context| context.device).ok_or(INVALID_CONTEXT)
    }

    /// Whether a context has a handle, as primary ones have, but has never lived.
    fn is_unmade(&self, handle: u64) -> bool {
        self.contexts.get(&handle).is_some_and(|context| context.life == 0)
    }

    /// The present life of a context, if it has one.
    pub fn owner(&self, handle: u64) -> Option<Owner> {
        let context = self.contexts.get(&handle).filter(|context| context.alive)?;
        Some(Owner { context: handle, life: context.life, device: context.device })
    }

    /// Whether an object's context still lives the life the object was made in.
    pub fn is_live(&self, owner: Owner) -> bool {
        self.owner(owner.context) == Some(owner)
    }

    /// The primary context of a device for the runtime, which retains it once.
    pub fn runtime_primary(&mut self, device: usize) -> Outcome<u64> {
        if self.devices[device].primary.runtime_must_retain() {
            if !self.devices[device].primary.active {
                self.may_make_context(true)?;
            }
            self.retain_primary(device)?;
            self.devices[device].primary.runtime_retained = true;
        }
        Ok(self.devices[device].primary_handle)
    }

    /// The context a runtime call works in: the current one, re-made if it was a primary context and is gone; otherwise the primary
    /// context of the thread's device, which becomes current.
    pub fn runtime_context(&mut self, thread: &mut Thread) -> Outcome<Owner> {
        let handle = match thread.current() {
            Some(handle) => {
                let context = self.contexts.get(&handle).ok_or(INVALID_CONTEXT)?;
                if !context.alive {
                    if !context.primary {
                        // The runtime has its own name for it (device/destroyed-while-current-elsewhere).
                        return Err(INVALID_CONTEXT);
                    }
                    self.runtime_primary(context.device)?;
                }
                handle
            }
            None => {
                let handle = self.runtime_primary(thread.device)?;
                thread.stack.push(handle);
                handle
            }
        };
        let owner = self.owner(handle).ok_or(CONTEXT_IS_DESTROYED)?;
        self.unharmed().map(|()| owner)
    }

    /// The device the runtime calls current: the current context's, else the one the thread chose.
    pub fn runtime_device(&self, thread: &Thread) -> usize {
        let current = thread.current().and_then(|handle| self.contexts.get(&handle));
        current.map_or(thread.device, |context| context.device)
    }

    /// `cudaSetDevice`: since runtime 12 it makes the context at once; before that it only makes the handle current.
    pub fn set_device(&mut self, device: usize, thread: &mut Thread) -> Outcome {
        let eager = self.node()?.machine.cuda_runtime_version >= SET_DEVICE_EAGER_FROM;
        let outcome = if eager { self.runtime_primary(device).map(drop) } else { Ok(()) };
        // After a fault the device is selected although its context cannot be made (fault/other-gpu-of-the-process).
        if outcome.is_ok() || outcome == Err(DEVICE_UNAVAILABLE) {
            thread.set_current(Some(self.devices[device].primary_handle));
            thread.device = device;
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::process::sample::ready;

    fn thread() -> Thread {
        Thread::default()
    }

    /// What is taken beyond initialisation.
    fn used(process: &Process, gpu: usize) -> u64 {
        let node = process.node().unwrap();
        node.table.used_bytes(gpu) - node.machine.gpus[gpu].init_bytes
    }

    const CONTEXT: u64 = 100 << 20;

    #[test]
    fn a_primary_context_costs_once_and_keeps_its_handle() {
        let mut process = ready();
        let first = process.retain_primary(1).unwrap();
        process.retain_primary(1).unwrap();
        assert_eq!((used(&process, 0), used(&process, 1)), (0, CONTEXT));
        process.release_primary(1).unwrap();
        assert_eq!(used(&process, 1), CONTEXT);
        process.release_primary(1).unwrap();
        assert_eq!(used(&process, 1), 0);
        assert_eq!(process.release_primary(1), Err(INVALID_CONTEXT));
        assert_eq!(process.retain_primary(1), Ok(first));
    }

    #[test]
    fn a_released_context_stays_current_and_is_gone() {
        let (mut process, mut thread) = (ready(), thread());
        assert_eq!(process.current(&thread).err(), Some(INVALID_CONTEXT));
        let handle = process.retain_primary(0).unwrap();
        thread.set_current(Some(handle));
        let before = process.current(&thread).unwrap();
        process.release_primary(0).unwrap();
        assert_eq!(process.current(&thread).err(), Some(CONTEXT_IS_DESTROYED));
        let after = process.runtime_context(&mut thread).unwrap();
        assert_eq!(after.context, handle);
        assert!(!process.is_live(before));
    }

    #[test]
    fn selecting_a_device_makes_its_context_since_runtime_12() {
        let (mut process, mut thread) = (ready(), thread());
        process.set_device(1, &mut thread).unwrap();
        process.set_device(0, &mut thread).unwrap();
        assert_eq!((used(&process, 0), used(&process, 1)), (CONTEXT, CONTEXT));
        assert_eq!(process.runtime_device(&thread), 0);
        assert_eq!(thread.stack.len(), 1);
    }

    #[test]
    fn a_context_that_was_chosen_and_never_made_has_a_device() {
        let (mut process, mut thread) = (ready(), thread());
        thread.set_current(Some(process.devices[1].primary_handle));
        assert_eq!(process.current_device(&thread), Ok(1));
        assert_eq!(process.current(&thread).err(), Some(SIM_NOT_MODELLED));
        assert_eq!(used(&process, 1), 0);
        process.runtime_context(&mut thread).unwrap();
        assert_eq!(used(&process, 1), CONTEXT);
        process.reset_primary(1);
        assert_eq!(process.current_device(&thread), Ok(1));
        assert_eq!(process.current(&thread).err(), Some(CONTEXT_IS_DESTROYED));
    }

    #[test]
    fn another_context_costs_again_and_the_runtime_uses_it() {
        let (mut process, mut thread) = (ready(), thread());
        process.retain_primary(0).unwrap();
        let own = process.create_context(0).unwrap();
        assert_eq!(used(&process, 0), 2 * CONTEXT);
        thread.stack.push(own);
        assert_eq!(process.runtime_context(&mut thread).unwrap().context, own);
        process.destroy_context(own, &mut thread).unwrap();
        assert_eq!(used(&process, 0), CONTEXT);
        assert!(thread.stack.is_empty());
    }

    #[test]
    fn a_full_gpu_has_no_room_for_a_context() {
        let mut process = ready();
        for _ in 0..9 {
            process.create_context(0).unwrap();
        }
        assert_eq!(process.create_context(0), Err(OUT_OF_MEMORY));
        assert_eq!(process.retain_primary(0), Err(OUT_OF_MEMORY));
        assert_eq!(used(&process, 0), 9 * CONTEXT);
    }
}
