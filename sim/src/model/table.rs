//! The table of processes in `node.state`: what every process holds on every GPU, visible to all of them.
//!
//! Only the owner of a slot writes its numbers. A slot counts while its process lives, so the memory of a killed process is gone
//! for every reader at once, as it is on a real node after the driver's clean-up.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub const SLOTS: usize = 128;
pub const MAX_GPUS: usize = 16;

/// One process. Zeroed memory is a free slot.
#[repr(C)]
pub struct Slot {
    /// Who holds the slot: pid in the upper half, then [`SETTLING`], then the start time. Zero is free.
    owner: AtomicU64,
    used_bytes: [AtomicU64; MAX_GPUS],
    contexts: [AtomicU32; MAX_GPUS],
}

/// The whole file.
#[repr(C)]
pub struct Table {
    slots: [Slot; SLOTS],
}

/// Set while a new owner wipes what a dead one left, so that no reader counts the old numbers as the new owner's.
const SETTLING: u64 = 1 << 31;

/// A process and its start time: a pid alone could be somebody else by now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity(u64);

impl Identity {
    /// Reads the identity of a live process; `None` for one that is gone, a zombie or dead.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in field 2 may hold spaces and parentheses, so fields are counted from the last one.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let threads: u32 = fields.nth(16)?.parse().ok()?;
        let start: u64 = fields.nth(1)?.parse().ok()?;
        // A process whose first thread ended while others run looks like a zombie, but is none.
        if matches!(state, "X" | "x") || (state == "Z" && threads <= 1) {
            return None;
        }
        Some(Self(u64::from(pid) << 32 | (start & (SETTLING - 1))))
    }

    fn pid(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn is_alive(self) -> bool {
        Self::of(self.pid()) == Some(Self(self.0 & !SETTLING))
    }
}

/// What one live process holds on one GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    pub pid: u32,
    pub used_bytes: u64,
    pub contexts: u32,
}

impl Table {
    /// Takes a free or abandoned slot for a process; `None` when all are held by live ones.
    pub fn claim(&self, identity: Identity) -> Option<usize> {
        // A process that replaced itself by exec keeps its identity but none of what it held.
        let own = self.slots.iter().position(|slot| slot.owner.load(Ordering::Acquire) & !SETTLING == identity.0);
        if let Some(index) = own {
            self.slots[index].settle(identity);
            return Some(index);
        }
        for (index, slot) in self.slots.iter().enumerate() {
            let found = slot.owner.load(Ordering::Acquire);
            if found != 0 && Identity(found).is_alive() {
                continue;
            }
            let taken = slot.owner.compare_exchange(found, identity.0 | SETTLING, Ordering::AcqRel, Ordering::Acquire);
            if taken.is_ok() {
                slot.settle(identity);
                return Some(index);
            }
        }
        None
    }

    /// Sets what the owner of a slot holds. Only the owner calls this.
    pub fn store(&self, slot: usize, gpu: usize, used_bytes: u64, contexts: u32) {
        self.slots[slot].used_bytes[gpu].store(used_bytes, Ordering::Release);
        self.slots[slot].contexts[gpu].store(contexts, Ordering::Release);
    }

    /// What live processes hold on one GPU.
    pub fn holdings(&self, gpu: usize) -> Vec<Holding> {
        let mut found = Vec::new();
        for slot in &self.slots {
            let owner = slot.owner.load(Ordering::Acquire);
            if owner == 0 || owner & SETTLING != 0 || !Identity(owner).is_alive() {
                continue;
            }
            found.push(Holding {
                pid: Identity(owner).pid(),
                used_bytes: slot.used_bytes[gpu].load(Ordering::Acquire),
                contexts: slot.contexts[gpu].load(Ordering::Acquire),
            });
        }
        found
    }

    /// The sum over live processes.
    pub fn used_bytes(&self, gpu: usize) -> u64 {
        self.holdings(gpu).iter().map(|holding| holding.used_bytes).sum()
    }
}

impl Slot {
    fn settle(&self, identity: Identity) {
        self.owner.store(identity.0 | SETTLING, Ordering::Release);
        for gpu in 0..MAX_GPUS {
            self.used_bytes[gpu].store(0, Ordering::Release);
            self.contexts[gpu].store(0, Ordering::Release);
        }
        self.owner.store(identity.0, Ordering::Release);
    }
}

#[cfg(test)]
pub mod sample {
    use super::Table;

    /// An empty table of its own, as a fresh `node.state` would be.
    pub fn table() -> &'static Table {
        // SAFETY: the table is made of atomics only, for which zeroed memory is valid.
        Box::leak(Box::new(unsafe { std::mem::zeroed() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Identity {
        Identity::of(std::process::id()).unwrap()
    }

    #[test]
    fn what_is_stored_is_seen_on_that_gpu_only() {
        let table = sample::table();
        let slot = table.claim(own()).unwrap();
        table.store(slot, 1, 7, 1);
        assert_eq!(table.used_bytes(0), 0);
        assert_eq!(table.used_bytes(1), 7);
        assert_eq!(table.holdings(1), [Holding { pid: std::process::id(), used_bytes: 7, contexts: 1 }]);
    }

    #[test]
    fn a_dead_process_holds_nothing_and_leaves_its_slot() {
        let table = sample::table();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        let slot = table.claim(identity).unwrap();
        table.store(slot, 0, 9, 1);
        assert_eq!(table.used_bytes(0), 9);
        child.kill().unwrap();
        // Not yet waited for: a zombie holds nothing either.
        while Identity::of(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert_eq!(table.used_bytes(0), 0);
        child.wait().unwrap();
        assert_eq!(table.claim(own()), Some(slot));
        assert_eq!(table.used_bytes(0), 0);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let table = sample::table();
        let impostor = Identity(own().0 ^ 1);
        let slot = table.claim(impostor).unwrap();
        table.store(slot, 0, 5, 1);
        assert_eq!(table.used_bytes(0), 0);
    }

    #[test]
    fn a_process_that_replaced_itself_starts_from_nothing() {
        let table = sample::table();
        let slot = table.claim(own()).unwrap();
        table.store(slot, 0, 5, 1);
        assert_eq!(table.claim(own()), Some(slot));
        assert_eq!(table.used_bytes(0), 0);
    }

    #[test]
    fn a_full_table_refuses() {
        let table = sample::table();
        for slot in &table.slots {
            slot.owner.store(own().0, Ordering::Release);
        }
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(table.claim(Identity::of(child.id()).unwrap()), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
