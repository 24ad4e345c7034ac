//! Host memory that CUDA knows.

use crate::model::context::ContextOwner;

/// The meaning of a host address to CUDA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostKind {
    Pinned,
    Registered,
    /// Managed memory, which no GPU holds until a kernel there uses it; here none ever does.
    Managed,
}

/// An allocation, or a registered range.
#[derive(Clone, Copy, Debug)]
pub struct HostMemory {
    pub bytes: usize,
    pub kind: HostKind,
    pub owner: ContextOwner,
}
