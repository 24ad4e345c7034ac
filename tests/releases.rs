//! `survey python --with` and `bisect`, with a stand-in for uv that installs nothing (`tests/installed`).

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cuda_pitfalls::catalogue;
use cuda_pitfalls::releases::{
    DriverWitness, EnvironmentDocument, LineState, ReleaseRow, WitnessSeen, read_rows,
};
use cuda_pitfalls::survey;
use cuda_pitfalls::survey::SurveyDocument;
use cuda_pitfalls::survey::python::PythonRow;
use cuda_pitfalls::verdict::Provenance;

use common::traced::in_time;
use common::{Ran, Scratch, against_schema, evidence, read_json, root};
use serde_json::Value;

/// The survey of lines on 2× NVIDIA H100 that answers without a GPU are compared with.
const ON_GPUS: &str = "releases/on-gpus-h100-x2.json";
/// Results of the packages of that machine without a GPU.
const SAME_PACKAGES: &str = "releases/image-h100-without-gpus.json";

/// Returns a command that finds the stand-in for uv.
pub(crate) fn command(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = scratch.command(arguments);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [root().join("tests/installed")]
        .into_iter()
        .chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders).expect("a PATH"));
    command.env(
        "CUDA_PITFALLS_TEST_PACKAGES",
        root().join("tests/surveyed/site-packages"),
    );
    command
        .env("FRAMEWORK_STATE", scratch.path().join("state"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn ask(scratch: &Scratch, arguments: &[&str]) -> Ran {
    let mut all = vec![
        "survey",
        "python",
        "--rows",
        "tests/installed/rows.toml",
        "--allow",
        "code",
        "--on",
        "sim",
    ];
    all.extend(arguments);
    let out = scratch.at("reports");
    if !arguments.contains(&"--resume") {
        all.extend(["--out", &out]);
    }
    scratch.ran(command(scratch, &all))
}

/// Returns the directory of the only run.
fn folder(scratch: &Scratch) -> PathBuf {
    scratch.folder().expect("a run has left its folder")
}

fn document(scratch: &Scratch, release: &str) -> Value {
    read_json(folder(scratch).join(format!("environment-framework-{release}.json")))
}

/// Returns the state of each line in the only column of a matrix.
fn states(matrix: &Value) -> Vec<(String, String)> {
    let lines = matrix["lines"].as_array().expect("lines");
    let text = |value: &Value| value.as_str().expect("text").to_string();
    lines
        .iter()
        .map(|line| (text(&line["id"]), text(&line["cells"][0]["state"])))
        .collect()
}

#[test]
fn each_line_has_an_answer_without_a_gpu() {
    let scratch = Scratch::new();
    let ran = ask(&scratch, &["--with", "framework==2", "--json"]).ended(0, "ok");
    let expected = [
        ("import framework", "no"),
        ("framework.device_count", "yes"),
        ("since release 3", "no"),
        ("where NVML fails", "without_nvml"),
        ("framework.new", "absent"),
        ("raises before", "stopped"),
        ("in a helper that goes on", "yes"),
        ("after a call that failed", "initialised"),
        ("a function that the fake driver does not have", "no"),
    ];
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(id, state)| ((*id).to_string(), (*state).to_string()))
        .collect();
    assert_eq!(
        states(&ran.json()),
        expected,
        "a line that plainly asks for a GPU is left out"
    );
    let document = document(&scratch, "2");
    assert_eq!(
        against_schema("environment", &document),
        Vec::<String>::new()
    );
    let rows = document["rows"].as_array().expect("rows");
    let helper = rows
        .iter()
        .find(|row| row["id"] == "in a helper that goes on")
        .expect("its row");
    assert!(
        helper["seen"][0]["child"]
            .as_str()
            .expect("a child")
            .contains("framework.device_count()")
    );
    assert!(
        !folder(&scratch).join("environments").exists(),
        "environments are removed"
    );
}

#[test]
fn imports_are_measured_once_and_rendered() {
    let scratch = Scratch::new();
    let folder = scratch.at("imports");
    let ask = |packages: &str| {
        let mut command = command(
            &scratch,
            &[
                "survey",
                "imports",
                "--rows",
                "tests/installed/imports.toml",
                "--allow",
                "code",
                "--on",
                "sim",
                "--bare",
                "--jobs",
                "2",
                "--resume",
                &folder,
            ],
        );
        command.env("CUDA_PITFALLS_TEST_PACKAGES", root().join(packages));
        scratch.ran(command).ended(3, "inconclusive");
        fs::read_to_string(scratch.path().join("imports/imports.ndjson")).expect("rows")
    };
    let first = ask("tests/surveyed/site-packages");
    let rows = read_rows(&first).expect("rows");
    let found: Vec<(&str, LineState)> = rows
        .iter()
        .map(|row| (row.line.as_str(), row.state))
        .collect();
    let expected = [
        (
            "from framework import device_count; device_count()",
            LineState::Yes,
        ),
        ("import framework.absent", LineState::Absent),
    ];
    assert_eq!(found, expected, "{first}");
    assert_eq!(ask("tests/no-such-folder"), first, "nothing is asked again");
    let page = scratch.ran(scratch.command(&["render", &folder, "--as", "markdown"]));
    for words in [
        "## Calls cuInit (1)",
        "## No answer (1)",
        "ModuleNotFoundError",
    ] {
        assert!(page.stdout.contains(words), "{}", page.stdout);
    }
}

#[test]
fn a_matrix_says_since_when_and_two_of_them_can_be_compared() {
    let scratch = Scratch::new();
    ask(
        &scratch,
        &[
            "--with",
            "framework==2",
            "--with",
            "framework==3",
            "--with",
            "framework==4",
            "since release 3",
        ],
    )
    .ended(3, "inconclusive")
    .prints("calls cuInit since framework 3")
    .prints("there is no framework 4 for this interpreter");
    let place = folder(&scratch).to_string_lossy().into_owned();
    let page = scratch
        .ran(command(&scratch, &["render", &place, "--as", "html"]))
        .good();
    assert!(
        page.stdout.contains("<table class=\"summary rows\">")
            && page.stdout.contains("since release 3")
    );
    scratch
        .ran(command(&scratch, &["compare", &place, &place]))
        .ended(0, "ok")
        .prints("no difference in behavior: 2 the same");
    let [second, third] =
        ["2", "3"].map(|release| format!("{place}/environment-framework-{release}.json"));
    scratch
        .ran(command(&scratch, &["compare", &second, &third]))
        .ended(1, "unexpected")
        .prints("since release 3: calls cuInit no -> yes");
    // A known release is not measured again, and a release that is left out of a list is reported.
    ask(
        &scratch,
        &[
            "--with",
            "framework==2",
            "--resume",
            &place,
            "since release 3",
        ],
    )
    .ended(0, "ok")
    .says("already known");
    let other = scratch.at("other");
    fs::create_dir(&other).expect("a folder");
    let text = fs::read_to_string(folder(&scratch).join("environment-framework-3.json"))
        .expect("a document");
    let text = text.replace("\"calls_cuinit\":true", "\"calls_cuinit\":false");
    scratch.file("other/environment-framework-3.json", text);
    scratch
        .ran(command(&scratch, &["compare", &place, &other]))
        .ended(1, "unexpected")
        .prints("not in B: framework 2: since release 3")
        .prints("framework 3: since release 3: calls cuInit yes -> stopped");
}

#[test]
fn wrong_environments_are_refused_before_anything_is_installed() {
    let scratch = Scratch::new();
    let absent = scratch
        .path()
        .join("absent.toml")
        .to_string_lossy()
        .into_owned();
    for (arguments, says) in [
        (&["--with", "framework>=2"][..], "invalid package"),
        (&["--with=--pre"][..], "invalid package"),
        (&["--releases=nothing*"][..], "no environment of the list"),
        (&["--environments", &absent][..], &absent),
    ] {
        ask(&scratch, arguments).ended(2, "usage").says(says);
    }
    // The file's lines are code, with environments as without.
    let refused = |arguments: &[&str], says: &str| {
        scratch
            .ran(command(&scratch, arguments))
            .ended(2, "usage")
            .says(says);
    };
    let rows = "tests/installed/rows.toml";
    refused(
        &[
            "survey",
            "python",
            "--rows",
            rows,
            "--with",
            "framework==2",
            "--on",
            "sim",
        ],
        "--allow code",
    );
    let list = "scenarios/surveys/releases.toml";
    refused(
        &["survey", "python", "--environments", list, "--on", "sim"],
        "--allow code",
    );
    refused(
        &["survey", "calls", "--with", "framework==2", "--on", "sim"],
        "--with belongs to `survey python`",
    );
    let mut without = command(
        &scratch,
        &["survey", "python", "--with", "framework==2", "--on", "sim"],
    );
    without.env("PATH", &absent);
    scratch
        .ran(without)
        .ended(2, "usage")
        .says("`uv` was not found");
}

fn bisect(scratch: &Scratch, arguments: &[&str], code: &str) -> Ran {
    let work = scratch.path().to_string_lossy().into_owned();
    let mut all = vec!["bisect", "--on", "sim", "--work", &work];
    let forbidden = if arguments.contains(&"--forbid") {
        &[][..]
    } else {
        &["--forbid", "cuinit"]
    };
    all.extend([forbidden, arguments].concat());
    all.extend(["--", "python", "-c", code]);
    // A process stands for a line that was not read in time.
    let is_late = |ran: &Ran| ran.stdout.contains(": pid ");
    in_time(is_late, || scratch.ran(command(scratch, &all)))
}

const SINCE_3: &str =
    "import os, framework\nif int(os.environ['FRAMEWORK_RELEASE']) >= 3: framework.device_count()";

#[test]
fn the_first_bad_release_is_found_with_its_stack() {
    let scratch = Scratch::new();
    let package = ["--package", "framework", "--good", "1", "--bad", "9"];
    // Release 4 cannot be installed, which does not matter here.
    let ran = bisect(&scratch, &package, SINCE_3).ended(0, "ok");
    ran.prints("First bad release: framework 3. Last good: 2.")
        .prints("device_count");
    let since_3 = SINCE_3.replace("\nif", "\ntry:\n if");
    let late = format!("{since_3}\nexcept Exception: os.environ['CUDA_VISIBLE_DEVICES'] = '1'");
    bisect(
        &scratch,
        &[&package[..], &["--forbid", "late-mask"]].concat(),
        &late,
    )
    .ended(0, "ok")
    .prints("First bad release: framework 3. Last good: 2.");
    bisect(&scratch, &package, &SINCE_3.replace("3", "4"))
        .ended(3, "inconclusive")
        .prints("framework 5, or one of 4");
    bisect(&scratch, &package, "import framework")
        .ended(3, "inconclusive")
        .prints("does not happen with the bad versions");
    let fails = bisect(
        &scratch,
        &[
            "--package",
            "framework",
            "--good",
            "1",
            "--bad",
            "9",
            "--json",
        ],
        "import sys; print('no such thing', file=sys.stderr); raise SystemExit(7)",
    )
    .ended(3, "inconclusive");
    assert_eq!(fails.json()["no_answer"], "good_is_unknown");
    assert!(
        fails.json()["trials"][0]["outcome"]["why"]
            .as_str()
            .expect("why")
            .contains("(exit code 7) and does nothing that is forbidden before: no such thing")
    );
}

#[test]
fn a_bisection_that_cannot_be_begun_says_why() {
    let scratch = Scratch::new();
    bisect(&scratch, &["--package", "framework", "--good", "1"], "pass").ended(2, "usage");
    bisect(
        &scratch,
        &[
            "--package",
            "a",
            "--package",
            "b",
            "--good",
            "1",
            "--bad",
            "2",
        ],
        "pass",
    )
    .ended(2, "usage")
    .says("each --package needs one --good and one --bad");
    bisect(
        &scratch,
        &[
            "--package",
            "a",
            "--good",
            "1",
            "--bad",
            "2",
            "--forbid",
            "context",
        ],
        "pass",
    )
    .ended(2, "usage")
    .says("without a GPU");
}

#[test]
fn unusable_range_end_is_rejected_with_neighbors() {
    let scratch = Scratch::new();
    let ends = [
        (
            "framework",
            "1",
            "8",
            "framework 8 does not exist. Nearest: 6, 9.",
        ),
        ("framework", "5", "9", "has no wheel that can be used here"),
        // Release 4 has no wheel either, and 3 was yanked.
        ("framework", "5", "9", "ABI tag. Nearest: 2, 6."),
        (
            "framework",
            "1",
            "3",
            "framework 3 was yanked from the index. Nearest: 2, 6.",
        ),
        (
            "framework",
            "1",
            "6rc1",
            "framework 6rc1 is a pre-release; --pre includes these. Nearest: 2, 6.",
        ),
        (
            "framework",
            "7",
            "8",
            "framework 7 does not exist. Nearest: 6, 9. framework 8 does not exist",
        ),
        (
            "framwork",
            "1",
            "9",
            "framwork 9 is not in the index, which has no package of this name.",
        ),
    ];
    for (package, good, bad, says) in ends {
        let ran = bisect(
            &scratch,
            &["--package", package, "--good", good, "--bad", bad],
            SINCE_3,
        );
        let ran = ran.ended(2, "usage").says(says);
        assert!(!ran.stderr.contains("releases from"), "{ran:?}");
    }
}

#[test]
fn what_was_asked_without_a_gpu_is_what_gpus_show() {
    let listed = evidence::listed();
    let read = |name: &str| {
        let listed = listed
            .iter()
            .find(|listed| listed.name == name)
            .expect("it is evidence");
        evidence::read_file(&listed.find(&root().join("reports")).expect("a file")).expect("a file")
    };
    let on_gpus: SurveyDocument = serde_json::from_slice(&read(ON_GPUS)).expect("a survey");
    assert!(on_gpus.machine.gpus.len() == 2 && on_gpus.provenance == Provenance::Measured);
    let lines: Vec<PythonRow> = on_gpus.rows_of();
    let compared = |name: &str| {
        let document: EnvironmentDocument =
            serde_json::from_slice(&read(name)).expect("a document");
        // A package that has several distributions is named there by what they have in common.
        let is_version = |(name, version): (&String, &String)| {
            let mut packages = document.environment.packages.iter();
            packages.any(|(known, is)| {
                is == version && (known == name || known.starts_with(&format!("{name}-")))
            })
        };
        let answers = |row: &ReleaseRow| {
            let known = lines
                .iter()
                .find(|known| known.id == row.id && known.ask == row.ask)?;
            let without = match row.state(&document.rows) {
                LineState::Yes | LineState::WithNvml => true,
                LineState::No | LineState::WithoutNvml | LineState::NoWithNvml => false,
                _ => return None,
            };
            let is_same = !known.versions.is_empty() && known.versions.iter().all(is_version);
            Some((row.id.clone(), without, known.facts.calls_cuinit?)).filter(|_| is_same)
        };
        let all: Vec<(String, bool, bool)> = document.rows.iter().filter_map(answers).collect();
        let differ: Vec<&(String, bool, bool)> = all
            .iter()
            .filter(|(_, without, with)| without != with)
            .collect();
        assert!(
            differ.is_empty(),
            "{name}, without a GPU and with GPUs: {differ:?}"
        );
        all.len()
    };
    // The same packages, and all lines of the survey but two: a barrier of NCCL, which fails first without a GPU, and one
    // that does not work with that numpy.
    assert_eq!(compared(SAME_PACKAGES), 224);
    let environments = listed
        .iter()
        .filter(|listed| listed.name.starts_with("releases/environment-"));
    assert!(
        environments
            .map(|listed| compared(&listed.name))
            .sum::<usize>()
            >= 24
    );
}

#[test]
fn no_cell_of_the_matrix_contradicts_another_row_of_its_document() {
    let (mut documents, mut initialised, mut no_with_nvml) = (0, 0, 0);
    for listed in evidence::listed()
        .iter()
        .filter(|listed| listed.name.starts_with("releases/environment-"))
    {
        let file = listed.find(&root().join("reports")).expect("a file");
        let EnvironmentDocument {
            rows, environment, ..
        } = read_json(file);
        documents += 1;
        for row in &rows {
            let state = row.state(&rows);
            initialised += usize::from(state == LineState::Initialised);
            no_with_nvml += usize::from(state == LineState::NoWithNvml);
            // Words of an import of another row: `import a.b` is in `from a.b import c` and in `import a.b as m`.
            let runs = |other: &&ReleaseRow| {
                let module = other.ask.strip_prefix("import ").unwrap_or("nothing");
                let is_run = |line: &String| {
                    *line == other.ask || line.split([' ', ',']).any(|word| word == module)
                };
                other.env == row.env && row.before.iter().any(is_run)
            };
            let runs: Vec<&ReleaseRow> = rows.iter().filter(runs).collect();
            let says_no = |seen: &&WitnessSeen| {
                let mut alike = runs
                    .iter()
                    .flat_map(|row| &row.seen)
                    .filter(|known| known.witness == seen.witness);
                let is_whole = seen.raised.is_none()
                    && seen.left.is_none()
                    && seen.calls_cuinit == Some(false);
                is_whole && alike.all(|known| known.calls_cuinit != Some(true))
            };
            // A machine with GPUs has an NVML.
            let mut beside = row
                .seen
                .iter()
                .filter(|seen| seen.witness != DriverWitness::Libcuda);
            assert!(
                state != LineState::No || beside.any(|seen| says_no(&seen)),
                "{}: {}",
                environment.name,
                row.id
            );
        }
    }
    assert_eq!((documents, initialised, no_with_nvml), (117, 42, 4));
}

#[test]
fn scenarios_that_a_line_decides_are_asked_of_releases_too() {
    let lines = survey::python::built_in().expect("the list is valid").lines;
    let decided: BTreeSet<&str> = lines
        .iter()
        .flat_map(|line| &line.scenarios)
        .map(String::as_str)
        .collect();
    let scenarios =
        catalogue::select_scenarios(&["framework".to_string()]).expect("the scenarios are valid");
    let names: BTreeSet<&str> = scenarios
        .iter()
        .map(|scenario| scenario.name.as_str())
        .collect();
    assert!(
        decided.is_subset(&names),
        "{:?}",
        decided.difference(&names)
    );
    let is_late = |name: &&str| name.ends_with("-then-mask") || name.ends_with("-then-fork");
    let left: Vec<&str> = names
        .iter()
        .copied()
        .filter(is_late)
        .filter(|name| !decided.contains(name))
        .collect();
    assert_eq!(
        left,
        Vec::<&str>::new(),
        "no line of scenarios/surveys/python.toml names these"
    );
    let asks = lines
        .iter()
        .filter(|line| !line.scenarios.is_empty() && line.asks_gpu);
    assert_eq!(
        asks.map(|line| line.id.as_str()).collect::<Vec<_>>(),
        Vec::<&str>::new(),
        "these are not asked"
    );
}
