//! Status codes of the other libraries by their C names, sorted by code.

use std::ffi::CStr;

/// `nvmlReturn_t`, as `nvml.h` has it; the last one is the simulated driver's own.
pub(super) const NVML: &[(u32, &CStr)] = &[
    (0, c"NVML_SUCCESS"),
    (1, c"NVML_ERROR_UNINITIALIZED"),
    (2, c"NVML_ERROR_INVALID_ARGUMENT"),
    (3, c"NVML_ERROR_NOT_SUPPORTED"),
    (4, c"NVML_ERROR_NO_PERMISSION"),
    (5, c"NVML_ERROR_ALREADY_INITIALIZED"),
    (6, c"NVML_ERROR_NOT_FOUND"),
    (7, c"NVML_ERROR_INSUFFICIENT_SIZE"),
    (8, c"NVML_ERROR_INSUFFICIENT_POWER"),
    (9, c"NVML_ERROR_DRIVER_NOT_LOADED"),
    (10, c"NVML_ERROR_TIMEOUT"),
    (11, c"NVML_ERROR_IRQ_ISSUE"),
    (12, c"NVML_ERROR_LIBRARY_NOT_FOUND"),
    (13, c"NVML_ERROR_FUNCTION_NOT_FOUND"),
    (14, c"NVML_ERROR_CORRUPTED_INFOROM"),
    (15, c"NVML_ERROR_GPU_IS_LOST"),
    (16, c"NVML_ERROR_RESET_REQUIRED"),
    (17, c"NVML_ERROR_OPERATING_SYSTEM"),
    (18, c"NVML_ERROR_LIB_RM_VERSION_MISMATCH"),
    (19, c"NVML_ERROR_IN_USE"),
    (20, c"NVML_ERROR_MEMORY"),
    (21, c"NVML_ERROR_NO_DATA"),
    (22, c"NVML_ERROR_VGPU_ECC_NOT_SUPPORTED"),
    (23, c"NVML_ERROR_INSUFFICIENT_RESOURCES"),
    (24, c"NVML_ERROR_FREQ_NOT_SUPPORTED"),
    (25, c"NVML_ERROR_ARGUMENT_VERSION_MISMATCH"),
    (26, c"NVML_ERROR_DEPRECATED"),
    (27, c"NVML_ERROR_NOT_READY"),
    (28, c"NVML_ERROR_GPU_NOT_FOUND"),
    (29, c"NVML_ERROR_INVALID_STATE"),
    (30, c"NVML_ERROR_RESET_TYPE_NOT_SUPPORTED"),
    (999, c"NVML_ERROR_UNKNOWN"),
    (60000, c"SIM_NOT_MODELLED"),
];

/// `nvrtcResult`.
pub(super) const NVRTC: &[(u32, &CStr)] = &[
    (0, c"NVRTC_SUCCESS"),
    (1, c"NVRTC_ERROR_OUT_OF_MEMORY"),
    (3, c"NVRTC_ERROR_INVALID_INPUT"),
    (4, c"NVRTC_ERROR_INVALID_PROGRAM"),
    (5, c"NVRTC_ERROR_INVALID_OPTION"),
    (6, c"NVRTC_ERROR_COMPILATION"),
    (7, c"NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"),
    (11, c"NVRTC_ERROR_INTERNAL_ERROR"),
];

/// `cublasStatus_t`.
pub(super) const CUBLAS: &[(u32, &CStr)] = &[
    (0, c"CUBLAS_STATUS_SUCCESS"),
    (1, c"CUBLAS_STATUS_NOT_INITIALIZED"),
    (3, c"CUBLAS_STATUS_ALLOC_FAILED"),
    (7, c"CUBLAS_STATUS_INVALID_VALUE"),
    (8, c"CUBLAS_STATUS_ARCH_MISMATCH"),
    (11, c"CUBLAS_STATUS_MAPPING_ERROR"),
    (13, c"CUBLAS_STATUS_EXECUTION_FAILED"),
    (14, c"CUBLAS_STATUS_INTERNAL_ERROR"),
    (15, c"CUBLAS_STATUS_NOT_SUPPORTED"),
];

/// `cufftResult`.
pub(super) const CUFFT: &[(u32, &CStr)] = &[
    (0, c"CUFFT_SUCCESS"),
    (1, c"CUFFT_INVALID_PLAN"),
    (2, c"CUFFT_ALLOC_FAILED"),
    (4, c"CUFFT_INVALID_VALUE"),
    (5, c"CUFFT_INTERNAL_ERROR"),
    (6, c"CUFFT_EXEC_FAILED"),
    (7, c"CUFFT_SETUP_FAILED"),
    (8, c"CUFFT_INVALID_SIZE"),
];

/// `ncclResult_t`.
pub(super) const NCCL: &[(u32, &CStr)] = &[
    (0, c"ncclSuccess"),
    (1, c"ncclUnhandledCudaError"),
    (2, c"ncclSystemError"),
    (3, c"ncclInternalError"),
    (4, c"ncclInvalidArgument"),
    (5, c"ncclInvalidUsage"),
];

/// Results of C library calls, as far as checks test them.
pub(super) const ERRNO: &[(u32, &CStr)] = &[
    (0, c"OK"),
    (1, c"EPERM"),
    (2, c"ENOENT"),
    (3, c"ESRCH"),
    (11, c"EAGAIN"),
    (12, c"ENOMEM"),
    (22, c"EINVAL"),
];
