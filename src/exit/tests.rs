//! Every combination of what a run can come to, held against a second way of telling the code.

mod survey;

use super::Exit;
use crate::judge::fixture::{report, scenario};
use crate::report::Report;
use crate::verdict::{ExpectationMet, Kind, Reason};

/// What a run came to: a bit for each thing.
#[derive(Clone, Copy)]
struct Came(u32);

impl Came {
    fn to(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }
}

const FINE: u32 = 0;
const NO_EXPECTATION: u32 = 1;
const UNEXPECTED: u32 = 2;
const INCONCLUSIVE: u32 = 3;
const SKIPPED: u32 = 4;
const HARNESS_ERROR: u32 = 5;
const INCOMPLETE: u32 = 6;
const UNSAFE: u32 = 7;
const SIGINT: u32 = 8;
const SIGTERM: u32 = 9;
const ALLOW_SKIP: u32 = 10;
const WITHOUT_ATTEMPTS: u32 = 11;

fn made(came: Came) -> Report {
    use ExpectationMet::{AsExpected, NoExpectation, Unexpected};
    let table = [
        (FINE, Kind::Reproduced, None, AsExpected, 2),
        (NO_EXPECTATION, Kind::NotReproduced, None, NoExpectation, 2),
        (UNEXPECTED, Kind::Reproduced, None, Unexpected, 2),
        (INCONCLUSIVE, Kind::Inconclusive, Some(Reason::Intermittent), NoExpectation, 2),
        (SKIPPED, Kind::Skipped, Some(Reason::TooFewGpus), NoExpectation, 0),
        (HARNESS_ERROR, Kind::HarnessError, Some(Reason::System), NoExpectation, 1),
        (WITHOUT_ATTEMPTS, Kind::Reproduced, None, AsExpected, 0),
    ];
    let scenarios = table.into_iter().filter(|row| came.to(row.0));
    let scenarios = scenarios.map(|(_, kind, reason, met, attempts)| scenario(kind, reason, met, attempts)).collect();
    let mut report = report(scenarios, !came.to(INCOMPLETE));
    report.run.host_unsafe = came.to(UNSAFE).then(|| "a worker is left".to_string());
    report.run.interrupted = match (came.to(SIGINT), came.to(SIGTERM)) {
        (true, _) => Some("SIGINT".into()),
        (_, true) => Some("SIGTERM".into()),
        _ => None,
    };
    report
}

/// The rules of design.md §4 as a decision list, by bits and not by reports.
fn oracle(came: Came) -> i32 {
    let interrupted = came.to(SIGINT) || came.to(SIGTERM);
    let measured = [FINE, NO_EXPECTATION, UNEXPECTED, INCONCLUSIVE].iter().any(|&bit| came.to(bit));
    if came.to(HARNESS_ERROR) || (came.to(INCOMPLETE) && !interrupted) {
        return 70;
    }
    if came.to(UNSAFE) {
        return 6;
    }
    if interrupted {
        return if came.to(SIGINT) { 130 } else { 143 };
    }
    match (came.to(UNEXPECTED), came.to(INCONCLUSIVE), came.to(SKIPPED), came.to(ALLOW_SKIP), measured) {
        (true, ..) => 1,
        (_, true, ..) => 3,
        (_, _, true, false, true) => 5,
        (_, _, _, _, false) => 4,
        _ => 0,
    }
}

#[test]
fn every_combination_has_the_code_that_a_second_oracle_gives() {
    let mut seen = std::collections::BTreeSet::new();
    for bits in 0..1u32 << 12 {
        let came = Came(bits);
        let found = Exit::of_report(&made(came), came.to(ALLOW_SKIP)).code();
        assert_eq!(found, oracle(came), "{bits:012b}");
        seen.insert(found);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 3, 4, 5, 6, 70, 130, 143]);
}

#[test]
fn zero_is_earned() {
    for bits in 0..1u32 << 12 {
        let came = Came(bits);
        if Exit::of_report(&made(came), came.to(ALLOW_SKIP)) == Exit::Ok {
            assert!(came.to(FINE) || came.to(NO_EXPECTATION));
            let bad = [UNEXPECTED, INCONCLUSIVE, HARNESS_ERROR, INCOMPLETE, UNSAFE, SIGINT, SIGTERM];
            assert!(!bad.iter().any(|&bit| came.to(bit)));
            assert!(!came.to(SKIPPED) || came.to(ALLOW_SKIP));
        }
    }
}

#[test]
fn an_empty_report_measured_nothing_and_a_partial_one_is_a_fault() {
    assert_eq!(Exit::of_report(&report(vec![], true), true), Exit::NothingMeasured);
    assert_eq!(Exit::of_report(&report(vec![], false), true), Exit::Internal);
}

#[test]
fn an_unkillable_worker_makes_the_host_unsafe_whoever_noted_it() {
    let mut fine = made(Came(1 << FINE));
    fine.scenarios[0].cases[0].attempts[0].exit.unkillable = true;
    assert_eq!(Exit::of_report(&fine, false), Exit::HostUnsafe);
}

#[test]
fn the_worse_of_two_is_the_one_listed_first() {
    let order = Exit::WORST_FIRST.map(Exit::code);
    assert_eq!(order, [70, 74, 6, 130, 143, 2, 1, 3, 5, 4, 0]);
    for (place, worse) in Exit::WORST_FIRST.into_iter().enumerate() {
        for other in Exit::WORST_FIRST.into_iter().skip(place) {
            assert_eq!(worse.worst(other), worse);
            assert_eq!(other.worst(worse), worse);
        }
    }
}

#[test]
fn meanings_are_sentences() {
    for exit in Exit::WORST_FIRST {
        assert!(exit.meaning().ends_with('.') && !exit.name().is_empty());
    }
}

#[test]
fn what_a_run_of_everything_leaves_out_does_not_count_unless_it_was_asked_for() {
    use ExpectationMet::{AsExpected, NoExpectation};
    let fine = || scenario(Kind::Reproduced, None, AsExpected, 2);
    let hazard = || scenario(Kind::Skipped, Some(Reason::HazardNotAllowed), NoExpectation, 0);
    let unknown = || {
        let mut unknown = scenario(Kind::Inconclusive, Some(Reason::NotModelled), NoExpectation, 1);
        unknown.verdict.provenance = crate::report::Provenance::Simulated;
        unknown
    };
    let code = |scenarios, selectors: &[&str]| {
        let mut report = report(scenarios, true);
        report.run.selectors = selectors.iter().map(|selector| (*selector).to_string()).collect();
        Exit::of_report(&report, false)
    };
    assert_eq!(code(vec![fine(), hazard(), unknown()], &[]), Exit::Ok);
    assert_eq!(code(vec![fine(), hazard()], &["fault"]), Exit::Skipped);
    assert_eq!(code(vec![fine(), unknown()], &["memory"]), Exit::Ok);
    assert_eq!(code(vec![unknown()], &["memory"]), Exit::Inconclusive);
    assert_eq!(code(vec![hazard()], &[]), Exit::NothingMeasured);
    let too_small = |by| {
        let mut skipped = scenario(Kind::Skipped, Some(Reason::TooFewGpus), NoExpectation, 0);
        skipped.verdict.provenance = by;
        skipped
    };
    use crate::report::Provenance::{Measured, Simulated};
    assert_eq!(code(vec![fine(), too_small(Simulated)], &[]), Exit::Ok);
    assert_eq!(code(vec![fine(), too_small(Simulated)], &["context"]), Exit::Skipped);
    assert_eq!(code(vec![fine(), too_small(Measured)], &[]), Exit::Skipped);
}
