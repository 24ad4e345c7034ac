//! Tests that apply to every format.

use super::{Format, Prepared, fixture};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::report::{CompactReport, Report, ReportView, StoredReport};
use cuda_pitfalls_core::text::lines;

fn render(report: &Report, format: Format) -> String {
    super::render(&Prepared::Fresh(report), format, lines::WIDTH).expect("a form of reports")
}

/// Returns the formats for people, and for programs that are not ours: all except the document itself.
fn forms() -> impl Iterator<Item = &'static Format> {
    let has = |format| {
        super::render(&Prepared::Fresh(&fixture::report()), format, lines::WIDTH).is_some()
    };
    Format::all()
        .iter()
        .filter(move |format| has(**format) && **format != Format::Compact)
}

#[test]
fn every_report_has_a_rendering_in_every_format() {
    assert_eq!(
        Format::all().len() - forms().count(),
        3,
        "the document itself, and what only others have"
    );
    let reports = [
        fixture::report(),
        fixture::empty(),
        fixture::partial(),
        fixture::skipped(),
        fixture::simulated(),
    ];
    for report in &reports {
        for format in forms().chain([&Format::Compact]) {
            let text = render(report, *format);
            assert!(
                text.len() > 1 && text.ends_with('\n'),
                "{format:?}: {text:?}"
            );
            assert_eq!(text, render(report, *format), "the same every time");
        }
    }
}

#[test]
fn simulated_and_partial_reports_say_so_in_every_format() {
    for format in forms() {
        let simulated = render(&fixture::simulated(), *format);
        assert!(
            simulated.to_lowercase().contains("simulated"),
            "{format:?}: {simulated}"
        );
        assert!(
            !render(&fixture::report(), *format)
                .to_lowercase()
                .contains("simulated"),
            "{format:?}"
        );
        let partial = render(&fixture::partial(), *format);
        let said =
            partial.contains("PARTIAL") || partial.contains("cuda_pitfalls_run_complete 0\n");
        assert!(said, "{format:?}: {partial}");
    }
}

#[test]
fn missing_plan_and_figures_are_marked() {
    let mut report = fixture::report();
    for scenario in &mut report.scenarios {
        scenario.plan = None;
        for outcome in scenario
            .cases
            .iter_mut()
            .flat_map(|case| &mut case.outcomes)
        {
            for memory in outcome
                .observation
                .steps
                .iter_mut()
                .flat_map(|step| step.memory.values_mut())
            {
                memory.used_bytes = None;
                memory.class = None;
            }
        }
    }
    for format in forms() {
        let text = render(&report, *format);
        let memory_is_shown = *format != Format::Prometheus;
        assert_eq!(
            text.contains("not read"),
            memory_is_shown,
            "{format:?}: {text}"
        );
    }
}

#[test]
fn compact_report_keeps_the_summary_and_says_so() {
    let reports = [
        fixture::report(),
        fixture::empty(),
        fixture::partial(),
        fixture::skipped(),
        fixture::simulated(),
    ];
    for report in reports.iter().chain([&fixture::hostile()]) {
        let text = render(report, Format::Compact);
        let kept: CompactReport = serde_json::from_str(&text).unwrap();
        assert_eq!(text.lines().count(), 1);
        let stored = Prepared::stored(StoredReport::Compact(Box::new(kept.clone())));
        assert_eq!(
            super::render(&stored, Format::Compact, lines::WIDTH).unwrap(),
            text,
            "it is its own compact form"
        );
        let (kept, whole) = (kept.view(), report.view());
        assert_eq!(Exit::from_report(&kept), Exit::from_report(&whole));
        let verdicts = |report: &ReportView| -> Vec<_> {
            report
                .scenarios
                .iter()
                .map(|one| (one.verdict.kind, one.verdict.expectation))
                .collect()
        };
        assert_eq!(verdicts(&kept), verdicts(&whole));
        for (whole, kept) in whole
            .scenarios
            .iter()
            .flat_map(|it| &it.cases)
            .zip(kept.scenarios.iter().flat_map(|it| &it.cases))
        {
            assert_eq!(kept.made, whole.made);
            assert!(!report.complete || kept.not_counted == whole.not_counted);
        }
        for format in forms() {
            let text = super::render(&stored, *format, lines::WIDTH).unwrap();
            let is_told = text.contains("COMPACT") || text.contains("cuda_pitfalls_run_compact 1");
            assert!(is_told, "{format:?}: {text}");
        }
    }
    let kept = StoredReport::Compact(Box::new(CompactReport::new(&fixture::report(), |_| false)));
    let kept = super::render(&Prepared::stored(kept), Format::TextFull, lines::WIDTH).unwrap();
    assert!(
        kept.contains("cudaGetDeviceCount: count=2") && kept.contains("gpu0 +530 MiB"),
        "{kept}"
    );
}
