//! The libraries, and the files they are in.

/// Where a call's function lives, which also decides how its result is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Library {
    /// `libcuda.so.1`; results are `CUresult`.
    Driver,
    /// `libcudart.so.*`; results are `cudaError_t`.
    Runtime,
    /// `libnvidia-ml.so.1`; results are `nvmlReturn_t`.
    Nvml,
    /// `libnvrtc` of the toolkit; results are `nvrtcResult`.
    Nvrtc,
    /// `libcublas`; results are `cublasStatus_t`.
    Cublas,
    /// `libcufft`; results are `cufftResult`.
    Cufft,
    /// `libnccl`; results are `ncclResult_t`.
    Nccl,
    /// The C library; a result below 0 means `errno`.
    Libc,
    /// An action of the worker itself (threads, processes, direct writes to `environ`).
    Harness,
}

impl Library {
    /// All of them.
    pub const ALL: [Library; 9] = [
        Library::Driver,
        Library::Runtime,
        Library::Nvml,
        Library::Nvrtc,
        Library::Cublas,
        Library::Cufft,
        Library::Nccl,
        Library::Libc,
        Library::Harness,
    ];

    /// Those that the simulated driver stands for.
    pub const SIMULATED: [Library; 3] = [Library::Driver, Library::Runtime, Library::Nvml];

    /// Those that come with the toolkit, and that nothing simulates.
    pub const TOOLKIT: [Library; 4] = [Library::Nvrtc, Library::Cublas, Library::Cufft, Library::Nccl];

    /// The name used in reports, help and schema.
    pub const fn name(self) -> &'static str {
        match self {
            Library::Driver => "libcuda",
            Library::Runtime => "libcudart",
            Library::Nvml => "libnvidia-ml",
            Library::Nvrtc => "libnvrtc",
            Library::Cublas => "libcublas",
            Library::Cufft => "libcufft",
            Library::Nccl => "libnccl",
            Library::Libc => "libc",
            Library::Harness => "harness",
        }
    }

    /// The C type of its results; none where they are no status of its own.
    pub const fn status_type(self) -> Option<&'static str> {
        match self {
            Library::Driver => Some("CUresult"),
            Library::Runtime => Some("cudaError_t"),
            Library::Nvml => Some("nvmlReturn_t"),
            Library::Nvrtc => Some("nvrtcResult"),
            Library::Cublas => Some("cublasStatus_t"),
            Library::Cufft => Some("cufftResult"),
            Library::Nccl => Some("ncclResult_t"),
            Library::Libc | Library::Harness => None,
        }
    }

    /// Every file name under which a program may open it. A toolkit's library is opened by the first,
    /// or by that with a version behind it.
    pub const fn files(self) -> &'static [&'static str] {
        match self {
            Library::Driver => &["libcuda.so", "libcuda.so.1"],
            Library::Runtime => &["libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"],
            Library::Nvml => &["libnvidia-ml.so", "libnvidia-ml.so.1"],
            Library::Nvrtc => &["libnvrtc.so"],
            Library::Cublas => &["libcublas.so"],
            Library::Cufft => &["libcufft.so"],
            Library::Nccl => &["libnccl.so.2"],
            Library::Libc | Library::Harness => &[],
        }
    }
}
