//! Reasons why a run could not begin or complete.

use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::report::StoreError;
use cuda_pitfalls_instrument::supervisor::{Interrupt, signal_name};

/// Reasons why a run could not begin or complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Internal(String),
    #[error("{0}")]
    NotDurable(#[from] StoreError),
    /// Another run holds a GPU, and the waiting time is over.
    #[error("{0}")]
    Busy(String),
    /// The user stopped the run by this signal.
    #[error("stopped by {0} before anything was measured")]
    Interrupted(String),
    /// A process does not end.
    #[error("{0}")]
    HostUnsafe(String),
}

impl RunError {
    /// Returns the error of a run that the user stopped.
    pub(super) fn stopped_by(interrupt: &Interrupt) -> RunError {
        RunError::Interrupted(interrupt.signal().map(signal_name).unwrap_or_default())
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            RunError::Usage(_) => Exit::Usage,
            RunError::Internal(_) => Exit::Internal,
            RunError::NotDurable(_) => Exit::NotDurable,
            RunError::Busy(_) => Exit::NothingMeasured,
            RunError::Interrupted(signal) => Exit::stopped_by(signal),
            RunError::HostUnsafe(_) => Exit::HostUnsafe,
        }
    }
}
