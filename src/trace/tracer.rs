//! Traces an unmodified program: starts it with two small libraries preloaded, answers their messages after reading
//! memory and stack, and writes the document.
//!
//! The program keeps its descriptors, its terminal and its process group. None of its threads waits for an answer
//! longer than a fixed limit (src/fake/shim/post.rs).

mod answer;
mod caller;
mod descendants;
mod driver_watch;
mod first_line;
mod gate;
mod guarded;
mod last_lines;
mod ledger;
mod machine;
mod message;
mod passing;
mod peers;
mod pending;
mod place;
mod processes;
mod program;
mod signals;
mod stacks;
mod stderr;
mod watch;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::{Memory, TraceLine};
use caller::Caller;
use cuda_pitfalls_calls::status::SIM_NOT_MODELLED;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::sample::{Gpu, Reading, STEP_BYTES};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::redact::Redactor;
use cuda_pitfalls_instrument::forwarding::ForwardingOptions;
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_instrument::output;
use cuda_pitfalls_instrument::simulated;
use cuda_pitfalls_instrument::supervisor::{self, SamplerClient, to_timespec};
use descendants::Descendants;
use gate::Gate;
use ledger::Ledgers;
use machine::TraceTarget;
use pending::Pending;
use place::TraceFolder;
use processes::Processes;
use program::TracedProgram;
use signals::Bystander;
use stacks::Stacks;
use stderr::Stderr;
use watch::MemoryWatch;
use writer::Writer;

pub use passing::pass_through;
pub use program::Ended;
pub use stacks::read_python_stack;

/// Returns `true` if a text is a message that the tracer accepts.
#[doc(hidden)]
pub fn is_message(bytes: &[u8]) -> bool {
    message::ShimMessage::parse(bytes).is_some()
}

/// The longest wait between two checks.
const TICK_NS: u64 = 200_000_000;
/// The interval between writes of polled memory.
const ROUND_NS: u64 = 1_000_000_000;
/// The sampler's pause between readings, because a program may run for hours, and NVML slows it down.
const REST_US: u64 = 20_000;

/// The longest wait for the sampler while a thread is parked, in milliseconds.
const READING_MS: u64 = 1_500;
/// The wait for processes that outlive the program, before the tracer reports that it waits.
const SILENT_WAIT_NS: u64 = 1_000_000_000;
/// Descriptors that are not used for the counts of processes.
const OWN_FILES: u64 = 128 + gate::FILES;

/// The NVML that a traced program finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NvmlFound {
    /// The machine's own NVML.
    #[default]
    Machine,
    /// No NVML, on the simulated machine.
    Nothing,
    /// The simulated machine's NVML, with a real libcuda.
    Simulated,
}

/// Returns the value of [`TraceOptions::returns`] with which every function that the simulated machine lacks is
/// exported and returns a status that reports this.
pub fn not_modelled() -> String {
    format!("*={SIM_NOT_MODELLED}")
}

/// The options of a trace.
#[derive(Clone, Debug, Default)]
pub struct TraceOptions {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// The commit that the program was built from, if it is known.
    pub commit: Option<String>,
    /// The machine: the real driver or the simulated one.
    pub on: On,
    /// The folder for the document.
    pub folder: PathBuf,
    /// `true` to watch writes of variables, with `LD_PRELOAD`.
    pub preload: bool,
    /// The redactor of paths, arguments and names; `None` to write them as they are.
    pub redact: Option<Redactor>,
    /// `true` to count also the queries that frameworks make before each small operation.
    pub all_calls: bool,
    /// `true` to record the owners of each GPU's memory.
    pub ledger: bool,
    /// Calls that the forwarding libcuda answers itself, as `cuInit=999`; empty to forward every call.
    pub returns: String,
    /// The NVML that the program finds.
    pub nvml: NvmlFound,
    /// The limits of a program that runs apart from its caller; `None` if it does not.
    pub apart: Option<Apart>,
    /// The longest wait for processes that outlive the program. They are killed if it runs apart.
    pub wait_children: Duration,
    /// `true` to end the program and its processes at the first `cuInit`, after its return was reported.
    pub stop_at_first: bool,
}

/// A program that runs apart from its caller has no input or output, and ends together with all of its children.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The longest run time; then the program is killed.
    pub limit: Duration,
    /// The file that receives its stderr, if any.
    pub stderr: Option<PathBuf>,
}

/// A completed trace.
#[derive(Debug)]
pub struct Traced {
    /// The result of the program; success if the tracer stopped it at its first `cuInit`.
    pub ended: Ended,
    /// The path of the document.
    pub document: PathBuf,
    /// The reason why the document on disk is incomplete, if it is.
    pub lost: Option<String>,
    /// The functions that the simulated machine does not model and that were called.
    pub unmodelled: BTreeSet<String>,
    /// The NVML functions that the simulated machine lacks and the program looked up, each with the call site.
    pub absent: Vec<String>,
}

/// An error that prevents a trace from starting. The program was not started then.
#[derive(Debug, thiserror::Error)]
pub enum TracerError {
    /// The command line does not fit this machine.
    #[error("{0}")]
    Usage(String),
    /// The program could not be started.
    #[error("cannot start `{name}`: {source}", name = cuda_pitfalls_core::text::escape::terminal(.name))]
    Program {
        /// The program's name.
        name: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The document cannot be written.
    #[error("cannot write the trace: {0}")]
    Document(String),
    /// Any other failure.
    #[error("the trace could not begin: {0}")]
    Internal(String),
}

impl TracerError {
    fn internal(error: impl std::fmt::Display) -> TracerError {
        TracerError::Internal(error.to_string())
    }
}

/// Traces a command to its end. `program` is the path of this binary.
///
/// # Errors
/// Returns an error if the command could not be started.
pub fn trace(program: &Path, options: &TraceOptions) -> Result<Traced, TracerError> {
    supervisor::can_watch().map_err(TracerError::internal)?;
    let caller = Caller::take_over().map_err(TracerError::internal)?;
    let bystander = Bystander::start(&options.command).map_err(TracerError::internal)?;
    let stderr = if options.apart.is_some() {
        Stderr::Untouched
    } else {
        Stderr::find(last_lines::MOST_BYTES)
    };
    let place = TraceFolder::create().map_err(TracerError::internal)?;
    let mut tracer = Tracer::new(program, options, place, stderr)?;
    let simulated = tracer.machine.beside.as_deref();
    let environment = tracer.place.environment(simulated, options.preload);
    let (apart, passed) = (options.apart.as_ref(), tracer.stderr.passed_stderr());
    let started = TracedProgram::start(
        &options.command,
        &environment,
        caller,
        bystander,
        apart,
        passed,
    );
    let started = match started {
        Ok(started) => started,
        Err(error) => {
            tracer.writer.discard_file();
            return Err(error);
        }
    };
    caller::allow_files();
    tracer.program = started.pid();
    tracer.write_first_line(options);
    let mut ended = tracer.serve_messages(started);
    if tracer.stopped.is_some() {
        (ended.code, ended.signal) = (Some(0), None);
    }
    Ok(Traced {
        ended,
        document: options.folder.join(crate::FILE),
        lost: tracer.writer.sync_file(),
        unmodelled: tracer.unmodeled_functions(),
        absent: tracer.processes.absent,
    })
}

/// Finds the machine, and builds the libcuda that precedes the machine's own.
fn prepare_machine(
    program: &Path,
    options: &TraceOptions,
    place: &mut TraceFolder,
    home: &Path,
) -> Result<TraceTarget, TracerError> {
    let machine = TraceTarget::find(program, options, place.path(), home)?;
    if let Some(libcuda) = &machine.libcuda {
        let forwarding = ForwardingOptions {
            all_calls: options.all_calls,
            memory: options.ledger,
        };
        place
            .make_forwarding(libcuda, forwarding, &machine.returns)
            .map_err(TracerError::internal)?;
    }
    Ok(machine)
}

/// Returns the number of processes that may have a descriptor for their counts, once [`caller::allow_files`] has raised
/// the limit.
fn most_pages(ledger: bool) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let files = limit.maximum.unwrap_or(u64::MAX);
    let most_files = files.saturating_sub(OWN_FILES).max(files / 4) as usize;
    // With a ledger, a process has another descriptor for the owners of its memory.
    if ledger { most_files / 2 } else { most_files }
}

struct Tracer {
    /// Must be declared before `place`, because the sampler has to end before its folder is removed.
    sampler: SamplerClient,
    place: TraceFolder,
    machine: TraceTarget,
    gate: Gate,
    /// `true` if there are unread messages.
    is_behind: bool,
    stacks: Stacks,
    writer: Writer,
    processes: Processes,
    descendants: Descendants,
    wait_children: Duration,
    ledgers: Ledgers,
    /// Calls that have begun but not ended, by process and number.
    pending: BTreeMap<(u32, u64), Pending>,
    gpus: Vec<Gpu>,
    /// The memory in use on each GPU before the program was started, in bytes.
    baseline: Vec<Option<u64>>,
    /// The memory in use on each GPU when it was last written, in bytes.
    written: BTreeMap<usize, u64>,
    watch: MemoryWatch,
    started_ns: u64,
    round_ns: u64,
    stderr: Stderr,
    apart: Option<Apart>,
    /// `true` if a program that runs apart was killed because it took too long.
    is_overdue: bool,
    stop_at_first: bool,
    /// The thread whose `cuInit` stops the program. It waits for an answer until it is killed.
    stopped: Option<UnixStream>,
    /// Our children before the program was started.
    before: BTreeSet<i32>,
    /// The PID of the program itself.
    program: u32,
}

impl Tracer {
    /// Returns a tracer that is ready for messages. The program is not started yet.
    fn new(
        program: &Path,
        options: &TraceOptions,
        mut place: TraceFolder,
        stderr: Stderr,
    ) -> Result<Tracer, TracerError> {
        let home = place.path().join("home");
        std::fs::create_dir(&home).map_err(TracerError::internal)?;
        let mut machine = prepare_machine(program, options, &mut place, &home)?;
        let gate = place
            .clone_listener()
            .and_then(Gate::open)
            .map_err(TracerError::internal)?;
        let stacks =
            Stacks::new(place.libraries(), &options.command).map_err(TracerError::internal)?;
        // NVML opens libcuda for its version. A process that opens it after that may use CUDA.
        let sampler = machine
            .sampler
            .take()
            .unwrap_or_else(|| SamplerClient::start(program, &machine.links, &home));
        let started_ns = clock::now_ns();
        let writer = Writer::create_file(&options.folder, options.redact.clone())?;
        // Before the program starts: its orphans then become our children, which identifies them.
        supervisor::adopt_orphans().map_err(TracerError::internal)?;
        let most_pages = most_pages(options.ledger);
        Ok(Tracer {
            before: supervisor::children_of("self"),
            descendants: Descendants::new(&place, machine.libcuda.as_deref(), options.preload),
            stacks,
            place,
            gate,
            is_behind: false,
            sampler,
            writer,
            processes: Processes::new(most_pages, machine.is_simulated),
            machine,
            wait_children: options.wait_children,
            ledgers: Ledgers::new(options.ledger, most_pages),
            watch: MemoryWatch::default(),
            started_ns,
            pending: BTreeMap::new(),
            gpus: Vec::new(),
            baseline: Vec::new(),
            written: BTreeMap::new(),
            round_ns: started_ns,
            stderr,
            apart: options.apart.clone(),
            is_overdue: false,
            stop_at_first: options.stop_at_first,
            stopped: None,
            program: 0,
        })
    }

    /// Answers messages until the program and the processes that outlive it have ended, or the tracer no longer waits
    /// for them.
    fn serve_messages(&mut self, mut program: TracedProgram) -> Ended {
        let mut outlived: Option<Outlived> = None;
        loop {
            self.wait_for_event(outlived.is_none().then_some(&program));
            if self.descendants.is_due() {
                self.descendants
                    .scan_processes(&self.root_pids(), self.place.libcuda_loads());
            }
            if outlived.is_none()
                && let Some(ended) = program.ended()
            {
                outlived = Some(Outlived::new(ended, self.wait_children));
            }
            if outlived.is_some() && (self.apart.is_some() || self.stopped.is_some()) {
                let ours: Vec<i32> = self.sampler.pid().into_iter().collect();
                supervisor::reap_orphans(&self.before, &ours);
            }
            if let Some(outlived) = &mut outlived {
                // A signal that ended the program asks its children to end, too.
                let is_interrupted =
                    program.ending_signal_ns() + SILENT_WAIT_NS > outlived.since_ns;
                if !self.waits_for(outlived, is_interrupted) {
                    let ended_why = if is_interrupted {
                        "because the wait for it was interrupted".to_owned()
                    } else {
                        let waited_s = self.wait_children.as_secs_f64();
                        format!("after the program ended and a wait of {waited_s} s")
                    };
                    self.write_last_lines(&outlived.ended, &ended_why);
                    return outlived.ended;
                }
            }
            self.answer(outlived.is_none().then_some(&program));
            self.tick_ledgers();
            self.writer.flush();
            if clock::now_ns() - self.round_ns > ROUND_NS {
                self.write_readings();
            }
            self.limit_program(&mut program);
        }
    }

    /// Limits the stderr and the time of a program that runs apart, and ends one that has called `cuInit` and must stop
    /// there.
    fn limit_program(&mut self, program: &mut TracedProgram) {
        if self.stopped.is_some() {
            program.kill_program();
        }
        let Some(apart) = &self.apart else {
            return;
        };
        if let Some(stderr) = &apart.stderr {
            program::truncate_if_long(stderr);
        }
        let limit_ns = apart.limit.as_nanos() as u64;
        if clock::now_ns() > self.started_ns.saturating_add(limit_ns) && !self.is_overdue {
            self.is_overdue = true;
            program.kill_program();
        }
    }

    /// Returns `true` while processes of the program still run and the tracer must wait for them.
    fn waits_for(&mut self, outlived: &mut Outlived, is_interrupted: bool) -> bool {
        self.descendants
            .scan_processes(&self.root_pids(), self.place.libcuda_loads());
        self.reap_orphans();
        // A process that forks and ends at once runs in no scan, but leaves a child of this process each time.
        let is_over =
            self.descendants.running_pids().next().is_none() && self.root_pids().is_empty();
        if is_interrupted || clock::now_ns() >= outlived.until_ns || is_over {
            return false;
        }
        if !outlived.is_said && clock::now_ns() > outlived.since_ns + SILENT_WAIT_NS {
            outlived.is_said = true;
            let pids: Vec<String> = self
                .descendants
                .running_pids()
                .map(|pid| pid.to_string())
                .take(5)
                .collect();
            let (count, limit) = (
                self.descendants.running_pids().count() as u64,
                self.wait_children.as_secs_f64(),
            );
            output::print_line(&format!(
                "cuda-pitfalls: waiting up to {limit} s for {} of the program (PID {}); Ctrl-C ends the wait",
                counted(count, "process"),
                pids.join(", ")
            ));
        }
        true
    }

    /// Returns the children of this process that belong to the program: the program itself, and its orphans.
    fn root_pids(&self) -> Vec<u32> {
        let ours: Vec<i32> = self.sampler.pid().into_iter().collect();
        let children = supervisor::stray_children(&self.before, &ours);
        children
            .into_iter()
            .map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
            .collect()
    }

    /// Returns the functions that the simulated machine does not model and that were called.
    fn unmodeled_functions(&self) -> BTreeSet<String> {
        self.machine
            .beside
            .as_deref()
            .map(simulated::unmodeled_functions)
            .unwrap_or_default()
    }

    /// Waits for a message, the end of the program, an open of libcuda, or the next check.
    fn wait_for_event(&self, program: Option<&TracedProgram>) {
        let now_ns = clock::now_ns();
        let tick = if self.is_behind {
            0
        } else {
            self.descendants.wait_ns(now_ns).min(TICK_NS)
        };
        let mut fds = vec![PollFd::from_borrowed_fd(self.gate.as_fd(), PollFlags::IN)];
        if let Some(program) = program {
            fds.push(PollFd::new(program, PollFlags::IN));
        }
        if let Some(opened) = self.descendants.urgent_fd() {
            fds.push(PollFd::from_borrowed_fd(opened, PollFlags::IN));
        }
        let _ = poll(&mut fds, Some(&to_timespec(tick)));
    }

    /// Answers the waiting messages, until the program ends or the next check is due.
    fn answer(&mut self, program: Option<&TracedProgram>) {
        let until_ns = clock::now_ns() + TICK_NS;
        self.gate.clear_bell();
        while let Some(received) = self.gate.next() {
            self.handle_message(*received);
            if program.is_some_and(has_ended) || clock::now_ns() > until_ns {
                self.is_behind = true;
                return;
            }
        }
        self.is_behind = false;
    }

    /// Reads the memory in use on every GPU that can be read, and the part that NVML accounts to a process (0 if it is
    /// not listed).
    fn read_memory(&mut self, pid: u32) -> (Vec<Option<u64>>, Vec<u64>) {
        let Some(gpus) = self.read_gpus() else {
            return (vec![None; self.gpus.len()], Vec::new());
        };
        (
            gpus.iter().map(|gpu| gpu.used_bytes).collect(),
            self.own_bytes(&gpus, pid),
        )
    }

    /// Reads every GPU; `None` if that is not possible.
    fn read_gpus(&mut self) -> Option<Vec<Reading>> {
        let swept = self.sampler.snapshot_within(READING_MS).ok().flatten();
        let gpus = swept
            .map(|snapshot| snapshot.gpus)
            .filter(|gpus| !gpus.is_empty())?;
        self.watch.read(
            &gpus.iter().map(|gpu| gpu.used_bytes).collect::<Vec<_>>(),
            clock::now_ns(),
        );
        Some(gpus)
    }

    /// Reads memory like [`Tracer::read_memory`], for a parked thread: after the thread has moved on, a reading no
    /// longer shows its call.
    fn read_for(&mut self, pid: u32, waiting: &UnixStream) -> (Vec<Option<u64>>, Vec<u64>) {
        let read = self.read_settled(pid);
        if message::is_parked(waiting) {
            read
        } else {
            (vec![None; self.gpus.len()], Vec::new())
        }
    }

    /// Writes polled memory, and the counts of processes that have ended.
    fn write_readings(&mut self) {
        self.round_ns = clock::now_ns();
        if let Ok(Some(run)) = self.sampler.stop_polling_within(READING_MS) {
            self.watch.ran(&run);
            for change in run.changes {
                let (t_ns, index, used_bytes) = (change.t_ns, change.gpu, change.used_bytes);
                // Every period of the sampler begins with a reading, whether or not memory changed.
                let is_same = self
                    .written
                    .get(&index)
                    .is_some_and(|last| last.abs_diff(used_bytes) < STEP_BYTES);
                if !is_same {
                    self.written.insert(index, used_bytes);
                    self.writer.write(TraceLine::Memory(Memory {
                        t_ns,
                        index,
                        used_bytes,
                    }));
                }
            }
            let _ = self.sampler.start_polling();
        }
        self.reap_orphans();
        for (pid, counts) in self.processes.take_ended_counts() {
            self.stacks.forget_process(pid);
            self.pending.retain(|(owner, _), _| *owner != pid);
            self.writer.write(TraceLine::Counts(counts));
        }
        self.end_ledgers();
    }

    /// Reaps orphans of the program whose end was seen.
    fn reap_orphans(&self) {
        let ours: Vec<i32> = i32::try_from(self.program)
            .into_iter()
            .chain(self.sampler.pid())
            .collect();
        let mut orphans = supervisor::stray_children(&self.before, &ours);
        orphans.retain(|pid| {
            self.descendants
                .has_ended(pid.as_raw_nonzero().get().unsigned_abs())
        });
        supervisor::reap_all(&orphans);
    }
}

/// The processes that outlive the program: the end of the program, and how long the tracer waits for them.
struct Outlived {
    ended: Ended,
    since_ns: u64,
    until_ns: u64,
    is_said: bool,
}

impl Outlived {
    fn new(ended: Ended, wait: Duration) -> Outlived {
        let since_ns = clock::now_ns();
        let until_ns = since_ns.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        Outlived {
            ended,
            since_ns,
            until_ns,
            is_said: false,
        }
    }
}

fn has_ended(program: &TracedProgram) -> bool {
    let mut fds = [PollFd::new(program, PollFlags::IN)];
    poll(&mut fds, Some(&to_timespec(0))).is_ok_and(|ready| ready > 0)
}
