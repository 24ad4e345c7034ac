//! Checks that the libraries that a worker mapped are the libraries of the run.

use cuda_pitfalls_calls::{self as calls, CallLibrary};
use cuda_pitfalls_core::event::{Event, MappedLibrary};
use cuda_pitfalls_core::experiment::{Experiment, Program};
use cuda_pitfalls_core::recording::Recording;
use cuda_pitfalls_core::verdict::{Provenance, Reason};

use super::reading::add_incident;

/// Moves the mapped libraries from the events into the recording. A library of the wrong provenance or a missing
/// libcuda is an incident. `expected` is `None` until the run knows its own provenance.
pub(super) fn take(
    recording: &mut Recording,
    experiment: &Experiment,
    expected: Option<Provenance>,
) {
    // libcudart opens libcuda itself at its first call. Probes and the driver API need it at once.
    let mut libraries = experiment
        .steps
        .iter()
        .filter_map(|step| calls::find(&step.call))
        .map(|call| call.library);
    let makes_calls = experiment.program == Program::Worker;
    let takes_libcuda = makes_calls
        && (experiment.probes || libraries.any(|library| library == CallLibrary::Driver));
    let mut wrong = Vec::new();
    for said in &mut recording.events {
        let (libraries, is_ready) = match &mut said.event {
            Event::Ready {
                libraries, missing, ..
            } => (libraries, missing.is_empty()),
            Event::Bye { libraries } => (libraries, false),
            _ => continue,
        };
        if takes_libcuda
            && is_ready
            && !libraries
                .iter()
                .any(|library| library.serves(CallLibrary::Driver))
        {
            wrong.push("no libcuda is among the libraries that the worker mapped".to_string());
        }
        for library in &*libraries {
            // A framework brings its own libcudart. The driver that it uses decides the provenance of its results.
            let is_own = !is_ready && !makes_calls && library.name == CallLibrary::Runtime.name();
            if !is_own
                && expected.is_some_and(|expected| {
                    expected != Provenance::from_simulated(library.simulated)
                })
            {
                wrong.push(format!(
                    "the worker mapped {}, which does not belong to the target of this run",
                    library.path
                ));
            }
        }
        MappedLibrary::add_missing(&mut recording.libraries, libraries.drain(..));
    }
    wrong
        .into_iter()
        .for_each(|detail| add_incident(recording, Reason::Protocol, detail));
}
