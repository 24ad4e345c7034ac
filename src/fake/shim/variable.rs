//! The environment variables that matter: those that the driver, the runtime or a framework on the way to them reads.

/// The prefixes of their names.
const STARTS: [&[u8]; 8] = [
    b"CUDA_",
    b"CUBLAS_",
    b"NCCL_",
    b"PYTORCH_",
    b"XLA_",
    b"JAX_",
    b"TF_FORCE_GPU_ALLOW_GROWTH",
    b"NVIDIA_TF32_OVERRIDE",
];
/// Parts of a mask's name, also of a misspelled one: the name contains one of these.
const MASK: [&[&[u8]]; 3] = [&[b"VISIBLE"], &[b"CUDA", b"DEVICE"], &[b"CUDA", b"GPU"]];
/// Prefixes of variables with locations and identifiers; no measurement depends on them.
const NOT: [&[u8]; 6] = [
    b"CUDA_HOME",
    b"CUDA_PATH",
    b"CUDA_ROOT",
    b"CUDA_VERSION",
    b"NCCL_VERSION",
    b"CUDA_INJECTION64_PATH",
];

/// Returns `true` if a variable is one of them. The variables of a trace are not.
pub(crate) fn is_of_cuda(name: &[u8]) -> bool {
    let is_mask = MASK
        .iter()
        .any(|words| words.iter().all(|word| has_word(name, word)));
    let is_one = is_mask || STARTS.iter().any(|start| name.starts_with(start));
    is_one && !NOT.contains(&name) && !name.starts_with(b"CUDA_PITFALLS_")
}

fn has_word(name: &[u8], word: &[u8]) -> bool {
    name.windows(word.len())
        .any(|part| part.eq_ignore_ascii_case(word))
}
