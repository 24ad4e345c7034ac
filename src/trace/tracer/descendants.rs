//! The processes that the program starts: whether each reports to the tracer, and if it does not, whether it may have
//! used CUDA unseen.
//!
//! The hook maps a file of the trace as soon as it is loaded, so the memory map of a process shows whether it reports.
//! The tracer checks a process that does not report until it ends, and whenever a process opens libcuda. The process
//! has used no CUDA if libcuda was not opened between the last check and its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::driver_watch::{DriverWatch, Opened};
use super::place::TraceFolder;
use super::processes::{MOST_ENVIRONMENT, MOST_MAPS, arguments_of, program_of};
use crate::stack::file_name;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_instrument::bounded::read_bytes as read;
use cuda_pitfalls_instrument::forwarding::NAME;
use cuda_pitfalls_instrument::supervisor::{self, role};
use cuda_pitfalls_instrument::traced::{CUDA_FOLDER, VARIABLE};

/// The shortest time between two scans.
const SCAN_NS: u64 = 50_000_000;
const LONGEST_SCAN_NS: u64 = 250_000_000;
/// The time between two scans, as a multiple of the duration of the last one; the next constant applies to a scan
/// because libcuda was opened.
const SHARE: u64 = 20;
const URGENT_SHARE: u64 = 10;
/// The time within which the loader must have loaded the hook.
const LOADING_NS: u64 = 2_000_000_000;
/// The maximum number of sentences about processes.
const MOST_SENTENCES: usize = 100;
/// The maximum number of processes that are followed.
const MOST_PROCESSES: usize = 20_000;

/// The file name of this program.
const OWN_NAME: &str = "cuda-pitfalls";

/// A part of the path of a simulated libcuda.
const SIMULATED: &str = "/libcuda_pitfalls_sim";

/// The keys of the kernel's auxiliary vector (getauxval(3)).
const AT_BASE: u64 = 7;
const AT_SECURE: u64 = 23;

/// The reason why a process does not report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Untraced {
    Unreadable,
    OtherTrace,
    NoVariables,
    Privileged,
    OtherRoot,
    Static,
    NoHook,
}

impl Untraced {
    fn reason(self) -> &'static str {
        match self {
            Untraced::Unreadable => "its files in /proc cannot be read",
            Untraced::OtherTrace => "it belongs to another trace",
            Untraced::NoVariables => "it was started without the trace's variables",
            Untraced::Privileged => {
                "it gains privileges when it starts (setuid), so the loader ignores LD_PRELOAD"
            }
            Untraced::OtherRoot => "it runs in another mount namespace or root directory",
            Untraced::Static => "it is statically linked",
            Untraced::NoHook => "the hook is not loaded in it",
        }
    }
}

/// The state of a process at the last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attachment {
    /// The process reports.
    Attached,
    /// The process does not report yet, and nothing prevents it.
    Starting,
    /// The process does not report.
    Untraced(Untraced),
    /// The process uses libcuda and does not report.
    UsesCuda(Untraced),
}

/// The start time of a process, and the start address of its stack: another program in the same process has another
/// stack.
type ProgramIdentity = (u64, u64);

/// The identity of a process that /proc hides.
const HIDDEN: ProgramIdentity = (0, 0);

/// A process, with its identity and name.
type NamedProcess = (u32, ProgramIdentity, String);

struct Descendant {
    identity: ProgramIdentity,
    since_ns: u64,
    attachment: Attachment,
    has_libcuda: bool,
    /// `true` if the process was starting or ending when an unknown process opened libcuda.
    is_doubted: bool,
    /// See [`ProcessStatus::waited_faults`].
    waited_faults: u64,
    /// The program of the process at the last check.
    command: String,
}

/// A scan of all processes.
struct ProcessScan {
    began_ns: u64,
    opened: Opened,
    /// The processes that ran at the last scan and that this scan has not found yet.
    before: BTreeMap<u32, Descendant>,
    /// The processes that had ended at the last scan.
    ended_before: BTreeSet<(u32, ProgramIdentity)>,
    /// The processes that have ended since.
    ended: Vec<NamedProcess>,
    /// The processes that have waited for a child since.
    waited: Vec<NamedProcess>,
    /// `true` if the process that opened libcuda is known.
    is_explained: bool,
}

pub(super) struct Descendants {
    watch: DriverWatch,
    /// The end of the path of the file that every reporting process maps.
    shared_file: String,
    /// Texts in the environment of a process that will load the hook.
    variables: Vec<String>,
    /// The path of the trace's own libcuda.
    forwarding: String,
    preload: bool,
    mount_namespace: Option<PathBuf>,
    running: BTreeMap<u32, Descendant>,
    /// The processes that had ended at the last scan, and that no parent had waited for.
    ended: BTreeSet<(u32, ProgramIdentity)>,
    /// The programs that sent a message, by PID.
    heard: BTreeMap<u32, ProgramIdentity>,
    /// `true` if one of them sent its first message since the last scan.
    has_news: bool,
    /// The number of times that a reporting program had loaded libcuda at the last scan.
    loads: Option<u64>,
    /// Processes that may have used CUDA unseen, each with the sentence about it.
    unseen: BTreeMap<(u32, ProgramIdentity), String>,
    /// Sentences that describe other gaps: in processes that report, and in all processes.
    limits: BTreeSet<String>,
    /// [`MOST_PROCESSES`], or fewer in a test.
    most_processes: usize,
    next_ns: u64,
    next_urgent_ns: u64,
}

impl Descendants {
    pub(super) fn new(place: &TraceFolder, libcuda: Option<&Path>, preload: bool) -> Descendants {
        let mut variables = vec![format!("{VARIABLE}={}", place.path().display())];
        if preload {
            variables.push(place.hook_path().display().to_string());
        }
        Descendants {
            watch: DriverWatch::start(libcuda),
            shared_file: place.shared_file(),
            variables,
            forwarding: place
                .path()
                .join(CUDA_FOLDER)
                .join(NAME)
                .display()
                .to_string(),
            preload,
            mount_namespace: fs::read_link("/proc/self/ns/mnt").ok(),
            running: BTreeMap::new(),
            ended: BTreeSet::new(),
            heard: BTreeMap::new(),
            has_news: false,
            loads: place.libcuda_loads(),
            unseen: BTreeMap::new(),
            limits: BTreeSet::new(),
            most_processes: MOST_PROCESSES,
            next_ns: 0,
            next_urgent_ns: 0,
        }
    }

    /// Records that a process sent a message, so that its program is traced.
    pub(super) fn note_message(&mut self, pid: u32) {
        let Some(status) = ProcessStatus::read(pid) else {
            return;
        };
        if self.heard.insert(pid, status.identity) != Some(status.identity) {
            self.has_news = true;
            // A process that was about to end at the check had no stack any more.
            self.unseen.retain(|(process, identity), _| {
                let (start, stack) = status.identity;
                *process != pid || (*identity != (start, stack) && *identity != (start, 0))
            });
        }
    }

    /// Returns a descriptor that is readable when a scan is due before [`Descendants::wait_ns`] is over.
    pub(super) fn urgent_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        if clock::now_ns() < self.next_urgent_ns {
            return None;
        }
        self.watch.fd()
    }

    /// Returns the time until the next scan is due.
    pub(super) fn wait_ns(&self, now_ns: u64) -> u64 {
        self.next_ns.saturating_sub(now_ns)
    }

    /// Returns `true` if a scan of all processes is due.
    pub(super) fn is_due(&self) -> bool {
        let is_urgent = self.urgent_fd().is_some_and(|fd| {
            let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
            poll(&mut fds, Some(&supervisor::to_timespec(0))).is_ok_and(|ready| ready > 0)
        });
        is_urgent || clock::now_ns() >= self.next_ns
    }

    /// Returns the processes that ran at the last scan.
    pub(super) fn running_pids(&self) -> impl Iterator<Item = u32> {
        self.running.keys().copied()
    }

    /// Returns `true` if a process had ended at the last scan. Nothing of such a process is missed if its parent waits
    /// for it now.
    pub(super) fn has_ended(&self, pid: u32) -> bool {
        self.ended
            .range((pid, HIDDEN)..)
            .next()
            .is_some_and(|(ended, _)| *ended == pid)
    }

    /// Returns sentences that describe what may have been missed. `ended_why` is the reason why the tracer does not
    /// wait for processes that still run.
    pub(super) fn not_seen(&self, ended_why: &str) -> Vec<String> {
        let named = self
            .running
            .iter()
            .filter(|(pid, process)| !self.unseen.contains_key(&(**pid, process.identity)));
        let running = named.map(|(pid, _)| {
            let command = command_of(*pid);
            format!("process {pid} ({command}) still runs {ended_why}; later events are not seen")
        });
        let sentences = self.limits.iter().chain(self.unseen.values()).cloned();
        let mut all: Vec<String> = sentences.chain(running).collect();
        let left_out = all.len().saturating_sub(MOST_SENTENCES);
        all.truncate(MOST_SENTENCES);
        if left_out > 0 {
            all.push(format!(
                "{} more that could not be seen",
                counted(left_out as u64, "process")
            ));
        }
        all
    }

    /// Checks all processes of the program. `roots` are the children of the tracer that belong to it; `loads` is the
    /// number of times that a reporting process has loaded libcuda.
    pub(super) fn scan_processes(&mut self, roots: &[u32], loads: Option<u64>) {
        let mut scan = ProcessScan {
            began_ns: clock::now_ns(),
            opened: self.watch.take_opened(),
            before: std::mem::take(&mut self.running),
            ended_before: std::mem::take(&mut self.ended),
            ended: Vec::new(),
            waited: Vec::new(),
            // A process that has just sent its first message has opened libcuda.
            is_explained: std::mem::take(&mut self.has_news) | (self.loads != loads),
        };
        self.loads = loads;
        let (pids, is_whole) = processes_below(roots, self.most_processes);
        if !is_whole {
            let most = counted(self.most_processes as u64, "process");
            let sentence =
                format!("the program had more than {most} at once; the others are not traced");
            self.limits.insert(sentence);
        }
        for pid in pids {
            if let Some(status) = ProcessStatus::read(pid) {
                self.scan_process(pid, status, &mut scan);
            }
        }
        for (pid, process) in std::mem::take(&mut scan.before) {
            self.end_process(pid, process, &mut scan);
        }
        let began_ns = scan.began_ns;
        if scan.opened.libcuda && !scan.is_explained {
            self.note_unexplained(scan.ended, scan.waited);
        }
        if supervisor::process_stat("self").is_none() {
            let sentence =
                "the processes of the program cannot be listed: /proc cannot be read".to_owned();
            self.limits.insert(sentence);
        }
        let now_ns = clock::now_ns();
        let took_ns = now_ns - began_ns;
        self.next_ns = now_ns + (SHARE * took_ns).clamp(SCAN_NS, LONGEST_SCAN_NS);
        self.next_urgent_ns = now_ns + URGENT_SHARE * took_ns;
    }

    /// Checks one process, which runs, or has ended and was not waited for.
    fn scan_process(&mut self, pid: u32, status: ProcessStatus, scan: &mut ProcessScan) {
        let identity = status.identity;
        let known_faults = match scan.before.get(&pid) {
            Some(known) if known.identity == identity => known.waited_faults,
            _ => 0,
        };
        if status.waited_faults > known_faults {
            scan.waited.push((pid, identity, status.name.clone()));
        }
        if !status.is_running(pid) {
            self.ended.insert((pid, identity));
            if !scan.before.contains_key(&pid) && !scan.ended_before.contains(&(pid, identity)) {
                scan.ended.push((pid, identity, status.name));
            }
            return;
        }
        let mut process = match scan.before.remove(&pid) {
            Some(known) if known.identity == identity => self.look_again(pid, known, scan.opened),
            known => {
                if let Some(known) = known {
                    self.end_process(pid, known, scan);
                }
                self.look_first(pid, identity, scan.began_ns)
            }
        };
        process.waited_faults = status.waited_faults;
        scan.is_explained |= match process.attachment {
            Attachment::Attached => {
                scan.opened.libcuda && (process.has_libcuda || has_open_libcuda(pid))
            }
            Attachment::UsesCuda(_) => true,
            Attachment::Starting | Attachment::Untraced(_) => false,
        };
        self.running.insert(pid, process);
    }

    /// Ends a process that ran at the last scan.
    fn end_process(&mut self, pid: u32, process: Descendant, scan: &mut ProcessScan) {
        self.note_end(pid, &process, scan.opened);
        scan.ended.push((pid, process.identity, process.command));
    }

    fn look_first(&mut self, pid: u32, identity: ProgramIdentity, now_ns: u64) -> Descendant {
        let attachment = Attachment::Starting;
        let command = String::new();
        let process = Descendant {
            identity,
            since_ns: now_ns,
            attachment,
            has_libcuda: false,
            is_doubted: false,
            waited_faults: 0,
            command,
        };
        self.look(pid, process)
    }

    fn look_again(&mut self, pid: u32, process: Descendant, opened: Opened) -> Descendant {
        match process.attachment {
            // A process that only had the file open may load it now.
            Attachment::UsesCuda(_) if process.has_libcuda => process,
            // This process opened libcuda, which explains the open.
            Attachment::Attached if !opened.libcuda || process.has_libcuda => process,
            _ => self.look(pid, process),
        }
    }

    /// Finds out whether a process reports, and whether it uses libcuda.
    fn look(&mut self, pid: u32, mut process: Descendant) -> Descendant {
        match maps_of(pid) {
            Ok(maps) if !maps.is_empty() => {
                self.update_attachment(pid, &mut process, &maps);
                process.command = command_of(pid);
                self.note_attachment(pid, &process);
            }
            Err(error)
                if error.kind() == ErrorKind::PermissionDenied || process.identity == HIDDEN =>
            {
                process.command = command_of(pid);
                process.attachment = if self.has_sent_message(pid, process.identity) {
                    Attachment::Attached
                } else {
                    Attachment::Untraced(Untraced::Unreadable)
                };
            }
            // The process is about to end.
            _ => {}
        }
        process
    }

    /// Returns `true` if a program sent a message.
    fn has_sent_message(&self, pid: u32, identity: ProgramIdentity) -> bool {
        self.heard.get(&pid) == Some(&identity)
    }

    /// Returns `true` if a program that has ended had sent a message. A process that ends has no stack any more, at the
    /// last check or when its message arrived.
    fn had_sent_message(&self, pid: u32, (start, stack): ProgramIdentity) -> bool {
        self.heard
            .get(&pid)
            .is_some_and(|(heard_start, heard_stack)| {
                *heard_start == start && (heard_stack == &stack || stack == 0 || *heard_stack == 0)
            })
    }

    /// Updates from its memory map whether a process reports, and whether it uses libcuda.
    fn update_attachment(&self, pid: u32, process: &mut Descendant, maps: &str) {
        let has_forwarding = maps.contains(&self.forwarding);
        let has_other = has_code(maps, "/libcuda.so") || maps.contains(SIMULATED);
        process.has_libcuda = has_forwarding || has_other;
        // The process opens libcuda by name, or the driver calls the hook in it, or the hook reports this at the
        // process's end.
        if self.has_sent_message(pid, process.identity) || maps.contains(&self.shared_file) {
            process.attachment = Attachment::Attached;
            return;
        }
        let is_late = clock::now_ns() > process.since_ns + LOADING_NS && self.preload;
        let is_user = !has_forwarding && (has_other || has_open_libcuda(pid));
        let reason = self.untraced_reason(pid);
        // What was read may be the rest of a program that ends, or may belong to the next program of the process.
        if reason.is_some() && !has_started(pid, process.identity) {
            return;
        }
        process.attachment = match reason.or(is_late.then_some(Untraced::NoHook)) {
            Some(why) if is_user => Attachment::UsesCuda(why),
            Some(why) => Attachment::Untraced(why),
            // The loader maps libcuda, where a program is linked with it, before it starts the hook.
            None => Attachment::Starting,
        };
    }

    /// Records the gaps that a process causes in the trace.
    fn note_attachment(&mut self, pid: u32, process: &Descendant) {
        let command = &process.command;
        match process.attachment {
            Attachment::Attached if is_tracer(pid) => {
                self.limits.insert(format!(
                    "process {pid} ({command}) runs its own trace; that program is not in this trace"
                ));
            }
            Attachment::UsesCuda(why) => {
                let reason = why.reason();
                let deed = if process.has_libcuda {
                    "uses libcuda and"
                } else {
                    "opened the libcuda file (to read or load it) and"
                };
                let sentence =
                    format!("process {pid} ({command}) {deed} is not traced, because {reason}");
                self.unseen.insert((pid, process.identity), sentence);
            }
            _ => {}
        }
    }

    /// Returns the reason why a process cannot report; `None` if nothing prevents it.
    fn untraced_reason(&self, pid: u32) -> Option<Untraced> {
        let root = fs::read_link(format!("/proc/{pid}/root"));
        let namespace = fs::read_link(format!("/proc/{pid}/ns/mnt"));
        let (Ok(root), Ok(namespace)) = (root, namespace) else {
            return Some(Untraced::Unreadable);
        };
        if root != Path::new("/") || Some(namespace) != self.mount_namespace {
            return Some(Untraced::OtherRoot);
        }
        let Ok(auxiliary) = read(format!("/proc/{pid}/auxv"), MOST_ENVIRONMENT) else {
            return Some(Untraced::Unreadable);
        };
        // The kernel is about to start the program and has not written the vector yet.
        if auxiliary_value(&auxiliary, AT_SECURE)? != 0 {
            return Some(Untraced::Privileged);
        }
        if auxiliary_value(&auxiliary, AT_BASE).unwrap_or(0) == 0 {
            return Some(Untraced::Static);
        }
        let Ok(environment) = read(format!("/proc/{pid}/environ"), MOST_ENVIRONMENT) else {
            return Some(Untraced::Unreadable);
        };
        let environment = String::from_utf8_lossy(&environment);
        if self
            .variables
            .iter()
            .all(|variable| environment.contains(variable))
        {
            return None;
        }
        let has_other = environment.contains(VARIABLE) && !environment.contains(&self.variables[0]);
        Some(if has_other {
            Untraced::OtherTrace
        } else {
            Untraced::NoVariables
        })
    }

    /// Records the end of a program that did not report. It used no CUDA if libcuda was not opened since the last
    /// check.
    fn note_end(&mut self, pid: u32, process: &Descendant, opened: Opened) {
        let is_unheard = !self.had_sent_message(pid, process.identity);
        if process.attachment == Attachment::Starting && process.is_doubted && is_unheard {
            let process_words = named_process(pid, &process.command);
            let sentence = format!(
                "{process_words} ended before it could be inspected, and libcuda was opened at that time"
            );
            self.note_unseen_end(pid, process.identity, sentence);
        }
        let Attachment::Untraced(why) = process.attachment else {
            return;
        };
        // A process below another root folder opens another libcuda file.
        let is_doubtful = if why == Untraced::OtherRoot {
            opened.any
        } else {
            opened.libcuda
        };
        if is_doubtful && is_unheard {
            let (command, reason) = (&process.command, why.reason());
            let sentence = format!(
                "process {pid} ({command}) was not traced, because {reason}; whether it loaded libcuda is unknown"
            );
            self.unseen.insert((pid, process.identity), sentence);
        }
    }

    /// Records a sentence about a program that has ended, unless the program has one. A process that ends has no stack
    /// any more, so it is not known which of its programs it ran.
    fn note_unseen_end(&mut self, pid: u32, identity: ProgramIdentity, sentence: String) {
        let (start, stack) = identity;
        let mut known = self
            .unseen
            .range((pid, (start, 0))..=(pid, (start, u64::MAX)));
        if stack != 0 || known.next().is_none() {
            self.unseen.entry((pid, identity)).or_insert(sentence);
        }
    }

    /// Records that an unknown process opened libcuda: one that has ended, or a child of one that does not report.
    fn note_unexplained(&mut self, ended: Vec<NamedProcess>, waited: Vec<NamedProcess>) {
        let named = self.unseen.len();
        for (pid, process) in &mut self.running {
            let Attachment::Untraced(why) = process.attachment else {
                process.is_doubted |= process.attachment == Attachment::Starting;
                continue;
            };
            let (command, reason) = (&process.command, why.reason());
            let sentence = format!(
                "process {pid} ({command}) is not traced, because {reason}; while it ran, an unknown process opened libcuda"
            );
            self.unseen.insert((*pid, process.identity), sentence);
        }
        for (pid, identity, command) in ended {
            if !self.had_sent_message(pid, identity) {
                let process = named_process(pid, &command);
                let sentence = format!(
                    "{process} ended just after libcuda was opened, before it could be inspected"
                );
                self.note_unseen_end(pid, identity, sentence);
            }
        }
        if self.unseen.len() > named {
            return;
        }
        for (pid, identity, command) in waited {
            let sentence = format!(
                "a child of process {pid} ({command}) ended before it could be inspected, and libcuda was opened at that time"
            );
            self.unseen.entry((pid, identity)).or_insert(sentence);
        }
    }
}

/// The state of a process in the kernel.
struct ProcessStatus {
    identity: ProgramIdentity,
    name: String,
    is_zombie: bool,
    threads: u64,
    /// The page faults of its waited-for children, and of their children. Each child has some, so the number rises with
    /// every child, even the shortest.
    waited_faults: u64,
}

impl ProcessStatus {
    /// Returns `None` if the process has ended and was waited for.
    fn read(pid: u32) -> Option<ProcessStatus> {
        let Some(fields) = supervisor::process_stat(pid) else {
            // /proc may hide the processes of other users.
            let is_there =
                test_kill_process(Pid::from_raw(pid.try_into().ok()?)?) != Err(Errno::SRCH);
            let hidden = ProcessStatus {
                identity: HIDDEN,
                name: "hidden".to_owned(),
                is_zombie: false,
                threads: 1,
                waited_faults: 0,
            };
            return is_there.then_some(hidden);
        };
        let is_zombie = fields
            .first()
            .is_some_and(|state| state == "Z" || state == "X");
        // `cminflt` is field 11, `num_threads` field 20, `starttime` field 22, `startstack` field 28.
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(ProcessStatus {
            identity: (number_at(&fields, 19), number_at(&fields, 25)),
            name: name.trim_end().to_owned(),
            is_zombie,
            threads: number_at(&fields, 17),
            waited_faults: number_at(&fields, 8),
        })
    }

    /// Returns `true` if the process runs. Its first thread may have ended before the others.
    fn is_running(&self, pid: u32) -> bool {
        !self.is_zombie || (self.threads > 1 && threads_of(pid).len() > 1)
    }
}

fn number_at(fields: &[String], at: usize) -> u64 {
    fields
        .get(at)
        .and_then(|field| field.parse().ok())
        .unwrap_or(0)
}

fn threads_of(pid: u32) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        .map(|task: fs::DirEntry| task.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Returns the memory map of a process; empty if it is about to end.
fn maps_of(pid: u32) -> std::io::Result<String> {
    let maps = read(format!("/proc/{pid}/maps"), MOST_MAPS)?;
    if !maps.is_empty() {
        return Ok(String::from_utf8_lossy(&maps).into_owned());
    }
    // The first thread may have ended, and others run.
    for thread in threads_of(pid) {
        let maps = read(format!("/proc/{pid}/task/{thread}/maps"), MOST_MAPS).unwrap_or_default();
        if !maps.is_empty() {
            return Ok(String::from_utf8_lossy(&maps).into_owned());
        }
    }
    Ok(String::new())
}

/// Returns `true` if a process runs the program of this identity, with its stack set up.
fn has_started(pid: u32, identity: ProgramIdentity) -> bool {
    // Some kernels do not report the stack of any process.
    let shows_stacks =
        supervisor::process_stat("self").is_some_and(|fields| number_at(&fields, 25) != 0);
    let (_, stack_start) = identity;
    if shows_stacks && stack_start == 0 {
        return false;
    }
    ProcessStatus::read(pid).is_some_and(|status| status.identity == identity)
        && maps_of(pid).is_ok_and(|maps| !maps.is_empty())
}

/// Returns `true` if a memory map has code of a file, not only its data.
fn has_code(maps: &str, file: &str) -> bool {
    maps.lines().any(|line| {
        line.contains(file)
            && line
                .split(' ')
                .nth(1)
                .is_some_and(|mode| mode.contains('x'))
    })
}

/// Returns `true` if a process is about to load libcuda, or reads its file.
fn has_open_libcuda(pid: u32) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    for file in files.flatten() {
        let path = fs::read_link(file.path()).unwrap_or_default();
        let name = path.to_string_lossy();
        if name.contains("/libcuda.so") || name.contains(SIMULATED) {
            return true;
        }
    }
    false
}

/// Returns a value of the kernel's auxiliary vector.
fn auxiliary_value(vector: &[u8], key: u64) -> Option<u64> {
    for pair in vector.as_chunks::<16>().0 {
        let (found, value) = pair.split_at(8);
        if found == key.to_ne_bytes() {
            return Some(u64::from_ne_bytes(value.try_into().ok()?));
        }
    }
    None
}

/// Returns a process's name for a sentence. Not every kernel reports the name of one that has ended.
fn named_process(pid: u32, command: &str) -> String {
    if command.is_empty() {
        format!("process {pid}")
    } else {
        format!("process {pid} ({command})")
    }
}

/// Returns `true` if a process is a tracer of this program, such as the plugin for pytest starts in its tests.
fn is_tracer(pid: u32) -> bool {
    file_name(&program_of(pid)) == OWN_NAME
        && arguments_of(pid)
            .get(1)
            .is_some_and(|command| command == "trace" || command == role::TRACER)
}

/// Returns the program of a process, and the script of its Python. Its other arguments may be secret.
fn command_of(pid: u32) -> String {
    crate::command_name(&program_of(pid), &arguments_of(pid), false)
}

/// Returns these processes and their descendants, but not many more than `most`, and `true` if the list is complete.
fn processes_below(roots: &[u32], most: usize) -> (Vec<u32>, bool) {
    let mut all = roots.to_vec();
    let mut at = 0;
    while at < most
        && let Some(pid) = all.get(at)
    {
        let children = supervisor::children_of(*pid);
        at += 1;
        all.extend(children.into_iter().map(i32::unsigned_abs));
    }
    let is_whole = at == all.len();
    (all, is_whole)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn more_processes_than_are_followed_are_not_seen() {
        let place = TraceFolder::create().unwrap();
        let mut children =
            [(); 2].map(|()| Command::new("cat").stdin(Stdio::piped()).spawn().unwrap());
        for (most_processes, is_said) in [(2, false), (1, true)] {
            let mut descendants = Descendants {
                most_processes,
                ..Descendants::new(&place, None, false)
            };
            descendants.scan_processes(&children.each_ref().map(|child| child.id()), None);
            let said = descendants.not_seen("now").join(" ");
            assert_eq!(
                said.contains("more than 1 process at once; the others are not traced"),
                is_said,
                "{said}"
            );
        }
        for child in &mut children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_process_that_is_about_to_end_while_libcuda_is_opened_is_named() {
        let place = TraceFolder::create().unwrap();
        let identity = (1, 1);
        for (is_opened, heard, seen_last, is_named) in [
            (true, None, identity, true),
            (true, Some(identity), identity, false),
            // Without a stack: the process was about to end at the check, or when its message arrived.
            (true, Some(identity), (1, 0), false),
            (true, Some((1, 0)), identity, false),
            (true, Some((2, 1)), (1, 0), true),
            (true, Some((1, 2)), identity, true),
            (false, None, identity, false),
        ] {
            let mut descendants = Descendants::new(&place, None, false);
            // A PID beyond the largest has no files to read.
            let pid = u32::MAX;
            let ending = descendants.look_first(pid, seen_last, 0);
            descendants.running.insert(pid, ending);
            if is_opened {
                descendants.note_unexplained(Vec::new(), Vec::new());
            }
            descendants
                .heard
                .extend(heard.map(|program| (pid, program)));
            let ended = descendants.running.remove(&pid).unwrap();
            descendants.note_end(pid, &ended, Opened::default());
            assert_eq!(
                descendants.not_seen("now").len(),
                usize::from(is_named),
                "{heard:?}, {seen_last:?}"
            );
        }
    }

    #[test]
    fn a_program_that_is_about_to_end_has_one_sentence() {
        let place = TraceFolder::create().unwrap();
        let mut descendants = Descendants::new(&place, None, false);
        for (ended, sentences) in [((1, 1), 1), ((1, 0), 1), ((1, 2), 2), ((2, 0), 3)] {
            descendants.note_unexplained(vec![(7, ended, "a".to_owned())], Vec::new());
            assert_eq!(descendants.not_seen("now").len(), sentences, "{ended:?}");
        }
    }

    #[test]
    fn what_is_read_of_another_program_is_no_reason() {
        let place = TraceFolder::create().unwrap();
        let descendants = &mut Descendants::new(&place, None, false);
        let pid = std::process::id();
        let identity = ProcessStatus::read(pid).unwrap().identity;
        let own = descendants.look_first(pid, identity, 0);
        assert_eq!(own.attachment, Attachment::Untraced(Untraced::NoVariables));
        let last_program = (identity.0, identity.1 + 1);
        let replaced = descendants.look_first(pid, last_program, 0);
        assert_eq!(replaced.attachment, Attachment::Starting);
    }

    #[test]
    fn a_program_without_a_stack_has_not_started() {
        let pid = std::process::id();
        let identity = ProcessStatus::read(pid).unwrap().identity;
        assert!(has_started(pid, identity));
        assert!(!has_started(pid, (identity.0, 0)), "about to start");
        assert!(!has_started(pid, (identity.0 + 1, identity.1)), "another");
    }

    #[test]
    fn the_end_of_a_process_is_seen_before_it_is_waited_for() {
        let place = TraceFolder::create().unwrap();
        let mut descendants = Descendants::new(&place, None, false);
        let mut child = Command::new("true").spawn().unwrap();
        while supervisor::is_alive(child.id()) {
            std::thread::yield_now();
        }
        assert!(!descendants.has_ended(child.id()));
        descendants.scan_processes(&[child.id()], None);
        assert!(descendants.has_ended(child.id()) && !descendants.has_ended(child.id() - 1));
        child.wait().unwrap();
        descendants.scan_processes(&[], None);
        assert!(!descendants.has_ended(child.id()));
    }
}
