//! Recordings in which one fact that an expectation checks is changed.

use cuda_pitfalls::event::{Event, Probe, Status, Value};
use cuda_pitfalls::fact::FactSet;
use cuda_pitfalls::judge::{Facts, matches};
use cuda_pitfalls::plan::Plan;
use cuda_pitfalls::recording::BarrierSnapshot;
use cuda_pitfalls::report::{Attempt, CaseReport};
use cuda_pitfalls::sample::Reading;
use cuda_pitfalls::scenario::{Check, Class, Matcher};

/// More memory than any scenario allocates.
const A_LOT: u64 = 64 << 30;
/// No library returns this.
const NO_STATUS: i64 = 987_654;

/// Changes an attempt after a step.
type Make = Box<dyn Fn(&mut Attempt, usize)>;

/// A change of the attempts of a case.
struct Change {
    name: &'static str,
    make: Make,
}

impl Change {
    fn new(name: &'static str, make: impl Fn(&mut Attempt, usize) + 'static) -> Change {
        Change {
            name,
            make: Box::new(make),
        }
    }
}

/// Returns, for each fact of each check that applies, its name and all cases with it changed in every attempt.
pub(crate) fn all(
    plan: &Plan,
    cases: &[CaseReport],
    facts: &Facts,
) -> Vec<(String, Vec<CaseReport>)> {
    let mut changed = Vec::new();
    for planned in &plan.cases {
        let checks = planned
            .expect
            .iter()
            .filter(|check| matches(&check.when, facts, &plan.parameters));
        for check in checks {
            let step = planned.steps.iter().position(|step| step.label == check.at);
            for change in changes(check) {
                let mut cases = cases.to_vec();
                for case in cases.iter_mut().filter(|case| case.name == planned.name) {
                    case.attempts
                        .iter_mut()
                        .for_each(|attempt| (change.make)(attempt, step.unwrap_or(0)));
                }
                changed.push((
                    format!("{} at {}: {}", planned.name, check.at, change.name),
                    cases,
                ));
            }
        }
    }
    changed
}

/// Returns the changes of facts that a check covers, by what the worker reported or what was read.
fn changes(check: &Check) -> Vec<Change> {
    // Every fact by name: one that is added does not compile until it is changed here too.
    let FactSet {
        status,
        value,
        visible,
        contexts,
        current,
        initialised,
        memory,
        used_bytes,
        grown_bytes,
        peak_bytes: _, // is read from background polling, which no expectation relies on yet
        process_bytes,
        calls,
        exit,
    } = &check.facts;
    let mut changes: Vec<Change> = Vec::new();
    if !status.is_empty() {
        changes.push(Change::new("status", |attempt, step| {
            returned(attempt, step, |status, _| {
                *status = Some(Status {
                    code: NO_STATUS,
                    name: None,
                })
            });
        }));
    }
    for (name, matcher) in value.clone() {
        let wants_more = is_at_least(&matcher);
        changes.push(Change::new("value", move |attempt, step| {
            returned(attempt, step, |_, values| {
                values
                    .get_mut(&name)
                    .into_iter()
                    .for_each(|value| *value = other(value, wants_more));
            });
        }));
    }
    if visible.is_some() {
        changes.push(Change::new("visible", |attempt, step| {
            probed(attempt, step, |probe| {
                let seen = probe.visible.take().unwrap_or_default();
                let seen = if seen.is_empty() {
                    vec!["GPU-other".to_string()]
                } else {
                    seen[1..].to_vec()
                };
                probe.active = Some(vec![false; seen.len()]);
                probe.visible = Some(seen);
            });
        }));
    }
    if contexts.is_some() {
        changes.push(Change::new("contexts", |attempt, step| {
            probed(attempt, step, |probe| {
                let visible = probe
                    .visible
                    .get_or_insert_with(|| vec!["GPU-other".to_string()])
                    .len();
                let active = probe.active.take().unwrap_or_else(|| vec![false; visible]);
                probe.active = Some(active.into_iter().map(|active| !active).collect());
                probe.status = Some(Status {
                    code: 0,
                    name: None,
                });
            });
        }));
    }
    if current.is_some() {
        changes.push(Change::new("current", |attempt, step| {
            probed(attempt, step, |probe| {
                probe.current = if probe.current.is_some() {
                    None
                } else {
                    Some(0)
                };
                probe.current_status = None;
            });
        }));
    }
    if initialised.is_some() {
        changes.push(Change::new("initialised", |attempt, step| {
            probed(attempt, step, |probe| {
                let was = probe.status.as_ref().is_some_and(|status| status.code == 0);
                probe.status = Some(Status {
                    code: if was { 3 } else { 0 },
                    name: None,
                });
            });
        }));
    }
    if !(memory.is_empty() && used_bytes.is_empty() && grown_bytes.is_empty()) {
        let wants_much = memory
            .values()
            .any(|classes| classes.contains(&Class::Allocation))
            || used_bytes
                .values()
                .chain(grown_bytes.values())
                .any(is_at_least);
        changes.push(Change::new("memory", move |attempt, step| {
            read(attempt, step, |reading| {
                reading.used_bytes = reading
                    .used_bytes
                    .map(|used| if wants_much { 0 } else { used + A_LOT });
            });
        }));
    }
    if !process_bytes.is_empty() {
        changes.push(Change::new("process_bytes", |attempt, step| {
            read(attempt, step, |reading| {
                for process in reading.processes.iter_mut().flatten() {
                    process.used_bytes = process.used_bytes.map(|used| used + A_LOT);
                }
            });
        }));
    }
    for (name, matcher) in calls.clone() {
        let wants_more = is_at_least(&matcher);
        changes.push(Change::new("calls", move |attempt, step| {
            for event in &mut attempt.recording.events {
                if let Event::End {
                    step: at,
                    calls: Some(calls),
                    ..
                } = &mut event.event
                    && *at == step
                {
                    let count = calls.get(&name).copied().unwrap_or(0);
                    calls.insert(name.clone(), if wants_more { 0 } else { count + 1 });
                }
            }
        }));
    }
    if exit.is_some() {
        changes.push(Change::new("exit", |attempt, _| {
            attempt.recording.exit.code =
                Some(attempt.recording.exit.code.unwrap_or_default() + 77);
        }));
    }
    changes
}

/// Returns `true` if any larger value matches too.
fn is_at_least(matcher: &Matcher) -> bool {
    let Matcher {
        eq, ge, le, gt, lt, ..
    } = matcher;
    eq.is_none() && (ge.is_some() || gt.is_some()) && le.is_none() && lt.is_none()
}

/// Returns a different value, and one that is too small if larger ones would match.
fn other(value: &Value, wants_more: bool) -> Value {
    match value {
        Value::Int(_) if wants_more => Value::Int(-1),
        // By more than the tolerance between two sums of memory.
        Value::Int(value) => Value::Int(value + (4 << 20)),
        Value::Float(value) => Value::Float(value + 1.0),
        _ => Value::Text("something else".to_string()),
    }
}

type Values = std::collections::BTreeMap<String, Value>;

/// Changes what a step returned.
fn returned(attempt: &mut Attempt, at: usize, change: impl Fn(&mut Option<Status>, &mut Values)) {
    for event in &mut attempt.recording.events {
        if let Event::End {
            step,
            status,
            values,
            ..
        } = &mut event.event
            && *step == at
        {
            change(status, values);
        }
    }
}

/// Changes what was seen after a step.
fn probed(attempt: &mut Attempt, at: usize, change: impl Fn(&mut Probe)) {
    for event in &mut attempt.recording.events {
        if let Event::Probe { step, probe, .. } = &mut event.event
            && *step == at
        {
            change(probe);
        }
    }
}

/// Changes what was read after a step. A reading that was equal to the one before was left out.
fn read(attempt: &mut Attempt, at: usize, change: impl Fn(&mut Reading)) {
    let is_before = |snapshot: &BarrierSnapshot| {
        !snapshot.after_exit && snapshot.step.is_none_or(|step| step <= at)
    };
    let Some(last) = attempt.recording.snapshots.iter().rposition(is_before) else {
        return;
    };
    let mut changed = attempt.recording.snapshots[last].clone();
    changed.step = Some(at);
    changed.snapshot.gpus.iter_mut().for_each(change);
    if attempt.recording.snapshots[last].step == Some(at) {
        attempt.recording.snapshots[last] = changed;
    } else {
        attempt.recording.snapshots.insert(last + 1, changed);
    }
}
