//! Litmus tests for CUDA start-up.
//!
//! The documentation does not say what `CUDA_VISIBLE_DEVICES` does after a device count, or which
//! call puts 500 MiB on GPU 0. Here a scenario file lists calls in order; a fresh process
//! makes exactly those calls; NVML is read at every step from outside; a JSON report describes
//! what happened.
//!
//! ```text
//! scenario ┐                                             ┌ worker: Step -> call -> Event ┐
//! survey   ├─> Plan ──> Experiment ──> supervisor ───────┤                               ├──> Recording
//! calibrate┘                                             └ sampler: NVML -> readings ────┘        │
//!                                                                                                 ▼
//!          renderings <── report: Recording with Judged <──── judge <── Observation <── observe ──┘
//! ```
//!
//! # As a library
//!
//! | to | use |
//! | --- | --- |
//! | know which GPUs a value of `CUDA_VISIBLE_DEVICES` makes visible | [`mask::parse`] |
//! | read a report | [`report::read`] |
//! | compute its verdicts again from what was recorded, and the exit code of the run | [`judge::rejudge`], [`exit::Exit::from_report`] |
//! | show it in another form | [`render::render`] |
//!
//! None of these loads CUDA or NVML, and none needs a GPU.
//!
//! ```
//! use cuda_pitfalls::mask::{InitStatus, parse};
//!
//! let gpus = ["GPU-aa00beef-0000-4000-8000-000000000000", "GPU-ab00beef-0000-4000-8000-000000000000"].map(String::from);
//! // The list ends, without an error, at the first entry that is not a valid GPU.
//! assert_eq!(parse(Some("1,7,0"), None, &gpus).gpus, [1]);
//! // Naming a GPU twice hides all.
//! assert_eq!(parse(Some("0,0"), None, &gpus).status, InitStatus::InvalidDevice);
//! ```
//!
//! ```
//! # fn main() -> Result<(), cuda_pitfalls::report::StoreError> {
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/reports/h200-x2");
//! use cuda_pitfalls::{exit::Exit, judge, report};
//!
//! let mut report = report::read(folder.as_ref())?;
//! judge::rejudge(&mut report);
//! for scenario in &report.scenarios {
//!     println!("{}: {}", scenario.name, scenario.verdict.kind.name());
//! }
//! assert_eq!(Exit::from_report(&report.view()), Exit::Ok);
//! # Ok(())
//! # }
//! ```
//!
//! The other modules are public for the tests and the documents of the program. docs.rs leaves them out, and they may
//! change in any release. docs/library.md has the details; docs/architecture.md has the map of the crates, from the
//! bottom up.

#![cfg(target_os = "linux")]

// The parts that may be used as a library.
pub use cuda_pitfalls_answers::{exit, fleet};
pub use cuda_pitfalls_core::{judge, machine, mask, observation, recording, report, verdict};
pub use cuda_pitfalls_render as render;

// The others, for the program's tests and documents.
#[doc(hidden)]
pub use cuda_pitfalls_answers::doctor::diagnose_start;
pub use cuda_pitfalls_answers::who::list_holders;
#[doc(hidden)]
pub use cuda_pitfalls_answers::{
    bisect, compare, explain, export, known, preview, published, releases, survey, visibility,
};
#[doc(hidden)]
pub use cuda_pitfalls_core::{
    calibration, catalogue, channel, clock, defaults, event, examination, experiment, fact, input,
    observe, plan, python, random, sample, scenario, source, text,
};
#[doc(hidden)]
pub use cuda_pitfalls_instrument::{
    hook, libraries, mapped, sampler, simulated, supervisor, worker,
};
#[doc(hidden)]
pub use cuda_pitfalls_trace::{self as trace, diagnosis, policy, tracer};

mod argument;
#[doc(hidden)]
pub mod cli;
mod doctor;
mod gpus;
mod host;
mod run;
#[doc(hidden)]
pub mod schemas;
mod terminal;
mod who;

/// The commit that the program was built from; `None` if it was not built from a checkout.
const COMMIT: Option<&str> = option_env!("CUDA_PITFALLS_COMMIT");
