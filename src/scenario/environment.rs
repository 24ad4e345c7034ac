//! The environment variables that a scenario may read, set and remove.

/// The names. Anything else in a worker's environment could run code of its own (`LD_PRELOAD`) or
/// say something about the machine's owner, so a scenario cannot name it.
pub const NAMES: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
    "CUDA_MODULE_DATA_LOADING",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_DISABLE_JIT",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDA_FORCE_PRELOAD_LIBRARIES",
    "CUDA_SCALE_LAUNCH_QUEUES",
    "NVIDIA_VISIBLE_DEVICES",
    "CUDA_ENABLE_MODULE_LAZY_LOADING",
    "CUDA_PREFER_SPINLOCKS_ON_HOST",
];

/// Whether a step's argument `name` is the name of an environment variable.
pub(crate) fn takes_name(call: &str) -> bool {
    matches!(call, "setenv" | "unsetenv" | "environ" | "getenv")
}
