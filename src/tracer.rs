//! Tracing an unmodified program: starts it with two small libraries in its way, answers each of their
//! messages after a look at memory and stack, and writes the document.
//!
//! The program keeps its descriptors, its terminal and its process group. It is never waited for
//! longer than a parked thread waits by itself (shim/src/post.rs).

mod caller;
mod gate;
mod guarded;
mod machine;
mod message;
mod peers;
mod place;
mod processes;
mod program;
mod stacks;
mod watch;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::clock;
use crate::report::SchemaId;
use crate::run::On;
use crate::sample::{Gpu, Reading, STEP_BYTES};
use crate::supervisor::{self, SamplerClient, timespec};
use crate::trace::{self, End, Event, Line, Memory, Stack, Start, What, Witness};
use crate::verdict::Provenance;
use caller::Caller;
use gate::{Gate, IsLast};
use machine::Machine;
use message::{Message, Other, Received, Said};
use place::Place;
use processes::Processes;
use program::Program;
use stacks::Stacks;
use watch::Watch;
use writer::Writer;

pub use program::Ended;

/// The longest wait before the tracer looks around.
const TICK_NS: u64 = 200_000_000;
/// The same while a process runs that is not in the trace: it is caught with a libcuda, not by what it says.
const SHORT_TICK_NS: u64 = 20_000_000;
/// How often memory that was polled is written down, and processes are looked over.
const ROUND_NS: u64 = 1_000_000_000;
/// How long the sampler rests between looks: a program runs for hours, and NVML contends with it.
const REST_US: u64 = 20_000;
/// Memory that rose by this much on a GPU without a context of a process that is seen is reported.
const UNEXPLAINED_BYTES: u64 = 64 << 20;

/// How long an answer of the sampler is waited for while a thread is parked, in milliseconds.
const READING_MS: u64 = 1_500;
/// Messages that are still there when the program has ended are taken for so long.
const LAST_NS: u64 = 3_000_000_000;
/// Calls of which the first half has come and the second has not; more are forgotten.
const MOST_PENDING: usize = 10_000;
/// So many connections of strangers keep processes of the program from being heard.
const MOST_STRANGERS: u64 = 1_000;
/// Descriptors that are not for the counts of processes.
const OWN_FILES: u64 = 128 + gate::FILES;

/// Why a stack is missing where many processes are forks of one.
const CROWD: &str = "the process is one of many forks, whose stacks are not read while they write variables";

/// Why a stack is missing where there was more to look at than time.
const LATE: &str = "the thread was not looked at within two seconds, and went on";

/// What to trace, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// On which driver.
    pub on: On,
    /// The folder that gets the document.
    pub folder: PathBuf,
    /// Whether writes of variables are watched, by `LD_PRELOAD`.
    pub preload: bool,
    /// Whether paths and arguments are left out of the document.
    pub redact: bool,
    /// Whether questions are counted, too, that frameworks ask before each small operation.
    pub all_calls: bool,
    /// Whether the program runs apart from its caller; as its caller would start it if none.
    pub apart: Option<Apart>,
}

/// A program apart from its caller: without input and output, and ended with all that it started.
#[derive(Clone, Copy, Debug)]
pub struct Apart {
    /// How long it may run; then it is killed.
    pub limit: Duration,
}

/// A trace that came to its end.
#[derive(Debug)]
pub struct Traced {
    /// How the program ended.
    pub ended: Ended,
    /// Where the document is.
    pub document: PathBuf,
    /// Why the document is not whole on disk, if it is not.
    pub lost: Option<String>,
}

/// Why a trace could not begin. The program was not started.
#[derive(Debug, thiserror::Error)]
pub enum TracerError {
    /// The command line does not fit this machine.
    #[error("{0}")]
    Usage(String),
    /// The program cannot be started.
    #[error("cannot start `{name}`: {source}", name = crate::text::escape::terminal(.name))]
    Program {
        /// Its name.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The document cannot be written.
    #[error("cannot write the trace: {0}")]
    Document(String),
    /// Anything else.
    #[error("the trace could not begin: {0}")]
    Internal(String),
}

/// Traces a command to its end. `program` is this program's own file.
///
/// # Errors
/// Why the command was not started.
pub fn trace(program: &Path, options: &Options) -> Result<Traced, TracerError> {
    let internal = |error: &dyn std::fmt::Display| TracerError::Internal(error.to_string());
    let caller = Caller::take_over().map_err(|error| internal(&error))?;
    let mut place = Place::create().map_err(TracerError::Internal)?;
    let home = place.path().join("home");
    std::fs::create_dir(&home).map_err(|error| internal(&error))?;
    let mut machine = Machine::find(program, options, place.path(), &home)?;
    if let Some(libcuda) = &machine.libcuda {
        place.forward(libcuda, options.all_calls).map_err(TracerError::Internal)?;
    }
    let gate = place.listen().and_then(Gate::open).map_err(|error| internal(&error))?;
    let stacks = Stacks::new(place.libraries()).map_err(|error| internal(&error))?;
    let writer = Writer::create(&options.folder, options.redact).map_err(TracerError::Document)?;
    let simulated = Some(machine.links.as_path()).filter(|_| machine.on != "cuda");
    let environment = place.environment(simulated, options.preload);
    let started_ns = clock::now_ns();
    // Before the program: what it leaves behind comes to us, and is known by that.
    supervisor::adopt_orphans().map_err(|error| internal(&error))?;
    let before = supervisor::children();
    let program_itself = match Program::start(&options.command, &environment, caller, options.apart.is_some()) {
        Ok(started) => started,
        Err(error) => {
            writer.discard();
            return Err(error);
        }
    };
    caller::allow_files();
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    // It starts while the driver is asked about the GPUs: its first call waits until that is done.
    let sampler = machine.sampler.take().unwrap_or_else(|| SamplerClient::start(program, &machine.links, &home));
    let mut tracer = Tracer {
        stacks,
        place,
        gate,
        is_behind: false,
        sampler,
        writer,
        processes: Processes::new(files.saturating_sub(OWN_FILES).max(files / 4) as usize),
        watch: Watch::default(),
        started_ns,
        pending: BTreeMap::new(),
        gpus: Vec::new(),
        baseline: Vec::new(),
        written: BTreeMap::new(),
        round_ns: clock::now_ns(),
        deadline_ns: options.apart.map(|apart| started_ns.saturating_add(apart.limit.as_nanos() as u64)),
        overdue: false,
        before,
    };
    tracer.begin(&machine, options, started_ns);
    let ended = tracer.serve(program_itself);
    let lost = tracer.writer.finish();
    // The sampler ends before its folder does.
    let Tracer { sampler, place, .. } = tracer;
    drop(sampler);
    drop(place);
    Ok(Traced { ended, document: options.folder.join(trace::FILE), lost })
}

/// Something that is known of a call before it is made.
struct Pending {
    t_ns: u64,
    used: Vec<Option<u64>>,
    own: Vec<u64>,
    stack: Stack,
}

/// A trace under way.
struct Tracer {
    place: Place,
    gate: Gate,
    /// Whether messages have come that were not taken yet.
    is_behind: bool,
    sampler: SamplerClient,
    stacks: Stacks,
    writer: Writer,
    processes: Processes,
    /// Calls that are being made, by process and number.
    pending: BTreeMap<(u32, u64), Pending>,
    gpus: Vec<Gpu>,
    /// The memory of each GPU before the program was started.
    baseline: Vec<Option<u64>>,
    /// The memory of each GPU as it was written last.
    written: BTreeMap<usize, u64>,
    watch: Watch,
    started_ns: u64,
    round_ns: u64,
    /// When a program that runs apart is killed.
    deadline_ns: Option<u64>,
    overdue: bool,
    /// Our children before the program was started.
    before: BTreeSet<i32>,
}

impl Tracer {
    /// Writes the first line.
    fn begin(&mut self, machine: &Machine, options: &Options, started_ns: u64) {
        let mut limits = Vec::new();
        let mut driver_version = None;
        // What was loaded decides, not what was asked for: a simulated figure is never a measured one.
        let mut is_simulated = machine.is_simulated;
        match &self.sampler.inventory {
            Ok(inventory) => {
                is_simulated |= inventory.simulated;
                self.gpus = inventory.gpus.clone();
                driver_version = inventory.driver_version.clone();
            }
            Err((_, detail)) => limits.push(format!("memory cannot be read: NVML says {detail}")),
        }
        if machine.libcuda.is_none() {
            limits
                .push("no libcuda was found: calls of a libcuda that the program finds elsewhere are not seen".into());
        }
        if !options.preload {
            limits.push("writes of environment variables are not watched (--no-preload)".into());
        }
        if Path::new("/dev/shm/cuda_injection_path_shm").exists() {
            limits
                .push("/dev/shm/cuda_injection_path_shm exists, and may keep the driver from calling our hook".into());
        }
        let users = self.sampler.sweep().map(|sweep| sweep.gpus).unwrap_or_default();
        for (index, gpu) in
            users.iter().enumerate().filter(|(_, gpu)| gpu.processes.as_ref().is_some_and(|it| !it.is_empty()))
        {
            let others = match gpu.processes.as_ref().map_or(0, Vec::len) {
                1 => "another process has a context there".to_string(),
                others => format!("{others} other processes have a context there"),
            };
            limits.push(format!(
                "GPU {index} is shared: {others}, what is taken or returned there meanwhile is in the figures"
            ));
        }
        self.baseline = self.read_memory(0).0;
        self.watch = Watch::begin(&self.baseline, clock::now_ns());
        self.sampler.rest_us = REST_US;
        let _ = self.sampler.free_run();
        let text = |text: &OsString| text.to_string_lossy().into_owned();
        let variables = std::env::vars_os().filter(|(name, _)| trace::variable::is_of_cuda(name.as_bytes()));
        self.writer.write(Line::Start(Box::new(Start {
            schema: SchemaId { name: trace::SCHEMA.to_string(), major: trace::MAJOR, minor: trace::MINOR },
            provenance: Provenance::of(is_simulated),
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: option_env!("CUDA_PITFALLS_COMMIT").map(str::to_string),
            command: options.command.iter().map(text).collect(),
            folder: std::env::current_dir().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
            started_at: clock::utc(),
            t_ns: started_ns,
            on: machine.on.clone(),
            driver_version,
            gpus: self.gpus.clone(),
            used_bytes: self.baseline.clone(),
            environment: variables.map(|(name, value)| (text(&name), text(&value))).collect(),
            libcuda: machine.libcuda.as_ref().map(|path| path.to_string_lossy().into_owned()),
            preload: options.preload,
            all_calls: options.all_calls,
            limits,
        })));
    }

    /// Answers messages until the program has ended, which comes before all that is told.
    fn serve(&mut self, mut program: Program) -> Ended {
        loop {
            self.wait(&program);
            if let Some(ended) = program.ended() {
                if self.deadline_ns.is_some() {
                    let ours: Vec<i32> = self.sampler.pid().into_iter().collect();
                    supervisor::reap_orphans(&self.before, &ours);
                }
                self.finish(&ended, program.pid());
                return ended;
            }
            self.answer(&program);
            self.writer.flush();
            self.processes.watch_lost(&self.place.libraries());
            if clock::now_ns() - self.round_ns > ROUND_NS {
                self.round(program.pid());
            }
            if self.deadline_ns.is_some_and(|deadline| clock::now_ns() > deadline) && !self.overdue {
                self.overdue = true;
                program.kill();
            }
        }
    }

    /// Waits until something has come, or it is time to look around.
    fn wait(&self, program: &Program) {
        let tick = match (self.is_behind, self.processes.has_lost()) {
            (true, _) => 0,
            (false, true) => SHORT_TICK_NS,
            (false, false) => TICK_NS,
        };
        let fds = [program.as_fd(), self.gate.as_fd()];
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let _ = poll(&mut fds, Some(&timespec(tick)));
    }

    /// Takes the messages that have come, until the program has ended or it is time to look around.
    fn answer(&mut self, program: &Program) {
        let until_ns = clock::now_ns() + TICK_NS;
        self.gate.heard();
        while let Some(received) = self.gate.next() {
            self.take(*received);
            if has_ended(program) || clock::now_ns() > until_ns {
                self.is_behind = true;
                return;
            }
        }
        self.is_behind = false;
    }

    /// Reads every GPU, as far as it can be read: what is in use there, and what NVML accounts to a process, which
    /// is 0 where it is not listed.
    fn read_memory(&mut self, pid: u32) -> (Vec<Option<u64>>, Vec<u64>) {
        let swept = self.sampler.sweep_within(READING_MS).ok().flatten();
        let Some(gpus) = swept.map(|sweep| sweep.gpus).filter(|gpus| !gpus.is_empty()) else {
            return (vec![None; self.gpus.len()], Vec::new());
        };
        let own = |gpu: &Reading| {
            let listed = gpu.processes.iter().flatten().filter(|process| process.pid == pid);
            listed.filter_map(|process| process.used_bytes).sum()
        };
        let used: Vec<Option<u64>> = gpus.iter().map(|gpu| gpu.used_bytes).collect();
        self.watch.read(&used, clock::now_ns());
        (used, gpus.iter().map(own).collect())
    }

    /// As [`Tracer::read_memory`], for a thread that waits: what is read when it has moved on says nothing of its call.
    fn read_for(&mut self, pid: u32, waiting: &UnixStream) -> (Vec<Option<u64>>, Vec<u64>) {
        let read = self.read_memory(pid);
        if message::is_parked(waiting) { read } else { (vec![None; self.gpus.len()], Vec::new()) }
    }

    /// One message: what is noted, and what is written.
    fn take(&mut self, received: Received) {
        let Received { message, pid, counts, waiting } = received;
        if let Said::Other(Other::Lost { program }) = message.said {
            return self.processes.lost(pid, program);
        }
        let was_parked = message.parked && message::is_parked(&waiting);
        if let Some(process) = self.processes.meet(pid, message.t_ns, &mut self.stacks) {
            self.writer.write(Line::Process(process));
        }
        let Message { call, number, t_ns, tid, pthread, frames, device, uuid, status, elapsed_ns, said, .. } = message;
        // Nothing was done before the program was started, or is done later than now.
        let t_ns = t_ns.min(clock::now_ns()).max(self.started_ns);
        let is_small = matches!(said, Said::Event(What::Variable { .. } | What::Forked { .. }));
        let tid = processes::thread_here(pid, tid);
        let gpu = uuid.as_deref().and_then(uuid_text);
        self.processes.name_gpu(pid, device, gpu.as_deref());
        let stack = match frames.is_empty() {
            true => Stack::default(),
            false if is_small && self.processes.is_in_a_crowd(pid) => Stack::unread(CROWD),
            false if was_parked => self.stacks.read(pid, tid, pthread, &frames),
            false => Stack::unread(LATE),
        };
        // A thread that gave up waiting meanwhile was read while it moved.
        let stack = if stack.frames.is_empty() || message::is_parked(&waiting) { stack } else { Stack::unread(LATE) };
        let what = match said {
            Said::Event(what) => what,
            Said::Other(Other::Before) => {
                let (used, own) = self.read_for(pid, &waiting);
                return self.keep((pid, number), Pending { t_ns, used, own, stack });
            }
            Said::Other(Other::Hello { devices, lanes, names }) => {
                return match counts {
                    Some(file) => self.processes.count(pid, file, names, devices, lanes),
                    None => self.processes.unseen(format!("the counts of process {pid} could not be taken")),
                };
            }
            Said::Other(Other::Silent) => {
                let why =
                    format!("process {pid} writes variables again and again: what it writes from now on is not seen");
                return self.processes.unseen(why);
            }
            Said::Other(Other::Lost { .. }) => return,
        };
        let Some(what) = self.noted(pid, what, device) else { return };
        let event = Event {
            t_ns,
            pid,
            tid,
            what,
            call,
            status,
            elapsed_ns,
            device,
            gpu,
            memory_bytes: Vec::new(),
            used_bytes: Vec::new(),
            own_bytes: None,
            stack,
        };
        let event = self.with_memory(event, number, &waiting);
        self.writer.write(Line::Event(Box::new(event)));
    }

    /// Keeps what is known of a call before it is made.
    fn keep(&mut self, call: (u32, u64), pending: Pending) {
        if self.pending.len() >= MOST_PENDING {
            self.pending.pop_first();
        }
        self.pending.insert(call, pending);
    }

    /// An event with what is known from before its call: the change of memory, when the call was made,
    /// and its stack.
    fn with_memory(&mut self, mut event: Event, number: u64, waiting: &UnixStream) -> Event {
        let key = (event.pid, number);
        if matches!(event.what, What::Init { witness: Witness::Forwarding, .. }) {
            let (used, own) = self.read_for(event.pid, waiting);
            self.keep(key, Pending { t_ns: event.t_ns, used, own, stack: event.stack.clone() });
            return event;
        }
        // That cuInit is done has a time of its own.
        let is_done = matches!(event.what, What::InitDone { .. });
        // The two libraries in a process number their messages each by itself: no others have a first half.
        if !is_done && !matches!(event.what, What::Context { .. } | What::Module) {
            return event;
        }
        let Some(before) = self.pending.remove(&key) else { return event };
        let (now, own) = self.read_for(event.pid, waiting);
        let change = |(before, now): (&Option<u64>, &Option<u64>)| Some((*now)? as i64 - (*before)? as i64);
        event.memory_bytes = before.used.iter().zip(&now).map(change).collect();
        event.used_bytes = now;
        let index = self.gpus.iter().position(|gpu| Some(&gpu.uuid) == event.gpu.as_ref());
        event.own_bytes = index.and_then(|index| {
            let (before, now) = (*before.own.get(index)?, *own.get(index)?);
            (before > 0 || now > 0).then_some(now as i64 - before as i64)
        });
        if event.stack.frames.is_empty() {
            event.stack = before.stack;
            event.t_ns = if is_done { event.t_ns } else { before.t_ns };
        }
        event
    }

    /// Notes what an event means for its process. None if it is known already.
    fn noted(&mut self, pid: u32, mut what: What, device: Option<i32>) -> Option<What> {
        match &mut what {
            What::Init { witness, .. } => self.processes.initialises(pid, *witness),
            What::InitDone { gpus, .. } => {
                for (device, gpu) in (0..).zip(gpus) {
                    *gpu = uuid_text(gpu).unwrap_or_default();
                    self.processes.name_gpu(pid, Some(device), Some(gpu));
                }
            }
            What::MaskRead { after_hook, .. } => self.processes.reads_mask(pid, *after_hook),
            What::Context { change, primary, handle } => {
                return self.processes.context(pid, *change, *primary, device, *handle).then_some(what);
            }
            _ => {}
        }
        Some(what)
    }

    /// What is done once a second: memory that was polled, counts of processes that have ended.
    fn round(&mut self, program: u32) {
        self.round_ns = clock::now_ns();
        if let Ok(Some(run)) = self.sampler.stop_free_run_within(READING_MS) {
            self.watch.ran(&run);
            for change in run.changes {
                let (t_ns, index, used_bytes) = (change.t_ns, change.gpu, change.used_bytes);
                // Every run of the sampler begins with a reading, changed or not.
                let is_same = self.written.get(&index).is_some_and(|last| last.abs_diff(used_bytes) < STEP_BYTES);
                if !is_same {
                    self.written.insert(index, used_bytes);
                    self.writer.write(Line::Memory(Memory { t_ns, index, used_bytes }));
                }
            }
            let _ = self.sampler.free_run();
        }
        self.reap(program);
        for (pid, counts) in self.processes.gone() {
            self.stacks.forget(pid);
            self.pending.retain(|(of, _), _| *of != pid);
            self.writer.write(Line::Counts(counts));
        }
        self.processes.look_for_unseen(program, &self.place.libraries());
    }

    /// Waits for processes that came to us when their parents ended, and have ended too.
    fn reap(&self, program: u32) {
        let known = |pid: &i32| {
            self.before.contains(pid) || u32::try_from(*pid) == Ok(program) || Some(*pid) == self.sampler.pid()
        };
        for pid in supervisor::children().into_iter().filter(|pid| !known(pid)).filter_map(Pid::from_raw) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    /// Takes what was told before the program ended, and says what was not heard.
    fn hear_the_last(&mut self) {
        let deadline_ns = clock::now_ns() + LAST_NS;
        self.gate.close();
        let IsLast(is_last) = loop {
            match self.gate.rest(deadline_ns) {
                Ok(received) => self.take(*received),
                Err(last) => break last,
            }
        };
        if !is_last {
            self.processes.unseen("more was told than could be looked at when the program had ended".into());
        }
        let (gone, strangers) = (self.gate.gone(), self.gate.strangers());
        let unheard = [
            (gone, "came from processes that had ended before they could be recognised"),
            (if strangers > MOST_STRANGERS { strangers } else { 0 }, "of other programs kept the tracer busy"),
        ];
        for (count, what) in unheard.into_iter().filter(|(count, _)| *count > 0) {
            let messages = crate::text::counts::counted(count, "message");
            self.processes.unseen(format!("{messages} {what}: something may have been missed"));
        }
        match self.place.silent() {
            Some(0) => {}
            Some(count) => {
                let processes = crate::text::counts::counted(count, "process");
                self.processes.unseen(format!(
                    "{processes} stopped telling what happens, because the tracer did not answer or could not be reached, \
                     or a seccomp filter may forbid it"
                ));
            }
            None => self.processes.unseen("whether every process told what happened is not known".into()),
        }
    }

    /// The last lines.
    fn finish(&mut self, ended: &Ended, program: u32) {
        let t_ns = clock::now_ns();
        self.hear_the_last();
        self.round(program);
        self.read_memory(0);
        for counts in self.processes.rest() {
            self.writer.write(Line::Counts(counts));
        }
        let mut not_seen = self.processes.not_seen();
        let risen = self.writer.peaks.iter().filter_map(|(index, peak)| {
            let before = self.baseline.get(*index).copied().flatten()?;
            let gpu = self.gpus.get(*index)?;
            let by = peak.saturating_sub(before);
            (by > UNEXPLAINED_BYTES && !self.processes.had_context_on(&gpu.uuid)).then(|| {
                let by = crate::text::units::bytes(by);
                format!(
                    "memory of GPU {index} rose by {by} while no process that is seen had a context there: another \
                     program's, or a process of this one that is not seen"
                )
            })
        });
        not_seen.extend(risen);
        let (code, signal) = (ended.code, ended.signal.map(supervisor::signal_name));
        let (left_out, memory_gap_ns) = (self.writer.left_out, self.watch.gaps(t_ns));
        self.writer.write(Line::End(End { t_ns, code, signal, not_seen, left_out, memory_gap_ns }));
    }
}

/// Whether the program has ended.
fn has_ended(program: &Program) -> bool {
    let mut fds = [PollFd::new(program, PollFlags::IN)];
    poll(&mut fds, Some(&timespec(0))).is_ok_and(|ready| ready > 0)
}

/// A GPU's UUID in its usual form, from hex.
fn uuid_text(hex: &str) -> Option<String> {
    let part = |from, to| hex.get(from..to);
    (hex.len() == 32 && hex.is_ascii()).then_some(())?;
    Some(format!("GPU-{}-{}-{}-{}-{}", part(0, 8)?, part(8, 12)?, part(12, 16)?, part(16, 20)?, part(20, 32)?))
}
