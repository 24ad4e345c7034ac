//! From the attempts of trap and control to a verdict.

use crate::plan::Plan;
use crate::verdict::Invalidation;
use crate::verdict::{Kind, Rate, Reason};

use super::Facts;
use super::outcomes::JudgedCase;
use super::shows::{Shows, shows_polled};
use super::strength::{percent, separation, upper_bound};

/// The verdict without its expectation.
pub(super) struct Decision {
    /// What was found.
    pub(super) kind: Kind,
    /// Why nothing was.
    pub(super) reason: Option<Reason>,
    /// In words, with numbers.
    pub(super) detail: String,
    /// In how many attempts the effect shows, where the question is about a chance.
    pub(super) rate: Option<Rate>,
}

fn inconclusive(reason: Reason, detail: String) -> Decision {
    // These two are the harness's own failures, whatever the scenario.
    let ours = matches!(reason, Reason::Protocol | Reason::System);
    let kind = if ours { Kind::HarnessError } else { Kind::Inconclusive };
    Decision { kind, reason: Some(reason), detail, rate: None }
}

/// What the attempts say.
pub(super) fn decide(plan: &Plan, seen: &[JudgedCase], facts: &Facts) -> Decision {
    if let Some(decision) = too_few(plan, seen) {
        return decision;
    }
    let Some(trap) = find(seen, "trap") else {
        return inconclusive(Reason::Unobservable, "no case is named trap".to_string());
    };
    let trap = match effect(plan, trap, facts) {
        Ok(counted) => counted,
        Err((reason, words)) => return inconclusive(reason, format!("trap: {words}")),
    };
    let control = match find(seen, "control").map(|control| effect(plan, control, facts)).transpose() {
        Ok(counted) => counted,
        Err((reason, words)) => return inconclusive(reason, format!("control: {words}")),
    };
    if let Some(control) = &control {
        if control.shown > 0 {
            let detail = format!("{} and {}", trap.words("traps"), control.words("controls show the effect"));
            return inconclusive(Reason::ControlShowsEffect, detail);
        }
        // What tells control and trap apart is hidden in the control.
        if let Some((reason, words)) = &control.hidden {
            return inconclusive(*reason, format!("control: {words}"));
        }
    } else if let Some((reason, words)) = &trap.hidden {
        return inconclusive(*reason, format!("trap: {words}"));
    }
    separated(plan, &trap, control.as_ref())
}

/// What follows once no control shows the effect.
fn separated(plan: &Plan, trap: &Count, control: Option<&Count>) -> Decision {
    let numbers = numbers(trap, control);
    let rate = (plan.nondeterministic && trap.shown > 0).then_some(Rate { shown: trap.shown, of: trap.of });
    let found = |kind, strength: String| {
        let detail = format!("{numbers}; {strength}");
        Decision { kind, reason: None, detail, rate }
    };
    if trap.shown == 0 {
        let most = percent(upper_bound(trap.of));
        return found(Kind::NotReproduced, format!("at 95 % confidence it shows in at most {most} of attempts"));
    }
    if trap.shown < trap.of {
        if !plan.nondeterministic {
            return inconclusive(Reason::Intermittent, format!("{}/{}: {numbers}", trap.shown, trap.of));
        }
        let rate = percent(trap.shown as f64 / trap.of as f64);
        return found(Kind::Reproduced, format!("a rate of {rate}, as the question is about a chance"));
    }
    let strength = match control {
        None => "there is no control to compare it with".to_string(),
        Some(control) => {
            let p = percent(separation(trap.of, control.of));
            format!("chance alone would split them so cleanly with p = {p}")
        }
    };
    found(Kind::Reproduced, strength)
}

fn find<'s, 'p>(seen: &'s [JudgedCase<'p>], name: &str) -> Option<&'s JudgedCase<'p>> {
    seen.iter().find(|seen| seen.case.name == name)
}

/// How many attempts show the effect.
struct Count {
    /// Those in which everything that could be judged of the effect holds.
    shown: usize,
    of: usize,
    /// What could not be judged in some of them.
    hidden: Option<(Reason, String)>,
}

impl Count {
    fn words(&self, what: &str) -> String {
        format!("{} of {} {what}", self.shown, self.of)
    }
}

fn numbers(trap: &Count, control: Option<&Count>) -> String {
    let numbers = match control {
        Some(control) => format!("{} and {}", trap.words("traps"), control.words("controls show the effect")),
        None => trap.words("traps show the effect"),
    };
    match &trap.hidden {
        Some((_, words)) => format!("{numbers}, as far as it could be judged ({words})"),
        None => numbers,
    }
}

/// Counts the attempts of a case that show the effect, or says why one cannot be counted.
///
/// A trap counts in which every fact that can be judged holds, because those facts are what sets it
/// apart from the control. A control in which they hold is not said to show the effect.
fn effect(plan: &Plan, seen: &JudgedCase, facts: &Facts) -> Result<Count, (Reason, String)> {
    let mut count = Count { shown: 0, of: seen.valid.len(), hidden: None };
    for shown in &seen.valid {
        match shows_polled(&plan.effect, &shown.observation, shown.peaks_seen, plan, facts) {
            Shows::Yes => count.shown += 1,
            Shows::No(_) => {}
            Shows::Partly(reason, words) => {
                count.shown += usize::from(seen.case.name == "trap");
                count.hidden = count.hidden.or(Some((reason, words)));
            }
            Shows::Unobservable(reason, words) => return Err((reason, words)),
            Shows::Unknown(words) => return Err((Reason::Unobservable, words)),
        }
    }
    Ok(count)
}

/// Too few attempts count, in some case. The reason is the one that struck most attempts.
fn too_few(plan: &Plan, seen: &[JudgedCase]) -> Option<Decision> {
    let repeat = usize::try_from(plan.repeat).unwrap_or(usize::MAX);
    let lacking: Vec<&JudgedCase> = seen.iter().filter(|seen| seen.valid.len() < repeat).collect();
    let words: Vec<String> = lacking
        .iter()
        .map(|seen| {
            let made = seen.valid.len() + seen.invalid.len();
            format!("{}: {} of {made} attempts count, {repeat} are needed", seen.case.name, seen.valid.len())
        })
        .collect();
    if words.is_empty() {
        return None;
    }
    let reasons: Vec<&Invalidation> = lacking.iter().flat_map(|seen| &seen.invalid).flatten().collect();
    let times = |invalid: &Invalidation| reasons.iter().filter(|other| other.reason == invalid.reason).count();
    // The first of those that struck most often; `max_by_key` would take the last.
    let most = reasons.iter().map(|invalid| times(invalid)).max().unwrap_or(0);
    let words = words.join("; ");
    Some(match reasons.iter().find(|invalid| times(invalid) == most) {
        Some(invalid) => {
            let detail = format!("{words} ({} {most} times: {})", invalid.reason.name(), invalid.detail);
            inconclusive(invalid.reason, detail)
        }
        None => inconclusive(Reason::TooFewAttempts, words),
    })
}
