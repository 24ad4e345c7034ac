//! The lock file of a GPU: opening it safely in a directory that others may write to, and its content.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::text::escape;

/// Maximum number of bytes read from a lock file, because any user may have written into it.
const MOST_WORDS: u64 = 200;

/// The permissions of a folder of locks and of its files.
#[derive(Clone, Copy)]
pub(super) struct LockAccess {
    folder: u32,
    file: u32,
}

/// Access for all users: each creates locks, and none removes those of others.
pub(super) const SHARED: LockAccess = LockAccess {
    folder: 0o1777,
    file: 0o666,
};
/// Only this user has access.
pub(super) const OWN: LockAccess = LockAccess {
    folder: 0o700,
    file: 0o600,
};

/// Opens the lock file of a GPU, in a folder that is made if it does not exist.
///
/// The owner of the folder can remove its files, and everybody who can write to it can put any name there. So the
/// folder is checked before use, whatever the kernel protects (`fs.protected_*`): it must be no link, must belong to
/// root or to us, and must have the sticky bit if others can write to it. Files are opened relative to the checked
/// folder, and only a regular file with a single name is a lock.
pub(super) fn open(folder: &Path, uuid: &str, access: LockAccess) -> io::Result<File> {
    let is_new = match rustix::fs::mkdir(folder, Mode::from_raw_mode(access.folder)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => io::Error::other("it is a link, or not a directory"),
        error => error.into(),
    })?;
    let found = rustix::fs::fstat(&opened)?;
    let (owner, own) = (found.st_uid, rustix::process::geteuid().as_raw());
    if owner != 0 && owner != own {
        let why = format!(
            "it belongs to user {owner}, who could take locks away; root can recreate it with mode 1777"
        );
        return Err(io::Error::other(why));
    }
    if is_new {
        // The umask may have removed permissions that others need.
        rustix::fs::fchmod(&opened, Mode::from_raw_mode(access.folder))?;
    } else if found.st_mode & 0o022 != 0 && found.st_mode & 0o1000 == 0 {
        return Err(io::Error::other(
            "others can write to it, and it has no sticky bit: `chmod 1777` sets it",
        ));
    }
    let name = format!("{}.lock", uuid.replace('/', "_"));
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let existing = || rustix::fs::openat(&opened, &name, flags, Mode::empty());
    // First without O_CREAT: the kernel may refuse O_CREAT on another user's file in such a folder.
    let file = match existing() {
        Err(Errno::NOENT) => {
            let mode = Mode::from_raw_mode(access.file);
            match rustix::fs::openat(&opened, &name, flags | OFlags::CREATE | OFlags::EXCL, mode) {
                Ok(file) => {
                    rustix::fs::fchmod(&file, mode)?;
                    file
                }
                // Another run made it at the same moment.
                Err(Errno::EXIST) => existing()?,
                Err(error) => return Err(error.into()),
            }
        }
        other => other?,
    };
    let found = rustix::fs::fstat(&file)?;
    // A second name may be that of a file of ours, which would be overwritten.
    if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_nlink == 1 {
        Ok(File::from(file))
    } else {
        Err(io::Error::other(
            "the lock is not a regular file with one name",
        ))
    }
}

/// Writes the holder into the lock file, for runs that wait.
pub(super) fn sign_lock_file(file: &mut File) {
    let words = format!(
        "the run of process {} (user {}), since {}",
        std::process::id(),
        rustix::process::geteuid().as_raw(),
        clock::utc_now()
    );
    // The text is only a help for those who wait.
    let _ = file
        .set_len(0)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .and_then(|_| file.write_all(words.as_bytes()));
}

/// Returns the holder of the lock, according to the file.
pub(super) fn holder(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.take(MOST_WORDS).read_to_end(&mut bytes));
    let words = String::from_utf8_lossy(&bytes);
    if read.is_ok() && !words.trim().is_empty() {
        escape::terminal(words.trim())
    } else {
        "another run".to_string()
    }
}
