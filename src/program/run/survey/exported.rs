//! Functions that the libraries export, read from the files without loading them.

use std::path::Path;

use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_instrument::forwarding;

/// Returns every function that libcuda and the libcudarts export and whose name is like those of CUDA; empty if no
/// library can be read.
pub(super) fn exported_functions(machine: &Machine) -> Vec<String> {
    let mut paths = Vec::new();
    for library in &machine.libraries {
        if library.path.contains("libcuda.so") {
            paths.push(&library.path);
        }
    }
    for runtime in &machine.libcudart {
        paths.push(&runtime.path);
    }
    let mut exported = Vec::new();
    for path in paths {
        if let Ok(names) = forwarding::library_exports(Path::new(path)) {
            exported.extend(names);
        }
    }
    exported.retain(|name| is_call(name));
    exported
}

/// Returns `true` if a name is like `cuInit`, `cudaMalloc`, or `__cudaRegisterFunction` of nvcc's code, rather than
/// `cudbg…` or `_Z…`.
fn is_call(symbol: &str) -> bool {
    let name = symbol.strip_prefix("__").unwrap_or(symbol);
    let rest = name
        .strip_prefix("cuda")
        .or_else(|| name.strip_prefix("cu"));
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::machine::Runtime;

    #[test]
    fn calls_are_told_from_other_symbols() {
        assert!(is_call("cuInit") && is_call("cudaMalloc") && is_call("cuGetProcAddress_v2"));
        assert!(is_call("__cudaRegisterFunction"));
        assert!(!is_call("cudbgApiInit") && !is_call("custom") && !is_call("_Z6cuInitv"));
    }

    #[test]
    fn a_file_that_is_no_library_exports_nothing() {
        let runtime = Runtime {
            path: "/proc/self/status".into(),
            version: None,
            number: None,
        };
        assert!(
            exported_functions(&Machine {
                libcudart: vec![runtime],
                ..Machine::default()
            })
            .is_empty()
        );
    }
}
