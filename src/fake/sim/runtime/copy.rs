//! Fills of memory. The content of memory is not modeled, so copies are not either.

use super::call_in;
use crate::symbols::runtime_symbols;

runtime_symbols! {
    fn cudaMemset(address: u64, _value: i32, bytes: usize) =
        call_in(|process, _, context| process.fill(context.device, address, bytes as u64));

    fn cudaMemsetAsync(address: u64, _value: i32, bytes: usize, stream: u64) = call_in(|process, _, context| {
        let device = process.stream_owner(stream, Ok(context))?.device;
        process.fill(device, address, bytes as u64)
    });
}
