//! Fills and copies, and the attributes of a pointer.

use super::{call, call_in};
use crate::model::address::{DeviceMemoryKind, Location};
use crate::model::status::{INVALID_VALUE, SIM_NOT_MODELLED};
use crate::pointer::Out;
use crate::symbols::symbols;
use std::ffi::c_void;

const CONTEXT: u32 = 1;
const DEVICE_ORDINAL: u32 = 9;
const IS_LEGACY_CUDA_IPC_CAPABLE: u32 = 10;

symbols! {
    fn cuMemsetD8_v2(address: u64, _value: u8, bytes: usize) =
        call_in(|process, _, current| process.fill(current.device, address, bytes as u64));

    /// The content of memory is not modeled; only its location and size.
    fn cuMemcpyHtoD_v2(to: u64, _from: *const c_void, bytes: usize) =
        call_in(|process, _, _| process.check_range(to, bytes as u64));

    /// Memory of a pool and memory that was mapped have no context (device/pointer-without-a-context), and plain host
    /// memory has no attribute at all (context/pointer-query-makes-one).
    fn cuPointerGetAttribute(value: Out<c_void>, attribute: u32, address: u64) = call(|process, _| {
        let Some(found) = process.device_memory(address) else {
            let is_unknown = process.location_of(address) == Location::Unknown;
            return Err(if is_unknown { INVALID_VALUE } else { SIM_NOT_MODELLED });
        };
        let context = match found.kind {
            DeviceMemoryKind::Plain { context } => context,
            DeviceMemoryKind::Pooled | DeviceMemoryKind::Mapped => 0,
            DeviceMemoryKind::Variable => return Err(SIM_NOT_MODELLED),
        };
        // SAFETY: the caller passes room for the attribute's type, or null.
        unsafe {
            match attribute {
                CONTEXT => value.cast::<u64>().put(context),
                DEVICE_ORDINAL => value.cast::<i32>().put(found.device as i32),
                IS_LEGACY_CUDA_IPC_CAPABLE => value.cast::<u8>().put(u8::from(context != 0)),
                _ => Err(SIM_NOT_MODELLED),
            }
        }
    });
}
