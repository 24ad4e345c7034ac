//! The libraries that a worker mapped: are they those that the run is about?

use cuda_pitfalls_calls::{self as calls, Library};

use crate::event::{Event, MappedLibrary};
use crate::plan::CasePlan;
use crate::report::{Attempt, Doubt};
use crate::run::provenance;
use crate::run::stage::Stage;
use crate::verdict::Reason;

/// Moves the libraries that a worker mapped to the machine's part, where they are told once, and
/// refuses an attempt that was not made on what the run is about, or of which that is unknown.
pub(in crate::run) fn keep(stage: &mut Stage, case: &CasePlan, attempt: &mut Attempt) {
    // A libcudart opens libcuda itself, at the first call; the probes and the driver API need it at once.
    let of_driver = |call: &str| calls::find(call).is_some_and(|call| call.library == Library::Driver);
    let takes_libcuda = case.probes || case.steps.iter().any(|step| of_driver(&step.call));
    for said in &mut attempt.events {
        let Event::Ready { libraries, missing, .. } = &mut said.event else { continue };
        let is_libcuda = |library: &MappedLibrary| library.simulated || library.name == Library::Driver.name();
        if takes_libcuda && missing.is_empty() && !libraries.iter().any(is_libcuda) {
            let detail = "no libcuda is among the libraries that the worker mapped".to_string();
            attempt.invalid.push(Doubt { reason: Reason::Protocol, detail });
        }
        for library in libraries.drain(..) {
            if provenance(library.simulated) != stage.provenance {
                let detail = format!("the worker mapped {}, which is not what this run is on", library.path);
                attempt.invalid.push(Doubt { reason: Reason::Protocol, detail });
            }
            if !stage.machine.libraries.contains(&library) {
                stage.machine.libraries.push(library);
            }
        }
    }
}
