//! The state of a process and of its threads, which every user may read.

use std::fs;
use std::path::Path;

use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::holding::{DriverThread, DriverThreadKind};

use super::{MOST_NAME, folder_of};
use crate::bounded::read_text;
use crate::supervisor::read_stat;

const MOST_THREADS: usize = 1 << 16;

/// The facts in `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct ProcessStat {
    pub(super) state: Option<char>,
    pub(super) parent: Option<u32>,
    pub(super) session: Option<u32>,
    pub(in super::super) threads: usize,
    pub(in super::super) start_ticks: Option<u64>,
    /// `true` for a thread of the kernel.
    pub(in super::super) is_kernel: bool,
}

/// The flag `PF_KTHREAD` of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

impl ProcessStat {
    /// Returns `true` if the process has ended, with all its threads.
    pub(in super::super) fn is_zombie(self) -> bool {
        matches!(self.state, Some('Z' | 'X')) && self.threads < 2
    }

    /// Returns the facts of the process with this directory; `None` if it is gone.
    pub(in super::super) fn read(folder: &Path) -> Option<ProcessStat> {
        let fields = read_stat(folder)?;
        Some(ProcessStat {
            state: fields.first()?.chars().next(),
            parent: fields.get(1)?.parse().ok(),
            session: fields.get(3)?.parse().ok(),
            is_kernel: fields.get(6)?.parse::<u64>().ok()? & KERNEL_THREAD != 0,
            threads: fields.get(17)?.parse().ok()?,
            start_ticks: fields.get(19)?.parse().ok(),
        })
    }

    /// Returns the start, in milliseconds since 1970.
    pub(super) fn started_unix_ms(self) -> Option<u64> {
        // SAFETY: the call reads a constant of the system.
        let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
        let milliseconds = self.start_ticks?.checked_mul(1000)?;
        let since_boot_ms = milliseconds.checked_div(per_second)?;
        (clock::unix_ms() + since_boot_ms).checked_sub(clock::boot_ms())
    }
}

/// Returns `true` if the process with this PID started at this time, with the error of two readings of the clocks.
pub(in super::super) fn has_started_at(pid: u32, started_unix_ms: Option<u64>) -> bool {
    let stat = ProcessStat::read(&folder_of(pid)).unwrap_or_default();
    let now = stat.started_unix_ms().unwrap_or(0);
    now.abs_diff(started_unix_ms.unwrap_or(0)) <= 20
}

/// Returns the threads of the driver, the oldest first. Every user may read the names of threads.
pub(in super::super) fn driver_threads(folder: &Path, count: usize) -> Vec<DriverThread> {
    // The driver never runs in the first thread alone.
    if count < 2 {
        return Vec::new();
    }
    let mut threads = Vec::new();
    let entries = fs::read_dir(folder.join("task")).into_iter().flatten();
    for entry in entries.flatten().take(MOST_THREADS) {
        let task = entry.path();
        let name = read_text(task.join("comm"), MOST_NAME);
        if let Some(kind) = thread_kind(name.trim_end_matches('\n'))
            && let Some(stat) = ProcessStat::read(&task)
            && let Some(since_unix_ms) = stat.started_unix_ms()
        {
            threads.push(DriverThread {
                since_unix_ms,
                kind,
            });
        }
    }
    threads.sort_unstable();
    threads
}

/// `cuda00001400006`, or `cuda-EvtHandlr`.
fn thread_kind(name: &str) -> Option<DriverThreadKind> {
    let rest = name.strip_prefix("cuda")?;
    if rest == "-EvtHandlr" {
        return Some(DriverThreadKind::Context);
    }
    let is_number = rest.len() >= 8 && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then_some(DriverThreadKind::Driver)
}
