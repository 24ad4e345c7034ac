//! Two measurements of one scenario.

use std::collections::BTreeSet;

use super::differing::{Differing, differing};
use super::excuse::{Excuses, MachineFacts};
use super::pair::ComparedEntry;
use super::{EntryDifference, FactDifference, Relation, Share};
use cuda_pitfalls_core::fact;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::observation::Hidden;
use cuda_pitfalls_core::observe::Observation;
use cuda_pitfalls_core::plan::Plan;
use cuda_pitfalls_core::report::{CaseView, OutcomeView, ReportView, ScenarioView};
use cuda_pitfalls_core::scenario::Class;
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Verdict};

/// The scenarios of a report. A scenario without an attempt that counts is unmeasured, whatever its verdict.
pub(super) fn entries<'v, 'r>(report: &'v ReportView<'r>) -> Vec<ComparedEntry<'v, ScenarioView<'r>>> {
    let entry = |scenario: &'_ ScenarioView<'_>| {
        let shows = scenario.cases.iter().any(|case| !case.outcomes.is_empty());
        let did_not_run = matches!(scenario.verdict.kind, Kind::Skipped | Kind::HarnessError);
        let verdict = &scenario.verdict;
        let why = || verdict.reason.map_or_else(|| verdict.kind.name().to_string(), |reason| reason.name());
        (!shows || did_not_run).then(why)
    };
    let entries = report.scenarios.iter().map(|scenario| ComparedEntry {
        name: scenario.name.to_string(),
        libcudart: scenario.libcudart.as_ref().and_then(|runtime| runtime.version.clone()),
        unmeasured: entry(scenario),
        item: scenario,
    });
    entries.collect()
}

/// Compares the verdicts, and the first fact of each case that differs.
pub(super) fn compare(both: [&ScenarioView<'_>; 2], machines: [&Machine; 2]) -> Relation {
    let [a, b] = both;
    let mut outcomes = both.into_iter().flat_map(|one| &one.cases).flat_map(|case| &case.outcomes);
    if outcomes.any(|outcome| outcome.observation().is_none()) {
        return kept(both, machines);
    }
    let (Some(plan_a), Some(plan_b)) = (a.plan, b.plan) else {
        let change = verdict(a.verdict, b.verdict, true);
        return change
            .map_or(Relation::Same, |change| Relation::Changed(EntryDifference::new(vec![change], Vec::new())));
    };
    let own = MachineFacts::new(both, machines);
    let (mut changed, mut explained, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_same_question = plan_a.asks(None) == plan_b.asks(None);
    let mut makes_other_calls = false;
    if a.sha256 != b.sha256 {
        notes.push("the scenario was changed in between".to_string());
    }
    for case in &a.cases {
        let name = &case.name;
        let Some(counterpart) = b.cases.iter().find(|known| known.name == *name) else { continue };
        if plan_a.asks(Some(name)) != plan_b.asks(Some(name)) {
            (is_same_question, makes_other_calls) = (false, true);
            notes.push(format!("{name} makes other calls"));
            continue;
        }
        let Some((change, why)) = outcomes_apart(&own, [plan_a, plan_b], [case, counterpart]) else { continue };
        match why {
            None => changed.push(change),
            Some(why) => {
                is_same_question = false;
                notes.push(why);
                explained.push(change);
            }
        }
    }
    let is_other_case = names(a) != names(b);
    if is_other_case {
        is_same_question = false;
        notes.push("it has other cases".to_string());
    }
    let is_same_expectation = plan_a.expects() == plan_b.expects();
    if let Some(change) = verdict(a.verdict, b.verdict, is_same_expectation) {
        // A verdict beside a case that behaves differently follows from it.
        let counts = is_same_question || !changed.is_empty();
        if counts { &mut changed } else { &mut explained }.insert(0, change);
    }
    let is_other_question = !explained.is_empty() || is_other_case || makes_other_calls;
    match (changed.is_empty(), is_other_question) {
        (false, _) => Relation::Changed(EntryDifference::new(changed, notes)),
        (true, true) => Relation::Explained(EntryDifference::new(explained, notes)),
        (true, false) => Relation::Same,
    }
}

/// As [`compare`], for compact reports: by the facts that they keep. The machines explain only values that are
/// properties of the machines, because a compact report has nothing else to tell it by.
fn kept(both: [&ScenarioView<'_>; 2], machines: [&Machine; 2]) -> Relation {
    let [a, b] = both;
    let own = MachineFacts::new(both, machines);
    let [asked_a, asked_b] = both.map(ScenarioView::asked);
    if asked_a != asked_b {
        let change = verdict(a.verdict, b.verdict, false);
        let notes = vec!["it makes other calls, or asks for another effect".to_string()];
        return Relation::Explained(EntryDifference::new(change.into_iter().collect(), notes));
    }
    let (mut changed, mut explained, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for case in &a.cases {
        let Some(counterpart) = b.cases.iter().find(|known| known.name == case.name) else { continue };
        let is_mixture = both.iter().all(|it| it.nondeterministic);
        type Counted = (u32, Vec<fact::Change>);
        let [of_a, of_b] = [case, counterpart].map(|case| -> Vec<Counted> {
            case.outcomes.iter().map(|outcome| (outcome.count, outcome.changes().into_owned())).collect()
        });
        let has = |all: &[Counted], changes: &[fact::Change]| all.iter().any(|(_, known)| known == changes);
        let only_a = of_a.iter().find(|(_, changes)| !has(&of_b, changes));
        let only_b = of_b.iter().find(|(_, changes)| !has(&of_a, changes));
        let is_shared = of_a.iter().any(|(_, changes)| has(&of_b, changes));
        let (Some(first_a), Some(first_b)) = (of_a.first(), of_b.first()) else { continue };
        if (only_a.is_none() && only_b.is_none()) || (is_mixture && is_shared) {
            continue;
        }
        let ((count_a, changes_a), (count_b, changes_b)) = (only_a.unwrap_or(first_a), only_b.unwrap_or(first_b));
        let share = |count: u32, all: &[Counted]| Share {
            count: count.into(),
            of: all.iter().map(|(count, _)| u64::from(*count)).sum(),
        };
        let seen = Some([share(*count_a, &of_a), share(*count_b, &of_b)]);
        let differing = fact::differing(changes_a, changes_b);
        let why = |(a, b): &(Option<&fact::Change>, Option<&fact::Change>)| own.of_change((*a)?, (*b)?);
        let Some(first) = differing.iter().find(|it| why(it).is_none()).or(differing.first()) else { continue };
        let step = first.0.or(first.1).map(|change| change.label.clone()).filter(|label| !label.is_empty());
        let changes = Some([first.0.cloned(), first.1.cloned()]);
        let change = FactDifference {
            case: Some(case.name.to_string()),
            step,
            changes,
            seen,
            ..FactDifference::new("shows", "", "")
        };
        match why(first) {
            None => changed.push(change),
            Some(what) => {
                notes.push(format!("{} shows {what}", case.name));
                explained.push(change);
            }
        }
    }
    if let Some(change) = verdict(a.verdict, b.verdict, a.sha256 == b.sha256) {
        let counts = explained.is_empty() || !changed.is_empty();
        if counts { &mut changed } else { &mut explained }.insert(0, change);
    }
    match (changed.is_empty(), explained.is_empty()) {
        (false, _) => Relation::Changed(EntryDifference::new(changed, notes)),
        (true, false) => Relation::Explained(EntryDifference::new(explained, notes)),
        (true, true) => Relation::Same,
    }
}

/// The names of the cases, sorted.
fn names<'r>(report: &ScenarioView<'r>) -> BTreeSet<&'r str> {
    report.cases.iter().map(|case| case.name).collect()
}

/// The difference between two verdicts. Whether an expectation is met counts only if both files expect the same.
fn verdict(a: &Verdict, b: &Verdict, is_same_expectation: bool) -> Option<FactDifference> {
    let [a, b] = [a, b].map(|verdict| {
        let is_unexpected = is_same_expectation && verdict.expectation == ExpectationMet::Unexpected;
        let mut words = verdict.kind.name().to_string();
        words.extend(verdict.reason.map(|reason| format!(": {}", reason.name())));
        words.push_str(if is_unexpected { ", unexpected" } else { "" });
        words
    });
    (a != b).then(|| FactDifference::new("verdict", a, b))
}

/// The first difference between the outcomes of a case, and what explains it; none if the sets are the same. If the
/// scenario is nondeterministic, one common outcome is enough, because a few attempts show only some of them.
fn outcomes_apart(
    own: &MachineFacts,
    plans: [&Plan; 2],
    cases: [&CaseView<'_>; 2],
) -> Option<(FactDifference, Option<String>)> {
    let [plan_a, plan_b] = plans;
    let common = plan_a.gpus.len().min(plan_b.gpus.len());
    let (varying, unmeasured) = (varying(cases), unmeasured(cases));
    let [a, b] = cases.map(|case| -> Vec<(u32, Observation)> {
        let whole = case.outcomes.iter().filter_map(|outcome| Some((outcome.count, outcome.observation()?)));
        whole.map(|(count, observation)| (count, canonical(observation, common, &varying, &unmeasured))).collect()
    });
    let (first_a, first_b) = (a.first()?, b.first()?);
    let name = &cases[0].name;
    let excuses = Excuses::new(own, plans, name);
    let is_excused =
        |a: &Observation, b: &Observation| differing(a, b).iter().all(|fact| excuses.of(fact, [a, b]).is_some());
    let is_mixture = plan_a.nondeterministic && plan_b.nondeterministic;
    // Two outcomes without a counterpart; none if the sets are the same.
    let apart = |is_alike: &dyn Fn(&Observation, &Observation) -> bool| {
        let only_a = a.iter().find(|(_, it)| !b.iter().any(|(_, other)| is_alike(it, other)));
        let only_b = b.iter().find(|(_, it)| !a.iter().any(|(_, other)| is_alike(other, it)));
        let is_shared = a.iter().any(|(_, it)| b.iter().any(|(_, other)| is_alike(it, other)));
        let is_apart = (only_a.is_some() || only_b.is_some()) && !(is_mixture && is_shared);
        is_apart.then(|| (only_a.unwrap_or(first_a), only_b.unwrap_or(first_b)))
    };
    apart(&|a, b| a == b)?;
    // Outcomes that nothing explains come first.
    let mut pairs = a.iter().flat_map(|it| b.iter().map(move |other| (it, other)));
    let explained = || pairs.find(|((_, it), (_, other))| it != other && is_excused(it, other));
    let ((count_a, shown_a), (count_b, shown_b)) = apart(&is_excused).or_else(explained)?;
    let share = |count: u32, seen: &[(u32, Observation)]| {
        let of = seen.iter().map(|(count, _)| u64::from(*count)).sum();
        Share { count: count.into(), of }
    };
    let seen = [share(*count_a, &a), share(*count_b, &b)];
    let why = |fact: &Differing| excuses.of(fact, [shown_a, shown_b]);
    let facts = differing(shown_a, shown_b);
    let first = *facts.iter().find(|fact| why(fact).is_none()).or(facts.first())?;
    Some((FactDifference { case: Some(name.to_string()), seen: Some(seen), ..first.into() }, why(&first)))
}

/// The outputs, by label and name, that vary in either measurement. Both are asked, because a later version of the
/// program may know more outputs that vary.
fn varying(cases: [&CaseView<'_>; 2]) -> BTreeSet<(String, String)> {
    let outcomes = cases.into_iter().flat_map(|case| &case.outcomes);
    let steps = outcomes.filter_map(OutcomeView::observation).flat_map(|observation| &observation.steps);
    steps.flat_map(|step| step.varying.keys().map(|name| (step.label.clone(), name.clone()))).collect()
}

/// The GPUs whose memory one of the measurements does not know, such as those that `--gpus` left out.
fn unmeasured(cases: [&CaseView<'_>; 2]) -> BTreeSet<String> {
    let outcomes = cases.into_iter().flat_map(|case| &case.outcomes);
    let steps = outcomes.filter_map(OutcomeView::observation).flat_map(|observation| &observation.steps);
    let memory = steps.flat_map(|step| &step.memory);
    memory.filter(|(_, it)| it.hidden == Some(Hidden::Uncalibrated)).map(|(gpu, _)| gpu.clone()).collect()
}

/// An outcome without outputs that vary, without memory that one side does not know, and without GPUs that only one
/// machine has and that show nothing.
fn canonical(
    observation: &Observation,
    common: usize,
    varying: &BTreeSet<(String, String)>,
    unmeasured: &BTreeSet<String>,
) -> Observation {
    let is_common = |gpu: &str| {
        let place = gpu.strip_prefix("gpu").and_then(|place| place.parse::<usize>().ok());
        place.is_none_or(|place| place < common)
    };
    let mut outcome = observation.outcome();
    for step in &mut outcome.steps {
        step.memory.retain(|gpu, _| !unmeasured.contains(gpu));
        step.memory.retain(|gpu, memory| is_common(gpu) || !matches!(memory.class, None | Some(Class::None)));
        let label = step.label.clone();
        step.values.retain(|name, _| !varying.contains(&(label.clone(), name.clone())));
    }
    outcome
}
