//! Devices: pure queries, which never create a context.

use super::call;
use crate::model::attribute::attribute;
use crate::model::status::{INVALID_VALUE, Outcome};
use crate::pointer::Out;
use crate::process::SimulatedProcess;
use crate::symbols::symbols;
use std::ffi::c_char;

symbols! {
    fn cuDeviceGetCount(count: Out<i32>) = call(|process, _| count.put(process.devices.len() as i32));

    fn cuDeviceGet(device: Out<i32>, ordinal: i32) = call(|process, _| device.put(process.ordinal(ordinal)? as i32));

    fn cuDeviceGetName(name: Out<c_char>, room: i32, device: i32) = call(|process, _| {
        let gpu = process.gpu(device)?;
        name.given()?;
        let room = usize::try_from(room).ok().filter(|room| *room > 0).ok_or(INVALID_VALUE)?;
        // A name that does not fit is cut, not rejected.
        let cut = &gpu.name[..gpu.name.floor_char_boundary(room - 1)];
        // SAFETY: not null, and the caller passes an array of this length.
        unsafe { name.put_text(room, cut) };
        Ok(())
    });

    fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) = call(|process, _| uuid.put(process.gpu(device)?.uuid_bytes));

    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: i32) =
        call(|process, _| uuid.put(process.gpu(device)?.uuid_bytes));

    fn cuDeviceGetAttribute(value: Out<i32>, number: i32, device: i32) =
        call(|process, _| value.put(attribute(process.gpu(device)?, number)?));

    fn cuDeviceGetPCIBusId(text: Out<c_char>, room: i32, device: i32) =
        // SAFETY: the caller passes an array of this length, or null.
        call(|process, _| unsafe { put_bus_id(process, &text, room, device) });

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) =
        call(|process, _| bytes.put(process.gpu(device)?.cuda_total_bytes() as usize));

    fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) = call(|process, _| {
        let (device, peer) = (process.ordinal(device)?, process.ordinal(peer)?);
        can.put(i32::from(process.can_access_peer(device, peer)?))
    });
}

/// Writes a PCI bus id as CUDA writes it, with a domain of four digits.
///
/// # Safety
/// `text` is null or valid for `room` bytes.
pub unsafe fn put_bus_id(
    process: &SimulatedProcess,
    text: &Out<c_char>,
    room: i32,
    device: i32,
) -> Outcome {
    let id = process.gpu(device)?.pci.text();
    text.given()?;
    let room = usize::try_from(room).map_err(|_| INVALID_VALUE)?;
    // SAFETY: not null; the caller vouches for the room.
    if unsafe { text.put_text(room, &id) } {
        Ok(())
    } else {
        Err(INVALID_VALUE)
    }
}
