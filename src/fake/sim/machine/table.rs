//! The table of processes in `machine.state`: the holdings of every process on every GPU, visible to all of them.
//!
//! Only the owner of a slot writes its numbers. A slot counts while its process lives, so the memory of a killed
//! process is gone for every reader at once, as it is on a real machine after the driver's clean-up.

use crate::machine::identity::{Identity, UNUSED_BIT};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const SLOTS: usize = 256;
pub const MAX_GPUS: usize = 16;

/// One process. Zeroed memory is a free slot.
#[repr(C)]
pub struct Slot {
    /// The owner of the slot: pid in the upper half, then [`SETTLING`], then the start time. Zero is free.
    owner: AtomicU64,
    /// The time at which a reader first found the owner dead but not yet waited for, in milliseconds from some start;
    /// zero until then.
    died_ms: AtomicU64,
    used_bytes: [AtomicU64; MAX_GPUS],
    contexts: [AtomicU32; MAX_GPUS],
}

/// The complete file.
#[repr(C)]
pub struct MachineTable {
    slots: [Slot; SLOTS],
    peaks_bytes: [AtomicU64; MAX_GPUS],
}

/// Set while a new owner clears the numbers of a dead one, so that no reader counts them as the new owner's.
const SETTLING: u64 = UNUSED_BIT;

/// Time that a zombie keeps its memory after its end: the driver needs a moment to clean up, and only then can the
/// parent wait for the process. Measured as longer than nothing and shorter than 200 ms (process/zombie-holds-memory).
const CLEANING_UP_MS: u64 = 50;

/// Milliseconds since some start that all processes share, never zero.
fn now_ms() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = uptime
        .split_whitespace()
        .next()
        .and_then(|seconds| seconds.parse::<f64>().ok())
        .unwrap_or(0.0);
    (seconds * 1000.0) as u64 + 1
}

/// The memory and contexts of one live process on one GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    pub pid: u32,
    pub used_bytes: u64,
    pub contexts: u32,
}

impl MachineTable {
    /// Takes a free or abandoned slot for a process; `None` when all are held by live ones.
    pub fn claim(&self, identity: Identity) -> Option<usize> {
        // A process that replaced itself by exec keeps its identity but none of what it held.
        let own = self
            .slots
            .iter()
            .position(|slot| slot.owner.load(Ordering::Acquire) & !SETTLING == identity.number());
        if let Some(index) = own {
            self.slots[index].settle(identity);
            return Some(index);
        }
        for (index, slot) in self.slots.iter().enumerate() {
            let found = slot.owner.load(Ordering::Acquire);
            if found != 0 && Identity::is_alive(found) {
                continue;
            }
            let taken = slot.owner.compare_exchange(
                found,
                identity.number() | SETTLING,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if taken.is_ok() {
                slot.settle(identity);
                return Some(index);
            }
        }
        None
    }

    /// Sets the holdings of the owner of a slot. Only the owner calls this.
    pub fn store(&self, slot: usize, gpu: usize, used_bytes: u64, contexts: u32) {
        self.slots[slot].used_bytes[gpu].store(used_bytes, Ordering::Release);
        self.slots[slot].contexts[gpu].store(contexts, Ordering::Release);
    }

    /// Returns the holdings of live processes on one GPU.
    pub fn holdings(&self, gpu: usize) -> Vec<Holding> {
        let mut found = Vec::new();
        for slot in &self.slots {
            let owner = slot.owner.load(Ordering::Acquire);
            if owner == 0 || owner & SETTLING != 0 || !self.holds(owner) {
                continue;
            }
            found.push(Holding {
                pid: Identity::pid_of(owner),
                used_bytes: slot.used_bytes[gpu].load(Ordering::Acquire),
                contexts: slot.contexts[gpu].load(Ordering::Acquire),
            });
        }
        found
    }

    /// Returns the highest number of used bytes that a GPU had to count, including `used_bytes` now.
    pub fn peak(&self, gpu: usize, used_bytes: u64) -> u64 {
        self.peaks_bytes[gpu]
            .fetch_max(used_bytes, Ordering::AcqRel)
            .max(used_bytes)
    }

    /// Returns `true` if a process is alive, or has just ended.
    fn holds(&self, number: u64) -> bool {
        match Identity::read(Identity::pid_of(number)) {
            Some((found, false)) => found.number() == number & !SETTLING,
            Some((found, true)) if found.number() == number & !SETTLING => {
                let slot = self
                    .slots
                    .iter()
                    .find(|slot| slot.owner.load(Ordering::Acquire) == number);
                slot.is_some_and(Slot::is_cleaning_up)
            }
            _ => false,
        }
    }

    /// Returns the bytes that all live processes use.
    #[cfg(test)]
    pub fn used_bytes(&self, gpu: usize) -> u64 {
        self.holdings(gpu)
            .iter()
            .map(|holding| holding.used_bytes)
            .sum()
    }
}

impl Slot {
    /// Returns `true` if the owner has just ended. The first reader that checks it starts the clock.
    fn is_cleaning_up(&self) -> bool {
        let now = now_ms();
        let since = match self
            .died_ms
            .compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => now,
            Err(earlier) => earlier,
        };
        now.saturating_sub(since) < CLEANING_UP_MS
    }

    fn settle(&self, identity: Identity) {
        self.owner
            .store(identity.number() | SETTLING, Ordering::Release);
        self.died_ms.store(0, Ordering::Release);
        for gpu in 0..MAX_GPUS {
            self.used_bytes[gpu].store(0, Ordering::Release);
            self.contexts[gpu].store(0, Ordering::Release);
        }
        self.owner.store(identity.number(), Ordering::Release);
    }
}

#[cfg(test)]
pub mod sample {
    use super::MachineTable;

    /// Returns a separate, empty table, as a fresh `machine.state` would be.
    pub fn table() -> &'static MachineTable {
        // SAFETY: the table is made of atomics only, for which zeroed memory is valid.
        Box::leak(Box::new(unsafe { std::mem::zeroed() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Identity {
        Identity::from_pid(std::process::id()).unwrap()
    }

    #[test]
    fn a_dead_process_holds_nothing_and_leaves_its_slot() {
        let table = sample::table();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let identity = Identity::from_pid(child.id()).unwrap();
        let slot = table.claim(identity).unwrap();
        table.store(slot, 0, 9, 1);
        assert_eq!(table.used_bytes(0), 9);
        child.kill().unwrap();
        // A zombie holds its memory for the first moment only.
        while Identity::from_pid(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert_eq!(table.used_bytes(0), 9);
        std::thread::sleep(std::time::Duration::from_millis(2 * CLEANING_UP_MS));
        assert_eq!(table.used_bytes(0), 0);
        child.wait().unwrap();
        assert_eq!(table.claim(own()), Some(slot));
        assert_eq!(table.used_bytes(0), 0);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let table = sample::table();
        let slot = table.claim(own()).unwrap();
        table.store(slot, 0, 5, 1);
        table.slots[slot]
            .owner
            .store(own().number() ^ 1, Ordering::Release);
        assert_eq!(table.used_bytes(0), 0);
    }

    #[test]
    fn the_file_has_room_for_the_table() {
        assert!(size_of::<MachineTable>() <= 64 << 10);
    }

    #[test]
    fn a_full_table_refuses() {
        let table = sample::table();
        for slot in &table.slots {
            slot.owner.store(own().number(), Ordering::Release);
        }
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert_eq!(table.claim(Identity::from_pid(child.id()).unwrap()), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
