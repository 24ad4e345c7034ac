//! The runtime's additions to the driver: its initialization, the devices that it selects, and the primary contexts
//! that it creates for them.

use crate::model::behaviour::SET_DEVICE_EAGER_FROM;
use crate::model::context::ContextOwner;
use crate::model::needs;
use crate::model::status::*;
use crate::model::thread::Thread;
use crate::process::{Phase, SimulatedProcess};

impl SimulatedProcess {
    /// Executes the runtime's own first step: `cuInit`. The runtime remembers a "no device" result.
    pub fn runtime_init(&mut self) -> Outcome {
        if self.runtime_found_none {
            // What it returns once the driver has found a device after all is not known.
            return Err(if self.phase == Phase::Ready {
                SIM_NOT_MODELLED
            } else {
                NO_DEVICE
            });
        }
        if self.phase != Phase::Ready {
            needs::check_runtime()?;
        }
        let outcome = self.init();
        // The runtime keeps returning this, however the mask changes. Measured with 13.0, for `cudaGetDeviceCount`.
        self.runtime_found_none = outcome == Err(NO_DEVICE);
        outcome
    }

    /// Returns the primary context of a device for the runtime, which retains it once.
    pub fn runtime_primary(&mut self, device: usize) -> Outcome<u64> {
        let primary = &self.devices[device].primary;
        if primary.runtime_must_retain() {
            if !primary.active {
                // After a fault the driver repeats the error, and the runtime calls the device unavailable
                // (fault/reset-after-a-fault).
                self.unharmed().map_err(|code| {
                    if code == SIM_NOT_MODELLED {
                        code
                    } else {
                        DEVICE_UNAVAILABLE
                    }
                })?;
            }
            // It does not report what the system denies to the first context either
            // (refused/file-refused-after-cuinit).
            self.retain_primary(device).map_err(|code| match code {
                NOT_PERMITTED | OPERATING_SYSTEM => DEVICE_UNAVAILABLE,
                code => code,
            })?;
            self.devices[device].primary.runtime_retained = true;
        }
        Ok(self.devices[device].primary_handle)
    }

    /// Returns the context that a runtime call uses: the current one, created again if it was a primary context and is
    /// gone; otherwise the primary context of the thread's device, which becomes current.
    pub fn runtime_context(&mut self, thread: &mut Thread) -> Outcome<ContextOwner> {
        let handle = match thread.current() {
            Some(handle) => {
                let context = self.contexts.get(handle)?;
                if !context.alive {
                    if !context.primary {
                        // The runtime has its own error for it (device/destroyed-while-current-elsewhere).
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
        let owner = self.contexts.owner(handle).ok_or(CONTEXT_IS_DESTROYED)?;
        self.unharmed().map(|()| owner)
    }

    /// Returns the device that is current for the runtime: the current context's, otherwise the one that the thread
    /// chose.
    pub fn runtime_device(&self, thread: &Thread) -> usize {
        let current = thread
            .current()
            .and_then(|handle| self.contexts.get(handle).ok());
        current.map_or(thread.device, |context| context.device)
    }

    /// `cudaSetDevice`: since runtime 12 it creates the context at once; before that it only makes the handle current.
    pub fn set_device(&mut self, device: usize, thread: &mut Thread) -> Outcome {
        let eager = self.machine()?.description.cuda_runtime_version >= SET_DEVICE_EAGER_FROM;
        let outcome = if eager {
            self.runtime_primary(device).map(drop)
        } else {
            Ok(())
        };
        // After a fault the device is selected although its context cannot be created (fault/other-gpu-of-the-process).
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
    use crate::machine::description::{MachineConf, sample::description};
    use crate::machine::sample::unused;
    use crate::model::environment::DriverEnvironment;
    use crate::process::sample::ready;

    #[test]
    fn a_runtime_before_12_selects_a_device_without_a_context() {
        let made = |runtime: i32| {
            let machine = unused(MachineConf {
                cuda_runtime_version: runtime,
                ..description()
            });
            let mut process = SimulatedProcess::new(Phase::Fresh);
            process
                .start(machine, DriverEnvironment::default())
                .unwrap();
            process.set_device(0, &mut Thread::default()).unwrap();
            process.devices[0].primary.active
        };
        assert_eq!(
            [11070, 11080, 12000, 13000].map(made),
            [false, false, true, true]
        );
    }

    #[test]
    fn a_context_that_was_chosen_and_never_made_has_a_device() {
        let (mut process, mut thread) = (ready(), Thread::default());
        thread.set_current(Some(process.devices[1].primary_handle));
        assert_eq!(process.current_device(&thread), Ok(1));
        assert_eq!(process.current(&thread).err(), Some(SIM_NOT_MODELLED));
        process.runtime_context(&mut thread).unwrap();
        process.reset_primary(1);
        assert_eq!(process.current_device(&thread), Ok(1));
        assert_eq!(process.current(&thread).err(), Some(CONTEXT_IS_DESTROYED));
    }
}
