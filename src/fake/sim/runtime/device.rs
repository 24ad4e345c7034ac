//! Devices of the runtime: selecting and querying a device, its limits and its peers.

use super::{call, call_in, wait_in};
use crate::driver::context::CONTEXT_FLAGS;
use crate::driver::device::put_bus_id;
use crate::entry::{inherited_count, late_count};
use crate::model::attribute::attribute;
use crate::model::status::{INVALID_VALUE, SIM_NOT_MODELLED, code};
use crate::pointer::{In, InText, Out};
use crate::symbols::{runtime_symbols, symbols};
use std::ffi::c_char;

/// `cudaDeviceMapHost`, which the runtime reports whether or not it was set.
const MAP_HOST: u32 = 8;

/// The start of `cudaDeviceProp`, which all versions share: every version of the structure is longer.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PropertiesStart {
    name: [c_char; 256],
    uuid: [u8; 16],
    luid: [u8; 8],
    luid_mask: u32,
    total_bytes: usize,
}

symbols! {
    fn cudaGetDeviceCount(count: Out<i32>) = match late_count().or_else(inherited_count) {
        Some(known) => code(count.put(known)),
        None => call("cudaGetDeviceCount", |process, _| {
            let counted = process.devices.len() as i32;
            process.counted = Some(counted);
            count.put(counted)
        }),
    };
}

runtime_symbols! {
    fn cudaGetDevice(device: Out<i32>) = call(|process, thread| device.put(process.runtime_device(thread) as i32));

    fn cudaSetDevice(device: i32) = call(|process, thread| process.set_device(process.ordinal(device)?, thread));

    /// Creates the context, but neither makes it current nor selects the device.
    fn cudaInitDevice(device: i32, device_flags: u32, flags: u32) = call(|process, _| {
        let device = process.ordinal(device)?;
        if device_flags != 0 || flags != 0 {
            return Err(SIM_NOT_MODELLED);
        }
        process.runtime_primary(device).map(drop)
    });

    fn cudaDeviceReset() = call(|process, thread| {
        let device = process.runtime_device(thread);
        let primary = process.devices[device].primary_handle;
        if thread.current().is_some_and(|current| current != primary) {
            return Err(SIM_NOT_MODELLED);
        }
        process.reset_primary(device);
        Ok(())
    });

    fn cudaDeviceSynchronize() = wait_in(0, |process, _, context| process.wait(context));

    fn cudaDeviceGetAttribute(value: Out<i32>, number: i32, device: i32) =
        call(|process, _| value.put(attribute(process.gpu(device)?, number)?));

    fn cudaDeviceGetPCIBusId(text: Out<c_char>, room: i32, device: i32) =
        // SAFETY: the caller passes an array of this length, or null.
        call(|process, _| unsafe { put_bus_id(process, &text, room, device) });

    fn cudaDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) = call(|process, _| {
        let (device, peer) = (process.ordinal(device)?, process.ordinal(peer)?);
        can.put(i32::from(process.can_access_peer(device, peer)?))
    });

    /// Accepts the format of `cudaDeviceGetPCIBusId`; shorter forms are beyond the model.
    fn cudaDeviceGetByPCIBusId(device: Out<i32>, id: InText) = call(|process, _| {
        let wanted = id.bytes()?;
        let found = (0..process.devices.len() as i32).find(|ordinal| {
            process.gpu(*ordinal).is_ok_and(|gpu| gpu.pci.text().as_bytes().eq_ignore_ascii_case(&wanted))
        });
        device.put(found.ok_or(SIM_NOT_MODELLED)?)
    });

    /// Without any wanted properties, the first device is the best one. The weights of wanted properties are not
    /// modeled.
    fn cudaChooseDevice(device: Out<i32>, wanted: In<PropertiesStart>) = call(|_, _| {
        device.given()?;
        let wanted = wanted.read()?;
        if wanted.name[0] != 0 || wanted.total_bytes != 0 {
            return Err(SIM_NOT_MODELLED);
        }
        device.put(0)
    });

    fn cudaGetDeviceFlags(flags: Out<u32>) = call(|process, thread| {
        let device = process.runtime_device(thread);
        flags.put(process.devices[device].primary.flags | MAP_HOST)
    });

    fn cudaSetDeviceFlags(flags: u32) = call(|process, thread| {
        if flags & !CONTEXT_FLAGS != 0 {
            return Err(INVALID_VALUE);
        }
        let device = process.runtime_device(thread);
        process.devices[device].primary.flags = flags;
        Ok(())
    });

    /// Either pointer may be null.
    fn cudaDeviceGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) = call(|_, _| {
        let _ = least.put(0);
        let _ = greatest.put(-5);
        Ok(())
    });

    /// The structure differs between versions; only the fields at its start, which do not, are written.
    fn cudaGetDeviceProperties(properties: Out<PropertiesStart>, device: i32) = call(|process, _| {
        let gpu = process.gpu(device)?;
        properties.given()?;
        let start = properties.pointer();
        // SAFETY: not null, and the caller passes a whole structure, which begins with the 256 bytes of the name.
        unsafe {
            properties.cast::<c_char>().put_text(256, &gpu.name);
            (&raw mut (*start).uuid).write_unaligned(gpu.uuid_bytes);
            (&raw mut (*start).total_bytes).write_unaligned(gpu.cuda_total_bytes() as usize);
        }
        Ok(())
    });

    /// A limit belongs to the context of the current device, and querying one creates it.
    fn cudaDeviceGetLimit(value: Out<usize>, limit: u32) =
        call_in(|process, _, context| value.put(process.limit(context, limit)? as usize));

    fn cudaDeviceSetLimit(limit: u32, value: usize) =
        call_in(|process, _, context| process.set_limit(context, limit, value as u64));
}
