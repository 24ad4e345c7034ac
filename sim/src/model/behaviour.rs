//! The rules a measurement may overturn: one constant or one table row each, so that flipping one is a change of one line.
//!
//! "Measured" is on 2x NVIDIA H200, driver 580.159.04, with libcudart 11.8, 12.0, 12.9, 13.0 and 13.5. What is not measured stands on
//! the documentation or on nothing better than a guess.

/// After a `cuInit` that failed for its mask: `true` reads the mask again at the next `cuInit`, `false` repeats the first answer. Not
/// measured.
pub const FAILED_INIT_REREADS: bool = false;

/// Resetting a primary context leaves the retain count as it was ("resetting does not release"). Not measured.
pub const RESET_KEEPS_RETAIN_COUNT: bool = true;

/// From this runtime version on `cudaSetDevice` initialises the primary context at once. Measured: 11.8 makes none, 12.0 does.
pub const SET_DEVICE_EAGER_FROM: i32 = 12000;

/// From this runtime version on `cudaRuntimeGetVersion` leaves the driver alone. Measured: 11.8 initialises it, 12.0 does not.
pub const RUNTIME_VERSION_QUIET_FROM: i32 = 12000;

/// `cuMemFree` without a current context: `true` answers 201, `false` finds the owner by the address. Not measured.
pub const MEM_FREE_NEEDS_CONTEXT: bool = true;

/// A new stack limit takes its memory (size x multiprocessors x threads) when it is set, not at the next launch. Not measured.
pub const STACK_CHARGED_AT_SET: bool = true;

/// The largest request that shares a block with others; a larger one has its blocks to itself. Measured for 1 MiB, which shares, and
/// for 2 MiB, which does not; what happens between them is not known.
pub const SMALL_REQUEST_BYTES: u64 = 1 << 20;

/// What makes the size of the device heap (and of the printf buffer) final in a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "the alternatives are there to be chosen in HEAP_FIXED_BY")]
pub enum FixedBy {
    /// Loading a module whose text uses the heap.
    ModuleLoad,
    /// Launching a kernel of such a module.
    Launch,
}

/// The header's rule: the limit may change until a kernel that uses `malloc` or `free` was launched. Measured for the heap, with lazy
/// and with eager loading; not for the printf buffer.
pub const HEAP_FIXED_BY: FixedBy = FixedBy::Launch;

/// What a runtime call does before its own work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing: no driver call at all.
    Nothing,
    /// Runs `cuInit`, but answers whatever came of it.
    InitQuietly,
    /// Runs `cuInit` and reports its failure.
    Init,
    /// Also makes the primary context of the current device, and makes it current when nothing is.
    Context,
}

/// Which runtime call does what before its own work, in a runtime of this version. A call that is not listed needs a context.
///
/// Measured are the versions, the two last-error calls, `cudaGetDeviceCount`, `cudaGetDevice`, `cudaSetDevice`, `cudaGetDeviceFlags`,
/// `cudaChooseDevice`, `cudaDeviceGetStreamPriorityRange` (which makes a context) and the queries of one device.
pub fn effect_of(call: &str, runtime: i32) -> Effect {
    match call {
        "cudaRuntimeGetVersion" if runtime >= RUNTIME_VERSION_QUIET_FROM => Effect::Nothing,
        "cudaRuntimeGetVersion" => Effect::InitQuietly,
        "cudaDriverGetVersion"
        | "cudaGetErrorName"
        | "cudaGetErrorString"
        | "cudaGetLastError"
        | "cudaPeekAtLastError" => Effect::InitQuietly,
        "cudaGetDeviceCount"
        | "cudaGetDevice"
        | "cudaSetDevice"
        | "cudaInitDevice"
        | "cudaDeviceReset"
        | "cudaDeviceGetAttribute"
        | "cudaDeviceGetPCIBusId"
        | "cudaDeviceCanAccessPeer"
        | "cudaDeviceGetDefaultMemPool"
        | "cudaMemPoolSetAttribute"
        | "cudaMemPoolGetAttribute"
        | "cudaMemPoolTrimTo"
        | "cudaChooseDevice"
        | "cudaGetDeviceFlags"
        | "cudaSetDeviceFlags"
        | "cudaGetDeviceProperties"
        | "cudaPointerGetAttributes" => Effect::Init,
        _ => Effect::Context,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_for_the_runtime_version_initialises_before_12() {
        assert_eq!(effect_of("cudaRuntimeGetVersion", 11080), Effect::InitQuietly);
        assert_eq!(effect_of("cudaRuntimeGetVersion", 12000), Effect::Nothing);
        assert_eq!(effect_of("cudaDriverGetVersion", 13000), Effect::InitQuietly);
        assert_eq!(effect_of("cudaDeviceGetStreamPriorityRange", 13000), Effect::Context);
    }
}
