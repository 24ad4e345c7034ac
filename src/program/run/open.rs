//! Verdicts of questions without an answer, and reasons why a host must not be used further.

use cuda_pitfalls_core::report::ScenarioReport;
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_core::verdict::{Kind, Reason, Verdict};
use cuda_pitfalls_instrument::supervisor::SupervisorError;

pub(super) fn open(provenance: Provenance, detail: String) -> Verdict {
    nothing(provenance, Kind::Inconclusive, Reason::Interrupted, detail)
}

pub(super) fn nothing(
    provenance: Provenance,
    kind: Kind,
    reason: Reason,
    detail: String,
) -> Verdict {
    Verdict {
        kind,
        reason: Some(reason),
        detail,
        provenance,
        ..Verdict::default()
    }
}

/// The verdict of a scenario that could not be run at all.
pub(super) fn trouble_verdict(provenance: Provenance, trouble: &SupervisorError) -> Verdict {
    let detail = trouble.to_string();
    match trouble {
        // The simulated machine exports exactly what it models, so a missing symbol is not modelled.
        SupervisorError::Missing(_) if provenance == Provenance::Simulated => {
            nothing(provenance, Kind::Inconclusive, Reason::NotModelled, detail)
        }
        SupervisorError::Missing(_) => {
            nothing(provenance, Kind::Skipped, Reason::MissingSymbol, detail)
        }
        SupervisorError::Sampler(_) => {
            nothing(provenance, Kind::Inconclusive, Reason::SamplerLost, detail)
        }
        SupervisorError::Protocol(_) => {
            nothing(provenance, Kind::HarnessError, Reason::Protocol, detail)
        }
        SupervisorError::System(_) | SupervisorError::Unwatched(_) | SupervisorError::Stuck(_) => {
            nothing(provenance, Kind::HarnessError, Reason::System, detail)
        }
        SupervisorError::Unkillable(_) => {
            nothing(provenance, Kind::Inconclusive, Reason::Unkillable, detail)
        }
    }
}

/// NVML's errors for a GPU that cannot be used until it is reset.
const LOST: [&str; 2] = ["NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED"];

/// Why the host must not be used further: a worker of this scenario could not be killed, or NVML reports a lost GPU.
pub(super) fn host_unsafe(done: &ScenarioReport) -> Option<String> {
    if done.verdict.reason == Some(Reason::Unkillable) {
        return Some(format!("{}: {}", done.name, done.verdict.detail));
    }
    let mut attempts = done.cases.iter().flat_map(|case| &case.attempts);
    attempts.find_map(|attempt| {
        if attempt.recording.exit.unkillable {
            return Some(format!(
                "process {} of {} could not be killed",
                attempt.recording.pid, done.name
            ));
        }
        let mut errors = attempt
            .recording
            .snapshots
            .iter()
            .flat_map(|snapshot| &snapshot.snapshot.gpus)
            .flat_map(|gpu| &gpu.errors);
        let lost = errors.find(|error| LOST.iter().any(|lost| error.ends_with(lost)))?;
        Some(format!("a GPU was lost during {}: {lost}", done.name))
    })
}
