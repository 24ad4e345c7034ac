//! The user's own line, as its file has it.
//!
//! A program says itself in which file its code is, and may name any file. So the thread that stands at the line opens
//! the file: what it may not read, whatever forbids that, is not shown. A trace may be handed on, so that only files with
//! the suffix of a programming language are read. What lies under the name may take for ever to read; the caller does not
//! wait for it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::super::message;
use crate::stack::is_entry_script;
use crate::{Frame, FrameOwner, MODULE, Stack};

/// Larger files are not read.
const LARGEST: u64 = 4 << 20;
/// The most characters that are kept of a line.
const LONGEST: usize = 200;
const SUFFIXES: [&str; 19] = [
    "c", "cc", "cpp", "cu", "cuh", "cxx", "f", "f90", "go", "h", "hh", "hpp", "hxx", "inl", "jl",
    "py", "pyx", "rs", "zig",
];
/// Folders whose files are no source code.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The line of the user's own code at which the thread of a process stands that waits, without blanks around it. None if
/// it is not known, not there, or not the thread's to read.
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

/// Says of a script that an installer wrote for a package that it is the package's: Python begins in it.
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

/// Which files are read.
pub(super) struct Readable {
    /// Whether a file's name is one of those.
    pub(super) is_wanted: fn(&Path) -> bool,
    /// Larger files are not read.
    pub(super) largest: u64,
}

const SOURCE: Readable = Readable {
    is_wanted: is_source,
    largest: LARGEST,
};
/// Nothing of a script is kept.
const SCRIPT: Readable = Readable {
    is_wanted: |_| true,
    largest: 16 << 10,
};

impl Readable {
    /// The file of a name, opened by the thread that waits.
    pub(super) fn open(&self, pid: u32, waiting: &UnixStream, name: &str) -> Option<File> {
        // To open a device or a pipe can do something.
        let seen = fs::read_link(format!("/proc/{pid}/cwd")).ok()?.join(name);
        let is_other = fs::metadata(seen).is_ok_and(|data| !data.is_file());
        (self.is_one(Path::new(name)) && !is_other).then_some(())?;
        self.check_opened(message::file_of(waiting, name)?)
    }

    fn is_one(&self, path: &Path) -> bool {
        (self.is_wanted)(path) && !SYSTEM.iter().any(|folder| path.starts_with(folder))
    }

    /// The file, if what was opened is one of those: a link may lead elsewhere.
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

/// One line of a file, numbered from 1.
fn read(file: File, number: u32) -> Option<String> {
    let mut lines = BufReader::new(file.take(LARGEST)).split(b'\n');
    let line = lines
        .nth(usize::try_from(number).ok()?.checked_sub(1)?)?
        .ok()?;
    shown(&String::from_utf8_lossy(&line))
}

/// A line as it is kept; none of a blank one.
pub(super) fn shown(line: &str) -> Option<String> {
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
