//! The output for users: yes/no questions, the short form of a committed report at several widths.
//!
//! `CUDA_PITFALLS_BLESS=1 cargo test --test suite -- answers::` rewrites the expected texts; read the diff.

use crate::common;

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use cuda_pitfalls::catalogue;
use cuda_pitfalls::render::answer::is_yes_or_no;
use cuda_pitfalls::scenario::{Expected, Scenario};

use common::{Scratch, bless, root};

fn scenarios() -> Vec<Scenario> {
    catalogue::select_scenarios(&[]).expect("the scenarios that come with the program are valid")
}

#[test]
fn every_question_is_answered_by_yes_or_no_and_fits_a_line() {
    for scenario in scenarios() {
        let question = &scenario.question;
        assert!(is_yes_or_no(question), "{}: {question}", scenario.name);
        assert!(
            question.chars().count() <= 95,
            "{}: {question}",
            scenario.name
        );
    }
}

/// The printed answer is yes if the effect shows. The answer in the scenario file must agree.
#[test]
fn the_answer_in_words_says_yes_where_the_effect_shows() {
    let mut held = 0;
    for scenario in scenarios() {
        let mut expected: Vec<Expected> = scenario
            .instances
            .iter()
            .flat_map(|it| &it.expect)
            .map(|it| it.verdict)
            .collect();
        expected.dedup();
        let [only] = expected[..] else { continue };
        let words = match only {
            Expected::Reproduced => "Yes",
            Expected::NotReproduced => "No",
        };
        assert!(
            scenario.answer.starts_with(words),
            "{}: {only:?}, but: {}",
            scenario.name,
            scenario.answer
        );
        held += 1;
    }
    assert!(
        held > 150,
        "only {held} questions have one answer everywhere"
    );
}

/// `show NAME` accepts the last part of a name, which is printed at the right of an answer.
#[test]
fn the_last_part_of_a_name_is_enough() {
    let scenarios = scenarios();
    let tail = |scenario: &Scenario| {
        scenario
            .name
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let tails: HashSet<String> = scenarios.iter().map(tail).collect();
    assert_eq!(
        tails.len(),
        scenarios.len(),
        "two scenarios have the same last part"
    );
    let one = scenarios.first().map(tail).unwrap_or_default();
    assert_eq!(
        catalogue::select_scenarios(std::slice::from_ref(&one))
            .map(|found| found.len())
            .ok(),
        Some(1),
        "{one}"
    );
}

/// Renders a committed report with the program.
fn told(report: &str, form: &str, width: usize) -> String {
    let scratch = Scratch::new();
    let mut command = scratch.command(&["render", report, "--as", form]);
    command.env("COLUMNS", width.to_string());
    let ran = scratch.ran(command).good();
    ran.stdout
}

#[test]
fn a_committed_report_is_told_at_every_width() {
    for width in [60, 80, 100] {
        let path: PathBuf = root().join(format!("tests/answers/h200-x2-{width}.txt"));
        let text = told("reports/h200-x2", "text", width);
        if bless() {
            fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
            fs::write(&path, &text).expect("the text can be written");
        }
        assert_eq!(
            text,
            fs::read_to_string(&path).unwrap_or_default(),
            "{width} columns; bless it"
        );
    }
}

const MACHINE: &str = "sim:h200-x2";
const ASKED: [&str; 4] = [
    "visibility/mask-after-nvml",
    "visibility/mask-after-cuinit",
    "visibility/mask-after-version-query",
    "fault/error-sticks",
];

fn run(more: &[&str], columns: &str) -> common::Ran {
    let scratch = Scratch::new();
    let reports = scratch.reports();
    let mut arguments = vec!["run"];
    arguments.extend(ASKED);
    arguments.extend([
        "--on",
        MACHINE,
        "--quick",
        "--out",
        reports.to_str().expect("UTF-8"),
    ]);
    arguments.extend(more);
    let mut command = scratch.command(&arguments);
    command.env("COLUMNS", columns);
    scratch.ran(command)
}

#[test]
fn a_run_answers_each_question_once() {
    let ran = run(&[], "80");
    let text = &ran.stdout;
    for (question, times) in [
        ("after NVML is used?", 1),
        ("after cuInit?", 1),
        ("Is CUDA_VISIBLE_DEVICES ignored when it is set after", 3),
    ] {
        assert_eq!(text.matches(question).count(), times, "{question}:\n{text}");
    }
    assert!(
        text.contains(
            "\nno (sim)   Is CUDA_VISIBLE_DEVICES ignored when it is set after NVML is used?"
        ),
        "{text}"
    );
    assert!(
        text.contains("\nyes (sim)  Is CUDA_VISIBLE_DEVICES ignored when it is set after cuInit?"),
        "{text}"
    );
    assert!(
        text.contains(
            "\nsome (sim) Is CUDA_VISIBLE_DEVICES ignored when it is set after a version query?"
        ),
        "{text}"
    );
    assert!(
        text.contains("\n3 questions (5 variants), 1 attempt of each case, about "),
        "{text}"
    );
    assert!(
        text.contains(
            "\nselected by name but skipped: fault/error-sticks[kernel=wild] (needs --allow"
        ),
        "{text}"
    );
    assert_eq!(
        text.matches("*** SIMULATED").count(),
        2,
        "at the top and at the end:\n{text}"
    );
    assert!(
        !text.contains("PARTIAL") && !text.contains("trap"),
        "{text}"
    );
    assert!(
        text.lines()
            .all(|line| line.chars().count() <= 80 || line.contains("report.json")),
        "{text}"
    );
    assert_eq!(ran.stderr.matches("exit ").count(), 1, "{}", ran.stderr);
    assert!(
        !ran.stderr.contains("preliminary"),
        "there is one round: {}",
        ran.stderr
    );
}

#[test]
fn only_a_terminal_gets_answers_of_the_first_round() {
    let scratch = Scratch::new();
    let out = scratch.at("reports");
    let mut asked = vec![
        "run",
        "mask-after-nvml",
        "mask-after-cuinit",
        "--repeat",
        "2",
    ];
    asked.extend(["--on", MACHINE, "--out", &out]);
    let ran = scratch.run(&asked);
    assert!(!ran.stderr.contains("preliminary"), "{ran:?}");
    let answer = "no (sim)   Is CUDA_VISIBLE_DEVICES ignored when it is set after NVML is used?";
    assert_eq!(ran.stdout.matches(answer).count(), 1, "{ran:?}");
    let shown = scratch.run_on_terminal(&asked, &[("NO_COLOR", "1"), ("COLUMNS", "80")]);
    let first = answer.replace("   ", " ");
    let first = shown.stdout.find(&format!("preliminary: {first}"));
    assert!(
        first.is_some() && first < shown.stdout.find(answer),
        "{shown:?}"
    );
    assert_eq!(
        shown.stdout.matches("preliminary: ").count(),
        2,
        "{shown:?}"
    );
}

#[test]
fn a_verbose_run_shows_every_case() {
    let ran = run(&["--verbose"], "140")
        .prints("    trap  ")
        .prints(" simulated: ");
    assert!(
        !ran.stdout.contains("after NVML is used?"),
        "{}",
        ran.stdout
    );
}

#[test]
fn with_json_answers_go_to_stderr() {
    let ran = run(&["--json"], "100");
    assert_eq!(ran.json()["scenarios"].as_array().map(Vec::len), Some(7));
    assert!(
        ran.json()["scenarios"][0]["workaround"].is_string(),
        "a report has the workaround"
    );
    assert!(
        ran.stderr.contains(
            "no (sim)   Is CUDA_VISIBLE_DEVICES ignored when it is set after NVML is used?"
        ),
        "{}",
        ran.stderr
    );
}

#[test]
fn run_without_gpu_keeps_only_simulated_reports() {
    if common::gpus() > 0 {
        return;
    }
    for (on, code, is_kept) in [("cuda", 4, false), ("auto", 0, false), ("sim", 0, true)] {
        let scratch = Scratch::new();
        let mut command = scratch.command(&["run", "mask-after-nvml", "--quick", "--on", on]);
        command.current_dir(scratch.path());
        let ran = scratch.ran(command);
        assert_eq!(ran.code, Some(code), "{ran:#?}");
        assert_eq!(scratch.stored().is_some(), is_kept, "{on}");
        assert_eq!(scratch.reports().exists(), is_kept, "{on}");
        let words = if is_kept {
            "report reports/"
        } else {
            "no report written"
        };
        assert!(ran.stdout.contains(words), "{on}: {}", ran.stdout);
        let is_hinted = ran.stdout.contains("Try `cuda-pitfalls doctor` (why)");
        assert_eq!(is_hinted, !is_kept, "{on}: {}", ran.stdout);
        let mut surveyed =
            scratch.command(&["survey", "calls", "cuInit", "--quick", "--on", on, "--json"]);
        surveyed.current_dir(scratch.path());
        let surveyed = scratch.ran(surveyed);
        assert_eq!(scratch.reports().exists(), on != "cuda", "{surveyed:#?}");
    }
}
