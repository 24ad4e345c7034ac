//! Passes a program's stderr on, and records its last lines.
//!
//! The program keeps the stderr of its caller wherever it could notice the difference: a terminal, a device, and a
//! socket, because its receiver may check the writing process (the journal does). A regular file is read when the
//! program has ended. Instead of a pipe the program gets another pipe, and a process of ours passes the bytes on. That
//! process ends when no process can write any more. So a child that outlives the tracer is not killed by SIGPIPE, and a
//! reader that goes away ends the program as before. If stdout is the same pipe, it takes the same path, so that the
//! order is kept.

use std::fs::{File, Metadata, metadata};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, SeekFrom, fcntl_getfl, seek};
use rustix::io::ioctl_fionread;

use cuda_pitfalls_instrument::supervisor::to_timespec;

/// The maximum number of bytes that are passed on at once.
const PIECE_BYTES: usize = 1 << 16;
/// The interval between checks whether everything was passed on.
const LOOK_NS: u64 = 1_000_000;

/// The source of the last bytes of a program's stderr.
pub(super) enum Stderr {
    /// The stderr cannot be recorded without a change that the program or its reader could see.
    Untouched,
    /// A regular file, and the position where the program begins to write.
    File(File, u64),
    /// A pipe of ours.
    Piped(PassedStderr),
}

impl Stderr {
    /// Finds out how to get the last `most_bytes` of our stderr. Must be called before the program is started.
    pub(super) fn find(most_bytes: usize) -> Stderr {
        let Some(ours) = look_at(2) else {
            return Stderr::Untouched;
        };
        if ours.file_type().is_fifo() {
            return PassedStderr::start(most_bytes).map_or(Stderr::Untouched, Stderr::Piped);
        }
        if !ours.is_file() {
            return Stderr::Untouched;
        }
        let is_appended =
            fcntl_getfl(io::stderr()).is_ok_and(|flags| flags.contains(OFlags::APPEND));
        let from = if is_appended {
            Ok(ours.len())
        } else {
            seek(io::stderr(), SeekFrom::Current(0))
        };
        match (File::open("/proc/self/fd/2"), from) {
            (Ok(file), Ok(from)) => Stderr::File(file, from),
            _ => Stderr::Untouched,
        }
    }

    /// Returns the replacement of our stderr, if it is replaced.
    pub(super) fn passed_stderr(&self) -> Option<&PassedStderr> {
        match self {
            Stderr::Piped(passed) => Some(passed),
            Stderr::Untouched | Stderr::File(..) => None,
        }
    }

    /// Returns the last bytes, once everything that the program wrote has reached its reader.
    pub(super) fn read_last_bytes(&self, most_bytes: usize) -> Vec<u8> {
        match self {
            Stderr::Untouched => Vec::new(),
            Stderr::File(file, from) => read_end(file, *from, most_bytes).unwrap_or_default(),
            Stderr::Piped(passed) => passed.finish_passing(),
        }
    }
}

fn look_at(fd: i32) -> Option<Metadata> {
    metadata(format!("/proc/self/fd/{fd}")).ok()
}

/// Returns the end of the text that was written through our stderr since it was at `from`: the position is shared with
/// the program.
fn read_end(file: &File, from: u64, most_bytes: usize) -> io::Result<Vec<u8>> {
    let to = seek(io::stderr(), SeekFrom::Current(0))?.min(file.metadata()?.len());
    let from = from.max(to.saturating_sub(most_bytes as u64));
    let mut bytes = vec![0; to.saturating_sub(from) as usize];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// The state that the passing process shares with this one, before the ring of bytes.
#[repr(C)]
struct PassingProgress {
    /// `true` if bytes may have left the pipe but not reached the reader.
    is_busy: AtomicBool,
    /// The number of bytes that were passed on.
    passed: AtomicU64,
}

/// A pipe that replaces our stderr, and the process that passes its bytes on.
pub(super) struct PassedStderr {
    /// The end for the program. It has no reader in this process, which must not keep the pipe open when the true
    /// reader is gone.
    pipe: PipeWriter,
    is_stdout_too: bool,
    progress: *mut PassingProgress,
    most_bytes: usize,
}

impl PassedStderr {
    /// Starts to pass bytes on.
    ///
    /// # Errors
    /// Returns an error if the pipe, the memory or the process cannot be created.
    pub(super) fn start(most_bytes: usize) -> io::Result<PassedStderr> {
        let (reader, pipe) = io::pipe()?;
        let is_stdout_too = match (look_at(1), look_at(2)) {
            (Some(stdout), Some(stderr)) if stderr.file_type().is_fifo() => {
                (stdout.dev(), stdout.ino()) == (stderr.dev(), stderr.ino())
            }
            _ => false,
        };
        let (access, sharing) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        let bytes = size_of::<PassingProgress>() + most_bytes;
        // SAFETY: a new mapping, of zeros.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, sharing, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let progress = mapped.cast();
        let passed = PassedStderr {
            pipe,
            is_stdout_too,
            progress,
            most_bytes,
        };
        let mut piece = [0; PIECE_BYTES];
        // SAFETY: the child makes only system calls, which allocate nothing, and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: this is the child, and the ring has this length.
            0 => unsafe { pass_on(&reader, progress, most_bytes, &mut piece) },
            _ => Ok(passed),
        }
    }

    /// Returns a descriptor for the program's stderr.
    pub(super) fn stderr(&self) -> io::Result<Stdio> {
        Ok(self.pipe.try_clone()?.into())
    }

    /// Returns a descriptor for the program's stdout, if that was the same pipe.
    pub(super) fn stdout(&self) -> io::Result<Option<Stdio>> {
        if self.is_stdout_too {
            self.stderr().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns the last bytes, once all current bytes of the pipe are passed on, or its reader has gone.
    pub(super) fn finish_passing(&self) -> Vec<u8> {
        // SAFETY: the mapping is never removed.
        let progress = unsafe { &*self.progress };
        let waiting = ioctl_fionread(&self.pipe).unwrap_or_default();
        // A process that was left behind may write without end.
        let until = progress.passed.load(Ordering::SeqCst) + waiting + PIECE_BYTES as u64;
        loop {
            let is_empty = ioctl_fionread(&self.pipe).is_ok_and(|waiting| waiting == 0);
            let is_passed = is_empty && !progress.is_busy.load(Ordering::SeqCst);
            let mut fds = [PollFd::new(&self.pipe, PollFlags::empty())];
            if is_passed || progress.passed.load(Ordering::SeqCst) >= until {
                break;
            }
            if poll(&mut fds, Some(&to_timespec(LOOK_NS))).is_ok_and(|gone| gone > 0) {
                break;
            }
        }
        let end = progress.passed.load(Ordering::SeqCst) as usize;
        let ring = ring_bytes(self.progress);
        let kept = end.saturating_sub(self.most_bytes)..end;
        // SAFETY: the index is below the length of the ring.
        kept.map(|at| unsafe { ring.add(at % self.most_bytes).read_volatile() })
            .collect()
    }
}

/// Returns the address of the bytes after the progress.
fn ring_bytes(progress: *mut PassingProgress) -> *mut u8 {
    progress.wrapping_add(1).cast()
}

/// Passes the bytes of a pipe on to our stderr, until no process can write to the pipe, or no process reads our stderr.
///
/// # Safety
/// Must be called only in a child of `fork`. `progress` must be followed by a ring of `most_bytes` bytes.
unsafe fn pass_on(
    reader: &PipeReader,
    progress: *mut PassingProgress,
    most_bytes: usize,
    piece: &mut [u8],
) -> ! {
    // SAFETY: system calls on descriptors and memory of ours.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_IGN);
        }
        // A process that waits for the end of another descriptor must not wait for this process.
        libc::dup2(reader.as_raw_fd(), 0);
        libc::close(1);
        if libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) != 0 {
            for fd in 3..1 << 16 {
                libc::close(fd);
            }
        }
        libc::chdir(c"/".as_ptr());
        let (progress, ring) = (&*progress, ring_bytes(progress));
        loop {
            wait_for(0, libc::POLLIN);
            progress.is_busy.store(true, Ordering::SeqCst);
            let read = libc::read(0, piece.as_mut_ptr().cast(), piece.len());
            let Ok(read @ 1..) = usize::try_from(read) else {
                libc::_exit(0)
            };
            let begun = progress.passed.load(Ordering::SeqCst) as usize;
            for at in 0..read {
                ring.add((begun + at) % most_bytes)
                    .write_volatile(*piece.as_ptr().add(at));
            }
            let mut written = 0;
            while written < read {
                match usize::try_from(libc::write(
                    2,
                    piece.as_ptr().add(written).cast(),
                    read - written,
                )) {
                    Ok(more) => written += more,
                    Err(_) if *libc::__errno_location() == libc::EAGAIN => {
                        wait_for(2, libc::POLLOUT)
                    }
                    Err(_) => libc::_exit(0),
                }
            }
            progress.passed.fetch_add(read as u64, Ordering::SeqCst);
            progress.is_busy.store(false, Ordering::SeqCst);
        }
    }
}

fn wait_for(fd: i32, events: libc::c_short) {
    let mut polled = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&mut polled, 1, -1) };
}
