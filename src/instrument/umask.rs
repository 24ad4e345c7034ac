//! The umask: other users cannot write to any file or folder that this program creates, whatever the umask of its
//! caller. A program that it starts for the caller gets the caller's umask back.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::Mode;
use rustix::process::umask;

/// Permissions that other users never get.
const OTHERS_WRITE: Mode = Mode::WGRP.union(Mode::WOTH);

/// The umask of the caller.
static CALLERS: AtomicU32 = AtomicU32::new(OTHERS_WRITE.bits());

/// Removes the permission of other users to write to anything that this process creates from now on. It is the first
/// thing that the program does.
pub fn take_over() {
    let callers = umask(OTHERS_WRITE);
    umask(callers | OTHERS_WRITE);
    CALLERS.store(callers.bits(), Ordering::Relaxed);
}

/// Returns the caller's umask, as it is passed to a process of ours that starts the caller's program.
pub fn caller_umask() -> u32 {
    CALLERS.load(Ordering::Relaxed)
}

/// Keeps the umask of the caller, as reported by the process that started this one.
pub fn keep_umask(callers: u32) {
    CALLERS.store(callers, Ordering::Relaxed);
}

/// Gives the caller's umask to this process. It is one system call, so it is allowed between fork and exec.
pub fn hand_on() {
    umask(Mode::from_bits_truncate(caller_umask()));
}
