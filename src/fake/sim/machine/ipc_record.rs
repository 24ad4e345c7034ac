//! Memory that one process exports to others, as it stands in the shared table.
//!
//! While its owner has it, it counts for the owner. When the owner has freed it or is gone, it stays as long as another
//! process has it open, and counts for that one (memory/ipc-import-pins-memory, process/killed-exporter).

use crate::machine::identity::Identity;
use std::sync::atomic::{AtomicU64, Ordering};

const IMPORTERS: usize = 8;

/// The values of [`Record::word_state`]: whether the first word is known.
const UNKNOWN: u64 = 0;
const KNOWN: u64 = 1;

/// Tells whether a process is still there, by the number of its identity.
pub type IsAlive<'a> = &'a dyn Fn(u64) -> bool;

/// One piece of memory that was exported. Zeroed memory is a free record.
#[repr(C)]
pub struct Record {
    owner: AtomicU64,
    gpu: AtomicU64,
    address: AtomicU64,
    bytes: AtomicU64,
    /// What stays taken after the owner freed it; until then the owner's account has it.
    freed: AtomicU64,
    word: AtomicU64,
    word_state: AtomicU64,
    importers: [AtomicU64; IMPORTERS],
}

/// The memory that a process exports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Export {
    pub gpu: usize,
    pub address: u64,
    /// What it takes: its block.
    pub bytes: u64,
}

impl Record {
    /// Whether the record may be used for something else.
    pub fn is_free(&self, is_alive: IsAlive) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        owner == 0
            || ((self.freed.load(Ordering::Acquire) != 0 || !is_alive(owner))
                && self.importer(is_alive).is_none())
    }

    /// Takes the record; `false` when another process was faster.
    pub fn take(&self, owner: Identity, export: Export) -> bool {
        let found = self.owner.load(Ordering::Acquire);
        self.owner
            .compare_exchange(found, owner.number(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
            && {
                self.importers
                    .iter()
                    .for_each(|importer| importer.store(0, Ordering::Release));
                for (field, value) in [
                    (&self.gpu, export.gpu as u64),
                    (&self.address, export.address),
                    (&self.bytes, export.bytes),
                    (&self.freed, 0),
                    (&self.word_state, UNKNOWN),
                ] {
                    field.store(value, Ordering::Release);
                }
                true
            }
    }

    /// Whether this is the memory that a handle names.
    pub fn is_named_by(&self, owner: u64, address: u64) -> bool {
        self.owner.load(Ordering::Acquire) == owner
            && self.address.load(Ordering::Acquire) == address
    }

    pub fn is_freed(&self) -> bool {
        self.freed.load(Ordering::Acquire) != 0
    }

    pub fn gpu(&self) -> usize {
        self.gpu.load(Ordering::Acquire) as usize
    }

    /// Notes a process that opened it; `false` when no slot is left.
    pub fn open(&self, importer: Identity, is_alive: IsAlive) -> bool {
        self.importers.iter().any(|slot| {
            let found = slot.load(Ordering::Acquire);
            (found == 0 || !is_alive(found))
                && slot
                    .compare_exchange(
                        found,
                        importer.number(),
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    )
                    .is_ok()
        })
    }

    /// Notes that a process closed it.
    pub fn close(&self, importer: Identity) {
        for slot in &self.importers {
            let _ =
                slot.compare_exchange(importer.number(), 0, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Notes that the owner freed it, and how much that would have given back.
    pub fn free(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Release);
        self.freed.store(1, Ordering::Release);
    }

    fn importer(&self, is_alive: IsAlive) -> Option<u32> {
        let found = self
            .importers
            .iter()
            .map(|slot| slot.load(Ordering::Acquire));
        found
            .filter(|importer| *importer != 0 && is_alive(*importer))
            .map(Identity::pid_of)
            .next()
    }

    /// Memory on a GPU that only an importer holds: its pid, and how many bytes.
    pub fn left_to(&self, gpu: usize, is_alive: IsAlive) -> Option<(u32, u64)> {
        let owner = self.owner.load(Ordering::Acquire);
        if owner == 0 || self.gpu() != gpu || (!self.is_freed() && is_alive(owner)) {
            return None;
        }
        Some((self.importer(is_alive)?, self.bytes.load(Ordering::Acquire)))
    }

    /// Its first word.
    pub fn word(&self) -> Option<u64> {
        (self.word_state.load(Ordering::Acquire) == KNOWN)
            .then(|| self.word.load(Ordering::Acquire))
    }

    pub fn set_word(&self, word: Option<u64>) {
        self.word.store(word.unwrap_or(0), Ordering::Release);
        self.word_state.store(
            if word.is_some() { KNOWN } else { UNKNOWN },
            Ordering::Release,
        );
    }
}
