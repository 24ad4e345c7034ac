//! What `bisect` found.

use cuda_pitfalls_answers::bisect::{Bisection, FirstBad, NoAnswer, ReleaseOutcome, Trial};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::{escape, lines, units};

/// What was found, for a terminal of this width.
pub fn text(bisection: &Bisection, width: usize) -> String {
    let mut out = String::new();
    for trial in &bisection.trials {
        out.push_str(&lines::sentence("  ", &tried(trial), width));
    }
    if !bisection.trials.is_empty() {
        out.push('\n');
    }
    if let Some(why) = &bisection.no_answer {
        out.push_str(&lines::sentence("", &unanswered(why, bisection), width));
        return out;
    }
    if bisection.together {
        out.push_str(&lines::sentence("", "It takes all of these packages together.", width));
    }
    for found in &bisection.found {
        out.push_str(&lines::sentence("", &first(found), width));
        out.push_str(&stack(bisection, found, width));
    }
    let took = units::duration(bisection.elapsed_ns);
    out.push_str(&format!("{} installed, {took}\n", counted(bisection.trials.len(), "environment")));
    out
}

/// One trial, as it is told while the search goes on.
pub fn tried(trial: &Trial) -> String {
    let versions: Vec<String> = trial.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let outcome = match &trial.outcome {
        ReleaseOutcome::Good => "good".to_string(),
        ReleaseOutcome::Bad { with, says, .. } => format!("bad with {with}: {says}"),
        ReleaseOutcome::Unknown { why } => format!("cannot be said: {why}"),
    };
    format!("{}: {outcome}", versions.join(", "))
}

fn first(found: &FirstBad) -> String {
    let FirstBad { package, last_good, first_bad, between } = found;
    if between.is_empty() {
        return format!("The first bad release is {package} {first_bad}; {last_good} is good.");
    }
    format!(
        "The first bad release is {package} {first_bad} or one of {}, of which nothing can be said; {last_good} is good.",
        between.join(", ")
    )
}

/// The stack of the first bad release, outermost first.
fn stack(bisection: &Bisection, found: &FirstBad, width: usize) -> String {
    let Some(ReleaseOutcome::Bad { way, at, child, .. }) = bisection.shown(found).map(|trial| &trial.outcome) else {
        return String::new();
    };
    let mut all: Vec<String> = child.iter().map(|child| format!("in the child process `{child}`")).collect();
    all.extend(way.iter().cloned());
    if way.is_empty() {
        all.extend(at.clone());
    }
    all.iter().map(|frame| lines::sentence("    ", frame, width)).collect()
}

fn unanswered(why: &NoAnswer, bisection: &Bisection) -> String {
    let forbidden = escape::terminal(&bisection.forbid.join(", "));
    match why {
        NoAnswer::GoodIsBad => {
            format!("No answer: what is forbidden ({forbidden}) happens with the good versions too.")
        }
        NoAnswer::BadIsGood => {
            format!("No answer: what is forbidden ({forbidden}) does not happen with the bad versions.")
        }
        NoAnswer::GoodIsUnknown => "No answer: nothing can be said of the good versions.".to_string(),
        NoAnswer::BadIsUnknown => "No answer: nothing can be said of the bad versions.".to_string(),
        NoAnswer::Interrupted => "Interrupted before there was an answer.".to_string(),
    }
}
