//! The options of a plan, and the reasons why planning fails.

use crate::machine::Runtime;
use crate::scenario::Hazard;
use crate::verdict::Reason;

/// Options from the command line, and facts of the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Attempts of each case; the number of the file if absent.
    pub repeat: Option<u32>,
    /// Runs a single attempt of each case, regardless of `repeat` and the file.
    pub quick: bool,
    /// UUIDs of the GPUs that may be used; all GPUs if absent.
    pub restrict: Option<Vec<String>>,
    /// Hazards that are allowed.
    pub allow: Vec<Hazard>,
    /// The libcudart that workers use.
    pub libcudart: Option<Runtime>,
    /// `true` if workers run as root.
    pub root: bool,
    /// UUIDs of GPUs with other processes; they are used last.
    pub busy: Vec<String>,
}

/// A need that the machine does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The reason, as a closed word.
    pub reason: Reason,
    /// A description of what is missing.
    pub detail: String,
    /// The unmet requirement, short enough for a list of such needs: `2 GPUs`.
    pub lacks: String,
}
