//! Functions that the libraries export, read from the files without loading them.

use std::fs::File;
use std::io::{Read, Seek};

use object::{Object, ObjectSymbol, ReadCache};

use cuda_pitfalls_core::machine::Machine;

/// Every exported function of libcuda and of the libcudarts; none if no library can be read.
pub(super) fn functions(machine: &Machine) -> Vec<String> {
    let driver =
        machine.libraries.iter().map(|library| library.path.as_str()).filter(|path| path.contains("libcuda.so"));
    let runtimes = machine.libcudart.iter().map(|runtime| runtime.path.as_str());
    driver.chain(runtimes).filter_map(|path| File::open(path).ok()).flat_map(calls).collect()
}

/// The exported functions that are named like those of CUDA. Only the symbol tables of the file are read, because
/// libcuda has a hundred megabytes.
fn calls(library: impl Read + Seek) -> Vec<String> {
    let cache = ReadCache::new(library);
    let Ok(file) = object::File::parse(&cache) else { return Vec::new() };
    let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let names = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_string));
    names.filter(|name| is_call(name)).collect()
}

/// Whether a name is like `cuInit`, `cudaMalloc`, or `__cudaRegisterFunction` of nvcc's code, rather than `cudbg…` or
/// `_Z…`.
fn is_call(name: &str) -> bool {
    let name = name.strip_prefix("__").unwrap_or(name);
    let rest = name.strip_prefix("cuda").or_else(|| name.strip_prefix("cu"));
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_other_symbols() {
        assert!(is_call("cuInit") && is_call("cudaMalloc") && is_call("cuGetProcAddress_v2"));
        assert!(is_call("__cudaRegisterFunction"));
        assert!(!is_call("cudbgApiInit") && !is_call("custom") && !is_call("_Z6cuInitv"));
    }

    #[test]
    fn a_file_that_is_no_library_exports_nothing() {
        assert!(calls(std::io::Cursor::new(b"text")).is_empty());
    }
}
