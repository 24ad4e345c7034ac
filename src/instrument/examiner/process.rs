//! A running process, read without touching it: `/proc` and its memory. The process may be hostile: all reads are
//! bounded, and a child that hangs is ended by its parent.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::examination::FileTry;
use cuda_pitfalls_core::holding::{
    DriverThread, DriverThreadKind, ParentProcess, ProcessExamination, ProcessLibrary,
};
use object::{Object, ObjectSymbol};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat, openat2, statx,
};

use super::attempts;
use super::files::DeviceFiles;
use super::place::{self, is_about_cuda, is_filtered_in, status_field};
use crate::mapped;

/// Variables with which batch systems name a job. The process can change its own.
const JOB_VARIABLES: [&str; 4] = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"];

const MOST_ENVIRONMENT: u64 = 1 << 20;
/// The longest value of a variable that is kept, in bytes, the text in place of a longer one, and the most variables.
const LONGEST_VALUE: usize = 4 << 10;
const TOO_LONG: &str = "(too long)";
const MOST_KEPT: usize = 128;

const MOST_STAT: u64 = 4 << 10;
const MOST_NAME: u64 = 64;
const MOST_COMMAND: u64 = 4 << 10;
const MOST_THREADS: usize = 1 << 16;
const MOST_MAPS: u64 = 64 << 20;
const MOST_VARIABLES: usize = 16 << 10;
/// Maximum length of a variable, in bytes.
const LONGEST_VARIABLE: usize = 32 << 10;
const SHORT_VARIABLE: usize = 2 << 10;
/// Maximum memory of a process that is examined, in total.
const MOST_LOOKED_AT: u64 = 64 << 20;
/// The largest C library that is read.
const MOST_LIBRARY: u64 = 64 << 20;

/// Examines a process by the files in a directory, which has the layout of `/proc/PID`. Its device files are among
/// `devices`.
pub(super) fn examine_in(folder: &Path, pid: u32, devices: &DeviceFiles) -> ProcessExamination {
    let status = text(&folder.join("status"), MOST_ENVIRONMENT).unwrap_or_default();
    let stat = ProcessStat::read(folder).unwrap_or_default();
    let started_with = whole(&folder.join("environ"), MOST_ENVIRONMENT)
        .ok()
        .map(|text| variables(&text));
    let maps = bytes(&folder.join("maps"), MOST_MAPS)
        .ok()
        .filter(|maps| !maps.is_empty());
    let now = maps.as_ref().and_then(|maps| environment_now(folder, maps));
    let uid = real_id(&status, "Uid");
    let known = now.as_ref().or(started_with.as_ref());
    ProcessExamination {
        pid,
        program: program(folder),
        is_program_of_root: is_program_of_root(folder),
        command: command(folder),
        uid,
        state: stat.state,
        parent: stat.parent.map(read_parent),
        session: stat.session,
        inner_pid: inner_pid(&status),
        control_groups: control_groups(folder),
        started_unix_ms: stat.start_ticks.and_then(unix_ms),
        threads: status_field(&status, "Threads").and_then(|number| number.parse().ok()),
        driver_threads: Vec::new(),
        is_filtered: is_filtered_in(&status),
        mps_folder: mps_folder(folder, known, uid),
        started_with,
        now,
        libraries: maps.as_ref().map(|maps| libraries(maps)),
        mapped_files: maps.map(|maps| devices.mapped(&maps)),
        open_files: devices.open(folder).ok(),
        closed_files: closed_files(folder, uid, &status),
    }
}

/// The facts in `/proc/PID/stat`, which every user may read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessStat {
    state: Option<char>,
    parent: Option<u32>,
    session: Option<u32>,
    pub(super) threads: usize,
    pub(super) start_ticks: Option<u64>,
    /// `true` for a thread of the kernel.
    pub(super) is_kernel: bool,
}

/// The flag `PF_KTHREAD` of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

impl ProcessStat {
    /// Returns `true` if the process has ended, with all its threads.
    pub(super) fn is_zombie(self) -> bool {
        matches!(self.state, Some('Z' | 'X')) && self.threads < 2
    }

    /// Returns the facts of the process with this directory; `None` if it is gone.
    pub(super) fn read(folder: &Path) -> Option<ProcessStat> {
        let text = text(&folder.join("stat"), MOST_STAT)?;
        // The name in front may have spaces and parentheses.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(ProcessStat {
            state: fields.first()?.chars().next(),
            parent: number(1).and_then(|pid| u32::try_from(pid).ok()),
            session: number(3).and_then(|pid| u32::try_from(pid).ok()),
            is_kernel: number(6)? & KERNEL_THREAD != 0,
            threads: usize::try_from(number(17)?).ok()?,
            start_ticks: number(19),
        })
    }
}

/// Returns `true` if a process has a device file mapped.
pub(super) fn has_mappings(folder: &Path, devices: &DeviceFiles) -> bool {
    let maps = bytes(&folder.join("maps"), MOST_MAPS);
    maps.is_ok_and(|maps| !devices.mapped(&maps).is_empty())
}

/// Returns a time since the boot in ticks, in milliseconds since 1970.
fn unix_ms(ticks: u64) -> Option<u64> {
    // SAFETY: the call reads a constant of the system.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
    let since_boot_ms = ticks.checked_mul(1000)?.checked_div(per_second)?;
    (clock::unix_ms() + since_boot_ms).checked_sub(clock::boot_ms())
}

/// Returns `true` if the process with this PID started at this time, with the error of two readings of the clocks.
pub(super) fn has_started_at(pid: u32, started_unix_ms: Option<u64>) -> bool {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let ticks = ProcessStat::read(&folder).and_then(|stat| stat.start_ticks);
    let now = ticks.and_then(unix_ms).unwrap_or(0);
    now.abs_diff(started_unix_ms.unwrap_or(0)) <= 20
}

fn read_parent(pid: u32) -> ParentProcess {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let stat = ProcessStat::read(&folder).unwrap_or_default();
    let status = text(&folder.join("status"), MOST_ENVIRONMENT).unwrap_or_default();
    let is_first = pid == 1 || inner_pid(&status) == Some(1);
    // The service manager of a user is a child of the first process.
    let name = text(&folder.join("comm"), MOST_NAME).unwrap_or_default();
    let is_manager = stat.parent == Some(1) && name.trim() == "systemd";
    ParentProcess {
        pid,
        session: stat.session,
        is_reaper: is_first || is_manager,
    }
}

/// Returns the PID of a process in its own PID namespace, if that is not the reader's.
fn inner_pid(status: &str) -> Option<u32> {
    let pids: Vec<&str> = status_field(status, "NSpid")?.split_whitespace().collect();
    match pids.as_slice() {
        [_, .., inner] => inner.parse().ok(),
        _ => None,
    }
}

fn program(folder: &Path) -> String {
    match fs::read_link(folder.join("exe")) {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(_) => {
            let name = text(&folder.join("comm"), MOST_NAME).unwrap_or_default();
            name.trim().to_owned()
        }
    }
}

/// Returns `true` if the file of the program belongs to root.
fn is_program_of_root(folder: &Path) -> bool {
    let program = statx(
        CWD,
        folder.join("exe"),
        AtFlags::STATX_DONT_SYNC,
        StatxFlags::UID,
    );
    program.is_ok_and(|program| program.stx_uid == 0)
}

/// Returns the first bytes of a command line, with spaces between the arguments.
fn command(folder: &Path) -> String {
    let line = text(&folder.join("cmdline"), MOST_COMMAND).unwrap_or_default();
    line.trim_end_matches('\0').replace('\0', " ")
}

fn control_groups(folder: &Path) -> Vec<String> {
    let mut groups = Vec::new();
    let text = text(&folder.join("cgroup"), MOST_ENVIRONMENT).unwrap_or_default();
    for line in text.lines() {
        if let Some(path) = line.splitn(3, ':').nth(2)
            && path != "/"
            && !groups.contains(&path.to_owned())
        {
            groups.push(path.to_owned());
        }
    }
    groups
}

pub(super) fn uid(folder: &Path) -> Option<u32> {
    real_id(&text(&folder.join("status"), MOST_ENVIRONMENT)?, "Uid")
}

/// Returns the threads of the driver, the oldest first. Every user may read the names of threads.
pub(super) fn driver_threads(folder: &Path, count: usize) -> Vec<DriverThread> {
    // The driver never runs in the first thread alone.
    if count < 2 {
        return Vec::new();
    }
    let mut threads = Vec::new();
    let entries = fs::read_dir(folder.join("task")).into_iter().flatten();
    for entry in entries.flatten().take(MOST_THREADS) {
        let task = entry.path();
        let name = text(&task.join("comm"), MOST_NAME).unwrap_or_default();
        let Some(kind) = thread_kind(name.trim_end_matches('\n')) else {
            continue;
        };
        let ticks = ProcessStat::read(&task).and_then(|stat| stat.start_ticks);
        if let Some(since_unix_ms) = ticks.and_then(unix_ms) {
            threads.push(DriverThread {
                since_unix_ms,
                kind,
            });
        }
    }
    threads.sort_unstable();
    threads
}

/// `cuda00001400006`, or `cuda-EvtHandlr`.
fn thread_kind(name: &str) -> Option<DriverThreadKind> {
    let rest = name.strip_prefix("cuda")?;
    if rest == "-EvtHandlr" {
        return Some(DriverThreadKind::Context);
    }
    let is_number = rest.len() >= 8 && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then_some(DriverThreadKind::Driver)
}

/// Returns the device files of this machine's GPUs that the process of this user cannot open.
fn closed_files(folder: &Path, uid: Option<u32>, status: &str) -> Vec<FileTry> {
    let Some(uid) = uid else { return Vec::new() };
    let mut groups: Vec<u32> = real_id(status, "Gid").into_iter().collect();
    let more = status_field(status, "Groups").unwrap_or_default();
    groups.extend(
        more.split_whitespace()
            .filter_map(|group| group.parse::<u32>().ok()),
    );
    let mut files = vec!["/dev/nvidiactl".to_owned(), "/dev/nvidia-uvm".to_owned()];
    files.extend(
        place::gpus()
            .iter()
            .map(|gpu| format!("/dev/nvidia{}", gpu.device_minor)),
    );
    files
        .iter()
        .filter_map(|file| closed_file(folder, file, uid, &groups))
        .collect()
}

/// Returns the bytes of a file.
///
/// # Errors
/// Returns an error if it has more than `most`: a part would look like the whole.
fn whole(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let read = bytes(path, most + 1)?;
    if read.len() as u64 > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(read)
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
    let entries = text.split(|byte| *byte == 0).filter_map(variable);
    entries.take(MOST_KEPT).collect()
}

fn variable(entry: &[u8]) -> Option<(String, String)> {
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
        if let Some((name, value)) = variable(&text)
            && found.len() < MOST_KEPT
        {
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
    let begins: Vec<MappedFile> = lines.iter().filter_map(|line| file_begin(line)).collect();
    let own = begins.iter().find(|begin| Path::new(begin.path) == program);
    let libc = begins.iter().find(|begin| {
        let file = begin.path.rsplit('/').next().unwrap_or_default();
        ["libc.so", "libc-", "ld-musl"]
            .iter()
            .any(|start| file.starts_with(start))
    });
    own.into_iter()
        .chain(libc)
        .find_map(|begin| environ_in_file(folder, begin))
}

/// The mapping of the beginning of a file, from a line of `/proc/PID/maps`.
struct MappedFile<'a> {
    /// The addresses, as in the line.
    range: &'a str,
    start: u64,
    /// The device of the file system, and the number of the file in it.
    device: (u32, u32),
    inode: u64,
    path: &'a str,
}

fn file_begin(line: &str) -> Option<MappedFile<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [range, _, offset, device, inode, path, ..] = words.as_slice() else {
        return None;
    };
    if offset.bytes().any(|byte| byte != b'0') {
        return None;
    }
    let (major, minor) = device.split_once(':')?;
    Some(MappedFile {
        range,
        start: u64::from_str_radix(range.split('-').next()?, 16).ok()?,
        device: (
            u32::from_str_radix(major, 16).ok()?,
            u32::from_str_radix(minor, 16).ok()?,
        ),
        inode: inode.parse().ok()?,
        path,
    })
}

/// Returns the bytes of a file that a process has mapped. The owner of the process must not choose what this process
/// opens: the file is inspected before it is opened for reading.
fn read_mapped_file(folder: &Path, mapped: &MappedFile<'_>) -> io::Result<Vec<u8>> {
    let path = OFlags::PATH | OFlags::CLOEXEC;
    // The kernel opens the mapped file itself here, for those who may ask.
    let link = folder.join("map_files").join(mapped.range);
    let (file, is_certain) = match openat(CWD, link, path, Mode::empty()) {
        Ok(file) => (file, true),
        Err(_) => (file_in_root(folder, mapped.path)?, false),
    };
    let found = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    let is_regular = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
    // Root could be made to read a file that the process itself may not read.
    let must_match = rustix::process::geteuid().is_root() && !is_certain;
    if !is_regular || (must_match && !is_same_file(&found, mapped)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    bytes(Path::new(&own), MOST_LIBRARY)
}

fn is_same_file(found: &Statx, mapped: &MappedFile<'_>) -> bool {
    let device = (found.stx_dev_major, found.stx_dev_minor);
    device == mapped.device && found.stx_ino == mapped.inode
}

/// Returns the file at a path in the file system of a process, unopened. The kernel reports the path without links, so
/// none is followed.
fn file_in_root(folder: &Path, path: &str) -> io::Result<OwnedFd> {
    let root = openat(
        CWD,
        folder.join("root"),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = path.trim_start_matches('/');
    Ok(openat2(root, path, flags, Mode::empty(), within)?)
}

/// Returns the address of `environ` in a mapped file.
fn environ_in_file(folder: &Path, mapped: &MappedFile<'_>) -> Option<u64> {
    let file = read_mapped_file(folder, mapped).ok()?;
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
    use std::os::unix::fs::{MetadataExt as _, lchown};

    use super::super::files::DEVICES;

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
        let found = fs::metadata(root.join("lib/libc.so.6")).unwrap();
        let device = (libc::major(found.dev()), libc::minor(found.dev()));
        let read = |path, inode| {
            let (range, start) = ("0-1", 0);
            let mapped = MappedFile {
                range,
                start,
                device,
                inode,
                path,
            };
            read_mapped_file(folder.path(), &mapped)
        };
        assert_eq!(read("/lib/libc.so.6", found.ino()).unwrap(), b"ELF");
        let is_root = rustix::process::geteuid().is_root();
        let other = read("/lib/libc.so.6", found.ino() + 1);
        assert_eq!(other.is_err(), is_root, "another file lies over it");
        for path in [
            "/lib/link",
            "/through/libc.so.6",
            "/lib/pipe",
            "/lib",
            "/../../../../dev/null",
            "/none",
        ] {
            assert!(read(path, found.ino()).is_err(), "{path}");
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
        let folder = PathBuf::from(format!("/proc/{}", u32::MAX));
        let seen = examine_in(&folder, u32::MAX, &DeviceFiles::new(DEVICES));
        assert_eq!(
            (seen.started_with, seen.now, seen.libraries, seen.open_files),
            (None, None, None, None)
        );
        assert_eq!((seen.uid, seen.threads), (None, None));
    }
}
