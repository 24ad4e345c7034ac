//! Compares the rows of two surveys.

use super::pair::ComparedEntry;
use super::{CompareError, Comparison, EntryDifference, FactDifference, Relation, is_noise, yes_or_no};
use crate::survey::RowAttempts;
use crate::survey::calls::CallRow;
use crate::survey::document::Row;
use crate::survey::env::EnvRow;
use crate::survey::errors::ErrorRow;
use crate::survey::mask::MaskRow;
use crate::survey::needs::{NeedRow, returned};
use crate::survey::python::{PythonRow, without_line};
use crate::survey::startup::{Spread, StartRow, StartStep};
use cuda_pitfalls_core::text::units;

/// Compares the rows of two surveys of one kind.
pub(super) fn compare<R: Compared>(
    comparison: Comparison,
    rows: [&Vec<R>; 2],
    versions: Option<(String, String)>,
) -> Result<Comparison, CompareError> {
    let entries = rows.map(|rows| rows.iter().map(entry).collect());
    let compare = |a: &R, b: &R| {
        let (changes, notes) = (disagreements(a.standing(), b.standing()), a.asked_differently(b));
        if !notes.is_empty() {
            return Relation::Explained(EntryDifference::new(a.changes(b), notes));
        }
        let changes: Vec<FactDifference> = a.changes(b).into_iter().chain(changes).collect();
        if changes.is_empty() { Relation::Same } else { Relation::Changed(EntryDifference::new(changes, Vec::new())) }
    };
    comparison.with(entries, versions, compare)
}

fn entry<R: Compared>(row: &R) -> ComparedEntry<'_, R> {
    let (name, libcudart) = row.question();
    let unmeasured = row.standing().unmeasured.as_ref().map(|unmeasured| unmeasured.reason.name());
    ComparedEntry { name, libcudart, unmeasured, item: row }
}

/// A row that can be compared with one of another survey.
pub(super) trait Compared: Row {
    /// How the questions differ.
    fn asked_differently(&self, _other: &Self) -> Vec<String> {
        Vec::new()
    }

    /// The facts that differ, without those on which attempts disagree.
    fn changes(&self, other: &Self) -> Vec<FactDifference>;
}

impl Compared for CallRow {
    fn changes(&self, other: &CallRow) -> Vec<FactDifference> {
        let mut changes = Changes::between(self, other);
        changes.fact("reads the mask", yes(self.reads_mask), yes(other.reads_mask));
        if self.visible_gpus == other.visible_gpus {
            changes.fact("context on", listed(&self.context_on), listed(&other.context_on));
        } else {
            let has = |row: &CallRow| yes(row.context_on.as_ref().map(|on| !on.is_empty()));
            changes.fact("has a context", has(self), has(other));
        }
        changes.fact("status", self.status.clone(), other.status.clone());
        // If NVML did not answer in one of them, nothing is known of the call.
        if let Some((one, another)) = memory(self, other) {
            changes.fact("memory", Some(one), Some(another));
        }
        changes.found
    }
}

impl Compared for MaskRow {
    fn changes(&self, other: &MaskRow) -> Vec<FactDifference> {
        let mut changes = Changes::between(self, other);
        changes.fact("status", self.status.clone(), other.status.clone());
        let count = |row: &MaskRow| row.count.map(|count| count.to_string());
        changes.fact("count", count(self), count(other));
        changes.fact("GPUs", listed(&self.gpus), listed(&other.gpus));
        // On machines with other GPUs the same text means others, so each row is compared with the rule.
        let is_another_question = self.predicted != other.predicted;
        if !is_another_question {
            return changes.found;
        }
        if self.as_predicted == Some(true) && other.as_predicted == Some(true) {
            return Vec::new();
        }
        let mut against = Changes::between(self, other);
        against.fact("as the rule says", yes(self.as_predicted), yes(other.as_predicted));
        if against.found.is_empty() { changes.found } else { against.found }
    }
}

impl Compared for NeedRow {
    fn changes(&self, other: &NeedRow) -> Vec<FactDifference> {
        let mut changes = Changes::between(self, other);
        let returned = |row: &NeedRow| row.statuses.as_deref().map(returned);
        changes.fact("returned", returned(self), returned(other));
        changes.fact("GPUs", listed(&self.gpus), listed(&other.gpus));
        let died = |row: &NeedRow| Some(row.died.as_ref().map_or("no".to_string(), |died| died.by.clone()));
        changes.fact("died", died(self), died(other));
        changes.found
    }
}

impl Compared for StartRow {
    fn changes(&self, other: &StartRow) -> Vec<FactDifference> {
        let mut changes = Changes::between(self, other);
        for case in &self.cases {
            let Some(also) = other.case(case.beside) else { continue };
            for step in &case.steps {
                let Some(again) = also.step(&step.call) else { continue };
                let fact = |what: &str| format!("{what} {}, {}", step.call, case.beside.name());
                changes.fact(&fact("status of"), step.status.clone(), again.status.clone());
                if let Some([one, another]) = apart(step.took(), again.took(), SAME_NS) {
                    let told = |took: Spread| Some(units::duration(took.median.unsigned_abs()));
                    changes.fact(&fact("time of"), told(one), told(another));
                }
                let resident = |step: &StartStep| step.host.as_ref().and_then(|host| host.resident_bytes);
                if let Some([one, another]) = apart(resident(step), resident(again), SAME_BYTES) {
                    let told = |bytes: Spread| Some(units::bytes(bytes.median.unsigned_abs()));
                    changes.fact(&fact("resident host memory after"), told(one), told(another));
                }
            }
        }
        changes.found
    }
}

/// Times that differ by less are the same.
const SAME_NS: i64 = 1_000_000;
/// Host memory that differs by less is the same.
const SAME_BYTES: i64 = 4 << 20;

/// Two spreads that have nothing in common, and whose medians differ by more than a fifth and by more than `same`.
fn apart(one: Option<Spread>, another: Option<Spread>, same: i64) -> Option<[Spread; 2]> {
    let (one, another) = (one?, another?);
    let is_disjoint = one.most < another.least || another.most < one.least;
    let difference = (one.median - another.median).abs();
    let is_much = difference > same && difference > one.median.min(another.median) / 5;
    (is_disjoint && is_much).then_some([one, another])
}

impl Compared for EnvRow {
    fn asked_differently(&self, other: &EnvRow) -> Vec<String> {
        let mut notes = Vec::new();
        if self.value != other.value {
            notes.push(format!("set to {:?} in A, to {:?} in B", self.value, other.value));
        }
        if self.observable != other.observable {
            notes.push("the observation that shows the effect differs".to_string());
        }
        notes
    }

    fn changes(&self, other: &EnvRow) -> Vec<FactDifference> {
        let mut changes = Changes::between(self, other);
        changes.fact("has effect", yes(self.has_effect), yes(other.has_effect));
        changes.fact("read at", self.read_at.clone(), other.read_at.clone());
        for moment in &self.moments {
            let Some(also) = other.moments.iter().find(|known| known.before == moment.before) else { continue };
            let fact = format!("takes effect before {}", moment.before);
            changes.fact(&fact, yes(moment.effect), yes(also.effect));
        }
        changes.found
    }
}

/// How the code of two lines differs: whether the asked code, the code before it and the variables are the same.
fn code_differs(same: [bool; 3]) -> Vec<String> {
    let names = ["the asked code differs", "the code before it differs", "the variables differ"];
    names.into_iter().zip(same).filter(|(_, same)| !same).map(|(name, _)| name.to_string()).collect()
}

impl Compared for ErrorRow {
    fn asked_differently(&self, other: &ErrorRow) -> Vec<String> {
        code_differs([self.ask == other.ask, self.before == other.before, self.env == other.env])
    }

    fn changes(&self, other: &ErrorRow) -> Vec<FactDifference> {
        let mut changes = Changes::between(self, other);
        let raised = |row: &ErrorRow| {
            let raised = row.raised.as_ref().map(|raised| format!("{}: {}", raised.kind, raised.message));
            Some(raised.unwrap_or_else(|| "nothing".to_string()))
        };
        changes.fact("raises", raised(self), raised(other));
        let value = |row: &ErrorRow| Some(row.value.clone().unwrap_or_else(|| "none".to_string()));
        changes.fact("value", value(self), value(other));
        let left = |row: &ErrorRow| Some(row.left.clone().unwrap_or_else(|| "exit code 0".to_string()));
        changes.fact("process ended by", left(self), left(other));
        changes.found
    }
}

impl Compared for PythonRow {
    fn asked_differently(&self, other: &PythonRow) -> Vec<String> {
        code_differs([self.ask == other.ask, self.before == other.before, self.env == other.env])
    }

    fn changes(&self, other: &PythonRow) -> Vec<FactDifference> {
        let mut changes = Changes::between(self, other);
        changes.fact("initialised before", yes(self.initialised_before), yes(other.initialised_before));
        changes.fact("calls cuInit", yes(self.calls_cuinit), yes(other.calls_cuinit));
        changes.fact("reads the mask", yes(self.reads_mask), yes(other.reads_mask));
        let mask = |row: &PythonRow| {
            (row.reads_mask == Some(true)).then(|| row.mask.clone().unwrap_or_else(|| "(unset)".to_string()))
        };
        if let (Some(one), Some(another)) = (mask(self), mask(other)) {
            changes.fact("mask", Some(one), Some(another));
        }
        // `calls cuInit` has said already if only one of them calls it.
        if let (Some(one), Some(another)) = (&self.at, &other.at) {
            changes.fact("at", Some(without_line(one)), Some(without_line(another)));
        }
        if let (Some(one), Some(another)) = (&self.entry, &other.entry) {
            changes.fact("from", Some(without_line(one)), Some(without_line(another)));
        }
        if let (Some(one), Some(another)) = (&self.init_status, &other.init_status) {
            changes.fact("status of cuInit", Some(one.clone()), Some(another.clone()));
        }
        changes.fact("context on", listed(&self.context_on), listed(&other.context_on));
        let raised = |row: &PythonRow| Some(row.raised.as_ref().map_or("nothing", |raised| &raised.kind).to_string());
        changes.fact("raises", raised(self), raised(other));
        let left = |row: &PythonRow| Some(row.left.clone().unwrap_or_else(|| "exit code 0".to_string()));
        changes.fact("process ended by", left(self), left(other));
        let sizes = [&self.context_bytes, &other.context_bytes];
        if let ([Some(one), Some(another)], true) = (sizes, self.context_on == other.context_on)
            && let Some((one, another)) = one.iter().zip(another).find(|(one, another)| !is_noise(**one, **another))
        {
            changes.fact("context takes", Some(units::delta(*one)), Some(units::delta(*another)));
        }
        changes.found
    }
}

/// Differences between the facts of two rows.
struct Changes<'a> {
    standings: [&'a RowAttempts; 2],
    found: Vec<FactDifference>,
}

impl<'a> Changes<'a> {
    fn between<R: Row>(a: &'a R, b: &'a R) -> Changes<'a> {
        Changes { standings: [a.standing(), b.standing()], found: Vec::new() }
    }

    /// Adds a fact if it differs, unless attempts disagree on it.
    fn fact(&mut self, name: &str, a: Option<String>, b: Option<String>) {
        let [of_a, of_b] = self.standings.map(|standing| !standing.disagreement.is_empty());
        if a == b || (a.is_none() && of_a) || (b.is_none() && of_b) {
            return;
        }
        let told = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".to_string());
        self.found.push(FactDifference::new(name, told(a), told(b)));
    }
}

/// The facts on which attempts disagree, if A and B differ in them.
fn disagreements(a: &RowAttempts, b: &RowAttempts) -> Option<FactDifference> {
    let words = |standing: &RowAttempts| {
        let mut facts: Vec<&str> = standing.disagreement.iter().map(String::as_str).collect();
        facts.sort_unstable();
        if facts.is_empty() { "nothing".to_string() } else { facts.join(", ") }
    };
    let (a, b) = (words(a), words(b));
    (a != b).then(|| FactDifference::new("attempts disagree on", a, b))
}

fn yes(fact: Option<bool>) -> Option<String> {
    fact.map(yes_or_no)
}

fn listed(gpus: &Option<Vec<u32>>) -> Option<String> {
    let words = |gpus: &Vec<u32>| match gpus.as_slice() {
        [] => "none".to_string(),
        gpus => gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    };
    gpus.as_ref().map(words)
}

/// Memory on the first GPU at which it differs. GPUs are compared from the fullest on: which of
/// equal GPUs a worker is given is the harness's choice.
fn memory(a: &CallRow, b: &CallRow) -> Option<(String, String)> {
    let sorted = |row: &CallRow| {
        let mut used = row.device_used_bytes.clone()?;
        used.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
        Some(used)
    };
    let both = sorted(a)?.into_iter().zip(sorted(b)?);
    let count = if a.visible_gpus == b.visible_gpus { usize::MAX } else { a.visible_gpus.min(b.visible_gpus) as usize };
    let (one, other) = both.take(count).find(|(one, other)| !is_noise(*one, *other))?;
    Some((units::delta(one), units::delta(other)))
}
