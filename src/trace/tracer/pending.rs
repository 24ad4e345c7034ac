//! What is known of a call that has begun and not ended.

use std::collections::BTreeMap;

use crate::Stack;

/// What is known of a call before it is made.
pub(super) struct Pending {
    pub(super) t_ns: u64,
    pub(super) used: Vec<Option<u64>>,
    pub(super) own: Vec<u64>,
    /// How much was attributed to callers on each GPU, and how much graphs had of that (with `--memory`).
    pub(super) attributed: BTreeMap<String, (u64, u64)>,
    /// Whether memory was read around another call of the process meanwhile: both may have taken some.
    pub(super) is_disturbed: bool,
    pub(super) stack: Stack,
}
