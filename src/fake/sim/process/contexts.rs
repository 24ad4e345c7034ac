//! The contexts of a process: their creation and destruction, their limits and their peers.

use crate::model::context::{Context, ContextOwner};
use crate::model::needs;
use crate::model::status::*;
use crate::model::thread::Thread;
use crate::process::SimulatedProcess;

impl SimulatedProcess {
    /// Creates a context, and loads into it the libraries that are loaded into every new one.
    fn make_context(&mut self, handle: u64) -> Outcome {
        let devices = self.devices.len();
        needs::check_context(self.contexts.get(handle)?.gpu)?;
        self.contexts
            .get_mut(handle)?
            .make(&mut self.account, devices)?;
        let gpu = self.contexts.get(handle)?.gpu;
        self.presence.add_context(handle, gpu);
        let owner = self.contexts.owner(handle).ok_or(INVALID_CONTEXT)?;
        self.load_libraries_into(owner)
            .inspect_err(|_| self.end_context(handle))
    }

    /// Destroys a context together with its memory, modules, streams and events. Stream-ordered allocations stay, since
    /// they belong to a pool.
    fn end_context(&mut self, handle: u64) {
        let Ok(context) = self.contexts.get_mut(handle) else {
            return;
        };
        self.presence.remove_context(handle);
        let blocks = &mut self.devices[context.device].blocks;
        context.destroy(&mut self.account, blocks.free_context(handle));
    }

    /// `cuDevicePrimaryCtxRetain`: creates the context if it does not exist; does not make it current.
    pub fn retain_primary(&mut self, device: usize) -> Outcome<u64> {
        let handle = self.devices[device].primary_handle;
        if !self.devices[device].primary.active {
            self.unharmed()?;
            self.make_context(handle)?;
        }
        self.devices[device].primary.retained();
        Ok(handle)
    }

    /// `cuDevicePrimaryCtxRelease`: the last release destroys the context and leaves it current wherever it is.
    pub fn release_primary(&mut self, device: usize) -> Outcome {
        if self.devices[device].primary.release()? {
            self.end_context(self.devices[device].primary_handle);
        }
        Ok(())
    }

    /// `cuDevicePrimaryCtxReset`: destroys the context although it has users.
    pub fn reset_primary(&mut self, device: usize) {
        if self.devices[device].primary.reset() {
            self.end_context(self.devices[device].primary_handle);
        }
    }

    /// `cuCtxCreate`: creates a context in addition to the primary one, which uses as much memory.
    pub fn create_context(&mut self, device: usize) -> Outcome<u64> {
        self.unharmed()?;
        let handle = self.handle();
        self.contexts.insert(
            handle,
            Context::new(device, self.devices[device].gpu, false),
        );
        self.make_context(handle)
            .inspect_err(|_| self.contexts.remove(handle))?;
        Ok(handle)
    }

    /// `cuCtxDestroy`: removes the context from this thread's stack, but not from any other's.
    pub fn destroy_context(&mut self, handle: u64, thread: &mut Thread) -> Outcome {
        let context = self.contexts.get(handle)?;
        if context.primary || !context.alive {
            return Err(SIM_NOT_MODELLED);
        }
        self.end_context(handle);
        if thread.current() == Some(handle) {
            thread.stack.pop();
        }
        Ok(())
    }

    /// Returns a context that may be made current. A primary context may be made current even after its end
    /// (fault/reset-after-a-fault).
    pub fn selectable(&self, handle: u64) -> Outcome<u64> {
        let context = self.contexts.get(handle)?;
        if context.alive || context.primary {
            Ok(handle)
        } else {
            Err(SIM_NOT_MODELLED)
        }
    }

    /// Returns the device of the current context, which may be a primary context that does not exist yet or no longer
    /// exists. A context keeps its device after its end (device/destroyed-while-current-elsewhere).
    pub fn current_device(&self, thread: &Thread) -> Outcome<usize> {
        self.machine()?;
        let handle = thread.current().ok_or(INVALID_CONTEXT)?;
        self.contexts.get(handle).map(|context| context.device)
    }

    /// Reads a limit of a live context.
    pub fn limit(&self, owner: ContextOwner, which: u32) -> Outcome<u64> {
        self.contexts
            .get(owner.context)?
            .limit(&self.account, which)
    }

    /// Sets a limit of a live context.
    pub fn set_limit(&mut self, owner: ContextOwner, which: u32, value: u64) -> Outcome {
        self.contexts
            .get_mut(owner.context)?
            .set_limit(&mut self.account, which, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sample::ready;

    #[test]
    fn a_full_gpu_has_no_room_for_a_context() {
        let mut process = ready();
        for _ in 0..9 {
            process.create_context(0).unwrap();
        }
        assert_eq!(process.create_context(0), Err(OUT_OF_MEMORY));
        assert_eq!(process.retain_primary(0), Err(OUT_OF_MEMORY));
    }
}
