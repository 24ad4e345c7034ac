//! The actions of harness steps: threads, `environ`, waiting, and deliberate failures. Actions on processes, and
//! actions of a process on itself, are in their own modules.

mod mps;
mod own;
mod process;
mod values;

use std::ffi::{CStr, CString};
use std::io::Write;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use cuda_pitfalls_calls::{Call, CallLibrary};

use self::values::{Values, int_argument, text, value};
use super::state::{CallResult, Worker, WorkerThread, errno, lock};
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::event::{Status, Value};
use cuda_pitfalls_core::scenario::Step;

pub(super) use mps::missing_for_mps as lacks_mps;
type Action = fn(&Arc<Worker>, &Channel, &Step) -> Result<Values, i64>;

/// Every harness step and its action.
const ACTIONS: &[(&str, Action)] = &[
    ("mark", |_, _, _| Ok(Values::new())),
    ("environ", write_environ),
    ("getenv", getenv),
    ("getpid", |_, _, _| {
        Ok(value("pid", i64::from(std::process::id())))
    }),
    ("nanosleep", nanosleep),
    ("pthread_create", pthread_create),
    ("pthread_join", pthread_join),
    ("fork", process::fork),
    ("waitpid", process::waitpid),
    ("posix_spawn", process::posix_spawn),
    ("vfork", process::vfork),
    ("execve", process::execve),
    ("kill", process::kill),
    ("atexit", process::atexit),
    ("exit", process::exit),
    ("_exit", exit_at_once),
    ("abort", |_, _, _| std::process::abort()),
    ("raise", raise),
    ("pause", |_, _, _| {
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }),
    ("signal", ignore_signal),
    ("store_null", store_null),
    ("write", write),
    ("memset", own::memset),
    ("dlopen", own::dlopen),
    ("dl_iterate_phdr", own::dl_iterate_phdr),
    ("readdir", own::readdir),
    ("getrusage", own::getrusage),
    ("proc_pid_status", own::proc_pid_status),
    ("freopen", own::freopen),
    ("fread", own::fread),
    ("seccomp", own::seccomp),
    ("mps_start", mps::start),
    ("mps_quit", mps::quit_daemon),
    ("mps_kill", mps::kill_daemon),
    ("setsid", leave_grandchild),
];

/// Makes a harness step.
pub(super) fn make_harness_step(
    worker: &Arc<Worker>,
    channel: &Channel,
    call: &Call,
    step: &Step,
) -> CallResult {
    let started = clock::now_ns();
    let result = match ACTIONS.iter().find(|(name, _)| *name == call.name) {
        Some((_, action)) => action(worker, channel, step),
        None => Err(-1),
    };
    let elapsed_ns = clock::now_ns() - started;
    match result {
        Ok(values) => CallResult {
            status: None,
            values,
            bytes: None,
            elapsed_ns,
        },
        Err(code) => {
            let status = Some(Status::named(CallLibrary::Libc, code));
            CallResult {
                status,
                values: Values::new(),
                bytes: None,
                elapsed_ns,
            }
        }
    }
}

/// Replaces or appends an entry of `environ[]` without the C library.
fn write_environ(_: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    let prefix = format!("{}=", text(step, "name"));
    let entry = CString::new(format!("{prefix}{}", text(step, "value")))
        .map_err(|_| 22i64)?
        .into_raw();
    // SAFETY: the worker's other threads wait during a step, and the strings live forever.
    unsafe {
        let mut entries = Vec::new();
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            if !CStr::from_ptr(*at)
                .to_bytes()
                .starts_with(prefix.as_bytes())
            {
                entries.push(*at);
            }
            at = at.add(1);
        }
        entries.push(entry);
        entries.push(std::ptr::null_mut());
        environ = Box::leak(entries.into_boxed_slice()).as_mut_ptr();
    }
    Ok(Values::new())
}

fn getenv(_: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    let name = CString::new(text(step, "name")).map_err(|_| 22i64)?;
    // SAFETY: the C library's own view is wanted, and no other thread writes during a step.
    let value = unsafe {
        let found = libc::getenv(name.as_ptr());
        if found.is_null() {
            None
        } else {
            Some(CStr::from_ptr(found).to_string_lossy().into_owned())
        }
    };
    Ok(value
        .map(|value| ("value".to_string(), Value::Text(value)))
        .into_iter()
        .collect())
}

fn nanosleep(_: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    std::thread::sleep(Duration::from_millis(
        int_argument(step, "milliseconds").unwrap_or(0).max(0) as u64,
    ));
    Ok(Values::new())
}

/// Starts a thread that executes its steps, one at a time.
fn pthread_create(worker: &Arc<Worker>, channel: &Channel, step: &Step) -> Result<Values, i64> {
    let name = step.bind.clone().ok_or(22i64)?;
    let (jobs, incoming) = mpsc::channel();
    let (finished, done) = mpsc::channel();
    let (shared, lent) = (worker.clone(), channel.try_clone().map_err(|_| errno())?);
    let handle = std::thread::Builder::new()
        .name(name.clone())
        .spawn(move || {
            while let Ok((index, step)) = incoming.recv() {
                shared.make_step(&lent, index, &step);
                if finished.send(()).is_err() {
                    return;
                }
            }
        })
        .map_err(|error| i64::from(error.raw_os_error().unwrap_or(11)))?;
    lock(&worker.threads).insert(
        name,
        WorkerThread {
            jobs,
            done: Arc::new(Mutex::new(done)),
            handle,
        },
    );
    Ok(Values::new())
}

fn pthread_join(worker: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    let thread = lock(&worker.threads)
        .remove(&text(step, "actor"))
        .ok_or(3i64)?;
    drop(thread.jobs);
    thread
        .handle
        .join()
        .map(|()| Values::new())
        .map_err(|_| 35i64)
}

fn exit_at_once(_: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    // SAFETY: it ends the process and runs nothing else.
    unsafe { libc::_exit(int_argument(step, "code").unwrap_or(0) as i32) }
}

fn raise(_: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    // SAFETY: a signal to ourselves.
    let result = unsafe { libc::raise(int_argument(step, "signal").unwrap_or(0) as i32) };
    if result == 0 {
        Ok(Values::new())
    } else {
        Err(errno())
    }
}

fn ignore_signal(_: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    // SAFETY: SIG_IGN runs no code of ours.
    let before = unsafe {
        libc::signal(
            int_argument(step, "signal").unwrap_or(0) as i32,
            libc::SIG_IGN,
        )
    };
    if before == libc::SIG_ERR {
        Err(errno())
    } else {
        Ok(Values::new())
    }
}

fn store_null(_: &Arc<Worker>, _: &Channel, _: &Step) -> Result<Values, i64> {
    // SAFETY: none; the fault is intended.
    unsafe { std::ptr::null_mut::<u8>().write_volatile(1) };
    Ok(Values::new())
}

/// Writes to stdout, including lines that look like messages of the protocol; none of them may be believed.
fn write(_: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    let wanted = int_argument(step, "bytes").unwrap_or(0).max(0) as usize;
    let mut noise = b"{\"event\":\"bye\"}\n\x1b[2J\xff\0".repeat(2048);
    noise.truncate(noise.len().min(wanted.max(1)));
    let mut stdout = std::io::stdout().lock();
    let mut written = 0;
    while written < wanted {
        let part = noise.len().min(wanted - written);
        stdout
            .write_all(noise.get(..part).unwrap_or_default())
            .map_err(|_| errno())?;
        written += part;
    }
    stdout.flush().map_err(|_| errno())?;
    Ok(Values::new())
}

/// Leaves a process behind that is no longer in the worker's process group.
fn leave_grandchild(_: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    let milliseconds = int_argument(step, "milliseconds").unwrap_or(0).max(0) as u64;
    // SAFETY: both children only make system calls, sleep and exit.
    unsafe {
        let harness = libc::getppid();
        match libc::fork() {
            -1 => Err(errno()),
            0 => {
                libc::setsid();
                let maker = libc::getpid();
                if libc::fork() == 0 {
                    // Once the harness has adopted the process, the signal below follows the harness's end.
                    while libc::getppid() == maker {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    if libc::getppid() != harness {
                        libc::_exit(0);
                    }
                    std::thread::sleep(Duration::from_millis(milliseconds));
                }
                libc::_exit(0)
            }
            pid => {
                libc::waitpid(pid, std::ptr::null_mut(), 0);
                Ok(Values::new())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_harness_step_has_an_action_and_the_other_way_round() {
        let listed: Vec<_> = cuda_pitfalls_calls::all()
            .filter(|call| call.library == CallLibrary::Harness)
            .map(|call| call.name)
            .collect();
        let made: Vec<_> = ACTIONS.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed, made);
    }
}
