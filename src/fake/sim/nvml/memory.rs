//! Memory and processes, read from the table that every process on the machine writes.

use super::status::*;
use super::{call_on, put};
use crate::pointer::Out;
use crate::symbols::symbols;

/// `nvmlMemory_t`: "used" includes the memory that the driver reserves.
#[repr(C)]
pub struct MemoryInfo {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`: "used" is the allocated memory; memory that the driver reserves is listed separately.
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

/// `NVML_VALUE_NOT_AVAILABLE`.
const NOT_AVAILABLE: u64 = u64::MAX;

/// Instance ids of a GPU that is not divided.
const NO_INSTANCE: u32 = u32::MAX;

symbols! {
    fn nvmlDeviceGetMemoryInfo(device: u64, memory: Out<MemoryInfo>) = call_on(device, |machine, index, gpu| {
        answered(gpu.memory_status)?;
        let used = machine.used_bytes(index) + gpu.reserved_bytes;
        put(&memory, MemoryInfo { total: gpu.total_bytes, free: gpu.total_bytes.saturating_sub(used), used })
    });

    fn nvmlDeviceGetMemoryInfo_v2(device: u64, memory: Out<MemoryV2>) = call_on(device, |machine, index, gpu| {
        answered(gpu.memory_status)?;
        // SAFETY: the caller passes a structure that begins with a version, or null.
        let version = unsafe { memory.cast::<u32>() }.read().map_err(|_| INVALID_ARGUMENT)?;
        if version != MEMORY_V2 {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        let (used, reserved) = (machine.used_bytes(index), gpu.reserved_bytes);
        let free = gpu.total_bytes.saturating_sub(used + reserved);
        put(&memory, MemoryV2 { version, total: gpu.total_bytes, reserved, free, used })
    });

    fn nvmlDeviceGetComputeRunningProcesses_v3(device: u64, count: Out<u32>, infos: Out<ProcessInfo>) =
        running(device, &count, &infos);

    /// The second version has the same entries (memory/second-process-is-garbled).
    fn nvmlDeviceGetComputeRunningProcesses_v2(device: u64, count: Out<u32>, infos: Out<ProcessInfo>) =
        running(device, &count, &infos);

    /// No process draws on a simulated GPU.
    fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: u64, count: Out<u32>, _infos: Out<ProcessInfo>) =
        call_on(device, |_, _, gpu| answered(gpu.processes_status).and_then(|()| put(&count, 0)));

    /// The simulated machine has no MPS server.
    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(device: u64, count: Out<u32>, _infos: Out<ProcessInfo>) =
        call_on(device, |_, _, gpu| answered(gpu.processes_status).and_then(|()| put(&count, 0)));
}

/// Returns the result of a call with this status in the description.
fn answered(status: u32) -> Result<(), u32> {
    if status == SUCCESS {
        Ok(())
    } else {
        Err(status)
    }
}

/// Lists the processes with a context. `cuInit` alone, which allocates memory, does not put a process on the list.
fn running(device: u64, count: &Out<u32>, infos: &Out<ProcessInfo>) -> u32 {
    call_on(device, |machine, index, gpu| {
        answered(gpu.processes_status)?;
        let room = count.read().map_err(|_| INVALID_ARGUMENT)? as usize;
        let found: Vec<_> = machine
            .table
            .holdings(index)
            .into_iter()
            .filter(|holding| holding.contexts > 0)
            .collect();
        put(count, found.len() as u32)?;
        if found.len() > room {
            return Err(INSUFFICIENT_SIZE);
        }
        for (index, holding) in found.iter().enumerate() {
            let info = ProcessInfo {
                pid: holding.pid,
                used_bytes: if gpu.processes_without_bytes {
                    NOT_AVAILABLE
                } else {
                    gpu.listed_bytes(holding.used_bytes, holding.contexts)
                },
                gpu_instance: NO_INSTANCE,
                compute_instance: NO_INSTANCE,
            };
            // SAFETY: the index is below the number of structures that the caller says there is room for.
            unsafe { infos.put_at(index, info) }.map_err(|_| INVALID_ARGUMENT)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<MemoryInfo>(), 24);
        assert_eq!(size_of::<MemoryV2>(), 40);
        assert_eq!(MEMORY_V2, 0x0200_0028);
        assert_eq!(size_of::<ProcessInfo>(), 24);
    }
}
