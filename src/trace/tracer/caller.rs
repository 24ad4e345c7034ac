//! Properties that this process inherits from its caller, and that Rust's runtime or the tracer changes: descriptors,
//! signals and limits. The traced program gets them back as the caller set them.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_pitfalls_instrument::supervisor::is_ignored;

/// Bits of [`FOUND`]: the standard descriptors that were closed, by their numbers, and SIGPIPE ignored.
const SIGPIPE_IGNORED: u32 = 1 << 3;
const STANDARD: [i32; 3] = [0, 1, 2];

/// The state before the standard library opened `/dev/null` for closed descriptors and set SIGPIPE to be ignored.
static FOUND: AtomicU32 = AtomicU32::new(0);

/// The function that the loader calls before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let mut found = 0;
    for fd in STANDARD {
        // SAFETY: it only reads the flags of a descriptor number.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            found |= 1 << fd;
        }
    }
    if is_ignored(libc::SIGPIPE) {
        found |= SIGPIPE_IGNORED;
    }
    FOUND.store(found, Ordering::Relaxed);
}

/// The inherited state, which the program gets back.
#[derive(Clone, Copy)]
pub(super) struct Caller {
    found: u32,
    ignores_children: bool,
    mask: libc::sigset_t,
    file_size: libc::rlimit,
}

impl Caller {
    /// Records the state, then changes it for the tracer: children can be waited for, and a write beyond the limit on
    /// file size fails instead of killing.
    pub(super) fn take_over() -> io::Result<Caller> {
        let ignores_children = is_ignored(libc::SIGCHLD);
        if ignores_children {
            // SAFETY: the default action of a signal that has no handler in this program.
            let set = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
            check(if set == libc::SIG_ERR { -1 } else { 0 })?;
        }
        if !is_ignored(libc::SIGXFSZ) {
            // SAFETY: the handler does nothing. It does not survive exec, so the program gets the default action.
            unsafe { signal_hook::low_level::register(libc::SIGXFSZ, || {}) }?;
        }
        let (mut mask, mut file_size) =
            (MaybeUninit::uninit(), MaybeUninit::<libc::rlimit>::uninit());
        // SAFETY: each call writes its whole struct if it succeeds.
        let (mask, file_size) = unsafe {
            check(libc::pthread_sigmask(
                libc::SIG_SETMASK,
                std::ptr::null(),
                mask.as_mut_ptr(),
            ))?;
            check(libc::getrlimit(libc::RLIMIT_FSIZE, file_size.as_mut_ptr()))?;
            (mask.assume_init(), file_size.assume_init())
        };
        // The limit is for the program's files, not for those of the trace. Only root can exceed the hard limit.
        for most in [libc::RLIM_INFINITY, file_size.rlim_max] {
            let own = libc::rlimit {
                rlim_cur: most,
                rlim_max: most,
            };
            // SAFETY: the struct is whole.
            if unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const own) } == 0 {
                break;
            }
        }
        Ok(Caller {
            found: FOUND.load(Ordering::Relaxed),
            ignores_children,
            mask,
            file_size,
        })
    }

    /// Restores the state in a process between fork and exec.
    pub(super) fn hand_on(&self) -> io::Result<()> {
        // SAFETY: every call is allowed between fork and exec, and the structs are complete.
        unsafe {
            for fd in STANDARD
                .into_iter()
                .filter(|fd| self.found & (1 << fd) != 0)
            {
                libc::close(fd);
            }
            if self.found & SIGPIPE_IGNORED != 0 {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            if self.ignores_children {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            }
            check(libc::setrlimit(
                libc::RLIMIT_FSIZE,
                &raw const self.file_size,
            ))?;
            check(libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.mask,
                std::ptr::null_mut(),
            ))
        }
    }
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Raises our limit on open files to the hard limit, because every process with a CUDA call needs a descriptor. Must be
/// called after the program was started, so that it keeps its own limit.
pub(super) fn allow_files() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}
