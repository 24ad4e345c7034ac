//! Properties of the machines as answers: the number of their GPUs, the driver, the cost of a context. They are
//! compared with the rest of the fleet, or with the machines that have the same value of `--group-by`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::answer::{Same, SharedAnswer, Shown};
use super::change::CaseChange;
use super::document::{Difference, Fleet, Group, Key, Question, Usual};
use super::usual::{Given, GroupQuestion};
use crate::compare::machine_facts;
use cuda_pitfalls_core::fact::{Change, Fact, Token};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::verdict::Kind;

/// Properties of a machine that are compared, in addition to the CUDA variables that it inherits. Other properties do
/// not change CUDA's behavior, or follow from these.
const COMPARED: [&str; 10] = [
    "number of GPUs",
    "GPU model",
    "driver",
    "driver CUDA version",
    "MIG",
    "compute mode",
    "memory per GPU",
    "MPS",
    "persistence",
    LIBCUDART,
];
const LIBCUDART: &str = "libcudart";
const VARIABLES: &str = "CUDA_";
const NOT_SET: &str = "not set";
/// Question about the cost of a context, which has figures.
const CONTEXT: &str = "context size";

/// A document's facts about its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct MachineFacts {
    /// Facts by name, as text. Variables that are not set are left out.
    pub(super) facts: Vec<(String, String)>,
    /// Memory cost of a context on each GPU, from the sound calibrations.
    pub(super) contexts: Vec<i64>,
}

impl MachineFacts {
    pub(super) fn new(machine: &Machine, contexts: &[u64]) -> MachineFacts {
        let mut facts = machine_facts(machine);
        facts.retain(|(name, _)| COMPARED.contains(&&**name) || name.starts_with(VARIABLES));
        let contexts = contexts
            .iter()
            .filter_map(|bytes| i64::try_from(*bytes).ok());
        MachineFacts {
            facts,
            contexts: contexts.collect(),
        }
    }

    /// Returns the names of facts that differ between two documents of one machine. Variables and the libcudart are
    /// left out, because they belong to the run.
    pub(super) fn disagreeing_facts(&self, other: &MachineFacts) -> Vec<&str> {
        let mut disagreeing = Vec::new();
        for (name, value) in &self.facts {
            let is_of_run = name == LIBCUDART || name.starts_with(VARIABLES);
            if !is_of_run && other.get(name) != value {
                disagreeing.push(name.as_str());
            }
        }
        disagreeing
    }

    pub(super) fn get(&self, name: &str) -> &str {
        let found = self.facts.iter().find(|(known, _)| known == name);
        found.map_or(NOT_SET, |(_, value)| value)
    }

    /// Returns a key that distinguishes machines with other GPUs or another driver, because their contexts have other
    /// sizes.
    fn context_kind(&self) -> String {
        format!("{}, driver {}", self.get("GPU model"), self.get("driver"))
    }
}

/// Adds a group for each value of the label, with one question for each fact. `machines` has the index of a machine, its
/// label and its facts.
pub(super) fn compare_facts(
    fleet: &mut Fleet,
    machines: &[(usize, Option<String>, &MachineFacts)],
) {
    if machines.is_empty() {
        return;
    }
    let mut classes: BTreeMap<&Option<String>, Vec<(usize, &MachineFacts)>> = BTreeMap::new();
    for (machine, label, facts) in machines {
        classes.entry(label).or_default().push((*machine, facts));
    }
    let mut variables: BTreeSet<&str> = BTreeSet::new();
    for (name, _) in machines.iter().flat_map(|(_, _, facts)| &facts.facts) {
        if name.starts_with(VARIABLES) {
            variables.insert(name);
        }
    }
    let mut names = COMPARED.to_vec();
    names.extend(variables);
    let first = fleet.questions.len();
    for name in names.iter().chain([&CONTEXT]) {
        fleet.questions.push(Question {
            name: format!("machine: {name}"),
            is_row: true,
            ..Question::default()
        });
    }
    for (label, class) in classes {
        let group = fleet.groups.len();
        let key = Key {
            label: label.clone(),
            is_of_facts: true,
            ..Key::default()
        };
        let mut new = Group {
            key,
            machines: class.iter().map(|(machine, _)| *machine).collect(),
            usual: Vec::new(),
        };
        for (question, name) in (first..).zip(&names) {
            let (usual, differences) = compare_fact(name, &class, group, &new, question);
            new.usual.push(usual);
            fleet.differences.extend(differences);
        }
        let (usual, differences) = compare_contexts(&class, group, &new.key, first + names.len());
        new.usual.extend(usual);
        fleet.differences.extend(differences);
        fleet.groups.push(new);
    }
}

/// Compares a fact among the machines of a group.
fn compare_fact(
    name: &str,
    class: &[(usize, &MachineFacts)],
    group: usize,
    members: &Group,
    question: usize,
) -> (Usual, Vec<Difference>) {
    let mut answers: HashMap<&str, SharedAnswer> = HashMap::new();
    for (_, facts) in class {
        let value = facts.get(name);
        answers.entry(value).or_insert_with(|| answer(name, value));
    }
    let given = class.iter().filter_map(|(machine, facts)| {
        Some(Given {
            machine: *machine,
            answer: answers.get(facts.get(name))?,
            figures: &[],
        })
    });
    let asked = GroupQuestion {
        given: given.collect(),
        group,
        members: &members.machines,
        key: &members.key,
        question,
    };
    asked.usual_and_differences()
}

fn answer(name: &str, value: &str) -> SharedAnswer {
    let fact = Fact::Value(String::new(), Token::new(value));
    let change = Change {
        step: 0,
        label: name.to_owned(),
        facts: vec![fact],
    };
    let facts = vec![CaseChange {
        case: String::new(),
        outcome: 1,
        change,
    }];
    SharedAnswer {
        shown: Shown::Outcome(Same {
            kind: Kind::Reproduced,
            facts,
        }),
        ..SharedAnswer::default()
    }
}

/// The smallest and the largest context of each machine.
type ContextFigures = Vec<(usize, [i64; 2])>;

/// Compares the memory cost of contexts among machines where it should be equal.
fn compare_contexts(
    class: &[(usize, &MachineFacts)],
    group: usize,
    key: &Key,
    question: usize,
) -> (Option<Usual>, Vec<Difference>) {
    let (kinds, silent) = contexts_by_kind(class);
    let mut all: Option<Usual> = None;
    let mut differences = Vec::new();
    for (kind, figures) in kinds {
        let names = ["smallest", "largest"].map(|which| format!("{which} on {kind}"));
        let answer = SharedAnswer {
            shown: Shown::without_facts(),
            figures: names.into(),
            ..SharedAnswer::default()
        };
        let given = figures.iter().map(|(machine, figures)| Given {
            machine: *machine,
            answer: &answer,
            figures,
        });
        let members: Vec<usize> = figures.iter().map(|(machine, _)| *machine).collect();
        let asked = GroupQuestion {
            given: given.collect(),
            group,
            members: &members,
            key,
            question,
        };
        let (usual, found) = asked.usual_and_differences();
        differences.extend(found);
        match &mut all {
            Some(all) => add_usual(all, usual),
            None => all = Some(usual),
        }
    }
    if let Some(all) = &mut all {
        all.not_asked = silent;
    }
    (all, differences)
}

/// Returns the contexts of machines of each kind, and the machines without contexts.
fn contexts_by_kind(
    class: &[(usize, &MachineFacts)],
) -> (BTreeMap<String, ContextFigures>, Vec<usize>) {
    let mut kinds: BTreeMap<String, ContextFigures> = BTreeMap::new();
    let mut silent = Vec::new();
    for (machine, facts) in class {
        let contexts = &facts.contexts;
        match (contexts.iter().min(), contexts.iter().max()) {
            (Some(least), Some(most)) => {
                let figures = kinds.entry(facts.context_kind()).or_default();
                figures.push((*machine, [*least, *most]));
            }
            _ => silent.push(*machine),
        }
    }
    (kinds, silent)
}

/// Adds what is usual on machines of another kind.
fn add_usual(all: &mut Usual, other: Usual) {
    all.used_bytes.extend(other.used_bytes);
    let machines = other.outcomes.iter().map(|outcome| outcome.machines);
    let added: usize = machines.sum();
    for outcome in &mut all.outcomes {
        outcome.machines += added;
    }
}
