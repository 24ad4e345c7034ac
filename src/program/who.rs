//! `who`: reads NVML and `/proc`, each in a process of its own. It touches no process that it looks at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::examination::{ExaminerMessage, LibraryStart, Started, Want};
use cuda_pitfalls_core::holding::{HolderScan, ProcessExamination, PythonStack, UnreadProcess};
use cuda_pitfalls_instrument::bounded::read_text;
use cuda_pitfalls_instrument::examiner::{DEVICES, list_processes, place};
use cuda_pitfalls_instrument::simulated;
use cuda_pitfalls_instrument::supervisor::Examined;
use rustix::thread::CapabilitySet;

use crate::doctor::{Doctor, DoctorError, new_start};
use crate::host;

/// Time limit for the reader of one process, in milliseconds.
const READ_MS: u64 = 5_000;
/// Time limit for a Python stack, in milliseconds, and the time after which no further one is read.
const STACK_MS: u64 = 5_000;
const ALL_STACKS: Duration = Duration::from_secs(15);
/// The end of a process of ours that did not answer in time.
const HANG: &str = "hang";
/// The number of processes at which a reader may hang before the rest is given up.
const MOST_HANGS: usize = 3;
/// The most that is read of the list of users and of the list of mounts, in bytes.
const MOST_LIST: u64 = 4 << 20;

/// What to read.
pub(crate) struct WhoRequest {
    /// Only this process.
    pub(crate) only: Option<u32>,
    /// Time to sample the utilization by processes, in milliseconds; with 0, what NVML has kept.
    pub(crate) sample_ms: u64,
    /// `true` to read Python stacks.
    pub(crate) stacks: bool,
}

impl Doctor {
    /// Reads the holders of the GPUs.
    ///
    /// # Errors
    /// Returns an error if the only process does not exist, the reader of NVML could not be killed, or the user stopped it.
    pub(crate) fn read_holders(&mut self, request: &WhoRequest) -> Result<HolderScan, DoctorError> {
        if let Some(pid) = request.only
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            return Err(DoctorError::NoProcess(pid));
        }
        let want = Want::Start {
            library: Started::Nvml,
            uses_gpus: false,
            watch_ms: request.sample_ms,
        };
        let deadline_ms = self.deadline_ms + request.sample_ms;
        let nvml = self.ask(&self.environment(), &want, deadline_ms)?;
        let nvml = new_start(Started::Nvml, None, nvml);
        let isolation = host::detect_isolation();
        let mut scan = HolderScan {
            uid: rustix::process::getuid().as_raw(),
            is_first_namespace: isolation.pid_namespace.map(|is_nested| !is_nested),
            hides_others: hides_others(),
            module_version: place::module_version(),
            nvml,
            nvml_unix_ms: clock::unix_ms(),
            sampled_ms: request.sample_ms,
            processes: Vec::new(),
            unread: Vec::new(),
            absent: Vec::new(),
            users: list_users(),
            ended: None,
        };
        if scan.nvml.is_simulated() {
            scan.module_version = None;
        }
        self.scan_processes(request.only, &mut scan)?;
        if request.stacks {
            let began = Instant::now();
            for process in &mut scan.processes {
                if began.elapsed() > ALL_STACKS {
                    break;
                }
                process.stack = self.read_stack(process)?;
            }
        }
        Ok(scan)
    }

    /// Reads processes. A process at which the reader hangs is left out by the next reader.
    fn scan_processes(
        &mut self,
        only: Option<u32>,
        scan: &mut HolderScan,
    ) -> Result<(), DoctorError> {
        let mut listed = BTreeSet::new();
        for gpu in &scan.nvml.gpus {
            let compute = gpu.reading.processes.iter().flatten();
            listed.extend(compute.chain(&gpu.graphics).map(|process| process.pid));
        }
        let running = list_processes();
        self.stuck.retain(|process| running.contains(&process.pid));
        let mut hung = self.stuck.clone();
        let most_hung = hung.len() + MOST_HANGS;
        let mut skipped = BTreeSet::from([std::process::id()]);
        skipped.extend(hung.iter().map(|process| process.pid));
        loop {
            let want = Want::Scan {
                only,
                listed: listed.clone(),
                skipped: skipped.clone(),
                devices: device_folder(&scan.nvml),
            };
            let examined = self.ask(&self.environment(), &want, READ_MS)?;
            let hung_at = match &examined.ended {
                Some(end) => end.at.as_ref().and_then(|pid| pid.parse::<u32>().ok()),
                None => None,
            };
            if let Some(pid) = hung_at {
                self.note_stuck(pid, &examined);
                if hung.len() < most_hung {
                    skipped.insert(pid);
                    hung.push(new_hung(pid));
                    continue;
                }
            }
            for message in examined.said {
                match message {
                    ExaminerMessage::Process(process) => scan.processes.push(*process),
                    ExaminerMessage::Unread(unread) => scan.unread.push(unread),
                    ExaminerMessage::Absent(absent) => scan.absent.push(absent),
                    _ => {}
                }
            }
            scan.unread.extend(hung);
            scan.ended = examined.ended;
            return Ok(());
        }
    }

    fn note_stuck(&mut self, pid: u32, examined: &Examined) {
        if examined.is_unkillable {
            self.stuck.push(new_hung(pid));
        }
    }

    fn read_stack(
        &mut self,
        process: &ProcessExamination,
    ) -> Result<Option<PythonStack>, DoctorError> {
        let want = Want::Stack {
            pid: process.pid,
            started_unix_ms: process.started_unix_ms,
        };
        let examined = self.ask(&self.environment(), &want, STACK_MS)?;
        self.note_stuck(process.pid, &examined);
        for said in examined.said {
            if let ExaminerMessage::Stack(stack) = said {
                return Ok(stack);
            }
        }
        Ok(examined.ended.map(|end| PythonStack {
            error: Some(end.by),
            ..PythonStack::default()
        }))
    }
}

fn new_hung(pid: u32) -> UnreadProcess {
    UnreadProcess {
        pid,
        uid: None,
        error: HANG.to_owned(),
    }
}

/// Returns the directory of the device files: that of a simulated machine is the one of its libraries.
fn device_folder(nvml: &LibraryStart) -> String {
    let mut libraries = nvml.libraries.iter();
    let simulated = libraries.find(|library| library.simulated);
    match simulated.and_then(|library| Path::new(&library.path).parent()) {
        Some(folder) => format!("{}/", folder.display()),
        None => DEVICES.to_owned(),
    }
}

/// Returns the users of this machine's own list. A directory service is not asked: it may not answer.
fn list_users() -> BTreeMap<u32, String> {
    let mut users = BTreeMap::new();
    for line in read_text("/etc/passwd", MOST_LIST).lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(Ok(uid))) = (fields.next(), fields.nth(1).map(str::parse)) {
            users.entry(uid).or_insert(name.to_owned());
        }
    }
    users
}

/// Returns `true` if `/proc` hides processes of other users from this user.
fn hides_others() -> bool {
    // Root of another user namespace is an ordinary user on the host, and a service of root may lack the capability.
    let sets = rustix::thread::capabilities(None);
    let may_trace = sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_PTRACE));
    let users = read_text("/proc/self/uid_map", MOST_LIST);
    if may_trace && users.split_whitespace().eq(["0", "0", "4294967295"]) {
        return false;
    }
    let mounts = read_text("/proc/self/mountinfo", MOST_LIST);
    let mut proc = mounts
        .lines()
        .filter(|line| line.split(' ').nth(4) == Some("/proc"));
    proc.any(|line| {
        let hiding = [
            "hidepid=1",
            "hidepid=2",
            "hidepid=4",
            "noaccess",
            "invisible",
            "ptraceable",
        ];
        hiding.iter().any(|option| line.contains(option))
    })
}

/// Returns `true` if a process sees the same files and users as this one: in a container, the same path and the same
/// user number are somebody else's.
fn has_own_namespaces(process: &Path) -> bool {
    ["mnt", "user", "pid"].iter().all(|kind| {
        let theirs = fs::read_link(process.join("ns").join(kind));
        let own = fs::read_link(Path::new("/proc/self/ns").join(kind));
        matches!((theirs, own), (Ok(theirs), Ok(own)) if theirs == own)
    })
}

/// Returns the folder of the simulated machine that a running program of this user uses, by the libraries that it has
/// mapped: that of the process `only`, otherwise that of the newest such program. `None` if no such program runs.
pub(crate) fn find_simulated_machine(only: Option<u32>) -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let pids = match only {
        Some(pid) => [pid].into(),
        None => list_processes(),
    };
    for pid in pids.into_iter().rev() {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let is_own = fs::metadata(&process).is_ok_and(|folder| folder.uid() == user);
        if is_own
            && has_own_namespaces(&process)
            && let Some(folder) = simulated::folder_in_use(&process)
        {
            return Some(folder);
        }
    }
    None
}
