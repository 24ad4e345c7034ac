//! `survey env`: when each environment variable is read.
//!
//! The same calls are made again and again, and each time the variable is set at another moment: in
//! the environment at exec, right before one step or another, or never. An observable says whether
//! it took effect. The last moment at which it still did is where the driver reads it.

mod variable;

#[cfg(test)]
mod tests;

pub use variable::{EnvVariable, LatchMoment, left_out, variables};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::variable::{AT_EXEC, NEVER};
use super::document::Row;
use super::row::RowAttempts;
use super::{Item, SurveyAnswer, SurveyKind};
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::judge::{Facts, Shows, shows};
use cuda_pitfalls_core::observe::observe;

/// Where a variable is read that has an effect at exec and none when it is set before the first call
/// of the process: it was read while the library was loaded, or it is not read from the process's
/// own copy of the environment.
pub const EXEC: &str = "exec or library load";

/// One environment variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnvRow {
    /// The variable.
    pub variable: String,
    /// The value that was set.
    pub value: String,
    /// What proves that it took effect, in a sentence.
    pub observable: String,
    /// Whether the observable shows when the variable is set at exec; null where that was not told,
    /// and where it shows when the variable is unset too.
    pub has_effect: Option<bool>,
    /// What latches it: the call after which setting it is too late, in words such as `cuInit` or
    /// `first context`; `each use` where it is never too late; null where it was not told.
    pub latched_at: Option<String>,
    /// What setting it at each moment did, from the earliest on.
    pub moments: Vec<Moment>,
    /// How the attempts went.
    #[serde(flatten)]
    pub standing: RowAttempts,
}

/// Setting the variable right before one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// The label of the step before which it was set.
    pub before: String,
    /// What that step does, as `latched_at` has it.
    pub does: String,
    /// Whether the observable showed; null where attempts disagree, where one of them could not
    /// tell, or where none counts.
    pub effect: Option<bool>,
}

impl Row for EnvRow {
    const KIND: SurveyKind = SurveyKind::Env;

    fn key(&self) -> String {
        self.variable.clone()
    }

    fn standing(&self) -> &RowAttempts {
        &self.standing
    }

    fn has_facts(&self) -> bool {
        self.latched_at.is_some() || self.has_effect == Some(false)
    }
}

/// Every variable that comes with the program, as a question.
///
/// # Errors
/// What is wrong with the list, or with a question that was made of it.
pub fn items() -> Result<Vec<Item<EnvRow>>, Invalid> {
    let item = |variable: EnvVariable| -> Result<Item<EnvRow>, Invalid> {
        let question = variable.question();
        Ok(Item { question, repeat: None, reduce: Box::new(move |answered| row(&variable, answered)) })
    };
    variables()?.into_iter().map(item).collect()
}

/// Reduces what was asked about a variable to its row.
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
        // What shows without the variable too proves nothing about it.
        (Some(at_exec), Some(false)) => Some(at_exec),
        _ => None,
    };
    EnvRow {
        variable: variable.name.clone(),
        value: variable.value.clone(),
        observable: variable.observable.clone(),
        has_effect,
        latched_at: latched_at(&moments).filter(|_| has_effect == Some(true)),
        moments,
        standing,
    }
}

/// Whether the attempts of a case showed the observable.
///
/// Those that could tell and disagree make a disagreement. One that could not tell makes none, but
/// leaves it open: what one attempt did not reach, the others do not answer for it.
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

/// What the last moment does at which setting the variable still took effect, if every earlier one
/// took effect and the next did not. Moments that contradict this order, or that could not be told
/// where it matters, make no answer.
fn latched_at(moments: &[Moment]) -> Option<String> {
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
