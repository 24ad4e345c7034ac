//! Traces for tests: a program in PyTorch on two H200, one that does nothing, one that is large, and
//! one whose every text is hostile.

use std::collections::BTreeMap;

use crate::diagnosis::{Finding, Severity};
use crate::policy::{Outcome, Violation};
use crate::report::SchemaId;
use crate::sample::Gpu;
use crate::trace::{
    self, CallCount, ContextChange, Counts, End, Event, Frame, Line, Memory, Process, Stack, Start, Trace, Usage, Uses,
    What, Witness,
};
use crate::verdict::Provenance;

const MIB: u64 = 1 << 20;
/// When the program is started.
const BEGIN: u64 = 1_000_000_000_000;
const GPUS: [&str; 2] = ["GPU-00000000-0000-0000-0000-000000000000", "GPU-11111111-1111-1111-1111-111111111111"];
const TORCH: &str = "/opt/venv/lib/python3.12/site-packages/torch";

fn at(seconds: f64) -> u64 {
    BEGIN + (seconds * 1e9) as u64
}

fn gpu(uuid: &str) -> Gpu {
    Gpu {
        uuid: uuid.to_owned(),
        name: Some("NVIDIA H200".to_owned()),
        pci_bus_id: None,
        compute_capability: Some("9.0".to_owned()),
        total_bytes: Some(143_771 * MIB),
        reserved_bytes: None,
        compute_mode: Some("Default".to_owned()),
        persistence: Some(true),
        mig: Some(false),
        unread: BTreeMap::new(),
    }
}

fn start() -> Start {
    Start {
        schema: SchemaId { name: trace::SCHEMA.to_owned(), major: trace::MAJOR, minor: trace::MINOR },
        provenance: Provenance::Measured,
        version: "0.13.0".to_owned(),
        commit: None,
        command: vec!["python".to_owned(), "train.py".to_owned()],
        folder: "/home/me/project".to_owned(),
        started_at: "2025-11-20T16:00:00Z".to_owned(),
        t_ns: BEGIN,
        on: "cuda".to_owned(),
        driver_version: Some("580.159.04".to_owned()),
        gpus: GPUS.map(gpu).to_vec(),
        used_bytes: vec![Some(0), Some(0)],
        environment: BTreeMap::new(),
        libcuda: Some("/usr/lib/x86_64-linux-gnu/libcuda.so.1".to_owned()),
        preload: true,
        all_calls: false,
        limits: Vec::new(),
    }
}

fn process(pid: u32, parent: u32, seconds: f64) -> Process {
    Process {
        t_ns: at(seconds),
        pid,
        parent,
        program: "/usr/bin/python3.12".to_owned(),
        arguments: vec!["python".to_owned(), "train.py".to_owned()],
        python: Some("3.12.3".to_owned()),
        no_python: None,
    }
}

fn event(seconds: f64, pid: u32, call: &str, what: What, frames: Vec<Frame>) -> Event {
    let (status, stack) = (Some(0), Stack { frames, ..Stack::default() });
    let (elapsed_ns, device, gpu, memory_bytes) = (None, None, None, Vec::new());
    Event {
        t_ns: at(seconds),
        pid,
        tid: pid,
        what,
        call: call.to_owned(),
        status,
        elapsed_ns,
        device,
        gpu,
        memory_bytes,
        used_bytes: Vec::new(),
        own_bytes: None,
        stack,
    }
}

fn own(function: &str, line: u32) -> Frame {
    Frame::python(function, "/home/me/project/train.py", line)
}

/// A function of PyTorch, below what it calls in native code, innermost first.
fn torch(function: &str, file: &str, line: u32) -> Vec<Frame> {
    let library = format!("{TORCH}/lib/libtorch_cuda.so");
    vec![
        Frame::native(
            "cudaSetDevice",
            Some("/opt/venv/lib/python3.12/site-packages/nvidia/libcudart.so.13"),
            None,
            None,
        ),
        Frame::native("c10::cuda::SetDevice(signed char, bool)", Some(&library), None, None),
        Frame::python("_lazy_init", &format!("{TORCH}/cuda/__init__.py"), 412),
        Frame::python(function, &format!("{TORCH}/{file}"), line),
    ]
}

fn context(seconds: f64, pid: u32, index: usize, mib: i64, frames: Vec<Frame>) -> Event {
    let what = What::Context { change: ContextChange::Made, primary: true, handle: 0x7f00 + index as u64 };
    let mut event = event(seconds, pid, "cuDevicePrimaryCtxRetain", what, frames);
    event.device = Some(index as i32);
    event.gpu = GPUS.get(index).map(|uuid| (*uuid).to_owned());
    event.memory_bytes = (0..GPUS.len()).map(|it| Some(if it == index { mib << 20 } else { 0 })).collect();
    event
}

fn init(seconds: f64, pid: u32, mask: Option<&str>, frames: &[Frame]) -> [Event; 3] {
    let variables = mask.map(|mask| ("CUDA_VISIBLE_DEVICES".to_owned(), mask.to_owned())).into_iter().collect();
    let began = What::Init { witness: Witness::Injection, variables };
    let read = What::MaskRead { value: mask.map(str::to_owned), after_hook: true };
    let done = What::InitDone { visible: Some(2), gpus: GPUS.map(str::to_owned).to_vec() };
    [
        event(seconds, pid, "cuInit", began, frames.to_vec()),
        event(seconds + 0.000_1, pid, "getenv", read, Vec::new()),
        event(seconds + 0.02, pid, "cuInit", done, Vec::new()),
    ]
}

/// A program in PyTorch on two H200 that sets the mask too late, makes a context on GPU 0 by
/// accident, and forks after `cuInit`.
pub(crate) fn trace() -> Trace {
    let mut trace = Trace::begin(start()).unwrap();
    let mut take = |line: Line| trace.take(line);
    take(Line::Process(process(4711, 4700, 0.4)));
    let mut frames = torch("is_available", "cuda/__init__.py", 174);
    frames.push(Frame::python("setup", "/home/me/project/cli.py", 88));
    frames.push(own("<module>", 12));
    for event in init(0.84, 4711, None, &frames) {
        take(Line::Event(Box::new(event)));
    }
    let value = Some("1".to_owned());
    let late = What::Variable { name: "CUDA_VISIBLE_DEVICES".to_owned(), before: None, value };
    let mut late = event(1.25, 4711, "setenv", late, vec![own("<module>", 31)]);
    late.status = None;
    take(Line::Event(Box::new(late)));
    let mut to = torch("to", "nn/modules/module.py", 1355);
    to.push(own("<module>", 35));
    take(Line::Event(Box::new(context(1.93, 4711, 1, 527, to.clone()))));
    for (seconds, usage) in [(2.0, Usage::Allocation), (2.01, Usage::Copy), (2.2, Usage::Launch)] {
        let mut first = event(seconds, 4711, "cuLaunchKernel", What::FirstUse { usage }, to.clone());
        first.gpu = Some(GPUS[1].to_owned());
        take(Line::Event(Box::new(first)));
    }
    for place in 0..12 {
        let loaded = event(2.0 + 0.01 * f64::from(place), 4711, "cuLibraryLoadData", What::Module, to.clone());
        take(Line::Event(Box::new(loaded)));
    }
    let mut synchronize = torch("synchronize", "cuda/__init__.py", 1040);
    synchronize.push(own("<module>", 52));
    take(Line::Event(Box::new(context(2.4, 4711, 0, 524, synchronize))));
    take(Line::Process(process(4720, 4711, 2.61)));
    let forked = What::Forked { parent: 4711, contexts: 2 };
    let mut loader = vec![Frame::python("__init__", &format!("{TORCH}/utils/data/dataloader.py"), 1146)];
    loader.push(own("<module>", 60));
    let mut forked = event(2.6, 4720, "fork", forked, loader);
    forked.status = None;
    take(Line::Event(Box::new(forked)));
    let mut failed =
        event(2.8, 4720, "cuMemGetInfo_v2", What::Error, vec![Frame::python("read", "/home/me/project/data.py", 7)]);
    failed.status = Some(3);
    take(Line::Event(Box::new(failed)));
    let limit = What::Limit { limit: 2, value: 64 * MIB, after_launch: true };
    let mut limit = event(3.0, 4711, "cuCtxSetLimit", limit, vec![own("<module>", 70)]);
    limit.status = Some(1);
    take(Line::Event(Box::new(limit)));
    for (seconds, index, mib) in
        [(1.9, 1, 3), (1.93, 1, 527), (2.0, 1, 1_840), (2.2, 1, 2_900), (2.4, 0, 524), (4.0, 1, 5_400), (5.2, 1, 2_900)]
    {
        take(Line::Memory(Memory { t_ns: at(seconds), index, used_bytes: mib * MIB }));
    }
    let calls =
        [("cuInit", 1, 0), ("cuDevicePrimaryCtxRetain", 2, 0), ("cuLaunchKernel", 48_210, 0), ("cuCtxSetLimit", 1, 1)];
    let calls = calls.map(|(name, calls, errors)| (name.to_owned(), CallCount { calls, errors }));
    let busy = Uses { launches: 48_210, copies: 310, allocations: 42 };
    let gpus = [(GPUS[0].to_owned(), Uses::default()), (GPUS[1].to_owned(), busy)];
    take(Line::Counts(Counts {
        t_ns: 0,
        pid: 4711,
        calls: calls.into_iter().collect(),
        gpus: gpus.into_iter().collect(),
    }));
    take(Line::Memory(Memory { t_ns: at(6.0), index: 0, used_bytes: 0 }));
    take(Line::Memory(Memory { t_ns: at(6.0), index: 1, used_bytes: 0 }));
    take(Line::End(End {
        t_ns: at(6.1),
        code: Some(0),
        signal: None,
        not_seen: Vec::new(),
        left_out: 0,
        memory_gap_ns: Vec::new(),
    }));
    trace
}

fn position(trace: &Trace, is_it: impl Fn(&Event) -> bool) -> usize {
    trace.events.iter().position(is_it).unwrap()
}

/// The two pitfalls of [`trace`].
pub(crate) fn findings(trace: &Trace) -> Vec<Finding> {
    let init = position(trace, |event| matches!(event.what, What::Init { .. }));
    let late = position(trace, |event| matches!(event.what, What::Variable { .. }));
    let stray = stray(trace);
    vec![
        Finding {
            rule: "late-mask".to_owned(),
            severity: Severity::Pitfall,
            title: "CUDA_VISIBLE_DEVICES is set after it was read".to_owned(),
            says: "train.py:31 sets CUDA_VISIBLE_DEVICES after cuInit has read it".to_owned(),
            scenario: "visibility/mask-after-cuinit".to_owned(),
            workaround: "set it before torch.cuda.is_available(), or in the environment of the program".to_owned(),
            pid: 4711,
            events: vec![init, late],
            gpu: None,
            bytes: None,
        },
        Finding {
            rule: "stray-context".to_owned(),
            severity: Severity::Pitfall,
            title: "a context on a GPU that is not used".to_owned(),
            says: "torch.cuda.synchronize() makes a context on the current device, which is 0".to_owned(),
            scenario: "context/first-call-makes-one".to_owned(),
            workaround: "torch.cuda.set_device(1) first, or synchronize(1)".to_owned(),
            pid: 4711,
            events: vec![stray],
            gpu: Some(GPUS[0].to_owned()),
            bytes: Some(524 << 20),
        },
    ]
}

fn stray(trace: &Trace) -> usize {
    position(trace, |event| matches!(event.what, What::Context { .. }) && event.device == Some(0))
}

/// What `--forbid context:gpu0` has against [`trace`].
pub(crate) fn outcome(trace: &Trace) -> Outcome {
    let violations = vec![Violation {
        forbidden: "context:gpu0".to_owned(),
        says: "a context on GPU 0".to_owned(),
        event: Some(stray(trace)),
    }];
    Outcome { violations, undecided: Vec::new() }
}

/// A program that made no CUDA call, with everything seen.
pub(crate) fn quiet() -> Trace {
    let mut trace = Trace::begin(start()).unwrap();
    trace.take(Line::End(End {
        t_ns: at(1.0),
        code: Some(0),
        signal: None,
        not_seen: Vec::new(),
        left_out: 0,
        memory_gap_ns: Vec::new(),
    }));
    trace
}

/// Many events of many kinds in many processes, and a long curve of memory.
pub(crate) fn large(processes: u32, events: u32, points: u32) -> Trace {
    let mut trace = Trace::begin(start()).unwrap();
    for pid in 0..processes {
        trace.take(Line::Process(process(10_000 + pid, 4711, 0.1)));
    }
    for number in 0..events {
        let (seconds, pid) = (0.2 + f64::from(number) * 0.001, 10_000 + number % processes.max(1));
        let mut frames = torch("to", "nn/modules/module.py", 1355);
        frames.extend((0..20).map(|depth| own(&format!("step_{depth}"), number + depth + 1)));
        let mut one = match number % 3 {
            0 => context(seconds, pid, (number % 2) as usize, 520 + i64::from(number % 5), frames),
            1 => event(seconds, pid, "cuMemAlloc_v2", What::Error, frames),
            _ => event(seconds, pid, "cuMemHostAlloc", What::HostMemory { bytes: u64::from(number) * MIB }, frames),
        };
        one.status = if number % 3 == 1 { Some(2) } else { Some(0) };
        trace.take(Line::Event(Box::new(one)));
    }
    for number in 0..points {
        let used_bytes = u64::from(number.wrapping_mul(2_654_435_761) % 80_000) * MIB;
        let (t_ns, index) = (at(f64::from(number) * 0.01), (number % 2) as usize);
        trace.take(Line::Memory(Memory { t_ns, index, used_bytes }));
    }
    let last = f64::from(points.max(events)) * 0.01 + 1.0;
    trace.take(Line::End(End {
        t_ns: at(last),
        code: Some(0),
        signal: None,
        not_seen: Vec::new(),
        left_out: 0,
        memory_gap_ns: Vec::new(),
    }));
    trace
}

/// What acts in a terminal, on a page, in XML or in a CI log.
pub(crate) const HOSTILE: &str =
    "\n::error::x\x1b]52;c;aGk=\x07<script>alert(1)</script>]]>\"' |`@me` \u{202e}\0##[group]%0A{{x}} ![a](http://e)";

/// A trace whose every text is hostile, with numbers at the ends of their ranges, no GPU and no end.
pub(crate) fn hostile() -> Trace {
    let mut start = start();
    start.provenance = Provenance::Simulated;
    start.command = vec![HOSTILE.to_owned(), HOSTILE.to_owned()];
    start.folder = HOSTILE.to_owned();
    start.started_at = HOSTILE.to_owned();
    start.driver_version = Some(HOSTILE.to_owned());
    start.t_ns = u64::MAX;
    start.gpus = Vec::new();
    start.used_bytes = Vec::new();
    start.environment = BTreeMap::from([(HOSTILE.to_owned(), HOSTILE.to_owned())]);
    start.limits = vec![HOSTILE.to_owned()];
    start.preload = false;
    let mut trace = Trace::begin(start).unwrap();
    let frame = || Frame {
        language: trace::Language::Python,
        function: HOSTILE.to_owned(),
        file: Some(HOSTILE.to_owned()),
        line: Some(u32::MAX),
        module: Some(HOSTILE.to_owned()),
        owner: trace::Owner::Program,
        package: Some(HOSTILE.to_owned()),
    };
    let text = || Some(HOSTILE.to_owned());
    let whats = [
        What::Init {
            witness: Witness::Forwarding,
            variables: BTreeMap::from([(HOSTILE.to_owned(), HOSTILE.to_owned())]),
        },
        What::MaskRead { value: text(), after_hook: false },
        What::InitDone { visible: Some(u32::MAX), gpus: vec![HOSTILE.to_owned()] },
        What::Variable { name: HOSTILE.to_owned(), before: text(), value: text() },
        What::Variable { name: "CUDA_DEVICE_ORDER".to_owned(), before: text(), value: text() },
        What::Context { change: ContextChange::Made, primary: false, handle: u64::MAX },
        What::Context { change: ContextChange::Failed, primary: true, handle: 0 },
        What::Context { change: ContextChange::Reset, primary: true, handle: 0 },
        What::FirstUse { usage: Usage::Launch },
        What::HostMemory { bytes: u64::MAX },
        What::Limit { limit: i32::MIN, value: u64::MAX, after_launch: true },
        What::Forked { parent: u32::MAX, contexts: u32::MAX },
        What::Peer,
        What::Ipc,
        What::Module,
        What::Error,
    ];
    for (number, what) in whats.into_iter().enumerate() {
        let stack = match number % 3 {
            0 => Stack::unread(HOSTILE),
            _ => Stack { frames: vec![frame(), frame()], missing: text(), ..Stack::default() },
        };
        trace.take(Line::Event(Box::new(Event {
            t_ns: if number % 2 == 0 { 0 } else { u64::MAX },
            pid: u32::MAX - (number % 2) as u32,
            tid: 0,
            what,
            call: HOSTILE.to_owned(),
            status: Some(i64::MIN),
            elapsed_ns: Some(u64::MAX),
            device: Some(i32::MIN),
            gpu: text(),
            memory_bytes: vec![Some(i64::MIN), None, Some(i64::MAX)],
            used_bytes: Vec::new(),
            own_bytes: None,
            stack,
        })));
    }
    let mut process = process(u32::MAX, u32::MAX, 0.0);
    process.program = HOSTILE.to_owned();
    process.arguments = vec![HOSTILE.to_owned(); 3];
    process.no_python = text();
    trace.take(Line::Process(process));
    for (t_ns, index, used_bytes) in [(0, usize::MAX, u64::MAX), (u64::MAX, 0, u64::MAX), (u64::MAX, 0, 0)] {
        trace.take(Line::Memory(Memory { t_ns, index, used_bytes }));
    }
    let most = CallCount { calls: u64::MAX, errors: u64::MAX };
    let uses = Uses { launches: u64::MAX, copies: u64::MAX, allocations: u64::MAX };
    for pid in [u32::MAX, u32::MAX - 1] {
        let calls = BTreeMap::from([(HOSTILE.to_owned(), most)]);
        trace.take(Line::Counts(Counts { t_ns: 0, pid, calls, gpus: BTreeMap::from([(HOSTILE.to_owned(), uses)]) }));
    }
    trace
}

/// Findings of [`hostile`] and what a policy has against it, some of events that are not there.
pub(crate) fn hostile_findings() -> (Vec<Finding>, Outcome) {
    let text = || HOSTILE.to_owned();
    let finding = |events: Vec<usize>| Finding {
        rule: text(),
        severity: Severity::Pitfall,
        title: text(),
        says: text(),
        scenario: text(),
        workaround: text(),
        pid: 1,
        events,
        gpu: Some(text()),
        bytes: Some(i64::MIN),
    };
    let violation = |event| Violation { forbidden: text(), says: text(), event };
    (
        vec![finding(vec![0]), finding(vec![usize::MAX]), finding(Vec::new()), finding(vec![5, 3])],
        Outcome {
            violations: vec![violation(Some(1)), violation(Some(usize::MAX)), violation(None)],
            undecided: vec![text()],
        },
    )
}
