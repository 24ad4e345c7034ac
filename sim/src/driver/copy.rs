//! Fills and copies, and what a pointer is.

use super::call;
use crate::c::put;
use crate::model::memory::{Kind, Place};
use crate::model::status::{INVALID_CONTEXT, INVALID_VALUE, SIM_NOT_MODELLED};
use std::ffi::c_void;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8_v2(address: u64, value: u8, bytes: usize) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        process.fill(current.device, address, value, bytes as u64, false)
    })
}

/// Shows what is known of the memory: its first eight bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        process.wait(current)?;
        // SAFETY: the caller passes room for what it asks for, or null.
        unsafe { put(to.cast::<u64>(), process.read_word(from, bytes as u64)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> u32 {
    call(|process, thread| {
        process.current(thread)?;
        process.copy(to, from, bytes as u64)
    })
}

/// Needs a current context although it names two (device/driver-copy-between-contexts).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyPeer(to: u64, to_context: u64, from: u64, from_context: u64, bytes: usize) -> u32 {
    call(|process, thread| {
        process.current(thread)?;
        if process.owner(to_context).is_none() || process.owner(from_context).is_none() {
            return Err(SIM_NOT_MODELLED);
        }
        process.copy(to, from, bytes as u64)
    })
}

const CONTEXT: u32 = 1;
const DEVICE_ORDINAL: u32 = 9;
const IS_LEGACY_CUDA_IPC_CAPABLE: u32 = 10;

/// Memory of a pool and memory that was mapped have no context (device/pointer-without-a-context), and plain host memory has nothing at
/// all (context/pointer-query-makes-one).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(value: *mut c_void, attribute: u32, address: u64) -> u32 {
    call(|process, _| {
        let Some(found) = process.device_memory(address) else {
            return Err(if process.place_of(address) == Place::Unknown { INVALID_VALUE } else { SIM_NOT_MODELLED });
        };
        if !matches!(found.kind, Kind::Plain { .. } | Kind::Pooled { .. } | Kind::Mapped) {
            return Err(SIM_NOT_MODELLED);
        }
        let context = if let Kind::Plain { context } = found.kind { context } else { 0 };
        // SAFETY: the caller passes room for the attribute's type, or null.
        unsafe {
            match attribute {
                CONTEXT => put(value.cast::<u64>(), context),
                DEVICE_ORDINAL => put(value.cast::<i32>(), found.device as i32),
                IS_LEGACY_CUDA_IPC_CAPABLE => put(value.cast::<u8>(), u8::from(context != 0)),
                _ => Err(SIM_NOT_MODELLED),
            }
        }
    })
}

/// The first ABI knows contexts of its own kind only: in any other it finds none (memory/old-names-see-32-bits). Contexts of that kind
/// are beyond the model.
fn of_the_first_abi() -> u32 {
    call(|process, thread| process.current(thread).and(Err(INVALID_CONTEXT)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo(_free: *mut u32, _total: *mut u32) -> u32 {
    of_the_first_abi()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc(_address: *mut u32, _bytes: u32) -> u32 {
    of_the_first_abi()
}

/// 32 bits hold no more (memory/old-names-see-32-bits).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem(bytes: *mut u32, device: i32) -> u32 {
    call(|process, _| {
        let total = super::gpu(process, device)?.cuda_total_bytes();
        // SAFETY: the caller passes room for 32 bits, or null.
        unsafe { put(bytes, u32::try_from(total).unwrap_or(u32::MAX)) }
    })
}
