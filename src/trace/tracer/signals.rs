//! Signals that are meant for the program and reach the tracer.
//!
//! The caller knows the tracer's PID, and the process group that it shares with the program. A signal to the group
//! reaches the program by itself, one to the tracer alone must be handed on, and neither says which it is. So there is
//! another process in the group, of which nobody knows: what reaches it was sent to the whole group.

use std::ffi::OsString;
use std::fs;
use std::io::{self, PipeReader, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, send};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, pidfd_send_signal, waitpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use cuda_pitfalls_core::clock;
use cuda_pitfalls_instrument::supervisor::{self, is_ignored, timespec};

/// How long a signal waits for others: `timeout` sends one to its child, and then the same to the group of both.
const SETTLE: Duration = Duration::from_millis(2);
/// An older signal was sent to the bystander alone.
const FRESH_NS: u64 = 1_000_000_000;
/// What stands for the end of the program, among signals.
const END: u8 = 0;

/// A process of the tracer's process group of which nobody knows. It lives no longer than the tracer.
pub(super) struct Bystander {
    pid: Pid,
    answers: PipeReader,
}

impl Bystander {
    /// Starts it. This process must have one thread. Its command line is the program's: whoever finds the program by
    /// its words finds the bystander too, and whoever looks for the tracer does not.
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
                    show(std::slice::from_raw_parts_mut(from as *mut u8, to - from), command);
                }
                stand_by(tracer, answer.as_raw_fd(), all.as_ptr());
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
            forked
        };
        let pid = (forked > 0).then(|| Pid::from_raw(forked)).flatten().ok_or_else(io::Error::last_os_error)?;
        Ok(Bystander { pid, answers })
    }

    /// The signals that have reached the whole group lately, as bits; none twice.
    fn reached(&mut self) -> u64 {
        // Whoever sends a signal to a group holds a lock of the kernel until all of it has the signal. This call takes
        // the lock, and changes nothing: there is no such process.
        // SAFETY: it takes numbers.
        unsafe { libc::setpgid(i32::MAX, 0) };
        let mut bits = [0; size_of::<u64>()];
        // SAFETY: it is our child, which has not been waited for.
        let is_asked = unsafe { libc::kill(self.pid.as_raw_nonzero().get(), libc::SIGRTMAX()) } == 0;
        if is_asked && self.answers.read_exact(&mut bits).is_ok() { u64::from_ne_bytes(bits) } else { 0 }
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Where the memory of this process holds its command line.
fn command_line() -> Option<(usize, usize)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // proc_pid_stat(5): field 2 is in parentheses; `arg_start` is field 48, and `arg_end` field 49.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(45).map_while(|field| field.parse().ok());
    Some((fields.next()?, fields.next()?)).filter(|(from, to)| *from > 0 && from < to)
}

/// Writes a command over the command line of this process.
fn show(line: &mut [u8], command: &[OsString]) {
    let shown = command.iter().flat_map(|word| word.as_bytes().iter().copied().chain([0]));
    line.iter_mut().zip(shown.chain(std::iter::repeat(0))).for_each(|(to, from)| *to = from);
}

/// What the bystander does: it notes signals, and tells of them when it is asked by the last signal there is. The kernel
/// hands out a signal with a smaller number first.
///
/// # Safety
/// This process must be a fresh child, in which all of these signals are blocked.
unsafe fn stand_by(tracer: i32, answers: RawFd, all: *const libc::sigset_t) -> ! {
    // SAFETY: the calls take numbers, and what lives as long as this process.
    unsafe {
        if !supervisor::begin(tracer, &[answers]) {
            libc::_exit(1);
        }
        for fd in 0..3 {
            libc::close(fd);
        }
        libc::prctl(libc::PR_SET_NAME, c"bystander".as_ptr());
        let mut came_ns = [0u64; 64];
        loop {
            let signal = libc::sigwaitinfo(all, std::ptr::null_mut());
            let now_ns = clock::now_ns();
            if let Some(came) = usize::try_from(signal).ok().and_then(|signal| came_ns.get_mut(signal)) {
                *came = now_ns;
            } else if signal == libc::SIGRTMAX() {
                let is_fresh = |came: &u64| *came > 0 && now_ns.saturating_sub(*came) < FRESH_NS;
                let bits = came_ns.iter().rev().fold(0u64, |bits, came| bits << 1 | u64::from(is_fresh(came)));
                libc::write(answers, (&raw const bits).cast(), size_of::<u64>());
                came_ns = [0; 64];
            }
        }
    }
}

/// Hands on signals, until it is dropped.
pub(super) struct Signals {
    /// Where handlers write the numbers of signals.
    came: Arc<UnixStream>,
    program: Sender<Arc<OwnedFd>>,
    thread: Option<JoinHandle<()>>,
}

impl Signals {
    /// Takes signals from now on. One that our caller ignores, as with `nohup`, stays ignored.
    pub(super) fn take(bystander: Bystander) -> io::Result<Signals> {
        let (coming, came) = UnixStream::pair()?;
        coming.set_nonblocking(true)?;
        let came = Arc::new(came);
        let (program, started) = channel();
        let thread = std::thread::Builder::new().name("signals".into());
        let thread = thread.spawn(move || hand_on(&coming, bystander, &started))?;
        let signals = Signals { came, program, thread: Some(thread) };
        let taken = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
        for signal in taken.into_iter().filter(|signal| !is_ignored(*signal)) {
            let came = signals.came.clone();
            // SAFETY: the handler makes one system call.
            unsafe { signal_hook_registry::register(signal, move || tell(&came, signal as u8)) }?;
        }
        Ok(signals)
    }

    /// Has them handed on to the program that this descriptor stands for.
    pub(super) fn send_to(&self, program: Arc<OwnedFd>) {
        let _ = self.program.send(program);
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Ends a thread that waits for the program.
        self.program = channel().0;
        tell(&self.came, END);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn tell(came: &UnixStream, number: u8) {
    let _ = send(came, &[number], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Hands on what reaches the tracer alone, and what came before there was a program, whoever it was sent to.
fn hand_on(mut coming: &UnixStream, mut bystander: Bystander, started: &Receiver<Arc<OwnedFd>>) {
    let Ok(program) = started.recv() else { return };
    let mut patience = Some(timespec(0));
    loop {
        let _ = poll(&mut [PollFd::new(&coming, PollFlags::IN)], patience.as_ref());
        std::thread::sleep(SETTLE);
        let mut room = [0; 64];
        let came = coming.read(&mut room).map_or(&[][..], |read| room.get(..read).unwrap_or_default());
        let reached = match (bystander.reached(), patience.take()) {
            (_, Some(_)) => 0,
            (reached, None) => reached,
        };
        for signal in 1..64 {
            if came.contains(&signal) && reached >> signal & 1 == 0 {
                let _ = Signal::from_named_raw(signal.into()).map(|signal| pidfd_send_signal(&*program, signal));
            }
        }
        if came.contains(&END) {
            return;
        }
    }
}
