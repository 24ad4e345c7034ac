//! The controls of the instrument, as cases like any other.

use cuda_pitfalls_core::experiment::{Step, Timeouts};
use cuda_pitfalls_core::plan::{CasePlan, Plan};

/// Size of the positive control's allocation, in bytes: very different from the cost of a context, and small enough for
/// any GPU.
pub(super) const ALLOCATED_BYTES: u64 = 256 << 20;

/// Generous deadlines, because the first start of CUDA on a machine can take long. A hang must still end.
pub(super) const TIMEOUTS: Timeouts = Timeouts {
    step_ms: 60_000,
    attempt_ms: 120_000,
};

/// A worker that makes no CUDA call.
pub(super) const NULL: &str = "null";
/// A worker that calls only `cuInit`.
pub(super) const INIT: &str = "init";
/// Name of the worker that creates a context and an allocation of known size.
pub(super) const POSITIVE: &str = "context";

pub(super) fn null_case() -> CasePlan {
    case(
        NULL,
        vec![Step::call("mark", "before"), Step::call("mark", "after")],
        None,
    )
}

pub(super) fn init_case(uuid: &str) -> CasePlan {
    case(INIT, vec![Step::call("cuInit", "init")], Some(uuid))
}

pub(super) fn positive_case(uuid: &str) -> CasePlan {
    let steps = vec![
        Step::call("cuInit", "init"),
        Step::call("cuDevicePrimaryCtxRetain", "context")
            .with("device", 0)
            .bound_to("context"),
        Step::call("cuCtxSetCurrent", "current").with("context", "context"),
        Step::call("cuMemAlloc_v2", "allocation")
            .with("bytes", ALLOCATED_BYTES as i64)
            .bound_to("memory"),
    ];
    case(POSITIVE, steps, Some(uuid))
}

fn case(name: &str, steps: Vec<Step>, mask: Option<&str>) -> CasePlan {
    CasePlan {
        name: name.to_string(),
        mask: mask.map(|uuid| vec![uuid.to_string()]),
        steps,
        ..CasePlan::default()
    }
}

/// Returns a plan without a question, with the facts about a case that the rules of validity need.
pub(super) fn plan_of(case: &CasePlan) -> Plan {
    Plan {
        cases: vec![case.clone()],
        ..Plan::default()
    }
}
