//! Turns a recording into an observation: the results of one attempt, in the terms of the scenario file.
//!
//! The module is pure; a stored report gives the same observations as the run itself.

mod attempt;
#[doc(hidden)]
pub mod fixture;
mod memory;
mod snapshots;

pub use attempt::observe_attempt;
pub(crate) use attempt::{begun_steps, has_finished};
pub(crate) use memory::noise_limit;
pub use memory::{FALLBACK_EPSILON_BYTES, classify_change};
pub(crate) use snapshots::{baseline_snapshot, difference, own_pids};

use crate::calibration::Calibration;
pub use crate::observation::{
    Hidden, MOST_INIT_BYTES, MemoryObservation, Observation, Shared, StepObservation,
};
use crate::recording::Recording;
use crate::sample::Gpu;

/// The machine's GPUs and their calibrations.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// All calibrations, in the order of time. A GPU that was not calibrated has no entry. A GPU whose co-tenants
    /// changed has several entries.
    pub calibration: &'a [Calibration],
    /// The GPUs in NVML order, which is the order of every snapshot.
    pub gpus: &'a [Gpu],
}

impl<'a> Scene<'a> {
    /// Returns the calibration of a GPU for an attempt: the last one before the attempt began.
    pub fn calibration_of(&self, uuid: &str, recording: &Recording) -> Option<&'a Calibration> {
        let mut of_gpu = self
            .calibration
            .iter()
            .filter(|calibration| calibration.uuid == uuid);
        of_gpu.rfind(|calibration| calibration.at_ns <= recording.started_ns)
    }
    /// Returns `true` if a GPU belongs to the run. If only some GPUs were calibrated, the others belong to another run,
    /// and changes there do not matter.
    pub(crate) fn is_of_the_run(&self, gpu: &Gpu) -> bool {
        self.calibration.is_empty() || self.calibration.iter().any(|known| known.uuid == gpu.uuid)
    }
}
