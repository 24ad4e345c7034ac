//! The facts in which two outcomes differ, step by step.

use std::collections::BTreeSet;

use super::comparison::{FactDifference, yes_or_no};
use crate::difference::side_by_side;
use cuda_pitfalls_core::fact::changes::ProcessState;
use cuda_pitfalls_core::fact::{Change, Fact, Token, words};
use cuda_pitfalls_core::observation::Class;

/// A fact that is not the same in two outcomes.
pub(super) struct Differing<'c> {
    /// The number and the label of the step; `None` for the end.
    pub(super) step: Option<(u32, &'c str)>,
    /// The fact in A and in B; `None` where there is no such fact.
    pub(super) facts: [Option<Fact>; 2],
}

/// The facts in which two outcomes differ, in the order of the steps. Steps that only one of them made are left out,
/// because the ends differ there.
pub(super) fn differing<'c>(outcomes: [&'c [Change]; 2]) -> Vec<Differing<'c>> {
    let ends = outcomes.map(|changes| changes.iter().find(|change| change.label.is_empty()));
    let last = ends
        .iter()
        .flatten()
        .map(|end| end.step)
        .min()
        .unwrap_or(u32::MAX);
    let steps = outcomes
        .into_iter()
        .flatten()
        .filter(|change| !change.label.is_empty() && change.step <= last);
    let steps: BTreeSet<(u32, &str)> = steps
        .map(|change| (change.step, change.label.as_str()))
        .collect();
    let mut states = [ProcessState::default(), ProcessState::default()];
    let mut found = Vec::new();
    for step in steps {
        let [state_a, state_b] = &mut states;
        let facts = [
            facts_at(step, outcomes[0], state_a),
            facts_at(step, outcomes[1], state_b),
        ];
        found.extend(pairs(facts).into_iter().map(|facts| Differing {
            step: Some(step),
            facts,
        }));
    }
    let facts = ends.map(|end| end?.facts.first().cloned());
    if facts[0] != facts[1] {
        found.push(Differing { step: None, facts });
    } else if ends[0] != ends[1] {
        let made = ends.map(|end| {
            Some(Fact::Value(
                "steps made".to_owned(),
                Token::Int(end?.step.into()),
            ))
        });
        found.push(Differing {
            step: None,
            facts: made,
        });
    }
    found
}

/// The facts of a step: what its call showed, and the state after it.
fn facts_at(step: (u32, &str), changes: &[Change], state: &mut ProcessState) -> Vec<Fact> {
    let own = changes
        .iter()
        .filter(|change| (change.step, change.label.as_str()) == step);
    // In the order in which one fact foretells the others.
    let own: BTreeSet<&Fact> = own.flat_map(|change| &change.facts).collect();
    own.iter().for_each(|fact| state.apply(fact));
    let of_call = own
        .into_iter()
        .filter(|fact| matches!(fact, Fact::DidNotReturn | Fact::Status(_) | Fact::Value(..)));
    of_call.cloned().chain(state.facts()).collect()
}

/// The facts of A and B about one thing that differ, the most telling first.
fn pairs(facts: [Vec<Fact>; 2]) -> Vec<[Option<Fact>; 2]> {
    let mut pairs = side_by_side(facts, |fact| fact_words(fact).0);
    for pair in &mut pairs {
        // The memory of a GPU that nothing is said of did not change.
        if let Some(Fact::Memory(gpu, _)) = pair.iter().flatten().next() {
            let unchanged = Fact::Memory(gpu.clone(), Some(Class::None));
            for fact in pair {
                fact.get_or_insert_with(|| unchanged.clone());
            }
        }
    }
    pairs.retain(|[a, b]| a != b);
    pairs.sort_by_cached_key(|pair| pair.iter().flatten().next().cloned());
    pairs
}

impl Differing<'_> {
    pub(super) fn words(&self) -> FactDifference {
        let words = self
            .facts
            .each_ref()
            .map(|fact| fact.as_ref().map(fact_words));
        let (name, _, absent) = words.iter().flatten().next().cloned().unwrap_or_default();
        let [a, b] =
            words.map(|words| words.map_or_else(|| absent.to_owned(), |(_, value, _)| value));
        let step = self.step.map(|(_, label)| label.to_owned());
        FactDifference {
            step,
            ..FactDifference::new(&name, a, b)
        }
    }
}

/// The name of a fact, its value, and the value that it has where it is left out.
fn fact_words(fact: &Fact) -> (String, String, &'static str) {
    let (name, value, absent) = match fact {
        Fact::DidNotReturn => ("returned", "no".to_owned(), "yes"),
        Fact::Status(Token::Int(code)) => ("status", format!("status {code}"), "success"),
        Fact::Status(Token::Text(name)) => ("status", name.clone(), "success"),
        Fact::Value(name, value) => (name.as_str(), value.to_string(), "nothing"),
        Fact::Initialised(holds) => (
            "driver initialised",
            holds.map_or_else(unknown, yes_or_no),
            "",
        ),
        Fact::Visible(all) => ("sees", all.as_deref().map_or_else(unknown, words::gpus), ""),
        Fact::Contexts(all) => (
            "contexts",
            all.as_deref().map_or_else(unknown, words::gpus),
            "",
        ),
        Fact::Current(gpu) => ("current", gpu.clone().unwrap_or_else(unknown), ""),
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

fn unknown() -> String {
    "unknown".to_owned()
}
