//! Stored traces on the command line, and the page of a trace in a real browser.

use crate::common;

use cuda_pitfalls::trace::fixture::programs as fixture;

use std::fs;
use std::path::PathBuf;

use cuda_pitfalls::{policy, render::trace::TraceView, trace};
use serde_json::Value;

use common::Scratch;
use common::browser::{browser, opened};
use policy::PolicyOutcome;
use trace::Trace;

fn document(trace: &Trace) -> String {
    let lines = trace::fixture::lines(trace);
    lines
        .iter()
        .map(|line| serde_json::to_string(line).expect("a line is JSON") + "\n")
        .collect()
}

/// Returns the directory of a trace.
fn stored(scratch: &Scratch, name: &str, trace: &Trace) -> PathBuf {
    let folder = scratch.path().join(name);
    fs::create_dir(&folder).expect("a folder can be made");
    fs::write(folder.join(trace::FILE), document(trace)).expect("a trace can be written");
    folder
}

#[test]
fn a_trace_is_rendered_in_every_form_that_it_has() {
    let scratch = Scratch::new();
    let folder = stored(&scratch, "a", &fixture::trace());
    let file = folder.join(trace::FILE);
    for path in [&folder, &file] {
        let path = path.to_string_lossy();
        for (form, part) in [
            ("text", "410 ms too late: no effect"),
            ("html", "Timeline</h2>"),
            ("markdown", "## Events"),
            ("junit", "the trace is complete"),
            ("github", "::"),
            ("sarif", "\"ruleId\": \"late-mask\""),
        ] {
            scratch
                .run(&["render", &path, "--as", form])
                .good()
                .prints(part);
        }
    }
    let memory = stored(&scratch, "memory", &fixture::memory());
    for form in ["text", "html", "markdown"] {
        scratch
            .run(&["render", &memory.to_string_lossy(), "--as", form])
            .good()
            .prints("Memory by owner");
    }
    for form in ["text-full", "prometheus"] {
        scratch
            .run(&["render", &folder.to_string_lossy(), "--as", form])
            .ended(2, "usage")
            .says("a trace can be rendered as text, html, markdown, junit, github or sarif");
    }
}

#[test]
fn each_line_of_a_trace_follows_its_schema() {
    let validator = jsonschema::validator_for(&trace::schema()).expect("a schema can be used");
    for trace in [
        fixture::trace(),
        fixture::memory(),
        fixture::quiet(),
        fixture::hostile(),
    ] {
        for line in document(&trace).lines() {
            let value: Value = serde_json::from_str(line).expect("a line is JSON");
            assert!(
                validator.is_valid(&value),
                "{:?} of {line}",
                validator.iter_errors(&value).next()
            );
        }
    }
}

/// The marks and the curves of a trace's page.
const MARKS: &str = "marks: all('.mark').length,
    unseen: all('.mark').filter(one => box(one).width < 8 || box(one).height < 8).length,
    untold: all('table').filter(one => !one.caption || one.querySelector('thead th:not([scope])')).length,
    curves: all('.memory path').filter(one => box(one).width > 0 && box(one).height > 0).length,";

#[test]
fn the_page_fits_a_phone_and_the_dark_in_a_real_browser() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new();
    let trace = fixture::trace();
    let page = TraceView::new(
        &trace,
        &fixture::findings(&trace),
        &fixture::outcome(&trace),
    )
    .to_html();
    for (width, is_dark, colour) in [
        (360, false, "rgb(255, 255, 255)"),
        (1200, true, "rgb(13, 17, 23)"),
    ] {
        let seen = &opened(&browser, &scratch, &[(&page, width)], is_dark, MARKS)[0];
        assert_eq!(
            seen["width"], width,
            "the page must be scrolled sideways: {seen:#}"
        );
        assert_eq!(seen["wide"], serde_json::json!([]), "{seen:#}");
        assert_eq!(
            (&seen["marks"], &seen["unseen"], &seen["lost"]),
            (&7.into(), &0.into(), &0.into()),
            "{seen:#}"
        );
        assert_eq!(
            (&seen["curves"], &seen["page"]),
            (&4.into(), &colour.into()),
            "{seen:#}"
        );
        assert_eq!(
            seen["untold"], 0,
            "a table without a caption, or a column without a scope: {seen:#}"
        );
    }
}

#[test]
fn a_hostile_page_and_a_large_one_fit_a_phone_too() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new();
    let (findings, outcome) = fixture::hostile_findings();
    let hostile = TraceView::new(&fixture::hostile(), &findings, &outcome).to_html();
    let large = TraceView::new(
        &fixture::large(100, 2_000, 10_000),
        &[],
        &PolicyOutcome::default(),
    )
    .to_html();
    for seen in opened(
        &browser,
        &scratch,
        &[(&hostile, 360), (&large, 360)],
        false,
        MARKS,
    ) {
        assert_eq!(
            seen["width"], 360,
            "the page must be scrolled sideways: {seen:#}"
        );
        assert_eq!(
            (&seen["lost"], &seen["scripts"]),
            (&0.into(), &0.into()),
            "{seen:#}"
        );
        assert!(
            seen["marks"].as_u64() > Some(1) && seen["height"].as_u64() > Some(500),
            "{seen:#}"
        );
    }
}
