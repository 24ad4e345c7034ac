//! The user's own line, as its file has it.
//!
//! A program says itself in which file its code is, and may name any file. So its tracer reads none that the program
//! could not read: only where both have the same rights and see the same files. A trace may be handed on, so that only
//! files with the suffix of a programming language are read. What lies under the name may take for ever to read; the
//! caller does not wait for it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{Frame, Stack};

/// Larger files are not read.
const LARGEST: u64 = 4 << 20;
/// The most characters that are kept of a line.
const LONGEST: usize = 200;
/// What a process may do, in the kernel's words: lines of its status. A sandbox made with Landlock or seccomp needs
/// `NoNewPrivs`, or shows in the number of filters.
const RIGHTS: [&str; 6] = ["Uid:", "Gid:", "Groups:", "CapEff:", "NoNewPrivs:", "Seccomp_filters:"];
const SUFFIXES: [&str; 19] = [
    "c", "cc", "cpp", "cu", "cuh", "cxx", "f", "f90", "go", "h", "hh", "hpp", "hxx", "inl", "jl", "py", "pyx", "rs",
    "zig",
];
/// Folders whose files are no source code.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The line of the user's own code at which a thread of this process stands, without blanks around it. None if it is not
/// known, not there, or not ours to read.
pub(super) fn line(pid: u32, stack: &Stack) -> Option<String> {
    let frame = stack.users().filter(|frame| frame.file.is_some()).or_else(|| stack.users_meanwhile())?;
    let Frame { file: Some(file), line: Some(number), .. } = frame else { return None };
    (may_read_as(pid) == Some(true)).then_some(())?;
    read(&absolute(pid, file)?, *number)
}

/// The path of a file as the process sees it; none for what is no file, such as `<string>`.
fn absolute(pid: u32, file: &str) -> Option<PathBuf> {
    if file.is_empty() || file.starts_with('<') {
        return None;
    }
    let path = fs::read_link(format!("/proc/{pid}/cwd")).ok()?.join(file).canonicalize().ok()?;
    let is_source = path.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known));
    (is_source && !SYSTEM.iter().any(|folder| path.starts_with(folder))).then_some(path)
}

/// Whether a process has exactly our rights and sees our files.
fn may_read_as(pid: u32) -> Option<bool> {
    let rights = |process: &str| -> Option<Vec<String>> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let kept = status.lines().filter(|line| RIGHTS.iter().any(|right| line.starts_with(right)));
        Some(kept.map(str::to_owned).collect())
    };
    let files = |process: &str| {
        let root = fs::metadata(format!("/proc/{process}/root")).ok()?;
        Some((fs::read_link(format!("/proc/{process}/ns/mnt")).ok()?, root.dev(), root.ino()))
    };
    let process = pid.to_string();
    Some(rights(&process)? == rights("self")? && files(&process)? == files("self")?)
}

/// One line of a file, numbered from 1.
fn read(path: &Path, number: u32) -> Option<String> {
    // To open a device can do something. The name may also come to mean another file now: a link is not followed, a FIFO
    // does not make us wait, and what was opened is looked at again.
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let data = file.metadata().ok()?;
    if !data.is_file() || data.len() == 0 || data.len() > LARGEST {
        return None;
    }
    let mut lines = BufReader::new(file.take(LARGEST)).split(b'\n');
    let line = lines.nth(usize::try_from(number).ok()?.checked_sub(1)?)?.ok()?;
    let text: String = String::from_utf8_lossy(&line).trim().chars().take(LONGEST).collect();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;
    use crate::fixture;

    fn at(file: &Path, number: u32) -> Option<String> {
        let frame = Frame::python("main", &file.to_string_lossy(), number);
        line(std::process::id(), &Stack { frames: vec![frame], ..Stack::default() })
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
        assert_eq!(at(&folder.path().join("gone.py"), 1), None);
        assert_eq!(line(std::process::id(), &fixture::stack(&[("main", "<string>", 1)])), None);
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

    #[test]
    fn a_process_with_other_rights_is_not_read_for() {
        let may_read_as_sleeper = |gives_up: bool| {
            let mut sleeper = Command::new("sleep");
            sleeper.arg("60");
            // SAFETY: prctl may be called between fork and exec.
            unsafe {
                sleeper.pre_exec(move || {
                    let done = if gives_up { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } else { 0 };
                    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
                });
            }
            let mut sleeper = sleeper.spawn().unwrap();
            let may = may_read_as(sleeper.id());
            sleeper.kill().and_then(|()| sleeper.wait()).unwrap();
            may
        };
        assert_eq!(may_read_as_sleeper(false), Some(true));
        assert_eq!(may_read_as_sleeper(true), Some(false));
        assert_eq!(may_read_as(u32::MAX), None);
    }
}
