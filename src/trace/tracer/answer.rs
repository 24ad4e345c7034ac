//! Handling each message: updating what is known of its process, and writing its event.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::net::UnixStream;

use super::ledger::kind_of;
use super::ledger::process::MemoryTaker;
use super::message::{self, Content, Delivery, Notice, ShimMessage};
use super::stacks::ParkedThread;
use super::{Tracer, processes};
use crate::{
    EventKind, EventSource, FrameOwner, LedgerReason, MemoryKind, Stack, TraceEvent, TraceLine,
};
use cuda_pitfalls_core::clock;

/// Why a stack is missing if many processes are forks of one program.
const CROWD: &str =
    "the process is one of many forks, whose stacks are not read while they write variables";

/// Why a stack is missing if there was not enough time to read it.
const LATE: &str = "the thread was not looked at within two seconds, and went on";

/// The most calls whose begin was reported and whose end was not; further ones are forgotten.
const MOST_PENDING: usize = 10_000;

/// What is known of a call before it is made.
pub(super) struct Pending {
    t_ns: u64,
    pub(super) used: Vec<Option<u64>>,
    pub(super) own: Vec<u64>,
    /// How much was attributed to callers on each GPU, and how much graphs had of that (with `--memory`).
    pub(super) attributed: BTreeMap<String, (u64, u64)>,
    /// Whether memory was read around another call of the process meanwhile: both may have taken some.
    pub(super) is_disturbed: bool,
    stack: Stack,
}

impl Tracer {
    /// Handles one message: updates its process and writes its event.
    pub(super) fn take(&mut self, received: Delivery) {
        let Delivery {
            message,
            pid,
            shared,
            waiting,
        } = received;
        self.descendants.note_message(pid);
        if let Some(process) = self
            .processes
            .note_sender(pid, message.t_ns, &mut self.stacks)
        {
            self.restart_ledger(pid);
            self.writer.write(TraceLine::Process(process));
        }
        let ShimMessage {
            call,
            number,
            t_ns,
            tid,
            pthread,
            device,
            uuid,
            status,
            elapsed_ns,
            content,
            selected_by,
            ..
        } = message;
        // An event cannot be earlier than the program's start, or later than now.
        let t_ns = t_ns.min(clock::now_ns()).max(self.started_ns);
        let is_small = matches!(
            content,
            Content::Event(EventKind::Variable { .. } | EventKind::Forked { .. })
        );
        let tid = processes::thread_here(pid, tid);
        let gpu = uuid.as_deref().and_then(uuid_text);
        self.processes.name_gpu(pid, device, gpu.as_deref());
        let thread = ParkedThread {
            pid,
            tid,
            pthread,
            frames: message.frames,
            waiting: waiting.try_clone().ok(),
        };
        let taker = MemoryTaker {
            t_ns,
            gpu: gpu.clone().unwrap_or_default(),
            kind: kind_of(&call),
            call: call.clone(),
            stack: Stack::default(),
            is_disturbed: false,
        };
        if matches!(content, Content::Notice(Notice::After)) {
            return self.end_call(number, taker, thread, &waiting);
        }
        let stack = match is_small && !thread.frames.is_empty() && self.processes.is_in_a_crowd(pid)
        {
            true => Stack::from_failure(CROWD),
            false => self.stack_of(thread, &waiting),
        };
        let what = match content {
            Content::Event(what) => what,
            Content::Notice(Notice::Before) => {
                let (used, own) = self.read_for(pid, &waiting);
                let attributed = self.attributed_bytes(pid);
                return self.keep_pending(
                    (pid, number),
                    Pending {
                        t_ns,
                        used,
                        own,
                        attributed,
                        is_disturbed: false,
                        stack,
                    },
                );
            }
            Content::Notice(Notice::Absent { name }) => {
                return self.processes.gives_up(pid, &name, &stack);
            }
            Content::Notice(Notice::Opening { name }) => {
                return self
                    .processes
                    .note_library_sought(pid, number, &name, &stack);
            }
            Content::Notice(Notice::Opened) => {
                return self.processes.note_library_found(pid, number);
            }
            Content::Notice(Notice::Ledger { .. }) => return self.open_ledger(pid, shared),
            Content::Notice(Notice::Holder { row, memory }) => {
                return self.name_holder(
                    pid,
                    row,
                    MemoryTaker {
                        kind: memory,
                        stack,
                        ..taker
                    },
                    &waiting,
                );
            }
            Content::Notice(Notice::Peak) => {
                return self.read_told(pid, LedgerReason::Peak, gpu.as_deref(), &waiting);
            }
            Content::Notice(Notice::Leaving) => {
                return self.read_told(pid, LedgerReason::End, None, &waiting);
            }
            Content::Notice(notice) => return self.handle_notice(pid, notice, shared),
        };
        // A real driver answers it before `cuInit`.
        if matches!(what, EventKind::Error) && call == "cuGetExportTable" {
            self.processes.gives_up(pid, &call, &stack);
        }
        let Some(what) = self.update_process(pid, what, device, stack.is_of_opencl()) else {
            return;
        };
        if matches!(what, EventKind::Init { .. }) && is_below_a_runtime(&stack) {
            self.processes.note_runtime(pid);
        }
        let event = TraceEvent {
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
            selected_by: selected_by.map(|tid| processes::thread_here(pid, tid)),
            stack,
        };
        let event = self.with_memory(event, number, &waiting);
        self.follow_context(&event, &waiting);
        self.writer.write(TraceLine::Event(Box::new(event)));
    }

    /// The stack of a thread that waits. One that stops waiting is moving while its stack is read.
    pub(super) fn stack_of(&mut self, thread: ParkedThread, waiting: &UnixStream) -> Stack {
        if thread.frames.is_empty() {
            return Stack::default();
        }
        let stack = message::is_parked(waiting).then(|| self.stacks.read(thread));
        let stack = stack.filter(|stack| stack.frames.is_empty() || message::is_parked(waiting));
        stack.unwrap_or_else(|| Stack::from_failure(LATE))
    }

    /// Handles a message about a process itself.
    fn handle_notice(&mut self, pid: u32, notice: Notice, shared: Option<File>) {
        match (notice, shared) {
            (Notice::Hello { devices, lanes, names }, Some(file)) => {
                self.processes.count(pid, file, names, devices, lanes);
            }
            (Notice::Hello { .. }, None) => {
                self.processes.add_unseen(format!("the counts of process {pid} could not be taken"));
            }
            (Notice::Silent, _) => self.processes.add_unseen(format!(
                "process {pid} writes variables again and again: what it writes from now on is not seen"
            )),
            (Notice::Found, _) => self.processes.goes_on(pid),
            // These are handled with what is known of their call.
            (
                Notice::Before
                | Notice::After
                | Notice::Absent { .. }
                | Notice::Opening { .. }
                | Notice::Opened
                | Notice::Ledger { .. }
                | Notice::Holder { .. }
                | Notice::Peak
                | Notice::Leaving,
                _,
            ) => {}
        }
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

    /// Adds to an event what was known before its call: the change of memory, the time of the call, and the stack.
    fn with_memory(
        &mut self,
        mut event: TraceEvent,
        number: u64,
        waiting: &UnixStream,
    ) -> TraceEvent {
        let key = (event.pid, number);
        if matches!(
            event.what,
            EventKind::Init {
                witness: EventSource::Forwarding,
                ..
            }
        ) {
            let (used, own) = self.read_for(event.pid, waiting);
            let attributed = self.attributed_bytes(event.pid);
            self.keep_pending(
                key,
                Pending {
                    t_ns: event.t_ns,
                    used,
                    own,
                    attributed,
                    is_disturbed: false,
                    stack: event.stack.clone(),
                },
            );
            return event;
        }
        // The end of cuInit has a time of its own.
        let is_done = matches!(event.what, EventKind::InitDone { .. });
        // Each of the two libraries in a process numbers its own messages, and only these events have a message
        // before the call.
        if !is_done && !matches!(event.what, EventKind::Context { .. } | EventKind::Module) {
            return event;
        }
        let Some(before) = self.pending.remove(&key) else {
            return event;
        };
        let now = self.read_for(event.pid, waiting);
        let grown = self.driver_growth(
            (event.pid, &event.call),
            &before,
            &now,
            event.gpu.as_deref(),
        );
        let (now, own) = now;
        event.memory_bytes = before
            .used
            .iter()
            .zip(&now)
            .map(|(before, now)| Some((*now)? as i64 - (*before)? as i64))
            .collect();
        event.used_bytes = now;
        let index = self
            .gpus
            .iter()
            .position(|gpu| Some(&gpu.uuid) == event.gpu.as_ref());
        event.own_bytes = index.and_then(|index| {
            let (before, now) = (*before.own.get(index)?, *own.get(index)?);
            (before > 0 || now > 0).then_some(now as i64 - before as i64)
        });
        if event.stack.frames.is_empty() {
            event.stack = before.stack;
            event.t_ns = if is_done { event.t_ns } else { before.t_ns };
        }
        let kind = match event.what {
            EventKind::Context { .. } => MemoryKind::Context,
            _ => kind_of(&event.call),
        };
        let (t_ns, gpu, stack) = (
            event.t_ns,
            event.gpu.clone().unwrap_or_default(),
            event.stack.clone(),
        );
        let taker = MemoryTaker {
            t_ns,
            gpu,
            kind,
            call: event.call.clone(),
            stack,
            is_disturbed: before.is_disturbed,
        };
        self.charge_call(event.pid, &grown, &taker);
        event
    }

    /// Updates a process after an event. `None` if the event is known already.
    fn update_process(
        &mut self,
        pid: u32,
        mut what: EventKind,
        device: Option<i32>,
        is_opencl: bool,
    ) -> Option<EventKind> {
        match &mut what {
            EventKind::Init { witness, .. } => self.processes.note_init(pid, *witness, is_opencl),
            EventKind::InitDone { visible, gpus } => {
                if visible.is_some() {
                    self.expect_ledger(pid);
                }
                for (device, gpu) in (0..).zip(gpus) {
                    *gpu = uuid_text(gpu).unwrap_or_default();
                    self.processes.name_gpu(pid, Some(device), Some(gpu));
                }
            }
            EventKind::Variable { .. } => self.processes.settle_gave_up(pid),
            EventKind::MaskRead { after_hook, .. } => self.processes.reads_mask(pid, *after_hook),
            EventKind::Context {
                change,
                primary,
                handle,
                ..
            } => {
                return self
                    .processes
                    .context(pid, *change, *primary, device, *handle)
                    .then_some(what);
            }
            _ => {}
        }
        Some(what)
    }
}

/// A GPU's UUID in its usual form, from hex.
fn uuid_text(hex: &str) -> Option<String> {
    let parts: Vec<&str> = [0..8, 8..12, 12..16, 16..20, 20..32]
        .into_iter()
        .filter_map(|part| hex.get(part))
        .collect();
    (hex.len() == 32 && parts.len() == 5).then(|| format!("GPU-{}", parts.join("-")))
}

/// Whether a function of libcudart made a call: its names begin with `cuda`, unlike those of libcuda.
fn is_below_a_runtime(stack: &Stack) -> bool {
    stack
        .frames
        .iter()
        .any(|frame| frame.owner == FrameOwner::Cuda && frame.function.starts_with("cuda"))
}
