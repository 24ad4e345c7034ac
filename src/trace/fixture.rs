//! Synthetic traces for tests.

pub mod programs;

use std::collections::BTreeMap;

use super::{
    CallCount, ContextChange, End, EventKind, EventSource, Frame, GpuUse, Held, Holder,
    LedgerReading, LedgerReason, Memory, MemoryKind, ProcessCounts, SCHEMA, Stack, Trace,
    TraceEvent, TraceLine, TraceProcess, TraceStart, Uses,
};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::sample::Gpu;
use cuda_pitfalls_core::verdict::Provenance;

/// Memory that a context uses, in bytes.
pub const CONTEXT: i64 = 524 << 20;
/// Memory that `cuInit` uses, in bytes.
pub const INIT: i64 = 3_407_872;
/// The program's process, unless a test says otherwise.
pub const PID: u32 = 100;
const MS: u64 = 1_000_000;

/// Returns the UUID of a GPU.
pub fn uuid(index: usize) -> String {
    format!("GPU-{index:08x}-1111-2222-3333-444444444444")
}

/// A builder of a synthetic trace. Each event comes 10 ms after the last.
pub struct TraceBuilder {
    trace: Trace,
    t_ns: u64,
    pid: u32,
    tid: u32,
    stack: Stack,
}

/// Returns a stack of the user's own line below calls of packages. `frames` has the function, file and line of each,
/// outermost first. A file whose path begins with a package's name belongs to that package.
pub fn stack(frames: &[(&str, &str, u32)]) -> Stack {
    let frame = |(function, file, line): &(&str, &str, u32)| match file.contains('/') {
        true => Frame::python(
            function,
            &format!("/v/lib/python3.12/site-packages/{file}"),
            *line,
        ),
        false => Frame::python(function, &format!("/home/me/{file}"), *line),
    };
    Stack {
        frames: frames.iter().rev().map(frame).collect(),
        ..Stack::default()
    }
}

/// Returns the first line of a trace on a machine with these GPUs.
fn start(gpus: Vec<Gpu>) -> TraceStart {
    TraceStart {
        schema: SchemaId::current(SCHEMA),
        provenance: Provenance::Simulated,
        version: "0.1.0".to_owned(),
        commit: None,
        command: vec!["python".to_owned(), "train.py".to_owned()],
        folder: "/home/me".to_owned(),
        started_at: "2026-01-01T00:00:00Z".to_owned(),
        t_ns: 0,
        on: "sim:made-up".to_owned(),
        driver_version: Some("580.159.04".to_owned()),
        used_bytes: vec![Some(0); gpus.len()],
        gpus,
        environment: BTreeMap::new(),
        libcuda: Some("/usr/lib/libcuda.so.1".to_owned()),
        preload: true,
        all_calls: false,
        ledger: false,
        limits: Vec::new(),
    }
}

pub(crate) fn process(t_ns: u64, pid: u32, parent: u32) -> TraceProcess {
    let (program, arguments) = (
        "/usr/bin/python3".to_owned(),
        vec!["python".to_owned(), "train.py".to_owned()],
    );
    let (python, no_python, rank, local_rank) = (None, None, None, None);
    let above = Vec::new();
    TraceProcess {
        t_ns,
        pid,
        parent,
        above,
        program,
        arguments,
        python,
        no_python,
        rank,
        local_rank,
    }
}

/// Returns an event of the first thread of a process, without a status and without memory.
fn event(t_ns: u64, pid: u32, call: &str, what: EventKind, stack: Stack) -> TraceEvent {
    TraceEvent {
        t_ns,
        pid,
        tid: pid,
        what,
        call: call.to_owned(),
        status: None,
        elapsed_ns: None,
        device: None,
        gpu: None,
        memory_bytes: Vec::new(),
        used_bytes: Vec::new(),
        own_bytes: None,
        selected_by: None,
        stack,
    }
}

/// Returns a holder of a call on a stack.
pub(crate) fn holder(kind: MemoryKind, stack: Stack) -> Holder {
    let (gpu, call) = (uuid(0), "cuMemAlloc_v2".to_owned());
    Holder {
        t_ns: 0,
        pid: PID,
        holder: 0,
        gpu,
        kind,
        call,
        stack,
        is_disturbed: false,
    }
}

/// Returns a reading of a process's memory: NVML's figures, and the bytes of each holder, in MiB.
pub fn reading(
    t_ns: u64,
    (pid, gpu): (u32, &str),
    why: LedgerReason,
    nvml: [Option<u64>; 2],
    held: &[(u32, u64)],
) -> LedgerReading {
    let held = held.iter().map(|(holder, mib)| Held {
        holder: *holder,
        bytes: mib << 20,
        count: None,
    });
    let [own_bytes, used_bytes] = nvml.map(|mib| mib.map(|mib| mib << 20));
    LedgerReading {
        t_ns,
        pid,
        gpu: gpu.to_owned(),
        why,
        own_bytes,
        used_bytes,
        held: held.collect(),
    }
}

/// Returns the lines of a trace.
pub fn lines(trace: &Trace) -> Vec<TraceLine> {
    let mut lines = vec![TraceLine::Start(Box::new(trace.start.clone()))];
    lines.extend(trace.processes.iter().cloned().map(TraceLine::Process));
    lines.extend(
        trace
            .events
            .iter()
            .cloned()
            .map(|event| TraceLine::Event(Box::new(event))),
    );
    lines.extend(trace.memory.iter().copied().map(TraceLine::Memory));
    lines.extend(
        trace
            .holders
            .iter()
            .cloned()
            .map(|holder| TraceLine::Holder(Box::new(holder))),
    );
    lines.extend(trace.ledger.iter().cloned().map(TraceLine::Ledger));
    lines.extend(trace.counts.iter().cloned().map(TraceLine::Counts));
    lines.extend(trace.end.iter().cloned().map(TraceLine::End));
    lines
}

impl TraceBuilder {
    /// Returns a trace of one process on a machine with this many equal GPUs.
    pub fn on(gpus: usize) -> TraceBuilder {
        TraceBuilder::with_models(&vec!["NVIDIA H200"; gpus])
    }

    /// Returns a trace of a machine with these GPUs.
    pub fn with_models(models: &[&str]) -> TraceBuilder {
        let named = |(index, model): (usize, &&str)| (uuid(index), Some((*model).to_owned()));
        let gpus = models
            .iter()
            .enumerate()
            .map(named)
            .map(|(uuid, name)| Gpu {
                uuid,
                name,
                ..Gpu::default()
            });
        let start = start(gpus.collect());
        let trace = Trace::from_start(start).expect("this version's own schema");
        let made = TraceBuilder {
            trace,
            t_ns: 0,
            pid: PID,
            tid: PID,
            stack: Stack::default(),
        };
        made.process(PID, 1)
    }

    /// Returns the complete trace of a program that succeeded.
    pub fn done(mut self) -> Trace {
        let memory_gap_ns = vec![Some(0); self.trace.start.gpus.len()];
        let t_ns = self.t_ns + MS;
        let end = End {
            t_ns,
            code: Some(0),
            signal: None,
            not_seen: Vec::new(),
            left_out: 0,
            memory_gap_ns,
            stderr: Vec::new(),
        };
        self.trace.end = Some(end);
        self.trace
    }

    /// Adds a process, or another program in a known process, and attributes the next events to it.
    pub fn process(mut self, pid: u32, parent: u32) -> TraceBuilder {
        self.t_ns += MS;
        self.trace.processes.push(process(self.t_ns, pid, parent));
        self.by(pid)
    }

    /// Adds a process like [`TraceBuilder::process`] that was started through `parents`, nearest first, without a line
    /// in the trace.
    #[cfg(test)]
    pub(crate) fn process_below(mut self, pid: u32, parents: &[u32]) -> TraceBuilder {
        self = self.process(pid, parents[0]);
        self.trace
            .processes
            .iter_mut()
            .next_back()
            .expect("the process")
            .above = parents[1..].to_vec();
        self
    }

    /// Attributes the next events to a known process.
    pub fn by(mut self, pid: u32) -> TraceBuilder {
        (self.pid, self.tid) = (pid, pid);
        self
    }

    /// Attributes the next events to another thread of the process.
    pub fn thread(mut self, tid: u32) -> TraceBuilder {
        self.tid = tid;
        self
    }

    /// Attributes the next events to a line of the user's own file, through functions of packages.
    pub fn at(mut self, frames: &[(&str, &str, u32)]) -> TraceBuilder {
        self.stack = stack(frames);
        self
    }

    /// Attributes the next events to this stack.
    pub fn on_stack(mut self, stack: Stack) -> TraceBuilder {
        self.stack = stack;
        self
    }

    /// Forks a child, and attributes the next events to it.
    #[cfg(test)]
    pub(crate) fn forks(self, pid: u32) -> TraceBuilder {
        self.process(pid, PID).event(
            "fork",
            EventKind::Forked {
                parent: PID,
                contexts: 1,
            },
            |_| {},
        )
    }

    /// Adds an event.
    pub fn event(
        mut self,
        call: &str,
        what: EventKind,
        change: impl FnOnce(&mut TraceEvent),
    ) -> TraceBuilder {
        self.t_ns += 10 * MS;
        let mut event = event(self.t_ns, self.pid, call, what, self.stack.clone());
        event.tid = self.tid;
        change(&mut event);
        self.trace.events.push(event);
        self
    }

    /// Adds a successful `cuInit`, with the variables at that time and the visible GPUs.
    pub fn init(self, variables: &[(&str, &str)], visible: &[usize]) -> TraceBuilder {
        let gpus = self.trace.start.gpus.len();
        let what = EventKind::InitDone {
            visible: u32::try_from(visible.len()).ok(),
            gpus: visible.iter().map(|index| uuid(*index)).collect(),
        };
        self.init_begins(variables).event("cuInit", what, |event| {
            event.memory_bytes = (0..gpus)
                .map(|index| Some(if visible.contains(&index) { INIT } else { 0 }))
                .collect();
            event.status = Some(0);
        })
    }

    /// Adds a `cuInit` that fails with a status.
    pub fn init_fails(self, variables: &[(&str, &str)], status: i64) -> TraceBuilder {
        let what = EventKind::InitDone {
            visible: None,
            gpus: Vec::new(),
        };
        self.init_begins(variables)
            .event("cuInit", what, |event| event.status = Some(status))
    }

    /// Adds the start of a `cuInit`.
    pub fn init_begins(self, variables: &[(&str, &str)]) -> TraceBuilder {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        self.event(
            "cuInit",
            EventKind::Init {
                witness: EventSource::Injection,
                variables,
            },
            |_| {},
        )
    }

    /// Sets a variable.
    pub fn setenv(self, name: &str, value: &str) -> TraceBuilder {
        let what = EventKind::Variable {
            name: name.to_owned(),
            before: None,
            value: Some(value.to_owned()),
        };
        self.event("setenv", what, |_| {})
    }

    /// Removes a variable.
    pub fn unsetenv(self, name: &str) -> TraceBuilder {
        self.event(
            "unsetenv",
            EventKind::Variable {
                name: name.to_owned(),
                before: None,
                value: None,
            },
            |_| {},
        )
    }

    /// Creates a primary context on a GPU that the process knows by an ordinal.
    pub fn context(mut self, gpu: usize, ordinal: i32) -> TraceBuilder {
        let before = self
            .trace
            .memory
            .iter()
            .rev()
            .find(|memory| memory.index == gpu)
            .map_or(0, |it| it.used_bytes);
        let gpus = self.trace.start.gpus.len();
        let handle = u64::from(self.pid) << 8 | gpu as u64;
        // A thread that has created a context works in it.
        let mut before_now = self
            .trace
            .events
            .iter()
            .filter(|event| (event.pid, event.tid) == (self.pid, self.tid));
        let current = before_now.any(|event| matches!(event.what, EventKind::Context { .. }));
        self = self.event(
            "cuDevicePrimaryCtxRetain",
            EventKind::Context {
                change: ContextChange::Made,
                primary: true,
                handle,
                current: Some(current),
            },
            |event| {
                event.device = Some(ordinal);
                event.gpu = Some(uuid(gpu));
                event.status = Some(0);
                event.memory_bytes = (0..gpus)
                    .map(|index| Some(if index == gpu { CONTEXT } else { 0 }))
                    .collect();
            },
        );
        self.memory(gpu, before + CONTEXT.unsigned_abs())
    }

    /// Ends a context.
    pub fn context_ends(self, gpu: usize) -> TraceBuilder {
        let handle = u64::from(self.pid) << 8 | gpu as u64;
        let what = EventKind::Context {
            change: ContextChange::Released,
            primary: true,
            handle,
            current: None,
        };
        self.event("cuDevicePrimaryCtxRelease_v2", what, |event| {
            event.gpu = Some(uuid(gpu))
        })
    }

    /// Adds a reading of a GPU's memory.
    pub fn memory(mut self, index: usize, used_bytes: u64) -> TraceBuilder {
        self.t_ns += MS;
        self.trace.memory.push(Memory {
            t_ns: self.t_ns,
            index,
            used_bytes,
        });
        self
    }

    /// Adds a holder: a call that allocates GPU memory here for the first time. Holders have numbers from 0.
    pub fn holder(mut self, gpu: usize, kind: MemoryKind) -> TraceBuilder {
        let number = u32::try_from(self.trace.holders.len()).unwrap_or(u32::MAX);
        let (t_ns, pid) = (self.t_ns, self.pid);
        let made = Holder {
            t_ns,
            pid,
            holder: number,
            gpu: uuid(gpu),
            ..holder(kind, self.stack.clone())
        };
        self.trace.holders.push(made);
        self
    }

    /// Reads the ledger of the process: NVML's figures for it and for the GPU, and the bytes of each holder, in MiB.
    pub fn reading(
        mut self,
        gpu: usize,
        why: LedgerReason,
        nvml: [Option<u64>; 2],
        held: &[(u32, u64)],
    ) -> TraceBuilder {
        self.t_ns += MS;
        self.trace.start.ledger = true;
        self.trace
            .ledger
            .push(reading(self.t_ns, (self.pid, &uuid(gpu)), why, nvml, held));
        self
    }

    /// Launches a kernel on a GPU, for the first time.
    pub fn launch(self, gpu: usize) -> TraceBuilder {
        self.event(
            "cuLaunchKernel",
            EventKind::FirstUse {
                usage: GpuUse::Launch,
            },
            |event| event.gpu = Some(uuid(gpu)),
        )
    }

    /// Adds a call that returns an error.
    pub fn error(self, call: &str, status: i64) -> TraceBuilder {
        self.event(call, EventKind::Error, |event| event.status = Some(status))
    }

    /// Ends the process, which launched kernels on these GPUs and did nothing on others.
    pub fn ends(mut self, worked_on: &[usize]) -> TraceBuilder {
        let uses = Uses {
            launches: 1000,
            ..Uses::default()
        };
        let gpus = worked_on.iter().map(|index| (uuid(*index), uses)).collect();
        let calls = [(
            "cuInit".to_owned(),
            CallCount {
                calls: 1,
                errors: 0,
            },
        )]
        .into();
        let process = self
            .trace
            .processes
            .iter()
            .rev()
            .find(|process| process.pid == self.pid);
        let began_ns = process.map(|process| process.t_ns);
        self.trace.counts.push(ProcessCounts {
            t_ns: 0,
            pid: self.pid,
            began_ns,
            calls,
            gpus,
        });
        self
    }
}

/// Returns a trace that queries, sets the mask too late, works on GPU 1, and creates a context on GPU 0. The events: 0
/// and 1 `cuInit`, 2 the write, 3 the context on GPU 1, 4 the launch, 5 the context on GPU 0.
#[cfg(test)]
pub(crate) fn late_and_stray() -> TraceBuilder {
    TraceBuilder::on(2)
        .at(&[
            ("<module>", "train.py", 12),
            ("is_available", "torch/cuda/__init__.py", 129),
        ])
        .init(&[], &[0, 1])
        .at(&[("<module>", "train.py", 31)])
        .setenv("CUDA_VISIBLE_DEVICES", "1")
        .at(&[
            ("<module>", "train.py", 35),
            ("to", "torch/nn/modules/module.py", 5),
        ])
        .context(1, 1)
        .launch(1)
        .at(&[
            ("<module>", "train.py", 52),
            ("synchronize", "torch/cuda/__init__.py", 7),
        ])
        .context(0, 0)
}
