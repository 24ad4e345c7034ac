//! Writing to stdout and stderr without being blocked by a reader that does not read.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::interrupt::is_overdue;
use cuda_pitfalls_core::clock::SLICE_NS;

/// Number of bytes that a ready pipe takes at once without blocking (POSIX: `PIPE_BUF`).
const PIECE: usize = 4096;

/// Writes a line to stderr, like [`write()`]. Errors are ignored, because they cannot be reported anywhere.
pub fn print_line(line: &str) {
    let _ = write(io::stderr(), format!("{line}\n").as_bytes());
}

/// Writes all of a text. It waits for a reader that does not read, until the user wants to stop.
///
/// # Errors
/// Returns an error if a system call fails, or `Interrupted` if the user wanted to stop.
pub fn write(to: impl AsFd, text: &[u8]) -> io::Result<()> {
    let slice = Timespec {
        tv_sec: 0,
        tv_nsec: SLICE_NS as _,
    };
    let mut rest = text;
    while !rest.is_empty() {
        match poll(&mut [PollFd::new(&to, PollFlags::OUT)], Some(&slice)) {
            Ok(0) if is_overdue() => {
                return Err(io::Error::new(
                    io::ErrorKind::Interrupted,
                    "it was not read before the run ended",
                ));
            }
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match rustix::io::write(&to, rest.get(..PIECE).unwrap_or(rest)) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
