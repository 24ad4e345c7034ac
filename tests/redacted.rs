//! Redaction: no format of a redacted trace contains a path of the machine, whichever text contained it.

use crate::common;

use std::fs;

use common::{Scratch, read_document, root};
use cuda_pitfalls::policy::PolicyOutcome;
use cuda_pitfalls::render::Format;
use cuda_pitfalls::render::trace::TraceView;
use cuda_pitfalls::text::redact::Redactor;
use cuda_pitfalls::trace::fixture::{self, programs};
use cuda_pitfalls::trace::{Trace, TraceLine, redact_line};
use cuda_pitfalls::{diagnosis, trace};
use serde_json::Value;

const MARK: &str = "secret-user";

/// Returns a line with this text in each of its text fields, one after another.
fn marked(line: &TraceLine, text: &str) -> Vec<TraceLine> {
    let whole = serde_json::to_value(line).expect("JSON");
    let mut found = Vec::new();
    let mut pointers = vec![String::new()];
    while let Some(at) = pointers.pop() {
        match whole.pointer(&at) {
            Some(Value::Object(fields)) => {
                pointers.extend(fields.keys().map(|name| format!("{at}/{name}")))
            }
            Some(Value::Array(values)) => {
                pointers.extend((0..values.len()).map(|index| format!("{at}/{index}")))
            }
            Some(Value::String(_)) => {
                let mut changed = whole.clone();
                *changed.pointer_mut(&at).expect("it is there") = text.into();
                // The words of the format cannot change.
                found.extend(serde_json::from_value(changed).ok());
            }
            _ => {}
        }
    }
    found
}

#[test]
fn no_text_of_a_redacted_line_has_a_folder() {
    let lines: Vec<TraceLine> = [programs::hostile(), programs::memory(), programs::trace()]
        .iter()
        .flat_map(fixture::lines)
        .collect();
    let mut tried = 0;
    for text in [
        "/home/secret-user/x/tool",
        "./w/secret-user/tool",
        "sim:/home/secret-user/x.toml",
    ] {
        for line in lines.iter().flat_map(|line| marked(line, text)) {
            let shown =
                redact_line(line.clone(), &mut Redactor::default()).expect("it can be redacted");
            let shown = serde_json::to_string(&shown).expect("JSON");
            assert!(!shown.contains(MARK), "{line:?}\n{shown}");
            tried += 1;
        }
    }
    assert!(tried > 500, "{tried}");
    // The name of a program that cannot be observed, as a word of a sentence.
    let mut end = programs::trace().end.expect("it is whole");
    end.not_seen =
        vec!["a/secret-user/tool, which process 2 starts, belongs to another trace".to_owned()];
    let Ok(TraceLine::End(end)) = redact_line(TraceLine::End(end), &mut Redactor::default()) else {
        panic!("an end")
    };
    assert_eq!(
        end.not_seen,
        ["tool, which process 2 starts, belongs to another trace"]
    );
}

#[test]
fn redacted_format_word_leaves_trace_readable() {
    for name in ["cuda", "line", "program", "event", "context", "memory"] {
        let mut redactor = Redactor::new(name, name);
        for line in fixture::lines(&programs::memory()) {
            redact_line(line, &mut redactor).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn no_form_of_a_redacted_trace_has_a_path() {
    let scratch = Scratch::new();
    let script = "import os; os.environ['CUDA_CACHE_PATH'] = '/home/secret-user/x'";
    let (out, junit, sarif) = (
        scratch.at("secret-user/out"),
        scratch.at("junit"),
        scratch.at("sarif"),
    );
    fs::create_dir_all(&out).expect("a folder");
    let arguments = [
        "trace", "--redact", "--on", "sim", "--out", &out, "--junit", &junit, "--sarif", &sarif,
    ];
    scratch
        .run(&[&arguments[..], &["--", "python3", "-c", script]].concat())
        .good();
    let folder = fs::read_dir(&out)
        .expect("a folder")
        .next()
        .expect("a trace")
        .expect("a trace")
        .path();
    let read = |path: &std::path::Path| fs::read_to_string(path).expect("it was written");
    let document = folder.join(trace::FILE);
    for path in [
        &document,
        &folder.join("trace.html"),
        &junit.into(),
        &sarif.into(),
    ] {
        assert!(
            !read(path).contains(MARK),
            "{}: {}",
            path.display(),
            read(path)
        );
    }
    assert!(
        read(&document).contains("CUDA_CACHE_PATH"),
        "the write is in the trace"
    );

    let given = read_document(root().join("reports/traces/h200-x2/torch_late_mask/trace.ndjson"));
    let mut lines: Vec<Value> = given
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for line in &mut lines {
        match line["line"].as_str() {
            Some("start") => {
                line["limits"] = serde_json::json!(["/home/secret-user/a is not read"])
            }
            Some("process") => line["no_python"] = "/home/secret-user/b cannot be opened".into(),
            Some("end") => {
                line["not_seen"] = serde_json::json!(["./w/secret-user/tool is not seen"])
            }
            _ => {}
        }
    }
    let text: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = scratch.file("given.ndjson", text.concat());
    let printed = scratch
        .run(&["render", "--redact", &path])
        .good()
        .stdout
        .clone();
    assert!(!printed.contains(MARK), "{printed}");
    let trace = Trace::read(printed.as_bytes(), document.as_path()).expect("a trace");
    let (found, outcome) = (diagnosis::findings(&trace), PolicyOutcome::default());
    let view = TraceView::new(&trace, &found, &outcome);
    for form in [
        Format::Text,
        Format::Html,
        Format::Markdown,
        Format::Junit,
        Format::Github,
        Format::Sarif,
    ] {
        let shown = view.as_format(form, 100, ["", ""]).expect("a form");
        assert!(!shown.contains(MARK), "{form:?}: {shown}");
    }
}
