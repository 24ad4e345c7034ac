//! The instrument, measured before the first question: a worker that makes no CUDA call must show
//! nothing, and one that makes a context and a known allocation must show both.
//!
//! Without the first, a change that is seen may be noise; without the second, a change that is not
//! seen may be blindness. Both are ordinary attempts.

use std::collections::BTreeMap;

use super::stage::Stage;
use crate::plan::{CasePlan, Timeouts};
use crate::report::{Attempt, Calibration, Report};
use crate::scenario::{Scalar, Step};

/// How much the positive control allocates: far from what contexts cost, small enough for any GPU.
const ALLOCATED_BYTES: u64 = 256 << 20;
/// Nothing smaller than this is told apart from noise: the driver takes memory in 2 MiB blocks.
const SMALLEST_EPSILON: u64 = 2 << 20;

/// The first start of CUDA on a machine can take long; a hang must still end.
const TIMEOUTS: Timeouts = Timeouts { step_ms: 60_000, attempt_ms: 120_000 };

/// Measures every GPU that may be used, and warns of what it could not tell.
pub(super) fn calibrate(stage: &mut Stage, report: &mut Report) {
    let all: Vec<String> = stage.machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
    let usable = stage.restrict.clone().unwrap_or_else(|| all.clone());
    let null = attempt(stage, vec![step("mark", "before"), step("mark", "after")], None);
    let mut listed = Vec::new();
    for uuid in usable.iter().filter(|uuid| all.contains(uuid)) {
        if stage.supervisor.interrupt.check() {
            return;
        }
        let Some(gpu) = all.iter().position(|known| known == uuid) else { continue };
        let null_bytes = null.as_ref().map_or(0, |null| largest_change(null, gpu));
        let epsilon_bytes = SMALLEST_EPSILON.max(3 * null_bytes);
        let positive = attempt(stage, positive_steps(), Some(uuid));
        let used = |label: usize| positive.as_ref().and_then(|attempt| used_after(attempt, label, gpu));
        let before = positive.as_ref().and_then(|attempt| used_before(attempt, gpu));
        let change = |later: Option<u64>, earlier: Option<u64>| {
            later.zip(earlier).map_or(0, |(later, earlier)| later.saturating_sub(earlier))
        };
        let context_bytes = change(used(1), before);
        let allocation_bytes = change(used(3), used(2));
        let pid_listed = positive.as_ref().is_some_and(|attempt| is_listed(attempt, gpu));
        let sound = null.is_some()
            && context_bytes > 4 * epsilon_bytes
            && allocation_bytes.abs_diff(ALLOCATED_BYTES) <= epsilon_bytes;
        if !sound {
            report.run.warnings.push(format!(
                "the positive control was not seen on {uuid} (context {context_bytes} B, {ALLOCATED_BYTES} B allocated, \
                 {allocation_bytes} B seen): absence of memory effects cannot be concluded there"
            ));
        }
        listed.push(pid_listed);
        report.run.calibration.push(Calibration {
            uuid: uuid.clone(),
            null_bytes,
            context_bytes,
            allocation_bytes,
            allocated_bytes: ALLOCATED_BYTES,
            epsilon_bytes,
            pid_listed,
            sound,
        });
    }
    let own = (!listed.is_empty()).then(|| listed.iter().all(|listed| *listed));
    report.machine.isolation.own_pid_listed = own;
    stage.machine.isolation.own_pid_listed = own;
    if own == Some(false) {
        report.run.warnings.push(
            "NVML does not list the worker's own PID (a PID namespace?): memory per process cannot be told, and \
             foreign processes are noticed only by their memory"
                .to_string(),
        );
    }
}

fn step(call: &str, label: &str) -> Step {
    Step {
        call: call.to_string(),
        args: BTreeMap::new(),
        bind: None,
        on: None,
        from: None,
        label: label.to_string(),
        line: 0,
    }
}

fn positive_steps() -> Vec<Step> {
    let mut retain = step("cuDevicePrimaryCtxRetain", "context");
    retain.args.insert("device".to_string(), Scalar::Int(0));
    retain.bind = Some("context".to_string());
    let mut current = step("cuCtxSetCurrent", "current");
    current.args.insert("context".to_string(), Scalar::Text("context".to_string()));
    let mut allocate = step("cuMemAlloc_v2", "allocation");
    allocate.args.insert("bytes".to_string(), Scalar::Int(ALLOCATED_BYTES as i64));
    allocate.bind = Some("memory".to_string());
    vec![step("cuInit", "init"), retain, current, allocate]
}

fn attempt(stage: &mut Stage, steps: Vec<Step>, mask: Option<&String>) -> Option<Attempt> {
    let case = CasePlan {
        name: "calibration".to_string(),
        does: String::new(),
        mask: mask.map(|uuid| vec![uuid.clone()]),
        env: BTreeMap::new(),
        probes: false,
        steps,
        expect: Vec::new(),
    };
    stage.supervisor.attempt(TIMEOUTS, &case, 0).ok().filter(|attempt| attempt.invalid.is_empty())
}

/// `used` before the first step.
fn used_before(attempt: &Attempt, gpu: usize) -> Option<u64> {
    attempt.sweeps.first()?.sweep.gpus.get(gpu)?.used_bytes
}

/// `used` after a step: the last sweep up to it, since equal ones are left out.
fn used_after(attempt: &Attempt, step: usize, gpu: usize) -> Option<u64> {
    let up_to = |sweep: &&crate::report::AttemptSweep| !sweep.after_exit && sweep.step.is_none_or(|at| at <= step);
    attempt.sweeps.iter().rfind(up_to)?.sweep.gpus.get(gpu)?.used_bytes
}

fn largest_change(attempt: &Attempt, gpu: usize) -> u64 {
    let Some(before) = used_before(attempt, gpu) else { return 0 };
    let seen = attempt.sweeps.iter().filter_map(|sweep| sweep.sweep.gpus.get(gpu)?.used_bytes);
    seen.map(|used| used.abs_diff(before)).max().unwrap_or(0)
}

fn is_listed(attempt: &Attempt, gpu: usize) -> bool {
    let lists = attempt.sweeps.iter().filter_map(|sweep| sweep.sweep.gpus.get(gpu)?.processes.as_ref());
    lists.flatten().any(|process| process.pid == attempt.pid)
}
