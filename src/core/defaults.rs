//! Defaults, for what neither a file nor the command line sets, if more than one module needs them.

/// The driver that workers use, as in `--on`.
pub const ON: &str = "cuda";
/// The simulated machine.
pub const MACHINE: &str = "h200-x2";
/// The folder of runs, traces and committed reports.
pub const REPORTS: &str = "reports";
/// The folder of the lock files.
pub const LOCK_FOLDER: &str = "/tmp/cuda-pitfalls-locks";
/// Attempts of each case of a question.
pub const REPEAT: u32 = 5;
/// The most that one step may take, in seconds.
pub const STEP_TIMEOUT_S: u64 = 30;
/// The most that one attempt may take, in seconds.
pub const TIMEOUT_S: u64 = 120;
