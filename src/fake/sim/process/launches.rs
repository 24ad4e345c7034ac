//! Launches of a process: their checks, the memory that they allocate, and their effects on memory.

use crate::c;
use crate::model::address::Location;
use crate::model::context::ContextOwner;
use crate::model::fault::Fault;
use crate::model::host::HostKind;
use crate::model::launch::{Busy, Launch};
use crate::model::ptx::{PtxEntry, Work};
use crate::model::status::*;
use crate::process::SimulatedProcess;
use std::time::{Duration, Instant};

impl SimulatedProcess {
    /// Returns the number of arguments of a function or a kernel.
    pub fn parameters(&self, function: u64) -> Outcome<usize> {
        let (image, name) = match (self.functions.get(&function), self.kernels.get(&function)) {
            (Some(found), _) => (
                &self.modules.get(&found.module).ok_or(INVALID_HANDLE)?.image,
                &found.name,
            ),
            (None, Some(kernel)) => (
                &self
                    .libraries
                    .get(&kernel.library)
                    .ok_or(INVALID_HANDLE)?
                    .image,
                &kernel.name,
            ),
            (None, None) => return Err(INVALID_HANDLE),
        };
        image
            .kernel(name)
            .map(|entry| entry.params)
            .ok_or(INVALID_HANDLE)
    }

    /// `cuLaunchKernel`: the kernel must belong to the stream's context, whichever is current
    /// (device/launch-on-foreign-stream, device/explicit-stream-without-a-context). A library's kernel belongs to every
    /// context.
    pub fn launch(
        &mut self,
        kernel: u64,
        launch: Launch,
        current: Outcome<ContextOwner>,
    ) -> Outcome {
        let owner = self.stream_owner(launch.stream, current)?;
        self.unharmed()?;
        let handle = self.function_in(kernel, owner)?;
        let function = self.functions.get(&handle).ok_or(INVALID_HANDLE)?;
        if function.owner != owner {
            return Err(INVALID_HANDLE);
        }
        // The sharing of connections by streams is not modeled, and neither are the driver's entries in a log of
        // errors.
        if self.environment.connections.is_some() {
            return Err(SIM_NOT_MODELLED);
        }
        if !launch.shape.is_valid() {
            return Err(if c::env(c"CUDA_LOG_FILE").is_some() {
                SIM_NOT_MODELLED
            } else {
                INVALID_VALUE
            });
        }
        let module = self.modules.get(&function.module).ok_or(INVALID_HANDLE)?;
        let entry = module
            .image
            .kernel(&function.name)
            .cloned()
            .ok_or(INVALID_HANDLE)?;
        let (heap, printf) = (module.image.uses_heap, module.image.uses_printf);
        self.check_kernel(&entry, owner, launch.arguments)?;
        let context = self.contexts.get_mut(owner.context)?;
        context.grow_stack(&mut self.account, entry.frame_bytes)?;
        context.fix_sizes(&mut self.account, heap, printf)?;
        let blocking = context.blocking;
        if !blocking {
            self.busy = match (&entry.work, launch.arguments) {
                (Work::Spins, [nanoseconds]) => Some(Busy::Until(
                    Instant::now() + Duration::from_nanos(*nanoseconds),
                )),
                _ => Some(Busy::Unknown),
            };
        }
        let Work::Fails(code) = entry.work else {
            return Ok(());
        };
        self.fault = Some(Fault {
            code,
            device: owner.device,
            seen: blocking,
        });
        if blocking { Err(code) } else { Ok(()) }
    }

    /// Rejects a kernel that is beyond the model: one that prints, one with an argument in memory of another device or
    /// in managed memory, which would move, and an unclear one without parameters, which uses unknown memory.
    fn check_kernel(&self, entry: &PtxEntry, owner: ContextOwner, arguments: &[u64]) -> Outcome {
        let is_unclear = entry.work == Work::Unclear && entry.params == 0;
        if is_unclear || entry.work == Work::Prints {
            return Err(SIM_NOT_MODELLED);
        }
        for argument in arguments {
            match self.location_of(*argument) {
                Location::Host(HostKind::Managed, _) => return Err(SIM_NOT_MODELLED),
                Location::Device(device) if device != owner.device => return Err(SIM_NOT_MODELLED),
                _ => {}
            }
        }
        Ok(())
    }
}
