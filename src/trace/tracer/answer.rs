//! Handling each message: updating the state of its process, and writing its event.

use std::fs::File;
use std::os::unix::net::UnixStream;

use super::ledger::kind_of;
use super::ledger::process::MemoryTaker;
use super::message::{self, Content, Delivery, Notice};
use super::pending::Pending;
use super::stacks::ParkedThread;
use super::{Tracer, processes};
use crate::{
    EventKind, EventSource, FrameOwner, LedgerReason, MemoryKind, Stack, TraceEvent, TraceLine,
};
use cuda_pitfalls_core::clock;

/// The reason for a missing stack if many processes are forks of one program.
const CROWD: &str =
    "the process is one of many forks, whose stacks are not read while they write variables";

/// The reason for a missing stack if there was not enough time to read it.
const LATE: &str = "the stack was not read within two seconds, and the thread continued";

/// The gap in the trace of a program that was stopped.
const STOPPED: &str =
    "the program was ended at its first cuInit (--stop-at-first), so nothing after it is known";

/// The maximum number of calls whose start was reported and whose end was not; further ones are forgotten.
const MOST_PENDING: usize = 10_000;

/// A message as an event of the document. Its thread waits for the answer.
struct ParkedMessage {
    /// The number that links the messages before and after one call.
    number: u64,
    /// The event without its kind and its stack.
    event: TraceEvent,
    thread: ParkedThread,
    waiting: UnixStream,
}

impl Tracer {
    /// Handles one message: updates its process and writes its event.
    pub(super) fn handle_message(&mut self, delivery: Delivery) {
        let Delivery {
            message,
            pid,
            shared,
            waiting,
        } = delivery;
        self.note_sender(pid, message.t_ns);
        let gpu = message.uuid.as_deref().and_then(uuid_text);
        self.processes.name_gpu(pid, message.device, gpu.as_deref());
        let thread = ParkedThread {
            pid,
            tid: processes::thread_here(pid, message.tid),
            pthread: message.pthread,
            frames: message.frames,
            waiting: waiting.try_clone().ok(),
        };
        let event = TraceEvent {
            // An event cannot be earlier than the program's start, or later than now.
            t_ns: message.t_ns.clamp(self.started_ns, clock::now_ns()),
            pid,
            tid: thread.tid,
            what: EventKind::Error,
            call: message.call,
            status: message.status,
            elapsed_ns: message.elapsed_ns,
            device: message.device,
            gpu,
            memory_bytes: Vec::new(),
            used_bytes: Vec::new(),
            own_bytes: None,
            selected_by: message
                .selected_by
                .map(|tid| processes::thread_here(pid, tid)),
            stack: Stack::default(),
        };
        let number = message.number;
        let parked = ParkedMessage {
            number,
            event,
            thread,
            waiting,
        };
        match message.content {
            Content::Event(what) => self.handle_event(what, parked),
            Content::Notice(notice) => self.handle_notice(notice, parked, shared),
        }
    }

    /// Handles an event: reads its stack, updates its process, and writes it unless it is known already.
    fn handle_event(&mut self, what: EventKind, parked: ParkedMessage) {
        let ParkedMessage {
            number,
            event,
            thread,
            waiting,
        } = parked;
        let is_skipped = is_small(&what)
            && !thread.frames.is_empty()
            && self.processes.is_in_a_crowd(thread.pid);
        let stack = if is_skipped {
            Stack::from_failure(CROWD)
        } else {
            self.stack_of(thread, &waiting)
        };
        let mut event = TraceEvent {
            what,
            stack,
            ..event
        };
        // A real driver answers it before `cuInit`.
        if matches!(event.what, EventKind::Error) && event.call == "cuGetExportTable" {
            self.processes
                .note_missing_name(event.pid, &event.call, &event.stack);
        }
        if !self.update_process(&mut event) {
            return;
        }
        if matches!(event.what, EventKind::Init { .. }) && is_below_a_runtime(&event.stack) {
            self.processes.note_runtime(event.pid);
        }
        self.update_bracket(&mut event, number, &waiting);
        self.follow_context(&event, &waiting);
        let is_stop = self.stop_at_first && self.stopped.is_none() && self.ends_init(&event);
        self.writer.write(TraceLine::Event(Box::new(event)));
        if is_stop {
            self.processes.add_unseen(STOPPED.to_owned());
            // While the process runs, it explains who opened libcuda.
            self.descendants
                .scan_processes(&self.root_pids(), self.place.libcuda_loads());
            self.stopped = Some(waiting);
        }
    }

    /// Returns `true` for the last event of a `cuInit`: its return, or its start if only the driver's hook sees it.
    fn ends_init(&self, event: &TraceEvent) -> bool {
        match event.what {
            EventKind::InitDone { .. } => true,
            EventKind::Init { .. } => !self.processes.is_forwarding(event.pid),
            _ => false,
        }
    }

    /// Handles a message that is not an event. `shared` is the file that came with it.
    fn handle_notice(&mut self, notice: Notice, parked: ParkedMessage, shared: Option<File>) {
        let ParkedMessage {
            number,
            event,
            thread,
            waiting,
        } = parked;
        let pid = event.pid;
        match notice {
            Notice::Hello => self.open_counts(pid, shared),
            Notice::Before => {
                let stack = self.stack_of(thread, &waiting);
                self.begin_bracket((pid, number), event.t_ns, stack, &waiting);
            }
            Notice::After => {
                let kind = kind_of(&event.call);
                let taker = MemoryTaker::new(event, kind);
                self.end_call(number, taker, thread, &waiting);
            }
            Notice::Ledger => self.open_ledger(pid, shared),
            Notice::Holder { row, memory } => {
                let stack = self.stack_of(thread, &waiting);
                let taker = MemoryTaker::new(TraceEvent { stack, ..event }, memory);
                self.name_holder(pid, row, taker, &waiting);
            }
            Notice::Peak => {
                self.read_told(pid, LedgerReason::Peak, event.gpu.as_deref(), &waiting);
            }
            Notice::Leaving => self.read_told(pid, LedgerReason::End, None, &waiting),
            Notice::Silent => self.processes.add_unseen(format!(
                "process {pid} writes variables too often; later writes are not seen"
            )),
            Notice::Absent { name } => {
                let stack = self.stack_of(thread, &waiting);
                self.processes.note_missing_name(pid, &name, &stack);
            }
            Notice::Found => self.processes.forget_missing_functions(pid),
            Notice::Opening { name } => {
                let stack = self.stack_of(thread, &waiting);
                self.processes
                    .note_library_sought(pid, number, &name, &stack);
            }
            Notice::Opened => self.processes.note_library_found(pid, number),
        }
    }

    /// Stores the file with the counts of a process.
    fn open_counts(&mut self, pid: u32, shared: Option<File>) {
        match shared {
            Some(file) => self.processes.count(pid, file),
            None => self
                .processes
                .add_unseen(format!("the counts of process {pid} could not be taken")),
        }
    }

    /// Notes the process that sent a message, and writes its line if it is new or runs another program.
    fn note_sender(&mut self, pid: u32, t_ns: u64) {
        self.descendants.note_message(pid);
        if let Some(process) = self.processes.note_sender(pid, t_ns, &mut self.stacks) {
            self.restart_ledger(pid);
            self.writer.write(TraceLine::Process(process));
        }
    }

    /// Returns the stack of a waiting thread. A thread that stops waiting is moving while its stack is read.
    pub(super) fn stack_of(&mut self, thread: ParkedThread, waiting: &UnixStream) -> Stack {
        if thread.frames.is_empty() {
            return Stack::default();
        }
        if message::is_parked(waiting) {
            let stack = self.stacks.read(thread);
            if stack.frames.is_empty() || message::is_parked(waiting) {
                return stack;
            }
        }
        Stack::from_failure(LATE)
    }

    /// Reads memory before a call, and stores the state until the call has ended.
    fn begin_bracket(&mut self, call: (u32, u64), t_ns: u64, stack: Stack, waiting: &UnixStream) {
        let (used, own) = self.read_for(call.0, waiting);
        let attributed = self.attributed_bytes(call.0);
        let pending = Pending {
            t_ns,
            used,
            own,
            attributed,
            is_disturbed: false,
            stack,
        };
        self.keep_pending(call, pending);
    }

    fn keep_pending(&mut self, call: (u32, u64), mut pending: Pending) {
        self.begin_call(call.0, &pending.own);
        for (_, other) in self.pending.range_mut((call.0, 0)..=(call.0, u64::MAX)) {
            (pending.is_disturbed, other.is_disturbed) = (true, true);
        }
        if self.pending.len() >= MOST_PENDING {
            self.pending.pop_first();
        }
        self.pending.insert(call, pending);
    }

    /// Begins the bracket of a call, or ends the one that a message before the call began.
    fn update_bracket(&mut self, event: &mut TraceEvent, number: u64, waiting: &UnixStream) {
        let call = (event.pid, number);
        // Each of the two libraries in a process numbers its own messages, and only these events have a message
        // before the call.
        match event.what {
            EventKind::Init {
                witness: EventSource::Forwarding,
                ..
            } => self.begin_bracket(call, event.t_ns, event.stack.clone(), waiting),
            EventKind::InitDone { .. } | EventKind::Context { .. } | EventKind::Module => {
                if let Some(before) = self.pending.remove(&call) {
                    self.end_bracket(event, before, waiting);
                }
            }
            _ => {}
        }
    }

    /// Completes the event of a call with what was recorded before the call: the memory in use, so that the event has
    /// the change, and, if the event has no stack, the stack and the time.
    fn end_bracket(&mut self, event: &mut TraceEvent, before: Pending, waiting: &UnixStream) {
        let now = self.read_for(event.pid, waiting);
        let grown = self.driver_growth(
            (event.pid, &event.call),
            &before,
            &now,
            event.gpu.as_deref(),
        );
        let (now, own) = now;
        event.own_bytes = self.own_change(event.gpu.as_ref(), [&before.own, &own]);
        event.memory_bytes = before
            .used
            .iter()
            .zip(&now)
            .map(|(before, now)| Some((*now)? as i64 - (*before)? as i64))
            .collect();
        event.used_bytes = now;
        if event.stack.frames.is_empty() {
            event.stack = before.stack;
            // The end of cuInit has its own time.
            if !matches!(event.what, EventKind::InitDone { .. }) {
                event.t_ns = before.t_ns;
            }
        }
        let kind = match event.what {
            EventKind::Context { .. } => MemoryKind::Context,
            _ => kind_of(&event.call),
        };
        let taker = MemoryTaker {
            is_disturbed: before.is_disturbed,
            ..MemoryTaker::new(event.clone(), kind)
        };
        self.charge_call(event.pid, &grown, &taker);
    }

    /// Returns the change of a process's memory on one GPU; `None` if it had no memory there before and now.
    fn own_change(&self, gpu: Option<&String>, [before, now]: [&[u64]; 2]) -> Option<i64> {
        let index = self
            .gpus
            .iter()
            .position(|known| Some(&known.uuid) == gpu)?;
        let (before, now) = (*before.get(index)?, *now.get(index)?);
        (before > 0 || now > 0).then_some(now as i64 - before as i64)
    }

    /// Updates a process after an event. Returns `false` if the event is already known.
    fn update_process(&mut self, event: &mut TraceEvent) -> bool {
        let (pid, device) = (event.pid, event.device);
        match &mut event.what {
            EventKind::Init { witness, .. } => {
                let is_opencl = event.stack.is_of_opencl();
                self.processes.note_init(pid, *witness, is_opencl);
            }
            EventKind::InitDone { visible, gpus } => {
                if visible.is_some() {
                    self.expect_ledger(pid);
                }
                for (ordinal, gpu) in (0..).zip(gpus) {
                    *gpu = uuid_text(gpu).unwrap_or_default();
                    self.processes.name_gpu(pid, Some(ordinal), Some(gpu));
                }
            }
            EventKind::Variable { .. } => self.processes.report_missing_names(pid),
            EventKind::MaskRead { after_hook, .. } => self.processes.reads_mask(pid, *after_hook),
            EventKind::Context {
                change,
                primary,
                handle,
                ..
            } => {
                return self
                    .processes
                    .context(pid, *change, *primary, device, *handle);
            }
            _ => {}
        }
        true
    }
}

/// Returns `true` if the stack of an event is skipped in a program with many processes.
fn is_small(what: &EventKind) -> bool {
    matches!(what, EventKind::Variable { .. } | EventKind::Forked { .. })
}

/// Returns a GPU's UUID in its usual form, from hex.
fn uuid_text(hex: &str) -> Option<String> {
    let parts: Vec<&str> = [0..8, 8..12, 12..16, 16..20, 20..32]
        .into_iter()
        .filter_map(|part| hex.get(part))
        .collect();
    (hex.len() == 32 && parts.len() == 5).then(|| format!("GPU-{}", parts.join("-")))
}

/// Returns `true` if a libcudart function made a call: its names begin with `cuda`, unlike those of libcuda.
fn is_below_a_runtime(stack: &Stack) -> bool {
    stack
        .frames
        .iter()
        .any(|frame| frame.owner == FrameOwner::Cuda && frame.function.starts_with("cuda"))
}
