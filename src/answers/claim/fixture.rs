//! An article of three claims, and small reports to compare it with.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test makes is known"
)]

use serde_json::json;

use super::evidence::{Evidence, NamedReport};
use super::{Article, load};
use cuda_pitfalls_core::report::{Report, ScenarioReport};
use cuda_pitfalls_core::scenario::{self, Scenario};

/// The article.
pub const SOURCE: &str = r#"
article = "A title of ours"
title = "Ein Titel"
author = "A. Nobody"
published = "2025-05-23"

[[claim]]
id = "S7-1"
says = "A guard makes a context."
verdict = "qualified"
condition = "with a newer runtime"
shown_by = [
  { scenario = "context/guard", verdict = "reproduced", libcudart = ">= 12.0", case = "trap", at = "look", fact = "contexts", is = ["gpu0"] },
  { scenario = "context/guard", verdict = "not_reproduced", libcudart = "< 12.0" },
]
numbers = [
  { scenario = "context/guard", case = "trap", at = "look", fact = "used_bytes", gpu = "gpu0", says = "after it" },
  { scenario = "context/guard", case = "trap", fact = "exit" },
]

[[claim]]
id = "S7-2"
says = "Queries make one."
verdict = "refuted"
cause = "they read a table"
shown_by = [{ scenario = "context/query", verdict = "not_reproduced" }]
cause_shown_by = [{ scenario = "context/query[q=a]", verdict = "not_reproduced", shows = "It is a table." }]

[[claim]]
id = "S7-3"
says = "It is slow."
untestable = "no clock"
"#;

const SCENARIO: &str = r#"
question = "Is it?"
folklore = "It is."
no_control = "a test"
effect = [{ exit = 0 }]
PARAMETERS
[cases.trap]
does = "nothing"
steps = [{ mark = {}, label = "look" }]
"#;

/// The scenarios that the article names: `context/guard`, and `context/query` with two instances.
pub fn scenarios() -> Vec<Scenario> {
    let load = |name: &str, parameters: &str| {
        scenario::load(name, "test.toml", &SCENARIO.replace("PARAMETERS", parameters), &[]).unwrap()
    };
    vec![load("context/guard", ""), load("context/query", "[parameters]\nq = [\"a\", \"b\"]")]
}

/// The loaded article.
pub fn articles() -> Vec<Article> {
    vec![load("s7-test", "scenarios/claims/s7-test.toml", SOURCE, &scenarios()).unwrap()]
}

/// A report's results of an instance whose trap showed a context.
pub fn answer(instance: &str, kind: &str, libcudart: &str) -> ScenarioReport {
    let step = json!({
        "label": "look", "returned": true, "status": {"code": 0, "name": "cudaSuccess"}, "elapsed_ns": 1,
        "initialised": true, "visible": ["gpu0"], "contexts": ["gpu0"], "current": "gpu0",
        "memory": {"gpu0": {"class": "context", "used_bytes": 527 << 20}},
    });
    let outcome = json!({ "count": 5, "observation": { "steps": [step], "end": "0" } });
    let report = json!({
        "name": instance, "scenario": super::scenario_of(instance), "question": "Is it?", "tags": [], "parameters": {},
        "sha256": "00", "libcudart": {"path": "/lib/libcudart.so", "version": libcudart, "number": null}, "plan": null,
        "verdict": {"kind": kind, "reason": null, "detail": "", "expectation": "as_expected", "provenance": "measured"},
        "cases": [{ "name": "trap", "outcomes": [outcome], "attempts": [] }],
    });
    serde_json::from_value(report).unwrap()
}

/// Answers that support the whole article.
pub fn answers() -> Vec<ScenarioReport> {
    vec![
        answer("context/guard", "reproduced", "13.0"),
        answer("context/guard", "not_reproduced", "11.8"),
        answer("context/query[q=a]", "not_reproduced", "13.0"),
        answer("context/query[q=b]", "not_reproduced", "13.0"),
    ]
}

/// Reports with these results, named `first`, `second`, ….
pub fn evidence(provenance: &str, reports: Vec<Vec<ScenarioReport>>) -> Evidence {
    let names = ["first", "second", "third"];
    let source = |(name, scenarios): (&str, Vec<ScenarioReport>)| {
        let report = json!({
            "schema": {"name": "cuda-pitfalls-report", "major": 1, "minor": 0}, "provenance": provenance,
            "run": {
                "id": "x", "version": "0", "started_at": "", "finished_at": null, "started_ns": 0, "elapsed_ns": 0,
                "selectors": [], "on": "cuda", "seed": 0, "allowed": [], "interrupted": null, "exit": null,
                "calibration": [], "warnings": [], "host_unsafe": null, "parent_peak_rss_bytes": null,
            },
            "machine": cuda_pitfalls_core::plan::fixture::machine(2), "scenarios": [], "complete": true,
        });
        // A report with an answer but without a plan would be refused.
        let report = Report { scenarios, ..serde_json::from_value(report).unwrap() };
        NamedReport { name: name.to_owned(), report }
    };
    Evidence::unjudged(names.into_iter().zip(reports).map(source).collect())
}
