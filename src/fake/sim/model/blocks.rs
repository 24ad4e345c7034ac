//! Device memory of one device: small requests share blocks, larger ones are rounded up to whole blocks.

use crate::model::behaviour::SMALL_REQUEST_BYTES;
use crate::model::status::{OUT_OF_MEMORY, Outcome};
use std::collections::BTreeMap;

/// Requests inside a block start on this boundary.
const ALIGNMENT: u64 = 512;

/// The blocks of one device, by address.
pub struct Blocks {
    granularity: u64,
    next: u64,
    blocks: BTreeMap<u64, MemoryBlock>,
}

struct MemoryBlock {
    context: u64,
    bytes: u64,
    shared: bool,
    /// Offset and length of every request in the block.
    pieces: BTreeMap<u64, u64>,
}

impl Blocks {
    /// Returns an empty table of blocks; addresses grow from `base`.
    pub fn new(base: u64, granularity: u64) -> Self {
        Self {
            granularity,
            next: base,
            blocks: BTreeMap::new(),
        }
    }

    /// Finds an address for a request. `charge` allocates the memory of a new block; if it fails, nothing has changed.
    pub fn allocate(
        &mut self,
        context: u64,
        bytes: u64,
        charge: impl FnOnce(u64) -> Outcome,
    ) -> Outcome<u64> {
        let shared = bytes <= SMALL_REQUEST_BYTES.min(self.granularity);
        if shared {
            let existing = self
                .blocks
                .iter_mut()
                .filter(|(_, block)| block.shared && block.context == context);
            for (base, block) in existing {
                if let Some(offset) = block.gap(bytes) {
                    block.pieces.insert(offset, bytes);
                    return Ok(base + offset);
                }
            }
        }
        let size = bytes
            .checked_next_multiple_of(self.granularity)
            .ok_or(OUT_OF_MEMORY)?;
        charge(size)?;
        let base = self.next;
        self.next += size;
        self.blocks.insert(
            base,
            MemoryBlock {
                context,
                bytes: size,
                shared,
                pieces: BTreeMap::from([(0, bytes)]),
            },
        );
        Ok(base)
    }

    /// Forgets a request. Returns the device memory that this frees, or `None` if no request has the address.
    pub fn free(&mut self, address: u64) -> Option<u64> {
        let (base, block) = self.blocks.range_mut(..=address).next_back()?;
        block.pieces.remove(&(address - base))?;
        if !block.pieces.is_empty() {
            return Some(0);
        }
        let (base, bytes) = (*base, block.bytes);
        self.blocks.remove(&base);
        Some(bytes)
    }

    /// Forgets all requests of a context. Returns the device memory that this frees.
    pub fn free_context(&mut self, context: u64) -> u64 {
        let mut bytes = 0;
        self.blocks.retain(|_, block| {
            let keep = block.context != context;
            bytes += if keep { 0 } else { block.bytes };
            keep
        });
        bytes
    }

    /// Returns the request that an address lies in: its base, its length and its context.
    pub fn find(&self, address: u64) -> Option<(u64, u64, u64)> {
        let (base, block) = self.blocks.range(..=address).next_back()?;
        let (offset, bytes) = block.pieces.range(..=address - base).next_back()?;
        (address - base < offset + bytes).then_some((base + offset, *bytes, block.context))
    }
}

impl MemoryBlock {
    /// Returns the first hole that is large enough.
    fn gap(&self, bytes: u64) -> Option<u64> {
        let mut at = 0;
        for (offset, length) in &self.pieces {
            if at + bytes <= *offset {
                return Some(at);
            }
            at = (offset + length).next_multiple_of(ALIGNMENT);
        }
        (at + bytes <= self.bytes).then_some(at)
    }
}
