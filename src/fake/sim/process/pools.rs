//! Stream-ordered memory, from the default pool of each device.

use crate::model::pool::PoolMemory;
use crate::model::status::*;
use crate::process::SimulatedProcess;

impl SimulatedProcess {
    /// `cuMemAllocAsync` from the default pool of a device.
    pub fn allocate_async(&mut self, device: usize, bytes: u64) -> Outcome<u64> {
        if bytes == 0 {
            return Err(SIM_NOT_MODELLED);
        }
        let owner = &mut self.devices[device];
        let more = owner.pool.missing_bytes(bytes).ok_or(OUT_OF_MEMORY)?;
        self.account.charge(owner.gpu, more)?;
        owner.pool.take_bytes(bytes, more);
        let address = owner.pool_address;
        owner.pool_address += bytes.next_multiple_of(512);
        self.pooled.insert(address, PoolMemory { device, bytes });
        Ok(address)
    }

    /// `cuMemFreeAsync`: the memory stays reserved until the host synchronizes. Freeing plain memory in stream order is
    /// allowed in some versions but not in others.
    pub fn free_async(&mut self, address: u64) -> Outcome {
        self.give_to_pool(address).map(drop).ok_or(SIM_NOT_MODELLED)
    }

    /// Frees memory to its pool, and returns the pool's device; `None` for memory that belongs to no pool.
    pub fn give_to_pool(&mut self, address: u64) -> Option<usize> {
        let memory = self.pooled.remove(&address)?;
        self.devices[memory.device].pool.give_back(memory.bytes);
        Some(memory.device)
    }

    /// Called when the host synchronized with a device: its pool frees the memory that is not in use.
    pub fn synchronise(&mut self, device: usize) {
        self.busy = None;
        let owner = &mut self.devices[device];
        self.account.refund(owner.gpu, owner.pool.release_unused());
    }
}
