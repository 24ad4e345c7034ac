use std::collections::BTreeSet;

use cuda_pitfalls::judge::fixture::report as report_of;
use cuda_pitfalls::plan::fixture::machine;
use cuda_pitfalls::report::{Report, ScenarioReport};
use cuda_pitfalls::{catalogue, scenario};
use serde_json::json;

use super::*;

const SOURCE: &str = r#"
article = "A title of ours"
title = "Ein Titel"
published = "2025-05-23"

[[claim]]
id = "S7-1"
says = "A guard makes a context."
verdict = "qualified"
condition = "with a newer runtime"
shown_by = [
  { scenario = "context/guard", verdict = "reproduced", libcudart = ">= 12.0", case = "trap", at = "look", fact = "value.count", is = 2 },
  { scenario = "context/guard", verdict = "not_reproduced", libcudart = "< 12.0" },
]
numbers = [{ scenario = "context/guard", case = "trap", at = "look", fact = "used_bytes", gpu = "gpu0", says = "after it" }]

[[claim]]
id = "S7-2"
says = "It is slow."
untestable = "no clock"
"#;

const SCENARIO: &str = r#"
question = "Is it?"
belief = "It is."
no_control = "a test"
effect = [{ exit = 0 }]
[cases.trap]
does = "nothing"
steps = [{ cudaGetDeviceCount = {}, label = "look" }]
"#;

fn article(source: &str) -> Result<Article, TaskError> {
    let guard = scenario::load("context/guard", "test.toml", SCENARIO, &[]).expect("a scenario");
    Article::parse(source, &[guard])
}

/// A report with one answer, whose trap counted GPUs, or did not.
fn report(kind: &str, libcudart: &str, count: Option<i64>) -> (String, Report) {
    let step = json!({
        "label": "look", "returned": true, "status": null, "elapsed_ns": 1, "initialised": true, "visible": [],
        "contexts": [], "current": "none", "values": count.map(|count| json!({ "count": count })).unwrap_or(json!({})),
        "memory": { "gpu0": { "class": "context", "used_bytes": 527 << 20 } },
    });
    let outcome = json!({ "count": 5, "observation": { "steps": [step], "end": "0" } });
    let part = json!({
        "name": "context/guard", "scenario": "context/guard", "question": "Is it?", "workaround": "", "tags": [], "parameters": {},
        "sha256": "00", "libcudart": { "path": "/lib/libcudart.so", "version": libcudart, "number": null }, "plan": null,
        "verdict": { "kind": kind, "reason": null, "detail": "", "expectation": "as_expected", "provenance": "measured" },
        "cases": [{ "name": "trap", "outcomes": [outcome], "attempts": [] }],
    });
    let part: ScenarioReport = serde_json::from_value(part).expect("an answer");
    let report = report_of(Vec::new(), true);
    (
        "first".to_owned(),
        Report {
            machine: machine(2),
            scenarios: vec![part],
            ..report
        },
    )
}

/// The word for the first claim, and its row on the page.
fn told(reports: &[(String, Report)]) -> (&'static str, String) {
    let articles = [article(SOURCE).expect("a valid file")];
    let ledger = weigh(&articles, reports);
    let page = page(&ledger, reports);
    let row = page
        .lines()
        .find(|line| line.starts_with("| S7-1 "))
        .expect("a row")
        .to_owned();
    (ledger[0].1[0].word(), row)
}

#[test]
fn a_verdict_stands_on_all_that_its_row_names() {
    let old = || report("not_reproduced", "11.8", None);
    let (word, row) = told(&[report("reproduced", "13.0", Some(2)), old()]);
    assert_eq!(word, "qualified");
    for part in [
        "**qualified (CUDA calls only)**",
        "reproduced, with value.count 2 (trap, at look), libcudart 13.0 in first",
    ]
    .into_iter()
    .chain([
        "not\\_reproduced, libcudart 11.8 in first",
        "after it: gpu0 +527 MiB (trap, at look)",
    ]) {
        assert!(row.contains(part), "{part}: {row}");
    }
    assert_eq!(told(&[report("reproduced", "13.0", Some(2))]).0, "open");
    assert_eq!(told(&[]).0, "not measured");
    assert_eq!(told(&[report("skipped", "13.0", None)]).0, "not measured");
    // A value that was not read decides nothing; one contradiction is enough.
    assert_eq!(told(&[report("reproduced", "13.0", None), old()]).0, "open");
    assert_eq!(
        told(&[report("reproduced", "13.0", Some(1)), old()]).0,
        "contradicted"
    );
    let (word, row) = told(&[
        report("reproduced", "13.0", Some(2)),
        old(),
        report("not_reproduced", "12.1", Some(2)),
    ]);
    assert!(
        word == "contradicted" && row.contains("where the row needs reproduced"),
        "{row}"
    );
}

#[test]
fn what_a_row_names_is_there() {
    let said = |from: &str, to: &str| {
        assert!(SOURCE.contains(from), "{from}");
        article(&SOURCE.replacen(from, to, 1))
            .map(|_| ())
            .expect_err(to)
            .to_string()
    };
    assert_eq!(
        said("context/guard", "context/gard"),
        "S7-1: there is no scenario `context/gard`"
    );
    assert_eq!(
        said("\"trap\"", "\"tarp\""),
        "S7-1: context/guard has no case `tarp`"
    );
    assert_eq!(
        said("\"look\"", "\"lok\""),
        "S7-1: context/guard has no step `lok` in its trap"
    );
    assert_eq!(
        said("value.count", "value.devices"),
        "S7-1: context/guard has no value `devices` at `look` of its trap"
    );
    assert_eq!(said("used_bytes", "used"), "S7-1: there is no fact `used`");
    assert!(said(", is = 2", "").contains("needs `case`, `at`, `fact` and `is`"));
    for (from, to) in [
        ("condition = \"with a newer runtime\"\n", ""),
        ("verdict = \"qualified\"\n", ""),
        ("condition", "cause = \"another\"\ncondition"),
        ("untestable", "verdict = \"confirmed\"\nuntestable"),
    ] {
        assert!(said(from, to).contains("a row has a verdict"), "{from}");
    }
    assert!(said("says =", "say =").contains("unknown field `say`"));
}

#[test]
fn every_claim_of_the_articles_has_its_row_in_our_words() {
    let scenarios = catalogue::select(&[]).expect("the scenarios");
    let articles = crate::documents::articles(&scenarios).expect("valid files");
    let ids: Vec<&str> = articles
        .iter()
        .flat_map(|article| &article.claims)
        .map(|claim| claim.id.as_str())
        .collect();
    let counts = [14, 10, 13, 10, 33];
    let wanted: BTreeSet<String> = counts
        .iter()
        .enumerate()
        .flat_map(|(article, count)| (1..=*count).map(move |number| format!("S{article}-{number}")))
        .collect();
    assert_eq!(ids.len(), wanted.len());
    assert_eq!(
        ids.iter()
            .map(|id| (*id).to_owned())
            .collect::<BTreeSet<_>>(),
        wanted
    );
    for article in &articles {
        let claims = article
            .claims
            .iter()
            .map(|claim| format!("{claim:?}"))
            .collect::<String>();
        let foreign: String = [&claims, &article.article, &article.note]
            .into_iter()
            .flat_map(|text| text.chars())
            .filter(|c| *c as u32 > 0x2fff)
            .collect();
        assert!(foreign.is_empty(), "{} quotes: {foreign}", article.article);
    }
}
