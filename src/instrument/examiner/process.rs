//! A running process, read without touching it: `/proc` and its memory. The process may be hostile: all reads are
//! bounded, and a child that hangs is ended by its parent.

mod access;
mod mapping;
mod stat;
mod variables;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cuda_pitfalls_core::holding::{ParentProcess, ProcessExamination};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::process::{Gid, geteuid};
use rustix::thread::set_thread_groups;

use super::files::{DeviceFiles, MOST_ATTEMPTS};
use super::place::{is_filtered_in, status_field};
use crate::bounded::{read_text, read_whole};
pub(super) use stat::{ProcessStat, driver_threads, has_started_at};

const MOST_STATUS: u64 = 1 << 20;
const MOST_ENVIRONMENT: u64 = 1 << 20;
const MOST_NAME: u64 = 64;
const MOST_COMMAND: u64 = 4 << 10;
const MOST_MAPS: u64 = 64 << 20;
/// The user and the group without rights.
const NOBODY: u32 = 65_534;

/// Returns the directory of a process.
pub(super) fn folder_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// Examines a process by the files in a directory, which has the layout of `/proc/PID`. Its device files are among
/// `devices`.
pub(super) fn examine_in(folder: &Path, pid: u32, devices: &DeviceFiles) -> ProcessExamination {
    let status = read_text(folder.join("status"), MOST_STATUS);
    let stat = ProcessStat::read(folder).unwrap_or_default();
    let (memory, maps) = match read_maps(folder) {
        Ok((memory, maps)) if !maps.is_empty() => (memory, Some(maps)),
        _ => (folder.to_owned(), None),
    };
    let environment = read_whole(memory.join("environ"), MOST_ENVIRONMENT).ok();
    let started_with = environment.and_then(|text| variables::parse_variables(&text));
    let now = maps
        .as_ref()
        .and_then(|maps| variables::read_current(&memory, maps));
    let uid = real_id(&status, "Uid");
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
        started_unix_ms: stat.started_unix_ms(),
        threads: status_field(&status, "Threads").and_then(|number| number.parse().ok()),
        driver_threads: Vec::new(),
        is_filtered: is_filtered_in(&status),
        mps_folder: access::mps_folder(folder, now.as_ref().or(started_with.as_ref()), uid),
        started_with,
        now,
        libraries: maps.as_ref().map(|maps| mapping::list_libraries(maps)),
        mapped_files: maps.map(|maps| devices.mapped(&memory, &maps).counts),
        open_files: devices.open(folder).ok(),
        closed_files: access::list_closed_files(folder, uid, &status),
        stack: None,
    }
}

/// Returns `true` if a process has a device file mapped.
///
/// # Errors
/// Returns an error if its memory map cannot be read, is too long, or changes faster than it can be read.
pub(super) fn has_mappings(folder: &Path, devices: &DeviceFiles) -> io::Result<bool> {
    let mut moved: Option<BTreeSet<_>> = None;
    for _ in 0..MOST_ATTEMPTS {
        let (memory, maps) = read_maps(folder)?;
        let mut found = devices.mapped(&memory, &maps);
        if !found.counts.is_empty() {
            return Ok(true);
        }
        // A file that was read in one attempt need not be read in the next.
        if let Some(moved) = moved {
            found.moved.retain(|file| moved.contains(file));
        }
        if found.moved.is_empty() {
            return Ok(false);
        }
        moved = Some(found.moved);
    }
    Err(io::Error::other(
        "its memory changes faster than it can be read",
    ))
}

/// Returns the memory map of a process with the directory of the thread that has it: if the first one has ended, another
/// one, which the kernel does not list there but finds.
fn read_maps(folder: &Path) -> io::Result<(PathBuf, Vec<u8>)> {
    for _ in 0..MOST_ATTEMPTS {
        let first = read_whole(folder.join("maps"), MOST_MAPS)?;
        if !first.is_empty() {
            return Ok((folder.to_owned(), first));
        }
        let mut has_others = false;
        for entry in fs::read_dir(folder.join("task"))?.flatten() {
            let thread = folder.with_file_name(entry.file_name());
            has_others |= thread != folder;
            match read_whole(thread.join("maps"), MOST_MAPS) {
                Ok(maps) if !maps.is_empty() => return Ok((thread, maps)),
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Err(error),
                // It has ended.
                _ => {}
            }
        }
        if !has_others {
            return Ok((folder.to_owned(), first));
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Takes the rights of a process's user to files, and keeps those to its memory: the process chooses which files a
/// reader of its stack opens. Returns `false` if root could not become that user.
pub(super) fn take_file_rights(pid: u32) -> bool {
    if !geteuid().is_root() {
        return true;
    }
    let status = read_text(folder_of(pid).join("status"), MOST_STATUS);
    let (Some(mut user), Some(mut group)) = (single_id(&status, "Uid"), single_id(&status, "Gid"))
    else {
        return false;
    };
    let mut groups = Vec::new();
    if user == 0 && has_own_mounts(pid) {
        // A link of a container's root would lead to a file of the host, with all rights.
        (user, group) = (NOBODY, NOBODY);
    } else {
        let numbers = status_field(&status, "Groups").unwrap_or_default();
        for number in numbers.split_whitespace() {
            groups.extend(number.parse().ok().map(Gid::from_raw));
        }
    }
    if set_thread_groups(&groups).is_err() {
        return false;
    }
    // SAFETY: the calls change the rights of this thread, and return the old number; no user has the last one.
    unsafe {
        libc::setfsgid(group);
        libc::setfsuid(user);
        libc::setfsgid(u32::MAX) as u32 == group && libc::setfsuid(u32::MAX) as u32 == user
    }
}

/// Returns the user or group id of a process; `None` if it has several: the program of another user that it runs now may
/// give its rights up, and run one of its own user.
fn single_id(status: &str, name: &str) -> Option<u32> {
    let mut ids = status_field(status, name)?.split_whitespace();
    let id = ids.next()?;
    if ids.all(|other| other == id) {
        id.parse().ok()
    } else {
        None
    }
}

fn has_own_mounts(pid: u32) -> bool {
    let own = fs::read_link("/proc/self/ns/mnt").ok();
    own.is_none() || fs::read_link(folder_of(pid).join("ns/mnt")).ok() != own
}

fn read_parent(pid: u32) -> ParentProcess {
    let folder = folder_of(pid);
    let stat = ProcessStat::read(&folder).unwrap_or_default();
    let status = read_text(folder.join("status"), MOST_STATUS);
    let is_first = pid == 1 || inner_pid(&status) == Some(1);
    // The service manager of a user is a child of the first process.
    let name = read_text(folder.join("comm"), MOST_NAME);
    let is_manager = stat.parent == Some(1) && name.trim() == "systemd";
    ParentProcess {
        pid,
        session: stat.session,
        is_reaper: is_first || is_manager,
    }
}

/// Returns the PID of a process in its own PID namespace, if that is not the reader's.
fn inner_pid(status: &str) -> Option<u32> {
    // The first one is that in the reader's.
    let inner = status_field(status, "NSpid")?.split_whitespace().skip(1);
    inner.last()?.parse().ok()
}

fn program(folder: &Path) -> String {
    match fs::read_link(folder.join("exe")) {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(_) => {
            let name = read_text(folder.join("comm"), MOST_NAME);
            name.trim().to_owned()
        }
    }
}

/// Returns `true` if the file of the program belongs to root, and has that name in the reader's file system too: in a
/// file system of its own, a process can give any name to it.
fn is_program_of_root(folder: &Path) -> bool {
    let file = folder.join("exe");
    let flags = AtFlags::STATX_DONT_SYNC;
    let Ok(program) = statx(CWD, file, flags, StatxFlags::empty()) else {
        return false;
    };
    if program.stx_uid != 0 {
        return false;
    }
    let named = mapping::file_in_root(Path::new("/proc/self"), &self::program(folder));
    named
        .and_then(|named| mapping::stat_file(&named))
        .is_ok_and(|named| {
            let devices = (named.stx_dev_major, named.stx_dev_minor);
            devices == (program.stx_dev_major, program.stx_dev_minor)
                && named.stx_ino == program.stx_ino
        })
}

/// Returns the first bytes of a command line, with spaces between the arguments.
fn command(folder: &Path) -> String {
    let line = read_text(folder.join("cmdline"), MOST_COMMAND);
    line.trim_end_matches('\0').replace('\0', " ")
}

fn control_groups(folder: &Path) -> Vec<String> {
    let mut groups = Vec::new();
    for line in read_text(folder.join("cgroup"), MOST_STATUS).lines() {
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
    real_id(&read_text(folder.join("status"), MOST_STATUS), "Uid")
}

/// Returns the first of the user or group ids of a process, by the text of its `status` file.
fn real_id(status: &str, name: &str) -> Option<u32> {
    let mut ids = status_field(status, name)?.split_whitespace();
    ids.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::files::DEVICES;

    use super::*;

    #[test]
    fn of_a_process_that_is_gone_nothing_is_known() {
        let seen = examine_in(&folder_of(u32::MAX), u32::MAX, &DeviceFiles::new(DEVICES));
        assert_eq!(
            (seen.started_with, seen.now, seen.libraries, seen.open_files),
            (None, None, None, None)
        );
        assert_eq!((seen.uid, seen.threads), (None, None));
    }

    #[test]
    fn memory_of_another_thread_is_read_after_the_first_ended() {
        let folder = tempfile::tempdir().unwrap();
        let (process, thread) = (folder.path().join("1"), folder.path().join("2"));
        fs::create_dir_all(process.join("task/2")).unwrap();
        fs::create_dir(&thread).unwrap();
        fs::write(process.join("maps"), "").unwrap();
        fs::write(thread.join("maps"), "1000-2000").unwrap();
        assert_eq!(
            read_maps(&process).unwrap(),
            (thread, b"1000-2000".to_vec())
        );
    }

    #[test]
    fn memory_map_that_is_too_long_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let maps = fs::File::create(folder.path().join("maps")).unwrap();
        maps.set_len(MOST_MAPS + 1).unwrap();
        let files = DeviceFiles::new(DEVICES);
        assert!(has_mappings(folder.path(), &files).is_err());
        // The first thread has ended, and another one has the map.
        let process = folder.path().join("1");
        fs::create_dir_all(process.join("task/2")).unwrap();
        fs::write(process.join("maps"), "").unwrap();
        assert!(has_mappings(&process, &files).is_err(), "it ended as well");
        fs::create_dir(folder.path().join("2")).unwrap();
        fs::rename(folder.path().join("maps"), folder.path().join("2/maps")).unwrap();
        let error = has_mappings(&process, &files).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn mapping_that_always_moves_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let links = folder.path().join("map_files");
        fs::create_dir(&links).unwrap();
        fs::write(links.join("1000-2000"), "").unwrap();
        let line = "RANGE rw-s 00000000 00:06 117     /tmp/foo\n";
        let maps =
            ["00003000-00004000", "00001000-00002000"].map(|range| line.replace("RANGE", range));
        fs::write(folder.path().join("maps"), maps.concat()).unwrap();
        let files = DeviceFiles::new(DEVICES);
        assert!(!has_mappings(folder.path(), &files).unwrap());
        fs::write(folder.path().join("maps"), &maps[0]).unwrap();
        assert!(has_mappings(folder.path(), &files).is_err());
    }

    #[test]
    fn rights_of_another_user_leave_roots_files_closed() {
        use std::io::Read as _;
        use std::os::unix::fs::PermissionsExt as _;
        use std::os::unix::process::CommandExt as _;
        if !geteuid().is_root() {
            return;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
        let mut user = std::process::Command::new("sleep");
        user.arg("60").uid(NOBODY).gid(NOBODY);
        // As in a container. Some containers may not do this.
        let mut container = std::process::Command::new("unshare");
        container.args(["--mount", "sh", "-c", "echo; exec sleep 60"]);
        for (mut command, opens_memory) in [(user, true), (container, false)] {
            let mut child = command
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let is_started =
                opens_memory || child.stdout.take().unwrap().read(&mut [0]).unwrap() > 0;
            let (pid, path) = (child.id(), file.path().to_owned());
            // The rights are those of one thread.
            let reader = std::thread::spawn(move || {
                let memory = folder_of(pid).join("mem");
                let before = fs::File::open(&path).is_ok();
                let is_taken = take_file_rights(pid);
                let after = [&path, &memory].map(|file| fs::File::open(file).is_ok());
                (before, is_taken, after)
            });
            let found = reader.join().unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            if is_started {
                assert_eq!(found, (true, true, [false, opens_memory]));
            }
        }
        assert_eq!(single_id("Uid:\t7\t7\t7\t7", "Uid"), Some(7));
        assert_eq!(single_id("Uid:\t7\t0\t0\t0", "Uid"), None);
    }

    #[test]
    fn program_of_root_has_the_same_name_for_the_reader() {
        let folder = tempfile::tempdir().unwrap();
        let (exe, other) = (folder.path().join("exe"), folder.path().join("other"));
        let program = fs::canonicalize("/usr/bin/env").unwrap();
        std::os::unix::fs::symlink(&program, &other).unwrap();
        for (target, is_named) in [(&program, true), (&other, false)] {
            std::os::unix::fs::symlink(target, &exe).unwrap();
            assert_eq!(is_program_of_root(folder.path()), is_named, "{target:?}");
            fs::remove_file(&exe).unwrap();
        }
    }
}
