//! `cuMemCreate`, `cuMemMap` and the other calls for memory and addresses that are taken apart from each other.

use crate::model::mapping::Released;
use crate::model::status::*;
use crate::process::Process;

impl Process {
    /// `cuMemCreate`: here the memory is taken, in whole units (memory/vmm-is-taken-at-create).
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
        if self.is_whole(bytes)? { Ok(self.mappings.reserve(bytes)) } else { Err(SIM_NOT_MODELLED) }
    }

    /// `cuMemMap` of all of an allocation into all of a range.
    pub fn map(&mut self, base: u64, bytes: u64, handle: u64) -> Outcome {
        self.mappings.map(base, bytes, handle)?;
        self.contents.fresh(base);
        Ok(())
    }

    /// `cuMemUnmap`.
    pub fn unmap(&mut self, base: u64, bytes: u64) -> Outcome {
        let released = self.mappings.unmap(base, bytes)?;
        self.contents.forget(base);
        self.refund_released(released);
        Ok(())
    }

    /// Whether a size is made of whole units.
    fn is_whole(&self, bytes: u64) -> Outcome<bool> {
        Ok(bytes != 0 && bytes.is_multiple_of(self.machine()?.description.alloc_granularity_bytes))
    }

    fn refund_released(&mut self, released: Option<Released>) {
        if let Some(Released { device, bytes }) = released {
            self.account.refund(self.devices[device].gpu, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sample::{ready, used};

    const MIB: u64 = 1 << 20;

    #[test]
    fn memory_is_held_by_its_handle_and_by_its_mapping() {
        for release_first in [false, true] {
            let mut process = ready();
            let before = used(&process, 0);
            let base = process.reserve_addresses(4 * MIB).unwrap();
            assert_eq!(used(&process, 0), before);
            let memory = process.create_memory(0, 4 * MIB).unwrap();
            process.map(base, 4 * MIB, memory).unwrap();
            process.mappings.open(base, 4 * MIB, 0).unwrap();
            let found = process.mappings.find(base + 1).unwrap();
            assert_eq!((found.base, found.bytes, found.device), (base, 4 * MIB, 0));
            if release_first {
                process.release_memory(memory).unwrap();
            } else {
                process.unmap(base, 4 * MIB).unwrap();
            }
            assert_eq!(used(&process, 0) - before, 4 * MIB);
            if release_first {
                process.unmap(base, 4 * MIB).unwrap();
            } else {
                process.release_memory(memory).unwrap();
            }
            assert_eq!(used(&process, 0), before);
            process.mappings.free(base, 4 * MIB).unwrap();
            assert_eq!(process.create_memory(0, MIB), Err(INVALID_VALUE));
        }
    }
}
