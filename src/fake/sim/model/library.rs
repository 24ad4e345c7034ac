//! A library: a module that belongs to no context, and is loaded into several.

use crate::model::ptx::PtxImage;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A library.
pub struct Library {
    pub image: Arc<PtxImage>,
    /// The modules of the library, by the handle and the generation of the context that each one is loaded into.
    pub modules: BTreeMap<(u64, u32), u64>,
}

/// A kernel of a library.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub library: u64,
    pub name: String,
}
