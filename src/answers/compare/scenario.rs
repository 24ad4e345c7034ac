//! Two measurements of one scenario.

use std::collections::BTreeSet;

use super::differing::differing;
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

/// Compares the verdicts, and the first fact of each case that differs; of a compact report, by the changes it keeps.
pub(super) fn compare(both: [&ScenarioView<'_>; 2], machines: [&Machine; 2]) -> Relation {
    let [a, b] = both;
    let mut outcomes = both.into_iter().flat_map(|one| &one.cases).flat_map(|case| &case.outcomes);
    let is_whole = outcomes.all(|outcome| outcome.observation().is_some());
    let plans = a.plan.zip(b.plan).filter(|_| is_whole).map(<[&Plan; 2]>::from);
    if plans.is_none() && a.asked() != b.asked() {
        let change = verdict(a.verdict, b.verdict, false);
        let notes = vec!["it makes other calls, or asks for another effect".to_string()];
        return Relation::Explained(EntryDifference::new(change.into_iter().collect(), notes));
    }
    let own = MachineFacts::new(both, machines);
    let (mut changed, mut explained, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let asks_alike = |case: Option<&str>| plans.is_none_or(|[a, b]| a.asks(case) == b.asks(case));
    let mut is_same_question = asks_alike(None);
    let mut makes_other_calls = false;
    if plans.is_some() && a.sha256 != b.sha256 {
        notes.push("the scenario was changed in between".to_string());
    }
    let is_mixture = both.iter().all(|it| it.nondeterministic);
    for case in &a.cases {
        let name = &case.name;
        let Some(counterpart) = b.cases.iter().find(|known| known.name == *name) else { continue };
        if !asks_alike(Some(name)) {
            (is_same_question, makes_other_calls) = (false, true);
            notes.push(format!("{name} makes other calls"));
            continue;
        }
        let cases = [case, counterpart];
        let found = match plans {
            Some(plans) => whole_outcomes_apart(&own, plans, cases, is_mixture),
            None => kept_outcomes_apart(&own, cases, is_mixture),
        };
        let Some((change, why)) = found else { continue };
        let change = FactDifference { case: Some(name.to_string()), ..change };
        match why {
            None => changed.push(change),
            Some(why) => {
                is_same_question = false;
                notes.push(why);
                explained.push(change);
            }
        }
    }
    let is_other_case = plans.is_some() && names(a) != names(b);
    if is_other_case {
        is_same_question = false;
        notes.push("it has other cases".to_string());
    }
    let is_same_expectation = plans.map_or(a.sha256 == b.sha256, |[a, b]| a.expects() == b.expects());
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

/// A difference, and why the machines explain it.
type Found = (FactDifference, Option<String>);

/// The first difference between the outcomes of a case, and what explains it; none if the sets are the same. If the
/// scenario is nondeterministic, one common outcome is enough, because a few attempts show only some of them.
fn apart<T: PartialEq>(
    [a, b]: [Vec<(u32, T)>; 2],
    is_mixture: bool,
    differences: impl Fn(&T, &T) -> Vec<Found>,
) -> Option<Found> {
    let (first_a, first_b) = (a.first()?, b.first()?);
    let is_explained = |a: &T, b: &T| differences(a, b).iter().all(|(_, why)| why.is_some());
    // Two outcomes without a counterpart; none if the sets are the same.
    let apart = |is_alike: &dyn Fn(&T, &T) -> bool| {
        let only_a = a.iter().find(|(_, it)| !b.iter().any(|(_, other)| is_alike(it, other)));
        let only_b = b.iter().find(|(_, it)| !a.iter().any(|(_, other)| is_alike(other, it)));
        let is_shared = a.iter().any(|(_, it)| b.iter().any(|(_, other)| is_alike(it, other)));
        let is_apart = (only_a.is_some() || only_b.is_some()) && !(is_mixture && is_shared);
        is_apart.then(|| (only_a.unwrap_or(first_a), only_b.unwrap_or(first_b)))
    };
    apart(&|a, b| a == b)?;
    // Outcomes that nothing explains come first.
    let mut pairs = a.iter().flat_map(|it| b.iter().map(move |other| (it, other)));
    let explained = || pairs.find(|((_, it), (_, other))| it != other && is_explained(it, other));
    let ((count_a, shown_a), (count_b, shown_b)) = apart(&is_explained).or_else(explained)?;
    let share = |count: u32, all: &[(u32, T)]| Share {
        count: count.into(),
        of: all.iter().map(|(count, _)| u64::from(*count)).sum(),
    };
    let seen = Some([share(*count_a, &a), share(*count_b, &b)]);
    let all = differences(shown_a, shown_b);
    let unexplained = all.iter().position(|(_, why)| why.is_none());
    let (change, why) = all.into_iter().nth(unexplained.unwrap_or(0))?;
    Some((FactDifference { seen, ..change }, why))
}

fn whole_outcomes_apart(
    own: &MachineFacts,
    plans: [&Plan; 2],
    cases: [&CaseView<'_>; 2],
    is_mixture: bool,
) -> Option<Found> {
    let common = plans.map(|plan| plan.gpus.len()).into_iter().min().unwrap_or_default();
    let (varying, unmeasured) = (varying(cases), unmeasured(cases));
    let outcomes = cases.map(|case| {
        let whole = case.outcomes.iter().filter_map(|outcome| Some((outcome.count, outcome.observation()?)));
        whole.map(|(count, observation)| (count, canonical(observation, common, &varying, &unmeasured))).collect()
    });
    let excuses = Excuses::new(own, plans, cases[0].name);
    apart(outcomes, is_mixture, |a: &Observation, b| {
        let explained = |fact| {
            let why = excuses.of(&fact, [a, b]);
            (fact, why)
        };
        differing(a, b).into_iter().map(explained).collect()
    })
}

/// The machines explain only values that are properties of the machines, because a compact report has nothing else to
/// tell it by.
fn kept_outcomes_apart(own: &MachineFacts, cases: [&CaseView<'_>; 2], is_mixture: bool) -> Option<Found> {
    let outcomes =
        cases.map(|case| case.outcomes.iter().map(|outcome| (outcome.count, outcome.changes().into_owned())).collect());
    apart(outcomes, is_mixture, |a: &Vec<fact::Change>, b| {
        let found = |(a, b): (Option<&fact::Change>, Option<&fact::Change>)| {
            let step = a.or(b).map(|change| change.label.clone()).filter(|label| !label.is_empty());
            let changes = Some([a.cloned(), b.cloned()]);
            let why = a.zip(b).and_then(|(a, b)| own.of_change(a, b));
            let why = why.map(|what| format!("{} shows {what}", cases[0].name));
            (FactDifference { step, changes, ..FactDifference::new("shows", "", "") }, why)
        };
        fact::differing(a, b).into_iter().map(found).collect()
    })
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
