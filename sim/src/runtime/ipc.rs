//! Memory of other processes.

use super::call_in;
use crate::c::put;
use crate::model::sharing::Handle;
use crate::model::status::SIM_NOT_MODELLED;

/// `cudaIpcMemLazyEnablePeerAccess`, without which nothing was measured.
const LAZY_PEER_ACCESS: u32 = 1;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcGetMemHandle(handle: *mut Handle, address: u64) -> u32 {
    // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
    call_in("cudaIpcGetMemHandle", |process, _, _| unsafe { put(handle, process.export(address)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcOpenMemHandle(address: *mut u64, handle: Handle, flags: u32) -> u32 {
    call_in("cudaIpcOpenMemHandle", |process, _, context| {
        if flags != LAZY_PEER_ACCESS {
            return Err(SIM_NOT_MODELLED);
        }
        // SAFETY: see above.
        unsafe { put(address, process.import(handle, context)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcCloseMemHandle(address: u64) -> u32 {
    call_in("cudaIpcCloseMemHandle", |process, _, _| process.close_import(address))
}
