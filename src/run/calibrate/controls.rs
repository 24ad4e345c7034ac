//! The controls of the instrument, as cases like any other.

use std::collections::BTreeMap;

use crate::plan::{CasePlan, Plan, Timeouts};
use crate::scenario::{Needs, Scalar, Step};

/// How much the positive control allocates: far from what contexts cost, small enough for any GPU.
pub(super) const ALLOCATED_BYTES: u64 = 256 << 20;

/// The first start of CUDA on a machine can take long; a hang must still end.
pub(super) const TIMEOUTS: Timeouts = Timeouts { step_ms: 60_000, attempt_ms: 120_000 };

/// A worker that makes no CUDA call.
pub(super) const NULL: &str = "null";
/// A worker that only calls `cuInit`.
pub(super) const INIT: &str = "init";
/// A worker that makes a context and a known allocation.
pub(super) const POSITIVE: &str = "context";

pub(super) fn null_case() -> CasePlan {
    case(NULL, vec![step("mark", "before"), step("mark", "after")], None)
}

pub(super) fn init_case(uuid: &str) -> CasePlan {
    case(INIT, vec![step("cuInit", "init")], Some(uuid))
}

pub(super) fn positive_case(uuid: &str) -> CasePlan {
    let mut retain = step("cuDevicePrimaryCtxRetain", "context");
    retain.args.insert("device".to_string(), Scalar::Int(0));
    retain.bind = Some("context".to_string());
    let mut current = step("cuCtxSetCurrent", "current");
    current.args.insert("context".to_string(), Scalar::Text("context".to_string()));
    let mut allocate = step("cuMemAlloc_v2", "allocation");
    allocate.args.insert("bytes".to_string(), Scalar::Int(ALLOCATED_BYTES as i64));
    allocate.bind = Some("memory".to_string());
    case(POSITIVE, vec![step("cuInit", "init"), retain, current, allocate], Some(uuid))
}

fn case(name: &str, steps: Vec<Step>, mask: Option<&str>) -> CasePlan {
    CasePlan {
        name: name.to_string(),
        does: String::new(),
        mask: mask.map(|uuid| vec![uuid.to_string()]),
        env: BTreeMap::new(),
        probes: false,
        steps,
        expect: Vec::new(),
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

/// A plan that asks nothing: what the rules of validity need to know of a case.
pub(super) fn plan_of(case: &CasePlan) -> Plan {
    Plan {
        repeat: 1,
        step_timeout_ms: TIMEOUTS.step_ms,
        timeout_ms: TIMEOUTS.attempt_ms,
        gpus: Vec::new(),
        used_gpus: 0,
        needs: Needs::default(),
        hazards: Vec::new(),
        parameters: BTreeMap::new(),
        nondeterministic: false,
        effect: Vec::new(),
        expect: Vec::new(),
        cases: vec![case.clone()],
    }
}
