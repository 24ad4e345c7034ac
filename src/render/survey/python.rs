//! `survey python`: framework by framework, which lines initialise CUDA, where in the framework, and what they make.

use std::collections::{BTreeMap, BTreeSet};

use super::cell::{gpus, yes};
use super::section::Section;
use super::{NamedSurvey, disagreements, documents, left_out};
use crate::words;
use cuda_pitfalls_answers::survey::document::SurveyDocument;
use cuda_pitfalls_answers::survey::python::{INSTRUMENT, List, PythonFacts, PythonRow};
use cuda_pitfalls_core::machine::Interpreter;
use cuda_pitfalls_core::text::counts::{self, tally};
use cuda_pitfalls_core::text::escape::{self, shorten};
use cuda_pitfalls_core::text::units;

pub(super) const OPENING: &str = "\
Each line ran in a fresh interpreter, after the lines that it needs, under `cuda-pitfalls trace`. What counts is what \
happened from the moment at which it began. No mask was set unless the row's code says so.

- **Reads the mask**: it is the line that calls `cuInit`. `CUDA_VISIBLE_DEVICES` is read once, there: a mask that is set \
later has no effect. A dash means that the lines before it had called `cuInit` already.
- **At**: the innermost public function of a package on the way to `cuInit`, with its file and line; behind `from` \
the function that the line called, if that is in another file; in parentheses the call of libcudart (or another library of CUDA's) that came to `cuInit`. `ask.py` is the line itself.
- **Context on**: the GPUs on which the line makes a context, by NVML index.
- **Memory**: by how much NVML's `used` grew on each GPU from right before the line on, while nothing else ran.
- **Result**: its value (of anything but plain values the type), or the exception that it raised.";

/// What has to be known of a survey without a GPU.
const NO_GPU: &str = "\
There was no GPU. What is seen of a line it does; but a line that finds no GPU, or a driver that is older than its \
libcudart, may stop before it does what it does elsewhere: there `no` proves nothing.";

/// Values and exceptions are cut to this many bytes in a table.
const LONGEST: usize = 80;

pub(super) fn sections(sources: &[NamedSurvey]) -> Vec<Section> {
    let documents = documents::<PythonRow>(sources);
    let rows = latest(&documents);
    let (controls, rows): (Vec<&PythonRow>, Vec<&PythonRow>) =
        rows.into_iter().partition(|row| row.framework == INSTRUMENT);
    let groups = tally(rows.iter().map(|row| row.framework.as_str()));
    let mut sections = vec![held(&controls), interpreters(&documents)];
    sections.extend(groups.into_iter().map(|(group, _)| table(group, &rows)));
    sections.push(unmeasured(&rows));
    sections.push(disagreements(rows.iter().copied()));
    sections.push(code(&rows));
    sections.push(left_out(documents.iter().flat_map(|document| &document.left_out)));
    sections
}

/// The rows of all documents; of several about one line that of the last document, in the place of the first.
fn latest<'a>(documents: &[&'a SurveyDocument<PythonRow>]) -> Vec<&'a PythonRow> {
    let mut rows: Vec<&PythonRow> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for row in documents.iter().flat_map(|document| &document.rows) {
        let place = *places.entry(&row.id).or_insert(rows.len());
        match rows.get_mut(place) {
            // What could not be asked again does not take the place of what was.
            Some(known) if row.standing.unmeasured.is_none() || known.standing.unmeasured.is_some() => *known = row,
            Some(_) => {}
            None => rows.push(row),
        }
    }
    rows
}

pub(super) fn interpreters<R>(documents: &[&SurveyDocument<R>]) -> Section {
    let row = |interpreter: &Interpreter| {
        let packages = words::packages(interpreter);
        let packages = packages.trim_start_matches(", ");
        let own = format!("{} {}", interpreter.implementation, interpreter.version);
        vec![own, if packages.is_empty() { "none of those that rows need" } else { packages }.to_string()]
    };
    // A GPU that is not there is a reason to stop early.
    let has_none = documents.iter().any(|document| document.machine.gpus.is_empty());
    let note = has_none.then(|| NO_GPU.to_string());
    let rows = documents.iter().filter_map(|document| document.machine.python.as_ref()).map(row).collect();
    Section { text: note.into_iter().collect(), ..Section::new("Interpreter", &["Python", "packages"], rows, &[]) }
}

/// Controls that were not seen to do what they do.
fn held(controls: &[&PythonRow]) -> Section {
    let wrong = controls.iter().filter(|row| row.as_expected != Some(true));
    let row = |row: &&PythonRow| {
        vec![
            row.id.clone(),
            yes(row.facts.initialised_before),
            yes(row.facts.calls_cuinit),
            yes(row.facts.reads_mask),
            gpus(row.facts.context_on.as_deref(), "–"),
            row.standing.unmeasured.as_ref().map(|why| why.detail.clone()).unwrap_or_default(),
        ]
    };
    let header = ["control", "initialised before", "calls cuInit", "reads the mask", "context on", "why"];
    Section::new("Controls of the instrument that did not hold", &header, wrong.map(row).collect(), &[])
}

/// The rows of one framework that have facts.
fn table(framework: &str, rows: &[&PythonRow]) -> Section {
    let of_group: Vec<&PythonRow> =
        rows.iter().copied().filter(|row| row.framework == framework && row.standing.unmeasured.is_none()).collect();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, version) in of_group.iter().flat_map(|row| &row.versions) {
        versions.entry(name).or_default().insert(version);
    }
    let versions = versions
        .into_iter()
        .map(|(name, versions)| format!("{name} {}", versions.into_iter().collect::<Vec<_>>().join(", ")));
    let versions: Vec<String> = versions.collect();
    let text = if versions.is_empty() { Vec::new() } else { vec![format!("With {}.", versions.join("; "))] };
    let row = |row: &&PythonRow| {
        let facts = &row.facts;
        vec![row.id.clone(), reads(facts), at(facts), context(facts), memory(facts), result(facts)]
    };
    let header = ["line", "reads the mask", "at", "context on", "memory", "result"];
    Section { text, ..Section::new(framework, &header, of_group.iter().map(row).collect(), &[0]) }
}

fn reads(facts: &PythonFacts) -> String {
    let child = if facts.in_child == Some(true) { ", in a child process" } else { "" };
    match (facts.calls_cuinit, facts.reads_mask) {
        (None, _) if facts.initialised_before == Some(true) => "–".to_string(),
        (Some(true), Some(true)) => match &facts.mask {
            Some(mask) => format!("yes: {mask:?}{child}"),
            None => format!("yes{child}"),
        },
        (Some(true), None) => {
            let status = facts.init_status.as_deref().unwrap_or("another status in each attempt");
            format!("cuInit returns {status}{child}")
        }
        (_, reads) => yes(reads),
    }
}

fn at(facts: &PythonFacts) -> String {
    let through = facts.through.as_ref().map(|through| format!(" ({through})")).unwrap_or_default();
    // Where a framework asks another one, that is the line to know about.
    let file = |place: &str| place.split(':').next().unwrap_or_default().to_string();
    let from = facts.entry.as_ref().filter(|from| facts.at.as_ref().is_some_and(|at| file(at) != file(from)));
    let from = from.map(|from| format!(", from {from}")).unwrap_or_default();
    match &facts.at {
        Some(at) => format!("{at}{from}{through}"),
        None if facts.calls_cuinit == Some(true) => format!("?{through}"),
        None => facts.context_at.clone().unwrap_or_default(),
    }
}

fn context(facts: &PythonFacts) -> String {
    let on = gpus(facts.context_on.as_deref(), "–");
    match facts.context_before.as_deref().filter(|_| facts.context_on.is_some()) {
        None | Some([]) => on,
        before => format!("{on} ({} before it)", gpus(before, "–")),
    }
}

fn memory(facts: &PythonFacts) -> String {
    let deltas = |bytes: &[i64]| counts::listed(bytes.iter().map(|bytes| units::delta(*bytes)), "");
    match (&facts.device_used_bytes, &facts.context_bytes, facts.context_on.as_deref()) {
        (Some(used), ..) => deltas(used),
        (None, Some(bytes), Some([_, ..])) => format!("contexts: {}", deltas(bytes)),
        (None, None, Some([_, ..])) => "?".to_string(),
        _ => String::new(),
    }
}

fn result(facts: &PythonFacts) -> String {
    let result = match (&facts.raised, &facts.value) {
        (Some(raised), _) => format!("raised {}: {}", raised.kind, raised.message),
        (None, Some(value)) => value.clone(),
        (None, None) => String::new(),
    };
    let left = facts.left.as_ref().map(|left| format!("; the process ended by {left}")).unwrap_or_default();
    format!("{}{left}", shorten(&result, LONGEST))
}

/// Rows without facts, by what is missing.
fn unmeasured(rows: &[&PythonRow]) -> Section {
    let mut found: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for row in rows {
        let Some(why) = &row.standing.unmeasured else { continue };
        found.entry((words::reason(why.reason).to_string(), why.detail.clone())).or_default().push(&row.id);
    }
    let rows = found.into_iter().map(|((reason, detail), rows)| vec![reason, detail, rows.join("; ")]).collect();
    Section::new("Asked and not measured", &["reason", "detail", "rows"], rows, &[])
}

/// What ran, of rows whose name does not say it all.
fn code(rows: &[&PythonRow]) -> Section {
    let mut known = BTreeSet::new();
    let listed = rows.iter().filter(|row| known.insert(&row.id));
    let row = |row: &&PythonRow| {
        let env = row.env.iter().map(|(name, value)| format!("{name}={value}"));
        let before: Vec<String> = env.chain(row.before.iter().cloned()).collect();
        vec![row.id.clone(), one_line(&before.join("\n")), one_line(&row.ask), row.note.clone()]
    };
    let header = ["line", "before it", "asked", "why"];
    let section = Section::new("The code of each row", &header, listed.map(row).collect(), &[0, 1, 2]);
    Section { only_on_pages: true, ..section }
}

/// Code for a cell, which has no lines.
fn one_line(code: &str) -> String {
    lines_of(code).join(" ↵ ")
}

/// The rows that `survey python` asks about, with their code, for a terminal.
pub fn listed(list: &List) -> String {
    let mut out = String::new();
    for line in &list.lines {
        let gpus = if line.gpus > 0 { format!(", GPUs: {}", line.gpus) } else { String::new() };
        let head = format!("{} [{}]{gpus}; needs: {}", line.id, line.framework, line.needs.join("; "));
        out.push_str(&format!("{}\n", escape::terminal(head.trim_end_matches("; needs: "))));
        let env = line.env.iter().map(|(name, value)| format!("{name}={value}"));
        for code in env.chain(line.before.iter().cloned()).flat_map(|code| lines_of(&code)) {
            out.push_str(&format!("    {}\n", escape::terminal(&code)));
        }
        for code in lines_of(&line.ask) {
            out.push_str(&format!("  > {}\n", escape::terminal(&code)));
        }
    }
    out
}

fn lines_of(code: &str) -> Vec<String> {
    code.trim_matches('\n').lines().map(str::to_string).collect()
}
