//! `survey env`: when each environment variable is read.
//!
//! The same calls are made many times, and the variable is set at a different moment each time: at exec, right before
//! one of the steps, or never. An observable shows whether it had an effect. The driver reads the variable after the
//! last moment at which setting it has an effect.

mod variable;

#[cfg(test)]
mod tests;

pub use variable::{EnvVariable, LatchMoment, left_out, variables};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::variable::{AT_EXEC, NEVER};
use super::document::{Row, SurveyDocument};
use super::row::RowAttempts;
use super::{Item, Survey, SurveyAnswer, SurveyKind};
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::judge::{Facts, Shows, shows};
use cuda_pitfalls_core::observe::observe;

/// When a variable is read that has an effect at exec but none when it is set before the first call: while the
/// library is loaded, or not from the process's own copy of the environment.
pub const EXEC: &str = "exec or library load";

/// One environment variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnvRow {
    /// The variable.
    pub variable: String,
    /// The value that was set.
    pub value: String,
    /// The proof that the variable had an effect, in a sentence.
    pub observable: String,
    /// Whether the observable shows if the variable is set at exec; null if that is unknown, or if the observable
    /// also shows without the variable.
    pub has_effect: Option<bool>,
    /// The latch point: the call after which setting the variable has no effect, in words such as `cuInit` or `first
    /// context`; `each use` if there is none; null if it is unknown.
    pub read_at: Option<String>,
    /// The effect of setting it at each moment, earliest first.
    pub moments: Vec<Moment>,
    /// How many attempts count, and why others do not.
    #[serde(flatten)]
    pub standing: RowAttempts,
}

/// Setting the variable right before one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// The label of the step before which it was set.
    pub before: String,
    /// What that step does, in the words of `read_at`.
    pub does: String,
    /// Whether the observable showed; null if attempts disagree, if one of them could not decide it, or if none counts.
    pub effect: Option<bool>,
}

impl Row for EnvRow {
    const KIND: SurveyKind = SurveyKind::Env;
    const SURVEY: fn(SurveyDocument<Self>) -> Survey = Survey::Env;

    fn key(&self) -> String {
        self.variable.clone()
    }

    fn standing(&self) -> &RowAttempts {
        &self.standing
    }

    fn has_facts(&self) -> bool {
        self.read_at.is_some() || self.has_effect == Some(false)
    }
}

/// The questions about all variables that come with the program.
///
/// # Errors
/// The list, or a question made from it, has an error.
pub fn items() -> Result<Vec<Item<EnvRow>>, Invalid> {
    let item = |variable: EnvVariable| -> Result<Item<EnvRow>, Invalid> {
        let question = variable.question();
        Ok(Item { question, repeat: None, reduce: Box::new(move |answered| row(&variable, answered)) })
    };
    variables()?.into_iter().map(item).collect()
}

/// Reduces the results about a variable to its row.
pub fn row(variable: &EnvVariable, answered: &SurveyAnswer<'_>) -> EnvRow {
    let mut standing = RowAttempts::of(answered.report);
    let at_exec = effect(AT_EXEC, answered, &mut standing);
    let moment = |moment: &LatchMoment| Moment {
        before: moment.before.clone(),
        does: moment.does.clone(),
        effect: effect(&moment.case(), answered, &mut standing),
    };
    let moments: Vec<Moment> = variable.moments.iter().map(moment).collect();
    let unset = effect(NEVER, answered, &mut standing);
    let has_effect = match (at_exec, unset) {
        // An observable that also shows without the variable proves nothing.
        (Some(at_exec), Some(false)) => Some(at_exec),
        _ => None,
    };
    EnvRow {
        variable: variable.name.clone(),
        value: variable.value.clone(),
        observable: variable.observable.clone(),
        has_effect,
        read_at: read_at(&moments).filter(|_| has_effect == Some(true)),
        moments,
        standing,
    }
}

/// Whether the attempts of a case showed the observable.
///
/// If attempts that could decide it disagree, that is a disagreement. If an attempt could not decide it, the result is
/// unknown, because the other attempts say nothing about this one.
fn effect(case: &str, answered: &SurveyAnswer<'_>, standing: &mut RowAttempts) -> Option<bool> {
    let plan = answered.report.plan.as_ref()?;
    let planned = plan.case(case)?;
    let made = answered.report.cases.iter().find(|made| made.name == case)?;
    let facts = Facts::new(answered.machine, answered.report.libcudart.as_ref(), plan, answered.provenance);
    let counting = made.attempts.iter().filter(|attempt| attempt.judged.invalid.is_empty());
    let shown: Vec<Shows> = counting
        .map(|attempt| shows(&plan.effect, &observe(plan, planned, &attempt.recording, answered.scene), plan, &facts))
        .collect();
    let told = shown.iter().filter_map(|shown| match shown {
        Shows::Yes => Some(true),
        Shows::No(_) => Some(false),
        Shows::Partly(..) | Shows::Unobservable(..) | Shows::Unknown(_) => None,
    });
    let fact = if case == AT_EXEC { "at-exec" } else { case };
    let agreed = standing.agreed(fact, told);
    let is_open = |shown: &Shows| !matches!(shown, Shows::Yes | Shows::No(_));
    agreed.filter(|_| !shown.iter().any(is_open))
}

/// What the step does before which setting the variable still had an effect, if it also had one at all earlier moments
/// and none at the next. `None` if moments contradict this order, or if one that matters is unknown.
fn read_at(moments: &[Moment]) -> Option<String> {
    let is_early = |moment: &&Moment| moment.effect == Some(true);
    let early = moments.iter().take_while(is_early).count();
    let late = moments.get(early..).unwrap_or_default();
    let is_told = late.first().is_none_or(|next| next.effect == Some(false));
    if !is_told || late.iter().any(|later| later.effect == Some(true)) {
        return None;
    }
    let last = early.checked_sub(1).and_then(|last| moments.get(last));
    Some(last.map_or_else(|| EXEC.to_string(), |last| last.does.clone()))
}
