//! The private folder of a run or a trace: links, the simulated machine, and files that workers write. It is removed
//! at the end of the run. If a run was killed, the next one removes its folder.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use crate::output;
use cuda_pitfalls_core::text::escape;

const PREFIX: &str = "cuda-pitfalls-";
/// The name of the lock file. The run locks it, and the kernel unlocks it however the run ends.
const LOCK: &str = "lock";
/// The content of the lock file. A folder without it is not ours, whatever its name.
const MARK: &[u8] = b"private folder of a cuda-pitfalls run, format 1\n";
/// Only this user may enter, because links in the folder decide which code workers run.
const MODE: u32 = 0o700;
/// Other users may open files whose names they know: a traced program may change its user.
const OPEN_MODE: u32 = 0o711;

/// A private folder, removed when it is dropped.
pub struct Folder {
    folder: Option<TempDir>,
    _lock: File,
}

impl Folder {
    /// Makes a folder that only this user can enter, after removing those of dead runs.
    ///
    /// # Errors
    /// The system refused, or the path has a character that the loader would interpret.
    pub fn create() -> io::Result<Folder> {
        Folder::create_in(&std::path::absolute(std::env::temp_dir())?, false)
    }

    /// Makes a folder below `place`. If `is_open`, other users can open files in it whose names they know.
    ///
    /// # Errors
    /// As for [`Folder::create`].
    pub fn create_in(place: &Path, is_open: bool) -> io::Result<Folder> {
        let mode = if is_open { OPEN_MODE } else { MODE };
        // The loader splits LD_LIBRARY_PATH at `:` and `;`, and expands what follows `$`.
        if let Some(byte) = place.as_os_str().as_bytes().iter().find(|byte| b":;$".contains(byte)) {
            let why = format!("its name has a `{}`, which LD_LIBRARY_PATH cannot carry", char::from(*byte));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        remove_dead(place);
        let private = Permissions::from_mode(mode);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(private.clone()).tempdir_in(place)?;
        // The umask may have removed permissions of the owner, too.
        fs::set_permissions(folder.path(), private)?;
        // The file is locked and marked before it gets its name, because a folder with a free lock counts as dead.
        let unnamed = folder.path().join("unlocked");
        let mut lock = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&unnamed)?;
        lock.lock()?;
        lock.write_all(MARK)?;
        fs::rename(&unnamed, folder.path().join(LOCK))?;
        Ok(Folder { folder: Some(folder), _lock: lock })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new(""), TempDir::path)
    }
}

impl Drop for Folder {
    /// Reports a folder that cannot be removed, because it has a random name in `TMPDIR`.
    fn drop(&mut self) {
        let Some(folder) = self.folder.take() else { return };
        let path = folder.keep();
        if let Err(error) = remove(&path) {
            let path = escape::terminal(&path.to_string_lossy());
            let warning = format!("cuda-pitfalls: warning: the private folder {path} could not be removed: {error}");
            output::tell(&warning);
        }
    }
}

/// Removes a folder without the standard library, which panics if a directory cannot be closed. That must not change
/// the exit code.
fn remove(path: &Path) -> io::Result<()> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let removed = std::panic::catch_unwind(|| empty(path).and_then(|()| fs::remove_dir_all(path)));
    std::panic::set_hook(hook);
    removed.unwrap_or_else(|_| Err(io::Error::other("a directory could not be closed")))
}

/// Removes everything in a folder, the lock file last: by the lock, the next run recognises a folder whose removal was
/// interrupted.
fn empty(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes this user's folders of dead runs. A folder that cannot be removed stays, because cleaning up must not make
/// a run fail.
fn remove_dead(place: &Path) {
    // Not with the standard library, which panics if a directory cannot be closed.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = rustix::fs::open(place, flags, Mode::empty()) else { return };
    let Ok(entries) = rustix::fs::Dir::new(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_bytes();
        let path = place.join(OsStr::from_bytes(name));
        if name.starts_with(PREFIX.as_bytes())
            && let Some(_held) = lock_of_dead(&path)
        {
            let _ = remove(&path);
        }
    }
}

/// The lock file of a folder that is ours and whose run is dead. The caller now holds the lock.
fn lock_of_dead(folder: &Path) -> Option<File> {
    let user = rustix::process::geteuid().as_raw();
    let data = fs::symlink_metadata(folder).ok()?;
    if !data.is_dir() || data.uid() != user || ![MODE, OPEN_MODE].contains(&(data.mode() & 0o7777)) {
        return None;
    }
    // Without waiting: opening a named pipe would wait for a writer that may never come.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let mut lock = OpenOptions::new().read(true).custom_flags(flags).open(folder.join(LOCK)).ok()?;
    let data = lock.metadata().ok()?;
    if !data.is_file() || data.uid() != user || data.len() != MARK.len() as u64 {
        return None;
    }
    let mut mark = vec![0; MARK.len()];
    lock.read_exact(&mut mark).ok()?;
    (mark == MARK && lock.try_lock().is_ok()).then_some(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(mode: u32, lock: Option<&[u8]>) -> std::path::PathBuf {
        folder_in(&std::env::temp_dir(), mode, lock)
    }

    fn folder_in(place: &Path, mode: u32, lock: Option<&[u8]>) -> std::path::PathBuf {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place).unwrap().keep();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        if let Some(text) = lock {
            fs::write(folder.join(LOCK), text).unwrap();
        }
        folder
    }

    #[test]
    fn folders_of_dead_runs_go_and_all_others_stay() {
        let living = Folder::create().unwrap();
        let dead = folder(MODE, Some(MARK));
        let others =
            [folder(MODE, None), folder(MODE, Some(b"")), folder(MODE, Some(b"mine")), folder(0o755, Some(MARK))];
        let pipe = folder(MODE, None);
        let made = std::process::Command::new("mkfifo").arg(pipe.join(LOCK)).status().unwrap();
        assert!(made.success());
        // Would wait for ever if it opened the pipe.
        remove_dead(&std::env::temp_dir());
        assert!(living.path().join(LOCK).exists());
        assert!(!dead.exists());
        for other in others.iter().chain([&pipe]) {
            assert!(other.exists(), "not ours: {}", other.display());
            fs::remove_dir_all(other).unwrap();
        }
    }

    #[test]
    fn a_folder_whose_removal_is_cut_short_is_still_known() {
        // Not in a folder that other tests clean up.
        let place = tempfile::tempdir().unwrap();
        let cut = folder_in(place.path(), MODE, Some(MARK));
        fs::create_dir(cut.join("links")).unwrap();
        fs::write(cut.join("links/a"), "").unwrap();
        fs::write(cut.join("tally"), "").unwrap();
        empty(&cut).unwrap();
        assert_eq!(fs::read_dir(&cut).unwrap().count(), 1, "the lock alone is left");
        assert!(lock_of_dead(&cut).is_some());
        remove_dead(place.path());
        assert!(!cut.exists());
    }

    #[test]
    fn only_the_owner_may_enter() {
        let folder = Folder::create().unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o7777, MODE);
    }
}
