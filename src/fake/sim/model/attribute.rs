//! Device attributes by number. Driver and runtime share the numbers.

use crate::machine::gpu::SimulatedGpu;
use crate::model::status::{INVALID_VALUE, Outcome, SIM_NOT_MODELLED};

/// Returns the value of an attribute, if it is the same on every recent GPU or the machine describes it.
pub fn attribute(gpu: &SimulatedGpu, number: i32) -> Outcome<i32> {
    Ok(match number {
        i32::MIN..=0 => return Err(INVALID_VALUE),
        // Threads per block, block size in x, y and z, grid size in x, y and z.
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65535,
        // Shared memory per block, constant memory, warp size, registers per block and per multiprocessor.
        8 => 48 << 10,
        9 => 64 << 10,
        10 => 32,
        12 | 82 => 65536,
        // Multiprocessors, threads per multiprocessor.
        16 => gpu.sm_count,
        39 => gpu.max_threads_per_sm,
        // No kernel time limit, not integrated, default compute mode, no TCC driver.
        17 | 18 | 20 | 35 => 0,
        // Host mapping, concurrent kernels, unified addressing, priorities, managed memory and its concurrent use,
        // cooperative launch.
        19 | 31 | 41 | 78 | 83 | 89 | 95 => 1,
        // Virtual memory management, memory pools.
        102 | 115 => 1,
        // The PCI address.
        33 => gpu.pci.bus as i32,
        34 => gpu.pci.device as i32,
        50 => gpu.pci.domain as i32,
        // The compute capability.
        75 => gpu.capability.0,
        76 => gpu.capability.1,
        _ => return Err(SIM_NOT_MODELLED),
    })
}
