//! The findings of a trace: its entries at the user's own file and line, and those about the trace itself.
//!
//! A pitfall alone is not a failure: only violations of the policy are. A gap in a trace is an error if it may hide
//! something.

use super::reported::{self, Reported};
use super::{TraceView, place};
use crate::machine::junit::TestOutcome;
use crate::machine::{Findings, Level, MachineFinding, UserLine};
use crate::words;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::diagnosis::Severity;

/// Returns the findings of a trace: warnings first, conditions of the policy that could not be checked, and a test for
/// each violation of the policy, for each pitfall and for each explained error; at most `most` pitfalls and `most`
/// explained errors. `name` is the name of the trace, and `root` the directory that files are relative to: GitHub knows
/// files by their paths in the repository.
pub(super) fn trace_findings(seen: &TraceView, name: &str, root: &str, most: usize) -> Findings {
    let trace = seen.trace;
    let mut list = trace_remarks(seen);
    // Without this test a trace cut short would look clean.
    let complete = trace_test(seen, "the trace is complete");
    list.push(match trace.end {
        Some(_) => complete,
        None => complete.with_error("incomplete", &seen.banners.join(" ")),
    });
    // A condition that could not be checked has not been met either.
    for undecided in seen.undecided.iter().take(most) {
        let test = trace_test(seen, &format!("undecided: {undecided}"));
        list.push(MachineFinding {
            level: Some(Level::Error),
            title: "cuda-pitfalls: undecided".to_owned(),
            lines: vec![undecided.clone()],
            ..test.with_error("undecided", undecided)
        });
    }
    let found = reported::without_notes(seen, root);
    for (one, number) in found.iter().take(most).zip(1..) {
        list.push(entry_finding(seen, one, number));
    }
    if !seen.not_seen.is_empty() {
        let lines = seen.not_seen.clone();
        list.push(MachineFinding::new_remark(
            Level::Note,
            "cuda-pitfalls: not seen",
            lines,
        ));
    }
    let elapsed_ns = match &trace.end {
        Some(end) => end.t_ns.saturating_sub(trace.start.t_ns),
        None => 0,
    };
    Findings {
        name: place::shorten_place(&format!("cuda-pitfalls trace {name}")),
        started_at: trace.start.started_at.clone(),
        elapsed_ns,
        properties: trace_properties(seen),
        metrics: &[],
        samples: Vec::new(),
        list,
    }
}

fn trace_properties(seen: &TraceView) -> Vec<(&'static str, String)> {
    let start = &seen.trace.start;
    let driver = start.driver_version.as_deref().unwrap_or("none");
    let mut properties = vec![
        ("provenance", words::provenance(start.provenance).to_owned()),
        ("complete", seen.trace.end.is_some().to_string()),
        ("version", start.version.clone()),
        ("on", start.on.clone()),
        ("driver", driver.to_owned()),
        ("command", start.command.join(" ")),
        ("totals", seen.totals.join(", ")),
    ];
    for banner in &seen.banners {
        properties.push(("banner", banner.clone()));
    }
    for line in &seen.not_seen {
        properties.push(("not seen", line.clone()));
    }
    properties
}

/// Returns the remarks before the entries.
fn trace_remarks(seen: &TraceView) -> Vec<MachineFinding> {
    let mut list = Vec::new();
    for banner in &seen.banners {
        list.push(MachineFinding::new_remark(
            Level::Warning,
            "cuda-pitfalls",
            vec![banner.clone()],
        ));
    }
    let level = if !seen.violations.is_empty() || !seen.undecided.is_empty() {
        Level::Error
    } else if seen.found(Severity::Pitfall).next().is_some() {
        Level::Warning
    } else {
        Level::Note
    };
    list.push(MachineFinding::new_remark(
        level,
        "cuda-pitfalls trace",
        vec![seen.totals.join(", ")],
    ));
    list
}

fn trace_test(seen: &TraceView, name: &str) -> MachineFinding {
    let name = place::shorten_place(name);
    MachineFinding {
        elapsed_ns: Some(0),
        ..MachineFinding::new_test(seen.trace.start.provenance, "trace", &name)
    }
}

/// Returns the test of an entry: it fails if a policy forbids what was done.
fn entry_finding(seen: &TraceView, one: &Reported, number: usize) -> MachineFinding {
    let title = entry_title(one);
    let lines = vec![one.message.clone(), where_it_was(seen, one)];
    let mut output = vec![title.clone()];
    output.extend(lines.iter().cloned());
    let mut properties = Vec::new();
    if let Some(finding) = one.finding {
        properties.push(("severity".to_owned(), finding.severity.name().to_owned()));
        properties.push(("scenario".to_owned(), finding.scenario.clone()));
        let memory = finding.bytes.map(units::format_delta);
        properties.extend(memory.map(|memory| ("memory".to_owned(), memory)));
    }
    let outcome = match one.level {
        Level::Error => TestOutcome::Failure,
        Level::Warning | Level::Note => TestOutcome::Success,
    };
    MachineFinding {
        outcome: Some(outcome),
        level: Some(one.level),
        sort: one.rule.clone(),
        title,
        message: one.message.clone(),
        lines,
        place: user_line(one),
        properties,
        output,
        ..trace_test(seen, &format!("{} ({number})", one.rule))
    }
}

/// Returns the title of an entry, on one line.
fn entry_title(one: &Reported) -> String {
    match (one.finding, one.forbidden) {
        (Some(finding), _) => finding.title.clone(),
        (None, Some(forbidden)) => format!("forbidden: {forbidden}"),
        (None, None) => "cuda-pitfalls: explained error".to_owned(),
    }
}

/// Returns the user's own line of an entry. A line of a package or of the program's file is not a location to annotate.
fn user_line(one: &Reported) -> Option<UserLine> {
    let place = one.place.as_ref()?;
    if !place.is_own {
        return None;
    }
    Some(UserLine {
        file: place.path.clone(),
        line: place.line,
        is_beside: place.is_beside,
    })
}

/// Returns the time and the location of the first event of an entry, on one line.
fn where_it_was(seen: &TraceView, one: &Reported) -> String {
    let first = one.events.first().copied();
    let Some(event) = first.and_then(|index| seen.trace.events.get(index)) else {
        return String::new();
    };
    let when = place::since_start(seen.trace, event.t_ns);
    let who = place::process_words(seen.trace, event.pid);
    format!("{when}, {who}: {}", place::chain(event).join(" → "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use cuda_pitfalls_trace::Trace;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    const ROOT: &str = "/home/me/project";

    fn annotations(seen: &TraceView, root: &str) -> String {
        seen.as_format(Format::Github, 0, ["t", root]).unwrap()
    }

    fn junit_of(trace: &Trace, violates: bool) -> String {
        let (findings, outcome) = (fixture::findings(trace), fixture::outcome(trace));
        let violations = if violates {
            outcome.violations.as_slice()
        } else {
            &[]
        };
        let seen = TraceView {
            findings: &findings,
            violations,
            ..TraceView::bare(trace)
        };
        seen.as_format(Format::Junit, 0, ["t", ROOT]).unwrap()
    }

    #[test]
    fn what_is_forbidden_fails_and_a_pitfall_alone_does_not() {
        let trace = fixture::trace();
        let has = |xml: &str, counts: [&str; 3]| {
            let suite = xml
                .lines()
                .find(|line| line.contains("<testsuite "))
                .unwrap();
            assert!(counts.iter().all(|count| suite.contains(count)), "{suite}");
        };
        has(
            &junit_of(&trace, false),
            ["tests=\"4\"", "errors=\"0\"", "failures=\"0\""],
        );
        let xml = junit_of(&trace, true);
        has(&xml, ["tests=\"5\"", "errors=\"0\"", "failures=\"1\""]);
        assert!(xml.contains("classname=\"cuda-pitfalls.trace\""), "{xml}");
        assert!(xml.contains("file=\"train.py\" line=\"52\""), "{xml}");
        assert!(
            xml.contains("Instead: torch.cuda.set_device(1) first"),
            "{xml}"
        );
    }

    #[test]
    fn a_trace_without_an_end_is_an_error() {
        let mut trace = fixture::trace();
        trace.end = None;
        trace.start.provenance = cuda_pitfalls_core::verdict::Provenance::Simulated;
        let xml = junit_of(&trace, false);
        assert!(
            xml.contains("type=\"incomplete\"") && xml.contains("errors=\"1\""),
            "{xml}"
        );
        assert!(
            xml.contains("classname=\"cuda-pitfalls.simulated.trace\""),
            "{xml}"
        );
    }

    #[test]
    fn files_are_relative_to_the_repository() {
        let trace = fixture::trace();
        let (findings, outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        let shown = annotations(&TraceView::new(&trace, &findings, &outcome), "/home/me");
        assert!(
            shown.contains("\n::error file=project/train.py,line=52,"),
            "{shown}"
        );
    }

    #[test]
    fn a_violation_is_an_error_and_a_pitfall_a_warning_at_the_users_line() {
        let trace = fixture::trace();
        let (findings, outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        let shown = annotations(&TraceView::new(&trace, &findings, &outcome), ROOT);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(
            lines[0].starts_with("::error title=cuda-pitfalls trace::2 pitfalls, 1 violation"),
            "{shown}"
        );
        assert!(lines[1].starts_with(
            "::error file=train.py,line=52,title=forbidden%3A context%3Agpu0::a context on GPU 0. Forbidden by context:gpu0.%0A2.40 s, pid 4711"
        ));
        assert!(
            lines[2].starts_with(
                "::warning file=cli.py,line=88,title=CUDA_VISIBLE_DEVICES is set after"
            ),
            "{shown}"
        );
        assert!(
            lines[3].starts_with("::warning file=train.py,line=52,title="),
            "{shown}"
        );
        let refused = "::notice file=data.py,line=7,title=cuda-pitfalls%3A explained error::data.py:7: cuMemGetInfo_v2";
        assert!(lines[4].starts_with(refused) && lines.len() == 5, "{shown}");
    }

    #[test]
    fn what_is_forbidden_in_the_words_of_a_pitfall_is_told_once() {
        let trace = fixture::trace();
        let (findings, mut outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        outcome.violations[0].says.clone_from(&findings[0].says);
        outcome.violations[0].event = findings[0].events.first().copied();
        let shown = annotations(&TraceView::new(&trace, &findings, &outcome), ROOT);
        assert_eq!(shown.matches(&findings[0].says).count(), 1, "{shown}");
        assert!(
            shown
                .lines()
                .any(|line| line.starts_with("::error file") && line.contains("Instead: ")),
            "{shown}"
        );
    }
}
