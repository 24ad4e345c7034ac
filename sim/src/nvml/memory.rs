//! Memory and processes, read from the table that every process of the node writes.

use super::status::*;
use super::{call_on, put};

/// `nvmlMemory_t`: "used" includes what the driver reserves.
#[repr(C)]
pub struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`: "used" is what is allocated; what the driver reserves stands apart.
#[repr(C)]
pub struct MemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// The version a caller must write into the structure: its size, and its number in the top byte.
const MEMORY_V2: u32 = size_of::<MemoryV2>() as u32 | 2 << 24;

/// `nvmlProcessInfo_t` of the third version of the process calls.
#[repr(C)]
pub struct ProcessInfo {
    pid: u32,
    used_bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// Instance ids of a GPU that is not divided.
const NO_INSTANCE: u32 = u32::MAX;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: u64, memory: *mut Memory) -> u32 {
    call_on(device, |node, index, gpu| {
        let used = node.used_bytes(index) + gpu.reserved_bytes;
        // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
        unsafe { put(memory, Memory { total: gpu.total_bytes, free: gpu.total_bytes.saturating_sub(used), used }) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: u64, memory: *mut MemoryV2) -> u32 {
    call_on(device, |node, index, gpu| {
        if memory.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null; the caller wrote the version.
        let version = unsafe { (&raw const (*memory).version).read_unaligned() };
        if version != MEMORY_V2 {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        let (used, reserved) = (node.used_bytes(index), gpu.reserved_bytes);
        let free = gpu.total_bytes.saturating_sub(used + reserved);
        // SAFETY: see above.
        unsafe { put(memory, MemoryV2 { version, total: gpu.total_bytes, reserved, free, used }) }
    })
}

/// Lists a process from its first context on: `cuInit` alone, which takes memory, lists nobody.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: u64,
    count: *mut u32,
    infos: *mut ProcessInfo,
) -> u32 {
    call_on(device, |node, index, gpu| {
        if count.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        let found: Vec<_> = node.table.holdings(index).into_iter().filter(|holding| holding.contexts > 0).collect();
        // SAFETY: not null; the caller wrote how many structures there is room for.
        let room = unsafe { count.read_unaligned() } as usize;
        // SAFETY: as above.
        unsafe { put(count, found.len() as u32)? };
        if found.len() > room {
            return Err(INSUFFICIENT_SIZE);
        }
        for (at, holding) in found.iter().enumerate() {
            let info = ProcessInfo {
                pid: holding.pid,
                used_bytes: gpu.listed_bytes(holding.used_bytes, holding.contexts) + holding.borrowed_bytes,
                gpu_instance: NO_INSTANCE,
                compute_instance: NO_INSTANCE,
            };
            if infos.is_null() {
                return Err(INVALID_ARGUMENT);
            }
            // SAFETY: `at` is below the room the caller said there is.
            unsafe { put(infos.add(at), info)? };
        }
        Ok(())
    })
}

/// The second version has the same entries (memory/second-process-is-garbled).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    device: u64,
    count: *mut u32,
    infos: *mut ProcessInfo,
) -> u32 {
    // SAFETY: the caller's pointers are what both prototypes say.
    unsafe { nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos) }
}

/// No process draws on a simulated GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: u64,
    count: *mut u32,
    _infos: *mut ProcessInfo,
) -> u32 {
    // SAFETY: see above.
    call_on(device, |_, _, _| unsafe { put(count, 0) })
}

/// There is no MPS server on the simulated node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    device: u64,
    count: *mut u32,
    _infos: *mut ProcessInfo,
) -> u32 {
    // SAFETY: see above.
    call_on(device, |_, _, _| unsafe { put(count, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Memory>(), 24);
        assert_eq!(size_of::<MemoryV2>(), 40);
        assert_eq!(MEMORY_V2, 0x0200_0028);
        assert_eq!(size_of::<ProcessInfo>(), 24);
    }
}
