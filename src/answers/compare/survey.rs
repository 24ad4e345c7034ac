//! Compares the rows of two surveys.

use std::borrow::Cow;

use super::pair::ComparedEntry;
use super::{CompareError, Comparison, EntryDifference, FactDifference, Relation, is_noise, yes_or_no};
use crate::survey::calls::CallRow;
use crate::survey::document::Row;
use crate::survey::env::EnvRow;
use crate::survey::errors::ErrorRow;
use crate::survey::mask::{MaskRow, by_todays_rule};
use crate::survey::needs::{NeedRow, returned};
use crate::survey::python::{PythonRow, without_line};
use crate::survey::startup::{Spread, StartRow, StartStep};
use crate::survey::{RowAttempts, Survey};
use cuda_pitfalls_core::text::{counts, units};

pub(super) fn compare<R: Compared>(
    comparison: Comparison,
    surveys: [&Survey; 2],
    versions: Option<(String, String)>,
) -> Result<Comparison, CompareError> {
    let rows = surveys.map(R::rows);
    let entries = rows.each_ref().map(|rows| rows.iter().map(entry).collect());
    let compare = |a: &R, b: &R| {
        let (mut changes, notes) = (a.changes(b), a.asked_differently(b));
        if !notes.is_empty() {
            return Relation::Explained(EntryDifference::new(changes, notes));
        }
        let [on_a, on_b] = [a, b].map(|row| disagreement(row.standing()));
        if on_a != on_b {
            changes.push(FactDifference::new("attempts disagree on", on_a, on_b));
        }
        if changes.is_empty() { Relation::Same } else { Relation::Changed(EntryDifference::new(changes, Vec::new())) }
    };
    comparison.with(entries, versions, compare)
}

fn entry<R: Compared>(row: &R) -> ComparedEntry<'_, R> {
    let (name, libcudart) = row.question();
    let unmeasured = row.standing().unmeasured.as_ref().map(|unmeasured| unmeasured.reason.name());
    ComparedEntry { name, libcudart, unmeasured, item: row }
}

fn disagreement(standing: &RowAttempts) -> String {
    let mut facts: Vec<&str> = standing.disagreement.iter().map(String::as_str).collect();
    facts.sort_unstable();
    if facts.is_empty() { "nothing".to_string() } else { facts.join(", ") }
}

/// A fact with its name; `None` if it is unknown.
type NamedFact = (String, Option<String>);

/// A row that can be compared with one of another survey.
pub(super) trait Compared: Row + Clone {
    fn rows(survey: &Survey) -> Cow<'_, [Self]> {
        Cow::Borrowed(survey.rows())
    }

    /// How the questions differ.
    fn asked_differently(&self, _other: &Self) -> Vec<String> {
        Vec::new()
    }

    /// The facts that are compared with those of another row, if that has them too.
    fn facts(&self) -> Vec<NamedFact>;

    /// The facts that differ, without those on which attempts disagree.
    fn changes(&self, other: &Self) -> Vec<FactDifference> {
        differences(self, other, |_| true)
    }
}

/// The facts of these names that differ, and that attempts agree on.
fn differences<R: Compared>(a: &R, b: &R, is_compared: impl Fn(&str) -> bool) -> Vec<FactDifference> {
    let [open_a, open_b] = [a, b].map(|row| !row.standing().disagreement.is_empty());
    let theirs = b.facts();
    let difference = |(name, own): NamedFact| {
        let (_, other) = theirs.iter().find(|(known, _)| *known == name).filter(|_| is_compared(&name))?;
        let is_open = (own.is_none() && open_a) || (other.is_none() && open_b);
        let told = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_string());
        (own != *other && !is_open).then(|| FactDifference::new(&name, told(&own), told(other)))
    };
    a.facts().into_iter().filter_map(difference).collect()
}

fn fact(name: &str, value: Option<impl Into<String>>) -> NamedFact {
    (name.to_string(), value.map(Into::into))
}

fn yes(name: &str, value: Option<bool>) -> NamedFact {
    fact(name, value.map(yes_or_no))
}

fn listed(name: &str, gpus: &Option<Vec<u32>>) -> NamedFact {
    fact(name, gpus.as_ref().map(|gpus| counts::listed(gpus, "none")))
}

/// A fact that is never unknown.
fn or(name: &str, value: Option<String>, otherwise: &str) -> NamedFact {
    fact(name, Some(value.unwrap_or_else(|| otherwise.to_string())))
}

fn ended(left: &Option<String>) -> NamedFact {
    or("process ended by", left.clone(), "exit code 0")
}

const CONTEXT_ON: &str = "context on";
const HAS_CONTEXT: &str = "has a context";
const AS_THE_RULE_SAYS: &str = "as the rule says";

impl Compared for CallRow {
    fn facts(&self) -> Vec<NamedFact> {
        vec![
            yes("reads the mask", self.reads_mask),
            listed(CONTEXT_ON, &self.context_on),
            yes(HAS_CONTEXT, self.context_on.as_ref().map(|on| !on.is_empty())),
            fact("status", self.status.clone()),
        ]
    }

    fn changes(&self, other: &CallRow) -> Vec<FactDifference> {
        // Ordinals are compared only between processes that saw as many GPUs.
        let left_out = if self.visible_gpus == other.visible_gpus { HAS_CONTEXT } else { CONTEXT_ON };
        let mut changes = differences(self, other, |name| name != left_out);
        // If NVML did not answer in one of them, nothing is known of the call.
        changes.extend(memory(self, other).map(|(one, another)| FactDifference::new("memory", one, another)));
        changes
    }
}

impl Compared for MaskRow {
    // Two rules are no difference between two drivers.
    fn rows(survey: &Survey) -> Cow<'_, [MaskRow]> {
        survey.document().map(|document| by_todays_rule(document).rows).unwrap_or_default().into()
    }

    fn facts(&self) -> Vec<NamedFact> {
        vec![
            fact("status", self.status.clone()),
            fact("count", self.count.map(|count| count.to_string())),
            listed("GPUs", &self.gpus),
            yes(AS_THE_RULE_SAYS, self.as_predicted),
        ]
    }

    fn changes(&self, other: &MaskRow) -> Vec<FactDifference> {
        let of_driver = differences(self, other, |name| name != AS_THE_RULE_SAYS);
        // On machines with other GPUs the same text means others, so each row is compared with the rule.
        if self.predicted == other.predicted {
            return of_driver;
        }
        if self.as_predicted == Some(true) && other.as_predicted == Some(true) {
            return Vec::new();
        }
        let of_rule = differences(self, other, |name| name == AS_THE_RULE_SAYS);
        if of_rule.is_empty() { of_driver } else { of_rule }
    }
}

impl Compared for NeedRow {
    fn facts(&self) -> Vec<NamedFact> {
        vec![
            fact("returned", self.statuses.as_deref().map(returned)),
            listed("GPUs", &self.gpus),
            or("died", self.died.as_ref().map(|died| died.by.clone()), "no"),
        ]
    }
}

impl Compared for StartRow {
    fn facts(&self) -> Vec<NamedFact> {
        let steps = self.cases.iter().flat_map(|case| case.steps.iter().map(|step| (case.beside.name(), step)));
        steps.map(|(beside, step)| fact(&format!("status of {}, {beside}", step.call), step.status.clone())).collect()
    }

    fn changes(&self, other: &StartRow) -> Vec<FactDifference> {
        let mut changes = Vec::new();
        for case in &self.cases {
            let Some(also) = other.case(case.beside) else { continue };
            for step in &case.steps {
                let Some(again) = also.step(&step.call) else { continue };
                let name = |what: &str| format!("{what} {}, {}", step.call, case.beside.name());
                changes.extend(differences(self, other, |known| known == name("status of")));
                let resident = |step: &StartStep| step.host.as_ref().and_then(|host| host.resident_bytes);
                let times = apart(step.took(), again.took(), SAME_NS).map(|times| times.map(units::duration));
                let sizes = apart(resident(step), resident(again), SAME_BYTES).map(|sizes| sizes.map(units::bytes));
                for (what, found) in [("time of", times), ("resident host memory after", sizes)] {
                    changes.extend(found.map(|[one, another]| FactDifference::new(&name(what), one, another)));
                }
            }
        }
        changes
    }
}

/// Times that differ by less are the same.
const SAME_NS: i64 = 1_000_000;
/// Host memory that differs by less is the same.
const SAME_BYTES: i64 = 4 << 20;

/// The medians of two spreads that have nothing in common, if they differ by more than a fifth and by more than `same`.
fn apart(one: Option<Spread>, another: Option<Spread>, same: i64) -> Option<[u64; 2]> {
    let (one, another) = (one?, another?);
    let is_disjoint = one.most < another.least || another.most < one.least;
    let difference = (one.median - another.median).abs();
    let is_much = difference > same && difference > one.median.min(another.median) / 5;
    (is_disjoint && is_much).then_some([one, another].map(|spread| spread.median.unsigned_abs()))
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

    fn facts(&self) -> Vec<NamedFact> {
        let moments = self.moments.iter();
        let moments = moments.map(|moment| yes(&format!("takes effect before {}", moment.before), moment.effect));
        let facts = [yes("has effect", self.has_effect), fact("read at", self.read_at.clone())];
        facts.into_iter().chain(moments).collect()
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

    fn facts(&self) -> Vec<NamedFact> {
        let raised = self.raised.as_ref().map(|raised| format!("{}: {}", raised.kind, raised.message));
        vec![or("raises", raised, "nothing"), or("value", self.value.clone(), "none"), ended(&self.left)]
    }
}

impl Compared for PythonRow {
    fn asked_differently(&self, other: &PythonRow) -> Vec<String> {
        code_differs([self.ask == other.ask, self.before == other.before, self.env == other.env])
    }

    fn facts(&self) -> Vec<NamedFact> {
        let mask = (self.facts.reads_mask == Some(true)).then(|| or("mask", self.facts.mask.clone(), "(unset)"));
        // `calls cuInit` says already if only one of two rows calls it.
        let known = [
            mask,
            self.facts.at.as_deref().map(|at| fact("at", Some(without_line(at)))),
            self.facts.entry.as_deref().map(|entry| fact("from", Some(without_line(entry)))),
            self.facts.init_status.clone().map(|status| fact("status of cuInit", Some(status))),
        ];
        let mut facts = vec![
            yes("initialised before", self.facts.initialised_before),
            yes("calls cuInit", self.facts.calls_cuinit),
            yes("reads the mask", self.facts.reads_mask),
        ];
        facts.extend(known.into_iter().flatten());
        facts.extend([
            listed(CONTEXT_ON, &self.facts.context_on),
            or("raises", self.facts.raised.as_ref().map(|raised| raised.kind.clone()), "nothing"),
            ended(&self.facts.left),
        ]);
        facts
    }

    fn changes(&self, other: &PythonRow) -> Vec<FactDifference> {
        let mut changes = differences(self, other, |_| true);
        if let (Some(one), Some(another)) = (&self.facts.context_bytes, &other.facts.context_bytes)
            && self.facts.context_on == other.facts.context_on
            && let Some((one, another)) = one.iter().zip(another).find(|(one, another)| !is_noise(**one, **another))
        {
            changes.push(FactDifference::new("context takes", units::delta(*one), units::delta(*another)));
        }
        changes
    }
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
