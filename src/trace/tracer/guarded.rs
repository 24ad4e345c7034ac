//! A safe folder for those files of a trace whose paths the traced program keeps after the trace: its name can never
//! belong to another user.
//!
//! A process that outlives its trace keeps the paths of the trace's libraries in its environment. A user who can create
//! these paths again runs code in the process's next child. So the files are in a folder that only this user can write
//! to, and only this user or root can rename or remove a folder above it. The folder itself is never removed.

use std::fmt::Display;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use cuda_pitfalls_core::owner::is_anothers;

use cuda_pitfalls_instrument::forwarding::can_run;

/// The folder's name in a parent that belongs to this user or root.
const NAME: &str = "cuda-pitfalls";
/// The start of its name in a parent that all users share. A random part follows, so that no other user can have
/// created it before.
const SHARED_NAME: &str = "cuda-pitfalls-of-";
/// The permissions of the folder. Other users can open files by name, because a traced program may change its user;
/// they cannot list the folder.
const MODE: u32 = 0o711;

/// Permission bits.
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;
const PASSABLE_BY_ALL: u32 = 0o001;

/// A possible parent of the folder of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Candidate {
    /// A folder of this user or root; created if it is missing.
    Own(PathBuf),
    /// A folder that all users share.
    Shared(PathBuf),
}

/// A sentence that explains why the folder of a trace cannot be created.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct PlaceError(pub(super) String);

impl PlaceError {
    /// Returns the error for a path that the system denied access to, or whose content other users could change.
    pub(super) fn refused(path: &Path, why: impl Display) -> PlaceError {
        PlaceError(format!("{}: {why}", path.display()))
    }
}

/// Tries an action in one suitable folder after another, until it succeeds.
///
/// # Errors
/// Returns an error with the reason for each folder if the action failed in all of them.
pub(super) fn try_folders<T>(
    mut attempt: impl FnMut(&Path) -> Result<T, PlaceError>,
) -> Result<T, PlaceError> {
    let mut refused: Vec<PlaceError> = Vec::new();
    for place in candidate_folders(geteuid().is_root(), |name| {
        std::env::var_os(name).map(PathBuf::from)
    }) {
        match open(&place).and_then(|folder| attempt(&folder)) {
            Ok(done) => return Ok(done),
            Err(why) if refused.contains(&why) => {}
            Err(why) => refused.push(why),
        }
    }
    let reasons: Vec<String> = refused.into_iter().map(|why| why.0).collect();
    Err(PlaceError(format!(
        "no safe directory for the libraries of the trace: {}",
        reasons.join("; ")
    )))
}

/// Returns the candidates, in the order of the attempts.
fn candidate_folders(is_root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<Candidate> {
    let [cache, home, runtime, temporary] = ["XDG_CACHE_HOME", "HOME", "XDG_RUNTIME_DIR", "TMPDIR"]
        .map(|name| variable(name).filter(|path| path.is_absolute()));
    let mut all: Vec<Candidate> = cache.map(Candidate::Own).into_iter().collect();
    if is_root {
        // /run is empty after a restart, when no process uses a library any more. On some systems, nothing can be
        // executed there.
        all.extend(["/run", "/var/lib"].map(|path| Candidate::Own(PathBuf::from(path))));
    }
    all.extend(home.map(|home| Candidate::Own(home.join(".cache"))));
    all.extend(runtime.map(Candidate::Own));
    let shared = temporary
        .into_iter()
        .chain(["/var/tmp", "/tmp"].map(PathBuf::from));
    all.extend(shared.map(Candidate::Shared));
    all
}

/// Opens the folder at this place, and creates it if it does not exist.
fn open(place: &Candidate) -> Result<PathBuf, PlaceError> {
    let (Candidate::Own(base) | Candidate::Shared(base)) = place;
    if matches!(place, Candidate::Own(_)) && !base.exists() {
        let made = DirBuilder::new().mode(0o700).create(base);
        made.map_err(|error| PlaceError(format!("cannot create {}: {error}", base.display())))?;
    }
    // Resolves links, because others may own them.
    let base = fs::canonicalize(base).map_err(|error| PlaceError::refused(base, error))?;
    if let Some(byte) = base
        .as_os_str()
        .as_bytes()
        .iter()
        .find(|byte| b" :;$".contains(byte))
    {
        let (path, character) = (base.display(), char::from(*byte));
        let why = format!(
            "the name of {path} contains `{character}`, which LD_PRELOAD and LD_LIBRARY_PATH do not allow"
        );
        return Err(PlaceError(why));
    }
    for folder in base.ancestors() {
        let data =
            fs::symlink_metadata(folder).map_err(|error| PlaceError::refused(folder, error))?;
        // A program of root may change its user, and must still find its libraries then.
        let why = unsafe_ancestor(&data).or_else(|| {
            let is_closed = geteuid().is_root() && data.mode() & PASSABLE_BY_ALL == 0;
            is_closed.then_some("other users cannot enter it")
        });
        if let Some(why) = why {
            return Err(PlaceError::refused(folder, why));
        }
    }
    can_run(&base).map_err(|error| PlaceError(error.to_string()))?;
    match place {
        Candidate::Own(_) => open_private_folder(&base.join(NAME)),
        Candidate::Shared(_) => find_shared_folder(&base),
    }
}

/// Returns the reason why other users could replace a folder inside this one; `None` if they cannot.
fn unsafe_ancestor(data: &Metadata) -> Option<&'static str> {
    if !data.is_dir() {
        return Some("not a directory");
    }
    if is_anothers(data) {
        return Some("it belongs to another user");
    }
    // In a sticky folder, other users can remove only their own files.
    let is_open = data.mode() & WRITABLE_BY_OTHERS != 0 && data.mode() & STICKY == 0;
    is_open.then_some("others can write to it")
}

/// Returns `true` if this user owns a folder and no other user can write to it.
fn is_own(data: &Metadata) -> bool {
    data.is_dir() && data.uid() == geteuid().as_raw() && data.mode() & WRITABLE_BY_OTHERS == 0
}

/// Creates the folder at this path, or uses the existing one if it belongs to this user.
fn open_private_folder(path: &Path) -> Result<PathBuf, PlaceError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(PlaceError::refused(path, error)),
    }
    if !is_own(&fs::symlink_metadata(path).map_err(|error| PlaceError::refused(path, error))?) {
        return Err(PlaceError(format!(
            "{} exists but is not a directory owned by this user",
            path.display()
        )));
    }
    fs::set_permissions(path, Permissions::from_mode(MODE))
        .map_err(|error| PlaceError::refused(path, error))?;
    Ok(path.to_path_buf())
}

/// Returns this user's folder in one that all users share, and creates it if it does not exist. Folders of other users
/// are ignored.
fn find_shared_folder(base: &Path) -> Result<PathBuf, PlaceError> {
    let prefix = format!("{SHARED_NAME}{}-", geteuid().as_raw());
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes()));
    let mut known: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    known.sort();
    if let Some(found) = known
        .into_iter()
        .find_map(|path| existing_private_folder(&path))
    {
        return Ok(found);
    }
    let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(base);
    let made = made
        .map_err(|error| PlaceError::refused(base, error))?
        .keep();
    open_private_folder(&made)
}

fn existing_private_folder(path: &Path) -> Option<PathBuf> {
    is_own(&fs::symlink_metadata(path).ok()?).then(|| open_private_folder(path).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> tempfile::TempDir {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), Permissions::from_mode(0o755)).unwrap();
        base
    }

    #[test]
    fn a_name_that_is_taken_is_refused_and_never_followed() {
        let base = base();
        let elsewhere = base.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let name = base.path().join(NAME);
        std::os::unix::fs::symlink(&elsewhere, &name).unwrap();
        assert!(
            open(&Candidate::Own(base.path().into()))
                .unwrap_err()
                .to_string()
                .contains("is not a directory owned by this user")
        );
        fs::remove_file(&name).unwrap();
        fs::create_dir(&name).unwrap();
        fs::set_permissions(&name, Permissions::from_mode(0o777)).unwrap();
        assert!(
            open(&Candidate::Own(base.path().into()))
                .unwrap_err()
                .to_string()
                .contains("is not a directory owned by this user")
        );
        fs::set_permissions(&name, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(
            open(&Candidate::Own(base.path().into())).unwrap(),
            name.canonicalize().unwrap()
        );
        if geteuid().is_root() {
            std::os::unix::fs::chown(&name, Some(65_534), None).unwrap();
            assert!(
                open(&Candidate::Own(base.path().into()))
                    .unwrap_err()
                    .to_string()
                    .contains("is not a directory owned by this user")
            );
        } else {
            eprintln!("NOT TESTED: only root can make a folder of another user");
        }
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_taken_only_with_the_sticky_bit() {
        let base = base();
        let mode = |mode| fs::set_permissions(base.path(), Permissions::from_mode(mode)).unwrap();
        mode(0o777);
        assert!(
            open(&Candidate::Shared(base.path().into()))
                .unwrap_err()
                .to_string()
                .contains("others can write")
        );
        mode(0o1777);
        let first = open(&Candidate::Shared(base.path().into())).unwrap();
        assert_eq!(
            first,
            open(&Candidate::Shared(base.path().into())).unwrap(),
            "one is made, and used again"
        );
        // A link of that name is not our folder, so another folder is made.
        fs::remove_dir(&first).unwrap();
        std::os::unix::fs::symlink(base.path(), &first).unwrap();
        assert_ne!(first, open(&Candidate::Shared(base.path().into())).unwrap());
    }

    #[test]
    fn what_cannot_be_carried_in_a_variable_is_refused() {
        let base = base();
        for name in ["a b", "a:b", "a;b", "a$b"] {
            let place = Candidate::Own(base.path().join(name));
            assert!(
                open(&place)
                    .unwrap_err()
                    .to_string()
                    .contains("do not allow"),
                "{name}"
            );
        }
    }

    #[test]
    fn a_user_has_a_folder_of_his_own_before_one_of_all_users() {
        let none = candidate_folders(false, |_| None);
        assert_eq!(
            none,
            [
                Candidate::Shared("/var/tmp".into()),
                Candidate::Shared("/tmp".into())
            ]
        );
        let all = candidate_folders(true, |name| (name == "HOME").then(|| "/root".into()));
        assert_eq!(all[0], Candidate::Own("/run".into()));
        let relative = candidate_folders(false, |name| {
            (name == "XDG_CACHE_HOME").then(|| "cache".into())
        });
        assert_eq!(relative, none);
    }
}
