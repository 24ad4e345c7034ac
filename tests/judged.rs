//! Stored reports that were modified: conditions that this version cannot judge by are rejected, not left out.

use crate::common;

use std::fs;

use common::{Ran, Scratch, behind};
use serde_json::{Value, json};

/// Returns a report of a question with expectations of every kind.
fn report(scratch: &Scratch) -> Value {
    scratch
        .simulated(
            "sim:h200-x1",
            &["tests/selftest/processes.toml"],
            &["--repeat", "1"],
        )
        .ended(0, "ok")
        .json()
}

fn judge(scratch: &Scratch, document: &Value) -> Ran {
    let path = scratch.file("changed.json", document.to_string());
    scratch.run(&["judge", &path])
}

#[test]
fn what_this_version_cannot_judge_by_is_refused_in_words() {
    let scratch = Scratch::new();
    let whole = report(&scratch);
    let unknown = json!({ "eq": { "int": 1 } });
    let words = [
        "effect/0",
        "cases/0/expect/1",
        "cases/0/expect/1/value/code",
    ]
    .map(|at| {
        let mut changed = whole.clone();
        changed
            .pointer_mut(&format!("/scenarios/0/plan/{at}"))
            .expect("it is there")["temperature"] = unknown.clone();
        (changed, "temperature")
    });
    let changed = |change: fn(&mut Value)| {
        let mut changed = whole.clone();
        change(&mut changed);
        changed
    };
    let others = [
        (
            changed(|it| it["must_understand"] = json!(["weights"])),
            "`weights`",
        ),
        (
            changed(|it| it["schema"]["must_understand"] = json!(["weights"])),
            "`weights`",
        ),
        (
            changed(|it| it["scenarios"][0]["plan"] = Value::Null),
            "but no `plan`, so what was run is unknown",
        ),
        (changed(without_attempts), "`plan.repeat`"),
    ];
    for (document, words) in words.into_iter().chain(others) {
        judge(&scratch, &document).ended(2, "usage").says(words);
    }
}

/// Removes all attempts, so that nothing can be concluded.
fn without_attempts(document: &mut Value) {
    document["scenarios"][0]["plan"]["repeat"] = json!(0);
    for case in document["scenarios"][0]["cases"]
        .as_array_mut()
        .expect("cases")
    {
        case["attempts"] = json!([]);
        case["outcomes"] = json!([]);
    }
}

/// A compact report, by `run` and by `render` alike, is judged like the full one.
#[test]
fn a_compact_report_is_judged_as_the_whole_one() {
    let scratch = Scratch::new();
    let whole = report(&scratch);
    let path = scratch.file("whole.json", whole.to_string());
    let ran = scratch.run(&["render", "--as", "compact", &path]).good();
    let run = scratch
        .simulated(
            "sim:h200-x1",
            &["tests/selftest/processes.toml"],
            &["--repeat", "1", "--compact"],
        )
        .ended(0, "ok");
    let verdicts = |document: &Value| -> Vec<Value> {
        let all = document["scenarios"].as_array().expect("scenarios");
        all.iter()
            .map(|one| {
                json!([
                    one["name"],
                    one["verdict"]["kind"],
                    one["verdict"]["expectation"]
                ])
            })
            .collect()
    };
    for compact in [ran.json(), run.json()] {
        assert_eq!(compact["must_understand"], json!(["compact"]));
        assert!(
            !compact.to_string().contains("\"attempts\""),
            "attempts are left out"
        );
        assert_eq!(verdicts(&compact), verdicts(&whole));
        let facts = &compact["scenarios"][0]["cases"][0]["outcomes"][0]["facts"];
        assert!(facts[0][0].is_u64() && facts[0][2].is_array(), "{facts}");
        judge(&scratch, &compact)
            .ended(0, "ok")
            .says("compact")
            .prints("COMPACT");
        let path = scratch.at("changed.json");
        scratch
            .run(&["judge", &path, "--with", "tests/selftest/processes.toml"])
            .ended(2, "usage")
            .says("this report is compact");
        scratch
            .run(&["compare", &path, &scratch.at("whole.json")])
            .ended(0, "ok");
    }
}

/// A compact report omits the texts of built-in questions. Today's texts are not shown with the answer to a different
/// one.
#[test]
fn an_answer_has_the_words_of_what_was_asked() {
    let scratch = Scratch::new();
    let name = "visibility/mask-behind-setenv";
    let mut compact = scratch
        .simulated("sim:h200-x2", &[name], &["--repeat", "1", "--compact"])
        .json();
    let words = |compact: &Value| {
        judge(&scratch, compact)
            .stdout
            .contains("Is a mask written straight")
    };
    assert!(words(&compact));
    compact["scenarios"][0]["asked"] = json!("0123456789abcdef");
    assert!(!words(&compact));
}

#[test]
fn a_document_takes_no_more_memory_than_its_text() {
    let scratch = Scratch::new();
    let path = scratch.file(
        "large.json",
        format!("{{\"a\":[{}0]}}", "0,".repeat(16 << 20)),
    );
    let limited = ["sh", "-c", "ulimit -v 307200 && exec \"$@\"", "sh"];
    scratch
        .ran(behind(&limited, &scratch.command(&["judge", &path])))
        .ended(2, "usage")
        .says("schema.name");
}

#[test]
fn a_file_that_asks_something_else_is_refused() {
    let scratch = Scratch::new();
    let source = fs::read_to_string("tests/selftest/processes.toml").expect("a file of ours");
    let own = scratch.file("processes.toml", &source);
    let (_, report) = scratch.simulate("sim:h200-x1", &[&own], &["--repeat", "1"]);
    let stored = scratch
        .reports()
        .join(&report.run.id)
        .to_string_lossy()
        .into_owned();
    scratch
        .run(&["judge", &stored, "--with", &own])
        .ended(0, "ok");

    scratch
        .run(&[
            "judge",
            &stored,
            "--with",
            "scenarios/context/stays-until-exit.toml",
        ])
        .ended(2, "usage")
        .says("context/stays-until-exit: not in this report");

    // The verdict answers today's question, so it is shown with that one.
    fs::write(&own, source.replacen("\"Does a", "\"Today, does a", 1)).expect("a file of our own");
    scratch
        .run(&["judge", &stored, "--with", &own])
        .prints("Today, does a fresh process");

    let other = source.replacen(
        "CUDA_VISIBLE_DEVICES = \"\"",
        "CUDA_VISIBLE_DEVICES = \"none\"",
        1,
    );
    assert_ne!(other, source);
    fs::write(&own, other).expect("a file of our own");
    scratch
        .run(&["judge", &stored, "--with", &own])
        .ended(2, "usage")
        .says("makes calls that differ from the measured ones");
}

/// Returns every command that reads a document, with the path of one.
fn readers(path: &str) -> [Vec<&str>; 6] {
    [
        vec!["judge", path],
        vec!["judge", path, "--json"],
        vec!["render", path],
        vec!["render", path, "--as", "prometheus"],
        vec!["compare", path, path],
        vec!["bundle", path],
    ]
}

/// A report that was forged from a simulated one, to pass for a measurement.
#[test]
fn every_reader_rejects_measured_claim_on_simulated_machine() {
    let scratch = Scratch::new();
    let path = scratch.at("changed.json");
    let mut claimed = report(&scratch);
    claimed["provenance"] = json!("measured");
    // The traces of the simulated machine are removed one after the other; the remaining ones reveal it.
    let on_sim = claimed.clone();
    claimed["run"]["on"] = json!("cuda");
    let with_library = claimed.clone();
    for library in claimed["machine"]["libraries"]
        .as_array_mut()
        .expect("libraries")
    {
        library["simulated"] = json!(false);
    }
    let with_name = claimed.to_string();
    let with_gpu = with_name.replace("libcuda_pitfalls_sim", "libcuda");
    let with_verdict = with_gpu.replace("GPU-000000", "GPU-00a000");
    for (document, words) in [
        (on_sim.to_string(), "sim:h200-x1"),
        (with_library.to_string(), "libraries"),
        (with_name, "libraries"),
        (with_gpu, "GPUs"),
        (with_verdict, "verdict"),
    ] {
        fs::write(&path, document).expect("a file of our own");
        for arguments in readers(&path) {
            let ran = scratch.run(&arguments).ended(2, "usage");
            let is_refused =
                ran.stderr.contains("contradicts itself") && ran.stderr.contains(words);
            assert!(is_refused, "{arguments:?}: {}", ran.stderr);
        }
        let out = scratch.at("fleet.json");
        scratch
            .run(&["fleet", "merge", &path, "--out", &out])
            .ended(4, "nothing_measured")
            .prints("contradicts itself");
    }
}

#[test]
fn so_are_surveys_and_traces() {
    let scratch = Scratch::new();
    let refused = |name: &str, text: String, changed: bool| {
        assert!(changed, "{name} is as it was");
        let path = scratch.file(name, text);
        for arguments in [vec!["render", &path], vec!["compare", &path, &path]] {
            scratch
                .run(&arguments)
                .ended(2, "usage")
                .says("contradicts itself");
        }
    };
    let mut survey: Value = common::read_json(
        common::root().join("reports/survey-calls-h200-x2/rest/survey-calls.json"),
    );
    let mut conclusive = survey.clone();
    let said = &mut conclusive["rows"][0]["is_conclusive"];
    *said = json!(*said == false);
    refused("conclusive.json", conclusive.to_string(), true);
    survey["survey"]["on"] = json!("sim:h200-x2");
    refused("survey.json", survey.to_string(), true);
    let trace = common::root().join("reports/traces/h200-x2/c_late_mask/trace.ndjson");
    let trace = common::read_document(trace);
    let changed = trace.replacen("\"on\":\"cuda\"", "\"on\":\"sim:h200-x2\"", 1);
    let is_changed = changed != trace;
    refused("trace.ndjson", changed, is_changed);
}

#[test]
fn a_bundle_is_whole_or_not_there() {
    let scratch = Scratch::new();
    let mut changed = report(&scratch);
    changed["scenarios"][0]["name"] = json!("");
    changed["scenarios"][0]["scenario"] = json!("");
    let path = scratch.file("changed.json", changed.to_string());
    let out = scratch.at("bundle.tar.gz");
    scratch.run(&["bundle", &path, "", "--out", &out]).good();
    let packed = flate2::read::GzDecoder::new(fs::File::open(&out).expect("it was written"));
    let mut archive = tar::Archive::new(packed);
    let names = archive.entries().expect("an archive").map(|entry| {
        let entry = entry.expect("a whole archive");
        entry.path().expect("a name").to_string_lossy().into_owned()
    });
    let names: Vec<String> = names.collect();
    assert!(
        names.contains(&"scenario/report.json".to_owned()),
        "{names:?}"
    );
    // It replaces nothing, and leaves no other file.
    scratch
        .run(&["bundle", &path, "", "--out", &out])
        .ended(2, "usage");
    assert!(
        common::names_in(scratch.path())
            .iter()
            .all(|name| !name.starts_with('.'))
    );
}
