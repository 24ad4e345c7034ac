//! Readers: everything that is derived from scenarios, reports and traces except verdicts. Only `fleet::gather` reads
//! files.

#![cfg(target_os = "linux")]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests create their own files")
)]

pub mod bisect;
pub mod compare;
mod difference;
pub mod doctor;
pub mod exit;
pub mod explain;
pub mod export;
pub mod fleet;
pub mod imported;
pub mod known;
pub mod preview;
pub mod published;
pub mod refused;
pub mod releases;
pub mod survey;
pub mod visibility;
pub mod who;
