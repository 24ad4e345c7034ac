//! Separate allocation of memory and addresses, and their mapping.

use super::call;
use crate::model::status::{Outcome, SIM_NOT_MODELLED};
use crate::pointer::{In, Out};
use crate::process::SimulatedProcess;
use crate::symbols::symbols;

/// Memory of a device, in `CUmemLocationType`.
const ON_DEVICE: u32 = 1;

/// The start of `CUmemAllocationProp`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Properties {
    kind: u32,
    handles: u32,
    location: u32,
    device: i32,
}

/// `CUmemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Access {
    location: u32,
    device: i32,
    flags: u32,
}

impl Properties {
    /// Returns the device of a requested allocation. Anything except pinned memory of a device is beyond the model.
    pub fn device(self, process: &SimulatedProcess) -> Outcome<usize> {
        if self.kind != 1 || self.handles != 0 || self.location != ON_DEVICE {
            return Err(SIM_NOT_MODELLED);
        }
        process.ordinal(self.device)
    }
}

impl Access {
    /// Rejects anything but reading and writing by one device.
    fn check(process: &SimulatedProcess, access: &In<Self>, count: usize) -> Outcome {
        access.given()?;
        if count != 1 {
            return Err(SIM_NOT_MODELLED);
        }
        let access = access.read()?;
        if access.location != ON_DEVICE || access.flags != 3 {
            return Err(SIM_NOT_MODELLED);
        }
        process.ordinal(access.device).map(drop)
    }
}

symbols! {
    fn cuMemGetAllocationGranularity(bytes: Out<usize>, wanted: In<Properties>, _option: u32) = call(|process, _| {
        wanted.read()?.device(process)?;
        bytes.put(process.machine()?.description.alloc_granularity_bytes as usize)
    });

    fn cuMemCreate(handle: Out<u64>, bytes: usize, wanted: In<Properties>, _flags: u64) = call(|process, _| {
        let device = wanted.read()?.device(process)?;
        handle.put_with(|| process.create_memory(device, bytes as u64))
    });

    fn cuMemRelease(handle: u64) = call(|process, _| process.release_memory(handle));

    fn cuMemAddressReserve(address: Out<u64>, bytes: usize, alignment: usize, wanted: u64, _flags: u64) =
        call(|process, _| {
            if alignment != 0 || wanted != 0 {
                return Err(SIM_NOT_MODELLED);
            }
            address.put(process.reserve_addresses(bytes as u64)?)
        });

    fn cuMemAddressFree(address: u64, bytes: usize) = call(|process, _| process.mappings.free(address, bytes as u64));

    fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, _flags: u64) = call(|process, _| {
        if offset == 0 { process.map(address, bytes as u64, handle) } else { Err(SIM_NOT_MODELLED) }
    });

    fn cuMemUnmap(address: u64, bytes: usize) = call(|process, _| process.unmap(address, bytes as u64));

    fn cuMemSetAccess(address: u64, bytes: usize, access: In<Access>, count: usize) = call(|process, _| {
        Access::check(process, &access, count)?;
        process.mappings.open(address, bytes as u64)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Properties>(), 16);
        assert_eq!(size_of::<Access>(), 12);
    }
}
