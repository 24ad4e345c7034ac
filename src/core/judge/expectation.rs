//! Compares a conclusive verdict with the file's expectation for this machine.

use crate::plan::Plan;
use crate::scenario::Check;
use crate::text::counts::tally_items;
use crate::verdict::{ExpectationMet, Kind};

use super::outcomes::JudgedCase;
use super::shows::{Shows, applicable_checks, shows};
use super::{Facts, matches};

pub(super) struct ExpectationResult {
    pub(super) met: ExpectationMet,
    /// The expectations that failed, as text.
    pub(super) unexpected: Vec<String>,
    /// The expectations that could not be judged because of other processes on the GPUs, as text.
    pub(super) unobservable: Vec<String>,
    /// A fact of memory that held in some attempts and failed in others. Another process may have caused this, so
    /// nothing is concluded.
    pub(super) disagreement: Option<String>,
}

/// Compares the result with the file's expectation for this machine.
pub(super) fn compare_verdict(
    plan: &Plan,
    seen: &[JudgedCase],
    kind: Kind,
    facts: &Facts,
) -> ExpectationResult {
    let mut comparison = ExpectationResult {
        met: ExpectationMet::NoExpectation,
        unexpected: Vec::new(),
        unobservable: Vec::new(),
        disagreement: None,
    };
    if !kind.is_conclusive() {
        return comparison;
    }
    let expectation = plan
        .expect
        .iter()
        .find(|expectation| matches(&expectation.when, facts, &plan.parameters));
    if let Some(expectation) = expectation.filter(|expectation| expectation.verdict.kind() != kind)
    {
        let (found, expected) = (kind.name(), expectation.verdict.kind().name());
        comparison.unexpected.push(format!(
            "the verdict is {found}, expected {expected}: {}",
            expectation.because
        ));
    }
    let mut any = expectation.is_some();
    for case in seen {
        for check in applicable_checks(&case.case.expect, plan, facts) {
            any |= compare_check(plan, case, check, facts, &mut comparison);
        }
    }
    comparison.met = match (comparison.unexpected.is_empty(), any) {
        (false, _) => ExpectationMet::Unexpected,
        (true, true) => ExpectationMet::AsExpected,
        (true, false) => ExpectationMet::NoExpectation,
    };
    comparison
}

/// Compares one check of a case with every attempt that counts. Returns `true` if it could be judged in any of them. A
/// fact that could not be read is a failure too, because the file requires that every attempt shows it.
fn compare_check(
    plan: &Plan,
    seen: &JudgedCase,
    check: &Check,
    facts: &Facts,
    comparison: &mut ExpectationResult,
) -> bool {
    let (mut failed, mut hidden) = (Vec::new(), Vec::new());
    let (mut held, mut of_memory) = (0, true);
    for shown in &seen.valid {
        match shows(
            std::slice::from_ref(check),
            &shown.observation,
            shown.peaks_seen,
            plan,
            facts,
        ) {
            Shows::Yes => held += 1,
            Shows::Partly(_, words) => {
                held += 1;
                hidden.push(words);
            }
            Shows::Unobservable(_, words) => hidden.push(words),
            Shows::No(all) => {
                of_memory &= all.iter().all(|failed| failed.of_memory);
                failed.extend(all.into_iter().map(|failure| failure.words));
            }
            Shows::Unknown(words) => {
                of_memory = false;
                failed.push(format!("could not be observed: {words}"));
            }
        }
    }
    let attempts = seen.valid.len();
    let failures: Vec<String> = failure_sentences(failed, &seen.case.name, attempts).collect();
    let is_judged = held > 0 || !failures.is_empty();
    comparison
        .unobservable
        .extend(failure_sentences(hidden, &seen.case.name, attempts));
    if held > 0 && of_memory && !plan.nondeterministic {
        comparison.disagreement = comparison
            .disagreement
            .take()
            .or_else(|| failures.into_iter().next());
    } else {
        comparison.unexpected.extend(failures);
    }
    is_judged
}

/// Returns each failure once, with the number of attempts.
fn failure_sentences(failures: Vec<String>, case: &str, of: usize) -> impl Iterator<Item = String> {
    tally_items(failures)
        .into_iter()
        .map(move |(words, count)| format!("{case}: {words} ({count} of {of} attempts)"))
}
