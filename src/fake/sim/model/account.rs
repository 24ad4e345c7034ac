//! The holdings of this process on each GPU, kept here and published in its slot of the shared table.

use crate::machine::SimulatedMachine;
use crate::machine::identity::Identity;
use crate::machine::table::MAX_GPUS;
use crate::model::status::{NOT_INITIALIZED, OUT_OF_MEMORY, Outcome, SIM_NOT_MODELLED};

/// The account of one process. A forked child has a new one: it cannot change or free its parent's holdings.
#[derive(Default)]
pub struct Account {
    /// The machine that the account is kept on, from the first `cuInit` on.
    machine: Option<&'static SimulatedMachine>,
    slot: Option<usize>,
    used_bytes: [u64; MAX_GPUS],
    contexts: [u32; MAX_GPUS],
}

impl Account {
    /// Sets the machine. Nothing is held on it yet.
    pub fn open(&mut self, machine: &'static SimulatedMachine) {
        self.machine = Some(machine);
    }

    /// Returns the machine; `NOT_INITIALIZED` before [`Self::open`].
    pub fn machine(&self) -> Outcome<&'static SimulatedMachine> {
        self.machine.ok_or(NOT_INITIALIZED)
    }

    /// Takes device memory, or fails with out-of-memory if the GPU has less than that left.
    pub fn charge(&mut self, gpu: usize, bytes: u64) -> Outcome {
        if bytes == 0 {
            return Ok(());
        }
        if bytes > self.free_bytes(gpu)? {
            return Err(OUT_OF_MEMORY);
        }
        self.used_bytes[gpu] += bytes;
        self.publish(gpu)
    }

    /// Gives device memory back.
    pub fn refund(&mut self, gpu: usize, bytes: u64) {
        self.used_bytes[gpu] = self.used_bytes[gpu].saturating_sub(bytes);
        // Publishing can only fail before the first charge, when no memory has to be freed.
        let _ = self.publish(gpu);
    }

    /// Records one more context on a GPU.
    pub fn context_made(&mut self, gpu: usize) -> Outcome {
        self.contexts[gpu] += 1;
        self.publish(gpu)
    }

    /// Records one context fewer on a GPU.
    pub fn context_gone(&mut self, gpu: usize) {
        self.contexts[gpu] = self.contexts[gpu].saturating_sub(1);
        let _ = self.publish(gpu);
    }

    /// Returns the memory that CUDA can still allocate on a GPU, considering every process.
    pub fn free_bytes(&self, gpu: usize) -> Outcome<u64> {
        let machine = self.machine()?;
        Ok(machine
            .gpu(gpu)
            .cuda_total_bytes()
            .saturating_sub(machine.used_bytes(gpu)))
    }

    fn publish(&mut self, gpu: usize) -> Outcome {
        let table = self.machine()?.table;
        let slot = match self.slot {
            Some(slot) => slot,
            None => {
                let identity = Identity::own().ok_or(SIM_NOT_MODELLED)?;
                *self
                    .slot
                    .insert(table.claim(identity).ok_or(SIM_NOT_MODELLED)?)
            }
        };
        table.store(slot, gpu, self.used_bytes[gpu], self.contexts[gpu]);
        Ok(())
    }
}
