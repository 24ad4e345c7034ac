//! The permission to send messages to the tracer: only the traced program and its descendants have it, as the kernel
//! identifies them.
//!
//! Orphans of the program become children of the tracer, so every descendant's chain of parents leads to it, even if
//! some of them have ended. A process that has been waited for can no longer be identified.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{geteuid, getpid, getuid};

use cuda_pitfalls_instrument::supervisor;

/// A socket option that rustix lacks.
const SO_PEERPIDFD: i32 = 77;
/// The maximum length of a chain of parents.
const MOST_PARENTS: usize = 4096;
/// The maximum number of walks, because a parent may end during one.
const TRIES: u32 = 4;

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// A process of the program, by its PID.
    Ours(u32),
    /// The process has ended. It may have been a process of the program.
    Gone,
    /// Any other process.
    Stranger,
}

/// The processes that have been identified.
pub(super) struct Peers {
    tracer: u32,
    /// The start time of each, in the kernel's unit, because PIDs are reused.
    known: BTreeMap<u32, u64>,
    /// The user IDs of the program's processes.
    users: BTreeSet<u32>,
}

impl Peers {
    pub(super) fn new() -> Peers {
        let users = [getuid(), geteuid()].map(rustix::process::Uid::as_raw);
        Peers {
            tracer: getpid().as_raw_nonzero().get() as u32,
            known: BTreeMap::new(),
            users: users.into(),
        }
    }

    /// Identifies the process at the other end of a connection.
    pub(super) fn identify_peer(&mut self, connection: &UnixStream) -> Peer {
        let Ok(credentials) = rustix::net::sockopt::socket_peercred(connection) else {
            return Peer::Gone;
        };
        let (pid, user) = (
            credentials.pid.as_raw_nonzero().get() as u32,
            credentials.uid.as_raw(),
        );
        let gone = if self.users.contains(&user) {
            Peer::Gone
        } else {
            Peer::Stranger
        };
        let Ok(handle) = handle(connection) else {
            return gone;
        };
        let started = match self.descendant_start(pid) {
            Some(Some(started)) => started,
            Some(None) => return Peer::Stranger,
            None => return gone,
        };
        // The PID cannot have been reused if the process has not been waited for.
        if handle.is_some_and(|handle| pid_of(&handle) != Some(pid)) {
            return gone;
        }
        self.known.insert(pid, started);
        self.users.insert(user);
        Peer::Ours(pid)
    }

    /// Returns the start time of a process if it is a descendant of ours; `None` if its chain of parents could not be
    /// followed, because one has ended or cannot be read.
    fn descendant_start(&self, pid: u32) -> Option<Option<u64>> {
        let mut found = None;
        for (_, started) in (0..TRIES).filter_map(|_| parent_and_start(pid)) {
            if self.known.get(&pid) == Some(&started) {
                return Some(Some(started));
            }
            match leads_to(pid, self.tracer, parent_and_start) {
                Some(true) => return Some(Some(started)),
                Some(false) => found = Some(None),
                None => {}
            }
        }
        found
    }
}

/// Returns `true` if the chain of parents of a process leads to another process; `None` if one of them cannot be read.
fn leads_to(pid: u32, ancestor: u32, stat: impl Fn(u32) -> Option<(u32, u64)>) -> Option<bool> {
    let mut at = pid;
    for _ in 0..MOST_PARENTS {
        match stat(at)? {
            (parent, _) if parent == ancestor => return Some(true),
            (parent, _) if parent > 1 => at = parent,
            _ => return Some(false),
        }
    }
    Some(false)
}

/// Returns the PIDs of the processes above this one, nearest first, up to the tracer, or to one whose parent cannot be
/// read.
pub(super) fn parents_of(pid: u32) -> Vec<u32> {
    let tracer = std::process::id();
    let mut all: Vec<u32> = Vec::new();
    let mut at = pid;
    while at != tracer && all.len() < MOST_PARENTS {
        let Some((parent, _)) = parent_and_start(at).filter(|(parent, _)| *parent > 0) else {
            break;
        };
        all.push(parent);
        at = parent;
    }
    all
}

pub(super) fn parent_and_start(pid: u32) -> Option<(u32, u64)> {
    let fields = supervisor::process_stat(pid)?;
    // `ppid` is field 4, `starttime` field 22.
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

/// Returns a handle on the process at the other end; `None` before Linux 6.5, which does not provide it.
///
/// # Errors
/// Returns an error if the process has been waited for.
fn handle(connection: &UnixStream) -> std::io::Result<Option<OwnedFd>> {
    let mut fd = -1i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: one int is written.
    let asked = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut length,
        )
    };
    if asked == 0 && fd >= 0 {
        // SAFETY: the kernel has just made the descriptor for us.
        return Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }));
    }
    match std::io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
        error => Err(error),
    }
}

/// Returns the PID of a process that has not been waited for.
fn pid_of(handle: &OwnedFd) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn parents_that_cannot_be_read_make_nobody_a_stranger() {
        let parents = |pid| {
            [(9, (5, 0)), (5, (2, 0)), (7, (1, 0)), (8, (6, 0))]
                .into_iter()
                .find(|process| process.0 == pid)
        };
        let leads = |pid| leads_to(pid, 2, |at| parents(at).map(|process| process.1));
        assert_eq!([9, 7, 8].map(leads), [Some(true), Some(false), None]);
    }

    #[test]
    fn the_processes_above_one_end_with_the_tracer() {
        let script = "sh -c 'echo $$; read line'; true";
        let piped = Stdio::piped;
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(piped())
            .stdout(piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(
            parents_of(line.trim().parse().unwrap()),
            [child.id(), std::process::id()]
        );
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    /// Runs Python in a process that connects. Returns how it was identified.
    fn connects(parent: u32, script: &str) -> (Peer, std::process::Child) {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let script = script.replace("PATH", &format!("{:?}", folder.path().join("socket")));
        let child = Command::new("python3")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let (connection, _) = listener.accept().unwrap();
        let mut peers = Peers {
            tracer: parent,
            known: BTreeMap::new(),
            users: BTreeSet::from([getuid().as_raw()]),
        };
        (peers.identify_peer(&connection), child)
    }

    const CONNECT: &str = "import os, socket, sys\ndef go():\n    s = socket.socket(socket.AF_UNIX); s.connect(PATH)\n    \
                           sys.stdin.read()\n";

    #[test]
    fn a_peer_that_the_kernel_does_not_name_may_have_been_ours() {
        let (pipe, _other) = std::io::pipe().unwrap();
        assert_eq!(
            Peers::new().identify_peer(&UnixStream::from(OwnedFd::from(pipe))),
            Peer::Gone
        );
    }

    #[test]
    fn a_process_is_ours_by_its_parents_and_a_stranger_otherwise() {
        let own = std::process::id();
        let (peer, mut child) = connects(own, &format!("{CONNECT}go()"));
        assert_eq!(peer, Peer::Ours(child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        // A grandchild belongs to the program, too.
        let (peer, mut child) = connects(
            own,
            &format!("{CONNECT}if os.fork() == 0: go()\nelse: os.wait()"),
        );
        assert!(
            matches!(peer, Peer::Ours(pid) if pid != child.id()),
            "{peer:?}"
        );
        drop(child.stdin.take());
        child.wait().unwrap();
        // The sender descends from us, but not from that process.
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let (peer, mut child) = connects(other.id(), &format!("{CONNECT}go()"));
        assert_eq!(peer, Peer::Stranger);
        drop(child.stdin.take());
        child.wait().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn who_has_been_waited_for_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let script =
            format!("import socket\ns = socket.socket(socket.AF_UNIX); s.connect({path:?})");
        assert!(
            Command::new("python3")
                .args(["-c", &script])
                .status()
                .unwrap()
                .success()
        );
        let (connection, _) = listener.accept().unwrap();
        assert_eq!(Peers::new().identify_peer(&connection), Peer::Gone);
    }
}
