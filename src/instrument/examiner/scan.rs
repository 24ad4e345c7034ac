//! All processes that have to do with NVIDIA's driver, found in `/proc` without touching one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use cuda_pitfalls_core::examination::ExaminerMessage;
use cuda_pitfalls_core::holding::{AbsentProcess, ProcessExamination, UnreadProcess};
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
/// The most that is reported of all processes together, in bytes; of one, an eighth.
const MOST_REPORTED: usize = 32 << 20;
/// The number of searches for new processes: some may begin while others are read.
const PASSES: usize = 5;

pub(super) fn scan_processes(speaker: &Speaker, task: &ScanTask) {
    let began = Instant::now();
    let mut scanner = ProcessScanner {
        speaker,
        task,
        files: DeviceFiles::new(&task.devices),
        left: MOST_REPORTED,
    };
    let mut done = BTreeMap::new();
    for pass in 0..=PASSES {
        let new = task.list_new(&done);
        let Some(last) = new.last().copied() else {
            break;
        };
        if pass == PASSES {
            let why = "new processes begin faster than they can be read";
            scanner.report_unread(last, why);
        }
        for pid in new {
            if began.elapsed() > MOST_TIME {
                scanner.report_unread(pid, "the scan took too long");
                return;
            }
            speaker.send_message(&ExaminerMessage::Begin {
                call: pid.to_string(),
            });
            let stat = ProcessStat::read(&folder_of(pid)).unwrap_or_default();
            done.insert(pid, stat.start_ticks);
            // A thread of the kernel has no files, and only root may see that.
            if stat.start_ticks.is_some() && !stat.is_kernel {
                scanner.report_process(pid, &stat);
            }
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

impl ScanTask {
    /// Returns the processes that were not read yet, those that NVML lists first: others may take all of the time.
    fn list_new(&self, done: &BTreeMap<u32, Option<u64>>) -> Vec<u32> {
        let all = match self.only {
            Some(pid) => [pid].into(),
            None => list_processes(),
        };
        let (mut listed, mut others) = (Vec::new(), Vec::new());
        for pid in all {
            // This process has its own entry, which it cannot read from outside.
            if self.skipped.contains(&pid) || pid == std::process::id() {
                continue;
            }
            if let Some(start) = done.get(&pid) {
                // Another process may have the PID of one that was read and has ended.
                let now = ProcessStat::read(&folder_of(pid)).unwrap_or_default();
                if now.start_ticks.is_none() || now.start_ticks == *start {
                    continue;
                }
            }
            let is_listed = self.listed.contains(&pid);
            let group = if is_listed { &mut listed } else { &mut others };
            group.push(pid);
        }
        listed.append(&mut others);
        listed
    }
}

struct ProcessScanner<'a> {
    speaker: &'a Speaker<'a>,
    task: &'a ScanTask,
    files: DeviceFiles,
    /// The number of bytes that may still be reported.
    left: usize,
}

impl ProcessScanner<'_> {
    fn report_unread(&self, pid: u32, error: &str) {
        let unread = UnreadProcess {
            pid,
            uid: process::uid(&folder_of(pid)),
            error: error.to_owned(),
        };
        self.speaker.send_message(&ExaminerMessage::Unread(unread));
    }

    /// Reports a process that has to do with the driver, or that could not be read. Nothing is reported of one that had
    /// nothing to do with it and ended meanwhile.
    fn report_process(&mut self, pid: u32, stat: &ProcessStat) {
        let folder = folder_of(pid);
        let threads = process::driver_threads(&folder, stat.threads);
        let mut open = self.files.open(&folder);
        let mut has_files = open.as_ref().is_ok_and(|open| !open.is_empty());
        if open.is_ok() && !has_files {
            match process::has_mappings(&folder, &self.files) {
                Ok(has_mappings) => has_files = has_mappings,
                Err(error) => open = Err(error),
            }
        }
        let is_listed = self.task.listed.contains(&pid);
        // Threads of the driver in a process without files of the simulated machine belong to another machine.
        let has_threads = !threads.is_empty() && (open.is_err() || !self.files.is_simulated());
        let is_wanted = self.task.only == Some(pid) || is_listed || has_threads || has_files;
        let mut examined = None;
        if is_wanted {
            examined = Some(process::examine_in(&folder, pid, &self.files));
        }
        let now = ProcessStat::read(&folder);
        let is_same = now.is_some_and(|now| now.start_ticks == stat.start_ticks);
        let is_zombie = now.is_some_and(|now| now.is_zombie());
        if let Err(error) = &open
            && is_same
            && !is_zombie
        {
            self.report_unread(pid, &name_error(error));
        }
        let Some(mut examined) = examined else {
            return;
        };
        if is_same {
            examined.driver_threads = threads;
            self.report_examined(examined);
        } else if has_files {
            self.report_unread(pid, "it ended while it was read");
        }
    }

    /// Reports what was read of a process. Processes decide how much that is, and how many they are.
    fn report_examined(&mut self, examined: ProcessExamination) {
        let pid = examined.pid;
        let said = ExaminerMessage::Process(Box::new(examined));
        let length = serde_json::to_vec(&said).map_or(usize::MAX, |line| line.len());
        match self.left.checked_sub(length) {
            Some(left) if length < MOST_REPORTED / 8 => {
                self.left = left;
                self.speaker.send_message(&said);
            }
            _ => self.report_unread(pid, "there is too much to report"),
        }
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

#[cfg(test)]
mod tests {
    use cuda_pitfalls_core::channel::Channel;

    use super::*;

    fn task() -> ScanTask {
        ScanTask {
            only: None,
            listed: BTreeSet::new(),
            skipped: BTreeSet::new(),
            devices: "/dev/".to_owned(),
        }
    }

    #[test]
    fn pid_that_another_process_has_now_is_new() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id();
        let stat = ProcessStat::read(&folder_of(pid)).unwrap();
        let mut task = task();
        for (start, is_new) in [
            (stat.start_ticks, false),
            (stat.start_ticks.map(|ticks| ticks - 1), true),
            (None, true),
        ] {
            let new = task.list_new(&[(pid, start)].into());
            assert_eq!(new.contains(&pid), is_new, "{start:?}");
        }
        task.listed.insert(pid);
        assert_eq!(task.list_new(&BTreeMap::new()).first(), Some(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_is_reported_of_all_processes_is_bounded() {
        let (channel, mut theirs) = Channel::pair().unwrap();
        let task = task();
        let mut scanner = ProcessScanner {
            speaker: &Speaker { channel: &channel },
            task: &task,
            files: DeviceFiles::new("/dev/"),
            left: 1 << 12,
        };
        for pid in [u32::MAX, u32::MAX - 1] {
            scanner.report_examined(ProcessExamination {
                pid,
                command: "a".repeat(3 << 10),
                ..ProcessExamination::default()
            });
        }
        let said = theirs.receive::<ExaminerMessage>().unwrap();
        assert!(matches!(said, ExaminerMessage::Process(_)), "{said:?}");
        let said = theirs.receive::<ExaminerMessage>().unwrap();
        assert!(matches!(said, ExaminerMessage::Unread(_)), "{said:?}");
    }
}
