//! Fills and copies of the runtime: each makes the context of the current device if need be, even on a stream of another one.

use super::call_in;
use crate::model::process::Process;
use crate::model::status::SIM_NOT_MODELLED;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemset(address: u64, value: i32, bytes: usize) -> u32 {
    call_in("cudaMemset", |process, _, context| process.fill(context.device, address, value as u8, bytes as u64, false))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemsetAsync(address: u64, value: i32, bytes: usize, stream: u64) -> u32 {
    call_in("cudaMemsetAsync", |process, _, context| {
        let device = process.stream_owner(stream, Ok(context))?.device;
        process.fill(device, address, value as u8, bytes as u64, true)
    })
}

/// `cudaMemcpyDeviceToDevice` and `cudaMemcpyDefault`; the other kinds name the host, whose memory is not looked into.
fn is_known(kind: u32) -> bool {
    matches!(kind, 3 | 4)
}

fn copy(process: &mut Process, to: u64, from: u64, bytes: usize, kind: u32) -> Result<(), u32> {
    if is_known(kind) { process.copy(to, from, bytes as u64) } else { Err(SIM_NOT_MODELLED) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpy(to: u64, from: u64, bytes: usize, kind: u32) -> u32 {
    call_in("cudaMemcpy", |process, _, _| copy(process, to, from, bytes, kind))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyAsync(to: u64, from: u64, bytes: usize, kind: u32, stream: u64) -> u32 {
    call_in("cudaMemcpyAsync", |process, _, context| {
        process.stream_owner(stream, Ok(context))?;
        copy(process, to, from, bytes, kind)
    })
}

/// Between devices that both have their contexts; which ones it would make is not modelled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyPeer(to: u64, to_device: i32, from: u64, from_device: i32, bytes: usize) -> u32 {
    call_in("cudaMemcpyPeer", |process, _, _| {
        let both = [to_device, from_device];
        for device in both {
            if !process.device(device)?.primary.active {
                return Err(SIM_NOT_MODELLED);
            }
        }
        process.copy(to, from, bytes as u64)
    })
}
