//! The limits of a context: stack, printf buffer, device heap.

use crate::machine::description::MachineConf;
use crate::machine::gpu::SimulatedGpu;
use crate::model::behaviour::{
    HEAP_UNIT_BYTES, LARGEST_UNCUT_HEAP_BYTES, PRINTF_UNIT_BYTES, SMALLEST_HEAP_BYTES,
    STACK_UNIT_BYTES,
};
use crate::model::status::*;

pub const STACK_SIZE: u32 = 0;
pub const PRINTF_FIFO_SIZE: u32 = 1;
pub const MALLOC_HEAP_SIZE: u32 = 2;
pub const DEV_RUNTIME_SYNC_DEPTH: u32 = 3;
const DEV_RUNTIME_PENDING_LAUNCH_COUNT: u32 = 4;

/// Default number of kernel launches by kernels that may wait (limits/sync-depth-is-gone).
const PENDING_LAUNCHES: u64 = 2048;

/// The limits of one context, from its creation to its destruction.
#[derive(Default, Clone, Debug)]
pub struct ContextLimits {
    pub stack_bytes: u64,
    pub printf_fifo_bytes: u64,
    pub malloc_heap_bytes: u64,
    /// `true` if the heap exists in its final size.
    pub heap_fixed: bool,
    /// `true` if the printf buffer exists in its final size.
    pub printf_fixed: bool,
}

impl ContextLimits {
    /// Returns the defaults of a machine.
    pub fn new(description: &MachineConf) -> Self {
        Self {
            stack_bytes: description.stack_bytes,
            printf_fifo_bytes: description.printf_fifo_bytes,
            malloc_heap_bytes: description.malloc_heap_bytes,
            ..Self::default()
        }
    }

    /// Returns a limit, in its own unit.
    pub fn get(&self, which: u32, gpu: &SimulatedGpu) -> Outcome<u64> {
        match which {
            STACK_SIZE => Ok(self.stack_bytes),
            PRINTF_FIFO_SIZE => Ok(self.printf_fifo_bytes),
            MALLOC_HEAP_SIZE => Ok(self.malloc_heap_bytes),
            DEV_RUNTIME_SYNC_DEPTH => Err(no_sync_depth(gpu)),
            DEV_RUNTIME_PENDING_LAUNCH_COUNT => Ok(PENDING_LAUNCHES),
            _ => Err(SIM_NOT_MODELLED),
        }
    }

    /// Sets a limit that allocates no memory, which is any except the stack's.
    pub fn set(&mut self, which: u32, value: u64, gpu: &SimulatedGpu) -> Outcome {
        match which {
            PRINTF_FIFO_SIZE if self.printf_fixed => return Err(INVALID_VALUE),
            PRINTF_FIFO_SIZE => self.printf_fifo_bytes = rounded(value, PRINTF_UNIT_BYTES)?,
            MALLOC_HEAP_SIZE if self.heap_fixed => return Err(INVALID_VALUE),
            MALLOC_HEAP_SIZE if value > LARGEST_UNCUT_HEAP_BYTES => return Err(SIM_NOT_MODELLED),
            MALLOC_HEAP_SIZE => {
                self.malloc_heap_bytes = rounded(value.max(SMALLEST_HEAP_BYTES), HEAP_UNIT_BYTES)?
            }
            DEV_RUNTIME_SYNC_DEPTH => return Err(no_sync_depth(gpu)),
            _ => return Err(SIM_NOT_MODELLED),
        }
        Ok(())
    }
}

/// Rounds a stack size as the driver does.
pub fn rounded_stack(bytes: u64) -> Outcome<u64> {
    rounded(bytes, STACK_UNIT_BYTES)
}

/// Returns the memory that a stack of this size costs in addition to the memory of every context; `None` if it exceeds
/// any memory. A stack is reserved for every thread that can be resident, whether or not it runs.
pub fn stack_charge(
    stack_bytes: u64,
    description: &MachineConf,
    gpu: &SimulatedGpu,
) -> Option<u64> {
    let threads = gpu.sm_count as u64 * gpu.max_threads_per_sm as u64;
    let bytes = stack_bytes
        .saturating_sub(description.stack_bytes)
        .checked_mul(threads)?;
    bytes.checked_next_multiple_of(description.alloc_granularity_bytes)
}

/// Returns the next multiple of a unit.
fn rounded(value: u64, unit: u64) -> Outcome<u64> {
    value.checked_next_multiple_of(unit).ok_or(SIM_NOT_MODELLED)
}

/// Returns the error for the synchronization depth, which was removed in compute capability 9.0; before that it is not
/// modeled.
fn no_sync_depth(gpu: &SimulatedGpu) -> u32 {
    if gpu.capability.0 >= 9 {
        UNSUPPORTED_LIMIT
    } else {
        SIM_NOT_MODELLED
    }
}
