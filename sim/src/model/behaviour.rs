//! The rules a measurement may overturn: one constant or one table row each, so that flipping one is a change of one line.

/// After a `cuInit` that found no device: `true` reads the mask again at the next `cuInit`, `false` keeps answering 100.
pub const RETRY_AFTER_NO_DEVICE_REREADS: bool = false;

/// Resetting a primary context leaves the retain count as it was ("resetting does not release").
pub const RESET_KEEPS_RETAIN_COUNT: bool = true;

/// From this runtime version on `cudaSetDevice` initialises the primary context at once.
pub const SET_DEVICE_EAGER_FROM: i32 = 12000;

/// `cuMemFree` without a current context: `true` answers 201, `false` finds the owner by the address.
pub const MEM_FREE_NEEDS_CONTEXT: bool = true;

/// A new stack limit takes its memory (size x multiprocessors x threads) when it is set, not at the next launch.
pub const STACK_CHARGED_AT_SET: bool = true;

/// The largest request that shares a block with others; a larger one has its blocks to itself.
pub const SMALL_REQUEST_BYTES: u64 = 1 << 20;

/// What makes the size of the device heap (and of the printf buffer) final in a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    dead_code,
    reason = "the alternatives are there to be chosen in HEAP_FIXED_BY"
)]
pub enum FixedBy {
    /// Loading a module whose text uses the heap.
    ModuleLoad,
    /// Launching a kernel of such a module.
    Launch,
}

/// The header's rule: the limit may change until a kernel that uses `malloc` or `free` was launched.
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

/// Which runtime call does what before its own work. A call that is not listed needs a context.
pub fn effect_of(call: &str) -> Effect {
    match call {
        "cudaRuntimeGetVersion" => Effect::Nothing,
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
        | "cudaDeviceGetStreamPriorityRange"
        | "cudaGetDeviceProperties"
        | "cudaPointerGetAttributes" => Effect::Init,
        _ => Effect::Context,
    }
}
