//! The observations of a case as short text, the same in every format; each format escapes it.

use std::collections::BTreeMap;

use crate::change;
use cuda_pitfalls_core::fact::words::{self, in_order};
use cuda_pitfalls_core::fact::{Change, FactColumn, KINDS, Look, Unasked};
use cuda_pitfalls_core::observation::{Class, Hidden, MemoryObservation, StepObservation};
use cuda_pitfalls_core::report::{Attempt, CaseView, OutcomeRecord, OutcomeView, ScenarioView};
use cuda_pitfalls_core::scenario::Check;
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::{Provenance, Verdict};

/// Returns the verdict with its reason and, where it applies, with a note that it is simulated.
pub fn verdict(verdict: &Verdict) -> String {
    let mut words = verdict.kind.name().to_owned();
    if let Some(reason) = verdict.reason {
        words.push_str(": ");
        words.push_str(&reason.name());
    }
    if verdict.provenance == Provenance::Simulated {
        words.push_str(" (simulated)");
    }
    words
}

/// Returns whether the verdict is the expected one, as text.
pub fn expectation_words(verdict: &Verdict) -> String {
    verdict.expectation.name().replace('_', " ")
}

/// Returns the libcudart of a scenario: `libcudart 13.0`.
pub fn libcudart(scenario: &ScenarioView<'_>) -> Option<String> {
    let runtime = scenario.libcudart.as_ref()?;
    Some(match &runtime.version {
        Some(version) => format!("libcudart {version}"),
        None => "libcudart of unknown version".to_owned(),
    })
}

/// Returns the share of attempts with the most frequent outcome: `5/5`.
pub fn outcome_frequency(case: &CaseView<'_>) -> String {
    let count = case.outcomes.first().map_or(0, |outcome| outcome.count);
    format!("{count}/{}", case.made)
}

/// Returns the line about a case: its most frequent outcome, the number of others, and the number of attempts that do
/// not count.
pub fn case_line(scenario: &ScenarioView<'_>, case: &CaseView<'_>) -> Vec<String> {
    let mut facts = match case.outcomes.first() {
        Some(outcome) => shown(scenario, outcome),
        None if case.made == 0 => vec!["no attempt was made".to_owned()],
        None => vec!["no attempt counts".to_owned()],
    };
    if case.outcomes.len() > 1 {
        facts.push(format!("{} different outcomes", case.outcomes.len()));
    }
    for (reason, count) in invalid(case) {
        facts.push(format!("{count} not counted ({reason})"));
    }
    facts
}

/// Returns the observations of one outcome at the steps that the question asks about, and at the last step.
pub fn shown(scenario: &ScenarioView<'_>, outcome: &OutcomeView<'_>) -> Vec<String> {
    let observation = match outcome.seen {
        OutcomeRecord::Whole(observation) => observation,
        OutcomeRecord::Compact(kept) => return changes_and_memory(&kept.facts, outcome),
    };
    let effect: &[Check] = scenario.plan.map_or(&[], |plan| &plan.effect);
    let last = Look::all(observation).last();
    let mut facts = Vec::new();
    for (index, check) in effect.iter().enumerate() {
        let earlier = effect.iter().take(index).any(|other| other.at == check.at);
        let Some(look) = Look::at(observation, &check.at) else {
            continue;
        };
        if earlier || last.is_some_and(|last| last.step.label == check.at) {
            continue;
        }
        let asked = checks_at(effect, &check.at);
        let mut words = call(look.step, &asked);
        words.extend(surrounding_words(&look, Some(&asked)));
        facts.push(format!("{}: {}", check.at, words.join(", ")));
    }
    if let Some(last) = last {
        let label = &last.step.label;
        let returned = call(last.step, &checks_at(effect, label));
        if !returned.is_empty() {
            facts.push(format!("{label}: {}", returned.join(", ")));
        }
        facts.extend(surrounding_words(&last, None));
    }
    if observation.end != "0" && !observation.end.is_empty() {
        facts.push(format!("ended {}", observation.end));
    }
    facts
}

fn checks_at<'c>(checks: &'c [Check], label: &str) -> Vec<&'c Check> {
    checks.iter().filter(|check| check.at == label).collect()
}

/// Returns the observations of an outcome in a compact report: the changes from step to step, and the memory of each
/// GPU.
fn changes_and_memory(facts: &[Change], outcome: &OutcomeView<'_>) -> Vec<String> {
    let mut facts: Vec<String> = facts.iter().map(change::sentence).collect();
    let mut memory = Vec::new();
    for (gpu, bytes) in outcome.largest_change() {
        memory.push(format!("{gpu} {}", units::delta_or_unread(bytes)));
    }
    facts.push(listed(memory, "memory unchanged"));
    facts
}

/// Returns the result of the call of a step: the status if the question checks it or it is an error, and the values
/// that the question checks.
fn call(step: &StepObservation, asked: &[&Check]) -> Vec<String> {
    let mut words = Vec::new();
    if !step.returned {
        words.push("did not return".to_owned());
    }
    let is_status_asked = asked.iter().any(|check| !check.facts.status.is_empty());
    if let Some(status) = &step.status
        && (is_status_asked || status.code != 0)
    {
        words.push(words::status(status));
    }
    for (name, value) in step.values.iter().chain(&step.varying) {
        let mut asks = asked.iter().map(|check| &check.facts.value);
        if asks.any(|values| values.contains_key(name)) {
            words.push(format!("{name}={}", words::value(value)));
        }
    }
    words
}

/// Returns the observations around a step: those that the question checks, or all if `asked` is `None`.
fn surrounding_words(look: &Look<'_>, asked: Option<&[&Check]>) -> Vec<String> {
    let mut words = Vec::new();
    let mut is_memory_wanted = false;
    for kind in &KINDS {
        let is_wanted = match (asked, kind.told) {
            (Some(checks), _) => checks.iter().any(|check| kind.is_asked(&check.facts)),
            (None, FactColumn::Alone { unasked, .. }) => unasked != Unasked::Never,
            (None, _) => true,
        };
        match kind.told {
            _ if !is_wanted => {}
            FactColumn::Alone { .. } => {
                words.extend((kind.seen)(look, None).map(|seen| seen.words));
            }
            told => is_memory_wanted |= told == FactColumn::WithMemory,
        }
    }
    let memory = &look.step.memory;
    if is_memory_wanted && !memory.is_empty() {
        let mut changed = Vec::new();
        for (gpu, memory) in in_order(memory) {
            if memory.class != Some(Class::None) || memory.peak_bytes.is_some() {
                changed.push(format!("{gpu} {}", self::memory(memory)));
            }
        }
        words.push(listed(changed, "memory unchanged"));
    }
    words
}

/// Returns one GPU's memory: `+530 MiB (context)`, with the peak if it was higher. Without a sound calibration, as on a
/// GPU that `--gpus` leaves out, it is `(not judged)`.
pub fn memory(memory: &MemoryObservation) -> String {
    let mut words = units::delta_or_unread(memory.used_bytes);
    match memory.class {
        _ if memory.hidden == Some(Hidden::Uncalibrated) => words += " (not judged)",
        None | Some(Class::None) => {}
        Some(class) => words += &format!(" ({})", class.name()),
    }
    if let Some(peak) = memory.peak_bytes {
        words += &format!(" peak {}", units::format_delta(peak));
    }
    words
}

/// Returns the memory after a step, a line per GPU that changed or could not be read and one for all others.
pub fn memory_lines(step: &StepObservation) -> Vec<String> {
    let mut lines = Vec::new();
    for (gpu, memory) in in_order(&step.memory) {
        if memory.used_bytes != Some(0) || memory.peak_bytes.is_some() {
            lines.push(format!("{gpu} {}", self::memory(memory)));
        }
    }
    match (lines.len(), step.memory.len()) {
        (changed, all) if changed == all => {}
        (0, _) => lines.push("0".to_owned()),
        _ => lines.push("others 0".to_owned()),
    }
    lines
}

/// Returns the memory of `trap` and of `control`, for each GPU where either changed: `gpu0 +530 MiB / 0`.
pub(super) fn trap_and_control(scenario: &ScenarioView<'_>) -> Vec<(String, [i64; 2])> {
    // By GPU: what the trap changed, and what the control did.
    let mut changes: BTreeMap<(usize, String), [Option<Option<i64>>; 2]> = BTreeMap::new();
    for (side, name) in ["trap", "control"].into_iter().enumerate() {
        let Some(outcome) = scenario.case(name).and_then(|case| case.outcomes.first()) else {
            continue;
        };
        for (gpu, bytes) in outcome.largest_change() {
            let both = changes.entry((gpu.len(), gpu)).or_default();
            if let Some(side) = both.get_mut(side) {
                side.get_or_insert(bytes);
            }
        }
    }
    let mut lines = Vec::new();
    for ((_, gpu), both) in changes {
        if both.iter().flatten().any(|bytes| *bytes != Some(0)) {
            let words = both.map(|bytes| match bytes {
                Some(bytes) => units::delta_or_unread(bytes),
                None => "–".to_owned(),
            });
            let bytes = both.map(|bytes| bytes.flatten().unwrap_or(0));
            lines.push((format!("{gpu} {}", words.join(" / ")), bytes));
        }
    }
    lines
}

/// Returns the reasons why attempts do not count, with the number of attempts for each; an attempt is counted by its
/// first reason.
pub fn invalid(case: &CaseView<'_>) -> Vec<(String, usize)> {
    let mut reasons = Vec::new();
    for (reason, count) in &case.not_counted {
        reasons.push((reason.name(), *count));
    }
    reasons
}

/// Returns the attempt to show if only one is shown: the first that counts, else the first.
pub fn example_attempt<'r>(case: &CaseView<'r>) -> Option<&'r Attempt> {
    let mut attempts = case.attempts.iter();
    let counted = attempts.find(|attempt| attempt.judged.outcome.is_some());
    counted.or(case.attempts.first())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_case_is_told_in_one_line() {
        let report = fixture::report();
        let scenario = &report.scenarios[0].view();
        assert_eq!(outcome_frequency(&scenario.cases[0]), "3/3");
        assert_eq!(
            case_line(scenario, &scenario.cases[0]).join(" · "),
            "cudaGetDeviceCount: count=2 · sees gpu0,gpu1 · contexts gpu0 · gpu0 +530 MiB (context)"
        );
        assert_eq!(
            case_line(scenario, &scenario.cases[1]).join(" · "),
            "cudaGetDeviceCount: count=1 · sees gpu1 · no context · memory unchanged"
        );
        let words = "gpu0 +530 MiB / 0".to_owned();
        assert_eq!(trap_and_control(scenario), [(words, [530 << 20, 0])]);
    }

    #[test]
    fn attempts_that_do_not_count_are_told_with_their_reason() {
        let report = fixture::report();
        let scenario = &report.scenarios[2].view();
        let line = case_line(scenario, &scenario.cases[0]).join(" · ");
        assert!(
            line.contains("2 different outcomes") && line.contains("1 not counted (contaminated)"),
            "{line}"
        );
        assert_eq!(verdict(scenario.verdict), "inconclusive: intermittent");
    }

    #[test]
    fn a_change_that_was_not_read_is_not_zero() {
        assert_eq!(memory(&MemoryObservation::default()), "not read");
    }
}
