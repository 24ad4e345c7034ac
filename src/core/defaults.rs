//! Defaults for values that neither a file nor the command line sets, if more than one module needs them.

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
/// Attempts of each row of a survey.
pub const SURVEY_REPEAT: u32 = 3;
/// Attempts of each mask that `survey mask --generate` creates.
pub const GENERATED_REPEAT: u32 = 1;
/// Maximum number of seconds that a row of `survey python` may take.
pub const ROW_TIMEOUT_S: u64 = 60;
/// Maximum disk space that environments of packages take between two of them, as in `--disk`.
pub const ENVIRONMENTS_SIZE: &str = "24GiB";
/// CPUs for each row that `survey python` runs at the same time.
pub const CPUS_PER_JOB: usize = 4;
/// Maximum number of rows that `survey python` runs at the same time.
pub const MOST_JOBS: usize = 16;
/// Maximum time that a run waits for another run on its GPUs, as in `--wait`.
pub const WAIT: &str = "10m";
/// Maximum duration of one step, in seconds.
pub const STEP_TIMEOUT_S: u64 = 30;
/// Maximum duration of one attempt, in seconds.
pub const TIMEOUT_S: u64 = 120;
