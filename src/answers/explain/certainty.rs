//! How sure `explain` is of an answer.
//!
//! Words alone are no ground: a healthy log has most words of some question. Something must be named that is CUDA's: an
//! error, a call, a variable, a line of a framework, or a message that a scenario is about.

use schemars::JsonSchema;
use serde::Serialize;

use super::fact::NameFact;
use super::index::{Index, Match};
use super::query::Query;

/// A scenario's message counts as said from this share of its words on.
const SAID: f64 = 0.85;
/// A typed question whose names the first answer has is answered from this share of its words on.
const COVERED: f64 = 0.55;
/// A scenario's own question was asked from this share of its words on.
const ASKED: f64 = 0.9;
/// A second answer with this share of the first one's score may be the right one.
const RIVAL: f64 = 0.92;
/// And before the advice about an error that it names from this share on.
const WHOLE: f64 = 0.7;
/// A typed question without a name may be answered from this share of its words on.
const PERHAPS: f64 = 0.35;

/// How sure it is that the first answer is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// One of the program's own names was asked: a scenario, a symptom, a finding.
    Named,
    /// A message that a scenario is about was said.
    Said,
    /// An error is known, and what helps against it.
    Advised,
    /// An error, a call, a variable or a line is named, and the first answer is about it.
    Known,
    /// The words fit, and nothing in them names one answer: perhaps one of these.
    Perhaps,
    /// Nothing here is about CUDA's start-up.
    Nothing,
}

impl Certainty {
    /// Whether the first answer is claimed to be right.
    pub const fn is_claimed(self) -> bool {
        matches!(self, Certainty::Named | Certainty::Said | Certainty::Advised | Certainty::Known)
    }
}

/// How sure the first of the matches is; they come the best first.
pub(super) fn judge(query: &Query, facts: &[NameFact], matches: &[&Match], index: &Index) -> Certainty {
    let best = matches.first().copied();
    // Of two that fit alike neither is claimed.
    let is_alone = match matches {
        [first, second, ..] => query.is_one_word || second.score < first.score * RIVAL,
        _ => true,
    };
    let is_said = best.is_some_and(|best| best.said >= SAID && (query.is_about_cuda() || !query.is_pasted));
    let is_named = best.is_some_and(|best| index.has_name(best.place, query) && best.coverage >= COVERED && is_alone);
    let has_error = facts.iter().any(|fact| fact.id().is_some());
    let has_advice = facts.iter().any(|fact| fact.advice().is_some());
    match (best, query.is_pasted) {
        (Some(best), false) if best.meant >= ASKED && best.coverage >= WHOLE => Certainty::Known,
        // A question has more words than its error, and a scenario may be about just these.
        (Some(best), false)
            if has_advice
                && best.coverage >= WHOLE
                && best.meant >= PERHAPS
                && index.has_name_beside_errors(best.place, query) =>
        {
            Certainty::Known
        }
        _ if has_advice => Certainty::Advised,
        _ if is_said => Certainty::Said,
        (Some(_), true) if has_error => Certainty::Known,
        // A traceback and a log name many functions, and most of them are in order.
        (Some(_), true) if query.names_a_failure() => Certainty::Perhaps,
        (_, true) => Certainty::Nothing,
        (None, false) if facts.is_empty() => Certainty::Nothing,
        (None, false) => Certainty::Known,
        (Some(_), false) if (has_error && is_alone) || is_named || (!facts.is_empty() && query.is_one_word) => {
            Certainty::Known
        }
        (Some(_), false) if !facts.is_empty() => Certainty::Perhaps,
        (Some(best), false) if query.is_about_cuda() && best.coverage >= PERHAPS => Certainty::Perhaps,
        // The words of a question of ours, though none of them is CUDA's.
        (Some(best), false) if best.terms > 2 && best.coverage >= WHOLE => Certainty::Perhaps,
        (Some(_), false) => Certainty::Nothing,
    }
}
