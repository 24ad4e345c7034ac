//! `survey calls`: what changed between libcudarts first, then what each call does.

use std::collections::{BTreeMap, BTreeSet};

use super::section::Section;
use super::{disagreements, left_out};
use crate::render::units;
use crate::survey::calls::CallRow;
use crate::survey::document::Document;
use crate::verdict::Reason;

pub(super) const OPENING: &str = "\
Each call was made as the first CUDA call of a fresh process, with harmless arguments. Right after it \
`CUDA_VISIBLE_DEVICES` was set to nothing, and `cuInit` was asked what it sees: **freezes** says that the driver had \
read its mask by then, so that a mask set after the call does nothing. **Context on** lists the GPUs, by CUDA \
ordinal, on which there was a context after the call. **Memory** is what NVML shows as used beyond what was used \
before the process, on each GPU in NVML order. A process that saw one GPU says `0` where it had a context; which of \
several GPUs gets one can be told from rows with two or more visible GPUs. A call that **returned** an error did what it \
does up to that error: harmless arguments are not always good ones. `dlopen-…` are loads of a library and nothing else.";

/// What a call did, as far as versions are compared by it.
type Behaviour = (String, String, String);

pub(super) fn sections(documents: &[&Document<CallRow>]) -> Vec<Section> {
    let mut documents = documents.to_vec();
    documents.sort_by(|one, other| one.survey.started_at.cmp(&other.survey.started_at));
    let rows = standing(documents.iter().flat_map(|document| &document.rows));
    let newest = newest(&rows);
    let asked = |want: fn(&CallRow) -> bool| -> Vec<&CallRow> {
        newest.iter().copied().filter(|row| row.standing.unmeasured.is_none() && want(row)).collect()
    };
    let has_context = |row: &CallRow| row.context_on.as_ref().is_some_and(|on| !on.is_empty());
    vec![
        changes(&rows),
        in_short(&rows),
        table("Calls that make a context", &asked(has_context)),
        table(
            "Calls that freeze the mask and make no context",
            &asked(|row| row.freezes_visibility == Some(true) && row.context_on.as_ref().is_some_and(Vec::is_empty)),
        ),
        table("Calls that leave the mask free", &asked(|row| row.freezes_visibility == Some(false))),
        disagreements(rows.iter().copied()),
        unmeasured(&newest),
        left_out(documents.iter().flat_map(|document| &document.left_out)),
    ]
}

/// How many calls of each library did what.
fn in_short(rows: &[&CallRow]) -> Section {
    let mut by_library: BTreeMap<(&str, Option<Vec<u32>>), Vec<&CallRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.standing.unmeasured.is_none()) {
        let version = row.libcudart_version.as_deref().map(number);
        by_library.entry((&row.library, version)).or_default().push(row);
    }
    let line = |((library, version), rows): ((&str, Option<Vec<u32>>), Vec<&CallRow>)| {
        let calls: BTreeSet<&str> = rows.iter().map(|row| row.call.as_str()).collect();
        let count = |is: &dyn Fn(&CallRow) -> bool| {
            let found = calls.iter().filter(|call| rows.iter().any(|row| row.call == **call && is(row)));
            found.count().to_string()
        };
        let context = |row: &CallRow| row.context_on.as_ref().is_some_and(|on| !on.is_empty());
        vec![
            version.map_or_else(|| library.to_string(), |version| format!("{library} {}", name(&version))),
            calls.len().to_string(),
            count(&|row| context(row)),
            count(&|row| row.freezes_visibility == Some(true) && !context(row)),
            count(&|row| row.freezes_visibility == Some(false)),
        ]
    };
    Section {
        title: "In short".to_string(),
        header: ["library", "calls asked", "make a context", "only freeze the mask", "leave it free"]
            .map(str::to_string)
            .to_vec(),
        rows: by_library.into_iter().map(line).collect(),
        ..Section::default()
    }
}

/// A version as numbers, so that 12.10 comes after 12.9.
fn number(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// One row of each call on each libcudart: of several the one that measured, of those the one of the
/// worker that saw most GPUs, of those the last.
fn standing<'a>(rows: impl Iterator<Item = &'a CallRow>) -> Vec<&'a CallRow> {
    let mut standing: BTreeMap<(&str, &str, Option<&str>), &CallRow> = BTreeMap::new();
    let rank = |row: &CallRow| (row.standing.unmeasured.is_none(), row.visible_gpus);
    for row in rows {
        let key = (row.library.as_str(), row.call.as_str(), row.libcudart_version.as_deref());
        if standing.get(&key).is_none_or(|known| rank(known) <= rank(row)) {
            standing.insert(key, row);
        }
    }
    standing.into_values().collect()
}

/// Each call as the worker that saw most GPUs had it, because only such a row tells on which of them
/// there was a context; of those the one on the newest libcudart.
fn newest<'a>(rows: &[&'a CallRow]) -> Vec<&'a CallRow> {
    let mut newest: BTreeMap<(&str, &str), &CallRow> = BTreeMap::new();
    for row in rows {
        let key = (row.library.as_str(), row.call.as_str());
        let rank = |row: &CallRow| {
            let measured = row.standing.unmeasured.is_none();
            (measured, row.visible_gpus, row.libcudart_version.as_deref().map(number))
        };
        if newest.get(&key).is_none_or(|known| rank(known) < rank(row)) {
            newest.insert(key, row);
        }
    }
    newest.into_values().collect()
}

fn table(title: &str, rows: &[&CallRow]) -> Section {
    let row = |row: &&CallRow| {
        vec![
            row.call.clone(),
            library(row),
            frozen(row),
            context(row),
            memory(row),
            row.status.clone().unwrap_or_else(|| "?".to_string()),
            row.elapsed_ns.map(units::duration).unwrap_or_default(),
        ]
    };
    Section {
        title: format!("{title} ({})", rows.len()),
        header: ["call", "library", "freezes", "context on", "memory", "returned", "took"].map(str::to_string).to_vec(),
        rows: rows.iter().map(row).collect(),
        code: vec![0, 5],
        ..Section::default()
    }
}

fn library(row: &CallRow) -> String {
    row.libcudart_version.as_ref().map_or_else(|| row.library.clone(), |version| format!("{} {version}", row.library))
}

fn frozen(row: &CallRow) -> String {
    match row.freezes_visibility {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
    .to_string()
}

fn context(row: &CallRow) -> String {
    let Some(on) = &row.context_on else { return "?".to_string() };
    match on.as_slice() {
        [] => "–".to_string(),
        on => {
            let on: Vec<String> = on.iter().map(u32::to_string).collect();
            format!("{} of {}", on.join(", "), row.visible_gpus)
        }
    }
}

fn memory(row: &CallRow) -> String {
    let Some(used) = &row.device_used_bytes else { return "?".to_string() };
    let used: Vec<String> = used.iter().map(|bytes| units::delta(*bytes)).collect();
    used.join(", ")
}

/// The calls of libcudart that did not do the same with every version, or were not always there.
fn changes(rows: &[&CallRow]) -> Section {
    let mut by_call: BTreeMap<&str, BTreeMap<Vec<u32>, &CallRow>> = BTreeMap::new();
    for row in rows {
        let Some(version) = &row.libcudart_version else { continue };
        by_call.entry(&row.call).or_default().insert(number(version), row);
    }
    let all: BTreeSet<Vec<u32>> = by_call.values().flat_map(BTreeMap::keys).cloned().collect();
    let mut section = Section {
        title: "What changed between versions of libcudart".to_string(),
        header: ["call", "libcudart", "freezes", "makes a context", "returned"].map(str::to_string).to_vec(),
        code: vec![0, 4],
        ..Section::default()
    };
    let names: Vec<String> = all.iter().map(|version| name(version)).collect();
    section.text.push(match names.len() {
        0 => return Section::default(),
        1 => format!("Of libcudart only {} was asked.", names.join("")),
        count => format!("{count} versions were asked: {}.", names.join(", ")),
    });
    for (call, versions) in by_call {
        let runs = runs(&versions);
        if runs.len() > 1 {
            for (first, last, (freezes, context, status)) in runs {
                let range = if first == last { first } else { format!("{first} to {last}") };
                section.rows.push(vec![call.to_string(), range, freezes, context, status]);
            }
        }
    }
    if section.rows.is_empty() && names.len() > 1 {
        section.text.push("Every call did the same with each of them.".to_string());
    }
    section
}

fn name(version: &[u32]) -> String {
    version.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

/// Versions in order, as runs of one behaviour.
fn runs(versions: &BTreeMap<Vec<u32>, &CallRow>) -> Vec<(String, String, Behaviour)> {
    let mut runs: Vec<(String, String, Behaviour)> = Vec::new();
    for (version, row) in versions {
        let behaviour = behaviour(row);
        match runs.last_mut() {
            Some((_, last, known)) if *known == behaviour => *last = name(version),
            _ => runs.push((name(version), name(version), behaviour)),
        }
    }
    runs
}

fn behaviour(row: &CallRow) -> Behaviour {
    if let Some(unmeasured) = &row.standing.unmeasured {
        let why = match unmeasured.reason {
            Reason::MissingSymbol => "not exported".to_string(),
            other => other.name(),
        };
        return ("–".to_string(), "–".to_string(), why);
    }
    let context = row.context_on.as_ref().map_or("?", |on| if on.is_empty() { "no" } else { "yes" });
    (frozen(row), context.to_string(), row.status.clone().unwrap_or_else(|| "?".to_string()))
}

/// Calls that no library here has, or whose attempts do not count.
fn unmeasured(newest: &[&CallRow]) -> Section {
    let rows = newest.iter().filter_map(|row| {
        let why = row.standing.unmeasured.as_ref()?;
        Some(vec![row.call.clone(), library(row), why.reason.name(), why.detail.clone()])
    });
    Section {
        title: "Asked and not measured".to_string(),
        header: ["call", "library", "reason", "detail"].map(str::to_string).to_vec(),
        rows: rows.collect(),
        code: vec![0],
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::{Standing, Unmeasured};

    fn row(version: &str, freezes: bool, context: bool) -> CallRow {
        CallRow {
            call: "cudaSetDevice".into(),
            library: "libcudart".into(),
            libcudart_version: Some(version.into()),
            visible_gpus: 1,
            freezes_visibility: Some(freezes),
            context_on: Some(if context { vec![0] } else { Vec::new() }),
            device_used_bytes: Some(vec![0]),
            status: Some("cudaSuccess".into()),
            elapsed_ns: Some(1),
            standing: Standing { attempts: 3, ..Standing::default() },
            seen: Vec::new(),
        }
    }

    fn changed(rows: &[CallRow]) -> Vec<String> {
        let rows: Vec<&CallRow> = rows.iter().collect();
        changes(&rows).rows.iter().map(|cells| cells[1..].join(" ")).collect()
    }

    #[test]
    fn versions_that_do_alike_are_one_run_in_the_order_of_numbers() {
        let rows =
            [row("12.10", true, true), row("11.8", false, false), row("12.9", true, true), row("11.7", false, false)];
        assert_eq!(changed(&rows), ["11.7 to 11.8 no no cudaSuccess", "12.9 to 12.10 yes yes cudaSuccess"]);
    }

    #[test]
    fn a_call_that_never_changed_is_not_listed() {
        assert!(changed(&[row("11.8", true, true), row("12.0", true, true)]).is_empty());
    }

    #[test]
    fn a_version_without_the_call_is_a_change() {
        let mut absent = row("11.7", false, false);
        let unmeasured = Unmeasured { reason: Reason::MissingSymbol, detail: String::new() };
        absent.standing = Standing { unmeasured: Some(unmeasured), ..Standing::default() };
        assert_eq!(changed(&[absent, row("12.0", true, true)]), ["11.7 – – not exported", "12.0 yes yes cudaSuccess"]);
    }

    #[test]
    fn of_two_rows_about_one_thing_the_one_that_measured_stands_and_then_the_later() {
        let mut absent = row("12.0", false, false);
        let unmeasured = Unmeasured { reason: Reason::Crashed, detail: String::new() };
        absent.standing = Standing { unmeasured: Some(unmeasured), ..Standing::default() };
        let rows = [row("12.0", true, false), row("12.0", true, true), absent, row("11.8", true, false)];
        let of = |version: &str| -> Vec<Option<Vec<u32>>> {
            let is_of = |row: &&&CallRow| row.libcudart_version.as_deref() == Some(version);
            standing(rows.iter()).iter().filter(is_of).map(|row| row.context_on.clone()).collect()
        };
        assert_eq!((of("12.0"), of("11.8")), (vec![Some(vec![0])], vec![Some(vec![])]));
    }

    #[test]
    fn the_row_that_saw_most_stands_for_the_call_and_then_the_newest() {
        let mut wider = row("13.0", true, true);
        wider.visible_gpus = 2;
        let rows = [row("12.9", true, true), wider, row("13.5", true, true)];
        let of = |rows: &[CallRow]| {
            let newest = newest(&rows.iter().collect::<Vec<_>>());
            assert_eq!(newest.len(), 1);
            (newest[0].visible_gpus, newest[0].libcudart_version.clone().unwrap())
        };
        assert_eq!(of(&rows), (2, "13.0".to_string()));
        assert_eq!(of(&[row("12.9", true, true), row("12.10", true, true)]), (1, "12.10".to_string()));
    }
}
