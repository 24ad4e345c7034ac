//! Tests which files cannot be opened, and which system calls are denied. The calls are made with arguments that have
//! no effect.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use cuda_pitfalls_core::examination::{CallTry, ExaminerMessage, FileTry};
use syscalls::{Errno, Sysno};

/// The placeholder for the part of a path that differs between processes.
const ANY: &str = "*";

/// Tries all files and calls in this process, or in forks of it if a filter may end the process.
pub fn attempt(files: &[(String, bool)], calls: &[String], say: &mut dyn FnMut(ExaminerMessage)) {
    for (file, is_written) in files {
        say(ExaminerMessage::File(open(file, *is_written)));
    }
    for call in calls {
        if let Some(error) = try_call(call) {
            say(ExaminerMessage::Call(CallTry {
                call: call.clone(),
                error: error.filter(|error| !error.is_empty()),
            }));
        }
    }
}

/// Returns the name of an error.
pub(super) fn named(error: &io::Error) -> String {
    let name = error
        .raw_os_error()
        .and_then(|number| Errno::new(number).name());
    name.map_or_else(|| error.to_string(), str::to_string)
}

fn open(file: &str, is_written: bool) -> FileTry {
    let path = file.replace(ANY, &std::process::id().to_string());
    let opened = fs::OpenOptions::new()
        .read(true)
        .write(is_written)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path);
    about(file, Path::new(&path), opened.err().as_ref())
}

fn is_device_file(found: &fs::Metadata) -> bool {
    found.file_type().is_char_device() || found.file_type().is_block_device()
}

/// Returns the facts about a file, in addition to the error of an attempt to open it.
fn about(file: &str, path: &Path, error: Option<&io::Error>) -> FileTry {
    let found = fs::metadata(path).ok();
    let device = found.as_ref().filter(|found| is_device_file(found));
    FileTry {
        file: file.to_string(),
        error: error.map(named),
        mode: found.as_ref().map(|found| found.mode() & 0o7777),
        owner: found.as_ref().map(|found| (found.uid(), found.gid())),
        device: device.map(|found| (libc::major(found.rdev()), libc::minor(found.rdev()))),
    }
}

/// Makes a system call in a fork. Returns `None` if the call is not supported here, and an empty error if it was not
/// denied.
fn try_call(call: &str) -> Option<Option<String>> {
    let number: Sysno = call.parse().ok()?;
    let (arguments, expected) = harmless_arguments(call)?;
    // SAFETY: the child makes one system call and leaves; it allocates nothing.
    let child = match unsafe { libc::fork() } {
        -1 => return Some(Some(named(&io::Error::last_os_error()))),
        0 => {
            let [a, b, c, d, e] = arguments;
            // SAFETY: with these arguments the call does nothing to memory of this process.
            let result = unsafe { syscalls::raw_syscall!(number, a, b, c, d, e) };
            let code = Errno::from_ret(result).err().map_or(0, Errno::into_raw);
            // SAFETY: leaves at once, without what the parent registered.
            unsafe { libc::_exit(code) }
        }
        child => child,
    };
    let mut status = 0;
    // SAFETY: waits for the child above.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Some(Some(named(&io::Error::last_os_error())));
        }
    }
    if libc::WIFSIGNALED(status) {
        return Some(Some(crate::supervisor::signal_name(libc::WTERMSIG(status))));
    }
    let code = libc::WEXITSTATUS(status);
    let is_refused = code != expected;
    Some(is_refused.then(|| {
        Errno::new(code)
            .name()
            .map_or_else(|| code.to_string(), str::to_string)
    }))
}

/// Returns arguments with which a system call has no effect, and the error that it then returns; 0 for none.
fn harmless_arguments(call: &str) -> Option<([usize; 5], i32)> {
    /// The argument for a missing descriptor.
    const NONE: usize = usize::MAX;
    let (unix, seqpacket) = (libc::AF_UNIX as usize, libc::SOCK_SEQPACKET as usize);
    let here = libc::AT_FDCWD as isize as usize;
    Some(match call {
        "bind" | "connect" | "listen" | "setsockopt" | "dup" | "ioctl" | "fstat" | "lseek"
        | "getdents64" => ([NONE, 0, 0, 0, 0], libc::EBADF),
        "fcntl" => ([NONE, libc::F_GETFD as usize, 0, 0, 0], libc::EBADF),
        "socket" => ([unix, seqpacket, 0, 0, 0], 0),
        "eventfd2" | "poll" | "gettid" | "geteuid" | "get_mempolicy" => ([0; 5], 0),
        "pipe2" | "uname" | "unlink" | "stat" | "access" | "memfd_create" => ([0; 5], libc::EFAULT),
        // Room for one byte: without any, the kernel does not look at the path.
        "readlink" => ([0, 0, 1, 0, 0], libc::EFAULT),
        "openat" => ([here, 0, 0, 0, 0], libc::EFAULT),
        "clone3" | "mmap" => ([0; 5], libc::EINVAL),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_is_refused_every_call_has_its_usual_result() {
        for call in [
            "bind",
            "dup",
            "eventfd2",
            "fcntl",
            "gettid",
            "ioctl",
            "listen",
            "openat",
            "pipe2",
            "poll",
            "socket",
            "stat",
            "uname",
            "unlink",
            "clone3",
            "get_mempolicy",
            "fstat",
            "memfd_create",
            "mmap",
            "access",
            "readlink",
        ] {
            // aarch64 has no call of some of these names.
            if call.parse::<Sysno>().is_ok() {
                assert_eq!(try_call(call), Some(None), "{call}");
            }
        }
        assert_eq!(try_call("no_call"), None);
    }

    #[test]
    fn a_file_that_cannot_be_opened_has_the_error_s_name() {
        let missing = open("/dev/cuda-pitfalls-none", true);
        assert_eq!(
            (missing.error.as_deref(), missing.mode),
            (Some("ENOENT"), None)
        );
        let null = open("/dev/null", true);
        assert_eq!((null.error, null.device), (None, Some((1, 3))));
        assert_eq!(open("/proc/self/task/*/comm", true).error, None);
        assert_eq!(open("/proc/self/maps", false).device, None);
    }
}
