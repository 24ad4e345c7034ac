//! Integers that have names in a C header: a scenario may write either.

/// A named set of C constants.
#[derive(Debug)]
pub struct Constants {
    /// The C type.
    pub name: &'static str,
    /// The names and their values, in header order.
    pub values: &'static [(&'static str, i64)],
}

impl Constants {
    /// The value of a C name.
    pub fn value(&self, name: &str) -> Option<i64> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// `cudaLimit`, `driver_types.h`.
pub static CUDA_LIMIT: Constants = Constants {
    name: "cudaLimit",
    values: &[
        ("cudaLimitStackSize", 0),
        ("cudaLimitPrintfFifoSize", 1),
        ("cudaLimitMallocHeapSize", 2),
        ("cudaLimitDevRuntimeSyncDepth", 3),
        ("cudaLimitDevRuntimePendingLaunchCount", 4),
        ("cudaLimitMaxL2FetchGranularity", 5),
        ("cudaLimitPersistingL2CacheSize", 6),
    ],
};

/// `CUlimit`, `cuda.h`.
pub static CU_LIMIT: Constants = Constants {
    name: "CUlimit",
    values: &[
        ("CU_LIMIT_STACK_SIZE", 0),
        ("CU_LIMIT_PRINTF_FIFO_SIZE", 1),
        ("CU_LIMIT_MALLOC_HEAP_SIZE", 2),
        ("CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH", 3),
        ("CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT", 4),
        ("CU_LIMIT_MAX_L2_FETCH_GRANULARITY", 5),
        ("CU_LIMIT_PERSISTING_L2_CACHE_SIZE", 6),
    ],
};

/// The attributes scenarios ask for, `cudaDeviceAttr` and `CUdevice_attribute` alike.
pub static DEVICE_ATTRIBUTE: Constants = Constants {
    name: "cudaDeviceAttr",
    values: &[
        ("cudaDevAttrMultiProcessorCount", 16),
        ("cudaDevAttrComputeMode", 20),
        ("cudaDevAttrPciBusId", 33),
        ("cudaDevAttrComputeCapabilityMajor", 75),
        ("cudaDevAttrComputeCapabilityMinor", 76),
        ("cudaDevAttrManagedMemory", 83),
        ("cudaDevAttrConcurrentManagedAccess", 89),
        ("cudaDevAttrMemoryPoolsSupported", 115),
    ],
};

/// Flags of `cudaHostAlloc`.
pub static HOST_ALLOC: Constants = Constants {
    name: "cudaHostAlloc flags",
    values: &[
        ("cudaHostAllocDefault", 0),
        ("cudaHostAllocPortable", 1),
        ("cudaHostAllocMapped", 2),
        ("cudaHostAllocWriteCombined", 4),
    ],
};

/// Flags of `cudaMallocManaged`.
pub static MEM_ATTACH: Constants =
    Constants { name: "cudaMallocManaged flags", values: &[("cudaMemAttachGlobal", 1), ("cudaMemAttachHost", 2)] };

/// Flags of a context or of a device in the runtime.
pub static SCHEDULE: Constants = Constants {
    name: "CUctx_flags",
    values: &[
        ("CU_CTX_SCHED_AUTO", 0),
        ("CU_CTX_SCHED_SPIN", 1),
        ("CU_CTX_SCHED_YIELD", 2),
        ("CU_CTX_SCHED_BLOCKING_SYNC", 4),
        ("cudaDeviceScheduleAuto", 0),
        ("cudaDeviceScheduleSpin", 1),
        ("cudaDeviceScheduleYield", 2),
        ("cudaDeviceScheduleBlockingSync", 4),
    ],
};

/// `cudaMemPoolAttr` with 64-bit values.
pub static MEM_POOL_ATTRIBUTE: Constants = Constants {
    name: "cudaMemPoolAttr",
    values: &[
        ("cudaMemPoolAttrReleaseThreshold", 4),
        ("cudaMemPoolAttrReservedMemCurrent", 5),
        ("cudaMemPoolAttrReservedMemHigh", 6),
        ("cudaMemPoolAttrUsedMemCurrent", 7),
        ("cudaMemPoolAttrUsedMemHigh", 8),
    ],
};

/// `CUmem_advise`, `cuda.h`.
pub static MEM_ADVISE: Constants = Constants {
    name: "CUmem_advise",
    values: &[
        ("CU_MEM_ADVISE_SET_READ_MOSTLY", 1),
        ("CU_MEM_ADVISE_UNSET_READ_MOSTLY", 2),
        ("CU_MEM_ADVISE_SET_PREFERRED_LOCATION", 3),
        ("CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION", 4),
        ("CU_MEM_ADVISE_SET_ACCESSED_BY", 5),
        ("CU_MEM_ADVISE_UNSET_ACCESSED_BY", 6),
    ],
};

/// `CUpointer_attribute`, `cuda.h`.
pub static POINTER_ATTRIBUTE: Constants = Constants {
    name: "CUpointer_attribute",
    values: &[
        ("CU_POINTER_ATTRIBUTE_CONTEXT", 1),
        ("CU_POINTER_ATTRIBUTE_MEMORY_TYPE", 2),
        ("CU_POINTER_ATTRIBUTE_IS_MANAGED", 8),
        ("CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL", 9),
        ("CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE", 10),
        ("CU_POINTER_ATTRIBUTE_MAPPED", 13),
        ("CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE", 17),
    ],
};

/// `cudaFuncCache` and `CUfunc_cache`.
pub static FUNC_CACHE: Constants = Constants {
    name: "cudaFuncCache",
    values: &[
        ("cudaFuncCachePreferNone", 0),
        ("cudaFuncCachePreferShared", 1),
        ("cudaFuncCachePreferL1", 2),
        ("cudaFuncCachePreferEqual", 3),
    ],
};

/// `cudaSharedMemConfig` and `CUsharedconfig`.
pub static SHARED_MEM_CONFIG: Constants = Constants {
    name: "cudaSharedMemConfig",
    values: &[
        ("cudaSharedMemBankSizeDefault", 0),
        ("cudaSharedMemBankSizeFourByte", 1),
        ("cudaSharedMemBankSizeEightByte", 2),
    ],
};

/// `cudaDeviceP2PAttr` and `CUdevice_P2PAttribute`.
pub static P2P_ATTRIBUTE: Constants = Constants {
    name: "cudaDeviceP2PAttr",
    values: &[
        ("cudaDevP2PAttrPerformanceRank", 1),
        ("cudaDevP2PAttrAccessSupported", 2),
        ("cudaDevP2PAttrNativeAtomicSupported", 3),
        ("cudaDevP2PAttrCudaArrayAccessSupported", 4),
    ],
};

/// `cudaGraphMemAttributeType` and `CUgraphMem_attribute`.
pub static GRAPH_MEM_ATTRIBUTE: Constants = Constants {
    name: "cudaGraphMemAttributeType",
    values: &[
        ("cudaGraphMemAttrUsedMemCurrent", 0),
        ("cudaGraphMemAttrUsedMemHigh", 1),
        ("cudaGraphMemAttrReservedMemCurrent", 2),
        ("cudaGraphMemAttrReservedMemHigh", 3),
    ],
};

/// `cudaStreamCaptureMode` and `CUstreamCaptureMode`.
pub static STREAM_CAPTURE_MODE: Constants = Constants {
    name: "cudaStreamCaptureMode",
    values: &[
        ("cudaStreamCaptureModeGlobal", 0),
        ("cudaStreamCaptureModeThreadLocal", 1),
        ("cudaStreamCaptureModeRelaxed", 2),
    ],
};

/// `cudaMemRangeAttribute` and `CUmem_range_attribute`, those of one word.
pub static MEM_RANGE_ATTRIBUTE: Constants = Constants {
    name: "cudaMemRangeAttribute",
    values: &[
        ("cudaMemRangeAttributeReadMostly", 1),
        ("cudaMemRangeAttributePreferredLocation", 2),
        ("cudaMemRangeAttributeLastPrefetchLocation", 4),
    ],
};

/// `cudaDevResourceType` and `CUdevResourceType`.
pub static DEV_RESOURCE_TYPE: Constants = Constants {
    name: "cudaDevResourceType",
    values: &[
        ("cudaDevResourceTypeSm", 1),
        ("cudaDevResourceTypeWorkqueueConfig", 1000),
        ("cudaDevResourceTypeWorkqueue", 10000),
    ],
};

/// `cudaFuncAttribute`, and of `CUfunction_attribute` what can only be read.
pub static FUNC_ATTRIBUTE: Constants = Constants {
    name: "cudaFuncAttribute",
    values: &[
        ("CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK", 0),
        ("CU_FUNC_ATTRIBUTE_NUM_REGS", 4),
        ("cudaFuncAttributeMaxDynamicSharedMemorySize", 8),
        ("cudaFuncAttributePreferredSharedMemoryCarveout", 9),
        ("cudaFuncAttributeNonPortableClusterSizeAllowed", 14),
    ],
};

/// What a worker may open with `dlopen`, by place in this list.
pub static LIBRARY_FILES: Constants = Constants {
    name: "library file",
    values: &[
        ("libcuda.so.1", 0),
        ("libcudart.so", 1),
        ("libnvidia-ml.so.1", 2),
        ("libnvrtc.so", 3),
        ("libcublas.so", 4),
        ("libcufft.so", 5),
        ("libnccl.so.2", 6),
    ],
};

/// Streams that need not be made, `driver_types.h`.
pub static BUILT_IN_STREAMS: Constants =
    Constants { name: "stream", values: &[("NULL", 0), ("cudaStreamLegacy", 1), ("cudaStreamPerThread", 2)] };

/// Signals by their Linux numbers (x86-64 and aarch64).
pub static SIGNALS: Constants = Constants {
    name: "signal",
    values: &[
        ("SIGHUP", 1),
        ("SIGINT", 2),
        ("SIGQUIT", 3),
        ("SIGILL", 4),
        ("SIGABRT", 6),
        ("SIGBUS", 7),
        ("SIGFPE", 8),
        ("SIGKILL", 9),
        ("SIGUSR1", 10),
        ("SIGSEGV", 11),
        ("SIGPIPE", 13),
        ("SIGTERM", 15),
        ("SIGCONT", 18),
        ("SIGSTOP", 19),
        ("SIGXFSZ", 25),
        ("SIGSYS", 31),
    ],
};
