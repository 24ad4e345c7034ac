//! Stream-ordered memory and its pools.

use super::{call, call_in};
use crate::model::context::ContextOwner;
use crate::model::status::{Outcome, SIM_NOT_MODELLED};
use crate::model::stream::is_explicit;
use crate::pointer::Out;
use crate::process::SimulatedProcess;
use crate::symbols::{runtime_symbols, symbols};

symbols! {
    fn cudaMallocAsync(address: Out<u64>, bytes: usize, stream: u64) = if is_explicit(stream) {
        call("cudaMallocAsync on an explicit stream", |process, _| {
            allocate(process, &address, bytes, stream, Err(SIM_NOT_MODELLED))
        })
    } else {
        call_in("cudaMallocAsync", |process, _, context| allocate(process, &address, bytes, stream, Ok(context)))
    };
}

fn allocate(
    process: &mut SimulatedProcess,
    address: &Out<u64>,
    bytes: usize,
    stream: u64,
    current: Outcome<ContextOwner>,
) -> Outcome {
    let device = process.stream_owner(stream, current)?.device;
    address.put_with(|| process.allocate_async(device, bytes as u64))
}

runtime_symbols! {

    fn cudaFreeAsync(address: u64, stream: u64) = call_in(|process, _, context| {
        process.stream_owner(stream, Ok(context))?;
        process.free_async(address)
    });
}
