//! The modules of a process, with their kernels and variables.

use crate::model::context::ContextOwner;
use crate::model::module::{Function, Module};
use crate::model::ptx::PtxImage;
use crate::model::status::*;
use crate::process::SimulatedProcess;
use std::collections::BTreeMap;
use std::sync::Arc;

const LOADING_EAGER: i32 = 1;
const LOADING_LAZY: i32 = 2;

impl SimulatedProcess {
    /// Reads the text of a module, if it may be compiled.
    pub fn image(&self, text: &[u8]) -> Outcome<Arc<PtxImage>> {
        self.environment.may_compile()?;
        // Binary images (cubin, fat binary) and any text but PTX are beyond the model.
        let text = std::str::from_utf8(text).map_err(|_| SIM_NOT_MODELLED)?;
        PtxImage::read(text).map(Arc::new).ok_or(SIM_NOT_MODELLED)
    }

    /// `cuModuleLoadData` of PTX text into a live context.
    pub fn load(&mut self, owner: ContextOwner, text: &[u8]) -> Outcome<u64> {
        let image = self.image(text)?;
        self.load_image(owner, image)
    }

    /// Loads a parsed text, and allocates its memory.
    pub fn load_image(&mut self, owner: ContextOwner, image: Arc<PtxImage>) -> Outcome<u64> {
        let context = self.contexts.get_mut(owner.context)?;
        context.add_module(&mut self.account, &image)?;
        let handle = self.handle();
        let mut variables = BTreeMap::new();
        for variable in &image.variables {
            let address = self.devices[owner.device].next_variable(variable.bytes);
            variables.insert(variable.name.clone(), address);
        }
        self.modules.insert(
            handle,
            Module {
                owner,
                image,
                variables,
            },
        );
        Ok(handle)
    }

    fn live_module(&self, module: u64) -> Outcome<&Module> {
        self.modules
            .get(&module)
            .filter(|found| self.contexts.is_live(found.owner))
            .ok_or(INVALID_HANDLE)
    }

    /// `cuModuleGetFunction`. The current context may differ from the module's (device/function-of-another-context).
    pub fn function(&mut self, module: u64, name: &str) -> Outcome<u64> {
        let found = self.live_module(module)?;
        found.image.kernel(name).ok_or(NOT_FOUND)?;
        let function = Function {
            owner: found.owner,
            module,
            name: name.to_owned(),
        };
        let handle = self.handle();
        self.functions.insert(handle, function);
        Ok(handle)
    }

    /// `cuModuleGetGlobal`: address and size of a variable.
    pub fn variable(&self, module: u64, name: &str) -> Outcome<(u64, u64)> {
        self.live_module(module)?.variable(name)
    }

    /// `cuModuleUnload`, likewise from any context.
    pub fn unload(&mut self, module: u64) -> Outcome {
        self.live_module(module)?;
        let found = self.modules.remove(&module).ok_or(INVALID_HANDLE)?;
        self.functions
            .retain(|_, function| function.module != module);
        self.contexts
            .get_mut(found.owner.context)?
            .remove_module(&mut self.account, &found.image)
    }

    /// `cuModuleGetLoadingMode`.
    pub fn loading_mode(&self) -> Outcome<i32> {
        Ok(if self.environment.loads_eagerly()? {
            LOADING_EAGER
        } else {
            LOADING_LAZY
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sample::{primary, ready};

    const PLAIN: &[u8] =
        b".version 6.0\n.target sm_50 // no malloc\n.visible .entry idle() { ret; }\n";

    #[test]
    fn what_is_no_ptx_is_not_modelled() {
        let mut process = ready();
        let zero = primary(&mut process, 0);
        assert_eq!(process.load(zero, b"\x7fELF"), Err(SIM_NOT_MODELLED));
        process.environment.no_ptx_jit = Some(b"0".to_vec());
        assert!(process.load(zero, PLAIN).is_ok());
        process.environment.no_ptx_jit = Some(b"1".to_vec());
        assert_eq!(process.load(zero, PLAIN), Err(SIM_NOT_MODELLED));
    }
}
