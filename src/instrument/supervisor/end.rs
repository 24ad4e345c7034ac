//! Ending processes: SIGTERM, then SIGKILL, then their children.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::CWD;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper,
    waitpid,
};

use super::error::SupervisorError;
use super::spawn::Child;
use crate::bounded::read_text;
use crate::folder;
use cuda_pitfalls_core::clock;

/// The most of a `stat` file that is read, in bytes.
const MOST_STAT: u64 = 4 << 10;
/// Time that processes adopted from a worker have to exit by themselves.
const ORPHAN_GRACE_MS: u64 = 300;
/// The time from SIGKILL until a process counts as unkillable.
const KILL_GRACE_MS: u64 = 5_000;
/// The time from a process's end until its exit status must be available.
const REAP_MS: u64 = 2_000;
/// The time from SIGTERM to SIGKILL for a helper, and for a worker after a second Ctrl-C.
pub(super) const SHORT_GRACE_MS: u64 = 100;

/// Makes this process the new parent of orphaned descendants, so that `setsid` or a double fork does not let any
/// escape.
///
/// # Errors
/// Returns an error if a system call fails.
pub fn adopt_orphans() -> Result<(), SupervisorError> {
    set_child_subreaper(Some(getpid())).map_err(|error| {
        SupervisorError::Unwatched(format!("prctl(PR_SET_CHILD_SUBREAPER) failed ({error})"))
    })
}

/// Waits for the end of a process, at most this many milliseconds. False if it still runs.
pub(super) fn has_ended(child: &mut Child, milliseconds: u64) -> bool {
    let deadline = clock::running_ns() + milliseconds * 1_000_000;
    loop {
        let left = deadline.saturating_sub(clock::running_ns());
        let mut fds = vec![PollFd::new(&child.pidfd, PollFlags::IN)];
        // A process that writes much must not block on a full pipe while it has to end.
        fds.extend(
            [&child.stdout, &child.stderr]
                .into_iter()
                .flatten()
                .filter_map(|tail| {
                    tail.fd()
                        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                }),
        );
        let failed = poll(&mut fds, Some(&to_timespec(left.min(clock::SLICE_NS)))).is_err();
        let ended = fds.first().is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        for tail in [&mut child.stdout, &mut child.stderr].into_iter().flatten() {
            tail.read_arrived();
        }
        if ended || left == 0 {
            return ended;
        }
        if failed {
            // Avoids a busy loop; the deadline ends it.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Returns the exit status of a process that has ended; `None` if it is not available in time, for instance because a
/// debugger holds the process.
pub(super) fn reap_child(child: &Child) -> Option<ExitStatus> {
    let deadline = clock::running_ns() + REAP_MS * 1_000_000;
    loop {
        match child.handle.try_wait() {
            Ok(Some(output)) => return Some(output.status),
            Ok(None) | Err(_) if clock::running_ns() >= deadline => return None,
            Ok(None) | Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Converts a number of nanoseconds for `poll`.
pub fn to_timespec(nanoseconds: u64) -> Timespec {
    Timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as i64,
        tv_nsec: (nanoseconds % 1_000_000_000) as _,
    }
}

/// Ends a process: SIGTERM, a grace period in milliseconds, SIGKILL for its entire group, and a bounded wait. Returns
/// the signals that were sent, and `true` if the process is gone.
pub(super) fn kill_child(child: &mut Child, grace_ms: u64) -> (Vec<String>, bool) {
    let mut sent = vec!["SIGTERM".to_string()];
    let _ = kill_process_group(child.pid, Signal::TERM);
    // A stopped process handles SIGTERM only after SIGCONT.
    let _ = kill_process_group(child.pid, Signal::CONT);
    if has_ended(child, grace_ms) {
        return (sent, true);
    }
    sent.push("SIGKILL".to_string());
    let _ = kill_process_group(child.pid, Signal::KILL);
    (sent, has_ended(child, KILL_GRACE_MS))
}

/// Ends and reaps a helper process. False if it could not be ended.
pub(super) fn finish_child(child: &mut Child, milliseconds: u64) -> bool {
    (has_ended(child, milliseconds) || kill_child(child, SHORT_GRACE_MS).1)
        && reap_child(child).is_some()
}

/// Returns the PIDs of the children of a process. `self` refers to this process.
pub fn children_of(pid: impl Display) -> BTreeSet<i32> {
    let tasks = format!("/proc/{pid}/task");
    let names = folder::open(CWD, &tasks)
        .and_then(|tasks| folder::names(&tasks))
        .unwrap_or_default();
    let listed = names.iter().map(|task| {
        std::fs::read_to_string(format!("{tasks}/{}/children", task.to_string_lossy()))
    });
    let listed: Vec<String> = listed.filter_map(Result::ok).collect();
    listed
        .iter()
        .flat_map(|listed| listed.split_whitespace())
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// Returns the fields of the kernel's `stat` of a process from the third on: the second may contain any text
/// (proc_pid_stat(5)).
pub fn process_stat(pid: impl Display) -> Option<Vec<String>> {
    read_stat(Path::new(&format!("/proc/{pid}")))
}

/// Returns the same for the process or the thread with this directory.
pub(crate) fn read_stat(folder: &Path) -> Option<Vec<String>> {
    let text = read_text(folder.join("stat"), MOST_STAT);
    let fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    Some(fields.map(str::to_owned).collect())
}

/// Returns `true` if a process runs. A process that has ended but was not waited for yet does not count.
pub fn is_alive(pid: u32) -> bool {
    process_stat(pid).is_some_and(|fields| {
        fields
            .first()
            .is_some_and(|state| !["Z", "X"].contains(&state.as_str()))
    })
}

/// Waits for processes that we adopted from a worker, and kills the remaining ones. `before` are the children from
/// before the attempt, and `ours` the worker and the sampler, which may have been restarted. Returns the number of
/// processes that had to be killed, and `true` if all are gone.
pub fn reap_orphans(before: &BTreeSet<i32>, ours: &[i32]) -> (u32, bool) {
    let patience = clock::running_ns() + ORPHAN_GRACE_MS * 1_000_000;
    let mut found = stray_children(before, ours);
    while !found.is_empty() && clock::running_ns() < patience {
        reap_all(&found);
        std::thread::sleep(Duration::from_millis(2));
        found = stray_children(before, ours);
    }
    let leaked = found.len() as u32;
    let deadline = clock::running_ns() + KILL_GRACE_MS * 1_000_000;
    while !found.is_empty() && clock::running_ns() < deadline {
        for pid in &found {
            let _ = kill_process(*pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
        reap_all(&found);
        // Killing a process makes us the parent of its children.
        found = stray_children(before, ours);
    }
    (leaked, found.is_empty())
}

/// Returns the children of this process that it did not start itself and that did not exist before.
pub fn stray_children(before: &BTreeSet<i32>, ours: &[i32]) -> Vec<Pid> {
    let mut children = children_of("self");
    children.retain(|pid| !before.contains(pid) && !ours.contains(pid));
    children.into_iter().filter_map(Pid::from_raw).collect()
}

/// Takes the exit status of those that have ended.
pub fn reap_all(pids: &[Pid]) {
    for pid in pids {
        let _ = waitpid(Some(*pid), WaitOptions::NOHANG);
    }
}

/// Returns the number of processes of our memory cgroup that the kernel has killed for lack of memory; `None` if that
/// cannot be read.
pub(super) fn oom_kills() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let events = std::fs::read_to_string(format!("/sys/fs/cgroup{path}/memory.events")).ok()?;
    events
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?
        .trim()
        .parse()
        .ok()
}
