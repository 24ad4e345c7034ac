//! The SARIF output for every committed trace, for a trace with hostile text in every place, and for a program that
//! runs on the simulated machine.
//!
//! The schema of the standard is a document of OASIS whose repository grants no license to copy it, so it is not
//! committed. `tests/sarif.subset.json` has the requirements of the standard for the properties that the program
//! writes, and allows no others. With `SARIF_SCHEMA=FILE` the schema of the standard is checked in addition:
//! <https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json>.

use crate::common;

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::PathBuf;

use common::traced::{LATE, in_time};
use common::{Scratch, evidence, root};
use cuda_pitfalls::diagnosis::findings;
use cuda_pitfalls::policy::PolicyOutcome;
use cuda_pitfalls::render::{Format, trace::TraceView};
use cuda_pitfalls::trace::{FILE, Trace, fixture::programs as fixture};
use jsonschema::Validator;
use serde_json::Value;

/// Returns the schemas that each file has to follow.
fn schemas() -> Vec<(String, Validator)> {
    let own = root().join("tests/sarif.subset.json");
    let of_standard = std::env::var_os("SARIF_SCHEMA").map(PathBuf::from);
    let read = |path: PathBuf| {
        let schema = common::read_json(&path);
        let options = jsonschema::options().should_validate_formats(true);
        let name = path.to_string_lossy().into_owned();
        (
            name,
            options
                .build(&schema)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        )
    };
    [own].into_iter().chain(of_standard).map(read).collect()
}

/// Returns the document; fails unless it follows the schemas and the rules that they cannot express.
fn valid(schemas: &[(String, Validator)], what: &str, text: &str) -> Value {
    let log: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{what}: {error}"));
    for (name, schema) in schemas {
        let errors: Vec<String> = schema
            .iter_errors(&log)
            .map(|error| format!("{}: {error:.300}", error.instance_path()))
            .collect();
        assert!(
            errors.is_empty(),
            "{what} does not follow {name}: {errors:#?}"
        );
    }
    let run = &log["runs"][0];
    let rules: Vec<&Value> = run["tool"]["driver"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["id"])
        .collect();
    let mut prints = HashSet::new();
    for result in run["results"].as_array().unwrap() {
        if let Some(index) = result["ruleIndex"].as_u64() {
            assert_eq!(
                rules[usize::try_from(index).unwrap()],
                &result["ruleId"],
                "{what}"
            );
        }
        assert!(
            prints.insert(result["partialFingerprints"].to_string()),
            "{what}: a fingerprint is given twice"
        );
    }
    log
}

/// Returns the document of a trace as `render` makes it.
fn rendered(trace: &Trace, outcome: &PolicyOutcome) -> String {
    let found = findings(trace);
    TraceView::new(trace, &found, outcome)
        .as_format(Format::Sarif, 100, ["", &trace.start.folder])
        .expect("a form")
}

#[test]
fn committed_traces_follow_the_standard_and_name_what_used_cuda() {
    let schemas = schemas();
    let is_trace =
        |file: &PathBuf| file.starts_with(root().join("reports/traces")) && file.ends_with(FILE);
    let (mut traces, mut ids) = (0, BTreeSet::new());
    for file in evidence().into_iter().filter(is_trace) {
        let trace = Trace::open(&file).unwrap_or_else(|error| panic!("{error}"));
        let name = file.to_string_lossy();
        let sarif = rendered(&trace, &PolicyOutcome::default());
        let log = valid(&schemas, &name, &sarif);
        let results = log["runs"][0]["results"].as_array().unwrap();
        let has_calls = trace.events.iter().any(|event| event.call == "cuInit");
        assert!(
            !has_calls || !results.is_empty(),
            "{name}: CUDA was used, and nothing says so"
        );
        ids.extend(
            results
                .iter()
                .map(|result| result["ruleId"].as_str().unwrap().to_owned()),
        );
        for found in findings(&trace) {
            assert!(
                results
                    .iter()
                    .any(|result| result["ruleId"] == found.rule.as_str()),
                "{name}: no {}",
                found.rule
            );
        }
        traces += 1;
    }
    assert!(
        traces >= 90 && ids.contains("cuinit") && ids.contains("context"),
        "{traces} traces, {ids:?}"
    );
}

#[test]
fn hostile_text_follows_the_standard() {
    let (trace, (_, outcome)) = (fixture::hostile(), fixture::hostile_findings());
    let sarif = rendered(&trace, &outcome);
    let log = valid(&schemas(), "the hostile trace", &sarif);
    assert_eq!(
        log["runs"][0]["invocations"][0]["executionSuccessful"],
        false
    );
}

#[test]
fn the_subset_is_no_empty_promise() {
    let trace = fixture::trace();
    let sarif = rendered(&trace, &PolicyOutcome::default());
    let log: Value = serde_json::from_str(&sarif).unwrap();
    let schemas = schemas();
    type Breaks = fn(&mut Value);
    let broken: [(&str, Breaks); 5] = [
        ("no rule", |log| {
            drop(
                log["runs"][0]["results"][0]
                    .as_object_mut()
                    .unwrap()
                    .remove("ruleId"),
            )
        }),
        ("a level that is none", |log| {
            log["runs"][0]["results"][0]["level"] = "pitfall".into()
        }),
        ("no place", |log| {
            log["runs"][0]["results"][0]["locations"] = Value::Array(Vec::new())
        }),
        ("a backslash", |log| {
            log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
                ["uri"] = "a\\b".into();
        }),
        ("a misspelt name", |log| {
            log["runs"][0]["invocations"][0]["exitcode"] = 0.into()
        }),
    ];
    for (what, breaks) in broken {
        let mut log = log.clone();
        breaks(&mut log);
        assert!(!schemas[0].1.is_valid(&log), "{what} is accepted");
    }
}

#[test]
fn a_forbidden_cuinit_is_an_error_at_the_line_of_the_import() {
    let scratch = Scratch::new();
    let file = |name: &str| scratch.path().join(name);
    // A repository, and a package in a folder of it whose name has a space.
    let package = file("repository/some lib/mine");
    fs::create_dir_all(&package).expect("a folder of our own");
    fs::create_dir(file("repository/.git")).expect("a folder of our own");
    fs::write(package.join("__init__.py"), "from mine import gpu\n").expect("a file of our own");
    let code = "import ctypes\nctypes.CDLL('libcuda.so.1').cuInit(0)\n";
    fs::write(package.join("gpu.py"), code).expect("a file of our own");
    let [out, sarif, markdown] = ["traces", "trace.sarif", "trace.md"].map(file);
    let run = || {
        let written = [
            ("--out", &out),
            ("--sarif", &sarif),
            ("--markdown", &markdown),
        ];
        let written =
            written.map(|(option, path)| [option.to_owned(), path.to_string_lossy().into_owned()]);
        let mut options = ["trace", "--on", "sim", "--forbid", "cuinit"]
            .map(str::to_owned)
            .to_vec();
        options.extend(written.into_iter().flatten());
        options.extend(["python3", "-c", "import mine"].map(str::to_owned));
        let mut command = scratch.command(&options.iter().map(String::as_str).collect::<Vec<_>>());
        command
            .current_dir(file("repository/some lib"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let ran = scratch.ran(command);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let log = valid(
            &schemas(),
            "the trace",
            &fs::read_to_string(&sarif).expect("it was written"),
        );
        log["runs"][0].clone()
    };
    let of_init = |run: &Value| {
        let results = run["results"].as_array().unwrap();
        results
            .iter()
            .find(|result| result["ruleId"] == "cuinit")
            .expect("what was forbidden")
            .clone()
    };
    let first = in_time(|run: &Value| run.to_string().contains(LATE), &run);
    let init = of_init(&first);
    assert_eq!(init["level"], "error");
    let message = init["message"]["text"].as_str().unwrap();
    assert!(
        message.starts_with("SIMULATED: gpu.py:2 initializes CUDA"),
        "{message}"
    );
    let place = &init["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "some%20lib/mine/gpu.py");
    assert_eq!(place["region"]["startLine"], 2);
    let steps = init["codeFlows"][0]["threadFlows"][0]["locations"]
        .as_array()
        .expect("the way of the import");
    let lines: Vec<&Value> = steps
        .iter()
        .map(|it| &it["location"]["physicalLocation"]["artifactLocation"]["uri"])
        .collect();
    assert_eq!(
        lines,
        ["some%20lib/mine/__init__.py", "some%20lib/mine/gpu.py"]
    );
    let invocation = &first["invocations"][0];
    assert_eq!(
        (
            invocation["exitCode"].as_i64(),
            &invocation["executionSuccessful"]
        ),
        (Some(0), &Value::Bool(true))
    );
    assert_eq!(
        invocation["toolExecutionNotifications"][0]["descriptor"]["id"],
        "simulated"
    );
    let page = fs::read_to_string(&markdown).expect("it was written");
    assert!(
        page.lines()
            .next()
            .is_some_and(|title| title.contains(": forbidden: "))
            && page.contains("1 violation"),
        "{page}"
    );
    // The same line, in another process and further down.
    fs::write(package.join("gpu.py"), format!("# A comment.\n\n{code}"))
        .expect("a file of our own");
    let moved = of_init(&run());
    assert_eq!(
        moved["locations"][0]["physicalLocation"]["region"]["startLine"],
        4
    );
    assert_eq!(moved["partialFingerprints"], init["partialFingerprints"]);
}
