//! Many machines' reports as one document: what they usually show, which machines differ, in what, and by how much.
//!
//! Machines are compared with all others, or with those of one value of a label. What they answer is compared within a
//! group: the same GPU models, driver, libcudart, MIG mode and tenancy. What most members show is usual. A member that
//! shows something else differs; nothing here says that it is wrong. A document has no clock, and of a machine only what
//! its report says.

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
