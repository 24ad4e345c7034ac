//! The environment variables that a scenario may read, set and remove, and what a misspelt one was meant to be.

use crate::source::diagnostic::nearest_within;

/// The variable with the path of a library that libcuda loads during its initialisation.
pub const INJECTION: &str = "CUDA_INJECTION64_PATH";
/// The name of the injection library. It is in the folder of links that a worker searches first, so the loader finds it
/// by name, and no scenario needs a path of the machine.
pub const INJECTION_LIBRARY: &str = "libcuda_pitfalls_hook.so";
/// The variable whose value the injection library writes into the mask.
pub const INJECTED_MASK: &str = "CUDA_PITFALLS_HOOK_MASK";

/// The names. Other variables in a worker's environment could run foreign code (`LD_PRELOAD`) or reveal something about
/// the machine's owner, so a scenario cannot name them.
pub const NAMES: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
    "CUDA_MODULE_DATA_LOADING",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_CACHE_PATH",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_FORCE_JIT",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_DISABLE_JIT",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDA_FORCE_PRELOAD_LIBRARIES",
    "CUDA_SCALE_LAUNCH_QUEUES",
    "CUDA_LOG_FILE",
    "CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION",
    "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP",
    "CUDA_COREDUMP_GENERATION_FLAGS",
    "CUDA_COREDUMP_FILE",
    "NVIDIA_VISIBLE_DEVICES",
    "CUDA_ENABLE_MODULE_LAZY_LOADING",
    "CUDA_PREFER_SPINLOCKS_ON_HOST",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    INJECTION,
    INJECTED_MASK,
];

/// Further variables that CUDA, its libraries and frameworks read, for which another name may be meant.
const READ_TOO: &[&str] = &[
    "CUDA_MPS_PIPE_DIRECTORY",
    "JAX_PLATFORMS",
    "NCCL_P2P_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NVIDIA_TF32_OVERRIDE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
];

/// The variable that is read where one of this name is not: what one misspelling in ten characters makes of it, or
/// another end of `CUDA_VISIBLE_DEVICES`. `None` for a name that is read itself, and for one that is like none.
pub fn meant_by(name: &str) -> Option<&'static str> {
    let mut read = NAMES.iter().chain(READ_TOO).copied();
    if read.clone().any(|known| known == name) {
        return None;
    }
    // People write CUDA_VISIBLE=0 and CUDA_VISIBLE_GPUS=0, and keep the mask in CUDA_VISIBLE_DEVICES_OLD.
    let is_cut = name.starts_with("CUDA_VISIBLE") && !name.starts_with("CUDA_VISIBLE_DEVICES");
    let near = read.find(|known| nearest_within(name, known.len() / 10, [*known]).is_some());
    near.or(is_cut.then_some("CUDA_VISIBLE_DEVICES"))
}

/// Prefixes of the variables that frameworks read. Variables that decide which code an interpreter runs (`PYTHONPATH`,
/// `LD_LIBRARY_PATH`) have none of these prefixes.
pub const FRAMEWORK_PREFIXES: &[&str] = &[
    "PYTORCH_",
    "TORCH_",
    "XLA_",
    "JAX_",
    "CUPY_",
    "NUMBA_",
    "TRITON_",
    "TF_",
    "HF_",
    "TRANSFORMERS_",
    "ACCELERATE_",
    "NCCL_",
    "RMM_",
    "RAPIDS_",
    "CUDF_",
    "OMP_",
    "MKL_",
    "GGML_",
    "LLAMA_",
    "VLLM_",
    "CUBLAS_",
    "CUDNN_",
    "TOKENIZERS_",
];

/// Variables by which launchers tell each of several processes its part.
pub const LAUNCHER_NAMES: &[&str] =
    &["LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_LOCALID"];

/// Whether a case of Python lines may use this variable in addition to [`NAMES`].
pub fn is_of_a_framework(name: &str) -> bool {
    let in_form = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    in_form
        && (LAUNCHER_NAMES.contains(&name)
            || FRAMEWORK_PREFIXES.iter().any(|prefix| name.len() > prefix.len() && name.starts_with(prefix)))
}

/// A path at which not even root can make, replace or remove a file. A device file would not do: root can put a pipe or
/// a folder in place of `/dev/null`.
const NOWHERE: &str = "/proc/cuda-pitfalls";

/// The only allowed values of a variable that names a file; `None` for other variables. A worker leaves nothing outside
/// its own home.
pub fn values(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "CUDA_LOG_FILE" => Some(&["stdout", "stderr"]),
        "CUDA_CACHE_PATH" | "CUDA_COREDUMP_FILE" => Some(&[NOWHERE]),
        // Our own library, or none.
        INJECTION => Some(&[INJECTION_LIBRARY, NOWHERE]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_names_a_file_has_listed_values() {
        for name in
            NAMES.iter().filter(|name| ["_FILE", "_PATH", "_PIPE", "_DIRECTORY"].iter().any(|end| name.ends_with(end)))
        {
            assert!(values(name).is_some(), "{name}");
        }
        assert_eq!(values("CUDA_CACHE_DISABLE"), None);
    }

    #[test]
    fn a_misspelt_variable_is_known_and_none_that_is_read_or_ones_own() {
        let cases = [
            ("CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICE CUDA_VISIBLE CUDA_VISIBLE_GPUS CUDA_VISBLE_DEVICES"),
            ("CUDA_VISIBLE_DEVICES", "cuda_visible_devices CUDAVISIBLE_DEVICES CUDA-VISIBLE-DEVICES"),
            ("CUDA_DEVICE_ORDER", "CUDA_DEVICES_ORDER"),
            ("CUDA_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCK1NG CUDA_LAUCH_BLOCKING"),
            ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_CUDA_ALOC_CONF PYTORCH_CUDA_ALLOC_CONFIG"),
        ];
        for (meant, names) in cases {
            names.split(' ').for_each(|name| assert_eq!(meant_by(name), Some(meant), "{name}"));
        }
        let own = "CUDA_HOME CUDA_PATH CUDA_ROOT CUDA_VERSION CUDA_PATH_V12_1 CUDA_BIN_PATH CUDA_CACHE_DIR CUDA_DEVICE \
                   CUDA_DEVICES CUDA_ARCH NVIDIA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES \
                   CUDA_VISIBLE_DEVICES_OLD ORIG_CUDA_VISIBLE_DEVICES PYTORCH_HIP_ALLOC_CONF NCCL_PXN_DISABLE \
                   CUDA_COREDUMP_PIPE CUDA_ENABLE_COREDUMP_ON_EXCEPTION NCCL_DEBUG_FILE XLA_FLAGS CUDA_FORCE_PTX_JIT";
        own.split_whitespace().for_each(|name| assert_eq!(meant_by(name), None, "{name}"));
    }

    #[test]
    fn no_variable_of_a_framework_decides_what_an_interpreter_runs() {
        for name in ["PYTORCH_NVML_BASED_CUDA_CHECK", "XLA_FLAGS", "LOCAL_RANK"] {
            assert!(is_of_a_framework(name), "{name}");
        }
        for name in ["PYTHONPATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "HOME", "XLA_", "torch_x", "RANKS"] {
            assert!(!is_of_a_framework(name), "{name}");
        }
    }
}
