//! Which variables `cuInit` reads.

/// The variable that says which GPUs a process sees.
pub const MASK: &str = "CUDA_VISIBLE_DEVICES";

/// The variable that says in which order GPUs are numbered.
pub const ORDER: &str = "CUDA_DEVICE_ORDER";

/// The variables that only `cuInit` reads, so that a later write has no effect. A test compares the list with the
/// survey that measured when each variable is read (docs/surveys/env.md).
pub const READ_BY_CUINIT: [&str; 15] = [
    MASK,
    ORDER,
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_PATH",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_DISABLE_JIT",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_FORCE_JIT",
    "CUDA_FORCE_PRELOAD_LIBRARIES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_MODULE_LOADING",
    "CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION",
    "CUDA_COREDUMP_GENERATION_FLAGS",
    "CUDA_COREDUMP_FILE",
];

/// Whether only `cuInit` reads a variable.
pub fn is_read_by_cuinit(name: &str) -> bool {
    READ_BY_CUINIT.contains(&name)
}
