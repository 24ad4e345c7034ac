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
//! docs/architecture.md has the map of modules, from the bottom up.

#![cfg(target_os = "linux")]

// The question.
pub mod catalogue;
pub mod fact;
pub mod mask;
pub mod scenario;
pub mod source;

// The machine and the plan.
pub mod machine;
pub mod plan;

// The experiment: three processes of this one binary.
pub mod calibration;
pub mod channel;
pub mod clock;
pub mod event;
pub mod experiment;
pub mod hook;
pub mod libraries;
pub mod mapped;
pub mod python;
pub mod recording;
pub mod sample;
pub mod sampler;
pub mod simulated;
pub mod supervisor;
pub mod worker;

// A user's own program under the instrument.
pub mod diagnosis;
pub mod policy;
pub mod trace;
pub mod tracer;

// The answer.
pub mod claim;
pub mod compare;
pub mod exit;
pub mod judge;
pub mod observation;
pub mod observe;
pub mod preview;
pub mod render;
pub mod report;
pub mod survey;
pub mod verdict;

// The program.
pub mod cli;
mod folder;
mod forwarding;
mod input;
mod output;
mod random;
pub mod run;
mod terminal;
mod traced;

// At the bottom of all.
pub mod text;
