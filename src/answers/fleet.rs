//! Many machines' reports as one document: what they usually show, which machines differ, in what, and by how much.
//!
//! Machines are compared within a group: the same GPU model, driver, libcudart, MIG mode and tenancy. What
//! most members of a group show is its usual outcome. A member that shows something else differs; nothing
//! here says that it is wrong. A document has no clock, and of a machine only what its report says.

mod answer;
mod cause;
mod change;
mod coverage;
mod diff;
mod digest;
mod document;
mod driver;
mod expect;
mod gather;
mod label;
mod merge;
mod names;
mod pool;
mod rank;
mod rows;
mod spread;
mod usual;
pub use cause::causes;
pub use change::{CaseChange, FactDiffers};
pub use coverage::AnswerCoverage;
pub use diff::{FleetDiff, FleetSide, MachineChange, Size, UsualChanged, diff};
pub use digest::Rejection;
pub use document::{
    Alike, Bucket, ByteSpread, Difference, ExpectedMachines, Fleet, FleetMachine, Group, GroupOutcome, Input, Key,
    LabelShare, MOST_EXAMPLES, NotMerged, Question, SCHEMA, SharedCause, Usual, What,
};
pub use expect::names;
pub use gather::gather;
pub use label::labels;
pub use merge::{Words, merge};
pub use pool::{DocumentPool, Rule};
pub use rank::Rank;
