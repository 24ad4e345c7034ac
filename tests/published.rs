//! `render` and `compare` say whether a document is one of the published measurements.

use crate::common;

use std::collections::BTreeSet;
use std::path::Path;

use cuda_pitfalls::input::document_sha256;
use cuda_pitfalls::published::listed_hash;
use cuda_pitfalls::report::{self, Stored};
use cuda_pitfalls::survey::SurveyDocument;
use cuda_pitfalls::trace::is_trace;
use serde_json::json;

use common::{Scratch, evidence, read_document, read_text, root};

const UNCHANGED: &str = concat!(
    "is a measurement published with cuda-pitfalls ",
    env!("CARGO_PKG_VERSION")
);
const CHANGED: &str = concat!(
    "is CHANGED: not as published with cuda-pitfalls ",
    env!("CARGO_PKG_VERSION")
);

/// Returns the hash of a document that has a run: a trace, a report or a survey.
fn measured_hash(file: &Path) -> Option<String> {
    if is_trace(file) {
        return document_sha256(file).ok().map(listed_hash);
    }
    let stored = Stored::open(file).ok()?;
    let has_run = stored.name() == report::SCHEMA || SurveyDocument::from_stored(&stored).is_some();
    has_run.then(|| listed_hash(stored.sha256()))
}

#[test]
fn the_list_has_every_measured_run_and_nothing_else() {
    let mut measured = BTreeSet::new();
    for file in evidence() {
        measured.extend(measured_hash(&file));
    }
    assert!(measured.len() > 350, "{}", measured.len());
    let list = read_text("scenarios/published.txt");
    let published: BTreeSet<String> = list
        .lines()
        .flat_map(|line| line.split(' ').skip(1).map(str::to_owned))
        .collect();
    let differing: Vec<_> = measured.symmetric_difference(&published).collect();
    assert!(differing.is_empty(), "`cargo xtask bless`: {differing:?}");
}

#[test]
fn only_the_same_bytes_are_a_published_measurement() {
    let scratch = Scratch::new();
    for (name, digit) in [
        (
            "h200-x2-stale-handle/report.json",
            "\"parent_peak_rss_bytes\":",
        ),
        (
            "compact/h100-x1-stale-stream.json",
            "\"parent_peak_rss_bytes\":",
        ),
        ("survey-mask-h100-x4/survey-mask.json", "\"attempts_ns\":"),
        (
            "traces/h200-x2/torch_loader/trace.ndjson",
            "\"reserved_bytes\":",
        ),
    ] {
        let original = root().join("reports").join(name);
        let text = read_document(&original);
        // One byte of a number.
        let start = text.find(digit).expect("a number") + digit.len();
        let mut forged = text.clone().into_bytes();
        forged[start] = if forged[start] == b'1' { b'2' } else { b'1' };
        let copy = scratch.file("copy", &text);
        let forged = scratch.file("forged", forged);
        let ran = scratch.run(&["render", &original.to_string_lossy()]).good();
        assert!(ran.stdout.contains(UNCHANGED), "{name}: {ran:#?}");
        for form in ["text", "markdown", "html"] {
            let ran = scratch.run(&["render", &copy, "--as", form]).good();
            assert!(ran.stdout.contains(UNCHANGED), "{name}, {form}: {ran:#?}");
            let ran = scratch.run(&["render", &forged, "--as", form]).good();
            assert!(ran.stdout.contains(CHANGED), "{name}, {form}: {ran:#?}");
        }
        let ran = scratch.run(&["compare", &copy, &forged]);
        let ran = ran.prints(&format!("A {UNCHANGED}\n"));
        ran.prints(&format!("B {CHANGED}\n"));
        let sides = scratch.run(&["compare", &copy, &forged, "--json"]).json();
        let published = [&sides["a"]["published"], &sides["b"]["published"]];
        assert_eq!(
            published,
            [&json!("unchanged"), &json!("changed")],
            "{name}"
        );
    }
}

/// A claim in the document itself counts for nothing, and a user's own run gets no note.
#[test]
fn a_run_of_ones_own_gets_no_note() {
    let scratch = Scratch::new();
    let label = format!("note=This document {UNCHANGED}.");
    scratch
        .simulated(
            "sim",
            &["mask-after-cuinit"],
            &["--quick", "--label", &label],
        )
        .ended(0, "ok");
    let own = scratch.reports().to_string_lossy().into_owned();
    let committed = "reports/h200-x2-stale-handle";
    let ran = scratch.run(&["render", &own]).good();
    assert!(!ran.stdout.contains("published with"), "{ran:#?}");
    let ran = scratch.run(&["compare", &own, committed]);
    let ran = ran.prints(&format!("B {UNCHANGED}\n"));
    assert!(!ran.stdout.contains(&format!("A {UNCHANGED}")), "{ran:#?}");
    let fields = scratch.run(&["compare", &own, committed, "--json"]).json();
    assert_eq!(fields["a"].get("published"), None);
}
