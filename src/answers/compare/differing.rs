//! Facts that differ between two outcomes, step by step.

use std::collections::BTreeSet;

use super::comparison::{FactDifference, yes_or_no};
use crate::difference::differing_values;
use cuda_pitfalls_core::fact::changes::ProcessState;
use cuda_pitfalls_core::fact::{Change, Fact, Token, words};
use cuda_pitfalls_core::observation::Class;

/// A fact that differs between two outcomes.
pub(super) struct Differing<'c> {
    /// The number and the label of the step; `None` for the end.
    pub(super) step: Option<(u32, &'c str)>,
    /// Fact in A and in B; `None` if the fact is missing.
    pub(super) facts: [Option<Fact>; 2],
}

/// Returns the facts that differ between two outcomes, in the order of the steps, the most important fact of a step
/// first. Steps that only one of them reached are left out, because the ends differ there.
pub(super) fn find_differing_facts<'c>(outcomes: [&'c [Change]; 2]) -> Vec<Differing<'c>> {
    let ends = outcomes.map(|changes| changes.iter().find(|change| change.label.is_empty()));
    let mut last = u32::MAX;
    for end in ends.into_iter().flatten() {
        last = last.min(end.step);
    }
    let mut steps: BTreeSet<StepPlace> = BTreeSet::new();
    for change in outcomes.into_iter().flatten() {
        if !change.label.is_empty() && change.step <= last {
            steps.insert((change.step, &change.label));
        }
    }
    let mut found = Vec::new();
    for ((step, _), facts) in differing_values(outcomes.map(|changes| keyed_facts(changes, &steps)))
    {
        let facts = with_unchanged_memory(facts);
        if facts[0] != facts[1] {
            found.push(Differing { step, facts });
        }
    }
    found.sort_by_cached_key(|difference| {
        let [in_a, in_b] = &difference.facts;
        (difference.step, in_a.clone().or_else(|| in_b.clone()))
    });
    let ends = differing_values(ends.map(end_facts));
    // The number of steps is compared only if both outcomes end in the same way.
    if let Some((_, facts)) = ends.into_iter().next() {
        found.push(Differing { step: None, facts });
    }
    found
}

/// The number and the label of a step.
type StepPlace<'c> = (u32, &'c str);

/// Returns the facts of an outcome after each of these steps: the results of the call, and the state after it. The key
/// is the step and the name of the fact.
fn keyed_facts<'c>(
    changes: &'c [Change],
    steps: &BTreeSet<StepPlace<'c>>,
) -> Vec<((Option<StepPlace<'c>>, String), Fact)> {
    let mut state = ProcessState::default();
    let mut all = Vec::new();
    for step in steps {
        // Sorted so that a fact comes before those that follow from it.
        let mut own: BTreeSet<&Fact> = BTreeSet::new();
        for change in changes {
            if (change.step, change.label.as_str()) == *step {
                own.extend(&change.facts);
            }
        }
        own.iter().for_each(|fact| state.apply_fact(fact));
        let mut add_fact = |fact: Fact| all.push(((Some(*step), fact_words(&fact).0), fact));
        for fact in own {
            if matches!(fact, Fact::DidNotReturn | Fact::Status(_) | Fact::Value(..)) {
                add_fact(fact.clone());
            }
        }
        state.facts().into_iter().for_each(add_fact);
    }
    all
}

/// Returns the end of an outcome, and the number of steps before it.
fn end_facts(end: Option<&Change>) -> Vec<(&'static str, Fact)> {
    let mut facts = Vec::new();
    if let Some(end) = end {
        facts.extend(end.facts.first().map(|fact| ("ends", fact.clone())));
        let made = Fact::Value("steps made".to_owned(), Token::Int(end.step.into()));
        facts.push(("steps made", made));
    }
    facts
}

/// Adds unchanged memory for a GPU without a figure.
fn with_unchanged_memory(facts: [Option<Fact>; 2]) -> [Option<Fact>; 2] {
    let Some(Fact::Memory(gpu, _)) = facts.iter().flatten().next() else {
        return facts;
    };
    let unchanged = Fact::Memory(gpu.clone(), Some(Class::None));
    facts.map(|fact| fact.or_else(|| Some(unchanged.clone())))
}

impl Differing<'_> {
    pub(super) fn words(&self) -> FactDifference {
        let words = self
            .facts
            .each_ref()
            .map(|fact| Some(fact_words(fact.as_ref()?)));
        let difference = match words {
            [Some((name, a, _)), Some((_, b, _))] => FactDifference::new(&name, a, b),
            [Some((name, a, absent)), None] => FactDifference::new(&name, a, absent),
            [None, Some((name, b, absent))] => FactDifference::new(&name, absent, b),
            [None, None] => FactDifference::default(),
        };
        FactDifference {
            step: self.step.map(|(_, label)| label.to_owned()),
            ..difference
        }
    }
}

/// Returns the name of a fact, its value, and the value that a missing fact stands for.
fn fact_words(fact: &Fact) -> (String, String, &'static str) {
    let gpus = |all: &Option<Vec<String>>| match all {
        Some(all) => words::gpus(all),
        None => "unknown".to_owned(),
    };
    let (name, value, absent) = match fact {
        Fact::DidNotReturn => ("returned", "no".to_owned(), "yes"),
        Fact::Status(Token::Int(code)) => ("status", format!("status {code}"), "success"),
        Fact::Status(Token::Text(name)) => ("status", name.clone(), "success"),
        Fact::Value(name, value) => (name.as_str(), value.to_string(), "nothing"),
        Fact::Initialised(Some(holds)) => ("driver initialized", yes_or_no(*holds), ""),
        Fact::Initialised(None) => ("driver initialized", "unknown".to_owned(), ""),
        Fact::Visible(all) => ("sees", gpus(all), ""),
        Fact::Contexts(all) => ("contexts", gpus(all), ""),
        Fact::Current(gpu) => (
            "current",
            gpu.as_deref().unwrap_or("unknown").to_owned(),
            "",
        ),
        Fact::Memory(gpu, class) => {
            return (
                format!("memory of {gpu}"),
                class.map_or("not read", Class::name).to_owned(),
                "",
            );
        }
        Fact::End(end) => ("ends", end.clone(), "0"),
        Fact::Row(_) => ("row", String::new(), ""),
    };
    (name.to_owned(), value, absent)
}
