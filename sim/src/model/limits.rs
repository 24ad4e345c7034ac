//! The limits of a context: stack, printf buffer, device heap.

use crate::model::behaviour::STACK_CHARGED_AT_SET;
use crate::model::context::Owner;
use crate::model::machine::Machine;
use crate::model::process::Process;
use crate::model::status::*;

pub const STACK_SIZE: u32 = 0;
pub const PRINTF_FIFO_SIZE: u32 = 1;
pub const MALLOC_HEAP_SIZE: u32 = 2;
const DEV_RUNTIME_SYNC_DEPTH: u32 = 3;

/// The limits of one context in one life.
#[derive(Default, Clone, Debug)]
pub struct Limits {
    pub stack_bytes: u64,
    pub printf_fifo_bytes: u64,
    pub malloc_heap_bytes: u64,
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
            heap_fixed: false,
            printf_fixed: false,
        }
    }
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
                limits.printf_fifo_bytes = value;
                Ok(())
            }
            MALLOC_HEAP_SIZE if limits.heap_fixed => Err(INVALID_VALUE),
            MALLOC_HEAP_SIZE => {
                limits.malloc_heap_bytes = value;
                Ok(())
            }
            DEV_RUNTIME_SYNC_DEPTH => Err(self.sync_depth(owner)?),
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
        // Which error a real driver gives for a heap that does not fit is not known well enough to repeat it.
        self.charge_context(owner.context, bytes).map_err(|_| SIM_NOT_MODELLED)
    }

    /// A stack is reserved for every thread that can be resident, whether or not it runs.
    fn set_stack(&mut self, owner: Owner, value: u64) -> Outcome {
        let (machine, gpu) = (&self.node()?.machine, self.gpu(owner)?);
        let threads = gpu.sm_count as u64 * gpu.max_threads_per_sm as u64;
        let extra = |stack: u64| stack.saturating_sub(machine.stack_bytes).checked_mul(threads);
        let (before, after) = (extra(self.limit(owner, STACK_SIZE)?).unwrap_or(0), extra(value).ok_or(OUT_OF_MEMORY)?);
        if STACK_CHARGED_AT_SET {
            if after > before {
                self.charge_context(owner.context, after - before)?;
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
        assert_eq!(process.set_limit(owner, STACK_SIZE, 1 << 40), Err(OUT_OF_MEMORY));
        process.set_limit(owner, STACK_SIZE, 0).unwrap();
        assert_eq!(table.used_bytes(0), before);
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
