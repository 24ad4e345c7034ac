//! Decides the verdict from the attempts at trap and control.

use crate::plan::Plan;
use crate::text::counts::tally_items;
use crate::verdict::Invalidation;
use crate::verdict::{Kind, Rate, Reason};

use super::Facts;
use super::outcomes::JudgedCase;
use super::shows::{Shows, shows};
use super::strength::{format_percent, separation_chance, upper_bound};

/// A verdict that was not yet compared with the expectation.
pub(super) struct Decision {
    pub(super) kind: Kind,
    pub(super) reason: Option<Reason>,
    pub(super) detail: String,
    /// The share of attempts that show the effect, if the question is probabilistic.
    pub(super) rate: Option<Rate>,
}

fn inconclusive(reason: Reason, detail: String) -> Decision {
    // The harness itself causes these two, whatever the scenario is.
    let ours = matches!(reason, Reason::Protocol | Reason::System);
    let kind = if ours {
        Kind::HarnessError
    } else {
        Kind::Inconclusive
    };
    Decision {
        kind,
        reason: Some(reason),
        detail,
        rate: None,
    }
}

pub(super) fn decide_verdict(plan: &Plan, seen: &[JudgedCase], facts: &Facts) -> Decision {
    if let Some(decision) = too_few(plan, seen).or_else(|| cut_off(plan)) {
        return decision;
    }
    let Some(trap) = find(seen, "trap") else {
        return inconclusive(Reason::Unobservable, "no case is named `trap`".to_string());
    };
    let trap = match effect(plan, trap, facts) {
        Ok(counted) => counted,
        Err((reason, words)) => return inconclusive(reason, format!("trap: {words}")),
    };
    let control = match find(seen, "control")
        .map(|control| effect(plan, control, facts))
        .transpose()
    {
        Ok(counted) => counted,
        Err((reason, words)) => return inconclusive(reason, format!("control: {words}")),
    };
    if let Some(control) = &control {
        if control.shown > 0 {
            let detail = format!(
                "{} and {}",
                trap.words("traps"),
                control.words("controls show the effect")
            );
            return inconclusive(Reason::ControlShowsEffect, detail);
        }
        // The fact that distinguishes control and trap could not be judged in the control.
        if let Some((reason, words)) = &control.hidden {
            return inconclusive(*reason, format!("control: {words}"));
        }
    } else if let Some((reason, words)) = &trap.hidden {
        return inconclusive(*reason, format!("trap: {words}"));
    }
    decide_separated(plan, &trap, control.as_ref())
}

/// Returns the decision if no control shows the effect.
fn decide_separated(plan: &Plan, trap: &EffectCount, control: Option<&EffectCount>) -> Decision {
    let numbers = numbers(trap, control);
    let rate = (plan.nondeterministic && trap.shown > 0).then_some(Rate {
        shown: trap.shown,
        of: trap.of,
    });
    if trap.shown > 0 && trap.shown < trap.of && !plan.nondeterministic {
        return inconclusive(
            Reason::Intermittent,
            format!("{}/{}: {numbers}", trap.shown, trap.of),
        );
    }
    let strength = match control {
        _ if trap.shown == 0 => {
            format!(
                "at 95 % confidence it shows in at most {} of attempts",
                format_percent(upper_bound(trap.of))
            )
        }
        _ if trap.shown < trap.of => {
            let rate = format_percent(trap.shown as f64 / trap.of as f64);
            format!("a rate of {rate}, as the question is about a chance")
        }
        None => "there is no control to compare it with".to_string(),
        Some(control) => {
            let p = format_percent(separation_chance(trap.of, control.of));
            format!("chance alone would split them so cleanly with p = {p}")
        }
    };
    let kind = if trap.shown == 0 {
        Kind::NotReproduced
    } else {
        Kind::Reproduced
    };
    Decision {
        kind,
        reason: None,
        detail: format!("{numbers}; {strength}"),
        rate,
    }
}

fn find<'s, 'p>(seen: &'s [JudgedCase<'p>], name: &str) -> Option<&'s JudgedCase<'p>> {
    seen.iter().find(|seen| seen.case.name == name)
}

/// The number of attempts of a case that show the effect.
struct EffectCount {
    /// Attempts that show every part of the effect that could be judged.
    shown: usize,
    of: usize,
    /// A part of the effect that could not be judged in some attempt, and why.
    hidden: Option<(Reason, String)>,
}

impl EffectCount {
    fn words(&self, noun: &str) -> String {
        format!("{} of {} {noun}", self.shown, self.of)
    }
}

fn numbers(trap: &EffectCount, control: Option<&EffectCount>) -> String {
    let numbers = match control {
        Some(control) => format!(
            "{} and {}",
            trap.words("traps"),
            control.words("controls show the effect")
        ),
        None => trap.words("traps show the effect"),
    };
    match &trap.hidden {
        Some((_, words)) => format!("{numbers}, as far as it could be judged ({words})"),
        None => numbers,
    }
}

/// Counts the attempts of a case that show the effect, or returns the reason why one of them cannot be judged.
///
/// A trap counts if every fact that can be judged holds, because those facts distinguish it from the control. A control
/// does not count in this way.
fn effect(plan: &Plan, seen: &JudgedCase, facts: &Facts) -> Result<EffectCount, (Reason, String)> {
    let mut count = EffectCount {
        shown: 0,
        of: seen.valid.len(),
        hidden: None,
    };
    for shown in &seen.valid {
        match shows(
            &plan.effect,
            &shown.observation,
            shown.peaks_seen,
            plan,
            facts,
        ) {
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

/// Returns the decision if too few attempts of some case count. The reason is the most frequent one.
fn too_few(plan: &Plan, seen: &[JudgedCase]) -> Option<Decision> {
    let repeat = usize::try_from(plan.repeat).unwrap_or(usize::MAX);
    let lacking: Vec<&JudgedCase> = seen
        .iter()
        .filter(|seen| seen.valid.len() < repeat)
        .collect();
    let words: Vec<String> = lacking
        .iter()
        .map(|seen| {
            let made = seen.valid.len() + seen.invalid.len();
            format!(
                "{}: {} of {made} attempts count, {repeat} are needed",
                seen.case.name,
                seen.valid.len()
            )
        })
        .collect();
    if words.is_empty() {
        return None;
    }
    let reasons: Vec<&Invalidation> = lacking
        .iter()
        .flat_map(|seen| &seen.invalid)
        .flatten()
        .collect();
    let times = tally_items(reasons.iter().map(|invalid| invalid.reason));
    // The first of equally frequent reasons; `max_by_key` would return the last.
    let most = times.iter().map(|(_, times)| *times).max().unwrap_or(0);
    let words = words.join("; ");
    Some(
        match reasons
            .iter()
            .find(|invalid| times.contains(&(invalid.reason, most)))
        {
            Some(invalid) => {
                let detail = format!(
                    "{words} ({} {most} times: {})",
                    invalid.reason.name(),
                    invalid.detail
                );
                inconclusive(invalid.reason, detail)
            }
            None => inconclusive(Reason::TooFewAttempts, words),
        },
    )
}

/// Returns the decision if the run ended before it made the planned attempts. A verdict and its probability hold for a
/// number of attempts that was set in advance: a user may interrupt a run because of what it shows.
fn cut_off(plan: &Plan) -> Option<Decision> {
    let planned = plan.planned?;
    if plan.repeat >= planned {
        return None;
    }
    let detail = format!(
        "{} of {planned} planned attempts of each case were made",
        plan.repeat
    );
    Some(inconclusive(Reason::Interrupted, detail))
}
