//! How long calls took.

use std::collections::BTreeMap;

use cuda_pitfalls::event::Event;
use cuda_pitfalls::report::{Attempt, Report};

use super::Page;
use crate::common::read_reports;

/// How long each call of a step took in attempts that count, with how many GPUs its process saw.
fn calls(report: &Report, of: impl Fn(&str, &str, &str, &str) -> bool) -> Vec<(u64, Option<usize>)> {
    let mut took = Vec::new();
    for scenario in &report.scenarios {
        let Some(plan) = &scenario.plan else { continue };
        for case in &scenario.cases {
            let Some(planned) = plan.case(&case.name) else { continue };
            for attempt in case.attempts.iter().filter(|attempt| attempt.judged.invalid.is_empty()) {
                for (step, elapsed, visible) in ends(attempt) {
                    let Some(step) = planned.steps.get(step) else { continue };
                    if of(&scenario.scenario, &case.name, &step.call, &step.label) {
                        took.push((elapsed, visible));
                    }
                }
            }
        }
    }
    took
}

/// The steps of the first process that returned: which, how long, and how many GPUs were visible then.
fn ends(attempt: &Attempt) -> Vec<(usize, u64, Option<usize>)> {
    let mut ends: Vec<(usize, u64, Option<usize>)> = Vec::new();
    for event in attempt.recording.events.iter().filter(|event| event.process.is_none()) {
        match &event.event {
            Event::End { step, elapsed_ns, status, .. } if status.as_ref().is_some_and(|it| it.code == 0) => {
                ends.push((*step, *elapsed_ns, None));
            }
            Event::Probe { step, probe, .. } => {
                let visible = probe.visible.as_ref().map(Vec::len);
                ends.iter_mut().filter(|end| end.0 == *step).for_each(|end| end.2 = visible);
            }
            _ => {}
        }
    }
    ends
}

/// The reports on which the figures stand: machines that nobody else used.
const IDLE: [&str; 10] = [
    "h200-x1",
    "h200-x1-second",
    "h200-x2",
    "h200-x2-contexts",
    "h200-x2-memory",
    "h200-x2-second",
    "h200-x4",
    "h200-x4-one-gpu",
    "h200-x4-second",
    "h200-x4-third",
];

fn reports() -> Vec<&'static (String, Report)> {
    let found: Vec<_> = read_reports().iter().filter(|(name, _)| IDLE.contains(&name.as_str())).collect();
    assert_eq!(found.len(), IDLE.len(), "a report that a figure stands on is gone");
    found
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[test]
fn initialising_the_driver_takes_longer_with_more_gpus() {
    let mut by: BTreeMap<(usize, usize), Vec<u64>> = BTreeMap::new();
    for (_, report) in reports() {
        let machine = report.machine.gpus.len();
        for (took, visible) in calls(report, |_, _, call, _| call == "cuInit") {
            // A second call, on a driver that is initialised, takes microseconds.
            if let Some(visible) = visible.filter(|_| took > 20_000_000) {
                by.entry((visible, machine)).or_default().push(took);
            }
        }
    }
    let medians: BTreeMap<(usize, usize), f64> = by
        .into_iter()
        .map(|(of, mut took)| {
            took.sort_unstable();
            (of, seconds(took[took.len() / 2]))
        })
        .collect();
    let range = |visible: usize| -> String {
        let of = medians.iter().filter(|(of, _)| of.0 == visible).map(|(_, median)| *median);
        let (least, most) = of.fold((f64::MAX, 0.0f64), |(least, most), it| (least.min(it), most.max(it)));
        let (least, most) = (format!("{least:.2}"), format!("{most:.2}"));
        if least == most { format!("{least} s") } else { format!("{least} to {most} s") }
    };
    Page::open("docs/surveys/README.md")
        .says(format!("{} (median, on machines with one to four GPUs) where the process sees one GPU", range(1)))
        .says(format!("{} where it sees two, and {} where it sees four", range(2), range(4)));
}

#[test]
fn an_eager_handle_of_cublas_takes_a_second_or_more() {
    let mut eager = Vec::new();
    let mut lazy: f64 = 0.0;
    for (_, report) in reports() {
        let of = |wanted: &'static str| {
            let is = move |scenario: &str, case: &str, _: &str, label: &str| {
                scenario == "context/eager-loading-costs-memory"
                    && label == "create"
                    && (case == "trap") == (wanted == "eager")
            };
            calls(report, is).into_iter().map(|(took, _)| seconds(took)).collect::<Vec<f64>>()
        };
        eager.extend(of("eager"));
        lazy = of("lazy").into_iter().fold(lazy, f64::max);
    }
    eager.sort_by(f64::total_cmp);
    let (least, most, slowest) = (eager[0], eager[eager.len() - 2], eager[eager.len() - 1]);
    Page::open("docs/findings.md").says(format!(
        "and {least:.1} to {most:.1} s ({slowest:.1} s in the first of {} attempts) instead of at most {lazy:.2} s",
        eager.len()
    ));
    Page::open("scenarios/context/eager-loading-costs-memory.toml")
        .says(format!("takes {least:.1} to {most:.1} s to make, and {slowest:.1} s the first time"));
}

#[test]
fn attempts_that_do_not_count_are_counted() {
    let words = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    let mut invalid: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (name, report) in reports() {
        for scenario in &report.scenarios {
            let attempts = scenario.cases.iter().flat_map(|case| &case.attempts);
            let count = attempts.filter(|attempt| !attempt.judged.invalid.is_empty()).count();
            *invalid.entry((name.clone(), scenario.scenario.clone())).or_default() += count;
        }
    }
    invalid.retain(|_, count| *count > 0);
    let finding = ("h200-x2-contexts".to_owned(), "device/second-runtime-reset-hurts-the-first".to_owned());
    assert!(invalid.keys().eq([&finding]), "others have attempts that do not count: {invalid:?}");
    let mut count = words[invalid[&finding]].to_owned();
    count[..1].make_ascii_uppercase();
    Page::open("docs/findings.md")
        .says(format!("{count} attempts of `h200-x2-contexts` do not count: they end with the SIGSEGV"));
}
