//! Finding the node: the machine and the shared table beside the library.

use crate::c;
use crate::model::machine::Machine;
use crate::model::table::{MAX_GPUS, Table};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The simulated node this process talks to.
pub struct Node {
    pub machine: Machine,
    pub table: &'static Table,
}

impl Node {
    /// What is taken on a GPU. What `cuInit` takes there it takes once, for the first process that calls it, and it goes with the last
    /// (process/child-context-costs-again).
    pub fn used_bytes(&self, gpu: usize) -> u64 {
        let holdings = self.table.holdings(gpu);
        let others = holdings.iter().filter(|holding| holding.used_bytes > 0).count().saturating_sub(1) as u64;
        let all: u64 = holdings.iter().map(|holding| holding.used_bytes + holding.borrowed_bytes).sum();
        all.saturating_sub(others * self.machine.gpus[gpu].init_bytes)
    }
}

/// Why there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoNode {
    /// The library was not loaded from a folder with `node.conf` and `node.state`.
    Missing,
    /// They are there but do not make sense.
    Malformed,
}

static NODE: AtomicPtr<Node> = AtomicPtr::new(std::ptr::null_mut());

/// The node, found at the first call. Two threads may look at once; the first answer stays. There is no lock that a forked child
/// could inherit held.
pub fn node() -> Result<&'static Node, NoNode> {
    let found = NODE.load(Ordering::Acquire);
    if !found.is_null() {
        // SAFETY: the pointer comes from Box::into_raw below and is never freed.
        return Ok(unsafe { &*found });
    }
    let path = c::own_path().ok_or(NoNode::Missing)?;
    let fresh = Box::into_raw(Box::new(open(path.parent().ok_or(NoNode::Missing)?)?));
    let kept = match NODE.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        Err(first) => first,
    };
    // SAFETY: as above; the loser of a race is leaked, so nobody can hold a freed node.
    Ok(unsafe { &*kept })
}

fn open(folder: &Path) -> Result<Node, NoNode> {
    let text = std::fs::read_to_string(folder.join("node.conf")).map_err(|_| NoNode::Missing)?;
    let machine = Machine::parse(&text).ok_or(NoNode::Malformed)?;
    if machine.gpus.len() > MAX_GPUS {
        return Err(NoNode::Malformed);
    }
    let state =
        OpenOptions::new().read(true).write(true).open(folder.join("node.state")).map_err(|_| NoNode::Missing)?;
    let bytes = size_of::<Table>();
    if state.metadata().map_err(|_| NoNode::Missing)?.len() < bytes as u64 {
        return Err(NoNode::Malformed);
    }
    // SAFETY: a new shared mapping of a file that is at least as long as the table.
    let at = unsafe { c::mmap(std::ptr::null_mut(), bytes, c::PROT_READ_WRITE, c::MAP_SHARED, state.as_raw_fd(), 0) };
    if at as isize == -1 {
        return Err(NoNode::Missing);
    }
    // SAFETY: the mapping is page-aligned, never unmapped, and the table is made of atomics, for which any bytes are valid.
    let table = unsafe { &*at.cast::<Table>() };
    Ok(Node { machine, table })
}
