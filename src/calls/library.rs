//! The libraries, and the files they are in.

/// The library of a call, which also decides how its result is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallLibrary {
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

impl CallLibrary {
    /// All libraries.
    pub const ALL: [CallLibrary; 9] = [
        CallLibrary::Driver,
        CallLibrary::Runtime,
        CallLibrary::Nvml,
        CallLibrary::Nvrtc,
        CallLibrary::Cublas,
        CallLibrary::Cufft,
        CallLibrary::Nccl,
        CallLibrary::Libc,
        CallLibrary::Harness,
    ];

    /// The libraries that the simulated driver replaces.
    pub const SIMULATED: [CallLibrary; 3] =
        [CallLibrary::Driver, CallLibrary::Runtime, CallLibrary::Nvml];

    /// The libraries of the toolkit, which nothing simulates.
    pub const TOOLKIT: [CallLibrary; 4] = [
        CallLibrary::Nvrtc,
        CallLibrary::Cublas,
        CallLibrary::Cufft,
        CallLibrary::Nccl,
    ];

    /// Returns the name used in reports, help and schema.
    pub const fn name(self) -> &'static str {
        match self {
            CallLibrary::Driver => "libcuda",
            CallLibrary::Runtime => "libcudart",
            CallLibrary::Nvml => "libnvidia-ml",
            CallLibrary::Nvrtc => "libnvrtc",
            CallLibrary::Cublas => "libcublas",
            CallLibrary::Cufft => "libcufft",
            CallLibrary::Nccl => "libnccl",
            CallLibrary::Libc => "libc",
            CallLibrary::Harness => "harness",
        }
    }

    /// Returns the C type of its results; `None` if the library has no status type.
    pub const fn status_type(self) -> Option<&'static str> {
        match self {
            CallLibrary::Driver => Some("CUresult"),
            CallLibrary::Runtime => Some("cudaError_t"),
            CallLibrary::Nvml => Some("nvmlReturn_t"),
            CallLibrary::Nvrtc => Some("nvrtcResult"),
            CallLibrary::Cublas => Some("cublasStatus_t"),
            CallLibrary::Cufft => Some("cufftResult"),
            CallLibrary::Nccl => Some("ncclResult_t"),
            CallLibrary::Libc | CallLibrary::Harness => None,
        }
    }

    /// Returns every file name that a program may use to open it. A library of the toolkit is opened by the first name,
    /// with or without a version after it.
    pub const fn files(self) -> &'static [&'static str] {
        match self {
            CallLibrary::Driver => &["libcuda.so", "libcuda.so.1"],
            CallLibrary::Runtime => &[
                "libcudart.so",
                "libcudart.so.13",
                "libcudart.so.12",
                "libcudart.so.11.0",
            ],
            CallLibrary::Nvml => &["libnvidia-ml.so", "libnvidia-ml.so.1"],
            CallLibrary::Nvrtc => &["libnvrtc.so"],
            CallLibrary::Cublas => &["libcublas.so"],
            CallLibrary::Cufft => &["libcufft.so"],
            CallLibrary::Nccl => &["libnccl.so.2"],
            CallLibrary::Libc | CallLibrary::Harness => &[],
        }
    }
}
