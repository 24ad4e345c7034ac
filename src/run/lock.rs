//! One run at a time on a GPU: a lock file for each GPU, by UUID.
//!
//! Two runs on one GPU would count each other's memory. The locks are the kernel's
//! (`flock`), so that one whose holder died is free. The folder is the same for every user of the
//! host and is not `TMPDIR`, which schedulers set per job. Where it cannot be shared (two containers),
//! the rules about co-tenants have to notice the other run (docs/how-it-measures.md).

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;
use crate::supervisor::Interrupt;
use crate::text::escape;

/// Where locks are, unless `--lock-dir` says otherwise.
pub const FOLDER: &str = "/tmp/cuda-pitfalls-locks";
/// How long a run waits for another, unless `--wait` says otherwise.
pub const WAIT: Duration = Duration::from_secs(600);

/// How often a lock is tried.
const EVERY: Duration = Duration::from_millis(100);
/// How often the user is told that the run still waits.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// What is read of a lock file at most: anybody may have written into it.
const MOST_WORDS: u64 = 200;

/// What the command line says about locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locking {
    /// The folder of the lock files; none to take no locks.
    pub folder: Option<PathBuf>,
    /// How long to wait for another run; zero to try once.
    pub wait: Duration,
}

impl Default for Locking {
    fn default() -> Locking {
        Locking { folder: Some(PathBuf::from(FOLDER)), wait: WAIT }
    }
}

/// The locks of a run, held until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Locks {
    _files: Vec<File>,
    /// What kept a lock from being taken at all, in words for the user.
    pub(super) notes: Vec<String>,
}

/// Why a run does not begin.
#[derive(Debug)]
pub(super) enum Refused {
    /// Another run has a GPU, and the time to wait is over. In words.
    Busy(String),
    /// The user stopped the run while it waited.
    Interrupted,
}

/// Takes the locks of these GPUs, in the order of their UUIDs so that two runs cannot wait for each
/// other. A folder that cannot be used is no reason not to measure: it is noted.
pub(super) fn take(
    locking: &Locking,
    uuids: &[String],
    interrupt: &mut Interrupt,
    tell: &mut dyn FnMut(&str),
) -> Result<Locks, Refused> {
    let mut locks = Locks::default();
    let Some(folder) = &locking.folder else { return Ok(locks) };
    let mut uuids = uuids.to_vec();
    uuids.sort();
    let started = clock::now_ns();
    for uuid in &uuids {
        match open(folder, uuid) {
            Ok(mut file) => {
                wait(&mut file, uuid, locking.wait, started, interrupt, tell)?;
                sign(&mut file);
                locks._files.push(file);
            }
            Err(error) => {
                let path = escape::terminal(&folder.to_string_lossy());
                locks.notes.push(format!(
                    "no lock on {uuid}: `{path}` cannot be used ({error}); another run on this GPU would disturb this one"
                ));
            }
        }
    }
    Ok(locks)
}

fn wait(
    file: &mut File,
    uuid: &str,
    most: Duration,
    started: u64,
    interrupt: &mut Interrupt,
    tell: &mut dyn FnMut(&str),
) -> Result<(), Refused> {
    let mut told: Option<Duration> = None;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(_)) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
        }
        let waited = Duration::from_nanos(clock::now_ns() - started);
        let holder = holder(file);
        if interrupt.check() {
            return Err(Refused::Interrupted);
        }
        if waited >= most {
            return Err(Refused::Busy(format!(
                "{uuid} is in use by {holder}; waited {} s of {} s (--wait)",
                waited.as_secs(),
                most.as_secs()
            )));
        }
        if told.is_none_or(|told| waited >= told + TELL_EVERY) {
            let seconds = waited.as_secs();
            tell(&format!("waiting for {holder} on {uuid}, {seconds} s so far, at most {} s", most.as_secs()));
            told = Some(waited);
        }
        std::thread::sleep(EVERY);
    }
}

/// The lock file of a GPU. Every user of the host can open it, and nothing but a regular file is one.
fn open(folder: &Path, uuid: &str) -> io::Result<File> {
    match DirBuilder::new().mode(0o1777).create(folder) {
        // The umask took from the mode, and others have to get in.
        Ok(()) => std::fs::set_permissions(folder, Permissions::from_mode(0o1777))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let path = folder.join(format!("{uuid}.lock"));
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let existing = || OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path);
    // Opened without O_CREAT first: the kernel may refuse O_CREAT on another user's file in such a folder.
    let file = match existing() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o666).custom_flags(flags);
            match options.open(&path) {
                Ok(file) => {
                    file.set_permissions(Permissions::from_mode(0o666))?;
                    file
                }
                // Another run made it at this moment.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => existing()?,
                Err(error) => return Err(error),
            }
        }
        other => other?,
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("the lock is not a regular file")) }
}

/// Writes who holds the lock, for those who wait.
fn sign(file: &mut File) {
    let words = format!(
        "the run of process {} (user {}), since {}",
        std::process::id(),
        rustix::process::geteuid().as_raw(),
        clock::utc()
    );
    // Whoever waits can do without it.
    let _ = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).and_then(|_| file.write_all(words.as_bytes()));
}

fn holder(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(MOST_WORDS).read_to_end(&mut bytes));
    let words = String::from_utf8_lossy(&bytes);
    if read.is_ok() && !words.trim().is_empty() { escape::terminal(words.trim()) } else { "another run".to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locking(folder: &Path, wait: Duration) -> Locking {
        Locking { folder: Some(folder.join("locks")), wait }
    }

    fn taken(locking: &Locking, uuids: &[&str]) -> (Result<Locks, Refused>, Vec<String>) {
        let mut said = Vec::new();
        let uuids: Vec<String> = uuids.iter().map(|uuid| (*uuid).to_string()).collect();
        let locks = take(locking, &uuids, &mut Interrupt::none(), &mut |words| said.push(words.to_string()));
        (locks, said)
    }

    #[test]
    fn a_gpu_has_one_holder_and_others_are_told_who() {
        let folder = tempfile::tempdir().unwrap();
        let at_once = locking(folder.path(), Duration::ZERO);
        let first = taken(&at_once, &["GPU-b", "GPU-a"]).0.unwrap();
        assert!(first.notes.is_empty());
        // Another GPU is free.
        assert!(taken(&at_once, &["GPU-c"]).0.is_ok());
        match taken(&at_once, &["GPU-a"]).0 {
            Err(Refused::Busy(words)) => {
                assert!(words.contains(&format!("process {}", std::process::id())), "{words}");
            }
            other => panic!("{other:?}"),
        }
        drop(first);
        assert!(taken(&at_once, &["GPU-a", "GPU-b"]).0.is_ok());
    }

    #[test]
    fn who_waits_gets_it_when_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let patient = locking(folder.path(), Duration::from_secs(30));
        let first = taken(&patient, &["GPU-a"]).0.unwrap();
        let ends = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            drop(first);
        });
        let (second, said) = taken(&patient, &["GPU-a"]);
        assert!(second.is_ok());
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("waiting for the run of process"), "{said:?}");
        ends.join().unwrap();
    }

    #[test]
    fn everybody_can_open_the_folder_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at_once = locking(folder.path(), Duration::ZERO);
        drop(taken(&at_once, &["GPU-a"]).0.unwrap());
        let locks = folder.path().join("locks");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&locks), 0o1777);
        assert_eq!(mode(&locks.join("GPU-a.lock")), 0o666);
        let target = folder.path().join("target");
        std::fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, locks.join("GPU-b.lock")).unwrap();
        let (linked, _) = taken(&at_once, &["GPU-b"]);
        assert_eq!(linked.unwrap().notes.len(), 1);
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
        // No locks at all, if the user says so.
        assert!(taken(&Locking { folder: None, wait: Duration::ZERO }, &["GPU-a"]).0.unwrap().notes.is_empty());
    }

    #[test]
    fn what_a_lock_file_says_is_escaped_and_short() {
        let folder = tempfile::tempdir().unwrap();
        let at_once = locking(folder.path(), Duration::ZERO);
        let first = taken(&at_once, &["GPU-a"]).0.unwrap();
        std::fs::write(folder.path().join("locks/GPU-a.lock"), format!("\x1b[31m{}", "x".repeat(5000))).unwrap();
        match taken(&at_once, &["GPU-a"]).0 {
            Err(Refused::Busy(words)) => assert!(words.len() < 500 && !words.contains('\x1b'), "{words}"),
            other => panic!("{other:?}"),
        }
        drop(first);
    }
}
