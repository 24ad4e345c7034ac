//! The picture of a page: the memory of each GPU in the trap beside that in the control.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::fact::words::in_order;
use cuda_pitfalls::fact::{FactColumn, FactKind, KINDS};
use cuda_pitfalls::observation::{Observation, StepObservation};
use cuda_pitfalls::plan::Plan;
use cuda_pitfalls::render::svg::file::{CaseMemory, bars};

use super::measured::Measurement;

/// The most lines of a case, for a file of at most 4 KiB. Of more, those stay that checks name, and the last.
const MOST_LINES: usize = 17;

/// The memory of trap and control by step. None if it tells nothing: no memory changed, or as much in both cases, and
/// the question is about something else.
pub(super) fn memory_by_step(measurement: &Measurement) -> Option<String> {
    let plan = measurement.part.plan.as_ref()?;
    let is_asked = plan.effect.iter().any(|check| {
        KINDS
            .iter()
            .any(|kind| is_of_memory(kind) && kind.is_asked(&check.facts))
    });
    let mut cases = Vec::new();
    for name in ["trap", "control"] {
        let Some(outcome) = measurement
            .part
            .case(name)
            .and_then(|case| case.outcomes.first())
        else {
            continue;
        };
        let does = plan
            .case(name)
            .map(|case| case.does.replace('`', ""))
            .unwrap_or_default();
        cases.push(CaseMemory {
            name: name.to_owned(),
            does,
            steps: levels(&outcome.observation),
        });
    }
    let all = cases
        .iter()
        .flat_map(|case| &case.steps)
        .flat_map(|(_, memory)| memory);
    let used: BTreeSet<String> = all
        .filter(|(_, bytes)| *bytes != 0)
        .map(|(gpu, _)| gpu.clone())
        .collect();
    let ends: Vec<_> = cases.iter().map(most_and_last).collect();
    let differ = ends.len() == 2 && ends.first() != ends.last();
    if used.is_empty() || !(differ || is_asked) {
        return None;
    }
    for CaseMemory { steps, .. } in &mut cases {
        steps
            .iter_mut()
            .for_each(|(_, memory)| memory.retain(|(gpu, _)| used.contains(gpu)));
        steps.dedup_by(|next, before| next.1 == before.1 && !is_checked(plan, &next.0));
        let untouched = steps
            .iter()
            .take_while(|(_, memory)| memory.iter().all(|(_, bytes)| *bytes == 0))
            .count();
        steps.drain(..untouched.min(steps.len().saturating_sub(1)));
        let most = (MOST_LINES / (used.len() + 1)).max(1);
        if steps.len() > most {
            let last = steps.last().cloned();
            steps.retain(|step| Some(step) == last.as_ref() || is_checked(plan, &step.0));
        }
        steps.drain(..steps.len().saturating_sub(most));
    }
    let note = format!(
        "MiB on each GPU, after steps that change it or show the answer.\n{}, driver {}",
        measurement.gpus(),
        measurement.driver()
    );
    Some(bars(
        "MiB on each GPU by step, the trap beside the control",
        &cases,
        &note,
    ))
}

fn is_of_memory(kind: &FactKind) -> bool {
    kind.told == FactColumn::WithMemory || ["memory", "contexts"].contains(&kind.key)
}

fn is_checked(plan: &Plan, step: &str) -> bool {
    plan.effect.iter().any(|check| check.at == step)
}

/// Each step with the memory of each GPU, and before it the most in between, if that is more.
fn levels(seen: &Observation) -> Vec<(String, Vec<(String, i64)>)> {
    let mut levels = Vec::new();
    for StepObservation { label, memory, .. } in &seen.steps {
        let read = in_order(memory)
            .into_iter()
            .filter_map(|(gpu, it)| Some((gpu, it.used_bytes?, it.peak_bytes)));
        let read: Vec<(&String, i64, Option<i64>)> = read.collect();
        if read.iter().any(|(.., peak)| peak.is_some()) {
            let most = read
                .iter()
                .map(|(gpu, used, peak)| ((*gpu).clone(), peak.unwrap_or(*used)));
            levels.push((format!("{label}, at most"), most.collect()));
        }
        if !read.is_empty() {
            levels.push((
                label.clone(),
                read.iter()
                    .map(|(gpu, used, _)| ((*gpu).clone(), *used))
                    .collect(),
            ));
        }
    }
    levels
}

/// The most and the last of each GPU in whole MiB, but for GPUs that stay below one: less may be noise.
fn most_and_last(case: &CaseMemory) -> BTreeMap<&str, [i64; 2]> {
    let mut ends: BTreeMap<&str, [i64; 2]> = BTreeMap::new();
    for (gpu, bytes) in case.steps.iter().flat_map(|(_, memory)| memory) {
        let [most, last] = ends.entry(gpu).or_default();
        (*most, *last) = ((*most).max(bytes >> 20), bytes >> 20);
    }
    ends.retain(|_, ends| *ends != [0, 0]);
    ends
}
