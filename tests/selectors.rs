//! The questions that a run selects and leaves out, and its end if the machine cannot answer.

use crate::common;

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use cuda_pitfalls::catalogue::essential;
use cuda_pitfalls::report::Report;

use common::Scratch;

/// A machine with one GPU, the minimum for a scenario.
const ONE_GPU: &str = "sim:h200-x1";
const TWO_GPUS: &str = "sim:h200-x2";
/// A scenario that needs one GPU, and one that needs two.
const SMALL: &str = "visibility/empty-mask-hides-all";
const PAIR: &str = "context/set-device-is-eager";

fn names(report: &Report) -> BTreeSet<String> {
    report
        .scenarios
        .iter()
        .map(|scenario| scenario.name.clone())
        .collect()
}

#[test]
fn a_run_asks_the_essential_set_unless_told_otherwise() {
    let (ran, report) = Scratch::new().simulate(ONE_GPU, &[], &["--quick"]);
    ran.ended(0, "ok");
    assert_eq!(
        names(&report),
        essential::all().into_iter().map(|one| one.name).collect()
    );
    assert_eq!(report.run.selectors, ["essential"]);
}

#[test]
fn a_run_asks_its_shard() {
    let selectors = [SMALL, "memory/context-cost"];
    let (ran, report) =
        Scratch::new().simulate(ONE_GPU, &selectors, &["--quick", "--shard", "2/2"]);
    ran.ended(0, "ok");
    assert_eq!(
        names(&report).into_iter().collect::<Vec<_>>(),
        ["memory/context-cost"]
    );
    assert_eq!(report.run.shard.as_deref(), Some("2/2"));
    // A part in which nothing is left measures nothing.
    Scratch::new()
        .simulate(ONE_GPU, &[SMALL], &["--quick", "--shard", "2/2"])
        .0
        .ended(4, "nothing_measured");
    Scratch::new()
        .run(&["run", "--shard", "5/4"])
        .ended(2, "usage")
        .says("such as 1/4");
}

#[test]
fn the_reason_for_skipping_is_kept_and_shown() {
    let scratch = Scratch::new();
    let junit = scratch.at("junit.xml");
    let more = [
        "--quick",
        "--allow-skip",
        "the second GPU is in repair",
        "--junit",
        &junit,
    ];
    let (ran, report) = scratch.simulate(ONE_GPU, &[SMALL, PAIR], &more);
    ran.ended(0, "ok").says("the second GPU is in repair");
    assert_eq!(
        report.run.allow_skip.as_deref(),
        Some("the second GPU is in repair")
    );
    let xml = fs::read_to_string(&junit).expect("a file");
    assert!(
        xml.contains("the second GPU is in repair") && !xml.contains("<error"),
        "{xml}"
    );
    let stored = scratch.reports().join(&report.run.id);
    for form in ["text", "markdown", "html", "github"] {
        scratch
            .run(&["render", &stored.to_string_lossy(), "--as", form])
            .prints("the second GPU is in repair");
    }
    // Judged again it is the same, and what was not allowed then can be now.
    scratch
        .run(&["judge", &stored.to_string_lossy()])
        .ended(0, "ok");
    let scratch = Scratch::new();
    let (ran, report) = scratch.simulate(ONE_GPU, &[SMALL, PAIR], &["--quick"]);
    ran.ended(5, "skipped");
    let stored = scratch.reports().join(&report.run.id);
    scratch
        .run(&["judge", &stored.to_string_lossy()])
        .ended(5, "skipped");
    scratch
        .run(&[
            "judge",
            &stored.to_string_lossy(),
            "--allow-skip",
            "one GPU",
        ])
        .ended(0, "ok");
    Scratch::new()
        .run(&["run", SMALL, "--on", ONE_GPU, "--allow-skip", " "])
        .ended(2, "usage");
}

#[test]
fn a_runner_that_lost_a_gpu_is_caught() {
    let scratch = Scratch::new();
    let junit = scratch.at("junit.xml");
    let more = ["--quick", "--require", "gpus=2", "--junit", &junit];
    let (ran, report) = scratch.simulate(ONE_GPU, &[SMALL], &more);
    let words = "2 usable GPUs were required (--require gpus=2), and there is 1";
    ran.ended(4, "nothing_measured").join_lines().says(words);
    assert!(
        report.scenarios.is_empty() && report.complete,
        "it is known before anything runs"
    );
    assert_eq!(
        (report.run.require[0].found, report.run.require[0].met),
        (Some(1), Some(false))
    );
    let xml = fs::read_to_string(&junit).expect("a file");
    assert!(
        xml.contains("<error type=\"require\"") || xml.contains("type=\"require\""),
        "{xml}"
    );
    let met = ["--quick", "--require", "gpus=1", "--require", "answers=1"];
    let (ran, report) = Scratch::new().simulate(ONE_GPU, &[SMALL], &met);
    ran.ended(0, "ok");
    assert!(report.run.require.iter().all(|one| one.met == Some(true)));
}

#[test]
fn fewer_answers_than_required_are_named() {
    let scratch = Scratch::new();
    let (ran, report) = scratch.simulate(
        ONE_GPU,
        &["context/s*"],
        &["--quick", "--require", "answers=150"],
    );
    let found = report.run.require[0].found.expect("answers are counted");
    let sentence = format!(
        "150 conclusive answers were required (--require answers=150), and there are {found}"
    );
    ran.ended(4, "nothing_measured")
        .join_lines()
        .says(&sentence);
    for bad in ["gpus", "gpus=0", "gpus=two", "answer=3", "gpus=2,answers=3"] {
        Scratch::new()
            .run(&["run", SMALL, "--on", ONE_GPU, "--require", bad])
            .ended(2, "usage")
            .says("gpus=N or answers=N");
    }
}

#[test]
fn a_gpu_that_may_not_be_used_is_not_there() {
    let scratch = Scratch::new();
    let uuid = scratch
        .simulate(TWO_GPUS, &[SMALL], &["--quick"])
        .1
        .machine
        .gpus[0]
        .uuid
        .clone();
    let (ran, _) = Scratch::new().simulate(
        TWO_GPUS,
        &["memory/context-cost"],
        // Twice is once.
        &["--gpus", &format!("{uuid},{uuid}"), "--require", "gpus=2"],
    );
    ran.ended(4, "nothing_measured");
}

#[test]
fn the_first_unexpected_verdict_ends_a_run_that_was_told_so() {
    let scratch = Scratch::new();
    let wrong = scratch.path().join("tests/wrong.toml");
    let source = fs::read_to_string(
        common::root()
            .join("scenarios")
            .join(format!("{SMALL}.toml")),
    )
    .expect("a scenario");
    fs::create_dir(wrong.parent().expect("a folder")).expect("a folder of our own");
    fs::write(
        &wrong,
        source.replace("verdict = \"reproduced\"", "verdict = \"not_reproduced\""),
    )
    .expect("a file");
    let wrong = wrong.to_string_lossy();
    let selectors = [
        "memory/context-cost",
        &*wrong,
        "memory/malloc-granularity",
        "memory/nvml-v1-counts-the-reserve",
    ];
    let (ran, report) = scratch.simulate(ONE_GPU, &selectors, &["--quick", "--fail-fast"]);
    ran.ended(1, "unexpected").says("--fail-fast");
    assert_eq!(report.run.stopped_by.as_deref(), Some("tests/wrong"));
    assert_eq!(
        report.run.not_run,
        [
            "memory/malloc-granularity",
            "memory/nvml-v1-counts-the-reserve"
        ]
    );
    assert!(!report.complete, "a part must not be taken for the whole");
    let (ran, report) = Scratch::new().simulate(ONE_GPU, &selectors, &["--quick"]);
    ran.ended(1, "unexpected");
    assert!(report.run.stopped_by.is_none() && report.scenarios.len() == 4 && report.complete);
}

#[test]
fn a_dry_run_says_what_would_happen_and_starts_nothing() {
    let scratch = Scratch::new();
    let out = scratch.at("reports");
    let ran = scratch
        .run(&[
            "run",
            SMALL,
            "instrument",
            "--on",
            ONE_GPU,
            "--dry-run",
            "--json",
            "--out",
            &out,
        ])
        .ended(0, "ok");
    assert!(!scratch.reports().exists(), "no report is made");
    let document: Value = ran.json();
    assert_eq!(
        (&document["dry_run"], &document["provenance"]),
        (&true.into(), &"simulated".into())
    );
    let (run, not) = (
        document["would_run"].as_array().unwrap(),
        document["not_applicable"].as_array().unwrap(),
    );
    assert!(!run.is_empty() && !not.is_empty());
    let attempts: u64 = run
        .iter()
        .map(|one| one["repeat"].as_u64().unwrap() * one["cases"].as_array().unwrap().len() as u64)
        .sum();
    assert_eq!(document["attempts"], attempts);
    assert!(
        not.iter()
            .all(|one| one["reason"] == "too_few_gpus" && one["lacks"] == "2 GPUs"),
        "{not:?}"
    );
    let text = scratch
        .run(&["run", SMALL, "instrument", "--on", ONE_GPU, "--dry-run"])
        .stdout;
    let line = format!(
        "not applicable here: {} ({} need 2 GPUs)",
        not.len(),
        not.len()
    );
    assert!(
        text.contains(&line)
            && text.contains(&format!("{} questions, {attempts} attempts", run.len())),
        "{text}"
    );
    // What it asks is what the run asks.
    let (_, report) = scratch.simulate(ONE_GPU, &[SMALL, "instrument"], &["--quick"]);
    let of = |list: &[Value]| {
        list.iter()
            .filter_map(|one| one["name"].as_str())
            .map(str::to_string)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(names(&report), of(run).into_iter().chain(of(not)).collect());
    // The command ends with the exit code of the run.
    for (arguments, code) in [
        (&[PAIR][..], 5),
        (&[PAIR, "--allow-skip", "one GPU"], 4),
        (&["context/set-device-*"], 4),
        (&[SMALL, "--require", "gpus=2"], 4),
        (&[SMALL], 0),
    ] {
        let all = [&["run", "--dry-run", "--on", ONE_GPU], arguments].concat();
        assert_eq!(Scratch::new().run(&all).code, Some(code), "{arguments:?}");
    }
}
