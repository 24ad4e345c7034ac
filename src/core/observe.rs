//! Events and samples → observation: what one attempt showed, in the file's own words.
//!
//! Pure, and the same from a stored report as from a run.

mod attempt;
#[doc(hidden)]
pub mod fixture;
mod memory;
mod sweeps;

pub use attempt::observe;
pub(crate) use attempt::{begun, finished};
pub(crate) use memory::epsilon;
pub use memory::{FALLBACK_EPSILON_BYTES, classify};
pub(crate) use sweeps::{baseline, difference, own_pids};

use crate::calibration::Calibration;
pub use crate::observation::{Hidden, MOST_INIT_BYTES, MemoryObservation, Observation, Shared, StepObservation};
use crate::recording::Recording;
use crate::sample::Gpu;

/// What is known about the machine's GPUs beside the attempts.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// What the instrument was found to measure, in the order of time. A GPU that was not calibrated
    /// has no entry; one whose co-tenants changed has several.
    pub calibration: &'a [Calibration],
    /// The GPUs in NVML order, which is the order of every sweep.
    pub gpus: &'a [Gpu],
}

impl<'a> Scene<'a> {
    /// The calibration of a GPU that holds for an attempt: the last one taken before it began.
    pub fn calibration_of(&self, uuid: &str, recording: &Recording) -> Option<&'a Calibration> {
        let mut of_gpu = self.calibration.iter().filter(|calibration| calibration.uuid == uuid);
        of_gpu.rfind(|calibration| calibration.at_ns <= recording.started_ns)
    }
}
