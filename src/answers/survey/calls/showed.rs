//! What the attempts of a call showed.

use super::recipe::Recipe;
use super::{COUNT, CallSeen, INIT, NO_DEVICE};
use crate::survey::row::Unmeasured;
use cuda_pitfalls_core::observe::{MemoryObservation, Observation, Scene, StepObservation, observe};
use cuda_pitfalls_core::plan::Plan;
use cuda_pitfalls_core::report::ScenarioReport;
use cuda_pitfalls_core::scenario::Class;
use cuda_pitfalls_core::verdict::Reason;

/// What each attempt that counts showed.
///
/// # Errors
/// An attempt shows nothing about the call, and why.
pub(super) fn seen(recipe: &Recipe, done: &ScenarioReport, scene: &Scene) -> Result<Vec<CallSeen>, Unmeasured> {
    let (Some(plan), Some(case)) = (&done.plan, done.cases.first()) else { return Ok(Vec::new()) };
    let Some(planned) = plan.case(&case.name) else { return Ok(Vec::new()) };
    let counting = case.attempts.iter().filter(|attempt| attempt.judged.invalid.is_empty());
    let row = |shown: Observation| match unfit(recipe, plan, &shown) {
        Some(why) => Some(Err(why)),
        None => of(recipe, plan, &shown, scene).map(Ok),
    };
    counting.filter_map(|attempt| row(observe(plan, planned, &attempt.recording, scene))).collect()
}

/// Why the earlier calls leave nothing to ask about: one failed, or made the context itself.
fn unfit(recipe: &Recipe, plan: &Plan, shown: &Observation) -> Option<Unmeasured> {
    let because = |detail: String| Unmeasured { reason: Reason::Unobservable, detail };
    recipe.before.iter().find_map(|before| {
        let step = shown.step(&before.label)?;
        match &step.status {
            Some(status) if status.code != 0 => {
                let name = status.name.clone().unwrap_or_else(|| status.code.to_string());
                return Some(because(format!("{}, which is called before it, returned {name}", before.symbol)));
            }
            _ => {}
        }
        let made = plan.gpus.iter().take(plan.used_gpus).any(|uuid| has_context(plan, step, uuid));
        made.then(|| because(format!("{}, which is called before it, makes a context", before.symbol)))
    })
}

fn of(recipe: &Recipe, plan: &Plan, shown: &Observation, scene: &Scene) -> Option<CallSeen> {
    let call = shown.step(&recipe.label)?;
    let code = |label: &str| shown.step(label)?.status.as_ref().map(|status| status.code);
    let initialised_before = recipe.before.last().and_then(|before| shown.step(&before.label)?.initialised);
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
        context_on: context_on.filter_map(|(ordinal, _)| u32::try_from(ordinal).ok()).collect(),
        device_used_bytes: scene.gpus.iter().map(|gpu| used(&gpu.uuid)).collect(),
        status: call.status.as_ref().map(|status| status.name.clone().unwrap_or_else(|| status.code.to_string())),
        elapsed_ns: call.elapsed_ns,
    })
}

fn memory<'a>(plan: &Plan, step: &'a StepObservation, uuid: &str) -> Option<&'a MemoryObservation> {
    plan.gpu_name(uuid).and_then(|name| step.memory.get(&name))
}

/// Whether a GPU had a context after a step.
fn has_context(plan: &Plan, step: &StepObservation, uuid: &str) -> bool {
    let name = plan.gpu_name(uuid);
    let active = step.contexts.as_ref().is_some_and(|list| name.as_ref().is_some_and(|name| list.contains(name)));
    // A context that is neither primary nor current shows only in memory. A current context that takes no memory is
    // only a handle: cudaSetDevice of libcudart 11 makes the primary context current and leaves it inactive.
    match memory(plan, step, uuid).and_then(|memory| memory.class) {
        Some(class) => active || matches!(class, Class::Context | Class::Allocation),
        None => active || name.is_some() && step.current == name,
    }
}
