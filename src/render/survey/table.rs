//! The table of a section, as the file of its kind describes it.

use serde::Deserialize;
use serde_json::Value;

use super::section::Section;
use crate::words;
use cuda_pitfalls_answers::survey::startup::FigureRange;
use cuda_pitfalls_answers::survey::{FactForm, FactRow, KindFile, SectionForm, ValueForm};
use cuda_pitfalls_core::text::counts::{group_by_key, listed};
use cuda_pitfalls_core::text::units;

/// Returns the tables of the rows that fit: one, or one for each value of a fact.
pub(super) fn fitting_tables(
    file: &KindFile,
    form: &SectionForm,
    rows: &[FactRow],
) -> Vec<Section> {
    let mut titled = Vec::new();
    for row in rows {
        if !form.has(row) {
            continue;
        }
        let title = match form.each.as_str() {
            "" => form.title.clone(),
            fact => format!("{} {}", words_of(row.fact(fact)), form.title),
        };
        titled.push((title.trim_end().to_string(), row));
    }
    let mut tables = Vec::new();
    for (title, rows) in group_by_key(titled) {
        let form = SectionForm {
            title,
            ..form.clone()
        };
        tables.push(table(file, &form, &rows));
    }
    tables
}

/// Returns the table of these rows.
pub(super) fn table(file: &KindFile, form: &SectionForm, rows: &[&FactRow]) -> Section {
    let mut facts: Vec<FactForm> = Vec::new();
    for name in form.columns.iter().chain(form.across.iter().flatten()) {
        facts.push(file.fact(name));
    }
    let mut lines = Vec::new();
    for row in rows {
        lines.extend(row_lines(&facts, row));
    }
    if form.across.is_some()
        && let (Some(fact), Some(_)) = (facts.pop(), facts.pop())
    {
        let columns;
        (columns, lines) = merge_columns(lines, &fact.unknown);
        for words in columns {
            facts.push(FactForm {
                words,
                ..FactForm::default()
            });
        }
    }
    for joined in &form.joined {
        let Some(column) = form.columns.iter().position(|name| name == joined) else {
            continue;
        };
        let fact = facts.get(column);
        let is_count = fact.is_some_and(|fact| fact.form == ValueForm::Count);
        let between = form.between.as_deref().unwrap_or(", ");
        lines = join_lines(lines, column, |values| {
            if is_count {
                values.len().to_string()
            } else {
                values.join(between)
            }
        });
    }
    drop_empty_columns(&mut facts, &mut lines);
    let mut section = Section {
        title: form.title.replace("{rows}", &lines.len().to_string()),
        rows: lines,
        only_on_pages: form.only_on_pages,
        ..Section::default()
    };
    if !form.text.is_empty() {
        section.text.push(form.text.clone());
    }
    for (column, fact) in facts.into_iter().enumerate() {
        section.header.push(fact.words);
        if fact.code {
            section.code.push(column);
        }
    }
    section
}

/// Leaves out the columns without a name, and those that may be left out and have no text.
fn drop_empty_columns(facts: &mut Vec<FactForm>, lines: &mut [Vec<String>]) {
    let mut column = 0;
    while let Some(fact) = facts.get(column) {
        let is_empty = |line: &Vec<String>| line.get(column).is_none_or(String::is_empty);
        if fact.words.is_empty() || (fact.optional && lines.iter().all(is_empty)) {
            facts.remove(column);
            for line in lines.iter_mut() {
                line.remove(column);
            }
        } else {
            column += 1;
        }
    }
}

/// Returns the lines of a row: one, or one for each entry of the list in its columns.
fn row_lines(facts: &[FactForm], row: &FactRow) -> Vec<Vec<String>> {
    let mut count = 1;
    let mut values = Vec::new();
    for fact in facts {
        let of_fact = fact.values(row);
        if count == 1 {
            count = of_fact.len();
        }
        values.push((fact, of_fact));
    }
    let mut lines = Vec::new();
    for index in 0..count {
        let mut line = Vec::new();
        for (fact, values) in &values {
            line.push(match values.get(index).or(values.first()) {
                Some((_, value)) => cell_text(fact, value),
                None => String::new(),
            });
        }
        lines.push(line);
    }
    lines
}

/// Returns the values of the second to last cell, and the lines with one cell for each of these values: lines that
/// differ only in their last two cells are merged. A line without any text in its last cells is left out.
fn merge_columns(lines: Vec<Vec<String>>, unknown: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut split = Vec::new();
    for mut line in lines {
        if let (Some(text), Some(column)) = (line.pop(), line.pop()) {
            split.push((line, (column, text)));
        }
    }
    let whole = group_by_key(split);
    let mut columns: Vec<String> = Vec::new();
    for (column, _) in whole.iter().flat_map(|(_, cells)| cells) {
        if !columns.contains(column) {
            columns.push(column.clone());
        }
    }
    let mut merged = Vec::new();
    for (mut line, cells) in whole {
        if cells.iter().all(|(_, text)| text.is_empty()) {
            continue;
        }
        for column in &columns {
            let last = cells.iter().rfind(|(known, _)| known == column);
            line.push(last.map_or(unknown, |(_, text)| text).to_string());
        }
        merged.push(line);
    }
    (columns, merged)
}

/// Merges lines that are equal in all cells but one.
fn join_lines(
    lines: Vec<Vec<String>>,
    column: usize,
    join: impl Fn(&[String]) -> String,
) -> Vec<Vec<String>> {
    let mut split = Vec::new();
    for mut line in lines {
        let value = line.remove(column);
        split.push((line, value));
    }
    let mut joined = Vec::new();
    for (mut line, values) in group_by_key(split) {
        line.insert(column, join(&values));
        joined.push(line);
    }
    joined
}

fn cell_text(fact: &FactForm, value: &Value) -> String {
    match (fact.form, value) {
        (_, Value::Null) => fact.unknown.clone(),
        (_, Value::Array(list)) if list.is_empty() => fact.none.clone(),
        (ValueForm::Gpus, Value::Array(list)) => {
            let mut gpus: Vec<u32> = Vec::new();
            for gpu in list.iter().filter_map(Value::as_u64) {
                gpus.extend(u32::try_from(gpu));
            }
            words::gpus(&gpus, &fact.none)
        }
        (ValueForm::Memory, Value::Array(list)) => {
            let changes = list.iter().filter_map(Value::as_i64);
            listed(changes.map(units::format_delta), "")
        }
        (ValueForm::Size, value) => match FigureRange::deserialize(value) {
            Ok(bytes) => size(bytes),
            Err(_) => String::new(),
        },
        (_, Value::String(text)) => fact.said.get(text).unwrap_or(text).clone(),
        (_, value) => words_of(value),
    }
}

/// Returns a time with its spread: `101 ms (98 ms to 110 ms)`.
pub(super) fn time(took: FigureRange) -> String {
    let [least, median, most] =
        [took.least, took.median, took.most].map(|ns| units::format_duration(ns.unsigned_abs()));
    if least == most {
        median
    } else {
        format!("{median} ({least} to {most})")
    }
}

/// Returns a size with its spread, if the spread is more than a hundredth.
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
