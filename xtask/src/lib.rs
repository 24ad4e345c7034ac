//! Tasks for the repository that are not part of the program: they generate the committed documents from scenarios, the
//! tables of calls and the committed reports.

#![forbid(unsafe_code)]

pub mod diagnoses;
pub mod documents;
pub mod errors;
pub mod evidence;
pub mod explain;
#[cfg(test)]
mod fixture;
pub mod fresh;
pub mod known;
#[path = "../../tests/common/evidence.rs"]
mod listed;
pub mod page;
pub mod published;
pub mod release;
pub mod steps;
mod table;
pub mod tables;
pub mod wanted;

/// Reason why a task failed, such as a scenario that is not valid, or a file that cannot be read or written.
pub type TaskError = Box<dyn std::error::Error>;
