//! Memory without an address, and addresses without memory.

use super::call;
use crate::c::put;
use crate::model::process::Process;
use crate::model::status::{INVALID_VALUE, Outcome, SIM_NOT_MODELLED};

/// Memory of a device, in `CUmemLocationType` and in its sibling of the runtime.
const ON_DEVICE: u32 = 1;

/// The start of `CUmemAllocationProp` and of `cudaMemPoolProps`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Wanted {
    kind: u32,
    handles: u32,
    place: u32,
    device: i32,
}

/// `CUmemAccessDesc` and its sibling of the runtime.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Access {
    place: u32,
    device: i32,
    flags: u32,
}

/// The device that an allocation or a pool is wanted on. Anything but pinned memory of a device is beyond the model.
///
/// # Safety
/// `wanted` is null or points to one of the structs.
pub unsafe fn device_of(process: &Process, wanted: *const Wanted) -> Outcome<usize> {
    if wanted.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    let wanted = unsafe { wanted.read_unaligned() };
    if wanted.kind != 1 || wanted.handles != 0 || wanted.place != ON_DEVICE {
        return Err(SIM_NOT_MODELLED);
    }
    process.ordinal(wanted.device)
}

impl Access {
    /// The device that is to read and write.
    ///
    /// # Safety
    /// `access` is null or points to so many descriptions.
    pub unsafe fn device(process: &Process, access: *const Self, count: usize) -> Outcome<usize> {
        if access.is_null() || count != 1 {
            return Err(if access.is_null() { INVALID_VALUE } else { SIM_NOT_MODELLED });
        }
        // SAFETY: the caller vouches for it.
        let access = unsafe { access.read_unaligned() };
        if access.place != ON_DEVICE || access.flags != 3 {
            return Err(SIM_NOT_MODELLED);
        }
        process.ordinal(access.device)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAllocationGranularity(bytes: *mut usize, wanted: *const Wanted, _option: u32) -> u32 {
    call(|process, _| {
        // SAFETY: here and below pointers are what the C prototypes say, or null.
        unsafe {
            device_of(process, wanted)?;
            put(bytes, process.node()?.machine.alloc_granularity_bytes as usize)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemCreate(handle: *mut u64, bytes: usize, wanted: *const Wanted, _flags: u64) -> u32 {
    call(|process, _| {
        // SAFETY: see above.
        let device = unsafe { device_of(process, wanted)? };
        if handle.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: see above.
        unsafe { put(handle, process.create_memory(device, bytes as u64)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemRelease(handle: u64) -> u32 {
    call(|process, _| process.release_memory(handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressReserve(
    address: *mut u64,
    bytes: usize,
    alignment: usize,
    wanted: u64,
    _flags: u64,
) -> u32 {
    call(|process, _| {
        if alignment != 0 || wanted != 0 {
            return Err(SIM_NOT_MODELLED);
        }
        // SAFETY: see above.
        unsafe { put(address, process.reserve_addresses(bytes as u64)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressFree(address: u64, bytes: usize) -> u32 {
    call(|process, _| process.free_addresses(address, bytes as u64))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, _flags: u64) -> u32 {
    call(|process, _| if offset == 0 { process.map(address, bytes as u64, handle) } else { Err(SIM_NOT_MODELLED) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemUnmap(address: u64, bytes: usize) -> u32 {
    call(|process, _| process.unmap(address, bytes as u64))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemSetAccess(address: u64, bytes: usize, access: *const Access, count: usize) -> u32 {
    call(|process, _| {
        // SAFETY: see above.
        let device = unsafe { Access::device(process, access, count)? };
        process.open_range(address, bytes as u64, device)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Wanted>(), 16);
        assert_eq!(size_of::<Access>(), 12);
    }
}
