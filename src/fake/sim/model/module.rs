//! A module of PTX text that is loaded into a context, and its kernels.

use crate::model::context::ContextOwner;
use crate::model::ptx::PtxImage;
use crate::model::status::{NOT_FOUND, Outcome};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A loaded module.
pub struct Module {
    pub owner: ContextOwner,
    pub image: Arc<PtxImage>,
    /// The addresses of its variables.
    pub variables: BTreeMap<String, u64>,
}

/// A kernel of a module.
pub struct Function {
    pub owner: ContextOwner,
    pub module: u64,
    pub name: String,
}

impl Module {
    /// Address and size of a variable.
    pub fn variable(&self, name: &str) -> Outcome<(u64, u64)> {
        let address = *self.variables.get(name).ok_or(NOT_FOUND)?;
        let variable = self
            .image
            .variables
            .iter()
            .find(|variable| variable.name == name)
            .ok_or(NOT_FOUND)?;
        Ok((address, variable.bytes))
    }
}
