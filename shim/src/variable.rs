//! Which environment variables matter: those that the driver, the runtime or a framework on the way to
//! them reads.

/// What their names begin with.
const STARTS: [&[u8]; 7] = [b"CUDA_", b"NVIDIA_", b"CUBLAS_", b"NCCL_", b"PYTORCH_", b"XLA_", b"JAX_"];

/// Whether a variable is one of them. Those of a trace are not.
pub(crate) fn is_of_cuda(name: &[u8]) -> bool {
    STARTS.iter().any(|start| name.starts_with(start))
        && !name.starts_with(b"CUDA_PITFALLS_")
        && name != b"CUDA_INJECTION64_PATH"
}
