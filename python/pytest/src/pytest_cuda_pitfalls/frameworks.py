"""The frameworks, made of scenarios/frameworks.toml by `cargo xtask bless`."""

#: Packages whose own lines are the way to CUDA, and not whose line it is.
PACKAGES = frozenset(
    (
        "torch",
        "torchvision",
        "torchaudio",
        "triton",
        "cuda",
        "nvidia",
        "pynvml",
        "jax",
        "jaxlib",
        "jax_plugins",
        "jax_cuda12_plugin",
        "jax_cuda13_plugin",
        "numba",
        "numba_cuda",
        "cupy",
        "cupyx",
        "cupy_backends",
        "tensorflow",
    )
)
