//! The variables of a process: at its start, and now.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use cuda_pitfalls_core::holding::JOB_VARIABLES;
use object::{Object as _, ObjectSymbol as _};

use super::super::place::is_about_cuda;
use super::mapping::{self, MappedFile};

/// The longest value of a variable that is kept, in bytes, the text in place of a longer one, and the most bytes.
const LONGEST_VALUE: usize = 4 << 10;
const TOO_LONG: &str = "(too long)";
const MOST_KEPT: usize = 64 << 10;

const MOST_VARIABLES: u64 = 16 << 10;
/// Maximum length of a variable, in bytes.
const LONGEST_VARIABLE: usize = 32 << 10;
const SHORT_VARIABLE: usize = 2 << 10;
/// Maximum memory of a process that is examined, in total.
const MOST_LOOKED_AT: usize = 64 << 20;

/// Returns the CUDA variables in the text of an environment; `None` if they are too long.
pub(super) fn parse_variables(text: &[u8]) -> Option<BTreeMap<String, String>> {
    let (mut found, mut kept) = (BTreeMap::new(), 0);
    for entry in text.split(|byte| *byte == 0) {
        if let Some((name, value)) = parse_variable(entry) {
            kept += name.len() + value.len();
            found.insert(name, value);
        }
        if kept > MOST_KEPT {
            return None;
        }
    }
    Some(found)
}

fn parse_variable(entry: &[u8]) -> Option<(String, String)> {
    let entry = String::from_utf8_lossy(entry);
    let (name, value) = entry.split_once('=')?;
    // Images of NVIDIA have kilobytes of requirements in them.
    let is_about_cuda = is_about_cuda(name) && !name.starts_with("NVIDIA_REQUIRE_");
    let is_kept = is_about_cuda || JOB_VARIABLES.contains(&name);
    let value = if value.len() > LONGEST_VALUE {
        TOO_LONG
    } else {
        value
    };
    is_kept.then(|| (name.to_string(), value.to_string()))
}

/// Returns the CUDA variables that its C library has now. `setenv` changes them, and `/proc` does not show the change.
pub(super) fn read_current(folder: &Path, maps: &[u8]) -> Option<BTreeMap<String, String>> {
    let memory = File::open(folder.join("mem")).ok()?;
    let list = read_word(&memory, environ_address(folder, maps)?)?;
    let (mut found, mut looked_at, mut kept) = (BTreeMap::new(), 0, 0);
    for place in 0..MOST_VARIABLES {
        let entry = read_word(&memory, list.checked_add(place * 8)?)?;
        if entry == 0 {
            return Some(found);
        }
        let text = read_string(&memory, entry, &mut looked_at)?;
        if let Some((name, value)) = parse_variable(&text) {
            kept += name.len() + value.len();
            found.insert(name, value);
        }
        // The process chooses how many there are and whether they overlap.
        if looked_at > MOST_LOOKED_AT || kept > MOST_KEPT {
            return None;
        }
    }
    Some(found)
}

fn read_word(memory: &File, address: u64) -> Option<u64> {
    let mut word = [0; 8];
    memory.read_exact_at(&mut word, address).ok()?;
    Some(u64::from_ne_bytes(word))
}

/// Returns the text at an address, at most the longest one. Most are short.
fn read_string(memory: &File, address: u64, looked_at: &mut usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for most in [SHORT_VARIABLE, LONGEST_VARIABLE] {
        text.resize(most, 0);
        // A missing page ends the text early.
        let read = memory.read_at(&mut text, address).ok()?;
        *looked_at += read;
        text.truncate(read);
        if let Some(end) = text.iter().position(|byte| *byte == 0) {
            text.truncate(end);
            break;
        }
        if read < most {
            break;
        }
    }
    Some(text)
}

/// Returns the address of `environ` in the process: its program's, if the linker has put a copy there that the C
/// library uses too, otherwise the C library's.
fn environ_address(folder: &Path, maps: &[u8]) -> Option<u64> {
    let program = fs::read_link(folder.join("exe")).ok()?;
    let maps = String::from_utf8_lossy(maps);
    let (mut own, mut library) = (None, None);
    for line in maps.split('\n') {
        let Some(mapped) = mapping::parse_beginning(line) else {
            continue;
        };
        let name = mapped.path.rsplit('/').next().unwrap_or_default();
        let names = ["libc.so", "libc-", "ld-musl"];
        if own.is_none() && Path::new(mapped.path) == program {
            own = Some(mapped);
        } else if library.is_none() && names.iter().any(|start| name.starts_with(start)) {
            library = Some(mapped);
        }
    }
    let mut files = own.iter().chain(&library);
    files.find_map(|mapped| environ_in_file(folder, mapped))
}

/// Returns the address of `environ` in a mapped file.
fn environ_in_file(folder: &Path, mapped: &MappedFile<'_>) -> Option<u64> {
    let file = mapping::read_mapped_file(folder, mapped).ok()?;
    let file = object::File::parse(file.as_slice()).ok()?;
    let found = file.dynamic_symbols().find(|symbol| {
        symbol.is_definition() && matches!(symbol.name(), Ok("environ" | "__environ"))
    })?;
    // A program that is not position-independent has absolute addresses.
    let base = if file.kind() == object::ObjectKind::Executable {
        0
    } else {
        mapped.start
    };
    base.checked_add(found.address())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_are_too_long_are_not_kept() {
        let mut text = Vec::new();
        for index in 0..16 {
            text.extend(format!("CUDA_X{index}={}\0", "\x01".repeat(4_000)).into_bytes());
        }
        assert_eq!(parse_variables(&text).map(|found| found.len()), Some(16));
        text.extend_from_within(..);
        assert_eq!(parse_variables(&text), None);
    }
}
