//! One run at a time on a GPU: a lock file for each GPU, by UUID.
//!
//! Two runs on one GPU would count each other's memory. The locks are the kernel's
//! (`flock`), so that one whose holder died is free. The folder is the same for every user of the
//! host and is not `TMPDIR`, which schedulers set per job. Where it cannot be shared (two containers),
//! the rules about co-tenants have to notice the other run (docs/how-it-measures.md).
//!
//! Any user can hold a lock of that folder. Root's runs keep one another off by locks in a folder of root's own, and go
//! on without the shared one when the time to wait is over, so that nobody silences a health check.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::clock;
use crate::supervisor::Interrupt;
use crate::text::escape;

/// Where locks are, unless `--lock-dir` says otherwise.
pub const FOLDER: &str = "/tmp/cuda-pitfalls-locks";
/// Where root's own locks are.
const ROOT_FOLDER: &str = "/run/cuda-pitfalls-locks";
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
    /// A folder that only this user can write to: who has its locks does not wait for those of the other without end.
    pub own: Option<PathBuf>,
    /// How long to wait for another run; zero to try once.
    pub wait: Duration,
}

impl Locking {
    /// Locks in a folder. Root has a folder of its own beside the one that all users share.
    pub fn new(folder: PathBuf, wait: Duration) -> Locking {
        let is_shared = folder == Path::new(FOLDER);
        let own = (is_shared && rustix::process::geteuid().is_root()).then(|| PathBuf::from(ROOT_FOLDER));
        Locking { folder: Some(folder), own, wait }
    }

    /// No locks at all.
    pub fn none() -> Locking {
        Locking { folder: None, own: None, wait: Duration::ZERO }
    }
}

impl Default for Locking {
    fn default() -> Locking {
        Locking::new(PathBuf::from(FOLDER), WAIT)
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
        let mut is_own_held = false;
        if let Some(own) = &locking.own {
            match open(own, uuid, OWN) {
                Ok(mut file) => {
                    wait(&mut file, uuid, locking.wait, started, interrupt, tell)?;
                    sign(&mut file);
                    locks._files.push(file);
                    is_own_held = true;
                }
                // A container may have no such place: then the shared lock is obeyed like anybody's.
                Err(error) if is_absent(&error) => {}
                Err(error) => locks.notes.push(unusable(own, uuid, &error)),
            }
        }
        match open(folder, uuid, SHARED) {
            Ok(mut file) => match wait(&mut file, uuid, locking.wait, started, interrupt, tell) {
                Ok(()) => {
                    sign(&mut file);
                    locks._files.push(file);
                }
                Err(Refused::Busy(words)) if is_own_held => {
                    locks.notes.push(format!("{words}; this run goes on beside it, which it may disturb"));
                }
                Err(refused) => return Err(refused),
            },
            Err(error) => locks.notes.push(unusable(folder, uuid, &error)),
        }
    }
    Ok(locks)
}

fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), NotFound | PermissionDenied | ReadOnlyFilesystem)
}

fn unusable(folder: &Path, uuid: &str, error: &io::Error) -> String {
    let path = escape::terminal(&folder.to_string_lossy());
    format!("no lock on {uuid}: `{path}` cannot be used ({error}); another run on this GPU would disturb this one")
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

/// Who may do what in a folder of locks.
#[derive(Clone, Copy)]
struct Access {
    folder: u32,
    file: u32,
}

/// Everybody makes locks, and nobody removes those of another.
const SHARED: Access = Access { folder: 0o1777, file: 0o666 };
const OWN: Access = Access { folder: 0o700, file: 0o600 };

/// The lock file of a GPU, in a folder that is made if it is not there.
///
/// Whoever owns the folder can take its files away, and whoever can write to it can put any name there, so it is looked at
/// before it is used, whatever the kernel protects (`fs.protected_*`): no link, root's or our own, and with the sticky
/// bit where others can write. Its files are opened in the folder that was looked at, and nothing but a regular file
/// with one name is a lock.
fn open(folder: &Path, uuid: &str, access: Access) -> io::Result<File> {
    let is_new = match rustix::fs::mkdir(folder, Mode::from_raw_mode(access.folder)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => io::Error::other("it is a link, or no folder"),
        error => error.into(),
    })?;
    let found = rustix::fs::fstat(&opened)?;
    let (owner, own) = (found.st_uid, rustix::process::geteuid().as_raw());
    if owner != 0 && owner != own {
        let why =
            format!("it belongs to user {owner}, who could take locks away; root can make it anew with mode 1777");
        return Err(io::Error::other(why));
    }
    if is_new {
        // The umask took from the mode, and others have to get in.
        rustix::fs::fchmod(&opened, Mode::from_raw_mode(access.folder))?;
    } else if found.st_mode & 0o022 != 0 && found.st_mode & 0o1000 == 0 {
        return Err(io::Error::other("others can write to it, and it has no sticky bit: `chmod 1777` sets it"));
    }
    let name = format!("{}.lock", uuid.replace('/', "_"));
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let existing = || rustix::fs::openat(&opened, &name, flags, Mode::empty());
    // Opened without O_CREAT first: the kernel may refuse O_CREAT on another user's file in such a folder.
    let file = match existing() {
        Err(Errno::NOENT) => {
            let mode = Mode::from_raw_mode(access.file);
            match rustix::fs::openat(&opened, &name, flags | OFlags::CREATE | OFlags::EXCL, mode) {
                Ok(file) => {
                    rustix::fs::fchmod(&file, mode)?;
                    file
                }
                // Another run made it at this moment.
                Err(Errno::EXIST) => existing()?,
                Err(error) => return Err(error.into()),
            }
        }
        other => other?,
    };
    let found = rustix::fs::fstat(&file)?;
    // A second name may be that of a file of ours, which would be written over.
    if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_nlink == 1 {
        Ok(File::from(file))
    } else {
        Err(io::Error::other("the lock is not a regular file with one name"))
    }
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

    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn locking(folder: &Path, wait: Duration) -> Locking {
        Locking { folder: Some(folder.join("locks")), own: None, wait }
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
        let patient = locking(folder.path(), Duration::from_secs(600));
        let mut first = taken(&patient, &["GPU-a"]).0.ok();
        let mut said = Vec::new();
        // It is free as soon as the other has said that it waits.
        let second = take(&patient, &["GPU-a".to_owned()], &mut Interrupt::none(), &mut |words| {
            said.push(words.to_owned());
            drop(first.take());
        });
        assert!(second.is_ok());
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("waiting for the run of process"), "{said:?}");
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
        assert!(taken(&Locking::none(), &["GPU-a"]).0.unwrap().notes.is_empty());
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

    #[test]
    fn who_has_a_folder_of_its_own_is_kept_off_by_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let shared = locking(folder.path(), Duration::ZERO);
        let root = Locking { own: Some(folder.path().join("own")), ..shared.clone() };
        let held = taken(&shared, &["GPU-a"]).0.unwrap();
        let (first, _) = taken(&root, &["GPU-a", "GPU-b"]);
        let first = first.unwrap();
        let [note] = first.notes.as_slice() else { panic!("{:?}", first.notes) };
        assert!(
            note.starts_with("GPU-a is in use by the run of process") && note.contains("goes on beside it"),
            "{note}"
        );
        let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("own"), mode("own/GPU-a.lock")), (0o700, 0o600));
        // Another of its own runs is waited for, and it keeps others off where it can.
        assert!(matches!(taken(&root, &["GPU-a"]).0, Err(Refused::Busy(_))));
        assert!(matches!(taken(&shared, &["GPU-b"]).0, Err(Refused::Busy(_))));
        drop((held, first));
        assert!(taken(&root, &["GPU-a"]).0.unwrap().notes.is_empty());
    }

    #[test]
    fn a_folder_that_others_could_change_holds_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let at_once = locking(folder.path(), Duration::ZERO);
        let locks = folder.path().join("locks");
        let note = || {
            let locks = taken(&at_once, &["GPU-a"]).0.unwrap();
            assert!(locks._files.is_empty(), "{:?}", locks.notes);
            locks.notes.concat()
        };
        // A link, to a folder that would do.
        let target = folder.path().join("target");
        std::fs::create_dir(&target).unwrap();
        std::fs::set_permissions(&target, Permissions::from_mode(0o1777)).unwrap();
        std::os::unix::fs::symlink(&target, &locks).unwrap();
        assert!(note().contains("it is a link, or no folder"), "{}", note());
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0, "the link was followed");
        std::fs::remove_file(&locks).unwrap();
        // Without the sticky bit.
        std::fs::rename(&target, &locks).unwrap();
        std::fs::set_permissions(&locks, Permissions::from_mode(0o777)).unwrap();
        assert!(note().contains("no sticky bit"), "{}", note());
        std::fs::set_permissions(&locks, Permissions::from_mode(0o1777)).unwrap();
        // A second name of a file of ours.
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        std::fs::hard_link(&precious, locks.join("GPU-a.lock")).unwrap();
        assert!(note().contains("with one name"), "{}", note());
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
        std::fs::remove_file(locks.join("GPU-a.lock")).unwrap();
        // Another user's.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&locks, Some(65534), None).unwrap();
            assert!(note().contains("it belongs to user 65534"), "{}", note());
            std::os::unix::fs::chown(&locks, Some(0), None).unwrap();
        } else {
            println!("a folder of another user is not tried: only root can make one");
        }
        assert!(taken(&at_once, &["GPU-a"]).0.unwrap().notes.is_empty());
    }
}
