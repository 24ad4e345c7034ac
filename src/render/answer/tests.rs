use super::*;
use crate::fixture;
use cuda_pitfalls_core::report::{Report, ScenarioReport};
use cuda_pitfalls_core::text::lines::display_columns;
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Reason};

/// Returns a finished instance, made from the fixture's first.
fn part(name: &str, question: &str, kind: Kind) -> ScenarioReport {
    let mut part = fixture::report().scenarios.remove(0);
    part.name = name.to_owned();
    part.scenario = name.split('[').next().unwrap_or(name).to_owned();
    if let Some(inner) = name.split(['[', ']']).nth(1) {
        let (key, value) = inner.split_once('=').expect("a parameter");
        part.parameters.insert(
            key.to_owned(),
            cuda_pitfalls_core::scenario::Scalar::Text(value.to_owned()),
        );
    }
    part.question = question.to_owned();
    part.workaround = "Set the mask first.".to_owned();
    part.verdict.kind = kind;
    part.verdict.expectation = ExpectationMet::AsExpected;
    part.verdict.reason = None;
    part
}

fn told(parts: &[ScenarioReport], width: usize) -> String {
    question(
        &parts
            .iter()
            .map(|part| InstanceAnswer::new(&part.view()))
            .collect::<Vec<_>>(),
        width,
    )
}

const FREEZES: &str = "Does it freeze the mask?";

/// Returns a report with every kind of answer that a user may see.
fn everything() -> Report {
    let mut report = fixture::report();
    for part in &mut report.scenarios {
        part.workaround =
            "Count with NVML, or in a child process of its own, or set the mask first.".to_owned();
    }
    let calls = [
        "cudaDeviceGetStreamPriorityRange",
        "cudaGetDeviceCount",
        "cudaGetDevice",
        "cudaGetDeviceFlags",
    ];
    for call in calls {
        let kind = if call.ends_with("Range") {
            Kind::Reproduced
        } else {
            Kind::NotReproduced
        };
        report.scenarios.push(part(
            &format!("context/query-of-the-thread[call={call}]"),
            FREEZES,
            kind,
        ));
    }
    let mut broken = part("process/broken", FREEZES, Kind::HarnessError);
    broken.verdict.reason = Some(Reason::Protocol);
    broken.verdict.detail = "the worker could not be started".to_owned();
    report.scenarios.push(broken);
    report.scenarios.push(part(
        &format!("a/{}", "x".repeat(150)),
        &"y".repeat(150),
        Kind::Reproduced,
    ));
    report
}

#[test]
fn an_answer_is_a_word_beside_its_question() {
    let yes = part("visibility/mask-after-count", FREEZES, Kind::Reproduced);
    let no = part("visibility/mask-after-nvml", FREEZES, Kind::NotReproduced);
    let mut harmless = part("a/b", FREEZES, Kind::Reproduced);
    harmless.workaround = "None needed: it is paid once.".to_owned();
    // No question that can be answered by yes or no.
    let what = part("a/b", "What does a bad entry show?", Kind::NotReproduced);
    let mut open = part("a/b", FREEZES, Kind::Inconclusive);
    open.verdict.reason = Some(Reason::Contaminated);
    for (answer, width, lines) in [
        (
            yes,
            60,
            "yes  Does it freeze the mask?               mask-after-count\n     → Set the mask first.\n",
        ),
        (
            no,
            60,
            "no   Does it freeze the mask?                mask-after-nvml\n",
        ),
        (harmless, 35, "yes  Does it freeze the mask?     b\n"),
        (what, 45, "not reproduced What does a bad entry show?  b\n"),
        (
            open,
            75,
            "?    Does it freeze the mask?                                             b\n     \
             inconclusive: another process changed its memory on the GPU during the\n\
             \x20    attempt\n",
        ),
    ] {
        assert_eq!(told(&[answer], width), lines);
    }
}

#[test]
fn instances_are_told_together_for_which_values() {
    let of = |call: &str, kind| part(&format!("a/first-call[call={call}]"), FREEZES, kind);
    let both = [
        of("cudaFree", Kind::Reproduced),
        of("cudaEventQuery", Kind::NotReproduced),
    ];
    let expected = "\
some Does it freeze the mask?                     first-call
     yes for cudaFree; no for cudaEventQuery
     → Set the mask first.
";
    assert_eq!(told(&both, 60), expected);
    let alike: Vec<ScenarioReport> = (0..30)
        .map(|n| of(&format!("call{n}"), Kind::NotReproduced))
        .collect();
    assert_eq!(
        told(&alike, 60),
        "no   Does it freeze the mask?            first-call (all 30)\n"
    );
    let many: Vec<ScenarioReport> = alike
        .into_iter()
        .chain([of("cudaFree", Kind::Reproduced)])
        .collect();
    let second = told(&many, 60).lines().nth(1).map(str::to_owned);
    assert_eq!(
        second.as_deref(),
        Some("     yes for cudaFree; no for call0, call1, and 28 more")
    );
}

#[test]
fn a_single_instance_is_told_with_its_value() {
    let one = part("a/first-call[call=cudaFree]", FREEZES, Kind::NotReproduced);
    let told = |width| told(std::slice::from_ref(&one), width);
    assert_eq!(
        told(60),
        "no   Does it freeze the mask? [call=cudaFree]     first-call\n"
    );
    assert!(
        told(40).ends_with(" first-call[call=cudaFree]\n"),
        "{}",
        told(40)
    );
}

#[test]
fn failures_come_first_and_in_full() {
    let text = super::report(&everything().view(), 100);
    let at = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("{what} is missing:\n{text}"))
    };
    assert!(
        at("UNEXPECTED, with libcudart 13.0:")
            < at("HARNESS ERROR: the worker could not be started"),
        "{text}"
    );
    assert!(at("HARNESS ERROR") < at("mask-after-count"), "{text}");
    for detail in [
        "  expected reproduced: the driver has made",
        "  seen: the effect shows in 3 of 3",
        "  trap 3/3: cudaGet",
    ] {
        at(detail);
    }
    assert_eq!(
        text.matches("trap 3/3").count(),
        2,
        "details of failures only:\n{text}"
    );
}

#[test]
fn what_this_machine_cannot_answer_is_counted_in_one_line() {
    let mut report = fixture::report();
    let needs_two = report.scenarios[3].clone();
    report.scenarios.extend((0..9).map(|_| needs_two.clone()));
    for part in &mut report.scenarios[3..] {
        part.lacks = Some("4 GPUs".to_owned());
    }
    report.scenarios[3].lacks = Some("root".to_owned());
    let mut refused = needs_two.clone();
    refused.verdict.reason = Some(Reason::Busy);
    report.scenarios.push(refused);
    let mut named = needs_two.clone();
    (named.lacks, named.asked_by_name) = (Some("4 GPUs".to_owned()), true);
    report.scenarios.push(named);
    let text = super::report(&report.view(), 100);
    assert!(
        text.contains("\nnot applicable here: 10 (9 need 4 GPUs, 1 needs root)\n"),
        "{text}"
    );
    assert!(
        text.contains("\nnot run: 1 (the GPU is in use by another process)\n"),
        "{text}"
    );
    assert!(
        text.contains("\nselected by name but skipped: peer/needs-two (needs 4 GPUs)\n"),
        "{text}"
    );
    assert!(!text.contains("Does a peer copy"), "{text}");
}

#[test]
fn lines_fit_every_width() {
    for report in [
        everything(),
        fixture::report(),
        fixture::partial(),
        fixture::simulated(),
        fixture::hostile(),
    ] {
        for width in 60..=160 {
            let text = super::report(&report.view(), width);
            for line in text.lines() {
                assert!(
                    display_columns(line) <= width && line.trim_end() == line,
                    "{width}: {line:?}"
                );
            }
        }
    }
}

#[test]
fn nothing_is_told_twice() {
    let mut report = everything();
    for (place, part) in report.scenarios.iter_mut().enumerate() {
        part.question = format!("Does {}{place} make a context?", part.scenario);
        part.workaround = format!("Avoid {place}.{place}.");
    }
    let text = super::report(&report.view(), 140);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    // Two failures show the same cases, because the fixture has only one set of them.
    let distinct: HashSet<&&str> = lines
        .iter()
        .filter(|line| !line.contains("3/3: "))
        .collect();
    assert_eq!(distinct.len() + 4, lines.len(), "{text}");
    for part in &report.scenarios {
        for said in [&part.question, &part.workaround] {
            assert!(text.matches(said.as_str()).count() <= 1, "{said}:\n{text}");
        }
    }
}

#[test]
fn a_simulated_report_says_so_at_both_ends_and_in_every_answer() {
    let text = super::report(&fixture::simulated().view(), 100);
    assert_eq!(text.matches("SIMULATED").count(), 2, "{text}");
    assert!(
        text.lines()
            .nth(1)
            .is_some_and(|line| line.contains("SIMULATED")),
        "{text}"
    );
    assert!(
        text.lines()
            .rev()
            .nth(1)
            .is_some_and(|line| line.contains("SIMULATED")),
        "{text}"
    );
    let answers = text
        .lines()
        .filter(|line| line.contains("Does CUDA_VISIBLE_DEVICES"));
    for line in answers {
        assert!(line.contains(" (sim) "), "{line}");
    }
}

#[test]
fn without_a_gpu_there_are_five_lines_and_a_hint() {
    let mut report = fixture::empty();
    let mut skipped = fixture::skipped().scenarios.remove(0);
    skipped.verdict.reason = Some(Reason::NoGpu);
    report.scenarios = vec![skipped; 229];
    let asked = Workload {
        questions: 181,
        variants: 229,
        attempts: 5,
        expected: None,
    };
    let end = RunEnding {
        place: ReportPlace::At("reports/x/report.json".to_owned()),
        names: true,
        ..RunEnding::default()
    };
    let text =
        render_head(&report.view(), Some(&asked), 100) + &render_ending(&report.view(), &end, 100);
    assert!(text.lines().count() <= 5, "{text}");
    assert!(
        text.contains("no usable GPU here (NVML lists no GPU)")
            && text.contains("`trace --on sim`"),
        "{text}"
    );
    assert!(text.contains("`cuda-pitfalls doctor` (why)"), "{text}");
    assert!(text.contains("No question has an answer."), "{text}");
}

#[test]
fn an_interrupted_run_says_what_was_not_asked() {
    let end = RunEnding {
        names: true,
        ..RunEnding::default()
    };
    let mut report = fixture::partial();
    report.run.not_run = vec!["a/question".to_owned(); 12];
    let text = render_ending(&report.view(), &end, 100);
    assert!(
        text.starts_with("interrupted: 12 not run\n*** PARTIAL"),
        "{text}"
    );
    report.run.interrupted = None;
    let text = render_ending(&report.view(), &end, 100);
    assert!(text.contains("stopped early: 12 not run\n"), "{text}");
}

#[test]
fn an_interrupted_run_has_one_count() {
    let mut report = fixture::partial();
    let mut cut_off = fixture::skipped().scenarios.remove(0);
    cut_off.verdict.kind = Kind::Inconclusive;
    cut_off.verdict.reason = Some(Reason::Interrupted);
    report.scenarios = vec![cut_off; 9];
    report.run.not_run = vec!["a/question".to_owned(); 3];
    let text = render_ending(&report.view(), &RunEnding::default(), 100);
    let counts = "interrupted: 3 not run, 9 not finished\n";
    assert!(text.starts_with(counts), "{text}");
    assert!(text.ends_with("\nNo question has an answer.\n"), "{text}");
}

#[test]
fn the_head_says_what_is_asked_and_how_long_it_takes() {
    let head = |asked: &Workload| render_head(&fixture::report().view(), Some(asked), 100);
    let seconds = |seconds| Some(std::time::Duration::from_secs(seconds));
    let asked = Workload {
        questions: 24,
        variants: 53,
        attempts: 3,
        expected: seconds(64),
    };
    let expected = "\
cuda-pitfalls 0.1.0: 2× NVIDIA H200, driver 580.159.04 (CUDA 13.0), libcudart 13.0
Context size: 530 MiB.
24 questions (53 variants), up to 3 attempts of each case, about 1 min.
";
    assert_eq!(head(&asked), expected);
    for (time, words) in [
        (3, "about 3 s"),
        (41, "about 45 s"),
        (89, "about 1 min"),
        (1200, "about 20 min"),
    ] {
        let text = head(&Workload {
            expected: seconds(time),
            ..asked
        });
        assert!(text.contains(words), "{text}");
    }
    assert!(
        head(&Workload {
            questions: 1,
            variants: 1,
            attempts: 1,
            expected: None
        })
        .ends_with("\n1 question, 1 attempt of each case.\n")
    );
}

#[test]
fn co_tenants_and_a_failed_calibration_are_told() {
    let mut report = fixture::report();
    let uuid = report.machine.gpus[1].uuid.clone();
    report.run.calibration[1].figures.sound = false;
    for (bytes, is_told) in [(0, false), (530 << 20, true)] {
        let (uuid, used_bytes, processes) = (uuid.clone(), Some(bytes), Some(Vec::new()));
        report.run.co_tenants = vec![cuda_pitfalls_core::report::CoTenancy {
            uuid,
            used_bytes,
            processes,
        }];
        let text = render_head(&report.view(), None, 500);
        assert_eq!(
            text.contains("Other processes hold memory: 530 MiB on gpu1 (0 listed)."),
            is_told,
            "{text}"
        );
        assert!(text.contains("CALIBRATION FAILED on 1 of 2 GPUs"), "{text}");
    }
}

#[test]
fn words_are_broken_only_where_one_is_longer_than_the_line() {
    let mut report = everything();
    report.scenarios.pop();
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<HashSet<String>>()
    };
    let wide = words(&super::report(&report.view(), 140));
    for width in 60..140 {
        let narrow = super::report(&report.view(), width);
        // Lists of values are cut, and counts of what is left out differ.
        let broken = words(&narrow).into_iter().find(|word| {
            let cut = word.trim_end_matches([',', ';']);
            !wide.contains(word)
                && !wide
                    .iter()
                    .any(|known| known.trim_end_matches([',', ';']) == cut)
                && cut.parse::<usize>().is_err()
                && !["and", "more"].contains(&cut)
        });
        assert_eq!(broken, None, "{width}:\n{narrow}");
    }
}
