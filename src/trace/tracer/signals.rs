//! Signals that are meant for the program and reach the tracer.
//!
//! The caller knows the tracer's PID, and the process group that it shares with the program. A signal to the group
//! reaches the program directly. A signal to the tracer alone must be forwarded. The signal itself does not show which
//! it is. So there is another process in the group, whose PID no sender knows: a signal that reaches it was sent to the
//! entire group.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, PipeReader, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, pidfd_send_signal, waitpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};

use cuda_pitfalls_core::clock;
use cuda_pitfalls_instrument::supervisor::{self, is_ignored};

/// The longest wait for the end of the thread, in nanoseconds.
const LONGEST_END_NS: u64 = 1_000_000_000;
/// The time that a signal waits for others: `timeout` sends one to its child and then the same to the group of both,
/// and `pkill` sends one to each process that it finds.
const SETTLE: Duration = Duration::from_millis(20);
/// The maximum age of a signal, in nanoseconds: an older one was sent to the bystander alone.
const FRESH_NS: u64 = 1_000_000_000;
/// The number of signals, including the last real-time one.
const SIGNALS: usize = 64;

/// A process of the tracer's process group whose PID no sender knows. It lives no longer than the tracer.
pub(super) struct Bystander {
    pid: Pid,
    answers: PipeReader,
}

impl Bystander {
    /// Starts the bystander. This process must have one thread. The bystander's command line is the program's. A search
    /// for the program's command line therefore finds the bystander too, and a search for the tracer does not.
    pub(super) fn start(command: &[OsString]) -> io::Result<Bystander> {
        let (answers, answer) = io::pipe()?;
        let (tracer, line) = (getpid().as_raw_nonzero().get(), command_line());
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: each set is written before it is read. A child of one thread can do what this process can. The memory
        // is that of the command line, which nothing in the child reads.
        let forked = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            let forked = libc::fork();
            if forked == 0 {
                if let Some((from, to)) = line {
                    overwrite_command_line(
                        std::slice::from_raw_parts_mut(from as *mut u8, to - from),
                        command,
                    );
                }
                stand_by(tracer, answer.as_raw_fd(), all.as_ptr());
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
            forked
        };
        let pid = (forked > 0)
            .then(|| Pid::from_raw(forked))
            .flatten()
            .ok_or_else(io::Error::last_os_error)?;
        Ok(Bystander { pid, answers })
    }

    /// Returns the signals that have recently reached the entire group, each only once.
    fn signals_to_group(&mut self) -> BTreeSet<i32> {
        // The sender of a signal to a group holds a kernel lock until the entire group has the signal. `setpgid` takes
        // the lock, and changes nothing, because no such process exists.
        // SAFETY: both take numbers. The bystander has not been waited for.
        let is_asked = unsafe {
            libc::setpgid(i32::MAX, 0);
            libc::kill(self.pid.as_raw_nonzero().get(), libc::SIGRTMAX()) == 0
        };
        let mut answer = [0; SIGNALS * size_of::<u64>()];
        if is_asked {
            let _ = self.answers.read_exact(&mut answer);
        }
        let since_ns = clock::now_ns().saturating_sub(FRESH_NS);
        let mut signals = BTreeSet::new();
        for (signal, came) in (0..).zip(answer.as_chunks().0) {
            if u64::from_ne_bytes(*came) > since_ns {
                signals.insert(signal);
            }
        }
        signals
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Returns the range of this process's memory that holds its command line.
fn command_line() -> Option<(usize, usize)> {
    let fields = supervisor::process_stat("self")?;
    // `arg_start` is field 48, `arg_end` field 49.
    Some((fields.get(45)?.parse().ok()?, fields.get(46)?.parse().ok()?))
        .filter(|(from, to)| *from > 0 && from < to)
}

/// Writes a command over the command line of this process.
fn overwrite_command_line(line: &mut [u8], command: &[OsString]) {
    line.fill(0);
    let mut rest = line;
    for word in command {
        let length = word.len().min(rest.len());
        let (room, behind) = rest.split_at_mut(length);
        room.copy_from_slice(word.as_bytes().get(..length).unwrap_or_default());
        rest = behind.get_mut(1..).unwrap_or_default();
    }
}

/// Runs the bystander: notes signals, and reports them when the last real-time signal requests it. The kernel delivers
/// a signal with a smaller number first.
///
/// # Safety
/// This process must be a fresh child, and all of these signals must be blocked in it.
unsafe fn stand_by(tracer: i32, answers: RawFd, all: *const libc::sigset_t) -> ! {
    // SAFETY: the calls take numbers, and what lives as long as this process.
    unsafe {
        if !supervisor::begin_child(tracer, &[answers]) {
            libc::_exit(1);
        }
        libc::prctl(libc::PR_SET_NAME, c"bystander".as_ptr());
        let mut came_ns = [0u64; SIGNALS];
        loop {
            let signal = libc::sigwaitinfo(all, std::ptr::null_mut());
            if signal == libc::SIGRTMAX() {
                libc::write(answers, came_ns.as_ptr().cast(), size_of_val(&came_ns));
                came_ns = [0; SIGNALS];
            } else if let Some(came) = usize::try_from(signal)
                .ok()
                .and_then(|signal| came_ns.get_mut(signal))
            {
                *came = clock::now_ns();
            }
        }
    }
}

/// Forwards signals to the program, until it is dropped.
pub(super) struct HandingOn {
    handle: Handle,
    /// The sender of the program's descriptor, once the program has started.
    pub(super) program: Sender<Arc<OwnedFd>>,
    /// The time of the last signal that requests a program to end; 0 before the first.
    ending_ns: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl HandingOn {
    /// Takes signals from now on. A signal that our caller ignores, as with `nohup`, remains ignored.
    pub(super) fn start(bystander: Bystander) -> io::Result<HandingOn> {
        let taken = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
        let coming = Signals::new(taken.into_iter().filter(|signal| !is_ignored(*signal)))?;
        let (handle, (program, started)) = (coming.handle(), channel());
        let ending_ns = Arc::new(AtomicU64::new(0));
        let noted_ns = ending_ns.clone();
        let thread = std::thread::Builder::new()
            .spawn(move || hand_on(coming, bystander, &started, &noted_ns))?;
        Ok(HandingOn {
            handle,
            program,
            ending_ns,
            thread: Some(thread),
        })
    }

    /// Returns the time of the last signal that requests a program to end; 0 before the first.
    pub(super) fn ending_ns(&self) -> u64 {
        self.ending_ns.load(Ordering::Relaxed)
    }
}

impl Drop for HandingOn {
    fn drop(&mut self) {
        // Ends a thread that waits for the program.
        self.program = channel().0;
        self.handle.close();
        // The thread wakes up by a message, which may be lost. The bystander ends with this process in any case.
        let given_up_ns = clock::now_ns() + LONGEST_END_NS;
        let thread = self.thread.take();
        while thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && clock::now_ns() < given_up_ns
        {
            std::thread::sleep(SETTLE / 10);
        }
    }
}

/// Forwards signals that reach the tracer alone, and all signals that arrived before the program was started.
fn hand_on(
    mut coming: Signals,
    mut bystander: Bystander,
    started: &Receiver<Arc<OwnedFd>>,
    ending_ns: &AtomicU64,
) {
    let Ok(program) = started.recv() else { return };
    let mut came: BTreeSet<i32> = coming.pending().collect();
    bystander.signals_to_group();
    loop {
        for signal in came.into_iter().filter_map(Signal::from_named_raw) {
            let _ = pidfd_send_signal(&*program, signal);
        }
        came = coming.wait().collect();
        if [SIGINT, SIGQUIT, SIGTERM, SIGHUP]
            .iter()
            .any(|signal| came.contains(signal))
        {
            ending_ns.store(clock::now_ns(), Ordering::Relaxed);
        }
        if coming.handle().is_closed() {
            return;
        }
        std::thread::sleep(SETTLE);
        came.extend(coming.pending());
        let reached = bystander.signals_to_group();
        came.retain(|signal| !reached.contains(signal));
    }
}
