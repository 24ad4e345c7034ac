//! A conclusive verdict held against what the file says for this machine.

use crate::plan::Plan;
use crate::scenario::Expected;
use crate::verdict::{ExpectationMet, Kind};

use super::decide::in_attempt;
use super::outcomes::Seen;
use super::shows::{Shows, applicable};
use super::{Facts, matches};

/// Whether all is as expected, and what is not.
pub(super) fn compare(plan: &Plan, seen: &[Seen], kind: Kind, facts: &Facts) -> (ExpectationMet, Vec<String>) {
    let found = match kind {
        Kind::Reproduced => Expected::Reproduced,
        Kind::NotReproduced => Expected::NotReproduced,
        // What concludes nothing has nothing to be held against.
        Kind::Inconclusive | Kind::Skipped | Kind::HarnessError => return (ExpectationMet::NoExpectation, Vec::new()),
    };
    let mut unexpected = Vec::new();
    let expectation = plan.expect.iter().find(|expectation| matches(&expectation.when, facts, &plan.parameters));
    if let Some(expectation) = expectation
        && expectation.verdict != found
    {
        let expected = match expectation.verdict {
            Expected::Reproduced => Kind::Reproduced,
            Expected::NotReproduced => Kind::NotReproduced,
        };
        unexpected.push(format!(
            "the verdict is {}, expected {}: {}",
            kind.name(),
            expected.name(),
            expectation.because
        ));
    }
    let mut any_check = false;
    for case in seen {
        any_check |= applicable(&case.case.expect, plan, facts).next().is_some();
        unexpected.extend(failures(plan, case, facts));
    }
    let met = match (unexpected.is_empty(), expectation.is_some() || any_check) {
        (false, _) => ExpectationMet::Unexpected,
        (true, true) => ExpectationMet::AsExpected,
        (true, false) => ExpectationMet::NoExpectation,
    };
    (met, unexpected)
}

/// The checks of a case that failed, each with the number of attempts in which it did. A fact that
/// could not be told is a failure too: the file says that every attempt must show it.
fn failures(plan: &Plan, seen: &Seen, facts: &Facts) -> Vec<String> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for shown in &seen.valid {
        for check in applicable(&seen.case.expect, plan, facts) {
            let words = match in_attempt(std::slice::from_ref(check), shown, plan, facts) {
                Shows::Yes => continue,
                Shows::No(words) => words,
                Shows::Unknown(words) => vec![format!("could not be observed: {words}")],
            };
            for words in words {
                match counted.iter_mut().find(|(known, _)| *known == words) {
                    Some((_, count)) => *count += 1,
                    None => counted.push((words, 1)),
                }
            }
        }
    }
    let of = seen.valid.len();
    let name = &seen.case.name;
    counted.into_iter().map(|(words, count)| format!("{name}: {words} ({count} of {of} attempts)")).collect()
}
