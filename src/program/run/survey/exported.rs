//! What the libraries export and the survey does not ask: read from the files, nothing is loaded.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};

use object::{Object, ObjectSymbol, ReadCache};

use cuda_pitfalls_answers::survey::calls::Recipes;
use cuda_pitfalls_answers::survey::document::LeftOut;
use cuda_pitfalls_core::machine::Machine;

/// The reason where a symbol is in no list: a newer library brought it.
const NO_RECIPE: &str = "no recipe yet: scenarios/surveys/calls.toml does not name it";

/// Every exported call of libcuda and of the libcudarts that no recipe makes, with the reason. Where
/// no library can be read, the patterns themselves.
pub(super) fn left_out(recipes: &Recipes, machine: &Machine) -> Vec<LeftOut> {
    let driver =
        machine.libraries.iter().map(|library| library.path.as_str()).filter(|path| path.contains("libcuda.so"));
    let runtimes = machine.libcudart.iter().map(|runtime| runtime.path.as_str());
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for path in driver.chain(runtimes) {
        let Ok(file) = File::open(path) else { continue };
        for name in calls(file) {
            if !recipes.calls.iter().any(|recipe| recipe.symbol == name) {
                let reason = recipes.why_left_out(&name).unwrap_or(NO_RECIPE).to_string();
                found.insert(name, reason);
            }
        }
    }
    if found.is_empty() {
        return recipes.left_out.clone();
    }
    found.into_iter().map(|(name, reason)| LeftOut { name, reason }).collect()
}

/// The functions that a library exports and that are named like CUDA's. Of the file only the tables
/// of symbols are read: libcuda has a hundred megabytes.
fn calls(library: impl Read + Seek) -> Vec<String> {
    let cache = ReadCache::new(library);
    let Ok(file) = object::File::parse(&cache) else { return Vec::new() };
    let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let names = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_string));
    names.filter(|name| is_call(name)).collect()
}

/// `cuInit`, `cudaMalloc`, and what nvcc's code calls, `__cudaRegisterFunction`: not `cudbg…` or `_Z…`.
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
