//! A launch of a kernel, and the duration of its work.

use crate::model::status::{NOT_READY, Outcome, SIM_NOT_MODELLED};
use std::time::Instant;

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
}

/// A launch as its caller requests it.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    pub shape: Shape,
    pub stream: u64,
    /// The arguments, eight bytes each.
    pub arguments: &'a [u64],
}

/// Work that was launched but not waited for.
#[derive(Clone, Copy, Debug)]
pub enum Busy {
    /// A kernel that runs until then.
    Until(Instant),
    /// Kernels with an unknown duration.
    Unknown,
}

impl Shape {
    /// Returns `true` if a launch may have this size: at least one thread, and at most 1,024 in a block.
    pub fn is_valid(&self) -> bool {
        let sides = self.block.iter().map(|side| u64::from(*side));
        !self.grid.contains(&0) && (1..=1024).contains(&sides.product::<u64>())
    }
}

impl Busy {
    /// Returns success if the work is done (process/env-launch-blocking). The host's own waits return at once in any
    /// case.
    pub fn is_idle(self) -> Outcome {
        match self {
            Self::Until(end) if Instant::now() < end => Err(NOT_READY),
            Self::Until(_) => Ok(()),
            Self::Unknown => Err(SIM_NOT_MODELLED),
        }
    }
}
