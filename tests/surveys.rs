//! Surveys on the simulated machine: rows, resuming, refusals; and the committed ones.

use crate::common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use cuda_pitfalls::explain::{Explainer, Query};
use cuda_pitfalls::report::{Stored, read};
use cuda_pitfalls::survey::calls::CallRow;
use cuda_pitfalls::survey::env::{self, EnvRow};
use cuda_pitfalls::survey::errors::{ErrorEffect, ErrorRow};
use cuda_pitfalls::survey::mask::{MaskRow, by_todays_rule};
use cuda_pitfalls::survey::needs::{EVERYTHING_ELSE, NeedRow, NeedsProgram};
use cuda_pitfalls::survey::startup::{ProcessMemory, StartBeside, StartRow};
use cuda_pitfalls::survey::{KindRow, SurveyDocument, SurveyKind};
use cuda_pitfalls::verdict::{Provenance, Reason};
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde_json::Value;

use common::{Ran, Scratch, against_schema, committed_documents, eventually, read_json, root};

fn open(path: &Path) -> SurveyDocument {
    let stored = Stored::open(path).expect("a survey can be read");
    SurveyDocument::from_stored(&stored)
        .expect("it is a survey")
        .expect("of this version")
}

/// Returns every committed survey, with its directory's name.
fn committed() -> Vec<(String, PathBuf)> {
    SurveyKind::all()
        .iter()
        .flat_map(|kind| committed_documents(&kind.file()))
        .collect()
}

#[test]
fn committed_surveys_are_measured_and_as_their_schemas_say() {
    for (name, file) in committed() {
        let survey = open(&file);
        assert_eq!(survey.provenance, Provenance::Measured, "{name}");
        let document: Value = read_json(&file);
        let stopped = document["survey"]["interrupted"].is_string();
        assert_eq!(
            document["complete"] == true,
            !stopped,
            "{name}: a survey is whole, or says that it was stopped"
        );
        let errors = against_schema("survey", &document);
        assert!(errors.is_empty(), "{name}: {errors:#?}");
        // The controls of lines have their own rows.
        if survey.kind.kind_file().takes("--jobs") {
            let held: Vec<bool> = survey
                .rows
                .iter()
                .filter(|row| row.is_control)
                .map(|row| row.facts["as_expected"] == true)
                .collect();
            assert!(!held.is_empty() && held.iter().all(|held| *held), "{name}");
            continue;
        }
        let beside =
            read(file.parent().expect("a folder")).expect("the controls' report is beside it");
        assert_eq!(
            beside.run.exit.expect("it ended").code,
            0,
            "{name}: the controls did not behave"
        );
    }
}

/// A framework's message after a failed start of the driver contains its status, or `explain` knows it.
#[test]
fn what_frameworks_say_of_a_driver_that_does_not_start_is_explained() {
    let explainer = Explainer::embedded();
    let (mut said, mut wrong) = (0, Vec::new());
    for (name, file) in committed() {
        let rows: Vec<ErrorRow> = open(&file).rows_of();
        for row in rows
            .iter()
            .filter(|row| row.effect(&rows) == Some(ErrorEffect::Raises))
        {
            let (Some(returned), Some(raised)) = (&row.returned, &row.raised) else {
                continue;
            };
            // An invalid value can have any cause.
            if !["cuInit", "count"].contains(&returned.place.as_str()) || returned.code == 1 {
                continue;
            }
            said += 1;
            let found = explainer.explain(Query::parse_pasted(&format!(
                "{}: {}",
                raised.kind, raised.message
            )));
            let first = found.names().into_iter().next().unwrap_or_default();
            let is_right =
                first == format!("error/{}", returned.code) || first.starts_with("message/");
            // libcudart maps several statuses to one, which PyTorch and CuPy report for an error
            // at the start.
            if !(found.certainty.is_claimed() && (is_right || first == "error/3")) {
                wrong.push(format!("{name} {}: {first} for {}", row.id, raised.message));
            }
        }
    }
    assert!(
        said >= 100 && wrong.is_empty(),
        "{said} messages: {wrong:#?}"
    );
}

#[test]
fn the_rule_of_today_says_what_every_committed_mask_showed() {
    let mut held = 0;
    for (name, file) in committed() {
        let rows = by_todays_rule(&open(&file));
        let wrong: Vec<&MaskRow> = rows
            .iter()
            .filter(|row| row.as_predicted != Some(true))
            .collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        held += rows.len();
    }
    assert!(held >= 3000, "only {held} masks were measured");
}

/// Runs a survey on the simulated machine.
fn survey(scratch: &Scratch, arguments: &[&str]) -> Ran {
    let out = scratch.at("reports");
    let mut all = vec!["survey"];
    all.extend(arguments);
    if !arguments.contains(&"--resume") {
        all.extend(["--out", &out]);
    }
    scratch.run(&all)
}

/// Returns the directory of the only run.
fn folder(scratch: &Scratch) -> PathBuf {
    scratch.folder().expect("a run has left its folder")
}

/// Runs a survey of the simulated machine, and returns its rows once it ended well and follows its schema.
fn printed<T: DeserializeOwned>(scratch: &Scratch, kind: SurveyKind, arguments: &[&str]) -> Vec<T> {
    let document = survey(scratch, &[&[kind.name()], arguments, &["--json"]].concat())
        .ended(0, "ok")
        .json();
    let errors = against_schema("survey", &document);
    assert!(errors.is_empty(), "{errors:#?}");
    assert_eq!(document["provenance"], "simulated");
    serde_json::from_value(document["rows"].clone()).expect("rows")
}

#[test]
fn a_survey_of_calls_has_its_rows_and_its_controls() {
    let scratch = Scratch::new();
    let asked = ["cuInit", "cudaSetDevice", "--on", "sim:h200-x2"];
    let rows: Vec<CallRow> = printed(&scratch, SurveyKind::Calls, &asked);
    assert!(
        rows.iter()
            .all(|row| row.standing.attempts == 3 && row.seen.len() == 3)
    );
    // The controls' report is next to the survey.
    let controls = read(&folder(&scratch)).expect("a report");
    assert!(controls.complete && controls.scenarios.len() >= 3);
}

#[test]
fn the_simulated_machine_does_what_real_gpus_did() {
    let scratch = Scratch::new();
    survey(
        &scratch,
        &[
            "calls",
            "--on",
            "sim:h200-x2",
            "--visible-gpus",
            "2",
            "--quick",
        ],
    )
    .ended(0, "ok");
    let simulated = folder(&scratch)
        .join(SurveyKind::Calls.file())
        .to_string_lossy()
        .into_owned();
    let ran = scratch
        .run(&[
            "compare",
            "reports/survey-calls-h200-x2/survey-calls.json",
            &simulated,
            "--json",
        ])
        .good();
    let same = ran.json()["same"].as_u64().unwrap_or(0);
    assert!(same >= 145, "only {same} calls are modelled");
}

#[test]
fn the_rule_predicts_what_the_simulated_machine_does() {
    let scratch = Scratch::new();
    let asked = [
        "--on",
        "sim:h200-x2",
        "--generate",
        "30",
        "--seed",
        "7",
        "--quick",
    ];
    let rows: Vec<MaskRow> = printed(&scratch, SurveyKind::Mask, &asked);
    assert_eq!(
        rows.iter().filter(|row| row.group == "Generated").count(),
        30,
        "on top of those that are listed"
    );
    assert!(rows.iter().all(|row| row.as_predicted == Some(true)));
    for count in [0, 1, 2] {
        assert!(
            rows.iter().filter(|row| row.count == Some(count)).count() > 10,
            "few show {count}"
        );
    }
}

#[test]
fn every_variable_that_the_simulated_machine_models_is_latched_as_on_gpus() {
    let scratch = Scratch::new();
    let simulated: Vec<EnvRow> = printed(
        &scratch,
        SurveyKind::Env,
        &["--on", "sim:h200-x2", "--quick"],
    );
    let survey = open(&root().join("reports/survey-env-h200-x2/survey-env.json"));
    let measured: Vec<EnvRow> = survey.rows_of();
    let mut told = 0;
    for row in simulated.iter().filter(|row| row.is_conclusive()) {
        let real = measured
            .iter()
            .find(|real| real.variable == row.variable)
            .expect("it was measured");
        assert_eq!(
            (&row.read_at, row.has_effect),
            (&real.read_at, real.has_effect),
            "{}",
            row.variable
        );
        told += 1;
    }
    assert!(told >= 5, "only {told} are modelled");
}

#[test]
fn simulated_denials_have_the_effects_measured_on_gpus() {
    let scratch = Scratch::new();
    let asked = ["driver", "nvml", "--on", "sim:h200-x1", "--quick"];
    let simulated: Vec<NeedRow> = printed(&scratch, SurveyKind::Needs, &asked);
    let survey = open(&root().join("reports/survey-needs-h100-x1/survey-needs.json"));
    let measured: Vec<NeedRow> = survey.rows_of();
    let (mut wrong, mut told) = (Vec::new(), 0);
    // The list of accesses that are denied together differs from machine to machine.
    let one = |row: &&NeedRow| {
        row.refused
            .as_deref()
            .is_some_and(|refused| !refused.starts_with(EVERYTHING_ELSE))
    };
    for row in simulated
        .iter()
        .filter(|row| row.is_conclusive())
        .filter(one)
    {
        let Some(real) = measured.iter().find(|real| real.key() == row.key()) else {
            continue;
        };
        // Only the first of the driver's later calls that fails is modeled.
        let failure = |row: &NeedRow, rows: &[NeedRow]| {
            row.control(rows)
                .and_then(|usual| row.first_failure(usual).cloned())
        };
        let (shown, expected) = (failure(row, &simulated), failure(real, &measured));
        if (&shown, &row.gpus) != (&expected, &real.gpus) {
            wrong.push(format!(
                "{}: {shown:?} {:?}, real {expected:?} {:?}",
                row.key(),
                row.gpus,
                real.gpus
            ));
        }
        told += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(told >= 100, "only {told} are modelled");
}

#[test]
fn needs_are_chosen_by_what_the_programs_ask_for() {
    let scratch = Scratch::new();
    survey(
        &scratch,
        &["needs", "nothing-like-it", "--on", "sim:h200-x1", "--quick"],
    )
    .ended(2, "usage")
    .says("has nothing like `nothing-like-it`");
    let asked = ["eventfd2", "!ENOSYS", "--on", "sim:h200-x1", "--quick"];
    let rows: Vec<NeedRow> = printed(&scratch, SurveyKind::Needs, &asked);
    let chosen: Vec<String> = rows
        .iter()
        .filter(|row| !row.is_control())
        .map(KindRow::key)
        .collect();
    assert_eq!(
        chosen[..2],
        [
            "driver init eventfd2 EPERM",
            "driver context eventfd2 EPERM"
        ]
    );
    assert!(
        chosen.iter().all(|key| key.ends_with("eventfd2 EPERM")),
        "{chosen:?}"
    );
    assert!(
        chosen.contains(&"driver forked eventfd2 EPERM".to_string()),
        "{chosen:?}"
    );
}

#[test]
fn startup_is_timed_per_gpu_count_and_company() {
    let scratch = Scratch::new();
    let rows: Vec<StartRow> = printed(
        &scratch,
        SurveyKind::Startup,
        &["--on", "sim:h200-x2", "--quick"],
    );
    let asked: Vec<String> = rows.iter().map(KindRow::key).collect();
    assert_eq!(
        asked,
        [
            "driver 1 visible",
            "driver 2 visible",
            "runtime 1 visible (13.0)",
            "runtime 2 visible (13.0)",
            "nvml 2 visible"
        ]
    );
    for row in &rows {
        assert!(row.is_conclusive(), "{row:?}");
        let beside: Vec<StartBeside> = row.cases.iter().map(|case| case.beside).collect();
        assert_eq!(
            beside,
            [
                StartBeside::Alone,
                StartBeside::Initialised,
                StartBeside::Context
            ]
        );
        for case in &row.cases {
            let resident = |host: &Option<ProcessMemory>| {
                host.as_ref()?.resident_bytes.map(|bytes| bytes.median)
            };
            let before = resident(&case.before).expect("host memory is read before the first call");
            assert!(before > 1 << 20, "{before}");
            assert!(case.steps.iter().all(|step| step.elapsed_ns.len() == 1 && resident(&step.host) >= Some(1 << 20)));
            assert!(
                case.steps
                    .iter()
                    .all(|step| step.status.as_deref().is_some_and(|status| status
                        .ends_with("SUCCESS")
                        || status == "cudaSuccess")),
                "{case:?}"
            );
        }
    }
    let second = "cuDevicePrimaryCtxRetain of the second GPU";
    let has_second: Vec<bool> = rows
        .iter()
        .map(|row| {
            row.case(StartBeside::Alone)
                .is_some_and(|case| case.step(second).is_some())
        })
        .collect();
    assert_eq!(has_second, [false, true, false, false, false]);
}

/// With a stand-in that is only imported, for the machinery; what PyTorch needs is measured.
#[test]
fn a_framework_is_refused_what_the_driver_does_not_ask_for() {
    let scratch = Scratch::new();
    let out = scratch.at("reports");
    let asked = [
        "survey",
        "needs",
        "torch",
        "cupy",
        "--on",
        "sim:h200-x1",
        "--quick",
        "--json",
        "--out",
        &out,
    ];
    let mut command = scratch.command(&asked);
    command.env("PYTHONPATH", root().join("tests/surveyed/failing"));
    let ran = scratch.ran(command).ended(0, "ok");
    let rows: Vec<NeedRow> = serde_json::from_value(ran.json()["rows"].clone()).expect("rows");
    let of = |key: &str| {
        rows.iter()
            .find(|row| row.key() == key)
            .unwrap_or_else(|| panic!("no row {key}"))
    };
    let (free, filtered) = (of("torch init no filter"), of("torch init nothing"));
    assert!(!filtered.differs_from(free), "{free:?} {filtered:?}");
    assert!(
        filtered
            .asked
            .iter()
            .any(|asked| asked.during == "import torch" && !asked.system_calls.is_empty())
    );
    let files = filtered.asked.iter().flat_map(|asked| asked.files.keys());
    assert!(
        files.into_iter().all(|path| !path.contains("surveyed")),
        "a framework's own files are left out"
    );
    let driver = &of("driver init nothing").asked;
    let refused = rows
        .iter()
        .filter(|row| row.program == NeedsProgram::Torch && !row.is_control());
    let single = refused
        .filter_map(|row| row.refused.as_deref())
        .filter(|what| !what.starts_with(EVERYTHING_ELSE));
    let single: Vec<&str> = single.collect();
    assert!(!single.is_empty());
    assert!(
        single.iter().all(|what| driver
            .iter()
            .all(|asked| !asked.system_calls.contains_key(*what))),
        "{single:?}"
    );
    let cupy = of("cupy init nothing")
        .standing
        .unmeasured
        .clone()
        .expect("it is not installed");
    assert_eq!(cupy.reason, Reason::NoPackage);
}

#[test]
fn committed_variables_were_asked_as_they_are_today() {
    for (name, file) in committed() {
        let survey = open(&file);
        if survey.kind != SurveyKind::Env {
            continue;
        }
        let rows: Vec<EnvRow> = survey.rows_of();
        for variable in env::variables().unwrap_or_else(|wrong| panic!("{:?}", wrong.diagnostics)) {
            let row = rows.iter().find(|row| row.variable == variable.name);
            let row = row.unwrap_or_else(|| panic!("{name} has no {}", variable.name));
            // The words of `observable` may change; what was set and when may not.
            assert_eq!(row.value, variable.value, "{name}");
            let asked: Vec<_> = row
                .moments
                .iter()
                .map(|moment| (&moment.before, &moment.does))
                .collect();
            let asks: Vec<_> = variable
                .moments
                .iter()
                .map(|moment| (&moment.before, &moment.does))
                .collect();
            assert_eq!(asked, asks, "{name}: {}", variable.name);
        }
    }
}

/// Starts a long survey, and returns once some of its rows are on disk.
fn under_way(scratch: &Scratch) -> common::Running {
    let out = scratch.at("reports");
    let arguments = [
        "survey",
        "mask",
        "--on",
        "sim:h200-x1",
        "--generate",
        "20",
        "--seed",
        "1",
        "--quick",
        "--out",
        &out,
    ];
    let running = scratch.start(scratch.command(&arguments));
    eventually("rows are on disk", Duration::from_secs(60), || {
        rows(scratch).filter(|rows| !rows.is_empty())
    });
    running
}

fn rows(scratch: &Scratch) -> Option<Vec<MaskRow>> {
    let folder = scratch.folder()?;
    let survey =
        SurveyDocument::from_stored(&Stored::open(&folder.join(SurveyKind::Mask.file())).ok()?)?
            .ok()?;
    Some(survey.rows_of())
}

#[test]
fn a_killed_survey_goes_on_where_it_stopped() {
    let scratch = Scratch::new();
    let running = under_way(&scratch);
    running.signal(Signal::KILL);
    assert_eq!(running.wait(Duration::from_secs(10)).code, None);
    let before = rows(&scratch).expect("a whole document is on disk");
    let place = folder(&scratch).to_string_lossy().into_owned();
    survey(
        &scratch,
        &["mask", "--on", "sim:h200-x1", "--quick", "--resume", &place],
    )
    .ended(2, "usage")
    .says("started with --generate 20");
    let whole = [
        "mask",
        "--on",
        "sim:h200-x1",
        "--generate",
        "20",
        "--quick",
        "--resume",
        &place,
        "--json",
    ];
    let again = survey(&scratch, &whole).ended(0, "ok");
    let document = again.json();
    assert_eq!(document["complete"], true);
    assert_eq!(document["survey"]["resumed"], 1);
    let after = rows(&scratch).expect("a document");
    assert!(
        after.len() > before.len() && after[..before.len()] == before[..],
        "what was there is kept"
    );
    let keys: std::collections::BTreeSet<_> =
        after.iter().map(|row| (&row.mask, &row.order)).collect();
    assert_eq!(keys.len(), after.len(), "nothing was asked twice");
    scratch.assert_no_process_left();
}

#[test]
fn ctrl_c_leaves_a_partial_survey_and_exit_code_130() {
    let scratch = Scratch::new();
    let running = under_way(&scratch);
    running.signal(Signal::INT);
    running
        .wait(Duration::from_secs(15))
        .ended(130, "interrupted");
    let survey = open(&folder(&scratch).join(SurveyKind::Mask.file()));
    assert_eq!(survey.header.interrupted.as_deref(), Some("SIGINT"));
    assert!(survey.kind == SurveyKind::Mask && !survey.complete);
    scratch.assert_no_process_left();
}

#[test]
fn a_survey_is_resumed_only_as_what_it_was() {
    let scratch = Scratch::new();
    survey(
        &scratch,
        &[
            "calls",
            "cuInit",
            "--on",
            "sim:h200-x1",
            "--quick",
            "--seed",
            "3",
        ],
    )
    .ended(0, "ok");
    let place = folder(&scratch).to_string_lossy().into_owned();
    let refused = |arguments: &[&str], why: &str| {
        survey(&scratch, &[arguments, &["--resume", &place]].concat())
            .ended(2, "usage")
            .says(why);
    };
    refused(
        &["mask", "--on", "sim:h200-x1"],
        "it is a survey of calls, not of mask",
    );
    refused(
        &["calls", "cuInit", "--on", "sim:h200-x2", "--quick"],
        "not the GPUs it was started on",
    );
    refused(
        &["calls", "cuInit", "--on", "sim:h200-x1", "--repeat", "2"],
        "started with --repeat 1",
    );
    refused(
        &["calls", "cuInit", "--on", "sim:h200-x1"],
        "started with --repeat 1",
    );
    refused(
        &[
            "calls",
            "cuInit",
            "--on",
            "sim:h200-x1",
            "--quick",
            "--seed",
            "4",
        ],
        "started with --seed 3",
    );
    refused(
        &[
            "calls",
            "cuInit",
            "--on",
            "sim:h200-x1",
            "--quick",
            "--visible-gpus",
            "2",
        ],
        "started with --visible-gpus 1",
    );
    refused(
        &["calls", "--on", "sim:h200-x1", "--quick"],
        "started with other selectors: cuInit",
    );
    survey(
        &scratch,
        &[
            "calls",
            "--on",
            "sim:h200-x1",
            "--resume",
            &scratch.path().to_string_lossy(),
        ],
    )
    .ended(2, "usage")
    .says("there is no survey in");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    let scratch = Scratch::new();
    for (arguments, why) in [
        (
            &["calls", "cuInti", "--on", "sim"][..],
            "did you mean `cuInit`?",
        ),
        (
            &["calls", "--generate", "5", "--on", "sim"],
            "--generate belongs to `survey mask`",
        ),
        (
            &["env", "--visible-gpus", "2", "--on", "sim"],
            "--visible-gpus belongs to `survey calls`",
        ),
        (
            &["python", "--libcuda", "libcuda.so.1"],
            "--libcuda: a line of Python runs under a trace",
        ),
        (
            &["errors", "--libcuda", "libcuda.so.1"],
            "--libcuda: a line of Python runs under a trace",
        ),
        (
            &["needs", "driver", "--python", "python3", "--on", "sim"],
            "--python: no framework is asked what it needs",
        ),
        (
            &["mask", "--libcudart", "a", "--libcudart", "b"],
            "belongs to `survey calls` and `survey startup`",
        ),
        (&["everything"], "invalid value 'everything'"),
        (&["mask", "--generate", "1000000"], "at most 100000"),
    ] {
        survey(&scratch, arguments).ended(2, "usage").says(why);
    }
}

#[test]
fn a_survey_is_rendered_as_text_markdown_and_a_page_alone() {
    let scratch = Scratch::new();
    let asked = survey(
        &scratch,
        &["calls", "cuInit", "--on", "sim:h200-x1", "--quick"],
    )
    .ended(0, "ok");
    assert!(!asked.stdout.contains("questions"), "{}", asked.stdout);
    let file = folder(&scratch)
        .join(SurveyKind::Calls.file())
        .to_string_lossy()
        .into_owned();
    let quiet = survey(
        &scratch,
        &[
            "calls",
            "cuInit",
            "--on",
            "sim:h200-x1",
            "--quick",
            "--quiet",
        ],
    )
    .stdout;
    assert!(
        quiet.starts_with("SIMULATED, 1 of 1 rows"),
        "the end alone: {quiet}"
    );
    // The folder has the report of the controls too.
    let folder = folder(&scratch).to_string_lossy().into_owned();
    let forms = [
        ("text", "SIMULATED"),
        (
            "markdown",
            "**Simulated: says nothing about real hardware.**",
        ),
        (
            "html",
            "<strong>Simulated: says nothing about real hardware.</strong>",
        ),
    ];
    for (form, part) in forms {
        for path in [&file, &folder] {
            scratch
                .run(&["render", path, "--as", form])
                .good()
                .prints(part)
                .prints("cuInit");
        }
    }
    scratch
        .run(&["render", &file, "--as", "junit"])
        .ended(2, "usage")
        .says("text, markdown or html");
}
