//! Fills and copies of the runtime: each makes the context of the current device if need be, even on a stream of
//! another one.

use super::call_in;
use crate::model::status::{Outcome, SIM_NOT_MODELLED};
use crate::process::SimulatedProcess;
use crate::symbols::runtime_symbols;

/// `cudaMemcpyDeviceToDevice` and `cudaMemcpyDefault`; the other kinds name the host, and what is in its memory is not
/// modelled.
fn copy(process: &mut SimulatedProcess, to: u64, from: u64, bytes: usize, kind: u32) -> Outcome {
    if matches!(kind, 3 | 4) {
        process.copy(to, from, bytes as u64)
    } else {
        Err(SIM_NOT_MODELLED)
    }
}

runtime_symbols! {
    fn cudaMemset(address: u64, value: i32, bytes: usize) =
        call_in(|process, _, context| process.fill(context.device, address, value as u8, bytes as u64, false));

    fn cudaMemsetAsync(address: u64, value: i32, bytes: usize, stream: u64) = call_in(|process, _, context| {
        let device = process.stream_owner(stream, Ok(context))?.device;
        process.fill(device, address, value as u8, bytes as u64, true)
    });

    fn cudaMemcpy(to: u64, from: u64, bytes: usize, kind: u32) =
        call_in(|process, _, _| copy(process, to, from, bytes, kind));

    fn cudaMemcpyAsync(to: u64, from: u64, bytes: usize, kind: u32, stream: u64) = call_in(|process, _, context| {
        process.stream_owner(stream, Ok(context))?;
        copy(process, to, from, bytes, kind)
    });

    /// Between devices that both have their contexts; which ones it would make is not modelled.
    fn cudaMemcpyPeer(to: u64, to_device: i32, from: u64, from_device: i32, bytes: usize) = call_in(|process, _, _| {
        for device in [to_device, from_device] {
            if !process.device(device)?.primary.active {
                return Err(SIM_NOT_MODELLED);
            }
        }
        process.copy(to, from, bytes as u64)
    });
}
