//! The CUDA libraries that this process has mapped, and whether they are real.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::traced;
use cuda_pitfalls_calls::CallLibrary;
use cuda_pitfalls_core::event::MappedLibrary;
use cuda_pitfalls_core::scenario::environment;
use cuda_pitfalls_core::scenario::environment::INJECTION;

/// A symbol that the simulated machine exports and no real library does.
const MARKER: &str = "cuda_pitfalls_simulated";

/// The CUDA libraries that this process has mapped.
#[derive(Default)]
pub struct MappedLibraries {
    /// Libraries that are known to be real or simulated, with links resolved.
    pub known: Vec<MappedLibrary>,
    /// Files that could not be classified as real or simulated. Nothing may be measured with them.
    pub unknown: Vec<String>,
}

/// Returns the CUDA libraries that are mapped now, with links resolved.
pub fn mapped_libraries() -> MappedLibraries {
    let mut mapped = MappedLibraries::default();
    let Ok(maps) = std::fs::read("/proc/self/maps") else {
        mapped
            .unknown
            .push("cannot read /proc/self/maps".to_string());
        return mapped;
    };
    let mut paths: Vec<Vec<u8>> = mapped_paths(&maps).collect();
    paths.dedup();
    for path in paths {
        let Some(library) = library(&path) else {
            continue;
        };
        let unescaped = unescape_path(&path);
        if traced::is_ours(Path::new(OsStr::from_bytes(&unescaped))) {
            continue;
        }
        let known = [&unescaped, &path]
            .into_iter()
            .find_map(|path| Some((path, is_simulated(path)?)));
        // A report is text, so bytes that are not UTF-8 are replaced.
        let shown =
            String::from_utf8_lossy(known.map_or(&unescaped, |(path, _)| path)).into_owned();
        match known {
            Some((_, simulated)) if !mapped.known.iter().any(|known| known.path == shown) => {
                let name = if simulated {
                    "simulated machine"
                } else {
                    library.name()
                };
                mapped.known.push(MappedLibrary {
                    name: name.to_string(),
                    path: shown,
                    simulated,
                });
            }
            Some(_) => {}
            None => mapped.unknown.push(shown),
        }
    }
    mapped
}

/// Returns the CUDA library with this file name.
pub(crate) fn library(path: &[u8]) -> Option<CallLibrary> {
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    match file {
        _ if file.starts_with(b"libcudart") => Some(CallLibrary::Runtime),
        _ if file.starts_with(b"libcuda.") => Some(CallLibrary::Driver),
        _ if file.starts_with(b"libnvidia-ml") => Some(CallLibrary::Nvml),
        _ if file.starts_with(b"libcuda_pitfalls_sim") => Some(CallLibrary::Driver),
        _ => None,
    }
}

/// Returns `true` if this worker uses the simulated machine. An unknown library counts as simulated, so that steps that
/// need a real driver are skipped.
pub fn is_any_simulated() -> bool {
    let mapped = mapped_libraries();
    !mapped.unknown.is_empty() || mapped.known.iter().any(|library| library.simulated)
}

/// Returns `true` if a mapped library has the simulated machine's marker; `None` if the loader does not know it by this
/// path.
fn is_simulated(path: &[u8]) -> Option<bool> {
    use libloading::os::unix::{Library, RTLD_LAZY};
    const RTLD_NOLOAD: i32 = 4;
    // SAFETY: with RTLD_NOLOAD nothing is loaded and no constructor runs.
    let library =
        unsafe { Library::open(Some(OsStr::from_bytes(path)), RTLD_LAZY | RTLD_NOLOAD) }.ok()?;
    // SAFETY: only the presence of the symbol is queried.
    Some(unsafe { library.get::<*const ()>(MARKER.as_bytes()) }.is_ok())
}

/// Libraries that were injected into this process from outside.
pub fn injected_libraries() -> Vec<String> {
    let mut found = Vec::new();
    for name in ["LD_PRELOAD", "LD_AUDIT", INJECTION, "NVTX_INJECTION64_PATH"] {
        if std::env::var_os(name).is_some_and(|value| is_from_outside(name, &value)) {
            found.push(name.to_string());
        }
    }
    if std::fs::read_to_string("/etc/ld.so.preload").is_ok_and(|text| !text.trim().is_empty()) {
        found.push("/etc/ld.so.preload".to_string());
    }
    found
}

/// Returns `true` if a variable injects a library that no scenario can have requested. The libraries of our own trace
/// do not count: a run under a trace records it in its report.
fn is_from_outside(name: &str, value: &OsStr) -> bool {
    let is_ours = traced::is_ours(Path::new(value));
    !value.is_empty()
        && !is_ours
        && !environment::values(name)
            .is_some_and(|allowed| allowed.iter().any(|allowed| value == allowed.as_str()))
}

/// Returns the NVML that this process has mapped; `None` if its file is unknown.
pub fn mapped_nvml() -> Option<MappedLibrary> {
    let mapped = mapped_libraries();
    if !mapped.unknown.is_empty() {
        return None;
    }
    let mut known = mapped.known.into_iter();
    known.find(|library| library.serves(CallLibrary::Nvml))
}

/// The number of fields before the path: addresses, permissions, offset, device, inode.
const FIELDS: usize = 5;

/// Returns the paths in the text of `/proc/self/maps`, as bytes: a path may contain whitespace, and need not be UTF-8.
pub fn mapped_paths(maps: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    maps.split(|byte| *byte == b'\n').filter_map(path)
}

/// Returns the path after the fixed fields of a line, if the line maps a file.
fn path(line: &[u8]) -> Option<Vec<u8>> {
    let mut rest = line;
    for _ in 0..FIELDS {
        let end = rest.iter().position(|byte| *byte == b' ')?;
        rest = rest.get(end..)?.trim_ascii_start();
    }
    rest.starts_with(b"/").then(|| rest.to_vec())
}

/// Decodes a path. The kernel writes a line break as `\012` but does not escape backslashes, so a name may also contain
/// these four bytes.
fn unescape_path(path: &[u8]) -> Vec<u8> {
    const BREAK: &[u8] = b"\\012";
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, after)) = rest.split_first() {
        match rest.strip_prefix(BREAK) {
            Some(after) => {
                out.push(b'\n');
                rest = after;
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::scenario::environment::INJECTION_LIBRARY;

    #[test]
    fn only_what_a_scenario_may_name_is_not_from_outside() {
        for (name, value, is_outside) in [
            (INJECTION, INJECTION_LIBRARY, false),
            (INJECTION, "", false),
            (INJECTION, "/opt/libprofiler.so", true),
            ("LD_PRELOAD", INJECTION_LIBRARY, true),
        ] {
            assert_eq!(
                is_from_outside(name, OsStr::new(value)),
                is_outside,
                "{name}={value}"
            );
        }
    }

    #[test]
    fn a_path_is_all_that_follows_the_fixed_fields() {
        let maps = b"7f00-7f01 r--p 00000000 fe:00 12   /tmp/sp ace/a  b.so\n\
            7f02-7f03 r-xp 00000000 fe:00 13                         /tmp/new\\012line\xff/libcuda.so\n\
            7f04-7f05 rw-p 00000000 00:00 0 \n\
            7f06-7f07 rw-p 00000000 00:00 0                          [heap]\n";
        let found: Vec<Vec<u8>> = mapped_paths(maps)
            .map(|path| unescape_path(&path))
            .collect();
        assert_eq!(
            found,
            [
                b"/tmp/sp ace/a  b.so".to_vec(),
                b"/tmp/new\nline\xff/libcuda.so".to_vec()
            ]
        );
    }
}
