//! Memory calls of the runtime: each creates the context of the current device if necessary, even a free.

use super::{call, call_in};
use crate::model::address::Location;
use crate::model::host::HostKind;
use crate::model::status::{INVALID_VALUE, SIM_NOT_MODELLED};
use crate::pointer::Out;
use crate::symbols::runtime_symbols;

/// `cudaPointerAttributes`, up to the fields that newer versions reserve.
#[repr(C)]
pub struct PointerAttributes {
    kind: u32,
    device: i32,
    device_pointer: u64,
    host_pointer: u64,
}

runtime_symbols! {
    fn cudaMalloc(address: Out<u64>, bytes: usize) = call_in(|process, _, context| {
        address.put_with(|| if bytes == 0 { Ok(0) } else { process.allocate(context, bytes as u64) })
    });

    fn cudaFree(address: u64) = call_in(|process, _, _| if address == 0 { Ok(()) } else { process.free(address) });

    fn cudaMallocManaged(address: Out<u64>, bytes: usize, flags: u32) =
        call_in(|process, _, context| address.put_with(|| process.allocate_managed(context, bytes, flags)));

    /// Since 13.0, with a location of eight bytes. Measured without memory to give advice about
    /// (context/failed-call-makes-one).
    fn cudaMemAdvise(address: u64, _bytes: usize, _advice: u32, _location: u64) =
        call_in(|_, _, _| Err(if address == 0 { INVALID_VALUE } else { SIM_NOT_MODELLED }));

    fn cudaHostAlloc(address: Out<u64>, bytes: usize, _flags: u32) =
        call_in(|process, _, context| address.put_with(|| process.allocate_host(context, bytes, HostKind::Pinned)));

    fn cudaMallocHost(address: Out<u64>, bytes: usize) =
        call_in(|process, _, context| address.put_with(|| process.allocate_host(context, bytes, HostKind::Pinned)));

    fn cudaFreeHost(address: u64) = call_in(|process, _, _| {
        if address == 0 { Ok(()) } else { process.free_host(address, HostKind::Pinned) }
    });

    fn cudaHostRegister(address: u64, bytes: usize, _flags: u32) =
        call_in(|process, _, context| process.register(context, address, bytes));

    fn cudaHostUnregister(address: u64) = call_in(|process, _, _| process.unregister(address));

    fn cudaMemGetInfo(free: Out<usize>, total: Out<usize>) = call_in(|process, _, context| {
        let (free_bytes, total_bytes) = process.memory_info(context.device)?;
        free.put(free_bytes as usize)?;
        total.put(total_bytes as usize)
    });

    fn cudaPointerGetAttributes(attributes: Out<PointerAttributes>, address: u64) = call(|process, _| {
        let (kind, device, device_pointer, host_pointer) = match process.location_of(address) {
            Location::Device(device) => (2, device as i32, address, 0),
            Location::Host(HostKind::Managed, device) => (3, device as i32, address, address),
            Location::Host(HostKind::Pinned, device) => (1, device as i32, address, address),
            Location::Host(HostKind::Registered, _) => return Err(SIM_NOT_MODELLED),
            // Plain host memory: "unregistered", with the device number that means none.
            Location::Unknown => (0, -2, 0, address),
        };
        attributes.put(PointerAttributes { kind, device, device_pointer, host_pointer })
    });
}
