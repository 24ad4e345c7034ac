//! A comparison for the terminal, on one screen; the most important lines come last.

use std::collections::BTreeSet;

use cuda_pitfalls_answers::compare::{Comparison, EntryDifference, FactDifference, Only};
use cuda_pitfalls_answers::survey::format_row_key;
use cuda_pitfalls_core::text::counts::group_by_key;
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::verdict::Provenance;

use crate::block::Block;
use crate::published::publication_words;
use crate::writer::terminal::{Screen, write};

const MOST_LINES: usize = 40;
/// The longest entry, in bytes.
const LONGEST: usize = 160;
/// Room for names where several share a line, in bytes.
const NAMES: usize = 90;
/// Maximum number of lines about the environment, and about differences that do not count. The scenarios that only A or
/// only B has get half as many each.
const FEW: usize = 8;

/// Returns the comparison as text. It ends with a newline.
pub fn text(comparison: &Comparison, screen: impl Into<Screen>) -> String {
    let screen: Screen = screen.into();
    let mut head = Vec::new();
    for (name, side) in [("A  ", &comparison.a), ("B  ", &comparison.b)] {
        head.push(Block::note(
            name,
            format!("{}: {}", side.name, side.machine),
        ));
    }
    head.extend(warning_lines(comparison).iter().map(Block::paragraph));
    let machines = comparison.machines.iter().map(change).collect();
    let explained = difference_lines(comparison, &comparison.explained);
    let mut tail = section_lines(
        "different because the scenario or the machine differs (not counted)",
        explained,
        FEW,
    );
    for (only, there, other) in [
        (&comparison.only_in_a, "A", "B"),
        (&comparison.only_in_b, "B", "A"),
    ] {
        tail.extend(section_lines(
            &format!("only in {there}"),
            self::only(only, other),
            FEW / 2,
        ));
    }
    tail.push(Block::paragraph(totals_line(comparison)));
    head.extend(section_lines(
        "environment differs (not counted)",
        machines,
        FEW,
    ));
    // Differences that count get all the remaining room: their heading and "and N more" take three lines.
    let around = write(&[head.as_slice(), &tail].concat(), screen);
    let room = MOST_LINES.saturating_sub(around.lines().count() + 3);
    head.extend(section_lines(
        "behaves differently",
        difference_lines(comparison, &comparison.changed),
        room,
    ));
    head.extend(tail);
    write(&head, screen)
}

/// Returns warnings that the reader must see before the differences.
fn warning_lines(comparison: &Comparison) -> Vec<String> {
    let (a, b) = (&comparison.a, &comparison.b);
    let mut lines = Vec::new();
    let simulated = [a, b].map(|side| side.provenance == Provenance::Simulated);
    lines.extend(match simulated {
        [true, true] => Some("both are SIMULATED and say nothing about real hardware".to_string()),
        [true, false] => Some("A is SIMULATED and says nothing about real hardware".to_string()),
        [false, true] => Some("B is SIMULATED and says nothing about real hardware".to_string()),
        [false, false] => None,
    });
    for (name, side) in [("A", a), ("B", b)] {
        if !side.complete {
            lines.push(format!("{name} is partial, because its run did not finish"));
        }
    }
    for (name, side) in [("A", a), ("B", b)] {
        lines.extend(side.published.map(|found| publication_words(name, found)));
    }
    if a.version != b.version {
        let (a, b) = (&a.version, &b.version);
        // A trace contains no verdicts to judge again.
        let anew = if comparison.of == "trace" {
            ""
        } else {
            "; use `judge REPORT --json` to judge a report again"
        };
        lines.push(format!(
            "A was written by cuda-pitfalls {a}, B by {b}{anew}"
        ));
    }
    if let Some([one, other]) = &comparison.libcudart {
        lines.push(format!(
            "libcudart {one} of A is compared with {other} of B"
        ));
    }
    lines
}

/// Returns a heading and its lines, truncated to `room`; empty if there are no lines.
fn section_lines(title: &str, lines: Vec<String>, room: usize) -> Vec<Block> {
    if lines.is_empty() {
        return Vec::new();
    }
    let (all, room) = (lines.len(), room.max(1));
    let mut items = Vec::new();
    for line in lines.iter().take(room) {
        items.push(shorten_text(line, LONGEST));
    }
    if all > room {
        items.push(format!("and {} more; --json lists all", all - room));
    }
    vec![Block::heading(2, title), Block::list(items)]
}

/// Returns a difference as text: `trap: at count: count 2 -> 1`.
fn change(change: &FactDifference) -> String {
    let mut words: Vec<String> = change.case.iter().map(|case| format!("{case}:")).collect();
    words.extend(change.step.iter().map(|step| format!("at {step}:")));
    words.push(format!("{} {} -> {}", change.fact, change.a, change.b));
    // If all attempts agree, their number is not reported.
    if let Some([a, b]) = change
        .seen
        .as_ref()
        .filter(|seen| !seen.iter().all(|share| share.count == share.of))
    {
        words.push(format!(
            "(in {} -> in {})",
            String::from(*a),
            String::from(*b)
        ));
    }
    words.join(" ")
}

/// Returns the differences; those that several entries share are on one line.
fn difference_lines(comparison: &Comparison, differences: &[EntryDifference]) -> Vec<String> {
    let all = comparison.changed.iter().chain(&comparison.explained);
    // A version that all entries share is not listed.
    let versions: BTreeSet<&String> = all
        .filter_map(|difference| difference.libcudart.as_ref())
        .collect();
    let told = differences.iter().map(|difference| {
        let version = difference
            .libcudart
            .as_deref()
            .filter(|_| versions.len() > 1);
        (words(difference), format_row_key(&difference.name, version))
    });
    group_by_key(told)
        .into_iter()
        .map(|(words, names)| format!("{}: {words}", join_names(&names)))
        .collect()
}

fn words(difference: &EntryDifference) -> String {
    let changes = difference
        .changes
        .iter()
        .map(change)
        .collect::<Vec<_>>()
        .join("; ");
    let notes = difference.notes.join(", ");
    match (changes.is_empty(), notes.is_empty()) {
        (_, true) => changes,
        (true, false) => notes,
        (false, false) => format!("{changes} ({notes})"),
    }
}

/// Returns the names that fit, and the number of those left out.
fn join_names(names: &[String]) -> String {
    let mut shown = String::new();
    for (index, name) in names.iter().enumerate() {
        if index > 0 && shown.len() + name.len() > NAMES {
            return format!("{shown} and {} more", names.len() - index);
        }
        shown.push_str(if index > 0 { ", " } else { "" });
        shown.push_str(name);
    }
    shown
}

/// Returns the entries that only one of the documents has, by the reason why the other one lacks them.
fn only(all: &[Only], other: &str) -> Vec<String> {
    let versions: BTreeSet<&String> = all
        .iter()
        .filter_map(|only| only.libcudart.as_ref())
        .collect();
    let told = all.iter().map(|only| {
        let name = match (&only.name, &only.libcudart) {
            (Some(name), version) => {
                format_row_key(name, version.as_deref().filter(|_| versions.len() > 1))
            }
            (None, version) => {
                format!(
                    "all {} on libcudart {}",
                    only.count,
                    version.as_deref().unwrap_or("of unknown version")
                )
            }
        };
        let why = match &only.reason {
            Some(reason) => format!("not measured in {other} ({reason})"),
            None => format!("not in {other}"),
        };
        (why, name)
    });
    group_by_key(told)
        .into_iter()
        .map(|(why, names)| format!("{why}: {}", join_names(&names)))
        .collect()
}

fn totals_line(comparison: &Comparison) -> String {
    let differ = comparison.changed.len();
    let mut parts = vec![match (differ, comparison.same) {
        (0, 0) => "nothing could be compared".to_string(),
        (0, same) => format!("no difference in behavior: {same} the same"),
        (differ, same) => format!("{differ} different, {same} the same"),
    }];
    let lonely = comparison
        .only_in_a
        .iter()
        .chain(&comparison.only_in_b)
        .map(|only| only.count)
        .sum();
    let others = [
        (comparison.explained.len(), "different for a known reason"),
        (lonely, "not in both"),
        (comparison.in_neither, "measured in neither"),
    ];
    parts.extend(
        others
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}")),
    );
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use cuda_pitfalls_answers::compare::{compare_traces, reports};
    use cuda_pitfalls_core::report::Report;
    use cuda_pitfalls_trace::fixture::programs;

    fn lines(a: &Report, b: &Report) -> Vec<String> {
        text(&reports(&a.view(), &b.view(), None).unwrap(), LONGEST)
            .lines()
            .map(str::to_string)
            .collect()
    }

    #[test]
    fn a_report_beside_itself_has_three_lines() {
        let report = fixture::report();
        let lines = lines(&report, &report);
        assert_eq!(
            lines[0],
            "A  2025-11-20T16-00-00Z-abcd: 2× NVIDIA H200, driver 580.159.04"
        );
        assert_eq!(
            lines[2..],
            ["no difference in behavior: 3 the same, 1 measured in neither"]
        );
    }

    #[test]
    fn what_differs_is_told_in_the_words_of_the_step() {
        let (a, mut b) = (fixture::report(), fixture::report());
        let steps = &mut b.scenarios[0].cases[0].outcomes[0].observation.steps;
        steps[0]
            .values
            .insert("count".into(), cuda_pitfalls_core::event::Value::Int(1));
        b.machine.driver_version = Some("590.1".into());
        let lines = lines(&a, &b);
        let expected = [
            "",
            "environment differs (not counted)",
            "- driver 580.159.04 -> 590.1",
            "",
            "behaves differently",
            "- visibility/mask-after-count: trap: at cudaGetDeviceCount: count 2 -> 1",
            "1 different, 2 the same, 1 measured in neither",
        ];
        assert_eq!(lines[2..], expected);
    }

    #[test]
    fn simulation_is_said_before_anything_else() {
        let (real, simulated) = (fixture::report(), fixture::simulated());
        assert!(lines(&real, &simulated)[2].starts_with("B is SIMULATED"));
        assert!(lines(&simulated, &real)[2].starts_with("A is SIMULATED"));
        assert!(lines(&simulated, &simulated)[2].starts_with("both are SIMULATED"));
        assert!(
            !lines(&real, &real)
                .iter()
                .any(|line| line.contains("SIMULATED"))
        );
    }

    #[test]
    fn it_is_one_screen_however_much_differs() {
        let (mut a, mut b) = (fixture::report(), fixture::report());
        let template = a.scenarios[0].clone();
        for number in 0..300 {
            let mut scenario = template.clone();
            scenario.name = format!("visibility/number-{number}");
            a.scenarios.push(scenario.clone());
            let steps = &mut scenario.cases[0].outcomes[0].observation.steps;
            steps[0].values.insert(
                "count".into(),
                cuda_pitfalls_core::event::Value::Int(100 + number),
            );
            b.scenarios.push(scenario);
            for (report, name) in [(&mut a, "one"), (&mut b, "other")] {
                report.scenarios.push(template.clone());
                report.scenarios.last_mut().unwrap().name = format!("{name}-{number}");
                report
                    .machine
                    .environment
                    .insert(format!("{name}{number}"), "1".into());
            }
        }
        let lines = lines(&a, &b);
        assert_eq!(lines.len(), MOST_LINES, "{}", lines.join("\n"));
        assert!(
            lines
                .iter()
                .any(|line| line == "- and 592 more; --json lists all"),
            "{}",
            lines.join("\n")
        );
        assert_eq!(
            lines.last().unwrap(),
            "300 different, 3 the same, 600 not in both, 1 measured in neither"
        );
        assert!(lines.iter().all(|line| line.len() <= LONGEST));
    }

    #[test]
    fn what_changed_alike_shares_a_line() {
        let (mut a, mut b) = (fixture::report(), fixture::report());
        for report in [&mut a, &mut b] {
            let mut again = report.scenarios[0].clone();
            again.name = "visibility/again".into();
            report.scenarios.push(again);
        }
        for scenario in b
            .scenarios
            .iter_mut()
            .filter(|it| it.name.starts_with("visibility/"))
        {
            scenario.cases[0].outcomes[0].observation.end = "SIGSEGV".into();
        }
        let wanted = "- visibility/mask-after-count, visibility/again: trap: ends 0 -> SIGSEGV";
        assert!(
            lines(&a, &b).iter().any(|line| line == wanted),
            "{:#?}",
            lines(&a, &b)
        );
    }

    #[test]
    fn large_traces_are_compared_on_one_screen() {
        let large = (
            programs::large(200, 4_000, 1_000),
            programs::large(7, 500, 10),
        );
        let shown = text(&compare_traces([&large.0, &large.1], [&[], &[]]), LONGEST);
        assert!(shown.lines().count() <= 40, "{shown}");
    }
}
