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
use crate::{Frame, Stack};

/// Larger files are not read.
const LARGEST: u64 = 4 << 20;
/// The most characters that are kept of a line.
const LONGEST: usize = 200;
const SUFFIXES: [&str; 19] = [
    "c", "cc", "cpp", "cu", "cuh", "cxx", "f", "f90", "go", "h", "hh", "hpp", "hxx", "inl", "jl", "py", "pyx", "rs",
    "zig",
];
/// Folders whose files are no source code.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The line of the user's own code at which the thread of a process stands that waits, without blanks around it. None if
/// it is not known, not there, or not the thread's to read.
pub(super) fn line(pid: u32, waiting: &UnixStream, stack: &Stack) -> Option<String> {
    let frame = stack.users().filter(|frame| frame.file.is_some()).or_else(|| stack.users_meanwhile())?;
    let Frame { file: Some(name), line: Some(number), .. } = frame else { return None };
    // To open a device or a pipe can do something.
    let seen = fs::read_link(format!("/proc/{pid}/cwd")).ok()?.join(name);
    let is_other = fs::metadata(seen).is_ok_and(|data| !data.is_file());
    (is_source(Path::new(name)) && !is_other).then_some(())?;
    read(message::file_of(waiting, name)?, *number)
}

fn is_source(path: &Path) -> bool {
    let has_suffix = path.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known));
    has_suffix && !SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// One line of a file, numbered from 1.
fn read(file: File, number: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let data = file.metadata().ok()?;
    if !is_source(&path) || !data.is_file() || data.len() == 0 || data.len() > LARGEST {
        return None;
    }
    let mut lines = BufReader::new(file.take(LARGEST)).split(b'\n');
    let line = lines.nth(usize::try_from(number).ok()?.checked_sub(1)?)?.ok()?;
    let text: String = String::from_utf8_lossy(&line).trim().chars().take(LONGEST).collect();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    fn at(path: &Path, number: u32) -> Option<String> {
        read(File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?, number)
    }

    #[test]
    fn a_line_is_read_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.py");
        fs::write(&path, format!("import torch\n    x = torch.zeros(1)\r\n\n{}\n", "y".repeat(5_000))).unwrap();
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
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(at(&fifo, 1), None, "nobody writes to it");
        let large = folder.path().join("large.py");
        File::create(&large).unwrap().set_len(LARGEST + 1).unwrap();
        let (secret, alias) = (folder.path().join("shadow"), folder.path().join("alias.py"));
        fs::write(&secret, "root:x:0\n").unwrap();
        std::os::unix::fs::symlink(&secret, &alias).unwrap();
        for path in [large, secret, alias, folder.path().to_owned(), "/proc/self/environ".into(), "/dev/zero".into()] {
            assert_eq!(at(&path, 1), None, "{}", path.display());
        }
    }
}
