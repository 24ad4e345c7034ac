//! The private folder of a run: links, the simulated node, what workers write. It goes with the
//! run; those that killed runs left behind go with the next one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "cuda-pitfalls-";
/// Locked as long as the run lives; the kernel unlocks it however the run ends.
const LOCK: &str = "lock";

/// A private folder, removed when it is dropped.
pub(super) struct Folder {
    folder: TempDir,
    _lock: File,
}

impl Folder {
    /// Makes a folder that only this user can enter, after removing those of dead runs.
    pub(super) fn create() -> io::Result<Folder> {
        remove_dead(&std::env::temp_dir());
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        // Locked before it bears its name: a folder whose lock is free is taken for dead.
        let unnamed = folder.path().join("unlocked");
        let lock = File::create(&unnamed)?;
        lock.lock()?;
        fs::rename(&unnamed, folder.path().join(LOCK))?;
        Ok(Folder { folder, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes this user's folders whose run is dead. What cannot be removed stays: tidying up is no
/// reason to fail.
fn remove_dead(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == rustix::process::geteuid().as_raw());
        let lock = is_ours.then(|| File::open(entry.path().join(LOCK)).ok()).flatten();
        if lock.is_some_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_runs_go_and_those_of_living_ones_stay() {
        let living = Folder::create().unwrap();
        let dead = tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap().keep();
        File::create(dead.join(LOCK)).unwrap();
        let unfinished = tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap();
        remove_dead(&std::env::temp_dir());
        assert!(living.path().join(LOCK).exists());
        assert!(!dead.exists());
        assert!(unfinished.path().exists());
    }
}
