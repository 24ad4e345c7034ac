//! Litmus tests for CUDA start-up.
//!
//! The documentation does not say what `CUDA_VISIBLE_DEVICES` does after a device count, or which
//! call puts 500 MiB on GPU 0. Here a scenario file lists calls in order; a fresh process
//! makes exactly those calls; NVML is read at every step from outside; a JSON report says what
//! happened.
//!
//! ```text
//! scenario ┐                                             ┌ worker: Step -> call -> Event ┐
//! survey   ├─> Plan ──> Experiment ──> supervisor ───────┤                               ├──> Recording
//! calibrate┘                                             └ sampler: NVML -> readings ────┘        │
//!                                                                                                 ▼
//!          renderings <── report: Recording beside Judged <── judge <── Observation <── observe ──┘
//! ```
//!
//! # As a library
//!
//! | to | use |
//! | --- | --- |
//! | know which GPUs a value of `CUDA_VISIBLE_DEVICES` makes visible | [`mask::parse`] |
//! | read a report | [`report::read`] |
//! | compute its verdicts again from what was recorded, and the exit code of the run | [`judge::rejudge`], [`exit::Exit::of_report`] |
//! | show it in another form | [`render::render`] |
//!
//! None of these loads CUDA or NVML, and none needs a GPU.
//!
//! ```
//! use cuda_pitfalls::mask::{InitStatus, parse};
//!
//! let gpus = ["GPU-aa00beef-0000-4000-8000-000000000000", "GPU-ab00beef-0000-4000-8000-000000000000"].map(String::from);
//! // The list ends, without an error, at the first entry that names no GPU.
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
//! assert_eq!(Exit::of_report(&report), Exit::Ok);
//! # Ok(())
//! # }
//! ```
//!
//! The other modules are public for the program, its tests and its documents. docs.rs leaves them out, and
//! they may change in any release. docs/library.md says more; docs/architecture.md has the map of modules, from
//! the bottom up.

#![cfg(target_os = "linux")]

// The question.
#[cfg_attr(docsrs, doc(hidden))]
pub mod catalogue;
#[cfg_attr(docsrs, doc(hidden))]
pub mod fact;
pub mod fleet;
pub mod mask;
#[cfg_attr(docsrs, doc(hidden))]
pub mod scenario;
#[cfg_attr(docsrs, doc(hidden))]
pub mod source;

// The machine and the plan.
pub mod machine;
#[cfg_attr(docsrs, doc(hidden))]
pub mod plan;

// The experiment: three processes of this one binary.
#[cfg_attr(docsrs, doc(hidden))]
pub mod calibration;
#[cfg_attr(docsrs, doc(hidden))]
pub mod channel;
#[cfg_attr(docsrs, doc(hidden))]
pub mod clock;
#[cfg_attr(docsrs, doc(hidden))]
pub mod event;
#[cfg_attr(docsrs, doc(hidden))]
pub mod experiment;
#[cfg_attr(docsrs, doc(hidden))]
pub mod hook;
#[cfg_attr(docsrs, doc(hidden))]
pub mod libraries;
#[cfg_attr(docsrs, doc(hidden))]
pub mod mapped;
#[cfg_attr(docsrs, doc(hidden))]
pub mod python;
pub mod recording;
#[cfg_attr(docsrs, doc(hidden))]
pub mod sample;
#[cfg_attr(docsrs, doc(hidden))]
pub mod sampler;
#[cfg_attr(docsrs, doc(hidden))]
pub mod simulated;
#[cfg_attr(docsrs, doc(hidden))]
pub mod supervisor;
#[cfg_attr(docsrs, doc(hidden))]
pub mod worker;

// A user's own program under the instrument.
#[cfg_attr(docsrs, doc(hidden))]
pub mod diagnosis;
#[cfg_attr(docsrs, doc(hidden))]
pub mod policy;
#[cfg_attr(docsrs, doc(hidden))]
pub mod trace;
#[cfg_attr(docsrs, doc(hidden))]
pub mod tracer;

// The answer.
#[cfg_attr(docsrs, doc(hidden))]
pub mod claim;
#[cfg_attr(docsrs, doc(hidden))]
pub mod compare;
#[cfg_attr(docsrs, doc(hidden))]
pub mod evidence;
pub mod exit;
#[cfg_attr(docsrs, doc(hidden))]
pub mod explain;
#[cfg_attr(docsrs, doc(hidden))]
pub mod export;
pub mod judge;
pub mod observation;
#[cfg_attr(docsrs, doc(hidden))]
pub mod observe;
#[cfg_attr(docsrs, doc(hidden))]
pub mod preview;
pub mod render;
pub mod report;
#[cfg_attr(docsrs, doc(hidden))]
pub mod summary;
#[cfg_attr(docsrs, doc(hidden))]
pub mod survey;
pub mod verdict;

// The program.
mod archive;
#[cfg_attr(docsrs, doc(hidden))]
pub mod cli;
mod folder;
mod forwarding;
mod input;
mod output;
mod random;
#[cfg_attr(docsrs, doc(hidden))]
pub mod run;
mod terminal;
mod traced;

// At the bottom of all.
#[cfg_attr(docsrs, doc(hidden))]
pub mod text;
