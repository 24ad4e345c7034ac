//! Reports of many machines as one document: their usual results, which machines differ, in what, and by how much.
//!
//! Machines are compared with all others, or with those that have the same value of a label. Their answers are compared
//! within a group: the same GPU models, driver, libcudart, MIG mode and tenancy. The result of most members is the
//! usual one. A member with another result differs; that does not mean that it is wrong. A document does not depend on
//! a clock, and takes facts about a machine only from its reports.

mod answer;
mod change;
mod coverage;
mod diff;
mod digest;
mod document;
mod expect;
mod facts;
mod gather;
mod merge;
mod names;
mod outliers;
mod pool;
mod rank;
mod rows;
mod spread;
mod starts;
mod usual;
pub use change::{CaseChange, FactDiffers};
pub use coverage::AnswerCoverage;
pub use diff::{FleetDiff, FleetSide, MachineChange, Size, UsualChanged, diff};
pub use digest::Rejection;
pub use document::{
    Bucket, ByteSpread, Difference, ExpectedMachines, Fleet, FleetMachine, Group, GroupOutcome,
    Input, Key, MOST_EXAMPLES, NotMerged, Outliers, Question, SCHEMA, Usual, What,
};
pub use expect::names;
pub use gather::gather;
pub use merge::{Words, merge};
pub use outliers::outliers;
pub use pool::{DocumentPool, Rule};
pub use rank::Rank;
