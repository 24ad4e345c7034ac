//! Every text of every kind of document is hostile at once, and no form of the document obeys it.

use crate::common;

use std::fs;
use std::path::Path;

use crate::hostile::acts;
use common::{Scratch, root};
use cuda_pitfalls::bisect::Bisection;
use cuda_pitfalls::examination::{Examination, ProcessExamination};
use cuda_pitfalls::fleet::{self, Fleet};
use cuda_pitfalls::releases;
use cuda_pitfalls::report::Stored;
use cuda_pitfalls::survey::SurveyDocument;
use cuda_pitfalls::trace::{Trace, fixture};
use cuda_pitfalls::{diagnose, findings, known::Known, render};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A second line that is a command of GitHub, another command, a colour, a title, a C1 control, a change of direction,
/// the end of a cell and of code, the end of a script, and a tag.
const HOSTILE: &str =
    "x\r\n::error::INJ ##[error]\x1b[31m\x1b]0;x\x07\u{9b}31m\u{202e}|`</script><img src=x onerror=INJ>\x1b[31m";
/// The same where it is shown.
const SHOWN: &str = r"\x1b[31m";

/// Whether the reader of its kind takes the document. A trace is an array of its lines.
type IsRead = fn(&Path) -> bool;

fn write(path: &Path, document: &Value) {
    let text = match document.as_array() {
        Some(lines) => lines.iter().map(|line| format!("{line}\n")).collect(),
        None => document.to_string(),
    };
    fs::write(path, text).expect("a file of our own");
}

/// Keeps the first entries of each list, where the reader takes the rest.
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

/// The JSON pointers of all texts.
fn texts(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, value)| texts(value, &format!("{at}/{index}"), found));
        }
        Value::Object(map) => {
            for (key, value) in map {
                texts(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        _ => {}
    }
}

/// Makes these texts hostile, as far as the reader takes them.
fn spoil(document: &mut Value, pointers: &[String], path: &Path, is_read: IsRead) {
    let before = document.clone();
    for pointer in pointers {
        *document.pointer_mut(pointer).expect("it was found there") = HOSTILE.into();
    }
    write(path, document);
    if is_read(path) {
        return;
    }
    *document = before;
    if let (first, second @ [_, ..]) = pointers.split_at(pointers.len() / 2)
        && !first.is_empty()
    {
        spoil(document, first, path, is_read);
        spoil(document, second, path, is_read);
    }
}

fn is_report(path: &Path) -> bool {
    Stored::open(path).is_ok_and(|stored| stored.report().is_ok())
}

fn is_survey(path: &Path) -> bool {
    Stored::open(path).is_ok_and(|stored| SurveyDocument::from_stored(&stored).is_some_and(|survey| survey.is_ok()))
}

fn is_trace(path: &Path) -> bool {
    Trace::open(path).is_ok()
}

fn is_fleet(path: &Path) -> bool {
    Stored::open(path).is_ok_and(|stored| stored.parse::<Fleet>(fleet::SCHEMA).is_ok())
}

fn parse<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_str(&fs::read_to_string(path).expect("a file of our own")).ok()
}

fn parses_as<T: DeserializeOwned>(path: &Path) -> bool {
    parse::<T>(path).is_some()
}

fn is_environment(path: &Path) -> bool {
    Stored::open(path).is_ok_and(|stored| stored.parse::<releases::EnvironmentDocument>(releases::SCHEMA).is_ok())
}

/// Text without spans of code, in which a tag is text. A span ends with as many backticks as it began with.
fn without_code(line: &str) -> String {
    let Some((before, rest)) = line.split_once('`') else { return line.to_owned() };
    let ticks = 1 + rest.len() - rest.trim_start_matches('`').len();
    let inside = &rest[ticks - 1..];
    let mut end = None;
    for (at, _) in inside.match_indices('`').filter(|(at, _)| !inside[..*at].ends_with('`')) {
        let run = inside[at..].len() - inside[at..].trim_start_matches('`').len();
        if run == ticks {
            end = Some(at + run);
            break;
        }
    }
    match end {
        Some(end) => before.to_owned() + &without_code(&inside[end..]),
        None => before.to_owned() + &"`".repeat(ticks) + &without_code(inside),
    }
}

/// What the forms of a document show, with their names.
fn forms(scratch: &Scratch, kind: &str, source: &Path, path: &Path) -> Vec<(String, String)> {
    match kind {
        "examination" => {
            let examination = parse::<Examination>(path).expect("it is read");
            let diagnosed = diagnose(&examination, &Known::embedded().needs);
            return vec![("text".into(), render::doctor::text(&examination, &diagnosed, 80))];
        }
        "process" => {
            let process = parse::<ProcessExamination>(path).expect("it is read");
            return vec![("text".into(), render::doctor::process_text(&process, &findings(&process), 80))];
        }
        "bisection" => return vec![("text".into(), render::bisect::text(&parse(path).expect("it is read"), 80))],
        _ => {}
    }
    let [path, source] = [path, source].map(|it| it.to_str().expect("UTF-8"));
    let names =
        ["text", "text-full", "html", "markdown", "junit", "prometheus", "github", "sarif", "compact", "csv", "json"];
    let render = if kind == "fleet" { vec!["fleet", "render", path] } else { vec!["render", path] };
    let mut commands: Vec<_> = names.map(|name| (name, [&render[..], &["--as", name]].concat())).into();
    if kind == "fleet" {
        commands.push(("text", vec!["fleet", "diff", source, path]));
    } else {
        commands.push(("text", vec!["compare", source, path]));
        commands.push(("json", vec!["compare", "--json", path, source]));
    }
    let mut shown = Vec::new();
    for (form, arguments) in commands {
        let ran = scratch.run(&arguments);
        shown.extend([(form.to_owned(), ran.stdout), ("text".to_owned(), ran.stderr)]);
    }
    shown
}

/// The first line that acts where this form is shown.
fn acting(form: &str, text: &str) -> Option<String> {
    let is_wrong = |line: &&str| match form {
        _ if line.chars().any(acts) || line.starts_with("::error::INJ") => true,
        "github" => !["::error ", "::warning ", "::notice "].iter().any(|start| line.starts_with(start)),
        "html" | "junit" => line.contains("<img src=x") || line.contains("</script><"),
        // A backslash takes a backtick its meaning.
        "markdown" => without_code(&line.replace("\\`", "")).contains("<img src=x"),
        "text" | "text-full" => line.contains("##[") || line.trim_start().starts_with("::"),
        _ => false,
    };
    text.lines().find(is_wrong).map(str::to_owned)
}

#[test]
fn no_form_of_a_document_obeys_its_texts() {
    let scratch = Scratch::new();
    let fleet = scratch.path().join("fleet.json");
    let out = fleet.to_str().expect("UTF-8");
    let merged = scratch.run(&["fleet", "merge", "reports/h200-x1", "reports/h100-x1", "--simulated", "--out", out]);
    assert!(fleet.exists(), "{merged:#?}");
    let made = |name: &str, document: Value| {
        let path = scratch.path().join(format!("made-{name}.json"));
        write(&path, &document);
        path
    };
    let doctor = scratch.run(&["doctor", "--on", "sim", "--json"]).json();
    let examined = made("examination", doctor["examination"].clone());
    let own = std::process::id().to_string();
    let process = scratch.run(&["doctor", "--on", "sim", "--pid", &own, "--watch", "0", "--json"]).json();
    let process = made("process", process["process"].clone());
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
    let documents: [(_, IsRead, _); 15] = [
        (report("h200-x2-framework-triton/report.json"), is_report, "report"),
        (report("survey-calls-h200-x2/survey-calls.json"), is_survey, "survey"),
        (report("survey-mask-h200-x2/survey-mask.json"), is_survey, "survey"),
        (report("survey-env-h200-x2/survey-env.json"), is_survey, "survey"),
        (report("survey-needs-h100-x1-cupy/survey-needs.json"), is_survey, "survey"),
        (report("survey-python-h200-x4/survey-python.json"), is_survey, "survey"),
        (report("survey-errors-h100-x1-nvml/survey-errors.json"), is_survey, "survey"),
        (report("survey-startup-h100-x1-libcuda-595/survey-startup.json"), is_survey, "survey"),
        (report("traces/h100-x2/count_by_nvml/trace.ndjson"), is_trace, "trace"),
        (ledger, is_trace, "trace"),
        (report("releases/environment-accelerate-1.6.0.json"), is_environment, "environment"),
        (fleet, is_fleet, "fleet"),
        (examined, parses_as::<Examination>, "examination"),
        (process, parses_as::<ProcessExamination>, "process"),
        (bisection, parses_as::<Bisection>, "bisection"),
    ];
    let mut wrong = Vec::new();
    for (source, is_read, kind) in documents {
        let text = fs::read_to_string(&source).expect("a document");
        let path = scratch.path().join(source.file_name().expect("a file"));
        let mut document: Value = serde_json::from_str(&text)
            .unwrap_or_else(|_| text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")).collect());
        if !is_read(&source) {
            wrong.push(format!("{}: it is not read as it is", source.display()));
            continue;
        }
        // `compare` and `diff` take the same document before it was made hostile.
        let before = scratch.path().join(format!("before-{kind}"));
        fs::copy(&source, &before).expect("a copy");
        if document.is_object() {
            shorten(&mut document, 12);
        }
        let mut pointers = Vec::new();
        texts(&document, "", &mut pointers);
        spoil(&mut document, &pointers, &path, is_read);
        write(&path, &document);
        let forms = forms(&scratch, kind, &before, &path);
        if !forms.iter().any(|(_, text)| text.contains(SHOWN)) {
            wrong.push(format!("{}: nothing hostile is shown", source.display()));
        }
        for (form, text) in forms {
            if let Some(line) = acting(&form, &text) {
                wrong.push(format!("{} as {form}: {line:.300?}", source.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
