//! The private folder of a run or a trace: links, the simulated machine, and files that workers write. It is removed
//! at the end of the run. If a run was killed, the next one removes its folder.

use std::ffi::{CString, OsStr};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, openat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;
use tempfile::TempDir;

use crate::output;
use cuda_pitfalls_core::text::escape;

const PREFIX: &str = "cuda-pitfalls-";
/// The name of the lock file. The run locks it, and the kernel unlocks it however the run ends.
const LOCK: &str = "lock";
/// The name of the lock file before it is locked.
const UNLOCKED: &str = "unlocked";
/// The content of the lock file. A folder without it is not ours, whatever its name.
const MARK: &[u8] = b"private folder of a cuda-pitfalls run, format 1\n";
/// The mode of a private directory. Only this user may enter, because links in the directory decide which code workers
/// run.
const MODE: u32 = 0o700;
/// Number of consecutive attempts to read a directory after an interruption.
const MOST_INTERRUPTIONS: u32 = 100;
/// Age of a directory without a lock after which its creator is considered killed.
const ABANDONED: Duration = Duration::from_secs(3600);
/// The mode that lets other users open files whose names they know, because a traced program may change its user.
const OPEN_MODE: u32 = 0o711;

/// A private folder, removed when it is dropped.
pub struct Folder {
    folder: Option<TempDir>,
    _lock: File,
}

impl Folder {
    /// Creates a directory that only this user can enter, after removing those of dead runs.
    ///
    /// # Errors
    /// Returns an error if a system call fails, or if the path has a character that the loader would interpret. The
    /// error has the path.
    pub fn create() -> io::Result<Folder> {
        // An empty TMPDIR counts as unset, as for other programs.
        let parent = Some(std::env::temp_dir()).filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or_else(|| "/tmp".into());
        let made =
            std::path::absolute(&parent).and_then(|parent| Folder::create_in(&parent, false));
        made.map_err(|error| {
            let why = format!(
                "cannot create a private directory in `{}` (TMPDIR): {error}",
                parent.display()
            );
            io::Error::new(error.kind(), why)
        })
    }

    /// Creates a directory below `place`. If `is_open`, other users can open files in it if they know the names.
    ///
    /// # Errors
    /// Returns the errors of [`Folder::create`].
    pub fn create_in(place: &Path, is_open: bool) -> io::Result<Folder> {
        let mode = if is_open { OPEN_MODE } else { MODE };
        // The loader splits LD_LIBRARY_PATH at `:` and `;`, and expands `$` with the text after it.
        if let Some(byte) = place
            .as_os_str()
            .as_bytes()
            .iter()
            .find(|byte| b":;$".contains(byte))
        {
            let why = format!(
                "its name contains `{}`, which LD_LIBRARY_PATH does not allow",
                char::from(*byte)
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        remove_dead(place);
        let private = Permissions::from_mode(mode);
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(private.clone())
            .tempdir_in(place)?;
        match lock_folder(folder.path(), private) {
            Ok(lock) => Ok(Folder {
                folder: Some(folder),
                _lock: lock,
            }),
            Err(error) => {
                // Removed by name, because listing a directory needs a descriptor, and none may be left. Without its
                // lock no later run would remove it.
                let path = folder.keep();
                let _ = [UNLOCKED, LOCK].map(|name| fs::remove_file(path.join(name)));
                let _ = fs::remove_dir(&path);
                Err(error)
            }
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new(""), TempDir::path)
    }
}

/// Locks a new directory, and returns the lock.
fn lock_folder(folder: &Path, private: Permissions) -> io::Result<File> {
    // The umask may have removed permissions of the owner, too.
    fs::set_permissions(folder, private)?;
    // The file is locked and marked before it gets its name, because a folder with a free lock counts as dead.
    let unlocked = folder.join(UNLOCKED);
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unlocked)?;
    lock.lock()?;
    lock.write_all(MARK)?;
    fs::rename(&unlocked, folder.join(LOCK))?;
    Ok(lock)
}

impl Drop for Folder {
    /// Reports a folder that cannot be removed, because it has a random name in `TMPDIR`.
    fn drop(&mut self) {
        let Some(folder) = self.folder.take() else {
            return;
        };
        let path = folder.keep();
        if let Err(error) = remove_folder(&path) {
            let path = escape::terminal(&path.to_string_lossy());
            let warning = format!(
                "cuda-pitfalls: warning: cannot remove the private directory {path}: {error}"
            );
            output::print_line(&warning);
        }
    }
}

/// Removes a directory, the lock file last: by the lock, the next run recognizes a directory whose removal was
/// interrupted. This does not use the standard library, which panics if a directory cannot be closed: the function also
/// runs while a panic unwinds.
fn remove_folder(path: &Path) -> io::Result<()> {
    empty(&open(CWD, path)?, LOCK)?;
    unlinkat(CWD, path.join(LOCK), AtFlags::empty())?;
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

pub(crate) fn open(folder: impl AsFd, name: impl Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

/// Removes everything in a folder except the file with this name.
fn empty(folder: &OwnedFd, kept: &str) -> rustix::io::Result<()> {
    for name in names(folder)?
        .iter()
        .filter(|name| name.to_bytes() != kept.as_bytes())
    {
        match unlinkat(folder, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {
                empty(&open(folder, name)?, "")?;
                unlinkat(folder, name, AtFlags::REMOVEDIR)?;
            }
            removed => removed?,
        }
    }
    Ok(())
}

/// Returns the names in a directory. The standard library panics if a directory cannot be closed, and rustix's `Dir`
/// retries endlessly if a read is always interrupted.
pub(crate) fn names(folder: &OwnedFd) -> rustix::io::Result<Vec<CString>> {
    let (mut room, mut names, mut interrupted) = (Vec::with_capacity(32 << 10), Vec::new(), 0);
    let mut entries = RawDir::new(folder, room.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        match entry {
            Ok(entry) if [c".", c".."].contains(&entry.file_name()) => {}
            Ok(entry) => names.push(entry.file_name().to_owned()),
            Err(Errno::INTR) if interrupted < MOST_INTERRUPTIONS => interrupted += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(names)
}

/// Removes this user's folders of dead runs. A folder that cannot be removed stays, because cleaning up must not make
/// a run fail.
fn remove_dead(place: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = openat(CWD, place, flags, Mode::empty()) else {
        return;
    };
    for name in names(&folder).unwrap_or_default() {
        let name = name.to_bytes();
        let path = place.join(OsStr::from_bytes(name));
        if !name.starts_with(PREFIX.as_bytes()) {
            continue;
        }
        if let Some(_held) = lock_of_dead(&path) {
            let _ = remove_folder(&path);
        } else if own_metadata(&path)
            .and_then(|data| data.modified().ok()?.elapsed().ok())
            .is_some_and(|age| age > ABANDONED)
        {
            // Only an empty one is removed.
            let _ = fs::remove_dir(&path);
        }
    }
}

/// Returns the metadata of a directory that belongs to this user and has the mode of a run's directory.
fn own_metadata(folder: &Path) -> Option<Metadata> {
    let data = fs::symlink_metadata(folder).ok()?;
    let is_own = data.is_dir() && data.uid() == rustix::process::geteuid().as_raw();
    (is_own && [MODE, OPEN_MODE].contains(&(data.mode() & 0o7777))).then_some(data)
}

/// Returns the lock file of a directory that is ours and belongs to a dead run. The caller now holds the lock.
fn lock_of_dead(folder: &Path) -> Option<File> {
    let user = own_metadata(folder)?.uid();
    // Without waiting: opening a named pipe would wait for a writer that may never come.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let mut lock = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(folder.join(LOCK))
        .ok()?;
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

    fn folder(place: &Path, mode: u32, lock: Option<&[u8]>) -> std::path::PathBuf {
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(place)
            .unwrap()
            .keep();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        if let Some(text) = lock {
            fs::write(folder.join(LOCK), text).unwrap();
        }
        folder
    }

    #[test]
    fn folders_of_dead_runs_go_and_all_others_stay() {
        // Not in the folder that other processes clean up.
        let place = tempfile::tempdir().unwrap();
        let living = Folder::create_in(place.path(), false).unwrap();
        let dead = folder(place.path(), MODE, Some(MARK));
        let others: [(u32, Option<&[u8]>); 5] = [
            (MODE, None),
            (MODE, Some(b"")),
            (MODE, Some(b"mine")),
            (0o755, Some(MARK)),
            (MODE, None),
        ];
        let others = others.map(|(mode, lock)| folder(place.path(), mode, lock));
        let made = std::process::Command::new("mkfifo")
            .arg(others[4].join(LOCK))
            .status()
            .unwrap();
        assert!(made.success());
        // A run first makes an empty folder; if the run was killed then, the folder is old.
        let [abandoned, full] = [None, Some(&b""[..])].map(|lock| folder(place.path(), MODE, lock));
        for folder in [&abandoned, &full] {
            let old = std::time::SystemTime::now() - 2 * ABANDONED;
            File::open(folder).unwrap().set_modified(old).unwrap();
        }
        // This would wait forever if it opened the pipe.
        remove_dead(place.path());
        assert!(living.path().join(LOCK).exists());
        assert!(!dead.exists() && !abandoned.exists() && full.exists());
        for other in &others {
            assert!(other.exists(), "not ours: {}", other.display());
        }
    }

    #[test]
    fn a_folder_whose_removal_is_cut_short_is_still_known() {
        let place = tempfile::tempdir().unwrap();
        let cut = folder(place.path(), MODE, Some(MARK));
        fs::create_dir(cut.join("links")).unwrap();
        fs::write(cut.join("links/a"), "").unwrap();
        fs::write(cut.join("tally"), "").unwrap();
        empty(&open(CWD, &cut).unwrap(), LOCK).unwrap();
        assert_eq!(
            fs::read_dir(&cut).unwrap().count(),
            1,
            "the lock alone is left"
        );
        assert!(lock_of_dead(&cut).is_some());
        remove_dead(place.path());
        assert!(!cut.exists());
    }

    #[test]
    fn only_the_owner_may_enter_and_a_panic_removes_it() {
        let panicked = std::thread::spawn(|| {
            let folder = Folder::create().unwrap();
            fs::create_dir_all(folder.path().join("links/lock")).unwrap();
            assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o7777, MODE);
            std::panic::panic_any(folder.path().to_owned());
        });
        let path = panicked
            .join()
            .unwrap_err()
            .downcast::<std::path::PathBuf>()
            .unwrap();
        assert!(!path.exists());
    }
}
