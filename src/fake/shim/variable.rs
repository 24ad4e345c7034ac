//! Which environment variables matter: those that the driver, the runtime or a framework on the way to
//! them reads.

/// What their names begin with.
const STARTS: [&[u8]; 6] = [b"CUDA_", b"CUBLAS_", b"NCCL_", b"PYTORCH_", b"XLA_", b"JAX_"];
/// More of them.
const MORE: [&[u8]; 2] = [b"NVIDIA_VISIBLE_DEVICES", b"NVIDIA_TF32_OVERRIDE"];
/// Names that begin so and say where things are, and which; nothing that is measured depends on them.
const NOT: [&[u8]; 6] =
    [b"CUDA_HOME", b"CUDA_PATH", b"CUDA_ROOT", b"CUDA_VERSION", b"NCCL_VERSION", b"CUDA_INJECTION64_PATH"];

/// Whether a variable is one of them. Those of a trace are not.
pub(crate) fn is_of_cuda(name: &[u8]) -> bool {
    let is_one = STARTS.iter().any(|start| name.starts_with(start)) || MORE.contains(&name);
    is_one && !NOT.contains(&name) && !name.starts_with(b"CUDA_PITFALLS_")
}
