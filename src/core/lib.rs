//! Values and pure rules: scenarios, plans, recordings, observations, verdicts and reports.
//!
//! Nothing here starts a process. Only `clock` reads a clock, and only `input`, `output`, `archive` and the store of
//! reports use files.

#![cfg(target_os = "linux")]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests create their own files")
)]

// Used by all others.
#[cfg_attr(
    not(test),
    expect(
        clippy::disallowed_methods,
        reason = "it reads the files that it is given"
    )
)]
pub mod archive;
#[cfg_attr(
    not(test),
    expect(clippy::disallowed_methods, reason = "it reads the clocks")
)]
pub mod clock;
pub mod defaults;
#[cfg_attr(
    not(test),
    expect(
        clippy::disallowed_methods,
        reason = "it reads the files that it is given"
    )
)]
pub mod input;
pub mod output;
pub mod owner;
pub mod random;
pub mod text;

// The protocol between the processes of an attempt.
pub mod channel;
pub mod event;
pub mod examination;
pub mod experiment;
pub mod holding;
pub mod python;
pub mod recording;
pub mod refusal;
pub mod sample;
pub mod verdict;

// The question.
pub mod catalogue;
pub mod fact;
pub mod mask;
pub mod scenario;
pub mod source;

// The machine and the plan.
pub mod calibration;
pub mod machine;
pub mod plan;

// The answer.
pub mod judge;
pub mod observation;
pub mod observe;
pub mod report;
