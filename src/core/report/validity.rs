//! What a report is refused for, however it is read: it contradicts itself, or nothing in it supports its answers.

use super::{CaseReport, Report};
use crate::event::{Event, MappedLibrary};
use crate::verdict::Provenance;

/// Whether the parts of a report can all be true.
///
/// # Errors
/// What contradicts what, in words.
pub(super) fn check(report: &Report) -> Result<(), String> {
    let Report { provenance, run, machine, scenarios, .. } = report;
    let is_simulated = |library: &MappedLibrary| library.simulated;
    let mut cases = scenarios.iter().flat_map(|scenario| &scenario.cases);
    let has_simulated_library = machine.libraries.iter().any(is_simulated) || cases.any(maps_simulated);
    if let Some(why) = provenance.contradiction(&run.on, has_simulated_library) {
        return Err(why);
    }
    for scenario in scenarios {
        let (name, verdict) = (&scenario.name, &scenario.verdict);
        if *provenance == Provenance::Measured && verdict.provenance == Provenance::Simulated {
            return Err(format!("it contradicts itself: `provenance` is `measured`, and the verdict of {name} is not"));
        }
        match &scenario.plan {
            // Any number of attempts is enough where none is needed.
            Some(plan) if plan.repeat == 0 => return Err(format!("`plan.repeat` of {name} is 0")),
            None if verdict.kind.is_conclusive() && !run.compact => {
                return Err(format!("{name} has an answer and no `plan`: nothing says what was run"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a process of a case said that it had mapped a library of the simulated machine.
fn maps_simulated(case: &CaseReport) -> bool {
    let events = case.attempts.iter().flat_map(|attempt| &attempt.recording.events);
    let mut libraries = events.flat_map(|said| match &said.event {
        Event::Ready { libraries, .. } | Event::Bye { libraries } => libraries.as_slice(),
        _ => &[],
    });
    libraries.any(|library| library.simulated)
}
