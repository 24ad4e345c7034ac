//! Selects the attempts to repeat: those that another process disturbed. Also computes how many attempts must confirm
//! an unexpected verdict.

use crate::plan::{FEWEST, Plan};
use crate::report::{Attempt, CaseReport};
use crate::verdict::{ExpectationMet, Reason, Verdict};

/// Returns the cases that may have one more attempt now, as indices into the cases of the plan. An index is repeated if
/// several attempts are missing.
///
/// Only contamination and residue are reasons to try again: they are detected without regard to the effect, so trying
/// again cannot favor an answer. All extra attempts of a scenario together are at most twice its repeat count, and all
/// of them stay in the report.
pub fn additional_attempts(plan: &Plan, cases: &[CaseReport]) -> Vec<usize> {
    let repeat = usize::try_from(plan.repeat).unwrap_or(usize::MAX);
    let attempts: Vec<&[Attempt]> = plan
        .cases
        .iter()
        .map(|case| attempts_of(cases, &case.name))
        .collect();
    let extra: usize = attempts
        .iter()
        .map(|made| made.len().saturating_sub(repeat))
        .sum();
    let mut budget = repeat.saturating_mul(2).saturating_sub(extra);
    let mut missing: Vec<usize> = attempts.iter().map(|made| missing(made, repeat)).collect();
    let mut again = Vec::new();
    // The cases take turns, so that they share a budget that is too small.
    while budget > 0 && missing.iter().any(|&count| count > 0) {
        for (place, count) in missing.iter_mut().enumerate() {
            if *count > 0 && budget > 0 {
                *count -= 1;
                budget -= 1;
                again.push(place);
            }
        }
    }
    again
}

/// Returns the attempts of a case so far.
pub(super) fn attempts_of<'c>(cases: &'c [CaseReport], name: &str) -> &'c [Attempt] {
    cases
        .iter()
        .find(|case| case.name == name)
        .map_or(&[], |case| &case.attempts)
}

/// Returns the number of valid attempts that a case lacks because of contamination.
fn missing(attempts: &[Attempt], repeat: usize) -> usize {
    let contaminated = attempts.iter().filter(|attempt| {
        attempt
            .judged
            .invalid
            .iter()
            .any(|invalid| matches!(invalid.reason, Reason::Contaminated | Reason::Residue))
    });
    // Attempts that were lost for another reason, or never made, are not replaced.
    attempts
        .len()
        .min(repeat)
        .saturating_sub(attempts.len() - contaminated.count())
}

/// Returns the number of attempts of each case that an unexpected verdict still lacks. All attempts stay in the report,
/// so more of them can show that attempts disagree, but cannot turn an unexpected verdict into an expected one.
pub fn confirming_attempts(plan: &Plan, verdict: &Verdict) -> u32 {
    if verdict.expectation == ExpectationMet::Unexpected {
        FEWEST.saturating_sub(plan.repeat)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::fixture::{Script, case, plan};
    use crate::verdict::Invalidation;

    const NONE: [usize; 0] = [];

    /// Returns the cases to try again, for attempts written as letters: `.` counts, `c` is contaminated, `h` hung.
    fn again(trap: &str, control: &str) -> Vec<usize> {
        let plan = plan(1, vec![case("trap", &["mark"]), case("control", &["mark"])]);
        let cases = [("trap", trap), ("control", control)]
            .map(|(name, letters)| CaseReport::new(name, letters.chars().map(attempt).collect()));
        additional_attempts(&plan, &cases)
    }

    fn attempt(letter: char) -> Attempt {
        let mut attempt = Attempt::new(0, Script::new().recording());
        let reason = match letter {
            'c' => Some(Reason::Contaminated),
            'h' => Some(Reason::Hang),
            _ => None,
        };
        attempt.judged.invalid = reason
            .map(|reason| Invalidation {
                reason,
                detail: String::new(),
            })
            .into_iter()
            .collect();
        attempt
    }

    #[test]
    fn only_contaminated_attempts_are_made_again() {
        assert_eq!(again(".....", "....."), NONE);
        assert_eq!(again("..c..", "....."), [0]);
        assert_eq!(again("..h..", "....."), NONE);
        assert_eq!(again("..hc.", "...cc"), [0, 1, 1]);
        assert_eq!(again("..c...", "....."), NONE);
        assert_eq!(again("..c..h", "....."), NONE);
    }

    #[test]
    fn extra_attempts_end_at_twice_the_repeat_count() {
        assert_eq!(again("ccccc", "ccccc").len(), 10);
        assert_eq!(again("cccccccccc", "cccccccccc"), NONE);
        assert_eq!(again("ccccccccc", "cccccccccc"), [0]);
    }

    #[test]
    fn a_loop_that_follows_it_ends() {
        let (mut trap, mut control) = ("ccccc".to_string(), "ccccc".to_string());
        for _ in 0..100 {
            for place in again(&trap, &control) {
                if place == 0 {
                    trap.push('c')
                } else {
                    control.push('c')
                }
            }
        }
        assert_eq!(trap.len() + control.len(), 20);
    }
}
