//! Every text of every kind of document is hostile at once, and no form of the document obeys it.

use crate::common;

use std::fs;
use std::path::Path;

use crate::fuzz::forms::{Forms, HOSTILE, acting, parts};
use crate::fuzz::readers::{READERS, Reader};
use common::{Scratch, read_document, root};
use cuda_pitfalls::trace::fixture;
use serde_json::{Value, json};

/// The same text as it is displayed.
const SHOWN: &str = r"\x1b[31m";

/// Returns the text of a document. A trace is an array of its lines.
fn text(document: &Value) -> String {
    match document.as_array() {
        Some(lines) => lines.iter().map(|line| format!("{line}\n")).collect(),
        None => document.to_string(),
    }
}

/// Keeps the first entries of each list, if the reader accepts the rest.
fn shorten(value: &mut Value, entries: usize) {
    match value {
        Value::Array(list) => {
            list.truncate(entries);
            list.iter_mut().for_each(|value| shorten(value, entries));
        }
        Value::Object(map) => map.values_mut().for_each(|value| shorten(value, entries)),
        _ => {}
    }
}

/// Keeps one question of a report, and the figures of its calibrations.
fn reduce(report: &mut Value) {
    report["scenarios"]
        .as_array_mut()
        .expect("a list")
        .truncate(1);
    for calibrated in report["run"]["calibration"].as_array_mut().expect("a list") {
        calibrated["attempts"] = json!([]);
    }
}

/// Makes these texts hostile, as far as the reader accepts them.
fn spoil(document: &mut Value, pointers: &[String], read: Reader) {
    let before = document.clone();
    for pointer in pointers {
        *document.pointer_mut(pointer).expect("it was found there") = HOSTILE.into();
    }
    if read(text(document).as_bytes(), &mut Forms::default()).is_some() {
        return;
    }
    *document = before;
    if let (first, second @ [_, ..]) = pointers.split_at(pointers.len() / 2)
        && !first.is_empty()
    {
        spoil(document, first, read);
        spoil(document, second, read);
    }
}

/// Compares a document with itself before it was made hostile, and returns the output.
fn compared(scratch: &Scratch, kind: &str, paths: [&Path; 2]) -> Vec<(&'static str, String)> {
    let [before, after] = paths.map(|path| path.to_str().expect("UTF-8"));
    let commands = match kind {
        "fleet" => vec![vec!["fleet", "diff", before, after]],
        "report" | "survey" | "trace" => vec![vec!["compare", before, after]],
        _ => Vec::new(),
    };
    let ran = commands.iter().map(|arguments| scratch.run(arguments));
    ran.flat_map(|ran| [("text", ran.stdout), ("text", ran.stderr)])
        .collect()
}

#[test]
fn no_form_of_a_document_obeys_its_texts() {
    let scratch = Scratch::new();
    let fleet = scratch.path().join("fleet.json");
    let out = fleet.to_str().expect("UTF-8");
    let merged = scratch.run(&[
        "fleet",
        "merge",
        "reports/h200-x1",
        "reports/h100-x1",
        "--simulated",
        "--out",
        out,
    ]);
    assert!(fleet.exists(), "{merged:#?}");
    let made = |name: &str, document: Value| {
        let path = scratch.path().join(format!("made-{name}.json"));
        fs::write(&path, text(&document)).expect("a file of our own");
        path
    };
    let doctor = scratch.run(&["doctor", "--on", "sim", "--json"]).json();
    let examined = made("examination", doctor["examination"].clone());
    let trial = |kind: &str| {
        let outcome = json!({"kind": kind, "with": "", "says": "", "at": "", "way": [""], "child": "", "why": ""});
        json!({"versions": {"": ""}, "outcome": outcome, "elapsed_ns": 1})
    };
    let found = json!({"package": "", "last_good": "", "first_bad": "", "between": [""]});
    let bisection = made(
        "bisection",
        json!({"schema": {"name": "", "major": 1, "minor": 0}, "version": "", "started_at": "", "forbid": [""],
            "command": [""], "with": [""], "python": "", "axes": [{"package": "", "releases": [""]}],
            "trials": [trial("good"), trial("bad"), trial("unknown")], "found": [found], "together": false,
            "no_answer": null, "elapsed_ns": 1}),
    );
    let lines = fixture::lines(&fixture::programs::memory());
    let ledger = made("ledger", json!(lines));
    let report = |path: &str| root().join("reports").join(path);
    let documents = [
        (report("h200-x2-framework-triton/report.json"), "report"),
        (report("survey-calls-h200-x2/survey-calls.json"), "survey"),
        (report("survey-mask-h200-x2/survey-mask.json"), "survey"),
        (report("survey-env-h200-x2/survey-env.json"), "survey"),
        (
            report("survey-needs-h100-x1-cupy/survey-needs.json"),
            "survey",
        ),
        (report("survey-python-h200-x4/survey-python.json"), "survey"),
        (
            report("survey-errors-h100-x1-nvml/survey-errors.json"),
            "survey",
        ),
        (
            report("survey-startup-h100-x1-libcuda-595/survey-startup.json"),
            "survey",
        ),
        (report("traces/h100-x2/count_by_nvml/trace.ndjson"), "trace"),
        (ledger, "trace"),
        (
            report("releases/environment-accelerate-1.6.0.json"),
            "environment",
        ),
        (fleet, "fleet"),
        (examined, "examination"),
        (
            root().join("tests/fuzz/corpus/holders/seed-simulated.json"),
            "holders",
        ),
        (bisection, "bisection"),
    ];
    let mut wrong = Vec::new();
    for (source, kind) in documents {
        let before = read_document(&source);
        let read = READERS
            .iter()
            .find(|(name, _)| *name == kind)
            .expect("a reader")
            .1;
        let mut document: Value = serde_json::from_str(&before).unwrap_or_else(|_| {
            before
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
                .collect()
        });
        match kind {
            // The parts of a report with truncated lists contradict each other.
            "report" => reduce(&mut document),
            _ if document.is_object() => shorten(&mut document, 12),
            _ => {}
        }
        let mut pointers = Vec::new();
        parts(&document, "", &mut pointers);
        pointers.retain(|at| document.pointer(at).is_some_and(Value::is_string));
        spoil(&mut document, &pointers, read);
        let path = scratch.file("hostile", text(&document));
        let mut forms = Forms::every(1, 0);
        if read(text(&document).as_bytes(), &mut forms).is_none() {
            wrong.push(format!("{}: it is not read as it is", source.display()));
        }
        forms
            .shown
            .extend(compared(&scratch, kind, [&source, Path::new(&path)]));
        if !forms.shown.iter().any(|(_, text)| text.contains(SHOWN)) {
            wrong.push(format!("{}: nothing hostile is shown", source.display()));
        }
        for (form, text) in forms.shown {
            if let Some(line) = acting(form, &text) {
                wrong.push(format!("{} as {form}: {line:.300?}", source.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
