//! The identity of a process: its pid and its start time, because a pid may be reused.

use crate::c;

/// The bit of a number that no identity uses. The table marks a slot with it.
pub const UNUSED_BIT: u64 = 1 << 31;

/// A process: its pid in the upper half, then [`UNUSED_BIT`], then its start time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity(u64);

impl Identity {
    /// Reads the identity of a live process; `None` for one that is gone, a zombie or dead.
    pub fn from_pid(pid: u32) -> Option<Self> {
        Self::read(pid)
            .filter(|(_, ended)| !ended)
            .map(|(identity, _)| identity)
    }

    /// Reads the identity of a process, and whether it has ended and its parent has not waited for it.
    pub fn read(pid: u32) -> Option<(Self, bool)> {
        // The first thread's file says the same as the process's own. An emulator such as qemu-user makes up the latter
        // for the process that reads it, with another start time than all others see.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).ok()?;
        // The name in field 2 may hold spaces and parentheses, so fields are counted from the last one.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let threads: u32 = fields.nth(16)?.parse().ok()?;
        let start: u64 = fields.nth(1)?.parse().ok()?;
        // A process whose first thread ended while others run looks like a zombie, but is not one.
        let ended = matches!(state, "X" | "x") || (state == "Z" && threads <= 1);
        Some((
            Self(u64::from(pid) << 32 | (start & (UNUSED_BIT - 1))),
            ended,
        ))
    }

    /// Returns the identity of this process, which differs in a forked child.
    pub fn own() -> Option<Self> {
        Self::from_pid(c::pid())
    }

    /// Returns the number of the process in the table.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns `true` if the number belongs to a live process.
    pub fn is_alive(number: u64) -> bool {
        Self::from_pid(Self::pid_of(number)) == Some(Self(number & !UNUSED_BIT))
    }

    /// Returns the pid in a number.
    pub fn pid_of(number: u64) -> u32 {
        (number >> 32) as u32
    }
}
