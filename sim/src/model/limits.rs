//! The limits of a context: stack, printf buffer, device heap.

use crate::model::behaviour::{
    HEAP_UNIT_BYTES, LARGEST_UNCUT_HEAP_BYTES, PERSISTING_L2_UNIT_BYTES, PRINTF_UNIT_BYTES, SMALLEST_HEAP_BYTES,
    STACK_CHARGED_AT_SET, STACK_UNIT_BYTES,
};
use crate::model::context::Owner;
use crate::model::machine::Machine;
use crate::model::process::Process;
use crate::model::status::*;

pub const STACK_SIZE: u32 = 0;
pub const PRINTF_FIFO_SIZE: u32 = 1;
pub const MALLOC_HEAP_SIZE: u32 = 2;
const DEV_RUNTIME_SYNC_DEPTH: u32 = 3;
const DEV_RUNTIME_PENDING_LAUNCH_COUNT: u32 = 4;
const MAX_L2_FETCH_GRANULARITY: u32 = 5;
const PERSISTING_L2_CACHE_SIZE: u32 = 6;

/// Launches of a kernel by kernels that may wait: the default (limits/sync-depth-is-gone).
const PENDING_LAUNCHES: u64 = 2048;
/// The largest granularity there is; a smaller one is taken as it is (limits/limits-are-rounded).
const LARGEST_FETCH_BYTES: u64 = 128;

/// The limits of one context in one life.
#[derive(Default, Clone, Debug)]
pub struct Limits {
    pub stack_bytes: u64,
    pub printf_fifo_bytes: u64,
    pub malloc_heap_bytes: u64,
    /// What was set; the defaults are not known.
    pub fetch_bytes: Option<u64>,
    pub persisting_bytes: Option<u64>,
    /// The heap exists in its final size.
    pub heap_fixed: bool,
    /// The printf buffer exists in its final size.
    pub printf_fixed: bool,
}

impl Limits {
    /// The defaults of a machine.
    pub fn of(machine: &Machine) -> Self {
        Self {
            stack_bytes: machine.stack_bytes,
            printf_fifo_bytes: machine.printf_fifo_bytes,
            malloc_heap_bytes: machine.malloc_heap_bytes,
            ..Self::default()
        }
    }
}

/// The next multiple of a unit.
fn rounded(value: u64, unit: u64) -> Outcome<u64> {
    value.checked_next_multiple_of(unit).ok_or(SIM_NOT_MODELLED)
}

impl Process {
    /// Reads a limit of a live context.
    pub fn limit(&self, owner: Owner, which: u32) -> Outcome<u64> {
        let limits = &self.contexts.get(&owner.context).ok_or(INVALID_CONTEXT)?.limits;
        match which {
            STACK_SIZE => Ok(limits.stack_bytes),
            PRINTF_FIFO_SIZE => Ok(limits.printf_fifo_bytes),
            MALLOC_HEAP_SIZE => Ok(limits.malloc_heap_bytes),
            DEV_RUNTIME_SYNC_DEPTH => Err(self.sync_depth(owner)?),
            DEV_RUNTIME_PENDING_LAUNCH_COUNT => Ok(PENDING_LAUNCHES),
            MAX_L2_FETCH_GRANULARITY => limits.fetch_bytes.ok_or(SIM_NOT_MODELLED),
            PERSISTING_L2_CACHE_SIZE => limits.persisting_bytes.ok_or(SIM_NOT_MODELLED),
            _ => Err(SIM_NOT_MODELLED),
        }
    }

    /// Sets a limit of a live context.
    pub fn set_limit(&mut self, owner: Owner, which: u32, value: u64) -> Outcome {
        let context = self.contexts.get_mut(&owner.context).ok_or(INVALID_CONTEXT)?;
        let limits = &mut context.limits;
        match which {
            STACK_SIZE => self.set_stack(owner, value),
            PRINTF_FIFO_SIZE if limits.printf_fixed => Err(INVALID_VALUE),
            PRINTF_FIFO_SIZE => {
                limits.printf_fifo_bytes = rounded(value, PRINTF_UNIT_BYTES)?;
                Ok(())
            }
            MALLOC_HEAP_SIZE if limits.heap_fixed => Err(INVALID_VALUE),
            MALLOC_HEAP_SIZE if value > LARGEST_UNCUT_HEAP_BYTES => Err(SIM_NOT_MODELLED),
            MALLOC_HEAP_SIZE => {
                limits.malloc_heap_bytes = rounded(value.max(SMALLEST_HEAP_BYTES), HEAP_UNIT_BYTES)?;
                Ok(())
            }
            DEV_RUNTIME_SYNC_DEPTH => Err(self.sync_depth(owner)?),
            MAX_L2_FETCH_GRANULARITY if (1..=LARGEST_FETCH_BYTES).contains(&value) => {
                limits.fetch_bytes = Some(value);
                Ok(())
            }
            PERSISTING_L2_CACHE_SIZE if (1..=PERSISTING_L2_UNIT_BYTES).contains(&value) => {
                limits.persisting_bytes = Some(PERSISTING_L2_UNIT_BYTES);
                Ok(())
            }
            _ => Err(SIM_NOT_MODELLED),
        }
    }

    /// The heap gets its final size and its memory, a little more than that size.
    pub fn fix_heap(&mut self, owner: Owner) -> Outcome {
        let more = self.gpu(owner)?.heap_launch_bytes;
        let context = self.contexts.get_mut(&owner.context).ok_or(INVALID_CONTEXT)?;
        if std::mem::replace(&mut context.limits.heap_fixed, true) {
            return Ok(());
        }
        let bytes = context.limits.malloc_heap_bytes.saturating_add(more);
        let outcome = self.charge_context(owner.context, bytes);
        if let (Err(_), Some(context)) = (outcome, self.contexts.get_mut(&owner.context)) {
            context.limits.heap_fixed = false;
        }
        // Measured (memory/first-launch-out-of-memory).
        outcome.map_err(|_| LAUNCH_OUT_OF_RESOURCES)
    }

    /// A kernel whose threads need more local memory than the stack limit raises it (limits/local-memory-never-shrinks). What is left
    /// of the memory where that fails is not known.
    pub fn grow_stack(&mut self, owner: Owner, frame_bytes: u64) -> Outcome {
        if frame_bytes <= self.limit(owner, STACK_SIZE)? {
            return Ok(());
        }
        self.set_stack(owner, frame_bytes).map_err(|_| SIM_NOT_MODELLED)
    }

    /// A stack is reserved for every thread that can be resident, whether or not it runs. One that does not fit is an invalid value
    /// (limits/stack-larger-than-the-gpu).
    fn set_stack(&mut self, owner: Owner, value: u64) -> Outcome {
        let (machine, gpu) = (&self.node()?.machine, self.gpu(owner)?);
        let value = rounded(value, STACK_UNIT_BYTES)?;
        let threads = gpu.sm_count as u64 * gpu.max_threads_per_sm as u64;
        let extra = |stack: u64| {
            let bytes = stack.saturating_sub(machine.stack_bytes).checked_mul(threads)?;
            bytes.checked_next_multiple_of(machine.alloc_granularity_bytes)
        };
        let before = extra(self.limit(owner, STACK_SIZE)?).unwrap_or(0);
        let after = extra(value).ok_or(INVALID_VALUE)?;
        if STACK_CHARGED_AT_SET {
            if after > before {
                self.charge_context(owner.context, after - before).map_err(|_| INVALID_VALUE)?;
            } else {
                self.refund_context(owner.context, before - after);
            }
        }
        if let Some(context) = self.contexts.get_mut(&owner.context) {
            context.limits.stack_bytes = value;
        }
        Ok(())
    }

    /// The synchronisation depth is gone since compute capability 9.0; before that it is not modelled.
    fn sync_depth(&self, owner: Owner) -> Outcome<u32> {
        let gpu = self.gpu(owner)?;
        Ok(if gpu.capability.0 >= 9 { UNSUPPORTED_LIMIT } else { SIM_NOT_MODELLED })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::process::sample::ready;

    #[test]
    fn a_larger_stack_is_paid_at_once_and_returned() {
        let mut process = ready();
        let handle = process.retain_primary(0).unwrap();
        let owner = process.owner(handle).unwrap();
        let table = process.node().unwrap().table;
        let before = table.used_bytes(0);
        process.set_limit(owner, STACK_SIZE, 2048).unwrap();
        assert_eq!(table.used_bytes(0) - before, 1024 * 4 * 1024);
        assert_eq!(process.set_limit(owner, STACK_SIZE, 1 << 40), Err(INVALID_VALUE));
        process.set_limit(owner, STACK_SIZE, 0).unwrap();
        assert_eq!(table.used_bytes(0), before);
    }

    #[test]
    fn limits_are_rounded_up() {
        let mut process = ready();
        let handle = process.retain_primary(0).unwrap();
        let owner = process.owner(handle).unwrap();
        for (limit, value, becomes) in [
            (STACK_SIZE, 1500, 1504),
            (MALLOC_HEAP_SIZE, 12_345_678, 12_386_304),
            (MALLOC_HEAP_SIZE, 1, 4 << 20),
            (PRINTF_FIFO_SIZE, 1_000_000, 1_000_192),
            (MAX_L2_FETCH_GRANULARITY, 100, 100),
            (PERSISTING_L2_CACHE_SIZE, 1_000_000, 3_932_160),
        ] {
            process.set_limit(owner, limit, value).unwrap();
            assert_eq!(process.limit(owner, limit), Ok(becomes));
        }
        assert_eq!(process.set_limit(owner, MALLOC_HEAP_SIZE, 1 << 40), Err(SIM_NOT_MODELLED));
    }

    #[test]
    fn a_deep_kernel_raises_the_stack() {
        let mut process = ready();
        let handle = process.retain_primary(0).unwrap();
        let owner = process.owner(handle).unwrap();
        process.grow_stack(owner, 512).unwrap();
        assert_eq!(process.limit(owner, STACK_SIZE), Ok(1024));
        process.grow_stack(owner, 3072).unwrap();
        assert_eq!(process.limit(owner, STACK_SIZE), Ok(3072));
    }

    #[test]
    fn a_fixed_heap_refuses_and_a_new_life_forgets() {
        let mut process = ready();
        let handle = process.retain_primary(0).unwrap();
        let owner = process.owner(handle).unwrap();
        process.set_limit(owner, MALLOC_HEAP_SIZE, 64 << 20).unwrap();
        process.fix_heap(owner).unwrap();
        assert_eq!(process.set_limit(owner, MALLOC_HEAP_SIZE, 1 << 20), Err(INVALID_VALUE));
        process.release_primary(0).unwrap();
        let handle = process.retain_primary(0).unwrap();
        let owner = process.owner(handle).unwrap();
        assert_eq!(process.limit(owner, MALLOC_HEAP_SIZE), Ok(8 << 20));
        assert_eq!(process.limit(owner, DEV_RUNTIME_SYNC_DEPTH), Err(UNSUPPORTED_LIMIT));
    }
}
