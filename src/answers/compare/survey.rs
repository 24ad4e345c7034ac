//! Compares the facts of two surveys of the same kind.

use serde::Deserialize;
use serde_json::Value;

use super::comparison::{
    CompareError, Comparison, EntryDifference, FactDifference, Relation, is_noise, yes_or_no,
};
use super::pair::ComparedEntry;
use crate::difference::side_by_side;
use crate::survey::startup::FigureRange;
use crate::survey::{
    Compared, FactForm, FactRow, KindFile, RowAttempts, SurveyDocument, ValueForm,
};
use cuda_pitfalls_core::text::{counts, units};

/// Minimum difference between times, in nanoseconds. Smaller differences do not count.
const SAME_NS: u64 = 1_000_000;
/// Minimum difference between amounts of host memory, in bytes. Smaller differences do not count.
const SAME_BYTES: u64 = 4 << 20;

pub(super) fn compare_survey_rows(
    comparison: Comparison,
    surveys: [&SurveyDocument; 2],
    versions: Option<(String, String)>,
) -> Result<Comparison, CompareError> {
    let kind = surveys[0].kind.kind_file();
    let rows = surveys.map(SurveyDocument::fact_rows);
    let entries = rows.each_ref().map(|rows| rows.iter().map(entry).collect());
    comparison.with(entries, versions, |a: &FactRow, b| relate_rows(kind, a, b))
}

fn entry(row: &FactRow) -> ComparedEntry<'_, FactRow> {
    let unmeasured = row
        .standing
        .unmeasured
        .as_ref()
        .map(|unmeasured| unmeasured.reason.name());
    ComparedEntry {
        name: row.question.clone(),
        libcudart: row.libcudart.clone(),
        unmeasured,
        item: row,
    }
}

fn relate_rows(kind: &KindFile, a: &FactRow, b: &FactRow) -> Relation {
    let are_alike = kind.are_alike(a, b);
    let (mut changes, mut notes) = (Vec::new(), Vec::new());
    for fact in &kind.fact {
        let [one, other] = [a, b].map(|row| row.fact(&fact.name));
        match fact.compared {
            Some(Compared::Asked) if one != other => {
                notes.push(
                    fact.words
                        .replace("{a}", &one.to_string())
                        .replace("{b}", &other.to_string()),
                );
            }
            Some(Compared::Always) => changes.extend(fact_differences(fact, a, b)),
            Some(Compared::Alike) if are_alike => changes.extend(fact_differences(fact, a, b)),
            Some(Compared::Otherwise) if !are_alike => changes.extend(fact_differences(fact, a, b)),
            _ => {}
        }
    }
    if !notes.is_empty() {
        return Relation::Explained(EntryDifference::new(changes, notes));
    }
    let [on_a, on_b] = [a, b].map(|row| list_disagreements(&row.standing));
    if on_a != on_b {
        changes.push(FactDifference::new("attempts disagree on", on_a, on_b));
    }
    if changes.is_empty() {
        Relation::Same
    } else {
        Relation::Changed(EntryDifference::new(changes, Vec::new()))
    }
}

fn list_disagreements(standing: &RowAttempts) -> String {
    let mut facts: Vec<&str> = standing.disagreement.iter().map(String::as_str).collect();
    facts.sort_unstable();
    counts::listed(facts, "nothing")
}

/// Returns the differences of two rows in a fact. A list can have several.
fn fact_differences(fact: &FactForm, a: &FactRow, b: &FactRow) -> Vec<FactDifference> {
    // If attempts disagree, the fact is unknown, and the disagreement is itself a difference.
    let [is_open_in_a, is_open_in_b] =
        [a, b].map(|row| fact.absent.is_none() && !row.standing.disagreement.is_empty());
    let mut found = Vec::new();
    for pair in side_by_side([fact.values(a), fact.values(b)], |(words, _)| words.clone()) {
        let [Some((words, one)), Some((_, other))] = pair else {
            continue;
        };
        let is_open = (one.is_null() && is_open_in_a) || (other.is_null() && is_open_in_b);
        if is_open {
            continue;
        }
        if let Some([one, other]) = difference(fact, one, other) {
            found.push(FactDifference::new(&words, one, other));
        }
    }
    found
}

/// Returns two values as text, if they differ.
fn difference(fact: &FactForm, one: &Value, other: &Value) -> Option<[String; 2]> {
    match fact.form {
        ValueForm::Plain | ValueForm::Place | ValueForm::Gpus | ValueForm::Count => {
            let told = [one, other].map(|value| told(fact, value));
            let is_compared = !(fact.optional && (one.is_null() || other.is_null()));
            (is_compared && told[0] != told[1]).then_some(told)
        }
        ValueForm::Memory => {
            let mut both = numbers(one)?.zip(numbers(other)?);
            both.find(|(one, other)| !is_noise(*one, *other))
                .map(|(one, other)| [one, other].map(units::format_delta))
        }
        ValueForm::Time => {
            disjoint_medians(one, other, SAME_NS).map(|medians| medians.map(units::format_duration))
        }
        ValueForm::Size => {
            disjoint_medians(one, other, SAME_BYTES).map(|medians| medians.map(units::bytes))
        }
    }
}

fn told(fact: &FactForm, value: &Value) -> String {
    match fact.comparable_value(value) {
        Value::Null => fact.absent.clone().unwrap_or_else(|| "unknown".to_string()),
        Value::Bool(holds) => yes_or_no(holds),
        Value::String(text) => text,
        Value::Array(list) => counts::listed(list, "none"),
        other => other.to_string(),
    }
}

fn numbers(list: &Value) -> Option<impl Iterator<Item = i64>> {
    Some(list.as_array()?.iter().filter_map(Value::as_i64))
}

/// Returns the medians of two ranges that do not overlap, if they differ by more than a fifth and by more than `same`.
fn disjoint_medians(one: &Value, other: &Value, same: u64) -> Option<[u64; 2]> {
    let [one, other] = [
        FigureRange::deserialize(one).ok()?,
        FigureRange::deserialize(other).ok()?,
    ];
    let is_disjoint = one.most < other.least || other.most < one.least;
    let difference = one.median.abs_diff(other.median);
    let fifth = one.median.min(other.median) / 5;
    let is_much = difference > same && i128::from(difference) > i128::from(fifth);
    (is_disjoint && is_much).then_some([one, other].map(|spread| spread.median.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn medians_of_any_size_are_compared() {
        let figure = |ns: i64| json!({"least": ns, "median": ns, "most": ns});
        let differ = |one, other| disjoint_medians(&figure(one), &figure(other), SAME_NS).is_some();
        assert!(differ(i64::MIN, i64::MAX));
        assert!(differ(10_000_000, 13_000_000));
        assert!(!differ(10_000_000, 11_500_000));
        assert!(!differ(1_000, 2_000));
    }
}
