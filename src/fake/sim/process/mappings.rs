//! `cuMemCreate`, `cuMemMap` and the other calls that allocate memory and addresses separately.

use crate::model::mapping::Released;
use crate::model::status::*;
use crate::process::SimulatedProcess;

impl SimulatedProcess {
    /// `cuMemCreate`: allocates the memory, in whole units (memory/vmm-is-taken-at-create).
    pub fn create_memory(&mut self, device: usize, bytes: u64) -> Outcome<u64> {
        if !self.is_whole(bytes)? {
            return Err(INVALID_VALUE);
        }
        self.account.charge(self.devices[device].gpu, bytes)?;
        let handle = self.handle();
        self.mappings.create(handle, device, bytes);
        Ok(handle)
    }

    /// `cuMemRelease`.
    pub fn release_memory(&mut self, handle: u64) -> Outcome {
        let released = self.mappings.release(handle)?;
        self.refund_released(released);
        Ok(())
    }

    /// `cuMemAddressReserve`.
    pub fn reserve_addresses(&mut self, bytes: u64) -> Outcome<u64> {
        if self.is_whole(bytes)? {
            Ok(self.mappings.reserve(bytes))
        } else {
            Err(SIM_NOT_MODELLED)
        }
    }

    /// `cuMemMap` of an entire allocation into an entire range.
    pub fn map(&mut self, base: u64, bytes: u64, handle: u64) -> Outcome {
        self.mappings.map(base, bytes, handle)
    }

    /// `cuMemUnmap`.
    pub fn unmap(&mut self, base: u64, bytes: u64) -> Outcome {
        let released = self.mappings.unmap(base, bytes)?;
        self.refund_released(released);
        Ok(())
    }

    /// Returns `true` if a size is a multiple of the unit.
    fn is_whole(&self, bytes: u64) -> Outcome<bool> {
        Ok(bytes != 0 && bytes.is_multiple_of(self.machine()?.description.alloc_granularity_bytes))
    }

    fn refund_released(&mut self, released: Option<Released>) {
        if let Some(Released { device, bytes }) = released {
            self.account.refund(self.devices[device].gpu, bytes);
        }
    }
}
