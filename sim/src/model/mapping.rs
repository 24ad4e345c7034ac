//! Memory without an address, and ranges of addresses without memory: `cuMemCreate`, `cuMemAddressReserve` and what joins them.

use crate::model::process::Process;
use crate::model::status::*;
use std::collections::{BTreeMap, BTreeSet};

/// Reserved ranges grow from here, below the devices' own.
const FIRST_RANGE: u64 = 2 << 40;

/// Memory that was taken. It is given back when neither a handle nor a mapping holds it (memory/vmm-unmap-gives-nothing-back), and
/// belongs to the process: no context takes it along.
struct Allocation {
    device: usize,
    bytes: u64,
    has_handle: bool,
    mappings: u32,
}

/// A range of addresses, which takes nothing.
struct Range {
    bytes: u64,
    mapped: Option<u64>,
    open_to: BTreeSet<usize>,
}

/// All of a process.
#[derive(Default)]
pub struct Mappings {
    allocations: BTreeMap<u64, Allocation>,
    ranges: BTreeMap<u64, Range>,
    reserved_bytes: u64,
}

impl Mappings {
    /// The mapped range that an address lies in: its base, its size and the device of its memory.
    pub fn find(&self, address: u64) -> Option<(u64, u64, usize)> {
        let (base, range) = self.ranges.range(..=address).next_back()?;
        let allocation = self.allocations.get(&range.mapped?)?;
        (address - base < range.bytes).then_some((*base, range.bytes, allocation.device))
    }

    /// Whether a device may use a range.
    pub fn is_open_to(&self, base: u64, device: usize) -> bool {
        self.ranges.get(&base).is_some_and(|range| range.open_to.contains(&device))
    }
}

impl Process {
    /// `cuMemCreate`: here the memory is taken, in whole units (memory/vmm-is-taken-at-create).
    pub fn create_memory(&mut self, device: usize, bytes: u64) -> Outcome<u64> {
        let node = self.node()?;
        if bytes == 0 || !bytes.is_multiple_of(node.machine.alloc_granularity_bytes) {
            return Err(INVALID_VALUE);
        }
        self.account.charge(node, self.devices[device].gpu, bytes)?;
        let handle = self.handle();
        self.mappings.allocations.insert(handle, Allocation { device, bytes, has_handle: true, mappings: 0 });
        Ok(handle)
    }

    /// `cuMemRelease`.
    pub fn release_memory(&mut self, handle: u64) -> Outcome {
        let allocation = self.mappings.allocations.get_mut(&handle).filter(|found| found.has_handle);
        allocation.ok_or(SIM_NOT_MODELLED)?.has_handle = false;
        self.give_back(handle)
    }

    /// `cuMemAddressReserve`.
    pub fn reserve_addresses(&mut self, bytes: u64) -> Outcome<u64> {
        if bytes == 0 || !bytes.is_multiple_of(self.node()?.machine.alloc_granularity_bytes) {
            return Err(SIM_NOT_MODELLED);
        }
        let base = FIRST_RANGE + self.mappings.reserved_bytes;
        self.mappings.reserved_bytes += bytes;
        self.mappings.ranges.insert(base, Range { bytes, mapped: None, open_to: BTreeSet::new() });
        Ok(base)
    }

    /// A range that a call names whole; parts of ranges are beyond the model.
    fn range(&mut self, base: u64, bytes: u64) -> Outcome<&mut Range> {
        self.mappings.ranges.get_mut(&base).filter(|range| range.bytes == bytes).ok_or(SIM_NOT_MODELLED)
    }

    /// `cuMemAddressFree` of a range that nothing is mapped into.
    pub fn free_addresses(&mut self, base: u64, bytes: u64) -> Outcome {
        if self.range(base, bytes)?.mapped.is_some() {
            return Err(SIM_NOT_MODELLED);
        }
        self.mappings.ranges.remove(&base);
        Ok(())
    }

    /// `cuMemMap` of all of an allocation into all of a range.
    pub fn map(&mut self, base: u64, bytes: u64, handle: u64) -> Outcome {
        let allocation =
            self.mappings.allocations.get(&handle).filter(|found| found.has_handle && found.bytes == bytes);
        if allocation.is_none() || self.range(base, bytes)?.mapped.is_some() {
            return Err(SIM_NOT_MODELLED);
        }
        self.range(base, bytes)?.mapped = Some(handle);
        if let Some(allocation) = self.mappings.allocations.get_mut(&handle) {
            allocation.mappings += 1;
        }
        self.contents.fresh(base);
        Ok(())
    }

    /// `cuMemUnmap`.
    pub fn unmap(&mut self, base: u64, bytes: u64) -> Outcome {
        let range = self.range(base, bytes)?;
        range.open_to.clear();
        let handle = range.mapped.take().ok_or(SIM_NOT_MODELLED)?;
        if let Some(allocation) = self.mappings.allocations.get_mut(&handle) {
            allocation.mappings -= 1;
        }
        self.contents.forget(base);
        self.give_back(handle)
    }

    /// `cuMemSetAccess` with reading and writing.
    pub fn open_range(&mut self, base: u64, bytes: u64, device: usize) -> Outcome {
        let range = self.range(base, bytes)?;
        if range.mapped.is_none() {
            return Err(SIM_NOT_MODELLED);
        }
        range.open_to.insert(device);
        Ok(())
    }

    fn give_back(&mut self, handle: u64) -> Outcome {
        let node = self.node()?;
        let held = |found: &Allocation| found.has_handle || found.mappings > 0;
        if self.mappings.allocations.get(&handle).is_some_and(held) {
            return Ok(());
        }
        if let Some(allocation) = self.mappings.allocations.remove(&handle) {
            self.account.refund(node, self.devices[allocation.device].gpu, allocation.bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::process::sample::ready;

    const MIB: u64 = 1 << 20;

    #[test]
    fn memory_is_held_by_its_handle_and_by_its_mapping() {
        for release_first in [false, true] {
            let mut process = ready();
            let table = process.node().unwrap().table;
            let before = table.used_bytes(0);
            let base = process.reserve_addresses(4 * MIB).unwrap();
            assert_eq!(table.used_bytes(0), before);
            let memory = process.create_memory(0, 4 * MIB).unwrap();
            process.map(base, 4 * MIB, memory).unwrap();
            process.open_range(base, 4 * MIB, 0).unwrap();
            assert_eq!(process.mappings.find(base + 1), Some((base, 4 * MIB, 0)));
            if release_first {
                process.release_memory(memory).unwrap();
            } else {
                process.unmap(base, 4 * MIB).unwrap();
            }
            assert_eq!(table.used_bytes(0) - before, 4 * MIB);
            if release_first {
                process.unmap(base, 4 * MIB).unwrap();
            } else {
                process.release_memory(memory).unwrap();
            }
            assert_eq!(table.used_bytes(0), before);
            process.free_addresses(base, 4 * MIB).unwrap();
            assert_eq!(process.create_memory(0, MIB), Err(INVALID_VALUE));
        }
    }
}
