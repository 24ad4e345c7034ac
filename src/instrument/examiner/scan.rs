//! All processes that have to do with NVIDIA's driver, found in `/proc` without touching one of them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use cuda_pitfalls_core::channel::ChannelError;
use cuda_pitfalls_core::examination::ExaminerMessage;
use cuda_pitfalls_core::holding::{AbsentProcess, UnreadProcess};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::files::DeviceFiles;
use super::process::{self, ProcessStat, folder_of};
use crate::speaker::Speaker;

/// The processes to look for.
pub(super) struct ScanTask {
    /// Only this process; `None` for all.
    pub(super) only: Option<u32>,
    pub(super) listed: BTreeSet<u32>,
    pub(super) skipped: BTreeSet<u32>,
    /// The directory of the device files.
    pub(super) devices: String,
}

/// The longest time of a scan. Many processes that are slow to read do not make it longer.
const MOST_TIME: Duration = Duration::from_secs(20);
/// The number of searches for new processes: some may begin while others are read.
const PASSES: usize = 5;

pub(super) fn scan_processes(speaker: &Speaker, task: &ScanTask) {
    let began = Instant::now();
    let files = DeviceFiles::new(&task.devices);
    let mut done = task.skipped.clone();
    // This process has its own entry, which it cannot read from outside.
    done.insert(std::process::id());
    for pass in 0..=PASSES {
        let mut all = match task.only {
            Some(pid) => [pid].into(),
            None => list_processes(),
        };
        all.retain(|pid| !done.contains(pid));
        let Some(newest) = all.last().copied() else {
            break;
        };
        if pass == PASSES {
            report_unread(
                speaker,
                newest,
                "new processes begin faster than they can be read",
            );
        }
        for pid in all {
            if began.elapsed() > MOST_TIME {
                report_unread(speaker, pid, "the scan took too long");
                return;
            }
            speaker.send_message(&ExaminerMessage::Begin {
                call: pid.to_string(),
            });
            report_process(speaker, pid, task, &files);
            done.insert(pid);
        }
    }
    for pid in &task.listed {
        if !folder_of(*pid).exists() {
            speaker.send_message(&ExaminerMessage::Absent(AbsentProcess {
                pid: *pid,
                is_alive: is_alive(*pid),
            }));
        }
    }
}

fn report_unread(speaker: &Speaker, pid: u32, error: &str) {
    speaker.send_message(&ExaminerMessage::Unread(UnreadProcess {
        pid,
        uid: process::uid(&folder_of(pid)),
        error: error.to_owned(),
    }));
}

/// Reports a process that has to do with the driver, or that could not be read. Nothing is reported of one that had
/// nothing to do with it and ended meanwhile.
fn report_process(speaker: &Speaker, pid: u32, task: &ScanTask, files: &DeviceFiles) {
    let folder = folder_of(pid);
    let Some(stat) = ProcessStat::read(&folder) else {
        return;
    };
    // A thread of the kernel has no files, and only root may see that.
    if stat.is_kernel {
        return;
    }
    let threads = process::driver_threads(&folder, stat.threads);
    let mut open = files.open(&folder);
    let mut has_files = open.as_ref().is_ok_and(|open| !open.is_empty());
    if open.is_ok() && !has_files {
        match process::has_mappings(&folder, files) {
            Ok(has_mappings) => has_files = has_mappings,
            Err(error) => open = Err(error),
        }
    }
    let is_listed = task.listed.contains(&pid);
    // Threads of the driver in a process without files of the simulated machine belong to another machine.
    let has_threads = !threads.is_empty() && (open.is_err() || !files.is_simulated());
    let is_wanted = task.only == Some(pid) || is_listed || has_threads || has_files;
    let mut examined = None;
    if is_wanted {
        examined = Some(process::examine_in(&folder, pid, files));
    }
    let now = ProcessStat::read(&folder);
    let is_same = now.is_some_and(|now| now.start_ticks == stat.start_ticks);
    let is_zombie = now.is_some_and(|now| now.is_zombie());
    if let Err(error) = &open
        && is_same
        && !is_zombie
    {
        report_unread(speaker, pid, &name_error(error));
    }
    let Some(mut examined) = examined else {
        return;
    };
    if is_same {
        examined.driver_threads = threads;
        let said = ExaminerMessage::Process(Box::new(examined));
        if let Err(ChannelError::Nonsense(_)) = speaker.channel.send(&said) {
            report_unread(speaker, pid, "there is too much to report");
        }
    } else if has_files {
        report_unread(speaker, pid, "it ended while it was read");
    }
}

/// Returns the PIDs of all processes.
pub fn list_processes() -> BTreeSet<u32> {
    let mut pids = BTreeSet::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    pids
}

fn name_error(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES) => "EACCES".to_owned(),
        Some(libc::EPERM) => "EPERM".to_owned(),
        _ if error.kind() == io::ErrorKind::NotFound => {
            "its threads end faster than they can be read".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Returns whether the kernel has a process with this PID in this PID namespace. Opening a descriptor needs no right to
/// the process and does nothing to it.
fn is_alive(pid: u32) -> Option<bool> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(_) => Some(true),
        // Or the number is that of a thread that is not the first of its process.
        Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL) => Some(false),
        Err(_) => None,
    }
}
