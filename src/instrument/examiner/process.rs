//! A running process, read without touching it: `/proc` and its memory. The process may be hostile: all reads are
//! bounded, and a child that hangs is ended by its parent.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cuda_pitfalls_core::examination::{FileTry, ProcessExamination, ProcessLibrary};
use object::{Object, ObjectSymbol};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use super::attempts;
use super::place::{self, is_about_cuda, is_filtered_in, status_field};
use crate::mapped;

const MOST_ENVIRONMENT: u64 = 1 << 20;
const MOST_MAPS: u64 = 64 << 20;
const MOST_FILES: usize = 1 << 20;
const MOST_VARIABLES: usize = 16 << 10;
/// Maximum length of a variable, in bytes.
const LONGEST_VARIABLE: usize = 32 << 10;
const SHORT_VARIABLE: usize = 2 << 10;
/// Maximum memory of a process that is examined, in total.
const MOST_LOOKED_AT: u64 = 64 << 20;
/// The largest C library that is read.
const MOST_LIBRARY: u64 = 64 << 20;

pub(super) fn examine_process(pid: u32) -> ProcessExamination {
    examine_in(&PathBuf::from(format!("/proc/{pid}")), pid)
}

/// Examines a process by the files in a directory.
pub(super) fn examine_in(folder: &Path, pid: u32) -> ProcessExamination {
    let status = text(&folder.join("status"), MOST_ENVIRONMENT).unwrap_or_default();
    let started_with = bytes(&folder.join("environ"), MOST_ENVIRONMENT)
        .ok()
        .map(|text| variables(&text));
    let maps = bytes(&folder.join("maps"), MOST_MAPS)
        .ok()
        .filter(|maps| !maps.is_empty());
    let now = maps.as_ref().and_then(|maps| environment_now(folder, maps));
    let uid = real_id(&status, "Uid");
    let groups = status_field(&status, "Groups")
        .unwrap_or_default()
        .split_whitespace();
    let groups: Vec<u32> = groups
        .filter_map(|group| group.parse().ok())
        .chain(real_id(&status, "Gid"))
        .collect();
    let gpus = place::gpus();
    let names = gpus
        .iter()
        .map(|gpu| format!("/dev/nvidia{}", gpu.device_minor));
    let files: Vec<String> = ["/dev/nvidiactl", "/dev/nvidia-uvm"]
        .map(str::to_string)
        .into_iter()
        .chain(names)
        .collect();
    let known = now.as_ref().or(started_with.as_ref());
    ProcessExamination {
        pid,
        program: fs::read_link(folder.join("exe")).map_or_else(
            |_| {
                text(&folder.join("comm"), 64)
                    .unwrap_or_default()
                    .trim()
                    .to_string()
            },
            |path| path.to_string_lossy().into_owned(),
        ),
        uid,
        threads: status_field(&status, "Threads").and_then(|number| number.parse().ok()),
        is_filtered: is_filtered_in(&status),
        mps_folder: mps_folder(folder, known, uid),
        started_with,
        now,
        libraries: maps.map(|maps| libraries(&maps)),
        open_files: open_files(folder).ok(),
        closed_files: files
            .iter()
            .filter_map(|file| closed_file(folder, file, uid?, &groups))
            .collect(),
        module_version: place::module_version(),
        gpus,
        nvml: None,
        watched_ms: 0,
    }
}

fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut read)?;
    Ok(read)
}

fn text(path: &Path, most: u64) -> Option<String> {
    bytes(path, most)
        .ok()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the CUDA variables in the text of an environment.
fn variables(text: &[u8]) -> BTreeMap<String, String> {
    text.split(|byte| *byte == 0).filter_map(variable).collect()
}

fn variable(entry: &[u8]) -> Option<(String, String)> {
    let entry = String::from_utf8_lossy(entry);
    let (name, value) = entry.split_once('=')?;
    is_about_cuda(name).then(|| (name.to_string(), value.to_string()))
}

/// Returns the CUDA libraries in a memory map.
fn libraries(maps: &[u8]) -> Vec<ProcessLibrary> {
    const GONE: &str = " (deleted)";
    let mut found: Vec<ProcessLibrary> = Vec::new();
    for path in mapped::mapped_paths(maps) {
        let shown = String::from_utf8_lossy(&path).into_owned();
        let is_deleted = shown.ends_with(GONE);
        let path = shown.trim_end_matches(GONE).to_string();
        let Some(library) = mapped::library(path.as_bytes()) else {
            continue;
        };
        let one = ProcessLibrary {
            library: library.name().to_string(),
            path,
            is_deleted,
        };
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// Returns the number of times that each NVIDIA device file is open.
fn open_files(folder: &Path) -> io::Result<BTreeMap<String, u64>> {
    let mut open: BTreeMap<String, u64> = BTreeMap::new();
    for entry in fs::read_dir(folder.join("fd"))?.flatten().take(MOST_FILES) {
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        if let Some(target) = target
            .to_str()
            .filter(|target| target.starts_with("/dev/nvidia"))
        {
            *open.entry(target.to_string()).or_default() += 1;
        }
    }
    Ok(open)
}

/// Returns a file as this user sees it in the file system of the process, if it cannot be opened there. A denial by a
/// device cgroup cannot be seen from outside.
fn closed_file(folder: &Path, file: &str, uid: u32, groups: &[u32]) -> Option<FileTry> {
    let path = folder.join("root").join(file.trim_start_matches('/'));
    let found = attempts::about(file, &path, None);
    let error = match (found.mode, found.owner) {
        (Some(mode), Some((owner, group))) => {
            let shift = if owner == uid {
                6
            } else if groups.contains(&group) {
                3
            } else {
                0
            };
            let may = uid == 0 || (mode >> shift) & 0o6 == 0o6;
            (!may).then_some("EACCES")
        }
        // A user who may not look at its root cannot know this.
        _ => fs::symlink_metadata(folder.join("root/dev"))
            .is_ok()
            .then_some("ENOENT"),
    };
    error.map(|error| FileTry {
        error: Some(error.to_string()),
        ..found
    })
}

/// Returns the directory in which the process of this user looks for MPS, if it has a control pipe.
fn mps_folder(
    folder: &Path,
    variables: Option<&BTreeMap<String, String>>,
    uid: Option<u32>,
) -> Option<String> {
    let named = variables?
        .get("CUDA_MPS_PIPE_DIRECTORY")
        .map_or("/tmp/nvidia-mps", String::as_str);
    let path = folder.join("root").join(named.trim_start_matches('/'));
    place::has_control_pipe(&path, uid?).then(|| named.to_string())
}

/// Returns the first of the user or group ids of a process, by the text of its `status` file.
fn real_id(status: &str, name: &str) -> Option<u32> {
    status_field(status, name)?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn word(memory: &File, address: u64) -> Option<u64> {
    let mut word = [0; 8];
    memory
        .read_exact_at(&mut word, address)
        .ok()
        .map(|()| u64::from_ne_bytes(word))
}

/// Returns the CUDA variables that its C library has now. `setenv` changes them, and `/proc` does not show the change.
fn environment_now(folder: &Path, maps: &[u8]) -> Option<BTreeMap<String, String>> {
    let memory = File::open(folder.join("mem")).ok()?;
    let address = environ_address(folder, maps)?;
    let list = word(&memory, address)?;
    let (mut found, mut looked_at, mut kept) = (BTreeMap::new(), 0, 0);
    for place in 0..MOST_VARIABLES as u64 {
        let entry = word(&memory, list.checked_add(place * 8)?)?;
        if entry == 0 {
            return Some(found);
        }
        // Most are short, and the process chooses how many there are and whether they overlap.
        let text = [SHORT_VARIABLE, LONGEST_VARIABLE]
            .into_iter()
            .find_map(|most| {
                let mut text = vec![0; most];
                // A missing page ends the text early.
                let read = memory.read_at(&mut text, entry).ok()?;
                looked_at += read;
                let end = text.iter().take(read).position(|byte| *byte == 0);
                text.truncate(end.or((read < most || most == LONGEST_VARIABLE).then_some(read))?);
                Some(text)
            })?;
        if let Some((name, value)) = variable(&text) {
            kept += name.len() + value.len();
            found.insert(name, value);
        }
        if looked_at as u64 > MOST_LOOKED_AT || kept as u64 > MOST_ENVIRONMENT {
            return None;
        }
    }
    Some(found)
}

/// Returns the address of `environ` in the process: its program's, if the linker has put a copy there that the C
/// library uses too, otherwise the C library's.
fn environ_address(folder: &Path, maps: &[u8]) -> Option<u64> {
    let program = fs::read_link(folder.join("exe")).ok()?;
    let lines: Vec<_> = maps
        .split(|byte| *byte == b'\n')
        .map(String::from_utf8_lossy)
        .collect();
    let begins: Vec<(u64, &str)> = lines.iter().filter_map(|line| file_begin(line)).collect();
    let own = begins.iter().find(|(_, path)| Path::new(path) == program);
    let libc = begins.iter().find(|(_, path)| {
        let file = path.rsplit('/').next().unwrap_or_default();
        ["libc.so", "libc-", "ld-musl"]
            .iter()
            .any(|start| file.starts_with(start))
    });
    own.into_iter()
        .chain(libc)
        .find_map(|(start, path)| environ_in_file(folder, *start, path))
}

/// Returns the address and the path of a file, from a line of `/proc/PID/maps` that maps its beginning.
fn file_begin(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_whitespace();
    let (start, offset) = (words.next()?.split('-').next()?, words.nth(1)?);
    if offset.bytes().any(|byte| byte != b'0') {
        return None;
    }
    Some((u64::from_str_radix(start, 16).ok()?, words.nth(2)?))
}

/// Returns the bytes of a file that a process has mapped, if the same file is still at its path. The kernel reports the
/// path without links, so none is followed: the owner of the process must not choose what this process opens.
fn mapped_file(folder: &Path, path: &str) -> io::Result<Vec<u8>> {
    let root = openat(
        CWD,
        folder.join("root"),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(openat2(
        root,
        path.trim_start_matches('/'),
        flags,
        Mode::empty(),
        within,
    )?);
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut read = Vec::new();
    file.take(MOST_LIBRARY).read_to_end(&mut read)?;
    Ok(read)
}

/// Returns the address of `environ` in a file that is mapped from here on.
fn environ_in_file(folder: &Path, start: u64, path: &str) -> Option<u64> {
    let file = mapped_file(folder, path).ok()?;
    let file = object::File::parse(file.as_slice()).ok()?;
    let found = file.dynamic_symbols().find(|symbol| {
        symbol.is_definition() && matches!(symbol.name(), Ok("environ" | "__environ"))
    })?;
    // A program that is not position-independent has absolute addresses.
    let base = if file.kind() == object::ObjectKind::Executable {
        0
    } else {
        start
    };
    base.checked_add(found.address())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, lchown};

    use super::*;

    #[test]
    fn only_a_plain_file_that_no_link_leads_to_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("lib")).unwrap();
        fs::write(root.join("lib/libc.so.6"), "ELF").unwrap();
        std::os::unix::fs::symlink("/dev/null", root.join("lib/link")).unwrap();
        std::os::unix::fs::symlink("lib", root.join("through")).unwrap();
        rustix::fs::mkfifoat(CWD, root.join("lib/pipe"), Mode::RWXU).unwrap();
        assert_eq!(
            mapped_file(folder.path(), "/lib/libc.so.6").unwrap(),
            b"ELF"
        );
        for path in [
            "/lib/link",
            "/through/libc.so.6",
            "/lib/pipe",
            "/lib",
            "/../../../../dev/null",
            "/none",
        ] {
            assert!(mapped_file(folder.path(), path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_folder_of_mps_that_another_user_made_is_none_of_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let pipes = folder.path().join("root/tmp/nvidia-mps");
        fs::create_dir_all(&pipes).unwrap();
        fs::write(pipes.join("control"), "").unwrap();
        if rustix::process::geteuid().is_root() {
            [&pipes, &pipes.join("control")]
                .into_iter()
                .for_each(|path| lchown(path, Some(1), None).unwrap());
        }
        let user = fs::metadata(&pipes).unwrap().uid();
        let found = |uid| mps_folder(folder.path(), Some(&BTreeMap::new()), uid);
        assert_eq!(found(Some(user)).as_deref(), Some("/tmp/nvidia-mps"));
        assert_eq!(found(Some(user + 1)), None);
        assert_eq!(found(None), None);
    }

    #[test]
    fn of_a_process_that_is_gone_nothing_is_known() {
        let seen = examine_process(u32::MAX);
        assert_eq!(
            (seen.started_with, seen.now, seen.libraries, seen.open_files),
            (None, None, None, None)
        );
        assert_eq!((seen.uid, seen.threads), (None, None));
    }
}
