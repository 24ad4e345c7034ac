//! What this process holds on each GPU, kept here and published in its slot of the shared table.

use crate::c;
use crate::model::node::Node;
use crate::model::status::{OUT_OF_MEMORY, Outcome, SIM_NOT_MODELLED};
use crate::model::table::{Identity, MAX_GPUS};

/// The books of one process. A forked child has new ones: what its parent holds is not the child's to change or to give back.
#[derive(Default)]
pub struct Account {
    slot: Option<usize>,
    used_bytes: [u64; MAX_GPUS],
    contexts: [u32; MAX_GPUS],
}

impl Account {
    /// Takes device memory, or fails with out-of-memory when the GPU has less than that left.
    pub fn charge(&mut self, node: &Node, gpu: usize, bytes: u64) -> Outcome {
        if bytes == 0 {
            return Ok(());
        }
        if bytes > self.free_bytes(node, gpu) {
            return Err(OUT_OF_MEMORY);
        }
        self.used_bytes[gpu] += bytes;
        self.publish(node, gpu)
    }

    /// Gives device memory back.
    pub fn refund(&mut self, node: &Node, gpu: usize, bytes: u64) {
        self.used_bytes[gpu] = self.used_bytes[gpu].saturating_sub(bytes);
        // Publishing can only fail before the first charge, when there is nothing to give back.
        let _ = self.publish(node, gpu);
    }

    /// Notes one context more on a GPU.
    pub fn context_made(&mut self, node: &Node, gpu: usize) -> Outcome {
        self.contexts[gpu] += 1;
        self.publish(node, gpu)
    }

    /// Notes one context less on a GPU.
    pub fn context_gone(&mut self, node: &Node, gpu: usize) {
        self.contexts[gpu] = self.contexts[gpu].saturating_sub(1);
        let _ = self.publish(node, gpu);
    }

    /// What CUDA can still take on a GPU, counting every process.
    pub fn free_bytes(&self, node: &Node, gpu: usize) -> u64 {
        node.machine.gpus[gpu].cuda_total_bytes().saturating_sub(node.used_bytes(gpu))
    }

    fn publish(&mut self, node: &Node, gpu: usize) -> Outcome {
        let slot = match self.slot {
            Some(slot) => slot,
            None => {
                let identity = Identity::of(c::pid()).ok_or(SIM_NOT_MODELLED)?;
                *self.slot.insert(node.table.claim(identity).ok_or(SIM_NOT_MODELLED)?)
            }
        };
        node.table.store(slot, gpu, self.used_bytes[gpu], self.contexts[gpu]);
        Ok(())
    }
}
