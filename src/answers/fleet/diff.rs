//! Changes between two documents of one fleet, such as last month's and today's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change::FactDiffers;
use super::change::facts_that_differ as differing_facts;
use super::document::{Difference, Fleet, FleetMachine, Group, GroupOutcome, Key, What};
use crate::difference::{differing_values, side_by_side};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::verdict::{Kind, Provenance};

const SCHEMA: &str = "cuda-pitfalls-fleet-diff";

/// Changes between two fleet documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetDiff {
    /// Schema of this document.
    pub schema: SchemaId,
    /// Source of the answers in both documents: real drivers or the simulated machine.
    pub provenance: Provenance,
    /// The older document.
    pub old: FleetSide,
    /// The newer document.
    pub new: FleetSide,
    /// Machines that only the older document has.
    pub machines_gone: Vec<String>,
    /// Machines that only the newer document has.
    pub machines_new: Vec<String>,
    /// Groups that only the older document has.
    pub groups_gone: Vec<Size>,
    /// Groups that only the newer document has.
    pub groups_new: Vec<Size>,
    /// Usual outcomes that changed.
    pub usual: Vec<UsualChanged>,
    /// Machines that began to differ from their group.
    pub began: Vec<MachineChange>,
    /// Machines that no longer differ from their group, and that are in both documents.
    pub ceased: Vec<MachineChange>,
}

/// A compared document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Side")]
pub struct FleetSide {
    /// Number of machines.
    pub machines: usize,
    /// The start of the document's earliest run.
    pub from: Option<String>,
    /// The start of the document's latest run.
    pub to: Option<String>,
    /// Number of differences.
    pub differences: usize,
}

/// A group and how large it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Size {
    /// Properties that the group's machines have in common.
    pub key: Key,
    /// Number of machines.
    pub machines: usize,
}

/// A usual result that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsualChanged {
    /// The question.
    pub question: String,
    /// The group in the older document, with the number of machines that had the usual result.
    pub old: Size,
    /// The group in the newer document: the same, or the current group of the machines if a driver or a libcudart was
    /// replaced.
    pub new: Size,
    /// Both verdicts, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdicts: Option<[Kind; 2]>,
    /// Facts that changed.
    pub facts: Vec<FactDiffers>,
}

/// A machine, and the question in which it began or ceased to differ.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(rename = "Change")]
pub struct MachineChange {
    /// The machine.
    pub machine: String,
    /// The question.
    pub question: String,
    /// Type of the difference: `outcome`, `no answer`, or `bytes of trap/gpu0`.
    pub what: String,
    /// `true` if the verdict differs from the usual one; `false` if only facts differ.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verdict_differs: bool,
}

impl FleetDiff {
    /// Returns `true` if a usual verdict changed, or if a machine's verdict now differs from its group's.
    pub fn has_other_verdict(&self) -> bool {
        self.usual.iter().any(|changed| changed.verdicts.is_some())
            || self.began.iter().any(|change| change.verdict_differs)
    }
}

/// Reason why two fleet documents cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one of the two is simulated and the other is measured: they are not compared")]
pub struct ProvenanceMismatch;

/// Returns the changes from one document to the other.
///
/// # Errors
/// Returns an error if one document is measured and the other is simulated.
pub fn diff(old: &Fleet, new: &Fleet) -> Result<FleetDiff, ProvenanceMismatch> {
    if old.provenance != new.provenance {
        return Err(ProvenanceMismatch);
    }
    let mut diff = FleetDiff {
        schema: SchemaId::current(SCHEMA),
        provenance: new.provenance,
        old: fleet_side(old),
        new: fleet_side(new),
        machines_gone: Vec::new(),
        machines_new: Vec::new(),
        groups_gone: Vec::new(),
        groups_new: Vec::new(),
        usual: usual_changes(old, new),
        began: Vec::new(),
        ceased: Vec::new(),
    };
    let both = [old, new];
    for pair in side_by_side(both.map(|fleet| &fleet.machines), |machine| &machine.name) {
        match pair {
            [Some(gone), None] => diff.machines_gone.push(gone.name.clone()),
            [None, Some(new)] => diff.machines_new.push(new.name.clone()),
            _ => {}
        }
    }
    diff.machines_gone.sort();
    diff.machines_new.sort();
    for pair in side_by_side(both.map(|fleet| &fleet.groups), |group| &group.key) {
        match pair {
            [Some(gone), None] => diff.groups_gone.push(size(gone)),
            [None, Some(new)] => diff.groups_new.push(size(new)),
            _ => {}
        }
    }
    diff.compare_machines(both);
    Ok(diff)
}

impl FleetDiff {
    /// Adds the machines that began or ceased to differ. One that differed in facts and now differs in the verdict
    /// began to differ in the verdict; one that went back to differing in facts did not cease. A new one that differs
    /// began to differ; one that is gone did not cease.
    fn compare_machines(&mut self, [old, new]: [&Fleet; 2]) {
        let names: BTreeSet<&str> = new.machines.iter().map(|machine| &*machine.name).collect();
        for (mut change, pair) in differing_values([machine_changes(old), machine_changes(new)]) {
            match pair {
                [None | Some(false), Some(verdict_differs)] => {
                    change.verdict_differs = verdict_differs;
                    self.began.push(change);
                }
                [Some(verdict_differs), None] if names.contains(change.machine.as_str()) => {
                    change.verdict_differs = verdict_differs;
                    self.ceased.push(change);
                }
                _ => {}
            }
        }
        self.began.sort();
        self.ceased.sort();
    }
}

fn fleet_side(fleet: &Fleet) -> FleetSide {
    FleetSide {
        machines: fleet.machines.len(),
        from: fleet.input.from.clone(),
        to: fleet.input.to.clone(),
        differences: fleet.differences.len(),
    }
}

fn size(group: &Group) -> Size {
    Size {
        key: group.key.clone(),
        machines: group.machines.len(),
    }
}

/// Returns the machines that differ, each with the question and with a flag that is `true` if the verdict differs. The
/// flag in the changes themselves is not set.
fn machine_changes(fleet: &Fleet) -> BTreeMap<MachineChange, bool> {
    let mut all = BTreeMap::new();
    let change = |machine: &FleetMachine, question: &str, what: &str| MachineChange {
        machine: machine.name.clone(),
        question: question.to_owned(),
        what: what.to_owned(),
        verdict_differs: false,
    };
    for machine in &fleet.machines {
        if machine.no_cuda.is_some() {
            all.insert(change(machine, "machine", "cannot use CUDA"), true);
        }
    }
    for Difference {
        question,
        machines,
        what,
        ..
    } in &fleet.differences
    {
        let Some(question) = fleet.questions.get(*question) else {
            continue;
        };
        let (what, verdict) = match what {
            What::Outcome {
                verdict_differs, ..
            } => ("outcome".to_owned(), *verdict_differs),
            What::NoAnswer { .. } => ("no answer".to_owned(), false),
            What::Bytes { figure, .. } => (format!("bytes of {figure}"), false),
        };
        for index in machines {
            if let Some(machine) = fleet.machines.get(*index) {
                // A machine may be in several groups.
                let known = all.entry(change(machine, &question.name, &what));
                *known.or_insert(false) |= verdict;
            }
        }
    }
    all
}

/// Returns the changes of the usual results of matching groups, by question.
fn usual_changes(old: &Fleet, new: &Fleet) -> Vec<UsualChanged> {
    let mut changed = Vec::new();
    for after in &new.groups {
        let Some(before) = before(old, new, after) else {
            continue;
        };
        let outcomes = [outcomes(old, before), outcomes(new, after)];
        for pair in side_by_side(outcomes, |(question, _)| *question) {
            let [Some(((question, _), then)), Some((_, now))] = pair else {
                continue;
            };
            // The outcome is the same, regardless of the number of machines.
            if (then.kind, &then.facts) == (now.kind, &now.facts) {
                continue;
            }
            changed.push(UsualChanged {
                question: question.to_owned(),
                old: Size {
                    machines: then.machines,
                    ..size(before)
                },
                new: Size {
                    machines: now.machines,
                    ..size(after)
                },
                verdicts: (then.kind != now.kind).then_some([then.kind, now.kind]),
                facts: differing_facts(&then.facts, &now.facts),
            });
        }
    }
    // A different verdict before different facts, then the larger group first.
    changed.sort_by(|a, b| {
        let verdicts = a.verdicts.is_none().cmp(&b.verdicts.is_none());
        verdicts
            .then(b.new.machines.cmp(&a.new.machines))
            .then_with(|| a.question.cmp(&b.question))
    });
    changed
}

/// Returns the usual outcome of each question of a group, except where two are equally frequent. A row may have the
/// same name as the question of a scenario file.
fn outcomes<'f>(fleet: &'f Fleet, group: &'f Group) -> Vec<((&'f str, bool), &'f GroupOutcome)> {
    let mut outcomes = Vec::new();
    for usual in &group.usual {
        let (Some((first, others)), Some(question)) = (
            usual.outcomes.split_first(),
            fleet.questions.get(usual.question),
        ) else {
            continue;
        };
        let show_another: usize = others.iter().map(|other| other.machines).sum();
        if show_another < first.machines {
            outcomes.push(((question.name.as_str(), question.is_row), first));
        }
    }
    outcomes
}

/// Returns the earlier group of a group's machines: the one with the same key, or else, if a driver or a libcudart was
/// replaced, the one that most of the machines were in, on the same GPUs.
fn before<'f>(old: &'f Fleet, new: &Fleet, after: &Group) -> Option<&'f Group> {
    if let Some(same) = old.groups.iter().find(|group| group.key == after.key) {
        return Some(same);
    }
    let members = member_names(new, after);
    let mut most = None;
    for group in &old.groups {
        // If only one of the two was replaced, the changes have a single reason.
        let is_one_replaced =
            (group.key.driver != after.key.driver) != (group.key.libcudart != after.key.libcudart);
        if !is_one_replaced || !group.key.is_same_hardware(&after.key) {
            continue;
        }
        let common = member_names(old, group).intersection(&members).count();
        if common > 0 {
            most = most.max(Some((common, Reverse(&group.key))));
        }
    }
    let (_, Reverse(key)) = most?;
    old.groups.iter().find(|group| group.key == *key)
}

fn member_names<'f>(fleet: &'f Fleet, group: &Group) -> BTreeSet<&'f str> {
    let members = group.machines.iter();
    let names = members.filter_map(|index| Some(fleet.machines.get(*index)?.name.as_str()));
    names.collect()
}

impl Key {
    fn is_same_hardware(&self, other: &Key) -> bool {
        (
            &self.label,
            self.is_of_facts,
            &self.gpus,
            self.mig,
            self.shared,
        ) == (
            &other.label,
            other.is_of_facts,
            &other.gpus,
            other.mig,
            other.shared,
        )
    }
}
