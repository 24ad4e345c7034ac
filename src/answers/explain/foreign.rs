//! Accelerators that are not NVIDIA's: what is said of them is none of this program's business.

/// Builds of PyTorch for it keep the names of `torch.cuda`, so these do not speak for CUDA.
const AMD: &str = "AMD's HIP and ROCm";

/// A platform, and the words by which a text names it, in lower case. A word with a mark in it is looked for anywhere,
/// and one that ends in `*` is the start of a word.
const PLATFORMS: [(&str, &[&str]); 11] = [
    (
        AMD,
        &[
            "hip",
            "hipmalloc*",
            "rocm",
            "rocblas",
            "amd gpu",
            "amd card",
            "amd reset",
            "miopen",
            "rccl",
            "amdgpu",
            "radeon",
            "hiperror*",
            "hip_visible_devices",
            "rocr_visible_devices",
            "hsa_override_gfx_version",
            "rocm-smi",
            "rocminfo",
            "amd_serialize_kernel",
            "gfx1100",
            "gfx1030",
            "gfx90a",
            "gfx942",
            "mi300x",
            "mi250",
        ],
    ),
    (
        "Intel's XPU",
        &[
            "xpu",
            "oneapi",
            "sycl",
            "level-zero",
            "ze_result_error",
            "level zero",
            "intel_extension_for_pytorch",
            "ze_affinity_mask",
        ],
    ),
    (
        "Huawei's Ascend NPU",
        &[
            "npu",
            "npusynchronize*",
            "ascend",
            "torch_npu",
            "cann",
            "npu-smi",
            "aclrt*",
            "rtsetdevice",
            "rtgetdevmsg",
            "acl api",
            "davinci",
            "ascend_rt_visible_devices",
        ],
    ),
    (
        "Apple's Metal (MPS)",
        &[
            "torch.mps",
            "torch.backends.mps",
            "mps backend",
            "mps device",
            "mps framework",
            "device='mps'",
            "device=\"mps\"",
            "device type mps",
            "pytorch_enable_mps_fallback",
            "pytorch_mps_high_watermark_ratio",
            "mpsndarray",
            "mlx",
            "mtl*",
            "metal performance shaders",
            "apple silicon",
            "device_name: mps",
        ],
    ),
    ("Apple's Metal", &["metal"]),
    ("Vulkan", &["vulkan", "vkresult", "vkcreatedevice", "vk_error_device_lost"]),
    ("OpenCL", &["opencl", "pyopencl", "clgetplatformids", "clbuildprogram", "clinfo"]),
    ("DirectML", &["directml", "torch_directml", "onnxruntime-directml"]),
    ("Direct3D", &["dxgi_error_device_removed", "d3d12", "d3d11"]),
    ("Google's TPU", &["tpu", "libtpu", "torch_xla"]),
    ("Intel's Gaudi", &["gaudi", "hpu", "habana"]),
];

/// What programs of CUDA say with the name of a platform in it: a server without a hypervisor, and what JAX looks for
/// before it finds CUDA or goes on with the CPU.
const NOT_MEANT: [&str; 6] =
    ["bare metal", "bare-metal", "gpu/tpu", "backend 'tpu'", "backend 'rocm'", "platform with name: 'rocm'"];

/// What only a machine of Apple has: there MPS is Metal, and not NVIDIA's Multi-Process Service.
const APPLE: [&str; 9] = ["apple", "m1", "m2", "m3", "m4", "macos", "macbook", "mac", "metal"];

/// What a text about NVIDIA's CUDA has, whatever else it names.
const CUDA: [&str; 12] = [
    "nvidia",
    "nvml",
    "cuinit",
    "libcuda",
    "cudart",
    "cuda error",
    "cuda_visible_devices",
    "cudaerror",
    "cuda_error",
    "nvidia-smi",
    "cudasetdevice",
    "cuda_mps",
];

/// The platform that a text is about, if it is not CUDA.
pub(super) fn platform(text: &str) -> Option<&'static str> {
    let lower = NOT_MEANT.iter().fold(text.to_lowercase(), |text, words| text.replace(words, " "));
    let words: Vec<&str> = lower.split(|letter: char| !letter.is_alphanumeric()).collect();
    let is_said = |name: &&str| match name.strip_suffix('*') {
        Some(start) => words.iter().any(|word| word.starts_with(start)),
        None if name.contains(|letter: char| !letter.is_alphanumeric()) => lower.contains(*name),
        None => words.contains(name),
    };
    let is_of_apple = words.contains(&"mps") && APPLE.iter().any(is_said);
    let named = PLATFORMS.iter().find(|(_, names)| names.iter().any(is_said)).map(|(name, _)| *name);
    let named = named.or(is_of_apple.then_some("Apple's Metal (MPS)"));
    let is_amd = named == Some(AMD);
    // HIP reads CUDA's mask too.
    let has_cuda = CUDA.iter().any(|word| lower.contains(word) && !(is_amd && *word == "cuda_visible_devices"));
    named.filter(|_| !has_cuda && (is_amd || !words.contains(&"cuda")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_cuda_is_named() {
        for (text, name) in [
            ("HIP error: invalid device function on gfx1100", "AMD's HIP and ROCm"),
            ("torch.cuda.is_available() is False with ROCm 6.1", "AMD's HIP and ROCm"),
            ("RuntimeError: Native API failed on xpu: out of memory", "Intel's XPU"),
            ("torch_npu: set_device failed, ASCEND error 107002", "Huawei's Ascend NPU"),
            ("hipErrorNoBinaryForGpu: Unable to find code object", "AMD's HIP and ROCm"),
            ("npuSynchronizeDevice: aclrtSynchronizeDevice failed, error code is 507018", "Huawei's Ascend NPU"),
            ("torch.mps.empty_cache() does not free memory", "Apple's Metal (MPS)"),
            ("MPS on my MacBook M2 runs out of memory", "Apple's Metal (MPS)"),
            ("RuntimeError: MPS backend out of memory", "Apple's Metal (MPS)"),
            ("ggml_vulkan: device lost", "Vulkan"),
            ("clGetPlatformIDs returns -1001", "OpenCL"),
            ("torch_directml sees no GPU", "DirectML"),
        ] {
            assert_eq!(platform(text), Some(name), "{text}");
        }
    }

    #[test]
    fn what_names_cuda_is_cuda_s() {
        for text in [
            "the MPS daemon of NVIDIA is dead",
            "CUDA_MPS_PIPE_DIRECTORY",
            "MPS client failed to connect to the MPS control daemon or the MPS server",
            "clGetPlatformIDs calls cuInit on NVIDIA",
            "Vulkan and CUDA_VISIBLE_DEVICES number GPUs differently",
            "nvidia-cuda-mps-control: fault of one client of MPS kills the others",
            "torch.cuda.is_available",
            "torch.cuda.is_available() is False on a bare-metal server",
            "WARNING:absl:No GPU/TPU found, falling back to CPU.",
            "Unable to initialize backend 'rocm': NOT_FOUND: Could not find registered platform with name: 'rocm'",
            "the tip of a chip",
        ] {
            assert_eq!(platform(text), None, "{text}");
        }
    }
}
