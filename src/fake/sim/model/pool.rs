//! The default memory pool of a device, behind `cudaMallocAsync`.

/// A pool. Memory that it reserved counts as used on the GPU until the pool frees it.
#[derive(Clone, Debug)]
pub struct MemoryPool {
    used: u64,
    reserved: u64,
    granularity: u64,
}

/// A stream-ordered allocation.
#[derive(Clone, Copy, Debug)]
pub struct PoolMemory {
    pub device: usize,
    pub bytes: u64,
}

impl MemoryPool {
    /// Returns an empty pool that reserves in multiples of `granularity`.
    pub fn new(granularity: u64) -> Self {
        Self {
            used: 0,
            reserved: 0,
            granularity,
        }
    }

    /// Returns the memory that must still be reserved before `bytes` can be allocated; `None` for a request beyond any
    /// memory.
    pub fn missing_bytes(&self, bytes: u64) -> Option<u64> {
        let wanted = self
            .used
            .checked_add(bytes)?
            .checked_next_multiple_of(self.granularity)?;
        Some(wanted.saturating_sub(self.reserved))
    }

    /// Allocates `bytes` after `more` were reserved.
    pub fn take_bytes(&mut self, bytes: u64, more: u64) {
        self.reserved += more;
        self.used += bytes;
    }

    /// Frees `bytes` in stream order; they stay reserved.
    pub fn give_back(&mut self, bytes: u64) {
        self.used -= bytes;
    }

    /// Called when the host synchronized: frees the memory that is not in use. Returns its size.
    pub fn release_unused(&mut self) -> u64 {
        let kept = self
            .used
            .next_multiple_of(self.granularity)
            .min(self.reserved);
        std::mem::replace(&mut self.reserved, kept) - kept
    }
}
