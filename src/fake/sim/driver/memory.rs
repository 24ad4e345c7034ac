//! Memory calls of the driver.

use super::{call, call_in};
use crate::model::host::HostKind;
use crate::model::status::{INVALID_VALUE, SIM_NOT_MODELLED};
use crate::pointer::Out;
use crate::symbols::symbols;

const PORTABLE: u32 = 1;
const DEVICE_MAP: u32 = 2;

symbols! {
    fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) = call_in(|process, _, current| {
        address.given()?;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        address.put(process.allocate(current, bytes as u64)?)
    });

    fn cuMemFree_v2(address: u64) = call(|process, _| process.driver_free(address));

    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) = call_in(|process, _, current| {
        let (free_bytes, total_bytes) = process.memory_info(current.device)?;
        free.put(free_bytes as usize)?;
        total.put(total_bytes as usize)
    });

    fn cuMemAllocHost_v2(address: Out<u64>, bytes: usize) =
        call_in(|process, _, current| address.put_with(|| process.allocate_host(current, bytes, HostKind::Pinned)));

    /// The flags that change nothing here: portable and mapped memory.
    fn cuMemHostAlloc(address: Out<u64>, bytes: usize, flags: u32) = call_in(|process, _, current| {
        if flags & !(PORTABLE | DEVICE_MAP) != 0 {
            return Err(SIM_NOT_MODELLED);
        }
        address.put_with(|| process.allocate_host(current, bytes, HostKind::Pinned))
    });

    fn cuMemFreeHost(address: u64) = call_in(|process, _, _| process.free_host(address, HostKind::Pinned));

    fn cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: u64) = call(|process, thread| {
        let device = process.stream_owner(stream, process.current(thread))?.device;
        address.put_with(|| process.allocate_async(device, bytes as u64))
    });

    fn cuMemFreeAsync(address: u64, stream: u64) = call(|process, thread| {
        process.stream_owner(stream, process.current(thread))?;
        process.free_async(address)
    });

    /// The memory is on no GPU until a kernel there uses it, which none does here
    /// (memory/managed-comes-with-the-touch).
    fn cuMemAllocManaged(address: Out<u64>, bytes: usize, flags: u32) =
        call_in(|process, _, current| address.put_with(|| process.allocate_managed(current, bytes, flags)));
}
