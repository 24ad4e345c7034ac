//! Evidence in a report on whether CUDA starts on a machine.

use cuda_pitfalls_core::calibration::Calibration;
use cuda_pitfalls_core::fact::{Fact, Token};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{CompactCase, CompactScenario};
use cuda_pitfalls_core::text::counts::tally_items;
use cuda_pitfalls_core::verdict::{Kind, Reason};

/// Missing parts that keep CUDA from starting on a machine.
const LACKING: [&str; 5] = ["no_nvml", "no_driver", "no_gpu", "no_libcuda", "nvml_error"];

/// Reasons why a question has no answer although CUDA starts: other processes are active, or attempts disagree.
const OF_OTHERS: [Reason; 9] = [
    Reason::NotModelled,
    Reason::Intermittent,
    Reason::ControlShowsEffect,
    Reason::Contaminated,
    Reason::Unsettled,
    Reason::Residue,
    Reason::Interrupted,
    Reason::TooFewAttempts,
    Reason::HostUnsafe,
];

/// Evidence of a question on whether CUDA starts.
#[derive(Clone, Debug, Default)]
pub(super) struct StartEvidence {
    has_answer: bool,
    uses_gpu: bool,
    no_gpu: Option<Reason>,
    failure: Option<String>,
}

impl StartEvidence {
    pub(super) fn new(asked: &CompactScenario) -> StartEvidence {
        StartEvidence {
            has_answer: asked.verdict.kind.is_conclusive(),
            uses_gpu: asked.cases.iter().any(uses_gpu),
            no_gpu: asked.verdict.reason.filter(|reason| reason.is_no_gpu()),
            failure: failed_status(asked),
        }
    }
}

/// Returns the reason why CUDA does not start, or `None` if it does or if there is no evidence.
pub(super) fn why_not(
    machine: &Machine,
    calibrations: &[Calibration],
    asked: &[&StartEvidence],
) -> Option<String> {
    for lacks in &machine.unavailable {
        if LACKING.contains(&lacks.reason.as_str()) {
            let is_described = !lacks.detail.is_empty();
            let why = if is_described {
                &lacks.detail
            } else {
                &lacks.reason
            };
            return Some(why.clone());
        }
    }
    if asked.iter().any(|one| one.has_answer && one.uses_gpu) {
        return None;
    }
    let has_answer = asked.iter().any(|one| one.has_answer);
    if !has_answer && let Some(reason) = asked.iter().find_map(|one| one.no_gpu) {
        return Some(reason.name());
    }
    if machine.gpus.is_empty() {
        return Some("NVML lists no GPU".to_owned());
    }
    let has_context = calibrations
        .iter()
        .any(|found| found.sound || found.context_bytes > 0);
    if has_context || asked.iter().any(|one| one.uses_gpu) {
        return None;
    }
    most_frequent(asked.iter().filter_map(|one| one.failure.clone()))
}

/// Returns `true` if a GPU answered, or if its memory was used.
fn uses_gpu(case: &CompactCase) -> bool {
    for outcome in &case.outcomes {
        let mut used = outcome.used_bytes.values().flatten();
        let mut changes = outcome.facts.iter();
        if used.any(|bytes| *bytes != 0) || changes.any(|change| change.facts.iter().any(shows_gpu))
        {
            return true;
        }
    }
    false
}

/// Returns `true` if it is about a GPU that the process sees.
fn shows_gpu(fact: &Fact) -> bool {
    match fact {
        Fact::Visible(Some(gpus)) | Fact::Contexts(Some(gpus)) => !gpus.is_empty(),
        Fact::Current(Some(gpu)) => gpu != "none",
        Fact::Memory(_, class) => class.is_some(),
        _ => false,
    }
}

/// Returns how a question failed: the status of the first failed call, or that there was no answer.
fn failed_status(asked: &CompactScenario) -> Option<String> {
    let outcomes = asked.cases.iter().flat_map(|case| &case.outcomes);
    for change in outcomes.flat_map(|outcome| &outcome.facts) {
        for fact in &change.facts {
            match fact {
                Fact::Status(Token::Text(name)) => return Some(name.clone()),
                Fact::Status(Token::Int(code)) => return Some(format!("status {code}")),
                _ => {}
            }
        }
    }
    if !matches!(asked.verdict.kind, Kind::Inconclusive | Kind::HarnessError) {
        return None;
    }
    match asked.verdict.reason {
        None => Some(asked.verdict.kind.name().to_owned()),
        Some(reason) if OF_OTHERS.contains(&reason) => None,
        Some(reason) => Some(reason.name()),
    }
}

fn most_frequent(words: impl Iterator<Item = String>) -> Option<String> {
    let mut counts = tally_items(words);
    counts.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
    counts.into_iter().next().map(|(word, _)| word)
}
