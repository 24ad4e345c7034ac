//! Answers the system calls of processes that have a filter: they wait until a thread of ours lets each call pass, or
//! gives it an error. The observed calls are recorded by step.
//!
//! The thread reads the memory of the waiting process and checks whether files exist. A file system that does not
//! answer can block it, and with it the process, whose deadline passes. No other thread waits for it for long.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use syscalls::Sysno;

use super::error::SupervisorError;
use cuda_pitfalls_calls::{CallLibrary, status};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::experiment::Step;
use cuda_pitfalls_core::recording::StepSystemCalls;
use cuda_pitfalls_core::refusal::{self, FilterAnswer, NamedFile, PathArgument, Refusal};

/// The longest path that the kernel accepts, in bytes, with its NUL.
const LONGEST_PATH: usize = 4096;
/// Maximum number of paths that are recorded for one step: a program may use any number of them.
const MOST_PATHS: usize = 2_000;
/// Maximum time that a thread may take to end, in milliseconds. A thread that is blocked by a file system is abandoned.
const END_MS: u64 = 1_000;
/// Memory is read page by page, because the next page may be missing.
const PAGE: usize = 4096;

/// The filters of one attempt.
pub(super) struct Watch {
    shared: Arc<WatchedRules>,
    threads: Vec<JoinHandle<()>>,
    /// Becomes readable when the threads must end.
    stop: Arc<OwnedFd>,
}

/// The data that the threads of a watch share.
struct WatchedRules {
    rules: Mutex<Vec<Refusal>>,
    seen: Mutex<Vec<StepSystemCalls>>,
    /// Private directories of the run, each with its name in recordings.
    private: Vec<(PathBuf, &'static str)>,
    program: PathBuf,
    /// The result of reading the memory of a process with a filter.
    is_readable: OnceLock<Result<(), std::io::Error>>,
}

impl Watch {
    /// Returns a watch without filters. `program` is this program; `home` and `links` are the private directories of
    /// the run.
    pub(super) fn new(program: &Path, home: &Path, links: &Path) -> Result<Watch, SupervisorError> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|error| SupervisorError::from_system(error.into()))?;
        let private = vec![
            (home.to_path_buf(), "~"),
            (links.to_path_buf(), "~/libraries"),
        ];
        let seen = Mutex::new(vec![StepSystemCalls::default()]);
        let program = program
            .canonicalize()
            .unwrap_or_else(|_| program.to_path_buf());
        let shared = WatchedRules {
            rules: Mutex::default(),
            seen,
            private,
            program,
            is_readable: OnceLock::new(),
        };
        Ok(Watch {
            shared: Arc::new(shared),
            threads: Vec::new(),
            stop: Arc::new(stop),
        })
    }

    /// Denies the file or system call of a step, from now on, to every process with a filter.
    pub(super) fn refuse_step(&self, step: &Step) -> Result<(), SupervisorError> {
        lock(&self.shared.rules).push(rule(step)?);
        Ok(())
    }

    /// Assigns everything that is recorded from now on to this step.
    pub(super) fn begin_step(&self, step: usize) {
        lock(&self.shared.seen).push(StepSystemCalls {
            step: Some(step),
            ..StepSystemCalls::default()
        });
    }

    /// Answers a filter, until no process has it any more.
    pub(super) fn answer(&mut self, listener: OwnedFd) -> Result<(), SupervisorError> {
        let (shared, stop) = (self.shared.clone(), self.stop.clone());
        let thread = std::thread::Builder::new().name("watch".to_string());
        let thread = thread
            .spawn(move || shared.serve_filter(&listener, &stop))
            .map_err(SupervisorError::from_system)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Returns the observed system calls, without steps that made none. Also returns the reason why the rules of a step
    /// were not applied, if so.
    pub(super) fn finish(self) -> (Vec<StepSystemCalls>, Option<String>) {
        let shared = self.shared.clone();
        let is_filtered = !self.threads.is_empty() || lock(&shared.rules).is_empty();
        drop(self);
        let seen = std::mem::take(&mut *lock(&shared.seen));
        let fault = match shared.is_readable.get() {
            _ if !is_filtered => Some(
                "no process could install the filter: the kernel or a sandbox denied it"
                    .to_string(),
            ),
            Some(Err(error)) => Some(format!(
                "the memory of a process with a filter cannot be read: {error}"
            )),
            Some(Ok(())) | None => None,
        };
        (
            seen.into_iter()
                .filter(|step| !step.calls.is_empty())
                .collect(),
            fault,
        )
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        let deadline = clock::running_ns() + END_MS * 1_000_000;
        while self.threads.iter().any(|thread| !thread.is_finished())
            && clock::running_ns() < deadline
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn rule(step: &Step) -> Result<Refusal, SupervisorError> {
    let [refused, error] = [refusal::WHAT, refusal::ERROR].map(|name| {
        step.args
            .get(name)
            .map_or_else(|| "0".to_string(), ToString::to_string)
    });
    let refused = refused
        .parse()
        .map_err(|error: refusal::NotRefusable| wrong(step, &error.to_string()))?;
    let number = cuda_pitfalls_calls::ERRNOS
        .value(&error)
        .or_else(|| error.parse().ok());
    let errno = number
        .and_then(|number| i32::try_from(number).ok())
        .filter(|number| *number >= 0);
    Ok(Refusal {
        refused,
        errno: errno.ok_or_else(|| wrong(step, &format!("`{error}` is not an error")))?,
    })
}

fn wrong(step: &Step, why: &str) -> SupervisorError {
    SupervisorError::Protocol(format!("step `{}`: {why}", step.label))
}

impl WatchedRules {
    /// Answers until the filter is gone, or the watch ends. A process that waits then gets `ENOSYS` from the kernel.
    fn serve_filter(&self, listener: &OwnedFd, stop: &OwnedFd) {
        loop {
            let mut fds = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::new(stop, PollFlags::IN),
            ];
            if poll(&mut fds, None).is_err_and(|error| error != rustix::io::Errno::INTR) {
                return;
            }
            let [asked, stopped] = fds.map(|fd| fd.revents());
            if !stopped.is_empty() || (!asked.is_empty() && !asked.contains(PollFlags::IN)) {
                return;
            }
            if asked.contains(PollFlags::IN) {
                self.answer_one(listener);
            }
        }
    }

    fn answer_one(&self, listener: &OwnedFd) {
        // SAFETY: all of its bits may be zero, as the kernel requires.
        let mut asked = unsafe { std::mem::zeroed::<libc::seccomp_notif>() };
        // SAFETY: the kernel fills in the struct. It fails if the process ended meanwhile.
        if unsafe {
            libc::ioctl(
                listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV,
                &raw mut asked,
            )
        } != 0
        {
            return;
        }
        // The instruction that made the call can be read.
        if self.is_readable.get().is_none() {
            let is_read = read(asked.pid, asked.data.instruction_pointer as usize, &mut [0]);
            let error = std::io::Error::last_os_error();
            if is_read.is_some() || error.raw_os_error() != Some(libc::ESRCH) {
                let _ = self.is_readable.set(is_read.map(drop).ok_or(error));
            }
        }
        let error =
            Sysno::new(asked.data.nr as usize).and_then(|call| self.decide_call(&asked, call));
        let let_pass = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        let answer = libc::seccomp_notif_resp {
            id: asked.id,
            val: 0,
            error: error.map_or(0, |errno| -errno),
            flags: if error.is_some() { 0 } else { let_pass },
        };
        // SAFETY: the kernel reads the struct. It fails if the process ended meanwhile.
        unsafe {
            libc::ioctl(
                listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &raw const answer,
            )
        };
    }

    /// Returns the error for a system call, which is recorded; `None` to let it pass.
    fn decide_call(&self, asked: &libc::seccomp_notif, call: Sysno) -> Option<i32> {
        let real = named_paths(asked, call);
        let files: Vec<NamedFile> = real.iter().map(|path| self.named_file(path)).collect();
        let answer = refusal::answer(&lock(&self.rules), call, &files);
        let mut seen = lock(&self.seen);
        let step = seen.last_mut()?;
        *step.calls.entry(call.name().to_string()).or_insert(0) += 1;
        for (file, _) in files
            .iter()
            .zip(&real)
            .filter(|(_, real)| !self.is_our_own(real))
        {
            if step.paths.len() >= MOST_PATHS && !step.paths.contains_key(&file.path) {
                continue;
            }
            let used = step.paths.entry(file.path.clone()).or_default();
            used.exists |= file.exists || file.is_simulated;
            used.calls.insert(call.name().to_string());
            used.written |= opens_for_writing(asked, call);
        }
        let (errno, counts) = match answer {
            FilterAnswer::Pass => return None,
            FilterAnswer::Simulated(errno) => return Some(errno),
            FilterAnswer::Refuse(errno) => (errno, &mut step.refused),
            FilterAnswer::Protect(errno) => (errno, &mut step.protected),
        };
        let name = status::name(CallLibrary::Libc, i64::from(errno))
            .map_or_else(|| errno.to_string(), str::to_string);
        let what = [call.name()]
            .into_iter()
            .chain(files.iter().map(|file| file.path.as_str()))
            .collect::<Vec<_>>()
            .join(" ");
        let key = format!("{what}: {name}");
        if counts.len() < MOST_PATHS || counts.contains_key(&key) {
            *counts.entry(key).or_insert(0) += 1;
        }
        Some(errno)
    }

    /// Returns `true` if a path is this program or its private directory, or a directory above one of them. libcuda
    /// looks at each of them, and they are specific to the machine. The same holds for the root of the simulated
    /// machine.
    fn is_our_own(&self, path: &Path) -> bool {
        let own = self
            .private
            .iter()
            .map(|(folder, _)| folder)
            .chain([&self.program]);
        path == Path::new(refusal::SIMULATED)
            || (path != Path::new("/") && own.into_iter().any(|own| own.starts_with(path)))
    }

    /// Returns a file in the form that the rules use.
    fn named_file(&self, path: &Path) -> NamedFile {
        let simulated = path.strip_prefix(refusal::SIMULATED).ok();
        let path = simulated.map_or_else(|| path.to_path_buf(), |rest| Path::new("/").join(rest));
        NamedFile {
            path: self.recorded_path(&path),
            is_simulated: simulated.is_some(),
            exists: simulated.is_none() && path.symlink_metadata().is_ok(),
            has_folder: simulated.is_none() && path.parent().is_some_and(Path::exists),
        }
    }

    /// Returns a path in the form that a recording uses.
    fn recorded_path(&self, path: &Path) -> String {
        let own = self
            .private
            .iter()
            .find_map(|(folder, name)| Some((path.strip_prefix(folder).ok()?, name)));
        match own {
            Some((rest, name)) => Path::new(name)
                .join(rest)
                .to_string_lossy()
                .trim_end_matches('/')
                .to_string(),
            None => refusal::normalize_path(&path.to_string_lossy()),
        }
    }
}

/// Returns the files of a system call, as absolute paths. A path that cannot be read is left out.
fn named_paths(asked: &libc::seccomp_notif, call: Sysno) -> Vec<PathBuf> {
    let named = refusal::path_arguments(call)
        .iter()
        .filter_map(|argued| match *argued {
            PathArgument::At(index) => path_below(asked, "cwd", index),
            PathArgument::Below(folder, index) => match call_argument(asked, folder) as i32 {
                libc::AT_FDCWD => path_below(asked, "cwd", index),
                descriptor => path_below(asked, &format!("fd/{descriptor}"), index),
            },
            PathArgument::Socket(address, length) => socket_path(
                asked.pid,
                call_argument(asked, address) as usize,
                call_argument(asked, length) as usize,
            ),
        });
    let own = named.map(|path| match path.strip_prefix("/proc/self") {
        Ok(rest) => Path::new("/proc").join(asked.pid.to_string()).join(rest),
        Err(_) => path,
    });
    own.collect()
}

fn call_argument(asked: &libc::seccomp_notif, index: usize) -> u64 {
    asked.data.args.get(index).copied().unwrap_or(0)
}

/// Returns the path in an argument, as an absolute one. `folder` is the base of a relative one, in the process's
/// `/proc`.
fn path_below(asked: &libc::seccomp_notif, folder: &str, index: usize) -> Option<PathBuf> {
    let path = text(asked.pid, call_argument(asked, index) as usize)?;
    if path.is_absolute() {
        return Some(path);
    }
    let folder = std::fs::read_link(format!("/proc/{}/{folder}", asked.pid)).ok()?;
    Some(folder.join(path))
}

/// Returns the path of the socket at an address; `None` for other types of sockets, and for a socket without a file.
fn socket_path(pid: u32, address: usize, length: usize) -> Option<PathBuf> {
    let mut bytes = [0; 128];
    let read = read(pid, address, bytes.get_mut(..length.min(128))?)?;
    let (family, path) = bytes.get(..read)?.split_at_checked(2)?;
    let is_unix = u16::from_ne_bytes([family[0], family[1]]) == libc::AF_UNIX as u16;
    let path = path
        .split(|byte| *byte == 0)
        .next()
        .filter(|path| is_unix && path.starts_with(b"/"))?;
    Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()))
}

/// Returns `true` if a call opens a file to write to it.
fn opens_for_writing(asked: &libc::seccomp_notif, call: Sysno) -> bool {
    let flags = match call.name() {
        "open" => asked.data.args[1],
        "openat" => asked.data.args[2],
        // `open_how` begins with the flags.
        "openat2" => {
            let mut flags = [0; 8];
            let how = asked.data.args[2] as usize;
            if read(asked.pid, how, &mut flags) != Some(flags.len()) {
                return false;
            }
            u64::from_ne_bytes(flags)
        }
        "creat" => return true,
        _ => return false,
    };
    flags as i32 & libc::O_ACCMODE != libc::O_RDONLY
}

/// Returns the C string at an address of a waiting process; `None` if it is empty, too long or missing.
fn text(pid: u32, address: usize) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut text = Vec::new();
    while text.len() < LONGEST_PATH {
        let at = address.checked_add(text.len())?;
        let mut page = [0; PAGE];
        let read = read(pid, at, page.get_mut(..PAGE - at % PAGE)?)?;
        let part = page.get(..read)?;
        let end = part.iter().position(|byte| *byte == 0);
        text.extend_from_slice(part.get(..end.unwrap_or(read))?);
        if end.is_some() {
            return (!text.is_empty()).then(|| PathBuf::from(std::ffi::OsString::from_vec(text)));
        }
    }
    None
}

/// Reads memory of a waiting process. `None` if nothing could be read.
fn read(pid: u32, address: usize, into: &mut [u8]) -> Option<usize> {
    let ours = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let theirs = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: into.len(),
    };
    // SAFETY: the kernel writes at most that many bytes to our buffer, whatever the other address is.
    let read = unsafe {
        libc::process_vm_readv(
            pid as libc::pid_t,
            &raw const ours,
            1,
            &raw const theirs,
            1,
            0,
        )
    };
    usize::try_from(read).ok().filter(|read| *read > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_read_across_pages_and_no_further() {
        let mut memory = vec![b'x'; 3 * PAGE];
        let first = memory.as_ptr() as usize;
        let start = PAGE - first % PAGE + PAGE - 3;
        memory[start..start + 8].copy_from_slice(b"/dev/nv\0");
        let found = text(std::process::id(), first + start);
        assert_eq!(found, Some(PathBuf::from("/dev/nv")));
        assert_eq!(text(std::process::id(), 8), None, "nothing is mapped there");
        let endless = vec![b'/'; 2 * LONGEST_PATH];
        assert_eq!(text(std::process::id(), endless.as_ptr() as usize), None);
    }

    #[test]
    fn openat2_is_known_to_write_by_its_flags() {
        for (flags, expected) in [(libc::O_RDWR, true), (libc::O_RDONLY, false)] {
            // SAFETY: the structure is made of numbers, for which zeros are valid.
            let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            let how = [flags as u64, 0, 0];
            asked.pid = std::process::id();
            asked.data.args[2] = how.as_ptr() as u64;
            let call = "openat2".parse().expect("the call has a number");
            assert_eq!(opens_for_writing(&asked, call), expected);
        }
    }

    #[test]
    fn nobody_waits_for_a_thread_that_is_held_up() {
        let mut watch =
            Watch::new(Path::new("/x"), Path::new("/home"), Path::new("/links")).unwrap();
        watch.threads.push(std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(60))
        }));
        let begun = clock::running_ns();
        assert!(watch.finish().0.is_empty());
        assert!(clock::running_ns() - begun < 30_000_000_000);
    }

    #[test]
    fn a_step_is_a_rule() {
        let step = |what: &str, error: &str| {
            rule(
                &Step::call(refusal::STEP, "x")
                    .with(refusal::WHAT, what)
                    .with(refusal::ERROR, error),
            )
        };
        assert_eq!(step("/dev/nvidia0", "EPERM").unwrap().errno, 1);
        assert_eq!(step("nothing", "0").unwrap().errno, 0);
        assert!(step("/dev/nvidia0", "EVIL").is_err() && step("no-call", "EPERM").is_err());
    }
}
