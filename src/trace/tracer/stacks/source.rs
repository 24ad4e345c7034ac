//! The user's own line, as its file has it.
//!
//! A program itself reports the file of its code, and may name any file. So the thread at the line opens the file: a
//! file that it may not read, for whatever reason, is not shown. A trace may be shared, so only files with the suffix
//! of a programming language are read. A read of such a path may never end; the caller does not wait for it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::super::message;
use crate::stack::is_entry_script;
use crate::{Frame, FrameOwner, MODULE, Stack};

/// The largest file that is read, in bytes.
const LARGEST: u64 = 4 << 20;
/// The maximum number of characters that are kept of a line.
const LONGEST: usize = 200;
const SUFFIXES: [&str; 19] = [
    "c", "cc", "cpp", "cu", "cuh", "cxx", "f", "f90", "go", "h", "hh", "hpp", "hxx", "inl", "jl",
    "py", "pyx", "rs", "zig",
];
/// Folders whose files are not source code.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Returns the line of the user's own code where the waiting thread is, without surrounding whitespace. None if it is
/// unknown, missing, or not readable for the thread.
pub(super) fn line(pid: u32, waiting: &UnixStream, stack: &Stack) -> Option<String> {
    let frame = stack
        .user_frame()
        .filter(|frame| frame.file.is_some())
        .or_else(|| stack.users_meanwhile())?;
    let Frame {
        file: Some(name),
        line: Some(number),
        ..
    } = frame
    else {
        return None;
    };
    read(SOURCE.open(pid, waiting, name)?, *number)
}

/// Marks a script that an installer wrote for a package as the package's code: Python begins in it.
pub(super) fn name_entry_script(pid: u32, waiting: &UnixStream, stack: &mut [Frame]) {
    let Some((first, called)) = stack.split_last_mut() else {
        return;
    };
    let name = first.file.as_deref().unwrap_or_default();
    if first.owner != FrameOwner::Program || first.function != MODULE || name.ends_with(".py") {
        return;
    }
    let Some(file) = SCRIPT.open(pid, waiting, name) else {
        return;
    };
    let mut text = String::new();
    if file.take(SCRIPT.largest).read_to_string(&mut text).is_ok() && is_entry_script(&text) {
        first.owner = FrameOwner::Package;
        first.package = called.iter().rev().find_map(|frame| frame.package.clone());
    }
}

/// A filter of the files that are read.
pub(super) struct Readable {
    /// Returns `true` for the names of these files.
    pub(super) is_wanted: fn(&Path) -> bool,
    /// The largest file that is read, in bytes.
    pub(super) largest: u64,
}

const SOURCE: Readable = Readable {
    is_wanted: is_source,
    largest: LARGEST,
};
/// The filter for scripts, whose text is not kept.
const SCRIPT: Readable = Readable {
    is_wanted: |_| true,
    largest: 16 << 10,
};

impl Readable {
    /// Opens a file by name, through the waiting thread.
    pub(super) fn open(&self, pid: u32, waiting: &UnixStream, name: &str) -> Option<File> {
        // Opening a device or a pipe can have an effect.
        let seen = fs::read_link(format!("/proc/{pid}/cwd")).ok()?.join(name);
        let is_other = fs::metadata(seen).is_ok_and(|data| !data.is_file());
        (self.is_one(Path::new(name)) && !is_other).then_some(())?;
        self.check_opened(message::file_of(waiting, name)?)
    }

    fn is_one(&self, path: &Path) -> bool {
        (self.is_wanted)(path) && !SYSTEM.iter().any(|folder| path.starts_with(folder))
    }

    /// Returns the opened file if it passes the filter: a link may lead elsewhere.
    fn check_opened(&self, file: File) -> Option<File> {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        let data = file.metadata().ok()?;
        (self.is_one(&path) && data.is_file() && (1..=self.largest).contains(&data.len()))
            .then_some(file)
    }
}

fn is_source(path: &Path) -> bool {
    path.extension()
        .is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known))
}

/// Returns a line of a file, numbered from 1.
fn read(file: File, number: u32) -> Option<String> {
    let mut lines = BufReader::new(file.take(LARGEST)).split(b'\n');
    let line = lines
        .nth(usize::try_from(number).ok()?.checked_sub(1)?)?
        .ok()?;
    trimmed_line(&String::from_utf8_lossy(&line))
}

/// Returns a line as it is kept; `None` if it is empty.
pub(super) fn trimmed_line(line: &str) -> Option<String> {
    let text: String = line.trim().chars().take(LONGEST).collect();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    fn at(path: &Path, number: u32) -> Option<String> {
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .ok()?;
        read(SOURCE.check_opened(file)?, number)
    }

    #[test]
    fn a_line_is_read_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.py");
        fs::write(
            &path,
            format!(
                "import torch\n    x = torch.zeros(1)\r\n\n{}\n",
                "y".repeat(5_000)
            ),
        )
        .unwrap();
        assert_eq!(at(&path, 2).as_deref(), Some("x = torch.zeros(1)"));
        assert_eq!(at(&path, 4).map(|line| line.len()), Some(LONGEST));
        for number in [0, 3, 5, u32::MAX] {
            assert_eq!(at(&path, number), None, "{number}");
        }
    }

    #[test]
    fn what_is_no_file_of_source_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo.py");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        assert_eq!(at(&fifo, 1), None, "nobody writes to it");
        let large = folder.path().join("large.py");
        File::create(&large).unwrap().set_len(LARGEST + 1).unwrap();
        let (secret, alias) = (folder.path().join("shadow"), folder.path().join("alias.py"));
        fs::write(&secret, "root:x:0\n").unwrap();
        std::os::unix::fs::symlink(&secret, &alias).unwrap();
        for path in [
            large,
            secret,
            alias,
            folder.path().to_owned(),
            "/proc/self/environ".into(),
            "/dev/zero".into(),
        ] {
            assert_eq!(at(&path, 1), None, "{}", path.display());
        }
    }
}
