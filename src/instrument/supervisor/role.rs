//! Names of the hidden subcommands, in one place.

/// The worker.
pub const WORKER: &str = "__worker";
/// The sampler.
pub const SAMPLER: &str = "__sampler";
/// A command that a run starts.
pub const COMMAND: &str = "__command";
/// The tracer of one row of `survey python`.
pub const TRACER: &str = "__tracer";
/// A process of `doctor`.
pub const EXAMINER: &str = "__examiner";
/// The layout of a stand-in for libcuda.
pub const STAND_IN: &str = "__stand-in";
/// The process that reads the versions of libraries.
pub const VERSIONS: &str = "__versions";
