//! `survey python`: framework by framework, which lines initialize CUDA, where in the framework, and what they create.

use std::collections::{BTreeMap, BTreeSet};

use super::section::Section;
use super::table::fitting_tables;
use super::{NamedSurvey, SurveyPage, gpus, rows_with, yes_no_unknown};
use crate::words;
use cuda_pitfalls_answers::survey::python::{List, PythonFacts, PythonRow};
use cuda_pitfalls_answers::survey::{FactRow, SectionForm};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::text::counts;
use cuda_pitfalls_core::text::escape::{self, shorten_text};
use cuda_pitfalls_core::text::units;

/// Caveat for a survey without a GPU.
const NO_GPU: &str = "\
There was no GPU. A `yes` is reliable. A line that finds no GPU, or a driver older than its libcudart, may stop early, so a `no` proves nothing.";

/// Values and exceptions are cut to this many bytes in a table.
const LONGEST: usize = 80;

/// Returns the rows of all documents. If several are about one line, that of the last document takes the place of the
/// first.
pub(super) fn rows(sources: &[NamedSurvey]) -> Vec<FactRow> {
    let all = rows_with(sources, |row: &PythonRow, _, facts| {
        let env = row
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let before: Vec<String> = env.chain(row.before.iter().cloned()).collect();
        facts.set("control", row.id.as_str());
        facts.set("ids", row.id.as_str());
        facts.set("reads", mask_words(&row.facts));
        facts.set("initialised_at", at(&row.facts));
        facts.set("context", context(&row.facts));
        facts.set("memory", memory(&row.facts));
        facts.set("result", outcome_words(&row.facts));
        facts.set(
            "why",
            row.standing
                .unmeasured
                .as_ref()
                .map(|why| words::reason(why.reason)),
        );
        facts.set("code_before", one_line(&before.join("\n")));
        facts.set("code", one_line(&row.ask));
    });
    let mut rows: Vec<FactRow> = Vec::new();
    let mut indices: BTreeMap<String, usize> = BTreeMap::new();
    for row in all {
        let index = *indices.entry(row.question.clone()).or_insert(rows.len());
        match rows.get_mut(index) {
            // A line that could not run again does not replace its earlier row.
            Some(known)
                if row.standing.unmeasured.is_none() || known.standing.unmeasured.is_some() =>
            {
                *known = row
            }
            Some(_) => {}
            None => rows.push(row),
        }
    }
    rows
}

/// Returns the rows of each framework that have facts, with the versions of its packages.
pub(super) fn framework_sections(page: &SurveyPage<'_>, form: &SectionForm) -> Vec<Section> {
    let mut sections = fitting_tables(page.file, form, &page.rows);
    for section in &mut sections {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let rows = page
            .rows
            .iter()
            .filter(|row| form.has(row) && row.fact_equals(&form.each, &section.title));
        for (name, version) in rows
            .filter_map(|row| row.fact("versions").as_object())
            .flatten()
        {
            versions.entry(name).or_default().extend(version.as_str());
        }
        let versions = versions
            .into_iter()
            .map(|(name, versions)| format!("{name} {}", counts::listed(versions, "")));
        let versions: Vec<String> = versions.collect();
        section
            .text
            .extend((!versions.is_empty()).then(|| format!("With {}.", versions.join("; "))));
    }
    sections
}

/// Returns the interpreters of these documents.
pub(super) fn interpreter_section(sources: &[NamedSurvey]) -> Section {
    let machines: Vec<&Machine> = sources
        .iter()
        .map(|source| &source.survey.machine)
        .collect();
    let rows = machines
        .iter()
        .filter_map(|machine| machine.python.as_ref())
        .map(|interpreter| {
            let packages = words::packages(interpreter);
            let packages = packages.trim_start_matches(", ");
            let own = format!("{} {}", interpreter.implementation, interpreter.version);
            vec![
                own,
                if packages.is_empty() {
                    "none of the packages that the rows need"
                } else {
                    packages
                }
                .to_string(),
            ]
        });
    // A missing GPU is a reason to stop early.
    let note = machines
        .iter()
        .any(|machine| machine.gpus.is_empty())
        .then(|| NO_GPU.to_string());
    let section = Section::new("Interpreter", &["Python", "packages"], rows.collect(), &[]);
    Section {
        text: note.into_iter().collect(),
        ..section
    }
}

fn mask_words(facts: &PythonFacts) -> String {
    let child = if facts.in_child == Some(true) {
        ", in a child process"
    } else {
        ""
    };
    match (facts.calls_cuinit, facts.reads_mask) {
        (None, _) if facts.initialised_before == Some(true) => "–".to_string(),
        (Some(true), Some(true)) => match &facts.mask {
            Some(mask) => format!("yes: {mask:?}{child}"),
            None => format!("yes{child}"),
        },
        (Some(true), None) => {
            let status = facts
                .init_status
                .as_deref()
                .unwrap_or("a different status in each attempt");
            format!("cuInit returns {status}{child}")
        }
        (_, reads) => yes_no_unknown(reads).to_string(),
    }
}

fn at(facts: &PythonFacts) -> String {
    let through = facts
        .through
        .as_ref()
        .map(|through| format!(" ({through})"))
        .unwrap_or_default();
    // If a framework calls another one, that call is the line to know about.
    let from = facts.entry.as_ref().filter(|from| {
        facts
            .at
            .as_ref()
            .is_some_and(|at| file_of(at) != file_of(from))
    });
    let from = from
        .map(|from| format!(", from {from}"))
        .unwrap_or_default();
    match &facts.at {
        Some(at) => format!("{at}{from}{through}"),
        None if facts.calls_cuinit == Some(true) => format!("?{through}"),
        None => facts.context_at.clone().unwrap_or_default(),
    }
}

fn file_of(at: &str) -> Option<&str> {
    at.split(':').next()
}

fn context(facts: &PythonFacts) -> String {
    let on = gpus(facts.context_on.as_deref(), "–");
    match facts.context_before.as_deref() {
        before @ Some([_, ..]) if facts.context_on.is_some() => {
            format!("{on} ({} before it)", gpus(before, "–"))
        }
        _ => on,
    }
}

fn memory(facts: &PythonFacts) -> String {
    match (
        &facts.device_used_bytes,
        &facts.context_bytes,
        facts.context_on.as_deref(),
    ) {
        (Some(used), ..) => format_deltas(used),
        (None, Some(bytes), Some([_, ..])) => format!("contexts: {}", format_deltas(bytes)),
        (None, None, Some([_, ..])) => "?".to_string(),
        _ => String::new(),
    }
}

fn format_deltas(bytes: &[i64]) -> String {
    counts::listed(bytes.iter().map(|bytes| units::format_delta(*bytes)), "")
}

fn outcome_words(facts: &PythonFacts) -> String {
    let result = match (&facts.raised, &facts.value) {
        (Some(raised), _) => format!("raised {}: {}", raised.kind, raised.message),
        (None, Some(value)) => value.clone(),
        (None, None) => String::new(),
    };
    let left = facts
        .left
        .as_ref()
        .map(|left| format!("; the process ended by {left}"))
        .unwrap_or_default();
    format!("{}{left}", shorten_text(&result, LONGEST))
}

/// Returns code for a cell, on one line.
fn one_line(code: &str) -> String {
    lines_of(code).join(" ↵ ")
}

/// Returns the rows of `survey python`, with their code, for a terminal.
pub fn listed(list: &List) -> String {
    let mut out = String::new();
    for line in &list.lines {
        let gpus = if line.gpus > 0 {
            format!(", GPUs: {}", line.gpus)
        } else {
            String::new()
        };
        let head = format!(
            "{} [{}]{gpus}; needs: {}",
            line.id,
            line.framework,
            line.needs.join("; ")
        );
        out.push_str(&format!(
            "{}\n",
            escape::terminal(head.trim_end_matches("; needs: "))
        ));
        let env = line
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        for code in env
            .chain(line.before.iter().cloned())
            .flat_map(|code| lines_of(&code))
        {
            out.push_str(&format!("    {}\n", escape::terminal(&code)));
        }
        for code in lines_of(&line.ask) {
            out.push_str(&format!("  > {}\n", escape::terminal(&code)));
        }
    }
    out
}

fn lines_of(code: &str) -> Vec<String> {
    code.trim_matches('\n')
        .lines()
        .map(str::to_string)
        .collect()
}
