//! The errors of the supervisor.

/// Maximum duration of a library call when the library's version is read, in milliseconds.
pub(super) const CALL_LIMIT_MS: u64 = 30_000;

/// The reason why an attempt could not be made or completed.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// Libraries or symbols that the steps need were not found.
    #[error("missing: {}", .0.join(", "))]
    Missing(Vec<String>),
    /// A system call failed.
    #[error("a system call failed: {0}")]
    System(String),
    /// Processes cannot be watched here.
    #[error("no process can be watched here: {0}")]
    Unwatched(String),
    /// A process of the run sent an invalid message.
    #[error("{0}")]
    Protocol(String),
    /// A library call does not return.
    #[error(
        "{0} did not return within {seconds} s; run `cuda-pitfalls doctor` for the cause",
        seconds = CALL_LIMIT_MS / 1000
    )]
    Stuck(String),
    /// The sampler is lost.
    #[error("the sampler was lost: {0}")]
    Sampler(String),
    /// A process could not be ended, so the host must not be used further.
    #[error("process {0} could not be killed")]
    Unkillable(u32),
}

impl SupervisorError {
    /// Returns an error of the system.
    pub fn from_system(error: std::io::Error) -> SupervisorError {
        SupervisorError::System(error.to_string())
    }
}
