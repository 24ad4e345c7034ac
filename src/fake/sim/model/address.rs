//! The meaning of an address to CUDA.

use crate::model::host::HostKind;

/// The location of the memory at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Location {
    Device(usize),
    Host(HostKind, usize),
    Unknown,
}

/// A piece of device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceMemory {
    pub base: u64,
    pub bytes: u64,
    pub device: usize,
    pub kind: DeviceMemoryKind,
}

/// The origin of a piece of device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceMemoryKind {
    Plain {
        context: u64,
    },
    /// Allocated in stream order, from a pool.
    Pooled,
    /// Created by `cuMemCreate` and mapped by `cuMemMap`.
    Mapped,
    /// A variable of a module.
    Variable,
}

impl DeviceMemory {
    /// Returns `true` if an address lies in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.base..self.base + self.bytes).contains(&address)
    }
}
