//! Fills and copies, the attributes of a pointer, and the unversioned symbols.

use super::{call, call_in};
use crate::model::address::{DeviceMemoryKind, Location};
use crate::model::contents::WORD_BYTES;
use crate::model::status::{INVALID_CONTEXT, INVALID_VALUE, SIM_NOT_MODELLED};
use crate::pointer::{In, Out};
use crate::symbols::symbols;
use std::ffi::c_void;

const CONTEXT: u32 = 1;
const DEVICE_ORDINAL: u32 = 9;
const IS_LEGACY_CUDA_IPC_CAPABLE: u32 = 10;

symbols! {
    fn cuMemsetD8_v2(address: u64, value: u8, bytes: usize) =
        call_in(|process, _, current| process.fill(current.device, address, value, bytes as u64, false));

    /// Copies what is known of the memory: its first eight bytes.
    fn cuMemcpyDtoH_v2(to: Out<c_void>, from: u64, bytes: usize) = call_in(|process, _, current| {
        process.wait(current)?;
        let word = process.read_word(from, bytes as u64)?;
        // SAFETY: the caller passes room for what it asks for, which is a word, or null.
        unsafe { to.cast::<u64>() }.put(word)
    });

    /// The host's memory is read for its first eight bytes, which is what is kept.
    fn cuMemcpyHtoD_v2(to: u64, from: In<u64>, bytes: usize) = call_in(|process, _, _| {
        if bytes == 0 {
            return Ok(());
        }
        let word = if bytes as u64 >= WORD_BYTES { Some(from.read()?) } else { from.given().map(|()| None)? };
        process.store(to, bytes as u64, word)
    });

    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) =
        call_in(|process, _, _| process.copy(to, from, bytes as u64));

    /// Needs a current context although it names two (device/driver-copy-between-contexts).
    fn cuMemcpyPeer(to: u64, to_context: u64, from: u64, from_context: u64, bytes: usize) = call_in(|process, _, _| {
        if [to_context, from_context].iter().any(|context| process.contexts.owner(*context).is_none()) {
            return Err(SIM_NOT_MODELLED);
        }
        process.copy(to, from, bytes as u64)
    });

    /// Memory of a pool and memory that was mapped have no context (device/pointer-without-a-context), and plain host
    /// memory has no attribute at all (context/pointer-query-makes-one).
    fn cuPointerGetAttribute(value: Out<c_void>, attribute: u32, address: u64) = call(|process, _| {
        let Some(found) = process.device_memory(address) else {
            let is_unknown = process.location_of(address) == Location::Unknown;
            return Err(if is_unknown { INVALID_VALUE } else { SIM_NOT_MODELLED });
        };
        let context = match found.kind {
            DeviceMemoryKind::Plain { context } => context,
            DeviceMemoryKind::Pooled { .. } | DeviceMemoryKind::Mapped => 0,
            DeviceMemoryKind::Variable | DeviceMemoryKind::Imported => return Err(SIM_NOT_MODELLED),
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

    fn cuMemGetInfo(_free: Out<u32>, _total: Out<u32>) = unversioned();

    fn cuMemAlloc(_address: Out<u32>, _bytes: u32) = unversioned();

    /// 32 bits hold no more (memory/old-names-see-32-bits).
    fn cuDeviceTotalMem(bytes: Out<u32>, device: i32) =
        call(|process, _| bytes.put(u32::try_from(process.gpu(device)?.cuda_total_bytes()).unwrap_or(u32::MAX)));
}

/// An unversioned symbol sees only contexts that an unversioned symbol made, and answers as if there were no other
/// (memory/old-names-see-32-bits). Such contexts are beyond the model.
fn unversioned() -> u32 {
    call_in(|_, _, _| Err(INVALID_CONTEXT))
}
