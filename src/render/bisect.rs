//! The result of `bisect`.

use crate::block::Block;
use crate::writer::terminal::{Screen, write};
use cuda_pitfalls_answers::bisect::{Bisection, FirstBad, NoAnswer, ReleaseOutcome, Trial};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;

/// Returns the result for a terminal of this width.
pub fn text(bisection: &Bisection, screen: impl Into<Screen>) -> String {
    let mut blocks = vec![
        Block::list(bisection.trials.iter().map(trial_line)),
        Block::Gap,
    ];
    if let Some(why) = &bisection.no_answer {
        blocks.push(Block::heading(2, no_answer_sentence(why, bisection)));
        return write(&blocks, screen);
    }
    if bisection.together {
        blocks.push(Block::paragraph(
            "Only all of these packages together cause it.",
        ));
    }
    for found in &bisection.found {
        blocks.extend([
            Block::heading(2, first(found)),
            Block::list(stack(bisection, found)),
        ]);
    }
    let took = units::format_duration(bisection.elapsed_ns);
    blocks.push(Block::paragraph(format!(
        "{} installed, {took}",
        counted(bisection.trials.len(), "environment")
    )));
    write(&blocks, screen)
}

/// Returns the line that is printed for a trial during the search.
pub fn trial_line(trial: &Trial) -> String {
    let versions: Vec<String> = trial
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let outcome = match &trial.outcome {
        ReleaseOutcome::Good => "good".to_string(),
        ReleaseOutcome::Bad { with, says, .. } => format!("bad with {with}: {says}"),
        ReleaseOutcome::Unknown { why } => format!("not determined: {why}"),
    };
    format!("{}: {outcome}", versions.join(", "))
}

fn first(found: &FirstBad) -> String {
    let FirstBad {
        package,
        last_good,
        first_bad,
        between,
    } = found;
    if between.is_empty() {
        return format!("First bad release: {package} {first_bad}. Last good: {last_good}.");
    }
    format!(
        "First bad release: {package} {first_bad}, or one of {} that could not be tested. Last good: {last_good}.",
        between.join(", ")
    )
}

/// Returns the stack of the first bad release, outermost first.
fn stack(bisection: &Bisection, found: &FirstBad) -> Vec<String> {
    let Some(ReleaseOutcome::Bad { way, at, child, .. }) =
        bisection.shown(found).map(|trial| &trial.outcome)
    else {
        return Vec::new();
    };
    let frames = if way.is_empty() { at.as_slice() } else { way };
    child
        .iter()
        .map(|child| format!("in the child process `{child}`"))
        .chain(frames.iter().cloned())
        .collect()
}

fn no_answer_sentence(why: &NoAnswer, bisection: &Bisection) -> String {
    let forbidden = bisection.forbid.join(", ");
    match why {
        NoAnswer::GoodIsBad => {
            format!("--good is wrong: {forbidden} also happens with the good versions.")
        }
        NoAnswer::BadIsGood => {
            format!("--bad is wrong: {forbidden} does not happen with the bad versions.")
        }
        NoAnswer::GoodIsUnknown => "No result: the good versions could not be tested.".to_string(),
        NoAnswer::BadIsUnknown => "No result: the bad versions could not be tested.".to_string(),
        NoAnswer::Interrupted => "Interrupted before the release was found.".to_string(),
    }
}
