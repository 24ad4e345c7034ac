//! The table of a section, as the file of its kind describes it.

use serde::Deserialize;
use serde_json::Value;

use super::section::Section;
use crate::words;
use cuda_pitfalls_answers::survey::startup::FigureRange;
use cuda_pitfalls_answers::survey::{FactForm, FactRow, KindFile, SectionForm, ValueForm};
use cuda_pitfalls_core::text::counts::{group_by_key, listed, tally_items};
use cuda_pitfalls_core::text::units;

/// The tables of the rows that fit: one, or one for each value of a fact.
pub(super) fn fitting_tables(
    file: &KindFile,
    form: &SectionForm,
    rows: &[FactRow],
) -> Vec<Section> {
    let own = rows
        .iter()
        .filter(|row| form.has(row))
        .map(|row| match form.each.as_str() {
            "" => (form.title.clone(), row),
            fact => (
                format!("{} {}", words_of(row.fact(fact)), form.title)
                    .trim_end()
                    .to_string(),
                row,
            ),
        });
    let by_title = group_by_key(own).into_iter();
    by_title
        .map(|(title, rows)| {
            table(
                file,
                &SectionForm {
                    title,
                    ..form.clone()
                },
                &rows,
            )
        })
        .collect()
}

/// The table of these rows.
pub(super) fn table(file: &KindFile, form: &SectionForm, rows: &[&FactRow]) -> Section {
    let mut facts: Vec<FactForm> = form.columns.iter().map(|name| file.fact(name)).collect();
    facts.extend(form.across.iter().flatten().map(|name| file.fact(name)));
    let mut lines: Vec<Vec<String>> = rows.iter().flat_map(|row| lines(&facts, row)).collect();
    if form.across.is_some()
        && let (Some(fact), Some(_)) = (facts.pop(), facts.pop())
    {
        let columns = merge_columns(&mut lines, &fact.unknown);
        facts.extend(columns.into_iter().map(|words| FactForm {
            words,
            ..FactForm::default()
        }));
    }
    for joined in &form.joined {
        let Some(column) = form.columns.iter().position(|name| name == joined) else {
            continue;
        };
        let is_count = facts
            .get(column)
            .is_some_and(|fact| fact.form == ValueForm::Count);
        lines = join(lines, column, |values| match is_count {
            true => values.len().to_string(),
            false => values.join(form.between.as_deref().unwrap_or(", ")),
        });
    }
    for column in (0..facts.len()).rev() {
        let is_empty = lines
            .iter()
            .all(|line| line.get(column).is_none_or(String::is_empty));
        if facts
            .get(column)
            .is_some_and(|fact| fact.words.is_empty() || (fact.optional && is_empty))
        {
            facts.remove(column);
            lines.iter_mut().for_each(|line| drop(line.remove(column)));
        }
    }
    Section {
        title: form.title.replace("{rows}", &lines.len().to_string()),
        text: Some(form.text.clone())
            .filter(|text| !text.is_empty())
            .into_iter()
            .collect(),
        header: facts.iter().map(|fact| fact.words.clone()).collect(),
        rows: lines,
        code: facts
            .iter()
            .enumerate()
            .filter(|(_, fact)| fact.code)
            .map(|(column, _)| column)
            .collect(),
        only_on_pages: form.only_on_pages,
    }
}

/// The lines of a row: one, or one for each entry of the list that its columns are of.
fn lines(facts: &[FactForm], row: &FactRow) -> Vec<Vec<String>> {
    let values: Vec<_> = facts.iter().map(|fact| (fact, fact.values(row))).collect();
    let count = values
        .iter()
        .map(|(_, values)| values.len())
        .reduce(|one, other| if one == 1 { other } else { one });
    let lines = (0..count.unwrap_or(0)).map(|index| {
        let cells = values.iter().map(|(fact, values)| {
            let value = values.get(index).or_else(|| values.first());
            value.map_or_else(String::new, |(_, value)| cell_text(fact, value))
        });
        cells.collect()
    });
    lines.collect()
}

/// Lines that are alike but for their last two cells become one, with a cell for each value that the last but one has.
/// One without any text in its last cells is left out. Returns these values.
fn merge_columns(lines: &mut Vec<Vec<String>>, unknown: &str) -> Vec<String> {
    let split = lines.drain(..).filter_map(|mut line| {
        let (text, column) = (line.pop()?, line.pop()?);
        Some((line, (column, text)))
    });
    let whole = group_by_key(split);
    let columns = tally_items(
        whole
            .iter()
            .flat_map(|(_, said)| said)
            .map(|(column, _)| column.clone()),
    );
    let columns: Vec<String> = columns.into_iter().map(|(column, _)| column).collect();
    let told = whole
        .into_iter()
        .filter(|(_, said)| said.iter().any(|(_, text)| !text.is_empty()));
    lines.extend(told.map(|(mut line, said)| {
        line.extend(columns.iter().map(|column| {
            let last = said.iter().rev().find(|(known, _)| known == column);
            last.map_or_else(|| unknown.to_string(), |(_, text)| text.clone())
        }));
        line
    }));
    columns
}

/// Lines that are alike in all cells but one become one.
fn join(
    lines: Vec<Vec<String>>,
    column: usize,
    text: impl Fn(Vec<String>) -> String,
) -> Vec<Vec<String>> {
    let split = lines.into_iter().map(|mut line| {
        let value = line.remove(column);
        (line, value)
    });
    let whole = group_by_key(split).into_iter().map(|(mut line, values)| {
        line.insert(column, text(values));
        line
    });
    whole.collect()
}

fn cell_text(fact: &FactForm, value: &Value) -> String {
    match (fact.form, value) {
        (_, Value::Null) => fact.unknown.clone(),
        (_, Value::Array(list)) if list.is_empty() => fact.none.clone(),
        (ValueForm::Gpus, Value::Array(list)) => {
            let gpus: Vec<u32> = list
                .iter()
                .filter_map(|gpu| u32::try_from(gpu.as_u64()?).ok())
                .collect();
            words::gpus(&gpus, &fact.none)
        }
        (ValueForm::Memory, Value::Array(list)) => listed(
            list.iter()
                .filter_map(Value::as_i64)
                .map(units::format_delta),
            "",
        ),
        (ValueForm::Size, value) => FigureRange::deserialize(value)
            .map(size)
            .unwrap_or_default(),
        (_, Value::String(text)) => fact.said.get(text).unwrap_or(text).clone(),
        (_, value) => words_of(value),
    }
}

/// A time with its spread: `101 ms (98 ms to 110 ms)`.
pub(super) fn time(took: FigureRange) -> String {
    let [least, median, most] =
        [took.least, took.median, took.most].map(|ns| units::format_duration(ns.unsigned_abs()));
    if least == most {
        median
    } else {
        format!("{median} ({least} to {most})")
    }
}

/// A size with its spread, where that is more than a hundredth.
fn size(bytes: FigureRange) -> String {
    let [least, median, most] =
        [bytes.least, bytes.median, bytes.most].map(|bytes| units::bytes(bytes.unsigned_abs()));
    let is_narrow = bytes.most.saturating_sub(bytes.least) <= bytes.median / 100;
    if is_narrow {
        median
    } else {
        format!("{median} ({least} to {most})")
    }
}

fn words_of(value: &Value) -> String {
    match value {
        Value::Bool(true) => "yes".to_string(),
        Value::Bool(false) => "no".to_string(),
        Value::String(text) => text.clone(),
        Value::Array(list) => listed(list.iter().map(words_of), ""),
        other => other.to_string(),
    }
}
