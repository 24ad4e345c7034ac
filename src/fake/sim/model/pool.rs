//! A memory pool of one device: the default one behind `cudaMallocAsync`, or one that the process made.

use std::collections::BTreeSet;

/// A pool. Memory that it reserved counts as used on the GPU until the pool gives it back.
#[derive(Default, Clone, Debug)]
pub struct MemoryPool {
    pub device: usize,
    /// Other devices that may use its memory. Peer access between contexts does not open a pool
    /// (fault/peer-access-leaves-out-pools).
    pub access: BTreeSet<usize>,
    pub used: u64,
    pub used_high: u64,
    pub reserved: u64,
    pub reserved_high: u64,
    pub release_threshold: u64,
    /// Freed in stream order, but the host has not seen the free complete: a trim cannot take it.
    unobserved: u64,
    granularity: u64,
}

/// One stream-ordered allocation.
#[derive(Clone, Copy, Debug)]
pub struct PoolMemory {
    pub pool: u64,
    pub device: usize,
    pub bytes: u64,
}

impl MemoryPool {
    /// An empty pool that reserves in multiples of `granularity`.
    pub fn new(device: usize, granularity: u64) -> Self {
        Self {
            device,
            granularity,
            ..Self::default()
        }
    }

    /// How much more must be reserved before `bytes` can be handed out; `None` for a request beyond any memory.
    pub fn missing(&self, bytes: u64) -> Option<u64> {
        let wanted = self
            .used
            .checked_add(bytes)?
            .checked_next_multiple_of(self.granularity)?;
        Some(wanted.saturating_sub(self.reserved))
    }

    /// Hands out `bytes` after `more` were reserved.
    pub fn take(&mut self, bytes: u64, more: u64) {
        self.reserved += more;
        self.used += bytes;
        self.used_high = self.used_high.max(self.used);
        self.reserved_high = self.reserved_high.max(self.reserved);
        self.unobserved = self.unobserved.min(self.reserved - self.used);
    }

    /// Takes `bytes` back in stream order; they stay reserved.
    pub fn give(&mut self, bytes: u64) {
        self.used -= bytes;
        self.unobserved += bytes;
    }

    /// The host synchronised: what is above the release threshold goes back. Returns how much.
    pub fn synchronise(&mut self) -> u64 {
        self.unobserved = 0;
        self.shrink_to(self.used.max(self.release_threshold))
    }

    /// Gives back what lies above `keep` and is known to be free. Returns how much.
    pub fn trim(&mut self, keep: u64) -> u64 {
        self.shrink_to((self.used + self.unobserved).max(keep))
    }

    fn shrink_to(&mut self, floor: u64) -> u64 {
        let target = floor
            .checked_next_multiple_of(self.granularity)
            .unwrap_or(u64::MAX)
            .min(self.reserved);
        std::mem::replace(&mut self.reserved, target) - target
    }
}
