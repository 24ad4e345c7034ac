//! The state of each process of the traced program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::message::LANE_WORDS;
use super::peers;
use super::stacks::Stacks;
use crate::{CallCount, ContextChange, EventSource, ProcessCounts, Stack, TraceProcess, Uses};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_fake::COUNTED;
use cuda_pitfalls_fake::counts::{DEVICES, LANES};
use cuda_pitfalls_instrument::bounded::read_bytes as read;
use cuda_pitfalls_instrument::supervisor::{self, is_alive};

/// The gap in the trace of a program with libcudart on the simulated machine. The program did nothing wrong.
const SIMULATED_RUNTIME: &str = "the simulated libcudart creates contexts without calling libcuda, unlike a real one; on the simulated machine, contexts and calls of libcudart programs are not seen";
/// The maximum number of bytes that are read of a process's arguments or memory map.
const MOST_ARGUMENTS: u64 = 64 << 10;
/// The maximum number of bytes that are read of an environment.
pub(super) const MOST_ENVIRONMENT: u64 = 256 << 10;
pub(super) const MOST_MAPS: u64 = 64 << 20;
/// The maximum number of pieces of memory with counts per process. A process has one for each program that it runs.
const MOST_PAGES: usize = 16;
/// The maximum number of sentences about what was not seen; further ones are only counted.
const MOST_SENTENCES: usize = 200;
/// The maximum number of forks of one program whose stacks are read while they write variables.
const CROWD: u32 = 64;

/// The processes that sent messages.
#[derive(Default)]
pub(super) struct Processes {
    known: BTreeMap<u32, ProcessRecord>,
    /// UUIDs of GPUs that held a context of a known process.
    with_context: BTreeSet<String>,
    /// Processes that had ended at the last check.
    ended: BTreeSet<u32>,
    /// The number of processes of each program image, and the Python that they run.
    images: BTreeMap<Image, Family>,
    /// The number of pieces of memory that are kept open, and the maximum.
    pages: usize,
    most_pages: usize,
    /// `true` if the libraries are the simulated machine's. Its libcudart initializes the driver and creates contexts
    /// without calling libcuda, unlike a real one.
    is_simulated: bool,
    /// Processes that have ended after only one of two messages arrived: `true` if it was the driver's call of the
    /// hook, `false` if it was the call of `cuInit`.
    half: BTreeMap<u32, bool>,
    /// `true` if a process has the state of the simulated machine to itself, so that no reading of memory counts it.
    pub(super) hides_memory: bool,
    not_seen: Vec<String>,
    unsaid: usize,
    /// The NVML functions that the simulated machine lacks and a process looked for, each with the place.
    pub(super) absent: Vec<String>,
}

/// A value that distinguishes successive programs in a process and is the same in forks.
type Image = (PathBuf, String);

/// The processes of one program image.
#[derive(Default)]
struct Family {
    processes: u32,
    python: (Option<String>, Option<String>),
}

#[derive(Default)]
struct ProcessRecord {
    /// The program image. Another program in the same process has its own events.
    image: Option<Image>,
    /// The start time of the process, in the kernel's unit: another process may get the PID of one that has ended.
    started: Option<u64>,
    /// The time in the program's line in the document.
    began_ns: u64,
    /// The programs that had this PID before, with their own counts.
    earlier: Vec<ProcessRecord>,
    pages: Vec<SharedCounts>,
    /// UUIDs by ordinal.
    gpus: BTreeMap<i32, String>,
    /// Ordinals with a primary context, and handles of other contexts.
    primary: BTreeSet<i32>,
    others: BTreeSet<u64>,
    injected: bool,
    /// `true` if the simulated libcudart initialized the driver.
    has_simulated_runtime: bool,
    /// The files and functions that the process looked for in vain on the simulated machine, each with the place.
    gave_up: Vec<String>,
    /// Sentences about optional libraries that the process looked for, by the number of the message.
    sought: BTreeMap<u64, String>,
    forwarded: bool,
    /// `true` if libcuda read the mask before it called the hook.
    read_before_hook: bool,
}

/// The memory with a process's counts (src/fake/shim/counts.rs).
struct SharedCounts(File);

impl SharedCounts {
    fn sum_lanes(&self) -> Vec<u64> {
        let mut sums = vec![0u64; LANE_WORDS];
        let mut lane = vec![0u8; LANE_WORDS * 8];
        let mut at = 0;
        for _ in 0..LANES {
            if self.0.read_exact_at(&mut lane, at).is_err() {
                break;
            }
            at += lane.len() as u64;
            for (sum, bytes) in sums.iter_mut().zip(lane.as_chunks::<8>().0) {
                *sum = sum.saturating_add(u64::from_ne_bytes(*bytes));
            }
        }
        sums
    }
}

/// Returns `true` if a process has the state of the simulated machine to itself (src/fake/sim/machine.rs).
fn has_own_state(pid: u32) -> bool {
    let maps = match read(format!("/proc/{pid}/maps"), MOST_MAPS) {
        Ok(maps) => maps,
        // The process dropped rights that the tracer has.
        Err(error) => return error.kind() == ErrorKind::PermissionDenied,
    };
    String::from_utf8_lossy(&maps)
        .lines()
        .any(|line| line.ends_with("/machine.state") && line.contains(" rw-p "))
}

/// Returns the value of a variable in the text of an environment, if it is a number.
fn number_in(environment: &[u8], name: &str) -> Option<u32> {
    let value = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

impl Processes {
    /// Returns an empty list. `most_pages` is the maximum number of descriptors that are kept.
    pub(super) fn new(most_pages: usize, is_simulated: bool) -> Processes {
        Processes {
            most_pages,
            is_simulated,
            ..Processes::default()
        }
    }

    /// Records that a process sent a message. Returns an entry for the document if the process is new or runs another
    /// program.
    pub(super) fn note_sender(
        &mut self,
        pid: u32,
        t_ns: u64,
        stacks: &mut Stacks,
    ) -> Option<TraceProcess> {
        let image = image_of(pid);
        let started = peers::parent_and_start(pid).map(|(_, started)| started);
        let is_new = !self.known.contains_key(&pid);
        let known = self.known.entry(pid).or_default();
        // A process that has ended has neither.
        let has_gone = image.is_none() || started.is_none();
        if !is_new && (has_gone || (&known.image, known.started) == (&image, started)) {
            return None;
        }
        let mut before = std::mem::take(known);
        *known = ProcessRecord {
            image: image.clone(),
            started,
            began_ns: t_ns,
            earlier: std::mem::take(&mut before.earlier),
            gave_up: std::mem::take(&mut before.gave_up),
            ..ProcessRecord::default()
        };
        if !before.pages.is_empty() {
            known.earlier.push(before);
        }
        stacks.forget_process(pid);
        let python = self.find_python(pid, image, stacks);
        Some(describe_process(pid, t_ns, python))
    }

    /// Returns the version of the Python in a process, or why it cannot be read. A fork has its parent's Python.
    fn find_python(
        &mut self,
        pid: u32,
        image: Option<Image>,
        stacks: &mut Stacks,
    ) -> (Option<String>, Option<String>) {
        let Some(image) = image else {
            return stacks.python(pid);
        };
        let family = self.images.entry(image).or_default();
        family.processes += 1;
        // An earlier attempt may have failed because the interpreter was not initialized yet.
        if family.python.0.is_none() {
            family.python = stacks.python(pid);
        }
        family.python.clone()
    }

    pub(super) fn name_gpu(&mut self, pid: u32, device: Option<i32>, gpu: Option<&str>) {
        if let (Some(known), Some(device), Some(gpu)) = (self.known.get_mut(&pid), device, gpu) {
            known.gpus.insert(device, gpu.to_owned());
        }
    }

    /// Returns the UUIDs of the GPUs of a process, by ordinal; `None` if it has sent no message, or has ended.
    pub(super) fn gpus(&self, pid: u32) -> Option<&BTreeMap<i32, String>> {
        self.known.get(&pid).map(|known| &known.gpus)
    }

    pub(super) fn count(&mut self, pid: u32, file: File) {
        let Some(known) = self.known.get_mut(&pid) else {
            return;
        };
        if known.all_pages() < MOST_PAGES && self.pages < self.most_pages {
            known.pages.push(SharedCounts(file));
            self.pages += 1;
        } else {
            self.add_unseen(format!("process {pid} has more counts than are kept"));
        }
    }

    /// Returns `true` if a process is one of more than [`CROWD`] forks of one program: there is not enough time to read
    /// the stack of each.
    pub(super) fn is_in_a_crowd(&self, pid: u32) -> bool {
        let Some(ProcessRecord {
            image: Some(image), ..
        }) = self.known.get(&pid)
        else {
            return false;
        };
        let family = self.images.get(image);
        family.is_some_and(|family| family.processes > CROWD)
    }

    /// Records a sentence about something that could not be seen.
    pub(super) fn add_unseen(&mut self, why: String) {
        if self.not_seen.contains(&why) {
            return;
        }
        if self.not_seen.len() < MOST_SENTENCES {
            self.not_seen.push(why);
        } else {
            self.unsaid += 1;
        }
    }

    /// Records a `cuInit`. OpenCL has its own driver, so its `cuInit` does not count as one of libcuda.
    pub(super) fn note_init(&mut self, pid: u32, witness: EventSource, is_opencl: bool) {
        if self.is_simulated && has_own_state(pid) {
            self.hides_memory = true;
            self.add_unseen(format!(
                "process {pid} loaded libcuda as a user without write access to the simulated machine; its memory is not seen"
            ));
        }
        if is_opencl {
            return;
        }
        if let Some(known) = self.known.get_mut(&pid) {
            if !known.injected && !known.forwarded {
                known.gave_up.clear();
            }
            match witness {
                EventSource::Injection => known.injected = true,
                EventSource::Forwarding => known.forwarded = true,
            }
        }
    }

    /// Returns `true` if the forwarding libcuda reported a `cuInit` of a process; it reports the return too.
    pub(super) fn is_forwarding(&self, pid: u32) -> bool {
        self.known.get(&pid).is_some_and(|known| known.forwarded)
    }

    /// Records that a process looks for an optional library that would call the driver. It counts as missing unless the
    /// process reports later that it was found.
    pub(super) fn note_library_sought(&mut self, pid: u32, number: u64, name: &str, stack: &Stack) {
        let why = format!(
            "process {pid} looked for {} but did not find it; with that library installed, the program may initialize CUDA or create contexts",
            at_place(name, stack)
        );
        let Some(known) = self.known.get_mut(&pid) else {
            return;
        };
        if known.sought.len() < MOST_SENTENCES {
            known.sought.insert(number, why.clone());
        }
        self.add_unseen(why);
    }

    /// Records that an optional library was found.
    pub(super) fn note_library_found(&mut self, pid: u32, number: u64) {
        let said = self
            .known
            .get_mut(&pid)
            .and_then(|known| known.sought.remove(&number));
        self.not_seen.retain(|why| Some(why) != said.as_ref());
    }

    /// Records that a process looked in vain for a file or function that a real driver has and the simulated one lacks:
    /// it may have given up because of that. After a `cuInit`, a process reads files that describe the machine for
    /// other reasons.
    pub(super) fn note_missing_name(&mut self, pid: u32, name: &str, stack: &Stack) {
        let absent = at_place(name, stack);
        if name.starts_with("nvml") {
            push_new(&mut self.absent, &absent);
        }
        if let Some(known) = self.known.get_mut(&pid) {
            let has_begun = known.injected || known.forwarded;
            if self.is_simulated && !(name.starts_with('/') && has_begun) {
                push_new(&mut known.gave_up, &absent);
            }
        }
    }

    /// Forgets the functions that a process looked for in vain: it continued with others, like a program that fills a
    /// table of functions.
    pub(super) fn forget_missing_functions(&mut self, pid: u32) {
        if let Some(known) = self.known.get_mut(&pid) {
            known
                .gave_up
                .retain(|what| what.starts_with('/') || what.starts_with("cuGetExportTable"));
        }
    }

    /// Reports the names for whose absence a process may have given up, whether or not it calls `cuInit` later. Called
    /// when it writes a variable, or ends.
    pub(super) fn report_missing_names(&mut self, pid: u32) {
        let Some(known) = self.known.get_mut(&pid) else {
            return;
        };
        let names = std::mem::take(&mut known.gave_up).join(", ");
        if names.is_empty() {
            return;
        }
        let lacks =
            format!("process {pid} looked for {names}, which the simulated machine does not have");
        let meaning = if known.injected || known.forwarded {
            "; its behavior with a GPU is unknown"
        } else {
            ", before any cuInit; with a GPU it may initialize CUDA there"
        };
        self.add_unseen(format!("{lacks}{meaning}"));
    }

    /// Records that a libcudart function called `cuInit`.
    pub(super) fn note_runtime(&mut self, pid: u32) {
        if let Some(known) = self.known.get_mut(&pid) {
            known.has_simulated_runtime |= self.is_simulated;
        }
    }

    pub(super) fn reads_mask(&mut self, pid: u32, after_hook: bool) {
        if let Some(known) = self.known.get_mut(&pid) {
            known.read_before_hook |= !after_hook;
        }
    }

    /// Records a change of a context. Returns `false` if it is already known: if two threads retain a primary context
    /// at the same time, both may report it.
    pub(super) fn context(
        &mut self,
        pid: u32,
        change: ContextChange,
        primary: bool,
        device: Option<i32>,
        handle: u64,
    ) -> bool {
        let Some(known) = self.known.get_mut(&pid) else {
            return true;
        };
        let ordinal = device.unwrap_or(-1);
        match change {
            ContextChange::Made => {
                self.with_context.extend(known.gpus.get(&ordinal).cloned());
                if primary {
                    known.primary.insert(ordinal)
                } else {
                    known.others.insert(handle)
                }
            }
            ContextChange::Failed => true,
            _ if primary => known.primary.remove(&ordinal),
            _ => known.others.remove(&handle),
        }
    }

    pub(super) fn had_context_on(&self, uuid: &str) -> bool {
        self.with_context.contains(uuid)
    }

    /// Returns the counts of processes that have ended, each once.
    pub(super) fn take_ended_counts(&mut self) -> Vec<(u32, ProcessCounts)> {
        let mut gone: BTreeSet<u32> = self.known.keys().copied().collect();
        gone.retain(|pid| !is_alive(*pid));
        // Only at the second check: at the first one, the process's last message may not have arrived.
        let before = std::mem::replace(&mut self.ended, gone);
        let gone: Vec<u32> = self.ended.intersection(&before).copied().collect();
        let mut all = Vec::new();
        for pid in gone {
            for counts in self.end(pid) {
                all.push((pid, counts));
            }
        }
        all
    }

    /// Returns the counts of all other processes, at the end.
    pub(super) fn rest(&mut self) -> Vec<ProcessCounts> {
        let all: Vec<u32> = self.known.keys().copied().collect();
        all.into_iter().flat_map(|pid| self.end(pid)).collect()
    }

    /// Forgets a process. Returns the counts of each program that it ran.
    fn end(&mut self, pid: u32) -> Vec<ProcessCounts> {
        self.report_missing_names(pid);
        let Some(known) = self.known.remove(&pid) else {
            return Vec::new();
        };
        self.pages -= known.all_pages().min(self.pages);
        if known.injected && !known.forwarded && known.has_simulated_runtime {
            self.add_unseen(SIMULATED_RUNTIME.to_owned());
        } else if known.injected != known.forwarded {
            if self.half.len() < MOST_SENTENCES {
                self.half.insert(pid, known.injected);
            } else {
                self.unsaid += 1;
            }
        }
        if known.injected && known.read_before_hook {
            self.add_unseen(format!(
                "in process {pid}, libcuda read CUDA_VISIBLE_DEVICES before it called the hook; the mask shown for cuInit may be a later one"
            ));
        }
        let mut all = Vec::new();
        for program in known.earlier.iter().chain([&known]) {
            if !program.pages.is_empty() {
                all.push(program.counts(pid));
            }
        }
        all
    }

    /// Returns `true` if the simulated libcudart was used. Its contexts are not seen, so memory may rise without
    /// another program.
    pub(super) fn has_simulated_runtime(&self) -> bool {
        self.not_seen.iter().any(|why| why == SIMULATED_RUNTIME)
    }

    /// Returns sentences that describe what the trace could not observe. `heard_all` is `true` if no message was lost.
    pub(super) fn not_seen(&mut self, heard_all: bool) -> Vec<String> {
        let mut all = std::mem::take(&mut self.not_seen);
        let half = std::mem::take(&mut self.half);
        if heard_all {
            for (pid, is_hook) in half {
                all.push(explain_missing_message(pid, is_hook));
            }
        } else if !half.is_empty() {
            // A missing message proves nothing, because others are missing too.
            let pids: Vec<String> = half.keys().take(5).map(u32::to_string).collect();
            all.push(format!(
                "some messages of {} (PID {}) did not arrive; events may be missing",
                counted(half.len() as u64, "process"),
                pids.join(", ")
            ));
        }
        if self.unsaid > 0 {
            all.push(format!("{} more that could not be seen", self.unsaid));
        }
        all
    }
}

/// Adds a text that is not in the list yet, unless the list is full.
fn push_new(list: &mut Vec<String>, text: &str) {
    if list.len() < MOST_SENTENCES && !list.iter().any(|known| known == text) {
        list.push(text.to_owned());
    }
}

/// Returns the name that a process looked for, with the place.
fn at_place(name: &str, stack: &Stack) -> String {
    match (stack.place(), stack.entry_name()) {
        (Some(place), Some(entry)) => format!("{name} ({place}, {entry})"),
        (Some(at), None) | (None, Some(at)) => format!("{name} ({at})"),
        (None, None) => name.to_owned(),
    }
}

/// Returns the meaning of one missing message, if every other message of the process arrived.
fn explain_missing_message(pid: u32, is_hook: bool) -> String {
    if is_hook {
        return format!(
            "process {pid} called cuInit in a libcuda that it did not open by name; its contexts and calls are not seen"
        );
    }
    format!(
        "the driver did not call the injection hook in process {pid} (CUDA_INJECTION64_PATH was changed or ignored); a second libcuda in it would not be seen"
    )
}

fn word(sums: &[u64], index: usize) -> u64 {
    sums.get(index).copied().unwrap_or(0)
}

impl ProcessRecord {
    fn all_pages(&self) -> usize {
        self.pages.len()
            + self
                .earlier
                .iter()
                .map(|program| program.pages.len())
                .sum::<usize>()
    }

    /// Reads a program's counts, which remain readable after its end.
    fn counts(&self, pid: u32) -> ProcessCounts {
        let mut counts = ProcessCounts {
            t_ns: clock::now_ns(),
            pid,
            began_ns: Some(self.began_ns),
            ..Default::default()
        };
        for device in &self.primary {
            if let Some(gpu) = self.gpus.get(device) {
                counts.gpus.entry(gpu.clone()).or_default();
            }
        }
        for page in &self.pages {
            let sums = page.sum_lanes();
            for (index, name) in COUNTED.iter().enumerate() {
                let found = CallCount {
                    calls: word(&sums, index),
                    errors: word(&sums, COUNTED.len() + index),
                };
                if found.calls > 0 {
                    let all = counts.calls.entry((*name).to_owned()).or_default();
                    *all = CallCount {
                        calls: all.calls.saturating_add(found.calls),
                        errors: all.errors.saturating_add(found.errors),
                    };
                }
            }
            for device in 0..DEVICES {
                let at = 2 * COUNTED.len() + 3 * device;
                let found = Uses {
                    launches: word(&sums, at),
                    copies: word(&sums, at + 1),
                    allocations: word(&sums, at + 2),
                };
                if found.is_none() {
                    continue;
                }
                let Some(gpu) = self.gpus.get(&(device as i32)) else {
                    continue;
                };
                let all = counts.gpus.entry(gpu.clone()).or_default();
                all.launches = all.launches.saturating_add(found.launches);
                all.copies = all.copies.saturating_add(found.copies);
                all.allocations = all.allocations.saturating_add(found.allocations);
            }
        }
        counts
    }
}

/// Returns the entry of a process for the document. `python` is the version of its Python, or why it cannot be read.
fn describe_process(
    pid: u32,
    t_ns: u64,
    (python, no_python): (Option<String>, Option<String>),
) -> TraceProcess {
    let environment = read(format!("/proc/{pid}/environ"), MOST_ENVIRONMENT).unwrap_or_default();
    let mut above = peers::parents_of(pid);
    let parent = if above.is_empty() { 0 } else { above.remove(0) };
    TraceProcess {
        t_ns,
        pid,
        parent,
        above,
        program: program_of(pid),
        arguments: arguments_of(pid),
        python,
        no_python,
        rank: number_in(&environment, "RANK"),
        local_rank: number_in(&environment, "LOCAL_RANK"),
    }
}

/// Returns a value that distinguishes successive programs in a process: the file, and the address of the stack. The
/// command line is not suitable, because programs overwrite it to show their state.
fn image_of(pid: u32) -> Option<Image> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    // `startstack` is field 28.
    Some((
        program,
        supervisor::process_stat(pid)
            .and_then(|fields| fields.into_iter().nth(25))
            .unwrap_or_default(),
    ))
}

pub(super) fn arguments_of(pid: u32) -> Vec<String> {
    let line = read(format!("/proc/{pid}/cmdline"), MOST_ARGUMENTS).unwrap_or_default();
    let mut words = Vec::new();
    for word in line.split(|byte| *byte == 0) {
        if !word.is_empty() {
            words.push(String::from_utf8_lossy(word).into_owned());
        }
    }
    words
}

pub(super) fn program_of(pid: u32) -> String {
    fs::read_link(format!("/proc/{pid}/exe"))
        .map(|path| path.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns the ID of a thread in our PID namespace, from its ID in the program's own.
pub(super) fn thread_here(pid: u32, tid: u32) -> u32 {
    if Path::new(&format!("/proc/{pid}/task/{tid}")).exists() {
        return tid;
    }
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return tid;
    };
    for task in tasks.flatten() {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let inner = status
            .lines()
            .find_map(|line| line.strip_prefix("NSpid:")?.split_whitespace().last());
        if inner.is_some_and(|inner| inner.parse() == Ok(tid))
            && let Ok(outer) = task.file_name().to_string_lossy().parse()
        {
            return outer;
        }
    }
    tid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_a_number_of_the_variable_of_just_this_name() {
        let environment = b"LOCAL_RANK=1\0PATH=/bin\0RANK=13\0MY_RANK=7";
        assert_eq!(
            (
                number_in(environment, "RANK"),
                number_in(environment, "LOCAL_RANK")
            ),
            (Some(13), Some(1))
        );
        for other in [
            &b"RANK=\x1b[2J"[..],
            b"RANK=",
            b"RANKS=3",
            b"",
            b"RANK=99999999999",
        ] {
            assert_eq!(number_in(other, "RANK"), None);
        }
    }
}
