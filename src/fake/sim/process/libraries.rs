//! The libraries of a process. With lazy loading, a library is loaded into each context at its first use there; with
//! eager loading, into every existing context and every new one.

use crate::model::context::ContextOwner;
use crate::model::library::{Kernel, Library};
use crate::model::status::*;
use crate::process::SimulatedProcess;
use std::collections::BTreeMap;
use std::sync::Arc;

impl SimulatedProcess {
    /// `cuLibraryLoadData`: neither needs nor creates a context (context/library-load-makes-one). With eager loading,
    /// the library is loaded at once if a context exists (memory/library-variables-load-late); measured for one
    /// context, which was current.
    pub fn load_library(&mut self, text: &[u8], current: Option<ContextOwner>) -> Outcome<u64> {
        let eager = self.environment.loads_eagerly()?;
        if eager && self.contexts.alive() > usize::from(current.is_some()) {
            return Err(SIM_NOT_MODELLED);
        }
        let image = self.image(text)?;
        let handle = self.handle();
        self.libraries.insert(
            handle,
            Library {
                image,
                modules: BTreeMap::new(),
            },
        );
        if let Some(owner) = current
            && eager
        {
            self.module_of_library(handle, owner)?;
        }
        Ok(handle)
    }

    /// With eager loading, loads every library into a context that was just created. The driver's result if they do not
    /// fit is not known.
    pub fn load_libraries_into(&mut self, owner: ContextOwner) -> Outcome {
        if self.libraries.is_empty() || !self.environment.loads_eagerly()? {
            return Ok(());
        }
        let libraries: Vec<u64> = self.libraries.keys().copied().collect();
        libraries.into_iter().try_for_each(|library| {
            self.module_of_library(library, owner)
                .map_err(|_| SIM_NOT_MODELLED)?;
            Ok(())
        })
    }

    /// `cuLibraryGetKernel`.
    pub fn kernel_of_library(&mut self, library: u64, name: &str) -> Outcome<u64> {
        let image = &self.libraries.get(&library).ok_or(INVALID_HANDLE)?.image;
        image.kernel(name).ok_or(NOT_FOUND)?;
        let handle = self.handle();
        self.kernels.insert(
            handle,
            Kernel {
                library,
                name: name.to_owned(),
            },
        );
        Ok(handle)
    }

    /// Returns the module of a library in a context. Its first use there loads it and allocates its memory
    /// (device/launch-on-foreign-stream).
    pub fn module_of_library(&mut self, library: u64, owner: ContextOwner) -> Outcome<u64> {
        let found = self.libraries.get(&library).ok_or(INVALID_HANDLE)?;
        if let Some(module) = found.modules.get(&(owner.context, owner.generation)) {
            return Ok(*module);
        }
        let image = Arc::clone(&found.image);
        let module = self.load_image(owner, image)?;
        if let Some(library) = self.libraries.get_mut(&library) {
            library
                .modules
                .insert((owner.context, owner.generation), module);
        }
        Ok(module)
    }

    /// Returns the function of a kernel in a context. The handle of a function is returned as it is.
    pub fn function_in(&mut self, kernel: u64, owner: ContextOwner) -> Outcome<u64> {
        let Some(Kernel { library, name }) = self.kernels.get(&kernel).cloned() else {
            return if self.functions.contains_key(&kernel) {
                Ok(kernel)
            } else {
                Err(INVALID_HANDLE)
            };
        };
        let module = self.module_of_library(library, owner)?;
        let known = self
            .functions
            .iter()
            .find(|(_, function)| function.module == module && function.name == name);
        match known.map(|(handle, _)| *handle) {
            Some(handle) => Ok(handle),
            None => self.function(module, &name),
        }
    }

    /// `cuLibraryUnload`.
    pub fn unload_library(&mut self, library: u64) -> Outcome {
        let found = self.libraries.remove(&library).ok_or(INVALID_HANDLE)?;
        self.kernels.retain(|_, kernel| kernel.library != library);
        for module in found.modules.values() {
            // Where the context is gone, so is its module.
            let _ = self.unload(*module);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sample::{primary, ready};

    const LARGE: &[u8] =
        b".version 6.0\n.visible .global .align 8 .b8 large[67108864];\n.visible .entry idle() { ret; }\n";

    #[test]
    fn eagerly_a_library_takes_its_memory_with_the_load_or_with_the_context() {
        let mut process = ready();
        process.environment.loading = Some(b"EAGER".to_vec());
        let table = process.machine().unwrap().table;
        let used = || table.used_bytes(0) >> 20;
        let mut last = used();
        let mut more = || used() - std::mem::replace(&mut last, used());
        let early = process.load_library(LARGE, None).unwrap();
        assert_eq!(more(), 0);
        let owner = primary(&mut process, 0);
        let context = more();
        process.module_of_library(early, owner).unwrap();
        assert_eq!(more(), 0, "it came with the context");
        let late = process.load_library(LARGE, Some(owner)).unwrap();
        assert_eq!(more(), 1 + 64);
        assert_eq!(process.load_library(LARGE, None), Err(SIM_NOT_MODELLED));
        process.unload_library(early).unwrap();
        process.unload_library(late).unwrap();
        process.release_primary(0).unwrap();
        last = used();
        process.retain_primary(0).unwrap();
        assert_eq!(used() - last, context - 65);
    }
}
