//! Reasons to refuse a report, whole or compact: it contradicts itself, or nothing in it supports its answers.

use std::collections::BTreeSet;

use super::{CaseReport, Report, Run};
use crate::event::{Event, MappedLibrary};
use crate::machine::Machine;
use crate::verdict::Provenance;

/// A contradiction in a report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// Its provenance contradicts its machine; see [`Provenance::contradiction`].
    #[error("{0}")]
    Origin(String),
    /// This scenario's verdict has another provenance than the report.
    #[error("it contradicts itself: `provenance` is `measured`, and the verdict of {0} is not")]
    Verdict(String),
    /// This scenario's plan requires no attempts, so that any number of them would do.
    #[error("`plan.repeat` of {0} is 0")]
    NoAttempts(String),
    /// This scenario has an answer, but no plan.
    #[error("{0} has an answer and no `plan`: nothing says what was run")]
    NoPlan(String),
    /// This scenario has two cases of one name: all that reads them would see the first alone.
    #[error("two cases of {0} are called `{1}`")]
    TwoCases(String, String),
}

/// Checks that each case of a scenario has a name of its own.
pub(super) fn check_cases<'n>(scenario: &str, cases: impl Iterator<Item = &'n str>) -> Result<(), Contradiction> {
    let mut known = BTreeSet::new();
    match cases.into_iter().find(|name| !known.insert(*name)) {
        Some(twice) => Err(Contradiction::TwoCases(scenario.to_owned(), twice.to_owned())),
        None => Ok(()),
    }
}

/// Checks that the provenance of a report fits its run and its machine.
pub(super) fn check_origin(provenance: Provenance, run: &Run, machine: &Machine) -> Result<(), Contradiction> {
    origin(provenance, run, machine.libraries.iter().any(|library| library.simulated))
}

fn origin(provenance: Provenance, run: &Run, has_simulated_library: bool) -> Result<(), Contradiction> {
    provenance.contradiction(&run.on, has_simulated_library).map_or(Ok(()), |why| Err(Contradiction::Origin(why)))
}

/// Checks that the parts of a report do not contradict each other.
pub(super) fn check(report: &Report) -> Result<(), Contradiction> {
    let Report { provenance, run, machine, scenarios, .. } = report;
    check_origin(*provenance, run, machine)?;
    origin(*provenance, run, scenarios.iter().flat_map(|scenario| &scenario.cases).any(maps_simulated))?;
    for scenario in scenarios {
        let (name, verdict) = (&scenario.name, &scenario.verdict);
        check_cases(name, scenario.cases.iter().map(|case| case.name.as_str()))?;
        if *provenance == Provenance::Measured && verdict.provenance == Provenance::Simulated {
            return Err(Contradiction::Verdict(name.clone()));
        }
        match &scenario.plan {
            Some(plan) if plan.repeat == 0 => return Err(Contradiction::NoAttempts(name.clone())),
            None if verdict.kind.is_conclusive() => return Err(Contradiction::NoPlan(name.clone())),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a process of a case reported that it had mapped a library of the simulated machine.
fn maps_simulated(case: &CaseReport) -> bool {
    let events = case.attempts.iter().flat_map(|attempt| &attempt.recording.events);
    let mut libraries = events.flat_map(|said| match &said.event {
        Event::Ready { libraries, .. } | Event::Bye { libraries } => libraries.as_slice(),
        _ => &[],
    });
    libraries.any(|library: &MappedLibrary| library.simulated)
}
