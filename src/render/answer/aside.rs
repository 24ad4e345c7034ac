//! What is counted and not told: what this machine cannot answer, what was not allowed or not
//! reached, and what the simulated machine does not know.

use super::Answer;
use crate::report::{Report, ScenarioReport};
use crate::verdict::{Kind, Reason};

/// Whether a machine lacks what a question needs, so that it does not apply there.
fn is_need(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NoNvml
            | Reason::NoDriver
            | Reason::NoGpu
            | Reason::NoLibcuda
            | Reason::NoLibcudart
            | Reason::TooFewGpus
            | Reason::DriverVersion
            | Reason::LibcudartVersion
            | Reason::ComputeCapability
            | Reason::NoPeerAccess
            | Reason::NotRoot
            | Reason::MissingSymbol
    )
}

/// A line for each kind of thing that was not asked, each with what it lacked; `never_asked` are
/// those that are not in the report.
pub(super) fn lines(report: &Report, never_asked: usize) -> Vec<String> {
    let aside: Vec<&ScenarioReport> = report.scenarios.iter().filter(|it| Answer::of(it).is_aside()).collect();
    let skipped = |need: bool| -> Vec<&ScenarioReport> {
        let of_kind = |it: &&ScenarioReport| {
            it.verdict.kind == Kind::Skipped && it.verdict.reason.is_some_and(|reason| is_need(reason) == need)
        };
        aside.iter().copied().filter(of_kind).collect()
    };
    let mut lines = Vec::new();
    for (what, of_it) in [("not applicable here", skipped(true)), ("not asked", skipped(false))] {
        if !of_it.is_empty() {
            lines.push(format!("{what}: {} ({})", of_it.len(), lacking(&of_it)));
        }
    }
    let because = |reason: Reason| aside.iter().filter(|it| it.verdict.reason == Some(reason)).count();
    let unknown = because(Reason::NotModelled);
    if unknown > 0 {
        lines.push(format!("not modelled by the simulated machine: {unknown}"));
    }
    let parts = [(never_asked, "not asked"), (because(Reason::Interrupted), "not asked to the end")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !parts.is_empty() {
        let why = if report.run.interrupted.is_some() { "interrupted" } else { "stopped early" };
        lines.push(format!("{why}: {}", parts.join(", ")));
    }
    lines
}

/// `123 need 2 GPUs, 1 needs root`: the commonest first.
fn lacking(skipped: &[&ScenarioReport]) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for one in skipped {
        let what = one.verdict.reason.map_or_else(String::new, |reason| needed(reason, &one.verdict.detail));
        match counts.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count += 1,
            None => counts.push((what, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said =
        |(what, count): &(String, usize)| format!("{count} {} {what}", if *count == 1 { "needs" } else { "need" });
    counts.iter().map(said).collect::<Vec<_>>().join(", ")
}

/// What was needed, in words that follow `needs`. Only numbers and flags are taken from the detail.
fn needed(reason: Reason, detail: &str) -> String {
    let number = || detail.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty() && digits.len() < 6);
    let flags = || {
        let named = detail.split('`').filter(|part| part.starts_with("--allow ") && part.len() < 32);
        named.collect::<Vec<_>>().join(" ")
    };
    match reason {
        Reason::NoNvml => "NVML".to_owned(),
        Reason::NoDriver => "a loaded driver".to_owned(),
        Reason::NoGpu => "a GPU".to_owned(),
        Reason::NoLibcuda => "libcuda".to_owned(),
        Reason::NoLibcudart => "libcudart".to_owned(),
        Reason::TooFewGpus => number().map_or_else(|| "more GPUs".to_owned(), |count| format!("{count} GPUs")),
        Reason::DriverVersion => "another driver".to_owned(),
        Reason::LibcudartVersion => "another libcudart".to_owned(),
        Reason::ComputeCapability => "another GPU architecture".to_owned(),
        Reason::NoPeerAccess => "peer access between GPUs".to_owned(),
        Reason::Restricted => "every GPU, without a mask or --gpus".to_owned(),
        Reason::MissingSymbol => "a call or library that is not here".to_owned(),
        Reason::NotRoot => "root".to_owned(),
        Reason::HazardNotAllowed if !flags().is_empty() => flags(),
        Reason::HazardNotAllowed => "--allow".to_owned(),
        Reason::Busy => "an idle GPU".to_owned(),
        Reason::HostUnsafe => "a host in a safe state".to_owned(),
        other => other.name().replace('_', " "),
    }
}
