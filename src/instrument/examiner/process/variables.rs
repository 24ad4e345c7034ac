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

/// The flags of a page in `/proc/PID/pagemap`: it is in memory, or swapped out.
const IN_MEMORY_OR_SWAP: u64 = 0b11 << 62;
const MOST_VARIABLES: u64 = 16 << 10;
/// Maximum length of a variable, in bytes.
const LONGEST_VARIABLE: usize = 32 << 10;
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
    let memory = VariableMemory {
        bytes: File::open(folder.join("mem")).ok()?,
        pages: File::open(folder.join("pagemap")).ok()?,
    };
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

struct VariableMemory {
    bytes: File,
    /// The map of its pages.
    pages: File,
}

impl VariableMemory {
    /// Returns `true` if a page can be read at once. If it lies in a file that is not in memory, a reader waits for the
    /// file server and cannot be killed, and any user may be that server.
    fn is_resident(&self, page: u64) -> bool {
        let mut flags = [0; 8];
        let is_read = self.pages.read_exact_at(&mut flags, page * 8).is_ok();
        is_read && u64::from_ne_bytes(flags) & IN_MEMORY_OR_SWAP != 0
    }
}

fn read_word(memory: &VariableMemory, address: u64) -> Option<u64> {
    let (mut word, size) = ([0; 8], rustix::param::page_size() as u64);
    let (first, last) = (address / size, address.checked_add(7)? / size);
    if !memory.is_resident(first) || !memory.is_resident(last) {
        return None;
    }
    memory.bytes.read_exact_at(&mut word, address).ok()?;
    Some(u64::from_ne_bytes(word))
}

/// Returns the text at an address, at most the longest one. Most are short.
fn read_string(memory: &VariableMemory, address: u64, looked_at: &mut usize) -> Option<Vec<u8>> {
    let size = rustix::param::page_size() as u64;
    let (mut text, mut address) = (Vec::new(), address);
    while text.len() < LONGEST_VARIABLE {
        if !memory.is_resident(address / size) {
            return None;
        }
        let mut part = vec![0; (size - address % size) as usize];
        let read = memory.bytes.read_at(&mut part, address).ok()?;
        *looked_at += read;
        let end = part.iter().take(read).position(|byte| *byte == 0);
        text.extend(part.iter().take(end.unwrap_or(read)));
        if end.is_some() || read == 0 {
            break;
        }
        address = address.checked_add(read as u64)?;
    }
    text.truncate(LONGEST_VARIABLE);
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

    #[test]
    fn page_that_nobody_has_read_is_not_read() {
        let size = rustix::param::page_size();
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * size as u64).unwrap();
        // SAFETY: the mapping is new, and its first page is read while it is there.
        let start = unsafe {
            let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
            let number = std::os::fd::AsRawFd::as_raw_fd(&file);
            let start = libc::mmap(std::ptr::null_mut(), 2 * size, read, shared, number, 0);
            libc::madvise(start, 2 * size, libc::MADV_RANDOM);
            start.cast::<u8>().read_volatile();
            start.addr() as u64
        };
        let memory = VariableMemory {
            bytes: File::open("/proc/self/mem").unwrap(),
            pages: File::open("/proc/self/pagemap").unwrap(),
        };
        let second = start + size as u64;
        assert_eq!(read_word(&memory, second - 8), Some(0));
        assert_eq!(read_word(&memory, second - 4), None);
        assert_eq!(read_string(&memory, second, &mut 0), None);
    }
}
