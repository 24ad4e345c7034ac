//! The exit of a worker process, or its start of a fresh program: exit handlers, `exec`, fresh processes.
//!
//! Exit handlers are registered with the C library. A running handler reads commands from the parent, and makes the
//! steps that have its name in `on`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex};

use super::state::{Leaving, Worker, errno, lock};
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::{Command, Event};

/// Handlers in the order of their registration; the C library runs the last one first.
static HANDLERS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The worker and the channel that exit handlers use.
static SERVED: Mutex<Option<(Arc<Worker>, RawFd)>> = Mutex::new(None);
/// A command that was received, but has to be executed by the next handler.
static PENDING: Mutex<Option<Command>> = Mutex::new(None);

impl Leaving {
    /// Leaves; returns only if that fails. `heard` is the parent's last command, which is for the handlers.
    pub(super) fn leave_process(
        self,
        worker: &Arc<Worker>,
        channel: &Channel,
        heard: Option<Command>,
    ) {
        let fd = channel.as_fd().as_raw_fd();
        match self {
            Leaving::Exit(code) => {
                if lock(&HANDLERS).is_empty() {
                    let _ = channel.send(&Event::BYE);
                }
                *lock(&PENDING) = heard;
                *lock(&SERVED) = Some((worker.clone(), fd));
                std::process::exit(code)
            }
            Leaving::Exec => {
                keep_at_exec(fd);
                let error = fresh_worker(fd).exec_program();
                let _ = channel.send(&Event::Broken {
                    message: format!("execve: {error}"),
                });
            }
        }
    }
}

/// Registers an exit handler with this name.
pub(super) fn at_exit(name: &str) -> Result<(), i64> {
    extern "C" fn run() {
        let Some(name) = lock(&HANDLERS).pop() else {
            return;
        };
        serve_handler(&name);
    }
    lock(&HANDLERS).push(name.to_string());
    // SAFETY: the handler takes no arguments, and uses nothing that ends before the process.
    match unsafe { libc::atexit(run) } {
        0 => Ok(()),
        _ => Err(i64::from(libc::ENOMEM)),
    }
}

/// Makes the steps of one handler, until a command is for another handler or ends the process.
fn serve_handler(name: &str) {
    let Some((worker, fd)) = lock(&SERVED).clone() else {
        return;
    };
    // SAFETY: the descriptor stays open until the process ends, and is not closed here.
    let mut channel = ManuallyDrop::new(unsafe { Channel::from_inherited(fd) });
    loop {
        let pending = lock(&PENDING).take();
        let command = match pending {
            Some(command) => Ok(command),
            None => channel.receive(),
        };
        match command {
            Ok(Command::Run { step, call, bytes }) => {
                if call.on.as_deref() != Some(name) {
                    *lock(&PENDING) = Some(Command::Run { step, call, bytes });
                    return;
                }
                worker.store_bytes(bytes);
                worker.make_step(&channel, step, &call);
            }
            Ok(Command::Finish) => {
                if lock(&HANDLERS).is_empty() {
                    let _ = channel.send(&Event::BYE);
                }
                *lock(&PENDING) = Some(Command::Finish);
                return;
            }
            // SAFETY: it ends the process at once, because the parent is gone.
            Ok(Command::Prepare { .. }) | Err(_) => unsafe { libc::_exit(70) },
        }
    }
}

/// Marks descriptors so that processes that steps start do not inherit them.
pub(super) fn close_at_exec(fds: impl Iterator<Item = RawFd>) {
    for fd in fds {
        // SAFETY: it sets a flag of a descriptor that this process owns.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

fn keep_at_exec(fd: RawFd) {
    // SAFETY: as above.
    unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
}

/// The data that `exec` needs for a fresh process of this program, prepared before any `fork`.
pub(super) struct Fresh {
    program: CString,
    arguments: Vec<CString>,
    fd: RawFd,
}

/// Returns this program as a worker on this descriptor.
pub(super) fn fresh_worker(fd: RawFd) -> Fresh {
    use std::os::unix::ffi::OsStrExt;
    let own = std::env::args_os().take(2);
    let mut arguments: Vec<CString> = own
        .map(|argument| CString::new(argument.as_bytes()).unwrap_or_default())
        .collect();
    arguments.push(CString::new(fd.to_string()).unwrap_or_default());
    Fresh {
        program: c"/proc/self/exe".to_owned(),
        arguments,
        fd,
    }
}

unsafe extern "C" {
    static mut environ: *const *mut c_char;
}

impl Fresh {
    fn arguments(&self) -> Vec<*mut c_char> {
        let pointers = self
            .arguments
            .iter()
            .map(|argument| argument.as_ptr().cast_mut());
        pointers.chain([std::ptr::null_mut()]).collect()
    }

    /// Replaces this process, with its current environment. Returns only an error.
    fn exec_program(&self) -> std::io::Error {
        let arguments = self.arguments();
        // SAFETY: program, arguments and environment are null-terminated and live.
        unsafe {
            libc::execve(
                self.program.as_ptr(),
                arguments.as_ptr().cast(),
                environ.cast(),
            )
        };
        std::io::Error::last_os_error()
    }

    /// Starts another process by `posix_spawn`. The error is an `errno`.
    pub(super) fn spawn_process(&self) -> Result<i32, i64> {
        let arguments = self.arguments();
        let mut pid = 0;
        // SAFETY: the file actions are made and destroyed here; all texts are null-terminated and live.
        let result = unsafe {
            let mut actions = std::mem::zeroed::<libc::posix_spawn_file_actions_t>();
            libc::posix_spawn_file_actions_init(&raw mut actions);
            // A copy onto itself removes the close-on-exec flag, in the child alone.
            libc::posix_spawn_file_actions_adddup2(&raw mut actions, self.fd, self.fd);
            let result = libc::posix_spawn(
                &raw mut pid,
                self.program.as_ptr(),
                &raw const actions,
                std::ptr::null(),
                arguments.as_ptr(),
                environ,
            );
            libc::posix_spawn_file_actions_destroy(&raw mut actions);
            result
        };
        if result == 0 {
            Ok(pid)
        } else {
            Err(i64::from(result))
        }
    }

    /// Starts another process as `vfork` and `execve` do: the child shares this process's memory until it execs. It has
    /// a separate stack, because Rust code cannot run on a shared stack as C's `vfork` does.
    pub(super) fn vfork(&self) -> Result<i32, i64> {
        const STACK: usize = 64 << 10;
        extern "C" fn child(arguments_address: *mut c_void) -> c_int {
            // SAFETY: the parent waits meanwhile, and its `Fresh` and arguments live on its stack.
            unsafe {
                let (fresh, arguments) = &*arguments_address.cast::<(&Fresh, Vec<*mut c_char>)>();
                libc::fcntl(fresh.fd, libc::F_SETFD, 0);
                libc::execve(
                    fresh.program.as_ptr(),
                    arguments.as_ptr().cast(),
                    environ.cast(),
                );
                libc::_exit(127)
            }
        }
        let mut stack = vec![0u128; STACK / 16];
        let mut given = (self, self.arguments());
        let top = stack.as_mut_ptr_range().end;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the stack and the arguments live until the child runs another program.
        let pid = unsafe { libc::clone(child, top.cast(), flags, (&raw mut given).cast()) };
        if pid == -1 { Err(errno()) } else { Ok(pid) }
    }
}
