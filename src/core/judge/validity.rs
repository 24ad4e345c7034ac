//! Validity of an attempt: incidents while it was made, and rules about its recording. No rule considers whether the
//! attempt showed the effect.

use cuda_pitfalls_calls::{Effect, status::SIM_NOT_MODELLED};

use crate::event::Event;
use crate::observe::{Scene, baseline_snapshot, begun_steps, has_finished, observe_attempt};
use crate::plan::{CasePlan, Plan};
use crate::recording::Recording;
use crate::scenario::{Class, ExitCheck};
use crate::verdict::Invalidation;
use crate::verdict::Reason;

use super::co_tenant;

/// Returns every reason why an attempt does not count; empty for a valid attempt. A stored report gives the same result
/// as a fresh attempt.
pub fn invalidations(
    plan: &Plan,
    case: &CasePlan,
    recording: &Recording,
    scene: &Scene,
) -> Vec<Invalidation> {
    let mut reasons = recording.incidents.clone();
    let found = [
        (Reason::Protocol, harness_failure(recording)),
        (Reason::NotModelled, not_modelled(case, recording)),
        (Reason::Signalled, harness_signals(recording)),
        (Reason::Hang, unexpected_hang(plan, case, recording)),
        (
            Reason::OomKilled,
            recording
                .exit
                .oom_killed
                .then(|| "killed because host memory ran out".to_string()),
        ),
        (Reason::Crashed, unexpected_crash(plan, case, recording)),
        (Reason::ExitedEarly, exited_early(plan, case, recording)),
        (
            Reason::Unkillable,
            recording
                .exit
                .unkillable
                .then(|| "the worker survived SIGKILL".to_string()),
        ),
        (Reason::LeakedChildren, leaked_children(recording)),
        (Reason::Injected, injected_libraries(recording)),
        (Reason::SamplerLost, missing_readings(recording, scene)),
        (
            Reason::Uncalibrated,
            missing_calibration(plan, recording, scene),
        ),
        (
            Reason::Contaminated,
            co_tenant::find_contamination(case, recording, scene),
        ),
        (Reason::Residue, co_tenant::find_residue(recording, scene)),
        (
            Reason::Contradiction,
            context_contradiction(plan, case, recording, scene),
        ),
    ];
    for (reason, detail) in found {
        if let Some(detail) = detail
            && !reasons.iter().any(|invalid| invalid.reason == reason)
        {
            reasons.push(Invalidation { reason, detail });
        }
    }
    reasons
}

/// Returns the requirements of the effect and of the case for the end of the worker. If a worker did not begin the step
/// that should end it, or any step, it ended for another reason.
fn exit_checks<'a>(
    plan: &'a Plan,
    case: &'a CasePlan,
    recording: &Recording,
) -> impl Iterator<Item = &'a ExitCheck> {
    let exit = &recording.exit;
    let has_begun = begun_steps(recording) > exit.died_at.or(exit.deadline_at).unwrap_or(0);
    let checks = plan
        .effect
        .iter()
        .chain(&case.expect)
        .filter(move |_| has_begun);
    checks
        .filter_map(|check| check.facts.exit.as_ref())
        .flat_map(ExitCheck::allowed_ways)
}

fn label(case: &CasePlan, step: Option<usize>) -> String {
    let step = step.and_then(|step| case.steps.get(step));
    step.map_or_else(|| "no step".to_string(), |step| step.label.clone())
}

/// Returns a status that only the simulated machine returns, and that no real library has.
fn not_modelled(case: &CasePlan, recording: &Recording) -> Option<String> {
    for said in &recording.events {
        let (step, status) = match &said.event {
            Event::End { step, status, .. } => (step, status),
            Event::Probe { step, probe, .. } => (step, &probe.status),
            _ => continue,
        };
        if let Some(status) = status
            && status.code == SIM_NOT_MODELLED
        {
            return Some(format!("at {}", label(case, Some(*step))));
        }
    }
    None
}

fn harness_signals(recording: &Recording) -> Option<String> {
    let sent = &recording.exit.sent;
    (!sent.is_empty() && recording.exit.deadline_at.is_none())
        .then(|| format!("the harness sent {}", sent.join(", ")))
}

fn unexpected_hang(plan: &Plan, case: &CasePlan, recording: &Recording) -> Option<String> {
    let at = recording.exit.deadline_at?;
    let asked = exit_checks(plan, case, recording).any(|exit| *exit == ExitCheck::Deadline);
    (!asked).then(|| {
        format!(
            "{} did not return before its deadline",
            label(case, Some(at))
        )
    })
}

fn unexpected_crash(plan: &Plan, case: &CasePlan, recording: &Recording) -> Option<String> {
    let exit = &recording.exit;
    if exit_checks(plan, case, recording).any(|exit| matches!(exit, ExitCheck::Signal(_))) {
        return None;
    }
    match &exit.signal {
        Some(signal) => {
            let ours = exit.sent.contains(signal) || exit.deadline_at.is_some() || exit.oom_killed;
            let at = exit.died_at.or(begun_steps(recording).checked_sub(1));
            (!ours).then(|| format!("{signal} at {}", label(case, at)))
        }
        // The worker exited normally, but a process that it had forked did not.
        None => lost_process(case, recording)
            .map(|at| format!("a forked process died at {}", label(case, Some(at)))),
    }
}

fn lost_process(case: &CasePlan, recording: &Recording) -> Option<usize> {
    let at = recording.exit.died_at?;
    if recording.exit.said_bye && !exits_at_once(case, Some(at)) {
        Some(at)
    } else {
        None
    }
}

fn exits_at_once(case: &CasePlan, step: Option<usize>) -> bool {
    step.and_then(|step| case.steps.get(step))
        .is_some_and(|step| step.has(Effect::ExitsAtOnce))
}

fn exited_early(plan: &Plan, case: &CasePlan, recording: &Recording) -> Option<String> {
    let code = recording.exit.code?;
    let last = begun_steps(recording).checked_sub(1);
    let asked = exit_checks(plan, case, recording).any(|exit| matches!(exit, ExitCheck::Code(_)));
    let told = recording.exit.deadline_at.is_some() || lost_process(case, recording).is_some();
    let early = !has_finished(case, recording);
    (early && !told && !asked).then(|| format!("exit code {code} at {}", label(case, last)))
}

fn leaked_children(recording: &Recording) -> Option<String> {
    let count = recording.exit.leaked_children;
    (count > 0).then(|| format!("{count} left behind and killed"))
}

fn injected_libraries(recording: &Recording) -> Option<String> {
    recording.events.iter().find_map(|said| match &said.event {
        Event::Ready { injected, .. } if !injected.is_empty() => Some(injected.join(", ")),
        _ => None,
    })
}

/// Returns a failure that the worker reported, or an unknown end. Both are faults of the harness. An incident of the
/// supervisor describes them better, so it takes precedence.
fn harness_failure(recording: &Recording) -> Option<String> {
    let exit = &recording.exit;
    let ended = exit.code.is_some()
        || exit.signal.is_some()
        || exit.deadline_at.is_some()
        || exit.unkillable;
    let said = recording.events.iter().find_map(|said| match &said.event {
        Event::Broken { message } => Some(message.clone()),
        _ => None,
    });
    // A worker that was never started has an incident of the supervisor.
    let unknown = !ended && recording.incidents.is_empty();
    said.or_else(|| unknown.then(|| "how the worker ended is not known".to_string()))
}

/// Returns readings that every attempt has and that are missing, so that other processes would not be noticed. An
/// incident of the supervisor explains the reason better.
fn missing_readings(recording: &Recording, scene: &Scene) -> Option<String> {
    if !recording.incidents.is_empty() {
        return None;
    }
    if baseline_snapshot(recording).is_none() {
        return Some("memory before the first step is not known".to_string());
    }
    if recording.polling.is_none() {
        return Some("memory between the steps is not known".to_string());
    }
    let all = scene.gpus.len();
    for snapshot in &recording.snapshots {
        let read = snapshot.snapshot.gpus.len();
        if read != all {
            return Some(format!("{read} GPUs were read, but the machine has {all}"));
        }
    }
    None
}

/// Returns a GPU of the scenario without any calibration. Every run calibrates its GPUs. A calibration that is not
/// sound is marked as such, and memory is not judged by it. Without a calibration, neither noise nor a co-tenant that
/// started since is known.
fn missing_calibration(plan: &Plan, recording: &Recording, scene: &Scene) -> Option<String> {
    if scene.calibration.is_empty() && !scene.gpus.is_empty() {
        return Some("no GPU was calibrated".to_string());
    }
    let mut used = plan.gpus.iter().take(plan.used_gpus);
    let uuid = used.find(|uuid| scene.calibration_of(uuid, recording).is_none())?;
    Some(format!("{uuid} was not calibrated"))
}

/// Returns a context that is active according to the API, on a GPU with unchanged memory.
///
/// The opposite is not a contradiction: memory may change without a primary context (`cuInit` of the first client,
/// `cuCtxCreate`, managed memory, another process). With MIG, a context allocates memory of an instance, which the
/// GPU's figure does not include.
fn context_contradiction(
    plan: &Plan,
    case: &CasePlan,
    recording: &Recording,
    scene: &Scene,
) -> Option<String> {
    let mut with_mig = Vec::new();
    for gpu in scene.gpus {
        if gpu.mig == Some(true) {
            with_mig.extend(plan.gpu_name(&gpu.uuid));
        }
    }
    for step in &observe_attempt(plan, case, recording, scene).steps {
        for name in step.contexts.iter().flatten() {
            let class = step.memory.get(name).and_then(|memory| memory.class);
            if class == Some(Class::None) && !with_mig.contains(name) {
                return Some(format!(
                    "at {}: the primary context of {name} is active, and its memory did not change",
                    step.label
                ));
            }
        }
    }
    None
}
