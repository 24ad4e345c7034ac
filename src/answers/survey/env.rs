//! `survey env`: when each environment variable is read.
//!
//! The same calls are made many times, and the variable is set at a different moment each time: at exec, right before
//! one of the steps, or never. An observable shows whether it had an effect. The driver reads the variable after the
//! last moment where setting it has an effect.

mod variable;

#[cfg(test)]
mod tests;

pub use variable::{EnvVariable, variables};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::variable::{AT_EXEC, NEVER, variables_and_left_out};
use super::row::{KindRow, RowAttempts};
use super::{SurveyAnswer, SurveyKind, SurveyQuestions};
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::judge::{Facts, Shows, shows};

/// Moment of a variable that has an effect at exec but not when it is set before the first call: it is read while the
/// library is loaded, or not from the process's own copy of the environment.
pub const EXEC: &str = "exec or library load";

/// Results of an environment variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnvRow {
    /// The variable.
    pub variable: String,
    /// The value that was set.
    pub value: String,
    /// The proof that the variable had an effect, in a sentence.
    pub observable: String,
    /// `true` if the observable occurs when the variable is set at exec; null if that is unknown, or if the observable
    /// also occurs without the variable.
    pub has_effect: Option<bool>,
    /// The latch point: the call after which setting the variable has no effect, as text such as `cuInit` or `first
    /// context`; `each use` if setting it always has an effect; null if unknown.
    pub read_at: Option<String>,
    /// The effect of setting it at each moment, earliest first.
    pub moments: Vec<Moment>,
    /// Number of attempts that count, and the reasons why the others do not.
    #[serde(flatten)]
    pub standing: RowAttempts,
}

/// Setting the variable right before one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// The label of the step before which it was set.
    pub before: String,
    /// Description of that step, in the words of `read_at`.
    pub does: String,
    /// `true` if the observable occurred; null if attempts disagree, if one of them could not decide it, or if no
    /// attempt counts.
    pub effect: Option<bool>,
}

/// Returns the questions of the survey.
pub(super) fn questions() -> Result<SurveyQuestions, Invalid> {
    let (variables, left_out) = variables_and_left_out()?;
    Ok(SurveyQuestions::Listed(
        variables.into_iter().map(EnvVariable::into_item).collect(),
        left_out,
    ))
}

impl KindRow for EnvRow {
    const KIND: SurveyKind = SurveyKind::Env;

    fn question(&self) -> (String, Option<String>) {
        (self.variable.clone(), None)
    }

    fn standing(&self) -> &RowAttempts {
        &self.standing
    }

    fn asked_as(&self) -> String {
        format!("{} {}", self.value, self.observable)
    }

    fn has_facts(&self) -> bool {
        self.read_at.is_some() || self.has_effect == Some(false)
    }
}

impl EnvRow {
    fn with(mut self, answered: &SurveyAnswer<'_>) -> EnvRow {
        let mut standing = RowAttempts::from_report(answered.report);
        let at_exec = effect(AT_EXEC, answered, &mut standing);
        for moment in &mut self.moments {
            moment.effect = effect(
                &variable::case_before(&moment.before),
                answered,
                &mut standing,
            );
        }
        // An observable that also occurs without the variable proves nothing.
        let unset = effect(NEVER, answered, &mut standing);
        self.has_effect = match unset {
            Some(false) => at_exec,
            _ => None,
        };
        self.read_at = match self.has_effect {
            Some(true) => read_at(&self.moments),
            _ => None,
        };
        EnvRow { standing, ..self }
    }
}

/// Returns `true` if the attempts of a case showed the observable. If attempts that could decide it disagree, that is a
/// disagreement. If one could not decide it, the result is unknown, because the other attempts do not determine this
/// one.
fn effect(case: &str, answered: &SurveyAnswer<'_>, standing: &mut RowAttempts) -> Option<bool> {
    let plan = answered.report.plan.as_ref()?;
    let facts = Facts::new(
        answered.machine,
        answered.report.libcudart.as_ref(),
        plan,
        answered.provenance,
    );
    let observations = answered.case_observations(case);
    let shown =
        observations.iter().map(
            |shown| match shows(&plan.effect, shown, true, plan, &facts) {
                Shows::Yes => Some(true),
                Shows::No(_) => Some(false),
                Shows::Partly(..) | Shows::Unobservable(..) | Shows::Unknown(_) => None,
            },
        );
    let shown: Vec<Option<bool>> = shown.collect();
    let fact = if case == AT_EXEC { "at-exec" } else { case };
    let agreed = standing.agreed(fact, shown.iter().flatten().copied());
    if shown.contains(&None) { None } else { agreed }
}

/// Returns the description of the last step that setting the variable before still had an effect on, if setting it also
/// had an effect at all earlier moments and none at the next. Returns `None` if moments contradict this order, or if a
/// relevant one is unknown.
fn read_at(moments: &[Moment]) -> Option<String> {
    let early = moments
        .iter()
        .take_while(|moment| moment.effect == Some(true))
        .count();
    let late = moments.get(early..).unwrap_or_default();
    let is_told = late.first().is_none_or(|next| next.effect == Some(false));
    if !is_told || late.iter().any(|later| later.effect == Some(true)) {
        return None;
    }
    let last = early.checked_sub(1).and_then(|last| moments.get(last));
    Some(last.map_or_else(|| EXEC.to_string(), |last| last.does.clone()))
}
