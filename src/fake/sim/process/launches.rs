//! Launches of a process: what is checked, what they take, and what they leave in memory.

use crate::c;
use crate::model::address::{DeviceMemoryKind, Location};
use crate::model::context::ContextOwner;
use crate::model::fault::Fault;
use crate::model::host::HostKind;
use crate::model::launch::{Busy, Launch};
use crate::model::ptx::{PtxEntry, Work};
use crate::model::status::*;
use crate::process::SimulatedProcess;
use std::time::{Duration, Instant};

impl SimulatedProcess {
    /// How many arguments a function or a kernel takes.
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

    /// `cuLaunchKernel`: the kernel must be of the stream's context, whichever is current
    /// (device/launch-on-foreign-stream, device/explicit-stream-without-a-context). A library's kernel is of every
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
        // How streams share connections is not modelled, and neither is what the driver writes to a log of errors.
        if self.environment.connections.is_some() {
            return Err(SIM_NOT_MODELLED);
        }
        let threads = launch.shape.threads();
        let threads = threads.map_err(|it| {
            if c::env(c"CUDA_LOG_FILE").is_some() {
                SIM_NOT_MODELLED
            } else {
                it
            }
        })?;
        let module = self.modules.get(&function.module).ok_or(INVALID_HANDLE)?;
        let entry = module
            .image
            .kernel(&function.name)
            .cloned()
            .ok_or(INVALID_HANDLE)?;
        let (heap, printf, handle) = (
            module.image.uses_heap,
            module.image.uses_printf,
            function.module,
        );
        self.knows(&entry, launch.arguments)?;
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
        let code = match entry.work {
            Work::Fails(code) => Some(code),
            _ => self.reaches(owner, launch.arguments).err(),
        };
        if let Some(code) = code {
            self.fault = Some(Fault {
                code,
                device: owner.device,
                seen: blocking,
            });
            return if blocking { Err(code) } else { Ok(()) };
        }
        self.leaves(&entry, handle, threads, launch.arguments);
        Ok(())
    }

    /// Refuses a kernel that is beyond the model: one that prints, one that uses managed memory, which would move, and
    /// an unclear one without parameters, of which it is not known what memory it uses.
    fn knows(&self, entry: &PtxEntry, arguments: &[u64]) -> Outcome {
        let mut given = arguments.iter().map(|argument| self.location_of(*argument));
        let moves = given.any(|location| matches!(location, Location::Host(HostKind::Managed, _)));
        let unclear = entry.work == Work::Unclear && entry.params == 0;
        if unclear || entry.work == Work::Prints || moves {
            return Err(SIM_NOT_MODELLED);
        }
        Ok(())
    }

    /// Whether a context can reach the memory that its kernel is given. The model assumes that a kernel uses all of it
    /// (fault/foreign-memory-without-peer, fault/peer-access-leaves-out-pools).
    fn reaches(&self, owner: ContextOwner, arguments: &[u64]) -> Outcome {
        let mut given = arguments
            .iter()
            .filter_map(|argument| self.device_memory(*argument));
        let are_reached = given.all(|found| match found.kind {
            DeviceMemoryKind::Plain { context } => {
                found.device == owner.device
                    || self
                        .contexts
                        .get(owner.context)
                        .is_ok_and(|own| own.peers.contains(&context))
            }
            DeviceMemoryKind::Pooled { pool } => {
                found.device == owner.device
                    || self
                        .pools
                        .get(&pool)
                        .is_some_and(|pool| pool.access.contains(&owner.device))
            }
            DeviceMemoryKind::Mapped => self.mappings.is_open_to(found.base, owner.device),
            DeviceMemoryKind::Variable | DeviceMemoryKind::Imported => true,
        });
        if are_reached {
            Ok(())
        } else {
            Err(ILLEGAL_ADDRESS)
        }
    }

    /// Changes the memory as the kernel does. What is in the memory that an unclear kernel was given is not known
    /// afterwards.
    fn leaves(&mut self, entry: &PtxEntry, module: u64, threads: u64, arguments: &[u64]) {
        let variables = self
            .modules
            .get(&module)
            .map(|module| module.variables.clone())
            .unwrap_or_default();
        match &entry.work {
            Work::Changes(changes) => {
                for change in changes {
                    let Some(address) = variables.get(&change.variable) else {
                        continue;
                    };
                    let before = self
                        .contents
                        .word(*address)
                        .filter(|_| change.added.is_some());
                    let more = change.added.unwrap_or(0).wrapping_mul(threads);
                    self.set_word(*address, before.map(|before| before.wrapping_add(more)));
                }
            }
            _ => {
                let given = arguments
                    .iter()
                    .filter_map(|argument| self.device_memory(*argument));
                let bases: Vec<u64> = given
                    .map(|found| found.base)
                    .chain(variables.values().copied())
                    .collect();
                bases.into_iter().for_each(|base| self.set_word(base, None));
            }
        }
    }
}
