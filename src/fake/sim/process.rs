//! The driver's state in one process: set up once, lost in a forked child.
//!
//! [`SimulatedProcess`] owns the objects, and each object has its own rules. A call that needs several of them is in
//! the file of `process/` that is named after the call's subject.

mod contexts;
mod launches;
mod libraries;
mod mappings;
mod memory;
mod modules;
mod pools;
mod presence;
mod runtime;
mod streams;

use crate::machine::gpu::SimulatedGpu;
use crate::machine::{self, SimulatedMachine};
use crate::model::account::Account;
use crate::model::context::{Context, ContextOwner, Contexts};
use crate::model::device::Device;
use crate::model::environment::DriverEnvironment;
use crate::model::exit;
use crate::model::fault::Fault;
use crate::model::host::HostMemory;
use crate::model::launch::Busy;
use crate::model::library::{Kernel, Library};
use crate::model::mapping::Mappings;
use crate::model::mask::{self, Unusable};
use crate::model::module::{Function, Module};
use crate::model::needs;
use crate::model::pool::PoolMemory;
use crate::model::status::*;
use crate::model::stream::StreamEvent;
use crate::model::thread::Thread;
use std::collections::BTreeMap;

/// The progress of initialization.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Phase {
    #[default]
    Fresh,
    Ready,
    /// `cuInit` found no device to show.
    NoDevice,
    /// `cuInit` rejected the environment: a mask that lists a GPU twice, or an unknown order of devices.
    Refused,
    /// The parent had initialized the driver before it forked this process.
    Forked,
}

impl Phase {
    /// Returns the phase that a forked child starts in, by the number of its parent's phase. The child inherits a
    /// failed initialization, but loses a successful one.
    pub fn in_a_child(parent: u32) -> Self {
        let inherited = [Self::NoDevice, Self::Refused]
            .into_iter()
            .find(|phase| *phase as u32 == parent);
        let initialised = parent == Self::Ready as u32 || parent == Self::Forked as u32;
        inherited.unwrap_or(if initialised {
            Self::Forked
        } else {
            Self::Fresh
        })
    }
}

/// The state of the driver and the runtime, each object by its handle or its address. One lock guards it. No code of
/// the caller runs while it is held.
#[derive(Default)]
pub struct SimulatedProcess {
    pub phase: Phase,
    /// `true` if the runtime found no device; it continues to report that.
    pub runtime_found_none: bool,
    /// Number of devices that the runtime has counted; it remembers the number.
    pub counted: Option<i32>,
    /// The variables that `cuInit` read.
    environment: DriverEnvironment,
    account: Account,
    pub devices: Vec<Device>,
    pub contexts: Contexts,
    streams: BTreeMap<u64, ContextOwner>,
    events: BTreeMap<u64, StreamEvent>,
    modules: BTreeMap<u64, Module>,
    functions: BTreeMap<u64, Function>,
    libraries: BTreeMap<u64, Library>,
    kernels: BTreeMap<u64, Kernel>,
    host: BTreeMap<u64, HostMemory>,
    pooled: BTreeMap<u64, PoolMemory>,
    pub mappings: Mappings,
    presence: presence::Presence,
    fault: Option<Fault>,
    /// Work that was launched since the host last waited.
    busy: Option<Busy>,
    next_handle: u64,
}

impl SimulatedProcess {
    /// Returns a process without a successful `cuInit`.
    pub fn new(phase: Phase) -> Self {
        Self {
            phase,
            next_handle: 0x5100_0000_0000,
            ..Self::default()
        }
    }

    /// `cuInit`, which reads the environment once.
    pub fn init(&mut self) -> Outcome {
        match self.phase {
            Phase::Ready => return Ok(()),
            Phase::Forked => return Err(NOT_INITIALIZED),
            // After a `cuInit` that found no device, the mask is read again. Measured; a `cuInit` after a mask that
            // lists a GPU twice was not measured.
            Phase::NoDevice | Phase::Refused | Phase::Fresh => {}
        }
        needs::check_init()?;
        self.start(
            machine::machine().map_err(no_machine)?,
            DriverEnvironment::read(),
        )?;
        let gpus: Vec<usize> = self.devices.iter().map(|device| device.gpu).collect();
        self.presence.initialize(&gpus);
        exit::register();
        Ok(())
    }

    /// Initializes the driver on a given machine with a given environment.
    pub fn start(
        &mut self,
        machine: &'static SimulatedMachine,
        environment: DriverEnvironment,
    ) -> Outcome {
        let gpus = &machine.description.gpus;
        // A GPU whose file may not be opened is not counted, so a mask never names it.
        let visible =
            mask::device_order(environment.order.as_deref(), gpus).and_then(|mut ordered| {
                ordered.retain(|gpu| needs::may_open(*gpu));
                mask::visible(environment.mask.as_deref(), &ordered, gpus)
            });
        // No memory has been allocated yet: a failed `cuInit` leaves no trace on any GPU.
        let visible = match visible {
            // A `cuInit` after a rejected one, with another environment, is not modeled.
            Ok(_) | Err(Unusable::ShowsNone) if self.phase == Phase::Refused => {
                return Err(SIM_NOT_MODELLED);
            }
            Ok(visible) => visible,
            Err(Unusable::ShowsNone) => {
                self.phase = Phase::NoDevice;
                return Err(NO_DEVICE);
            }
            Err(Unusable::NamesOneTwice | Unusable::UnknownOrder) => {
                self.phase = Phase::Refused;
                return Err(INVALID_DEVICE);
            }
        };
        self.account.open(machine);
        for gpu in &visible {
            self.account.charge(*gpu, gpus[*gpu].init_bytes)?;
        }
        for (ordinal, gpu) in visible.into_iter().enumerate() {
            let primary = self.handle();
            self.devices
                .push(Device::new(&machine.description, ordinal, gpu, primary));
            self.contexts
                .insert(primary, Context::new(ordinal, gpu, true));
        }
        self.environment = environment;
        self.phase = Phase::Ready;
        Ok(())
    }

    /// Returns the machine, or "not initialized": every call that requires `cuInit` starts here.
    pub fn machine(&self) -> Outcome<&'static SimulatedMachine> {
        if self.phase == Phase::Ready {
            self.account.machine()
        } else {
            Err(NOT_INITIALIZED)
        }
    }

    /// Returns the device of an ordinal.
    pub fn device(&self, ordinal: i32) -> Outcome<&Device> {
        self.machine()?;
        self.devices
            .get(usize::try_from(ordinal).map_err(|_| INVALID_DEVICE)?)
            .ok_or(INVALID_DEVICE)
    }

    /// Returns a valid device ordinal as an index.
    pub fn ordinal(&self, ordinal: i32) -> Outcome<usize> {
        self.device(ordinal).map(|_| ordinal as usize)
    }

    /// Returns the GPU of an ordinal.
    pub fn gpu(&self, ordinal: i32) -> Outcome<&'static SimulatedGpu> {
        Ok(self.machine()?.gpu(self.device(ordinal)?.gpu))
    }

    /// Returns `true` if one device reaches another's memory; a device is not its own peer.
    pub fn can_access_peer(&self, device: usize, peer: usize) -> Outcome<bool> {
        let machine = self.machine()?;
        let [one, other] = [device, peer].map(|device| machine.gpu(self.devices[device].gpu));
        Ok(device != peer && one.is_peer_of(other))
    }

    /// Returns the current context as the driver sees it, or error 201 if no context is current, or 709 if it is gone.
    pub fn current(&self, thread: &Thread) -> Outcome<ContextOwner> {
        self.machine()?;
        let handle = thread.current().ok_or(INVALID_CONTEXT)?;
        // The driver's behavior in a context that the runtime chose and has not created yet is not known.
        let never_made = self
            .contexts
            .get(handle)
            .is_ok_and(|context| context.generation == 0);
        let missing = if never_made {
            SIM_NOT_MODELLED
        } else {
            CONTEXT_IS_DESTROYED
        };
        let owner = self.contexts.owner(handle).ok_or(missing)?;
        self.unharmed().map(|()| owner)
    }

    /// Returns the error of a call in a context after a fault: the one that the first wait reported
    /// (fault/error-sticks).
    pub fn unharmed(&self) -> Outcome {
        match self.fault {
            None => Ok(()),
            Some(fault) if fault.seen => Err(fault.code),
            Some(_) => Err(SIM_NOT_MODELLED),
        }
    }

    /// Returns a handle that was never used before. Handles are only numbers.
    fn handle(&mut self) -> u64 {
        self.next_handle += 0x100;
        self.next_handle
    }
}

#[cfg(test)]
pub mod sample {
    use super::{Phase, SimulatedProcess};
    use crate::machine::sample::machine;
    use crate::model::context::ContextOwner;
    use crate::model::environment::DriverEnvironment;

    /// Returns a process that is initialized on its own sample machine, and sees two of its GPUs.
    pub fn ready() -> SimulatedProcess {
        let mut process = SimulatedProcess::new(Phase::Fresh);
        let (mask, order) = (Some(b"0,1".to_vec()), Some(b"PCI_BUS_ID".to_vec()));
        process
            .start(
                machine(),
                DriverEnvironment {
                    mask,
                    order,
                    ..DriverEnvironment::default()
                },
            )
            .unwrap();
        process
    }

    /// Returns the primary context of a device, which is created if necessary.
    pub fn primary(process: &mut SimulatedProcess, device: usize) -> ContextOwner {
        let handle = process.retain_primary(device).unwrap();
        process.contexts.owner(handle).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::sample::machine;

    #[test]
    fn what_comes_after_a_refused_mask_is_not_known() {
        let (machine, mut process) = (machine(), SimulatedProcess::new(Phase::Fresh));
        let mask = |mask: &[u8]| DriverEnvironment {
            mask: Some(mask.to_vec()),
            ..DriverEnvironment::default()
        };
        assert_eq!(process.start(machine, mask(b"0,0")), Err(INVALID_DEVICE));
        assert_eq!(process.start(machine, mask(b"0,0")), Err(INVALID_DEVICE));
        assert_eq!(process.start(machine, mask(b"0")), Err(SIM_NOT_MODELLED));
    }

    #[test]
    fn a_library_without_a_machine_says_so() {
        assert_eq!(
            SimulatedProcess::new(Phase::Fresh).init(),
            Err(FILE_NOT_FOUND)
        );
    }
}
