//! The pools of a process: the default one of each device, and those that it makes.

use crate::model::pool::{MemoryPool, PoolMemory};
use crate::model::status::*;
use crate::process::SimulatedProcess;

impl SimulatedProcess {
    /// A pool by its handle.
    pub fn pool(&mut self, pool: u64) -> Outcome<&mut MemoryPool> {
        self.pools.get_mut(&pool).ok_or(INVALID_VALUE)
    }

    /// `cudaMemPoolCreate`: takes nothing yet (memory/pool-takes-32-mib).
    pub fn create_pool(&mut self, device: usize) -> Outcome<u64> {
        let granularity = self.machine()?.description.pool_granularity_bytes;
        let handle = self.handle();
        self.pools
            .insert(handle, MemoryPool::new(device, granularity));
        Ok(handle)
    }

    /// `cudaMemPoolSetAccess` with reading and writing.
    pub fn open_pool(&mut self, pool: u64, device: usize) -> Outcome {
        let owner = self.pool(pool)?.device;
        if owner != device && !self.can_access_peer(owner, device)? {
            return Err(SIM_NOT_MODELLED);
        }
        self.pool(pool)?.access.insert(device);
        Ok(())
    }

    /// `cuMemAllocFromPoolAsync`.
    pub fn allocate_from(&mut self, pool: u64, bytes: u64) -> Outcome<u64> {
        if bytes == 0 {
            return Err(SIM_NOT_MODELLED);
        }
        let found = self.pools.get_mut(&pool).ok_or(INVALID_VALUE)?;
        let device = &mut self.devices[found.device];
        let more = found.missing(bytes).ok_or(OUT_OF_MEMORY)?;
        self.account.charge(device.gpu, more)?;
        found.take(bytes, more);
        let address = device.pool_address;
        device.pool_address += bytes.next_multiple_of(512);
        self.pooled.insert(
            address,
            PoolMemory {
                device: found.device,
                pool,
                bytes,
            },
        );
        self.contents.fresh(address);
        Ok(address)
    }

    /// `cuMemAllocAsync` from the default pool of a device.
    pub fn allocate_async(&mut self, device: usize, bytes: u64) -> Outcome<u64> {
        self.allocate_from(self.devices[device].pool_handle, bytes)
    }

    /// `cuMemFreeAsync`: the memory stays reserved until the host synchronises. Freeing plain memory in stream order is
    /// allowed in some versions and not in others.
    pub fn free_async(&mut self, address: u64) -> Outcome {
        self.give_to_pool(address).map(drop).ok_or(SIM_NOT_MODELLED)
    }

    /// Gives memory back to its pool, and returns the pool's device; `None` for memory that is of no pool.
    pub fn give_to_pool(&mut self, address: u64) -> Option<usize> {
        let memory = self.pooled.remove(&address)?;
        self.contents.forget(address);
        if let Some(pool) = self.pools.get_mut(&memory.pool) {
            pool.give(memory.bytes);
        }
        Some(memory.device)
    }

    /// The host synchronised with a device: its pools give back what is above their thresholds.
    pub fn synchronise(&mut self, device: usize) {
        self.busy = None;
        let pools = self.pools.values_mut().filter(|pool| pool.device == device);
        let bytes = pools.map(MemoryPool::synchronise).sum();
        self.account.refund(self.devices[device].gpu, bytes);
    }

    /// `cuMemPoolTrimTo`.
    pub fn trim(&mut self, pool: u64, keep: u64) -> Outcome {
        let found = self.pool(pool)?;
        let (bytes, device) = (found.trim(keep), found.device);
        self.account.refund(self.devices[device].gpu, bytes);
        Ok(())
    }
}
