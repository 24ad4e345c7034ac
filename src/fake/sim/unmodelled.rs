//! The missing functions that a program called, for the user of `sim`: a program may keep such a status to itself.

use crate::c;
use crate::model::status::SIM_NOT_MODELLED;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The file in the directory of this library that lists the names; nothing is written if it does not exist.
const FILE: &str = "machine.unmodelled";

/// The functions that were written down. A process calls few of them.
static WRITTEN: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Records a function that returned "not modeled", once in each process, and returns its status.
pub fn told(name: &'static str, status: u32) -> u32 {
    if status == SIM_NOT_MODELLED {
        write(name);
    }
    status
}

#[cold]
fn write(name: &'static str) {
    // A forked child may find the lock held by a thread that it does not have.
    let mut written = match WRITTEN.try_lock() {
        Ok(written) => written,
        Err(std::sync::TryLockError::Poisoned(error)) => PoisonError::into_inner(error),
        Err(std::sync::TryLockError::WouldBlock) => return,
    };
    if written.contains(&name) {
        return;
    }
    written.push(name);
    let Some(path) = c::own_path() else { return };
    // One write of less than a page at the end of a file: lines of several processes do not mix.
    if let Ok(mut file) = OpenOptions::new()
        .append(true)
        .open(path.with_file_name(FILE))
    {
        let _ = file.write_all(format!("{name}\n").as_bytes());
    }
}
