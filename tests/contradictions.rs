//! Reports that contradict themselves: each is rejected, or judged as if the contradiction did not exist.

use std::fs::File;

use crate::common::{Scratch, read_json, root};

use cuda_pitfalls::catalogue::select_scenarios;
use cuda_pitfalls::judge::{self, plan_as_today};
use cuda_pitfalls::report::{CompactReport, Report, read};
use cuda_pitfalls::verdict::{ExpectationMet, Kind};
use serde_json::{Value, json};

/// Small reports of several machines, with only questions of today's files.
const REPORTS: [&str; 10] = [
    "survey-mask-h100-x4/report.json",
    "survey-startup-h100-x4/report.json",
    "h100-x4-lane-9/report.json",
    "h100-x4-framework/report.json",
    "h100-x4-mps/report.json",
    "shared-gpus/strangers/h100-x1-base-m-1.json.gz",
    "shared-gpus/strangers/h100-x1-memory-3.json.gz",
    "shared-gpus/strangers/h100-x2-pair-1.json.gz",
    "shared-gpus/strangers/h100-x2-locked-first-1.json.gz",
    "shared-gpus/strangers/h100-x2-processes-3.json.gz",
];

/// A change to a report, and `true` if it is then rejected or `false` if it is judged as before.
type Contradiction = (&'static str, bool, fn(&mut Value));

const CONTRADICTIONS: &[Contradiction] = &[
    ("the run was simulated", true, |report| {
        report["run"]["on"] = "sim:h200-x2".into()
    }),
    ("a library is the simulated one", true, |report| {
        report["machine"]["libraries"][0]["path"] = "/tmp/libcuda_pitfalls_sim.so".into();
    }),
    ("a libcudart is the simulated one", true, |report| {
        report["machine"]["libcudart"][0]["path"] = "/tmp/libcuda_pitfalls_sim.so".into();
    }),
    (
        "a GPU has a UUID of the simulated machine",
        true,
        |report| {
            let uuid = report["machine"]["gpus"][0]["uuid"]
                .as_str()
                .expect("a UUID")
                .to_owned();
            let text = report
                .to_string()
                .replace(&uuid, "GPU-00000001-0000-4000-8000-000000000001");
            *report = serde_json::from_str(&text).expect("it is JSON");
        },
    ),
    ("it ends before it starts", true, |report| {
        report["run"]["finished_at"] = "2020-01-01T00:00:00Z".into()
    }),
    ("it starts a year earlier", true, |report| {
        report["run"]["started_at"] = "2025-11-20T00:00:00Z".into()
    }),
    ("its start is no time", true, |report| {
        report["run"]["started_at"] = "yesterday".into()
    }),
    ("its dates are those of another day", true, |report| {
        for date in ["started_at", "finished_at"] {
            let text = report["run"][date]
                .as_str()
                .expect("a date")
                .replace("2026-", "2027-");
            report["run"][date] = text.into();
        }
    }),
    ("it took a thousandth of its time", true, |report| {
        scale(&mut report["run"]["elapsed_ns"], 1, 1000)
    }),
    ("it took twice its time", true, |report| {
        report["run"]["elapsed_ns"] = 7_200_000_000_000_u64.into()
    }),
    ("its clock starts an hour later", true, |report| {
        add(&mut report["run"]["started_ns"], 3_600_000_000_000)
    }),
    ("it is complete and was interrupted", true, |report| {
        (report["complete"], report["run"]["interrupted"]) = (true.into(), "SIGINT".into());
    }),
    ("the machine lists a GPU twice", true, |report| {
        repeat_first(&mut report["machine"]["gpus"])
    }),
    ("a GPU reserves more than it has", true, |report| {
        report["machine"]["gpus"][0]["reserved_bytes"] = (1_u64 << 50).into();
    }),
    ("a libcudart has another number", true, |report| {
        report["machine"]["libcudart"][0]["number"] = 11000.into()
    }),
    (
        "a question was asked on a libcudart of another machine",
        true,
        |report| {
            scenario(report)["libcudart"] =
                json!({"path": "/other/libcudart.so", "version": "11.0", "number": 11000});
        },
    ),
    ("a GPU was calibrated that is not there", true, |report| {
        calibration(report)["uuid"] = "GPU-12345678-1234-1234-1234-123456789abc".into();
    }),
    ("it was calibrated after the run", true, |report| {
        calibration(report)["at_ns"] = (1_u64 << 60).into()
    }),
    ("its calibration has figures of 0", true, |report| {
        for figure in [
            "context_bytes",
            "allocation_bytes",
            "allocated_bytes",
            "epsilon_bytes",
        ] {
            calibration(report)[figure] = 0.into();
        }
    }),
    ("a context is less than the noise", true, |report| {
        calibration(report)["epsilon_bytes"] = (1_u64 << 40).into()
    }),
    (
        "an allocation took far more than its size",
        true,
        |report| {
            calibration(report)["allocated_bytes"] = 5.into();
        },
    ),
    ("an allocation took less than its size", true, |report| {
        calibration(report)["allocation_bytes"] = 4096.into()
    }),
    ("a calibration is sound and is not", true, |report| {
        calibration(report)["why_unsound"] = "disturbed".into()
    }),
    ("a question is listed twice", true, |report| {
        repeat_first(&mut report["scenarios"])
    }),
    ("a hash has zeros alone", true, |report| {
        scenario(report)["sha256"] = "0".repeat(64).into()
    }),
    ("a hash is a word", true, |report| {
        scenario(report)["sha256"] = "not a hash".into()
    }),
    ("a question has other words", true, |report| {
        scenario(report)["question"] = "Does the moon cost memory?".into()
    }),
    ("a question has another workaround", true, |report| {
        scenario(report)["workaround"] = "Restart it.".into()
    }),
    ("a question is one of another scenario", true, |report| {
        scenario(report)["name"] = "memory/other".into()
    }),
    ("a question has no effect", true, |report| {
        scenario(report)["plan"]["effect"] = json!([])
    }),
    ("a plan lacks a step", true, |report| {
        scenario(report)["plan"]["cases"][0]["steps"]
            .as_array_mut()
            .expect("steps")
            .remove(0);
    }),
    ("a plan expects another verdict", true, |report| {
        scenario(report)["plan"]["expect"] =
            json!([{"verdict": "reproduced", "because": "so", "evidence": ""}]);
    }),
    ("any number of attempts would do", true, |report| {
        scenario(report)["plan"]["repeat"] = 0.into()
    }),
    ("an answer has no plan", true, |report| {
        scenario(report)["plan"] = Value::Null
    }),
    (
        "the recordings of two cases are exchanged",
        true,
        |report| {
            let cases = scenario(report)["cases"].as_array_mut().expect("cases");
            let first = cases[0]["attempts"].take();
            cases[0]["attempts"] = std::mem::replace(&mut cases[1]["attempts"], first);
        },
    ),
    ("a recording is there twice", true, |report| {
        repeat_first(&mut case(report)["attempts"])
    }),
    ("a recording is copied to a later time", true, copy_later),
    ("the first attempt is left out", true, |report| {
        for case in scenario(report)["cases"].as_array_mut().expect("cases") {
            case["attempts"]
                .as_array_mut()
                .expect("attempts")
                .retain(|attempt| attempt["order"] != 0);
        }
    }),
    (
        "attempts of two cases have each other's place",
        true,
        |report| {
            let cases = scenario(report)["cases"].as_array_mut().expect("cases");
            let first = cases[0]["attempts"][0]["order"].take();
            cases[0]["attempts"][0]["order"] =
                std::mem::replace(&mut cases[1]["attempts"][0]["order"], first);
        },
    ),
    ("a step ends twice, with other values", true, |report| {
        let mut end = event(report, "end").clone();
        end["values"] = json!({"count": 99});
        attempt(report)["events"]
            .as_array_mut()
            .expect("events")
            .push(end);
    }),
    ("steps end that did not begin", true, |report| {
        attempt(report)["events"]
            .as_array_mut()
            .expect("events")
            .retain(|event| event["event"] != "begin");
    }),
    ("all events are of one moment", true, |report| {
        for event in attempt(report)["events"].as_array_mut().expect("events") {
            if event.get("t_ns").is_some() {
                event["t_ns"] = 1.into();
            }
        }
    }),
    ("a call took longer than its attempt", true, |report| {
        event(report, "end")["elapsed_ns"] = (1_u64 << 50).into()
    }),
    ("a process sees a GPU of another machine", true, |report| {
        event(report, "probe")["probe"]["visible"] =
            json!(["GPU-12345678-1234-1234-1234-123456789abc"]);
    }),
    ("a step is none of its case", true, |report| {
        event(report, "probe")["step"] = 99.into()
    }),
    ("it was never ready", true, |report| {
        attempt(report)["events"]
            .as_array_mut()
            .expect("events")
            .retain(|event| event["event"] != "ready");
    }),
    (
        "a process uses a GPU that it does not see",
        true,
        |report| {
            event(report, "probe")["probe"] =
                json!({"status": null, "visible": [], "active": [true], "current": 0});
        },
    ),
    ("polling saw a GPU that is not there", true, |report| {
        attempt(report)["polling"]["changes"]["gpu"][0] = 99.into();
    }),
    ("a code has the name of another", true, |report| {
        event(report, "probe")["probe"]["status"] =
            json!({"code": 0, "name": "CUDA_ERROR_OUT_OF_MEMORY"});
    }),
    ("its process is another one", true, |report| {
        add(&mut attempt(report)["pid"], 1)
    }),
    ("it exited and was killed", true, |report| {
        (
            attempt(report)["exit"]["code"],
            attempt(report)["exit"]["signal"],
        ) = (0.into(), "SIGKILL".into());
    }),
    ("it never said that it left", true, |report| {
        attempt(report)["events"]
            .as_array_mut()
            .expect("events")
            .retain(|event| event["event"] != "bye");
    }),
    ("memory was read after the run", true, |report| {
        attempt(report)["snapshots"][0]["t_ns"] = (1_u64 << 60).into();
    }),
    ("more memory was in use than there is", true, |report| {
        attempt(report)["snapshots"][0]["gpus"][0]["used_bytes"] = (1_u64 << 50).into();
    }),
    (
        "less memory was in use than the GPU reserves",
        true,
        |report| {
            for size in ["used_bytes", "reserved_bytes", "v1_used_bytes"] {
                attempt(report)["snapshots"][0]["gpus"][0][size] = 0.into();
            }
        },
    ),
    ("its verdict is another one", false, |report| {
        let verdict = &mut scenario(report)["verdict"];
        let is_reproduced = verdict["kind"] == "reproduced";
        verdict["kind"] = if is_reproduced {
            "not_reproduced"
        } else {
            "reproduced"
        }
        .into();
    }),
    ("its verdict is hidden", false, |report| {
        let verdict = &mut scenario(report)["verdict"];
        (verdict["kind"], verdict["reason"]) = ("skipped".into(), "no_gpu".into());
        verdict["expectation"] = "no_expectation".into();
    }),
    ("its attempts have other outcomes", false, |report| {
        case(report)["outcomes"] = json!([]);
        attempt(report)["outcome"] = 7.into();
        attempt(report)["invalid"] =
            json!([{"reason": "contaminated", "detail": "another process"}]);
    }),
];

/// Returns a question of today's files that has an answer.
fn scenario(report: &mut Value) -> &mut Value {
    let all = report["scenarios"].as_array_mut().expect("a list");
    let is_answered = |one: &Value| {
        one["verdict"]["kind"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("reproduced"))
    };
    all.iter_mut()
        .find(|one| is_answered(one))
        .expect("a question with an answer")
}

fn case(report: &mut Value) -> &mut Value {
    &mut scenario(report)["cases"][0]
}

fn attempt(report: &mut Value) -> &mut Value {
    &mut case(report)["attempts"][0]
}

/// Returns the first event of a kind.
fn event<'v>(report: &'v mut Value, kind: &str) -> &'v mut Value {
    let events = attempt(report)["events"].as_array_mut().expect("events");
    events
        .iter_mut()
        .find(|event| event["event"] == kind)
        .expect("such an event")
}

/// Returns a calibration that is sound.
fn calibration(report: &mut Value) -> &mut Value {
    let all = report["run"]["calibration"].as_array_mut().expect("a list");
    all.iter_mut()
        .find(|one| one["sound"] == true)
        .expect("a sound calibration")
}

fn add(number: &mut Value, more: u64) {
    *number = (number.as_u64().expect("a number") + more).into();
}

fn scale(number: &mut Value, times: u64, of: u64) {
    *number = (number.as_u64().expect("a number") * times / of).into();
}

fn repeat_first(list: &mut Value) {
    let list = list.as_array_mut().expect("a list");
    list.push(list[0].clone());
}

/// Copies the first attempt of a case to the end of the run, as another process.
fn copy_later(report: &mut Value) {
    let mut copy = attempt(report).clone();
    let wall_ns = copy["wall_ns"].as_u64().expect("a time");
    let run = &mut report["run"];
    let end_ns =
        run["started_ns"].as_u64().expect("a time") + run["elapsed_ns"].as_u64().expect("a time");
    add(&mut run["elapsed_ns"], wall_ns + 1_000_000_000);
    let later_ns = end_ns + 500_000_000 - copy["started_ns"].as_u64().expect("a time");
    shift(&mut copy, later_ns);
    copy["pid"] = 7.into();
    copy["events"][0]["pid"] = 7.into();
    let cases = scenario(report)["cases"].as_array_mut().expect("cases");
    let made: usize = cases
        .iter()
        .map(|case| case["attempts"].as_array().map_or(0, Vec::len))
        .sum();
    copy["order"] = made.into();
    cases[0]["attempts"]
        .as_array_mut()
        .expect("attempts")
        .push(copy);
}

/// Moves all times of a recording.
fn shift(value: &mut Value, later_ns: u64) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|one| shift(one, later_ns)),
        Value::Object(all) => {
            for (key, one) in all {
                match one {
                    Value::Array(times) if key == "t_ns" => {
                        times.iter_mut().for_each(|time| add(time, later_ns))
                    }
                    Value::Number(_) if ["t_ns", "started_ns"].contains(&key.as_str()) => {
                        add(one, later_ns)
                    }
                    one => shift(one, later_ns),
                }
            }
        }
        _ => {}
    }
}

/// Returns the verdicts of a report, judged again.
fn verdicts(mut report: Report) -> Vec<(Kind, ExpectationMet, String)> {
    judge::rejudge(&mut report);
    let verdicts = report
        .scenarios
        .into_iter()
        .map(|scenario| scenario.verdict);
    verdicts
        .map(|verdict| (verdict.kind, verdict.expectation, verdict.detail))
        .collect()
}

/// Returns a committed report as if it had been made with today's files, whose words and plans can be compared.
fn renewed_report(name: &str) -> Report {
    let path = root().join("reports").join(name);
    let mut report = read(&path).unwrap_or_else(|error| panic!("{error}"));
    let files = select_scenarios(&["all".to_owned()]).expect("every file is valid");
    let others = plan_as_today(&mut report, &files);
    for scenario in &mut report.scenarios {
        if others.contains(&scenario.name) {
            continue;
        }
        let file = files
            .iter()
            .find(|file| file.name == scenario.scenario)
            .expect("a file of today");
        scenario.sha256.clone_from(&file.sha256);
        scenario.tags.clone_from(&file.tags);
    }
    report
}

#[test]
fn contradicting_reports_are_refused_or_judged_as_before() {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for name in REPORTS {
        let report = renewed_report(name);
        let as_json = serde_json::to_value(&report).expect("a report is JSON");
        let before = verdicts(report);
        for &(what, is_refused, contradict) in CONTRADICTIONS {
            let mut report = as_json.clone();
            contradict(&mut report);
            assert_ne!(report, as_json, "{name}: {what}: nothing was changed");
            tried += 1;
            match serde_json::from_value::<Report>(report) {
                Err(error) if is_refused && error.to_string().contains("contradicts itself") => {}
                Ok(report) if !is_refused && verdicts(report.clone()) == before => {}
                Err(error) => wrong.push(format!("{name}: {what}: {error}")),
                Ok(_) => wrong.push(format!("{name}: {what}: it is believed")),
            }
        }
    }
    assert!(
        tried >= 300 && wrong.is_empty(),
        "{} of {tried}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

type CompactContradiction = (&'static str, fn(&mut Value));

/// Changes to a compact report, which cannot be judged again.
const OF_COMPACT: [CompactContradiction; 10] = [
    ("the run was simulated", |report| {
        report["run"]["on"] = "sim:h200-x2".into()
    }),
    ("a library is the simulated one", |report| {
        report["machine"]["libraries"][0]["path"] = "/tmp/libcuda_pitfalls_sim.so".into();
    }),
    ("it ends before it starts", |report| {
        report["run"]["finished_at"] = "2020-01-01T00:00:00Z".into()
    }),
    ("its calibration has figures of 0", |report| {
        calibration(report)["context_bytes"] = 0.into()
    }),
    ("a question is listed twice", |report| {
        repeat_first(&mut report["scenarios"])
    }),
    ("a hash has zeros alone", |report| {
        scenario(report)["sha256"] = "0".repeat(64).into()
    }),
    ("a question has other words", |report| {
        scenario(report)["question"] = "Does the moon cost memory?".into()
    }),
    ("an answer has a reason why there is none", |report| {
        scenario(report)["verdict"]["reason"] = "no_gpu".into()
    }),
    ("an answer stands on nothing", |report| {
        scenario(report)["cases"] = json!([])
    }),
    ("recordings were left in", |report| {
        case(report)["attempts"] = json!([{"order": 0}])
    }),
];

#[test]
fn contradicting_compact_reports_are_refused() {
    let mut wrong = Vec::new();
    for name in REPORTS {
        let report = renewed_report(name);
        let compact = CompactReport::new(&report, |_| true);
        let as_json = serde_json::to_value(compact).expect("a report is JSON");
        assert!(
            serde_json::from_value::<CompactReport>(as_json.clone()).is_ok(),
            "{name}"
        );
        for (what, contradict) in OF_COMPACT {
            let mut report = as_json.clone();
            contradict(&mut report);
            let is_refused = serde_json::from_value::<CompactReport>(report);
            if !is_refused.is_err_and(|error| error.to_string().contains("contradicts itself")) {
                wrong.push(format!("{name}: {what}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every format judges again, and shows a stored verdict that its recordings do not support.
#[test]
fn no_form_repeats_a_stored_verdict() {
    let scratch = Scratch::new();
    let mut report: Value = read_json(root().join("reports/survey-mask-h100-x4/report.json"));
    let verdict = &mut report["scenarios"][0]["verdict"];
    assert_eq!(verdict["kind"], "not_reproduced");
    (verdict["kind"], verdict["expectation"]) = ("reproduced".into(), "unexpected".into());
    let name = report["scenarios"][0]["name"].as_str().expect("a name");
    let path = scratch.file("report.json", report.to_string());
    for form in ["text", "text-full", "html", "markdown", "junit", "github"] {
        let shown = scratch.run(&["render", &path, "--as", form]).good().stdout;
        let told = shown
            .split_once("JUDGED AGAIN")
            .unwrap_or_else(|| panic!("{form} says nothing:\n{shown}"))
            .1;
        assert!(
            told.contains(name) && told.contains("was reproduced (unexpected)"),
            "{form}: {told}"
        );
    }
    let metrics = scratch
        .run(&["render", &path, "--as", "prometheus"])
        .good()
        .stdout;
    assert!(
        metrics.contains("verdicts_changed 1\n") && !metrics.contains("expectation=\"unexpected\""),
        "{metrics}"
    );
    let compact = scratch
        .run(&["render", &path, "--as", "compact"])
        .good()
        .json();
    assert_eq!(compact["scenarios"][0]["verdict"]["kind"], "not_reproduced");
    scratch
        .run(&["judge", &path, "--json"])
        .good()
        .says("the stored verdict, reproduced (unexpected), is not what");
    let bundle = scratch.at("bundle.tar.gz");
    scratch
        .run(&["bundle", &path, name, "--out", &bundle])
        .good();
    let packed = flate2::read::GzDecoder::new(File::open(bundle).expect("it was written"));
    let mut archive = tar::Archive::new(packed);
    let entries = archive
        .entries()
        .expect("an archive")
        .map(|entry| entry.expect("a whole archive"));
    let mut of_report =
        entries.filter(|entry| entry.path().is_ok_and(|path| path.ends_with("report.json")));
    let handed_on: Value =
        serde_json::from_reader(of_report.next().expect("the report")).expect("JSON");
    assert_eq!(
        handed_on["scenarios"][0]["verdict"]["kind"],
        "not_reproduced"
    );
    let before = root().join("reports/survey-mask-h100-x4/report.json");
    let before = scratch.run(&["render", &before.to_string_lossy()]).good();
    assert!(!before.stdout.contains("JUDGED AGAIN"), "{before:#?}");
}

/// A report contains the request that it was made for, which determines the order of its attempts.
#[test]
fn a_report_made_for_a_request_is_no_other_requests() {
    let scratch = Scratch::new();
    let asked = [
        "memory/context-cost",
        "visibility/mask-after-cuinit",
        "process/fork-after-cuinit",
    ];
    let (_, report) = scratch.simulate(
        "sim:h200-x2",
        &asked,
        &["--repeat", "6", "--seed", "1", "--nonce", "k7-Q"],
    );
    assert_eq!(
        (report.run.seed, report.run.nonce.as_deref()),
        (1, Some("k7-Q"))
    );
    let mut json = serde_json::to_value(&report).expect("a report is JSON");
    let path = scratch.file("own.json", json.to_string());
    scratch
        .run(&["judge", &path, "--nonce", "k7-Q"])
        .good()
        .join_lines()
        .prints("Made for the request `k7-Q`.");
    scratch
        .run(&["judge", &path, "--nonce", "k8"])
        .ended(2, "usage")
        .says("the report was made for another request");
    json["run"]["nonce"] = "k8".into();
    let renamed = scratch.file("renamed.json", json.to_string());
    scratch
        .run(&["judge", &renamed, "--nonce", "k8"])
        .ended(2, "usage")
        .says("alternate as the seed of the run requires");
    let old = root().join("reports/survey-mask-h100-x4");
    scratch
        .run(&["judge", &old.to_string_lossy(), "--nonce", "k8"])
        .ended(2, "usage")
        .says("the report was not made with `run --nonce`");
    for bad in ["", "two words", "\u{1b}[31m", &"x".repeat(129)] {
        scratch
            .run(&["run", "--nonce", bad, "--on", "sim"])
            .ended(2, "usage");
    }
}
