//! Accelerators other than NVIDIA's. This program does not answer texts about them.

use std::sync::LazyLock;

use serde::Deserialize;

/// Other platforms, from `scenarios/platforms.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlatformFile {
    not_meant: Vec<String>,
    apple: Vec<String>,
    cuda: Vec<String>,
    platform: Vec<Platform>,
}

/// A platform, and the words that identify it in a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Platform {
    name: String,
    words: Vec<String>,
    /// `true` if software built for the platform keeps CUDA's names.
    #[serde(default)]
    keeps_cuda_names: bool,
}

/// The platforms file. It is empty if it cannot be parsed; the tests rule that out.
static FILE: LazyLock<PlatformFile> =
    LazyLock::new(|| toml::from_str(cuda_pitfalls_scenarios::PLATFORMS).unwrap_or_default());

/// Returns the platform that a text is about, if it is not CUDA.
pub(super) fn foreign_platform(text: &str) -> Option<&'static str> {
    let lower = FILE
        .not_meant
        .iter()
        .fold(text.to_lowercase(), |text, words| {
            text.replace(words.as_str(), " ")
        });
    let words: Vec<&str> = lower
        .split(|letter: char| !letter.is_alphanumeric())
        .collect();
    let is_said = |name: &String| match name.strip_suffix('*') {
        Some(start) => words.iter().any(|word| word.starts_with(start)),
        None if name.contains(|letter: char| !letter.is_alphanumeric()) => {
            lower.contains(name.as_str())
        }
        None => words.contains(&name.as_str()),
    };
    let named = FILE
        .platform
        .iter()
        .find(|platform| platform.words.iter().any(is_said));
    let keeps_cuda_names = named.is_some_and(|platform| platform.keeps_cuda_names);
    // HIP reads CUDA's mask too.
    let mut of_cuda = FILE
        .cuda
        .iter()
        .filter(|word| !(keeps_cuda_names && *word == "cuda_visible_devices"));
    let has_cuda = of_cuda.any(|word| lower.contains(word.as_str()));
    let has_cuda = has_cuda || !keeps_cuda_names && words.contains(&"cuda");
    let is_of_apple = words.contains(&"mps") && FILE.apple.iter().any(is_said);
    let named = named
        .map(|platform| platform.name.as_str())
        .or(is_of_apple.then_some("Apple's Metal (MPS)"));
    if has_cuda { None } else { named }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_cuda_is_named() {
        for (text, name) in [
            (
                "HIP error: invalid device function on gfx1100",
                "AMD's HIP and ROCm",
            ),
            (
                "torch.cuda.is_available() is False with ROCm 6.1",
                "AMD's HIP and ROCm",
            ),
            (
                "RuntimeError: Native API failed on xpu: out of memory",
                "Intel's XPU",
            ),
            (
                "torch_npu: set_device failed, ASCEND error 107002",
                "Huawei's Ascend NPU",
            ),
            (
                "hipErrorNoBinaryForGpu: Unable to find code object",
                "AMD's HIP and ROCm",
            ),
            (
                "npuSynchronizeDevice: aclrtSynchronizeDevice failed, error code is 507018",
                "Huawei's Ascend NPU",
            ),
            (
                "torch.mps.empty_cache() does not free memory",
                "Apple's Metal (MPS)",
            ),
            (
                "MPS on my MacBook M2 runs out of memory",
                "Apple's Metal (MPS)",
            ),
            (
                "RuntimeError: MPS backend out of memory",
                "Apple's Metal (MPS)",
            ),
            ("ggml_vulkan: device lost", "Vulkan"),
            ("clGetPlatformIDs returns -1001", "OpenCL"),
            ("torch_directml sees no GPU", "DirectML"),
        ] {
            assert_eq!(foreign_platform(text), Some(name), "{text}");
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
            assert_eq!(foreign_platform(text), None, "{text}");
        }
    }
}
