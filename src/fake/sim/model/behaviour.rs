//! The rules that a measurement may overturn: one constant or one table row each, so that changing one is a change of
//! one line.
//!
//! "Measured" means on 2x NVIDIA H200, driver 580.159.04, with libcudart 11.8, 12.0, 12.9, 13.0 and 13.5. Rules that
//! were not measured come from the documentation, or are a guess.

use std::ffi::CStr;

/// `cuInit` loads the library in this variable, as the loader finds it, and calls this function of it. It does so on
/// the calling thread, once in a process (in a forked child too, unless it was called before the fork), and even if
/// `cuInit` then fails. A missing library, a missing function, and the function's result change nothing. A list of
/// paths does not work as a path. Measured with driver 550.163.01 on a machine without a GPU. Not measured: an empty
/// value, `cuInit` with flags, a library that exists only at a second `cuInit` (here it is called then, if the first
/// one failed), and a function that calls `cuInit` (here it initializes the driver).
pub const INJECTION_VARIABLE: &CStr = c"CUDA_INJECTION64_PATH";
pub const INJECTION_FUNCTION: &CStr = c"InitializeInjection";

/// From this runtime version on `cudaSetDevice` initializes the primary context at once. Measured: 12.0 initializes it,
/// 11.8 does not.
pub const SET_DEVICE_EAGER_FROM: i32 = 12000;

/// From this runtime version on `cudaRuntimeGetVersion` does not initialize the driver. Measured: 11.8 initializes it,
/// 12.0 does not.
pub const RUNTIME_VERSION_QUIET_FROM: i32 = 12000;

/// From this runtime version on `cudaEventElapsedTime` does not create a context. Measured with NULL for the events:
/// 12.9 creates one, 13.0 does not.
pub const EVENT_ELAPSED_TIME_QUIET_FROM: i32 = 13000;

/// From this runtime version on `cudaMemAdvise` creates a context. Measured: 12.4 creates it; 12.3 requires it and does
/// not create it; older ones are not modeled.
pub const MEM_ADVISE_MAKES_CONTEXT_FROM: i32 = 12040;

/// Every visible GPU and every stream needs a channel in a context. The basic memory of a context is enough for two
/// channels. Memory for more is allocated for this many at once, and stays when they are gone. "Channel" is a guess at
/// its purpose. Measured are streams with one visible GPU and with two (memory/streams-cost-memory,
/// device/launch-on-foreign-stream), and one to four visible GPUs without streams
/// (context/peer-copy-makes-one-on-a-third); streams with three or more are not.
pub const CHANNELS_IN_A_CONTEXT: u32 = 2;
pub const CHANNELS_PER_CHARGE: u32 = 4;

/// Modules with variables share a block of this size, which is freed with the last of them. Measured for up to eight
/// (memory/module-load-takes-memory); a module without variables uses no memory. A variable that does not fit gets its
/// own memory: measured for 64 MiB (memory/library-variables-load-late), not for sizes between.
pub const VARIABLES_BYTES: u64 = 2 << 20;

/// Memory that the first module of a context allocates if it prints or has assertions, excluding its variables; 64 and
/// 92 MiB with them. Measured (limits/printf-overflow-loses-lines, fault/code-of-a-fault); the cost of a mixture is not
/// known.
pub const PRINTF_MODULE_BYTES: u64 = 62 << 20;
pub const ASSERT_MODULE_BYTES: u64 = 90 << 20;

/// Limits are rounded up: a stack to 16 bytes, the heap to 64 KiB and at least 4 MiB, the printf buffer to 256 bytes.
/// Measured (limits/limits-are-rounded), the stack's unit as 16 or 32.
pub const STACK_UNIT_BYTES: u64 = 16;
pub const HEAP_UNIT_BYTES: u64 = 64 << 10;
pub const SMALLEST_HEAP_BYTES: u64 = 4 << 20;
pub const PRINTF_UNIT_BYTES: u64 = 256;

/// A heap limit up to this size is not cut. A larger one is cut to about an eighth of the GPU; the exact size is known
/// only for an empty H200 (limits/heap-larger-than-the-gpu).
pub const LARGEST_UNCUT_HEAP_BYTES: u64 = 1 << 30;

/// From this runtime version on `cudaSetDeviceFlags` creates the context. Measured only with 13.0; older ones are not
/// modeled.
pub const SET_FLAGS_MAKES_CONTEXT_FROM: i32 = 13000;

/// The largest request that shares a block with others; a larger one has its own blocks. Measured for 1 MiB, which
/// shares, and for 2 MiB, which does not; sizes between them are not known.
pub const SMALL_REQUEST_BYTES: u64 = 1 << 20;

/// The effect of a runtime call before its own work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallEffect {
    /// Nothing: no driver call at all.
    Nothing,
    /// Runs `cuInit`, but does not report its failure.
    InitQuietly,
    /// Runs `cuInit` and reports its failure.
    Init,
    /// Also creates the primary context of the current device, and makes it current if no context is.
    Context,
    /// The effect in this version is unknown: the call is not modeled.
    Unknown,
}

/// Returns the effect of a runtime call before its own work, in this runtime version. A call that is not listed needs a
/// context.
///
/// Measured without a context are the versions, the two last-error calls, `cudaGetDeviceCount`, `cudaGetDevice`,
/// `cudaSetDevice`, `cudaInitDevice`, `cudaGetDeviceFlags`, `cudaChooseDevice`, the queries of events and those of one
/// device. Measured to create one are `cudaDeviceGetStreamPriorityRange`, `cudaSetDeviceFlags`, `cudaStreamCreate`,
/// `cudaEventCreate`, `cudaDeviceSynchronize`, `cudaStreamQuery`, `cudaStreamSynchronize`, both limit calls,
/// `cudaMalloc`, `cudaFree`, `cudaFreeHost`, `cudaMemGetInfo`, `cudaMemcpy`, `cudaMemcpyAsync`,
/// `cudaThreadExchangeStreamCaptureMode`, `cudaStreamGetDevice`, `cudaMemAdvise` and the log. `cudaMallocAsync` creates
/// one only for a default stream (memory/async-alloc-follows-the-stream).
pub fn effect_of(call: &str, runtime: i32) -> CallEffect {
    match call {
        "cudaRuntimeGetVersion" if runtime >= RUNTIME_VERSION_QUIET_FROM => CallEffect::Nothing,
        "cudaRuntimeGetVersion" => CallEffect::InitQuietly,
        "cudaDriverGetVersion"
        | "cudaGetErrorName"
        | "cudaGetErrorString"
        | "cudaGetLastError"
        | "cudaPeekAtLastError" => CallEffect::InitQuietly,
        "cudaGetDeviceCount"
        | "cudaGetDevice"
        | "cudaSetDevice"
        | "cudaInitDevice"
        | "cudaDeviceReset"
        | "cudaDeviceGetAttribute"
        | "cudaDeviceGetPCIBusId"
        | "cudaDeviceCanAccessPeer"
        | "cudaDeviceGetByPCIBusId"
        | "cudaMallocAsync on an explicit stream"
        | "cudaChooseDevice"
        | "cudaGetDeviceFlags"
        | "cudaEventQuery"
        | "cudaEventSynchronize"
        | "cudaGetDeviceProperties"
        | "cudaPointerGetAttributes" => CallEffect::Init,
        "cudaEventElapsedTime" if runtime >= EVENT_ELAPSED_TIME_QUIET_FROM => CallEffect::Init,
        "cudaMemAdvise" if runtime < MEM_ADVISE_MAKES_CONTEXT_FROM => CallEffect::Unknown,
        "cudaSetDeviceFlags" if runtime < SET_FLAGS_MAKES_CONTEXT_FROM => CallEffect::Unknown,
        _ => CallEffect::Context,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_for_the_runtime_version_initialises_before_12() {
        assert_eq!(
            effect_of("cudaRuntimeGetVersion", 11080),
            CallEffect::InitQuietly
        );
        assert_eq!(
            effect_of("cudaRuntimeGetVersion", 12000),
            CallEffect::Nothing
        );
        assert_eq!(
            effect_of("cudaDriverGetVersion", 13000),
            CallEffect::InitQuietly
        );
        assert_eq!(
            effect_of("cudaDeviceGetStreamPriorityRange", 13000),
            CallEffect::Context
        );
        assert_eq!(effect_of("cudaSetDeviceFlags", 13000), CallEffect::Context);
        assert_eq!(effect_of("cudaSetDeviceFlags", 12000), CallEffect::Unknown);
        assert_eq!(effect_of("cudaEventQuery", 13000), CallEffect::Init);
        assert_eq!(effect_of("cudaMemAdvise", 12030), CallEffect::Unknown);
        assert_eq!(effect_of("cudaMemAdvise", 12040), CallEffect::Context);
    }

    #[test]
    fn the_time_between_two_events_needed_a_context_before_13() {
        assert_eq!(
            effect_of("cudaEventElapsedTime", 12090),
            CallEffect::Context
        );
        assert_eq!(effect_of("cudaEventElapsedTime", 13000), CallEffect::Init);
    }
}
