//! Memory without an address (`cuMemCreate`), ranges of addresses without memory (`cuMemAddressReserve`), and mappings
//! of one into the other.

use crate::model::address::{DeviceMemory, DeviceMemoryKind};
use crate::model::status::{Outcome, SIM_NOT_MODELLED};
use std::collections::BTreeMap;

/// Reserved ranges grow from here, below the devices' own.
const FIRST_RANGE: u64 = 2 << 40;

/// Memory that was allocated. It is freed when neither a handle nor a mapping holds it
/// (memory/vmm-unmap-gives-nothing-back). It belongs to the process: destroying a context does not free it.
struct Allocation {
    device: usize,
    bytes: u64,
    has_handle: bool,
    mappings: u32,
}

/// A range of addresses, which uses no memory.
struct AddressRange {
    bytes: u64,
    mapped: Option<u64>,
}

/// Memory that nothing holds any longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Released {
    pub device: usize,
    pub bytes: u64,
}

/// The allocations and the ranges of a process.
#[derive(Default)]
pub struct Mappings {
    allocations: BTreeMap<u64, Allocation>,
    ranges: BTreeMap<u64, AddressRange>,
    reserved_bytes: u64,
}

impl Mappings {
    /// Returns the mapped range that an address lies in.
    pub fn find(&self, address: u64) -> Option<DeviceMemory> {
        let (base, range) = self.ranges.range(..=address).next_back()?;
        let device = self.allocations.get(&range.mapped?)?.device;
        let found = DeviceMemory {
            base: *base,
            bytes: range.bytes,
            device,
            kind: DeviceMemoryKind::Mapped,
        };
        found.contains(address).then_some(found)
    }

    /// Records memory that was allocated for a handle.
    pub fn create(&mut self, handle: u64, device: usize, bytes: u64) {
        self.allocations.insert(
            handle,
            Allocation {
                device,
                bytes,
                has_handle: true,
                mappings: 0,
            },
        );
    }

    /// `cuMemRelease`.
    pub fn release(&mut self, handle: u64) -> Outcome<Option<Released>> {
        let allocation = self
            .allocations
            .get_mut(&handle)
            .filter(|found| found.has_handle);
        allocation.ok_or(SIM_NOT_MODELLED)?.has_handle = false;
        Ok(self.drop_unheld(handle))
    }

    /// Reserves addresses.
    pub fn reserve(&mut self, bytes: u64) -> u64 {
        let base = FIRST_RANGE + self.reserved_bytes;
        self.reserved_bytes += bytes;
        self.ranges.insert(
            base,
            AddressRange {
                bytes,
                mapped: None,
            },
        );
        base
    }

    /// Returns a range that a call covers completely; parts of ranges are beyond the model.
    fn range(&mut self, base: u64, bytes: u64) -> Outcome<&mut AddressRange> {
        self.ranges
            .get_mut(&base)
            .filter(|range| range.bytes == bytes)
            .ok_or(SIM_NOT_MODELLED)
    }

    /// `cuMemAddressFree` of a range that nothing is mapped into.
    pub fn free(&mut self, base: u64, bytes: u64) -> Outcome {
        if self.range(base, bytes)?.mapped.is_some() {
            return Err(SIM_NOT_MODELLED);
        }
        self.ranges.remove(&base);
        Ok(())
    }

    /// `cuMemMap` of an entire allocation into an entire range.
    pub fn map(&mut self, base: u64, bytes: u64, handle: u64) -> Outcome {
        if self.range(base, bytes)?.mapped.is_some() {
            return Err(SIM_NOT_MODELLED);
        }
        let allocation = self.allocations.get_mut(&handle).ok_or(SIM_NOT_MODELLED)?;
        if !allocation.has_handle || allocation.bytes != bytes {
            return Err(SIM_NOT_MODELLED);
        }
        allocation.mappings += 1;
        self.range(base, bytes)?.mapped = Some(handle);
        Ok(())
    }

    /// `cuMemUnmap`.
    pub fn unmap(&mut self, base: u64, bytes: u64) -> Outcome<Option<Released>> {
        let range = self.range(base, bytes)?;
        let handle = range.mapped.take().ok_or(SIM_NOT_MODELLED)?;
        if let Some(allocation) = self.allocations.get_mut(&handle) {
            allocation.mappings -= 1;
        }
        Ok(self.drop_unheld(handle))
    }

    /// `cuMemSetAccess` with reading and writing.
    pub fn open(&mut self, base: u64, bytes: u64) -> Outcome {
        let range = self.range(base, bytes)?;
        range.mapped.map(drop).ok_or(SIM_NOT_MODELLED)
    }

    /// Forgets an allocation that nothing holds any longer.
    fn drop_unheld(&mut self, handle: u64) -> Option<Released> {
        self.allocations
            .get(&handle)
            .filter(|found| !found.has_handle && found.mappings == 0)?;
        self.allocations.remove(&handle).map(|found| Released {
            device: found.device,
            bytes: found.bytes,
        })
    }
}
