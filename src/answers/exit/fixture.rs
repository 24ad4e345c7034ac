//! Reports for tests, for every combination of results.

#![allow(missing_docs, reason = "the names of the bits say it")]

use cuda_pitfalls_core::judge::fixture::{report, scenario};
use cuda_pitfalls_core::report::{Report, Required, Requirement, ScenarioReport};
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Reason};

/// The results of a run, one bit for each.
#[derive(Clone, Copy, Debug)]
pub struct Came(pub u32);

impl Came {
    /// Returns `true` if the run has this result.
    pub fn to(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }
}

pub const FINE: u32 = 0;
pub const NO_EXPECTATION: u32 = 1;
pub const UNEXPECTED: u32 = 2;
pub const INCONCLUSIVE: u32 = 3;
pub const SKIPPED: u32 = 4;
pub const HARNESS_ERROR: u32 = 5;
pub const INCOMPLETE: u32 = 6;
pub const UNSAFE: u32 = 7;
pub const SIGINT: u32 = 8;
pub const SIGTERM: u32 = 9;
pub const ALLOW_SKIP: u32 = 10;
pub const WITHOUT_ATTEMPTS: u32 = 11;
pub const SKIPPED_BY_NAME: u32 = 12;
pub const REQUIREMENT_UNMET: u32 = 13;
pub const STOPPED: u32 = 14;
pub const BITS: u32 = 15;

/// Returns a report of a run with these results.
pub fn made(came: Came) -> Report {
    use ExpectationMet::{AsExpected, NoExpectation, Unexpected};
    let table = [
        (FINE, Kind::Reproduced, None, AsExpected, 2),
        (NO_EXPECTATION, Kind::NotReproduced, None, NoExpectation, 2),
        (UNEXPECTED, Kind::Reproduced, None, Unexpected, 2),
        (
            INCONCLUSIVE,
            Kind::Inconclusive,
            Some(Reason::Intermittent),
            NoExpectation,
            2,
        ),
        (
            SKIPPED,
            Kind::Skipped,
            Some(Reason::TooFewGpus),
            NoExpectation,
            0,
        ),
        (
            SKIPPED_BY_NAME,
            Kind::Skipped,
            Some(Reason::TooFewGpus),
            NoExpectation,
            0,
        ),
        (
            HARNESS_ERROR,
            Kind::HarnessError,
            Some(Reason::System),
            NoExpectation,
            1,
        ),
        (WITHOUT_ATTEMPTS, Kind::Reproduced, None, AsExpected, 0),
    ];
    let scenarios = table.into_iter().filter(|row| came.to(row.0));
    let scenarios = scenarios.map(|(bit, kind, reason, met, attempts)| ScenarioReport {
        asked_by_name: bit == SKIPPED_BY_NAME,
        ..scenario(kind, reason, met, attempts)
    });
    let scenarios = scenarios.collect();
    let mut report = report(scenarios, !came.to(INCOMPLETE));
    report.run.allow_skip = came.to(ALLOW_SKIP).then(|| "one GPU".to_string());
    report.run.stopped_by = came.to(STOPPED).then(|| "test/question".to_string());
    let found = if came.to(REQUIREMENT_UNMET) { 1 } else { 2 };
    report.run.require = vec![Requirement::new(Required::Gpus, 2).with(found)];
    report.run.host_unsafe = came.to(UNSAFE).then(|| "a worker is left".to_string());
    report.run.interrupted = match (came.to(SIGINT), came.to(SIGTERM)) {
        (true, _) => Some("SIGINT".into()),
        (_, true) => Some("SIGTERM".into()),
        _ => None,
    };
    report
}
