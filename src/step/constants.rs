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
        ("SIGSTOP", 19),
        ("SIGXFSZ", 25),
        ("SIGSYS", 31),
    ],
};
