//! What a plan is made from beside a scenario and a machine, and why there can be none.

use crate::machine::Runtime;
use crate::scenario::Hazard;
use crate::verdict::Reason;

/// What the command line and the moment decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Attempts of each case, instead of what the file says.
    pub repeat: Option<u32>,
    /// One attempt of each case, whatever else is said.
    pub quick: bool,
    /// UUIDs of the GPUs that may be used; all of them if absent.
    pub restrict: Option<Vec<String>>,
    /// Hazards that may be taken.
    pub allow: Vec<Hazard>,
    /// The libcudart that workers are pointed at.
    pub libcudart: Option<Runtime>,
    /// Whether workers run as root.
    pub root: bool,
    /// UUIDs of GPUs on which other processes are; they are taken last.
    pub busy: Vec<String>,
}

/// A need that the machine does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// A word for it.
    pub reason: Reason,
    /// What is missing, in words.
    pub detail: String,
    /// What would have to be there, in as few words as a list of such needs has room for: `2 GPUs`.
    pub lacks: String,
}
