//! The simulated machine: its description, and the table of the processes that share it. Both files are in the
//! directory of the library.

pub mod description;
pub mod gpu;
pub mod identity;
pub mod table;

use crate::c;
use crate::machine::description::MachineConf;
use crate::machine::gpu::SimulatedGpu;
use crate::machine::table::{MAX_GPUS, MachineTable};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The simulated machine that this process runs on.
pub struct SimulatedMachine {
    pub description: MachineConf,
    pub table: &'static MachineTable,
}

impl SimulatedMachine {
    /// Returns a GPU by its NVML index.
    pub fn gpu(&self, index: usize) -> &SimulatedGpu {
        &self.description.gpus[index]
    }

    /// Returns the number of bytes that are allocated on a GPU. The bytes of `cuInit` are allocated once for all
    /// processes, from the first process that calls it until the last of them is gone
    /// (process/child-context-costs-again).
    pub fn used_bytes(&self, gpu: usize) -> u64 {
        let holdings = self.table.holdings(gpu);
        let others = holdings
            .iter()
            .filter(|holding| holding.used_bytes > 0)
            .count()
            .saturating_sub(1) as u64;
        let all: u64 = holdings.iter().map(|holding| holding.used_bytes).sum();
        let used = all.saturating_sub(others * self.gpu(gpu).init_bytes);
        if self.gpu(gpu).keeps_memory {
            self.table.peak(gpu, used)
        } else {
            used
        }
    }
}

/// The reason for a missing simulated machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoMachine {
    /// The library was not loaded from a folder with `machine.conf` and `machine.state`.
    Missing,
    /// The files exist but are malformed.
    Malformed,
}

static MACHINE: AtomicPtr<SimulatedMachine> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the machine, which the first call searches for. Two threads may search at once; the first result stays. No
/// lock is used, because a forked child could inherit it held.
pub fn machine() -> Result<&'static SimulatedMachine, NoMachine> {
    let found = MACHINE.load(Ordering::Acquire);
    if !found.is_null() {
        // SAFETY: the pointer comes from Box::into_raw below and is never freed.
        return Ok(unsafe { &*found });
    }
    let path = c::own_path().ok_or(NoMachine::Missing)?;
    let fresh = Box::into_raw(Box::new(open(path.parent().ok_or(NoMachine::Missing)?)?));
    let kept = match MACHINE.compare_exchange(
        std::ptr::null_mut(),
        fresh,
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        Ok(_) => fresh,
        Err(first) => first,
    };
    // SAFETY: as above; the loser of a race is leaked, so no thread can hold a freed machine.
    Ok(unsafe { &*kept })
}

fn open(folder: &Path) -> Result<SimulatedMachine, NoMachine> {
    let text =
        std::fs::read_to_string(folder.join("machine.conf")).map_err(|_| NoMachine::Missing)?;
    let description = MachineConf::parse(&text).ok_or(NoMachine::Malformed)?;
    if description.gpus.len() > MAX_GPUS {
        return Err(NoMachine::Malformed);
    }
    let path = folder.join("machine.state");
    let (state, sharing) = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(state) => (state, c::MAP_SHARED),
        // A program that root started may start another one as another user. It continues, as with a real driver; but
        // other users may not write to a file of root, so the others do not see its holdings.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => (
            File::open(&path).map_err(|_| NoMachine::Missing)?,
            c::MAP_PRIVATE,
        ),
        Err(_) => return Err(NoMachine::Missing),
    };
    let bytes = size_of::<MachineTable>();
    if state.metadata().map_err(|_| NoMachine::Missing)?.len() < bytes as u64 {
        return Err(NoMachine::Malformed);
    }
    // SAFETY: a new mapping of a file that is at least as long as the table.
    let at = unsafe {
        c::mmap(
            std::ptr::null_mut(),
            bytes,
            c::PROT_READ_WRITE,
            sharing,
            state.as_raw_fd(),
            0,
        )
    };
    if at as isize == -1 {
        return Err(NoMachine::Missing);
    }
    // SAFETY: the mapping is page-aligned, never unmapped, and the table is made of atomics, for which any bytes are
    // valid.
    let table = unsafe { &*at.cast::<MachineTable>() };
    Ok(SimulatedMachine { description, table })
}

#[cfg(test)]
pub mod sample {
    use super::SimulatedMachine;
    use crate::machine::description::{MachineConf, sample};
    use crate::machine::table::sample::table;

    /// Returns a machine that no process has used yet.
    pub fn unused(description: MachineConf) -> &'static SimulatedMachine {
        Box::leak(Box::new(SimulatedMachine {
            description,
            table: table(),
        }))
    }

    /// Returns the sample machine.
    pub fn machine() -> &'static SimulatedMachine {
        unused(sample::description())
    }
}
