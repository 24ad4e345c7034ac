//! Observations of the attempts of a call.

use super::{COUNT, CallRow, CallSeen, INIT, NO_DEVICE, recipe};
use crate::survey::question::{SurveyAnswer, TRAP, status_name};
use crate::survey::row::Unmeasured;
use cuda_pitfalls_core::observe::{MemoryObservation, Observation, Scene, StepObservation};
use cuda_pitfalls_core::plan::Plan;
use cuda_pitfalls_core::scenario::Class;
use cuda_pitfalls_core::verdict::Reason;

/// Returns the observations of each attempt that counts about the row's call.
///
/// # Errors
/// Returns the reason if an attempt shows nothing about the call.
pub(super) fn observe_attempts(
    row: &CallRow,
    answered: &SurveyAnswer<'_>,
) -> Result<Vec<CallSeen>, Unmeasured> {
    let Some(plan) = &answered.report.plan else {
        return Ok(Vec::new());
    };
    let mut seen = Vec::new();
    for shown in &answered.case_observations(TRAP) {
        if let Some(detail) = unfit_reason(row, plan, shown) {
            let reason = Reason::Unobservable;
            return Err(Unmeasured { reason, detail });
        }
        seen.extend(attempt(row, plan, shown, answered.scene));
    }
    Ok(seen)
}

/// Returns the reason why the earlier calls make the test useless: one failed, or created the context itself.
fn unfit_reason(row: &CallRow, plan: &Plan, shown: &Observation) -> Option<String> {
    for (index, symbol) in row.before.iter().enumerate() {
        let Some(step) = shown.step(&recipe::label_before(&row.call, index)) else {
            continue;
        };
        if let Some(status) = &step.status
            && status.code != 0
        {
            let status = status_name(status);
            return Some(format!(
                "{symbol}, which is called before it, returned {status}"
            ));
        }
        let mut gpus = plan.gpus.iter().take(plan.used_gpus);
        if gpus.any(|uuid| has_context(plan, step, uuid)) {
            return Some(format!(
                "{symbol}, which is called before it, creates a context"
            ));
        }
    }
    None
}

fn attempt(row: &CallRow, plan: &Plan, shown: &Observation, scene: &Scene) -> Option<CallSeen> {
    let call = shown.step(&recipe::label(&row.call))?;
    let code = |label: &str| shown.step(label)?.status.as_ref().map(|status| status.code);
    let mut initialised_before = None;
    if let Some(last) = row.before.len().checked_sub(1) {
        let step = shown.step(&recipe::label_before(&row.call, last));
        initialised_before = step.and_then(|step| step.initialised);
    }
    let reads_mask = match (code(INIT), code(COUNT)) {
        _ if initialised_before == Some(true) => None,
        (Some(NO_DEVICE), _) => Some(false),
        (Some(0), Some(0)) => Some(true),
        _ => None,
    };
    let masked = plan.gpus.iter().take(plan.used_gpus).enumerate();
    let context_on = masked.filter(|(_, uuid)| has_context(plan, call, uuid));
    let used = |uuid: &str| memory(plan, call, uuid).and_then(|memory| memory.used_bytes);
    Some(CallSeen {
        reads_mask,
        initialised_before,
        context_on: context_on
            .filter_map(|(ordinal, _)| u32::try_from(ordinal).ok())
            .collect(),
        device_used_bytes: scene.gpus.iter().map(|gpu| used(&gpu.uuid)).collect(),
        status: call.status.as_ref().map(status_name),
        elapsed_ns: call.elapsed_ns,
    })
}

fn memory<'a>(plan: &Plan, step: &'a StepObservation, uuid: &str) -> Option<&'a MemoryObservation> {
    plan.gpu_name(uuid).and_then(|name| step.memory.get(&name))
}

fn has_context(plan: &Plan, step: &StepObservation, uuid: &str) -> bool {
    let name = plan.gpu_name(uuid);
    let active = step
        .contexts
        .as_ref()
        .is_some_and(|list| name.as_ref().is_some_and(|name| list.contains(name)));
    // A context that is neither primary nor current is visible only in memory. A current context that uses no memory is
    // only a handle: cudaSetDevice of libcudart 11 makes the primary context current and leaves it inactive.
    match memory(plan, step, uuid).and_then(|memory| memory.class) {
        Some(class) => active || matches!(class, Class::Context | Class::Allocation),
        None => active || name.is_some() && step.current == name,
    }
}
