//! A visible device of this process.

use crate::machine::description::MachineConf;
use crate::model::blocks::Blocks;
use crate::model::pool::MemoryPool;
use crate::model::primary::Primary;

/// Device memory of ordinal 0 starts here; every ordinal has its own range of this size, far from the addresses where
/// the kernel maps files.
const ADDRESSES: u64 = 1 << 40;
const FIRST_ADDRESS: u64 = 3 * ADDRESSES;

/// A device by its CUDA ordinal. `gpu` is its NVML index.
pub struct Device {
    pub gpu: usize,
    pub primary: Primary,
    pub primary_handle: u64,
    /// The default pool of the device.
    pub pool: MemoryPool,
    pub blocks: Blocks,
    /// Address of the next stream-ordered allocation.
    pub pool_address: u64,
    variable_address: u64,
}

impl Device {
    /// Returns an untouched device.
    pub fn new(description: &MachineConf, ordinal: usize, gpu: usize, primary_handle: u64) -> Self {
        let base = FIRST_ADDRESS + ordinal as u64 * ADDRESSES;
        Self {
            gpu,
            primary: Primary::default(),
            primary_handle,
            pool: MemoryPool::new(description.pool_granularity_bytes),
            blocks: Blocks::new(base, description.alloc_granularity_bytes),
            pool_address: base + ADDRESSES / 2,
            variable_address: base + ADDRESSES / 4 * 3,
        }
    }

    /// Returns an address for a variable of a module.
    pub fn next_variable(&mut self, bytes: u64) -> u64 {
        let address = self.variable_address;
        self.variable_address += bytes.next_multiple_of(512).max(512);
        address
    }
}
