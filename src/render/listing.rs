//! `list`: all scenarios. [`show`] describes a single one.

pub mod show;

use crate::block::{Block, Entry, Table};
use crate::writer::terminal::{Screen, write};
use cuda_pitfalls_core::catalogue::Outline;
use cuda_pitfalls_core::scenario::{subject, symptom};
use cuda_pitfalls_core::text::counts::{counted, tally_items};
use cuda_pitfalls_core::text::lines::display_columns;
use serde_json::{Value, json};

const WIDEST: usize = 140;
/// Minimum width of a question's column: a narrower one cannot be read.
const LEAST: usize = 42;
/// Minimum room next to the name for showing tags.
const WITH_TAGS: usize = 68;

/// Returns the directories of questions, each with the number of questions and their subject, and the next command to
/// type.
pub fn folders_text(scenarios: &[Outline], screen: impl Into<Screen>) -> String {
    let counts = tally_items(
        scenarios
            .iter()
            .map(|scenario| subject::folder_of(&scenario.name)),
    );
    let rows = subject::all().iter().map(|subject| {
        let count = counts
            .iter()
            .find(|(name, _)| *name == subject.folder)
            .map_or(0, |(_, count)| *count);
        vec![
            subject.folder.clone(),
            count.to_string(),
            subject.sentence.clone(),
        ]
    });
    let all = counted(scenarios.len(), "question");
    let next = [
        ("list FOLDER", "the scenarios in a directory"),
        ("list all", "all of them"),
        ("list --symptoms", "symptoms, with their scenario counts"),
        (
            "show NAME",
            "a scenario's question, steps, expected result and workaround",
        ),
        ("run NAME", "runs it, or all of a directory or symptom"),
    ];
    let next = next.map(|(command, what)| vec![command, what]);
    let blocks = [
        Block::paragraph(format!("{all} in {}", counted(counts.len(), "folder"))),
        Block::Gap,
        Block::Table(Table::without_header(rows)),
        Block::Gap,
        Block::Table(Table::without_header(next)),
    ];
    write(&blocks, screen.into().at_most(WIDEST))
}

/// Returns the scenarios in columns, one per row. If the width does not suffice, the tags are left out, and then the
/// question is below its name.
pub fn list_text(scenarios: &[Outline], screen: impl Into<Screen>) -> String {
    let bounded = screen.into().at_most(WIDEST);
    let names = scenarios.iter().map(|one| display_columns(&one.name) + 2);
    let room = bounded.width.saturating_sub(names.max().unwrap_or(0));
    let (mut items, mut rows) = (Vec::new(), Vec::new());
    for one in scenarios {
        let [name, question] = [&one.name, &one.question].map(|text| join_whitespace(text));
        if room < LEAST {
            items.push(Block::Entry(Entry {
                title: name.into(),
                body: vec![Block::paragraph(question)],
                ..Entry::default()
            }));
        } else if room < WITH_TAGS {
            rows.push(vec![name, question]);
        } else {
            rows.push(vec![name, join_whitespace(&one.tags.join(" ")), question]);
        }
    }
    if room >= LEAST {
        items.push(Block::Table(Table::without_header(rows)));
    }
    write(&items, bounded)
}

/// Returns a row for each symptom: its id, the number of these scenarios that have it, and the sentence. A symptom
/// without a scenario is left out.
pub fn symptoms_text(scenarios: &[Outline], screen: impl Into<Screen>) -> String {
    let mut rows = Vec::new();
    for (symptom, count) in count_symptoms(scenarios) {
        let count = counted(count, "question");
        rows.push(vec![symptom.id.clone(), count, symptom.sentence.clone()]);
    }
    write(&[Block::Table(Table::without_header(rows))], screen)
}

/// Returns the document that `list --symptoms --json` prints.
pub fn symptoms_json(scenarios: &[Outline]) -> Value {
    let mut rows = Vec::new();
    for (symptom, count) in count_symptoms(scenarios) {
        rows.push(json!({ "id": symptom.id, "sentence": symptom.sentence, "questions": count }));
    }
    json!({ "symptoms": rows })
}

/// Returns the symptoms in the order of the file, each with the number of these scenarios that have it.
fn count_symptoms(scenarios: &[Outline]) -> Vec<(&'static symptom::Symptom, usize)> {
    let counts = tally_items(scenarios.iter().flat_map(|one| &one.symptoms));
    let mut all = Vec::new();
    for symptom in symptom::all() {
        let known = counts.iter().find(|(id, _)| **id == symptom.id);
        all.extend(known.map(|(_, count)| (symptom, *count)));
    }
    all
}

/// Returns the document that `list --json` prints.
pub fn list_json(scenarios: &[Outline]) -> Value {
    json!({ "scenarios": scenarios })
}

/// Returns a text on one line, with its line breaks replaced by spaces.
fn join_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
