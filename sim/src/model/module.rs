//! Modules of PTX text and their kernels. A launch is checked and has no effect.

use crate::model::behaviour::{FixedBy, HEAP_FIXED_BY};
use crate::model::context::Owner;
use crate::model::process::Process;
use crate::model::status::*;

/// A loaded module.
pub struct Module {
    pub owner: Owner,
    pub kernels: Vec<String>,
    pub uses_heap: bool,
    pub uses_printf: bool,
}

/// A kernel of a module.
pub struct Function {
    pub owner: Owner,
    pub module: u64,
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
}

const LOADING_EAGER: i32 = 1;
const LOADING_LAZY: i32 = 2;

impl Process {
    /// `cuModuleLoadData` of PTX text into a live context.
    pub fn load(&mut self, owner: Owner, image: &[u8]) -> Outcome<u64> {
        // Binary images (cubin, fat binary) and text that is no PTX are beyond the model.
        let text = std::str::from_utf8(image).map_err(|_| SIM_NOT_MODELLED)?;
        let text = without_comments(text);
        if !has_word(&text, ".version") {
            return Err(SIM_NOT_MODELLED);
        }
        let module = Module {
            owner,
            kernels: kernels(&text),
            uses_heap: has_word(&text, "malloc") || has_word(&text, "free"),
            uses_printf: has_word(&text, "vprintf"),
        };
        let bytes = self.gpu(owner)?.module_bytes;
        if module.uses_heap {
            self.charge_heap_module(owner)?;
        }
        self.charge_context(owner.context, bytes)?;
        if HEAP_FIXED_BY == FixedBy::ModuleLoad {
            self.fix(owner, module.uses_heap, module.uses_printf)?;
        }
        let handle = self.handle();
        self.modules.insert(handle, module);
        Ok(handle)
    }

    /// `cuModuleGetFunction`. From another context it is not modelled.
    pub fn function(&mut self, module: u64, name: &str, current: Owner) -> Outcome<u64> {
        let found = self.modules.get(&module).filter(|found| self.is_live(found.owner)).ok_or(INVALID_HANDLE)?;
        if found.owner != current {
            return Err(SIM_NOT_MODELLED);
        }
        if !found.kernels.iter().any(|kernel| kernel == name) {
            return Err(NOT_FOUND);
        }
        let handle = self.handle();
        self.functions.insert(handle, Function { owner: current, module });
        Ok(handle)
    }

    /// `cuModuleUnload`. From another context it is not modelled.
    pub fn unload(&mut self, module: u64, current: Owner) -> Outcome {
        let found = self.modules.get(&module).filter(|found| self.is_live(found.owner)).ok_or(INVALID_HANDLE)?;
        if found.owner != current {
            return Err(SIM_NOT_MODELLED);
        }
        self.modules.remove(&module);
        self.functions.retain(|_, function| function.module != module);
        self.refund_context(current.context, self.gpu(current)?.module_bytes);
        Ok(())
    }

    /// `cuLaunchKernel`: everything must be of the current context.
    pub fn launch(&mut self, function: u64, shape: Shape, stream: u64, current: Owner) -> Outcome {
        let of_stream = self.stream_owner(stream, current)?;
        let function = self.functions.get(&function).ok_or(INVALID_HANDLE)?;
        if function.owner != current || of_stream != current {
            return Err(INVALID_HANDLE);
        }
        let threads = shape.block.iter().map(|side| u64::from(*side)).product::<u64>();
        if shape.grid.contains(&0) || threads == 0 || threads > 1024 {
            return Err(INVALID_VALUE);
        }
        let module = self.modules.get(&function.module).ok_or(INVALID_HANDLE)?;
        self.fix(current, module.uses_heap, module.uses_printf)
    }

    /// `cuModuleGetLoadingMode`, as `CUDA_MODULE_LOADING` said at initialisation.
    pub fn loading_mode(&self) -> Outcome<i32> {
        match self.loading.as_deref() {
            None | Some(b"LAZY" | b"DEFAULT" | b"") => Ok(LOADING_LAZY),
            Some(b"EAGER") => Ok(LOADING_EAGER),
            Some(_) => Err(SIM_NOT_MODELLED),
        }
    }

    fn fix(&mut self, owner: Owner, heap: bool, printf: bool) -> Outcome {
        if heap {
            self.fix_heap(owner)?;
        }
        if let Some(context) = self.contexts.get_mut(&owner.context) {
            context.limits.printf_fixed |= printf;
        }
        Ok(())
    }
}

/// The text without its line comments and its block comments.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, after) = rest.split_at(at);
        kept.push_str(before);
        let end = match after.as_bytes().get(1) {
            Some(b'/') => after.find('\n').unwrap_or(after.len()),
            Some(b'*') => after.find("*/").map_or(after.len(), |end| end + 2),
            _ => {
                kept.push('/');
                1
            }
        };
        rest = &after[end..];
    }
    kept.push_str(rest);
    kept
}

/// The names after `.entry`.
fn kernels(text: &str) -> Vec<String> {
    let after = text.split(".entry").skip(1);
    after.map(|rest| rest.trim_start().chars().take_while(|c| is_name(*c)).collect()).collect()
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$')
}

/// Whether a word stands in the text by itself, not as part of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::limits::MALLOC_HEAP_SIZE;
    use crate::model::process::sample::ready;

    const PLAIN: &[u8] = b".version 6.0\n.target sm_50 // no malloc\n.visible .entry idle() { ret; }\n";
    const HEAP: &[u8] =
        b".version 6.0\n.extern .func (.param .b64 r) malloc (.param .b64 n);\n.visible .entry grab() { ret; }\n";
    const ONE: Shape = Shape { grid: [1, 1, 1], block: [1, 1, 1] };

    fn owner(process: &mut Process, device: usize) -> Owner {
        let handle = process.retain_primary(device).unwrap();
        process.owner(handle).unwrap()
    }

    #[test]
    fn only_a_launch_of_a_kernel_with_malloc_fixes_the_heap() {
        let mut process = ready();
        let zero = owner(&mut process, 0);
        for (image, name, then) in [(PLAIN, "idle", Ok(())), (HEAP, "grab", Err(INVALID_VALUE))] {
            let module = process.load(zero, image).unwrap();
            process.set_limit(zero, MALLOC_HEAP_SIZE, 16 << 20).unwrap();
            let function = process.function(module, name, zero).unwrap();
            process.launch(function, ONE, 0, zero).unwrap();
            assert_eq!(process.set_limit(zero, MALLOC_HEAP_SIZE, 32 << 20), then);
        }
    }

    #[test]
    fn the_heap_costs_at_the_load_and_at_the_first_launch() {
        let mut process = ready();
        let zero = owner(&mut process, 0);
        let table = process.node().unwrap().table;
        let mut last = table.used_bytes(0);
        let mut more = || {
            let before = std::mem::replace(&mut last, table.used_bytes(0));
            (last - before) >> 20
        };
        process.load(zero, PLAIN).unwrap();
        assert_eq!(more(), 1);
        let module = process.load(zero, HEAP).unwrap();
        assert_eq!(more(), 17);
        process.load(zero, HEAP).unwrap();
        assert_eq!(more(), 1);
        process.set_limit(zero, MALLOC_HEAP_SIZE, 64 << 20).unwrap();
        assert_eq!(more(), 0);
        let function = process.function(module, "grab", zero).unwrap();
        process.launch(function, ONE, 0, zero).unwrap();
        assert_eq!(more(), 66);
        process.launch(function, ONE, 0, zero).unwrap();
        assert_eq!(more(), 0);
    }

    #[test]
    fn a_function_of_another_context_is_an_invalid_handle() {
        let mut process = ready();
        let (zero, one) = (owner(&mut process, 0), owner(&mut process, 1));
        let module = process.load(zero, PLAIN).unwrap();
        assert_eq!(process.function(module, "missing", zero), Err(NOT_FOUND));
        let function = process.function(module, "idle", zero).unwrap();
        assert_eq!(process.launch(function, ONE, 0, one), Err(INVALID_HANDLE));
        assert_eq!(process.launch(function, Shape { grid: [0, 1, 1], ..ONE }, 0, zero), Err(INVALID_VALUE));
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("call malloc, (x)", "malloc"));
        assert!(!has_word("call my_malloc", "malloc"));
        assert_eq!(without_comments("a // b\nc /* d */ e / f"), "a \nc  e / f");
        assert_eq!(kernels(".entry a(\n).entry\n b ()"), ["a", "b"]);
    }

    #[test]
    fn what_is_no_ptx_is_not_modelled() {
        let mut process = ready();
        let zero = owner(&mut process, 0);
        assert_eq!(process.load(zero, b"\x7fELF"), Err(SIM_NOT_MODELLED));
    }
}
