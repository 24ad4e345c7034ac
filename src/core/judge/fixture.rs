//! Reports for tests.

use crate::observe::fixture::Script;
use crate::plan::fixture::machine;
use crate::report::{Attempt, CaseReport, Report, Run, SCHEMA, ScenarioReport, SchemaId};
use crate::verdict::Provenance;
use crate::verdict::{ExpectationMet, Kind, Reason, Verdict};

/// Returns a scenario with this verdict, and a trap with this many attempts.
pub fn scenario(
    kind: Kind,
    reason: Option<Reason>,
    expectation: ExpectationMet,
    attempts: usize,
) -> ScenarioReport {
    ScenarioReport {
        name: "test/question".into(),
        scenario: "test/question".into(),
        question: "Does it?".into(),
        verdict: Verdict {
            kind,
            reason,
            expectation,
            provenance: Provenance::Measured,
            ..Verdict::default()
        },
        cases: vec![CaseReport::new(
            "trap",
            vec![Attempt::new(0, Script::new().recording()); attempts],
        )],
        ..ScenarioReport::default()
    }
}

/// Returns a report of a machine with one GPU.
pub fn report(scenarios: Vec<ScenarioReport>, complete: bool) -> Report {
    Report {
        schema: SchemaId::current(SCHEMA),
        must_understand: Vec::new(),
        provenance: Provenance::Measured,
        run: Run {
            on: "cuda".into(),
            ..Run::default()
        },
        machine: machine(1),
        scenarios,
        complete,
    }
}
