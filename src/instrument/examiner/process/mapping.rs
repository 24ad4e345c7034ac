//! The files that a process has mapped.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use cuda_pitfalls_core::holding::ProcessLibrary;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat, openat2, statx,
};

use rustix::io::Errno;

use super::super::files::link_of_mapping;
use crate::bounded::{read_bytes, read_text};
use crate::mapped;

/// The most libraries that are kept.
const MOST_LIBRARIES: usize = 64;
/// The largest file that is read.
const MOST_FILE: u64 = 64 << 20;
const MOST_MOUNTS: u64 = 4 << 20;

/// Returns the CUDA libraries in a memory map.
pub(super) fn list_libraries(maps: &[u8]) -> Vec<ProcessLibrary> {
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
        if found.len() < MOST_LIBRARIES && !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// The mapping of the beginning of a file, from a line of `/proc/PID/maps`.
pub(super) struct MappedFile<'a> {
    /// The addresses, as in the line.
    range: &'a str,
    pub(super) start: u64,
    /// The device of the file system, and the number of the file in it.
    device: (u32, u32),
    inode: u64,
    pub(super) path: &'a str,
}

/// Returns the mapping of the beginning of a file; `None` for any other line.
pub(super) fn parse_beginning(line: &str) -> Option<MappedFile<'_>> {
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
pub(super) fn read_mapped_file(folder: &Path, mapped: &MappedFile<'_>) -> io::Result<Vec<u8>> {
    let path = OFlags::PATH | OFlags::CLOEXEC;
    // The kernel opens the mapped file itself here, for those who may ask.
    let link = link_of_mapping(folder, mapped.range);
    let (file, is_certain) = match openat(CWD, link, path, Mode::empty()) {
        Ok(file) => (file, true),
        Err(_) => (file_in_root(folder, mapped.path)?, false),
    };
    // A user may be the file server, and never answer.
    let mount = mount_type(folder, &file)?;
    if mount.starts_with("fuse") {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let found = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    let is_regular = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
    // Root could be made to read a file that the process itself may not read.
    let must_match = rustix::process::geteuid().is_root() && !is_certain;
    let device = (found.stx_dev_major, found.stx_dev_minor);
    let is_same = device == mapped.device && found.stx_ino == mapped.inode;
    if !is_regular || (must_match && !is_same) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    read_bytes(format!("/proc/self/fd/{}", file.as_raw_fd()), MOST_FILE)
}

/// Returns the type of the file system of a process that has a file: `tmpfs`. No file server gets a request.
pub(super) fn mount_type(folder: &Path, file: &OwnedFd) -> io::Result<String> {
    let mount = format!("{} ", stat_file(file)?.stx_mnt_id);
    let mounts = read_text(folder.join("mountinfo"), MOST_MOUNTS);
    let mut lines = mounts.lines().filter(|line| line.starts_with(&mount));
    let fields = lines.find_map(|line| line.split_once(" - "));
    let name = fields.and_then(|(_, fields)| fields.split(' ').next());
    Ok(name.ok_or(io::ErrorKind::NotFound)?.to_owned())
}

/// Returns the facts about an unopened file. No file server gets a request.
pub(super) fn stat_file(file: &OwnedFd) -> io::Result<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    Ok(statx(file, "", flags, StatxFlags::MNT_ID)?)
}

/// Returns the file or link at a path in the file system of a process, unopened. The kernel reports paths without links,
/// so none is followed. Only names that the kernel has in memory are found, as it has those of files in use: the process
/// may have named a file server that never answers.
pub(super) fn file_in_root(folder: &Path, path: &str) -> io::Result<OwnedFd> {
    let root = openat(
        CWD,
        folder.join("root"),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
    let path = path.trim_start_matches('/');
    Ok(look_up(&root, path, within)?)
}

/// Returns the file or link with a name, unopened.
pub(super) fn look_up(
    folder: &OwnedFd,
    path: &str,
    how: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let how = how | ResolveFlags::NO_SYMLINKS;
    match openat2(folder, path, flags, Mode::empty(), how) {
        // Before Linux 5.12 there is no such way to look up a name.
        Err(Errno::NOSYS | Errno::INVAL) => openat(folder, path, flags, Mode::empty()),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn only_a_plain_file_that_no_link_leads_to_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("lib")).unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        fs::write(folder.path().join("mountinfo"), &mounts).unwrap();
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
        let of_users = mounts.replace(" - ", " - fuse.");
        fs::write(folder.path().join("mountinfo"), of_users).unwrap();
        assert!(read("/lib/libc.so.6", found.ino()).is_err());
    }
}
