//! The frameworks that the program knows, each with all of its names.

/// A framework.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Framework {
    /// Its name in the rules of `trace`, for workarounds.
    pub name: &'static str,
    /// The tag of the scenarios about it; `None` if there are none.
    pub tag: Option<&'static str>,
    /// Its Python packages; empty if there are no workarounds for it.
    pub packages: &'static [&'static str],
    /// The words that people use for it, in lower case; empty if `explain` does not know it.
    pub words: &'static [&'static str],
    /// How long an interpreter takes to import it, in milliseconds; `None` stands for [`OTHER_IMPORT_MS`].
    pub import_ms: Option<f64>,
}

/// How long an interpreter takes to import a framework without a time of its own, in milliseconds.
pub const OTHER_IMPORT_MS: f64 = 700.0;

/// A Python framework with scenarios.
const fn asked(
    name: &'static str,
    tag: &'static str,
    packages: &'static [&'static str],
    words: &'static [&'static str],
) -> Framework {
    Framework { name, tag: Some(tag), packages, words, import_ms: None }
}

/// A Python framework without scenarios.
const fn traced(name: &'static str, packages: &'static [&'static str], words: &'static [&'static str]) -> Framework {
    Framework { name, tag: None, packages, words, import_ms: None }
}

impl Framework {
    const fn imported_in(self, ms: f64) -> Framework {
        Framework { import_ms: Some(ms), ..self }
    }
}

/// All frameworks. The times are means of 1,000 attempts on H100 and H200 with PyTorch 2.11 and JAX 0.11, and the mean
/// of the others together: CuPy 14.2, Numba, cuda.core, llama-cpp-python, RMM.
pub const FRAMEWORKS: &[Framework] = &[
    asked("torch", "pytorch", &["torch", "torchvision", "torchaudio"], &["torch", "pytorch", "dataloader", "libtorch"])
        .imported_in(3300.0),
    asked("cupy", "cupy", &["cupy", "cupyx", "cupy_backends"], &["cupy"]),
    asked(
        "jax",
        "jax",
        &["jax", "jaxlib", "jax_plugins", "jax_cuda12_plugin", "jax_cuda13_plugin"],
        &["jax", "jaxlib", "xla_python_client_preallocate"],
    )
    .imported_in(1500.0),
    asked("numba", "numba", &["numba", "numba_cuda"], &["numba"]),
    asked("triton", "triton", &["triton"], &["triton"]).imported_in(3300.0),
    traced("tensorflow", &["tensorflow", "keras"], &["tensorflow"]),
    asked("accelerate", "accelerate", &["accelerate"], &["accelerate", "partialstate"]).imported_in(3300.0),
    asked("transformers", "transformers", &["transformers"], &["transformers", "trainingarguments"])
        .imported_in(3300.0),
    traced("lightning", &["lightning", "pytorch_lightning"], &[]),
    traced("vllm", &["vllm"], &[]),
    asked("cuda.core", "cuda-core", &[], &["cuda.core"]),
    asked("rmm", "rmm", &[], &["rmm", "rapids"]),
    asked("llama_cpp", "llama-cpp-python", &["llama_cpp"], &["llama", "llama_cpp"]),
];

/// The frameworks with workarounds.
pub fn with_packages() -> impl Iterator<Item = &'static Framework> {
    FRAMEWORKS.iter().filter(|framework| !framework.packages.is_empty())
}

/// The framework of a Python package.
pub fn of_package(package: &str) -> Option<&'static Framework> {
    FRAMEWORKS.iter().find(|framework| framework.packages.contains(&package))
}
