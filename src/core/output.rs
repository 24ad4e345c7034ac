//! Writes files with names from the user: completely or not at all, and through no link.

use std::fs::{File, OpenOptions, Permissions, canonicalize, read_link};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{Access, OFlags, access, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::owner::is_anothers;

/// The mode of a file that all users may read; the umask removes bits.
pub const EVERYBODY: u32 = 0o644;
/// The mode of a file that may contain a private trace.
pub const OWNER: u32 = 0o600;

/// Writes a file. The type of the file decides, however its path is spelled:
///
/// - An ordinary file is replaced atomically, so that nobody reads half of it.
/// - A device or a pipe is written to.
/// - A link is rejected, because another user may have put it there to have a different file overwritten. `/dev/stdout`
///   and similar links lead to a file that the caller opened; they are written to.
///
/// # Errors
/// Returns an error if the path is a link or a directory, if nobody reads the pipe, or if a system call fails.
pub fn replace(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    if is_descriptor_of_ours(path) {
        return write(&mut OpenOptions::new().append(true).open(path)?);
    }
    // Without waiting for a reader of a pipe.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    match OpenOptions::new()
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
    {
        // Another user could otherwise make the program wait forever at a pipe.
        Ok(file) if !file.metadata()?.is_file() && is_anothers(&file.metadata()?) => {
            Err(refused("it is another user's pipe or device"))
        }
        Ok(mut file) if !file.metadata()?.is_file() => {
            fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
            write(&mut file)
        }
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            Err(refused(LINK))
        }
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            Err(refused("no process reads this pipe"))
        }
        Err(error) if !is_replaceable(path) => Err(error),
        _ => {
            write_temporary(path, mode, write)?
                .persist(path)
                .map_err(|error| error.error)?;
            Ok(())
        }
    }
}

/// Checks that [`replace`] could write to this path, as far as that can be known before there is anything to write.
///
/// # Errors
/// Returns an error if the path is a link or a directory.
pub fn check(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(data) if data.is_symlink() && !is_descriptor_of_ours(path) => Err(refused(LINK)),
        Ok(data) if data.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Ok(()),
    }
}

/// Checks that [`replace`] can create the file that it needs in this directory.
///
/// # Errors
/// Returns an error if the directory does not exist, or if this user may not write to it.
pub fn check_folder(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        // A device or a pipe is written to directly.
        Ok(data) if !data.is_file() => Ok(()),
        _ => Ok(access(
            folder_of(path).join("."),
            Access::WRITE_OK | Access::EXEC_OK,
        )?),
    }
}

/// Returns the directory of a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

const LINK: &str = "it is a symbolic link; give the path of its target";

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Writes a JSON document like [`replace`], without a copy in memory: a report can be larger than the memory that the
/// program may use. All users may read it, because an audit reads reports that other users wrote.
///
/// # Errors
/// Returns the errors of [`replace`].
pub fn document(path: &Path, document: &impl Serialize) -> io::Result<()> {
    replace(path, EVERYBODY, |file| {
        let mut writer = BufWriter::new(file);
        serde_json::to_writer(&mut writer, document)?;
        writer.write_all(b"\n")?;
        writer.flush()
    })
}

/// Writes a file that must not exist yet.
///
/// # Errors
/// Returns `AlreadyExists`, or the error of the system. Then no file is left at the path.
pub fn create_file(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    // This check comes first, so that content that takes long to make is not made in vain.
    if path.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    write_temporary(path, mode, write)?
        .persist_noclobber(path)
        .map_err(|error| error.error)?;
    Ok(())
}

/// Returns `true` if the path is an ordinary file or does not exist. A file that this user may replace need not be
/// writable for them.
fn is_replaceable(path: &Path) -> bool {
    path.symlink_metadata().map_or_else(
        |error| error.kind() == io::ErrorKind::NotFound,
        |data| data.is_file(),
    )
}

/// Returns `true` if the path is an open descriptor of this process, such as `/dev/stdout` or `/dev/fd/63`.
fn is_descriptor_of_ours(path: &Path) -> bool {
    let Ok(ours) = canonicalize("/proc/self/fd") else {
        return false;
    };
    // Folders in `/dev` are open to everybody.
    let target = (path.parent() == Some(Path::new("/dev")))
        .then(|| read_link(path).ok())
        .flatten();
    let mut folders = [Some(path), target.as_deref()]
        .into_iter()
        .filter_map(|path| path?.parent());
    folders.any(|folder| canonicalize(folder).is_ok_and(|folder| folder == ours))
}

/// Writes the new content of a path to a file in the same directory, and flushes it.
fn write_temporary(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<NamedTempFile> {
    let mode = Permissions::from_mode(mode);
    let made = tempfile::Builder::new()
        .prefix(".cuda-pitfalls-")
        .permissions(mode)
        .tempfile_in(folder_of(path));
    let mut file = made.map_err(without_name)?;
    write(file.as_file_mut())?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Returns the error without the random name of the temporary file.
fn without_name(error: io::Error) -> io::Error {
    let said = error.to_string();
    io::Error::new(
        error.kind(),
        said.split(" at path ").next().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{FileTypeExt as _, chown, symlink};

    use super::*;

    fn put(path: &Path) -> io::Result<()> {
        check(path)?;
        replace(path, EVERYBODY, |file| file.write_all(b"new"))
    }

    #[test]
    fn what_a_path_leads_to_decides_and_not_its_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        symlink(&real, &link).unwrap();
        put(&link).unwrap_err();
        assert_eq!(fs::read_to_string(&real).unwrap(), "old");
        put(&real).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        put(&folder.path().join("fresh")).unwrap();
        put(folder.path()).unwrap_err();
        let nowhere = put(&folder.path().join("nowhere/file"))
            .unwrap_err()
            .to_string();
        assert!(!nowhere.contains(".cuda-pitfalls-"), "{nowhere}");
        // A device is a device regardless of the path to it, and a link to a device is a link.
        let devices = folder.path().join("devices");
        symlink("/dev", &devices).unwrap();
        for path in [
            "/dev/null",
            "/dev/../dev/null",
            devices.join("null").to_str().unwrap(),
        ] {
            put(Path::new(path)).unwrap();
            assert!(
                fs::symlink_metadata("/dev/null")
                    .unwrap()
                    .file_type()
                    .is_char_device(),
                "{path}"
            );
        }
        let null = folder.path().join("null");
        symlink("/dev/null", &null).unwrap();
        put(&null).unwrap_err();
        // Everybody can make links in this folder.
        let shared = tempfile::tempdir_in("/dev/shm").unwrap();
        let link = shared.path().join("link");
        symlink("/proc/self/fd/1", &link).unwrap();
        assert_eq!(put(&link).unwrap_err().to_string(), LINK);
        assert!(fs::symlink_metadata(&null).unwrap().is_symlink());
    }

    #[test]
    fn a_pipe_is_written_to_where_somebody_reads_it_and_so_is_a_descriptor_of_the_callers() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(
            put(&pipe).unwrap_err().to_string(),
            "no process reads this pipe"
        );
        let reader = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&pipe);
        let (ours, theirs) = io::pipe().unwrap();
        put(&pipe).unwrap();
        put(Path::new(&format!("/dev/fd/{}", theirs.as_raw_fd()))).unwrap();
        drop(theirs);
        assert_eq!(io::read_to_string(reader.unwrap()).unwrap(), "new");
        assert_eq!(io::read_to_string(ours).unwrap(), "new");
        if chown(&pipe, Some(65_534), None).is_err() {
            return println!("a pipe of another user is not tried: only root can make one");
        }
        let _reader = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&pipe);
        assert_eq!(
            put(&pipe).unwrap_err().to_string(),
            "it is another user's pipe or device"
        );
    }
}
