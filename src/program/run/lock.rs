//! A lock file for each GPU, by UUID, so that one run at a time uses it.
//!
//! Two runs on one GPU would count each other's memory. The locks belong to the kernel (`flock`), so the lock of a run
//! that died is free. The directory is the same for every user of the host. It is not in `TMPDIR`, which schedulers set
//! per job. Two containers may not share the directory; then the rules about co-tenants have to notice the other run
//! (docs/how-it-measures.md).
//!
//! Any user can hold a lock in that directory. Therefore root's runs first lock each other out in a directory that only
//! root can write to. If the shared lock is still held at the end of the waiting time, they continue without it, so
//! nobody can stop a health check.

mod file;

use std::fs::{File, TryLockError};
use std::io;
use std::io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::console::Console;
use super::error::RunError;
use super::options::LockOptions;
use super::session::Session;
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_core::{clock, defaults};
use cuda_pitfalls_instrument::supervisor::Interrupt;
use file::{OWN, SHARED, holder, open, sign_lock_file};

/// The folder of root's own locks.
const ROOT_FOLDER: &str = "/run/cuda-pitfalls-locks";

const EVERY: Duration = Duration::from_millis(100);
/// Interval at which the run prints that it still waits.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Directories of the locks, and the time to wait for them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Locking {
    /// The folder of the lock files.
    folder: PathBuf,
    /// A directory that only this user can write to. A run that holds its locks waits for the shared ones only for a
    /// limited time.
    own: Option<PathBuf>,
    /// Time to wait for another run; zero tries once.
    wait: Duration,
}

impl Locking {
    /// Returns the locking in this directory. Root also uses a private directory.
    fn new(folder: PathBuf, wait: Duration) -> Locking {
        let is_shared = folder == Path::new(defaults::LOCK_FOLDER);
        let own =
            (is_shared && rustix::process::geteuid().is_root()).then(|| PathBuf::from(ROOT_FOLDER));
        Locking { folder, own, wait }
    }
}

/// The locks of a run, held until this is dropped.
#[derive(Debug, Default)]
pub(super) struct Locks {
    _files: Vec<File>,
    /// Reasons why no locks could be taken, as text for the user.
    pub(super) notes: Vec<String>,
}

/// Locks the GPUs of this run against other runs, until the locks are dropped.
pub(super) fn lock_gpus(
    options: &LockOptions,
    session: &mut Session,
    console: &Console,
) -> Result<Locks, RunError> {
    // Each run has its own simulated machine.
    if session.on != "cuda" || options.no_lock {
        return Ok(Locks::default());
    }
    let uuids = session.usable_gpus();
    let locking = Locking::new(options.lock_dir.clone(), options.wait);
    let mut tell = |words: &str| console.print_warnings(&[words.to_string()]);
    let interrupt = &mut session.supervisor.interrupt;
    let locks = take(&locking, &uuids, interrupt, &mut tell)?;
    console.print_warnings(&locks.notes);
    Ok(locks)
}

/// Takes the locks of these GPUs in the order of their UUIDs, so that two runs cannot wait for each other. A folder
/// that cannot be used does not stop the run: it is noted.
fn take(
    locking: &Locking,
    uuids: &[String],
    interrupt: &mut Interrupt,
    tell: &mut dyn FnMut(&str),
) -> Result<Locks, RunError> {
    let mut locks = Locks::default();
    let mut uuids = uuids.to_vec();
    uuids.sort();
    let started = clock::now_ns();
    for uuid in &uuids {
        let mut is_own_held = false;
        if let Some(own) = &locking.own {
            match open(own, uuid, OWN) {
                Ok(mut file) => {
                    wait_for_lock(&mut file, uuid, locking.wait, started, interrupt, tell)?;
                    sign_lock_file(&mut file);
                    locks._files.push(file);
                    is_own_held = true;
                }
                // A container may lack the folder; then root waits for the shared lock like everybody.
                Err(error)
                    if matches!(
                        error.kind(),
                        NotFound | PermissionDenied | ReadOnlyFilesystem
                    ) => {}
                Err(error) => locks.notes.push(unusable_folder(own, uuid, &error)),
            }
        }
        match open(&locking.folder, uuid, SHARED) {
            Ok(mut file) => {
                match wait_for_lock(&mut file, uuid, locking.wait, started, interrupt, tell) {
                    Ok(()) => {
                        sign_lock_file(&mut file);
                        locks._files.push(file);
                    }
                    Err(RunError::Busy(words)) if is_own_held => {
                        locks.notes.push(format!(
                            "{words}; continuing anyway, so the two runs may disturb each other"
                        ));
                    }
                    Err(refused) => return Err(refused),
                }
            }
            Err(error) => locks
                .notes
                .push(unusable_folder(&locking.folder, uuid, &error)),
        }
    }
    Ok(locks)
}

fn unusable_folder(folder: &Path, uuid: &str, error: &io::Error) -> String {
    let path = escape::terminal(&folder.to_string_lossy());
    format!(
        "no lock on {uuid}: `{path}` cannot be used ({error}); another run on this GPU would disturb this one"
    )
}

fn wait_for_lock(
    file: &mut File,
    uuid: &str,
    most: Duration,
    started: u64,
    interrupt: &mut Interrupt,
    tell: &mut dyn FnMut(&str),
) -> Result<(), RunError> {
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
            return Err(RunError::stopped_by(interrupt));
        }
        if waited >= most {
            return Err(RunError::Busy(format!(
                "{uuid} is in use by {holder}; waited {} s of {} s (--wait)",
                waited.as_secs(),
                most.as_secs()
            )));
        }
        if told.is_none_or(|told| waited >= told + TELL_EVERY) {
            let seconds = waited.as_secs();
            tell(&format!(
                "waiting for {holder} on {uuid}, {seconds} s so far, at most {} s",
                most.as_secs()
            ));
            told = Some(waited);
        }
        std::thread::sleep(EVERY);
    }
}

#[cfg(test)]
mod tests;
