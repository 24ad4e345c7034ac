//! Names of what the toolkit's libraries return, as their headers have them.

pub(super) const NVRTC: &[(i64, &str)] = &[
    (0, "NVRTC_SUCCESS"),
    (1, "NVRTC_ERROR_OUT_OF_MEMORY"),
    (3, "NVRTC_ERROR_INVALID_INPUT"),
    (4, "NVRTC_ERROR_INVALID_PROGRAM"),
    (5, "NVRTC_ERROR_INVALID_OPTION"),
    (6, "NVRTC_ERROR_COMPILATION"),
    (7, "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"),
    (11, "NVRTC_ERROR_INTERNAL_ERROR"),
];

pub(super) const CUBLAS: &[(i64, &str)] = &[
    (0, "CUBLAS_STATUS_SUCCESS"),
    (1, "CUBLAS_STATUS_NOT_INITIALIZED"),
    (3, "CUBLAS_STATUS_ALLOC_FAILED"),
    (7, "CUBLAS_STATUS_INVALID_VALUE"),
    (8, "CUBLAS_STATUS_ARCH_MISMATCH"),
    (11, "CUBLAS_STATUS_MAPPING_ERROR"),
    (13, "CUBLAS_STATUS_EXECUTION_FAILED"),
    (14, "CUBLAS_STATUS_INTERNAL_ERROR"),
    (15, "CUBLAS_STATUS_NOT_SUPPORTED"),
];

pub(super) const CUFFT: &[(i64, &str)] = &[
    (0, "CUFFT_SUCCESS"),
    (1, "CUFFT_INVALID_PLAN"),
    (2, "CUFFT_ALLOC_FAILED"),
    (4, "CUFFT_INVALID_VALUE"),
    (5, "CUFFT_INTERNAL_ERROR"),
    (6, "CUFFT_EXEC_FAILED"),
    (7, "CUFFT_SETUP_FAILED"),
    (8, "CUFFT_INVALID_SIZE"),
];

pub(super) const NCCL: &[(i64, &str)] = &[
    (0, "ncclSuccess"),
    (1, "ncclUnhandledCudaError"),
    (2, "ncclSystemError"),
    (3, "ncclInternalError"),
    (4, "ncclInvalidArgument"),
    (5, "ncclInvalidUsage"),
];
