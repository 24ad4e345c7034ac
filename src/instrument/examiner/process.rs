//! A running process, read without touching it: `/proc` and its memory. The process may be hostile: all reads are
//! bounded, and a child that hangs is ended by its parent.

mod access;
mod mapping;
mod stat;
mod variables;

use std::fs;
use std::path::{Path, PathBuf};

use cuda_pitfalls_core::holding::{ParentProcess, ProcessExamination};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::files::DeviceFiles;
use super::place::{is_filtered_in, status_field};
use crate::bounded::{read_bytes, read_text, read_whole};
pub(super) use stat::{ProcessStat, driver_threads, has_started_at};

const MOST_STATUS: u64 = 1 << 20;
const MOST_ENVIRONMENT: u64 = 1 << 20;
const MOST_NAME: u64 = 64;
const MOST_COMMAND: u64 = 4 << 10;
const MOST_MAPS: u64 = 64 << 20;

/// Returns the directory of a process.
pub(super) fn folder_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// Examines a process by the files in a directory, which has the layout of `/proc/PID`. Its device files are among
/// `devices`.
pub(super) fn examine_in(folder: &Path, pid: u32, devices: &DeviceFiles) -> ProcessExamination {
    let status = read_text(folder.join("status"), MOST_STATUS);
    let stat = ProcessStat::read(folder).unwrap_or_default();
    let environment = read_whole(folder.join("environ"), MOST_ENVIRONMENT).ok();
    let started_with = environment.map(|text| variables::parse_variables(&text));
    let mut maps = read_bytes(folder.join("maps"), MOST_MAPS).ok();
    maps = maps.filter(|maps| !maps.is_empty());
    let now = maps
        .as_ref()
        .and_then(|maps| variables::read_current(folder, maps));
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
        mapped_files: maps.map(|maps| devices.mapped(&maps)),
        open_files: devices.open(folder).ok(),
        closed_files: access::list_closed_files(folder, uid, &status),
        stack: None,
    }
}

/// Returns `true` if a process has a device file mapped.
pub(super) fn has_mappings(folder: &Path, devices: &DeviceFiles) -> bool {
    let maps = read_bytes(folder.join("maps"), MOST_MAPS);
    maps.is_ok_and(|maps| !devices.mapped(&maps).is_empty())
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

/// Returns `true` if the file of the program belongs to root.
fn is_program_of_root(folder: &Path) -> bool {
    let file = folder.join("exe");
    let program = statx(CWD, file, AtFlags::STATX_DONT_SYNC, StatxFlags::UID);
    program.is_ok_and(|program| program.stx_uid == 0)
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
}
