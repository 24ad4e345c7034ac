//! The state of a call between its start and its end.

use std::collections::BTreeMap;

use crate::Stack;

/// The state before a call.
pub(super) struct Pending {
    pub(super) t_ns: u64,
    pub(super) used: Vec<Option<u64>>,
    pub(super) own: Vec<u64>,
    /// The memory attributed to callers on each GPU, and the part reserved by graphs (with `--memory`).
    pub(super) attributed: BTreeMap<String, (u64, u64)>,
    /// `true` if memory was read around another call of the process during this one: both may have allocated some.
    pub(super) is_disturbed: bool,
    pub(super) stack: Stack,
}
