//! A kernel that failed: the whole process is done for, on every GPU and in every context (fault/other-gpu-of-the-process,
//! fault/other-context-on-the-gpu). Other processes do not notice (fault/other-process-on-the-gpu).

use crate::model::context::Owner;
use crate::model::process::Process;
use crate::model::status::*;
use crate::model::thread::Thread;

/// What went wrong, and whether anybody was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    pub code: u32,
    pub device: usize,
    /// The host has waited, and was told. Between the launch and that, which calls notice is a matter of time.
    pub seen: bool,
}

impl Process {
    /// What a call in a context answers after a fault: the error that the first wait reported (fault/error-sticks).
    pub fn unharmed(&self) -> Outcome {
        match self.fault {
            None => Ok(()),
            Some(fault) if fault.seen => Err(fault.code),
            Some(_) => Err(SIM_NOT_MODELLED),
        }
    }

    /// What making a context answers after a fault: the driver repeats the error, and the runtime calls the device unavailable
    /// (fault/reset-after-a-fault).
    pub fn may_make_context(&self, by_runtime: bool) -> Outcome {
        self.unharmed().map_err(|code| if by_runtime && code != SIM_NOT_MODELLED { DEVICE_UNAVAILABLE } else { code })
    }

    /// The host is about to wait for a device: a fault there comes to light.
    pub fn surface(&mut self, device: usize) {
        if let Some(fault) = self.fault.as_mut().filter(|fault| fault.device == device) {
            fault.seen = true;
        }
    }

    /// The host is about to wait for a stream.
    pub fn surface_of_stream(&mut self, stream: u64, thread: &Thread) {
        let of_stream = self.streams.get(&stream).map(|stream| stream.owner);
        if let Some(owner) = of_stream.or_else(|| self.owner(thread.current()?)) {
            self.surface(owner.device);
        }
    }

    /// The host waits for the device of a context.
    pub fn wait(&mut self, owner: Owner) -> Outcome {
        self.surface(owner.device);
        self.unharmed()?;
        self.synchronise(owner.device);
        Ok(())
    }
}
