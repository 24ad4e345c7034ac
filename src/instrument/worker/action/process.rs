//! Processes: fork, spawn, signal, wait, and leave.

use std::sync::Arc;

use super::values::{Values, int_argument, text, value};
use crate::worker::leaving::{self, Fresh};
use crate::worker::state::{Leaving, Worker, errno, lock};
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::{Event, SetAside, Value};
use cuda_pitfalls_core::experiment::Step;

/// Forks. The child reads its own channel and leaves by `_exit`.
pub(super) fn fork(worker: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    let name = step.bind.as_deref().ok_or(22i64)?;
    let fd = lock(&worker.channels).remove(name).ok_or(22i64)?.fd;
    // SAFETY: the child uses nothing that another thread may have locked: the worker's tables are unlocked during a
    // step.
    match unsafe { libc::fork() } {
        -1 => {
            let error = errno();
            // SAFETY: the parent set this descriptor aside for the child. Open, it would make the parent wait until the
            // deadline for a process that does not exist.
            drop(unsafe { Channel::from_inherited(fd) });
            Err(error)
        }
        0 => {
            // SAFETY: it only concerns this process. If the harness is killed while the process hangs, nothing else
            // would end it.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            // SAFETY: the parent set this descriptor aside for this child.
            let mut channel = unsafe { Channel::from_inherited(fd) };
            close_ends(worker, |forked_by| forked_by != Some(name));
            worker.serve_commands(&mut channel, Some(name));
            let _ = channel.send(&Event::BYE);
            // SAFETY: the child must not run the exit handlers of libraries that the parent initialized.
            unsafe { libc::_exit(0) }
        }
        pid => {
            // SAFETY: this end now belongs to the child. An open copy here would hide the child's death.
            drop(unsafe { Channel::from_inherited(fd) });
            close_ends(worker, |forked_by| forked_by == Some(name));
            lock(&worker.handles).insert(name.to_string(), pid as u64);
            Ok(value("pid", i64::from(pid)))
        }
    }
}

/// Closes the channels of processes that others will fork. Open copies here would hide the death of such a process.
fn close_ends(worker: &Worker, is_others: impl Fn(Option<&str>) -> bool) {
    lock(&worker.channels).retain(|_, SetAside { fd, forked_by }| {
        let close = is_others(forked_by.as_deref());
        if close {
            // SAFETY: the descriptor was set aside by the parent and is not used here.
            drop(unsafe { Channel::from_inherited(*fd) });
        }
        !close
    });
}

pub(super) fn waitpid(worker: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    let pid = lock(&worker.handles)
        .get(&text(step, "actor"))
        .copied()
        .ok_or(10i64)?;
    let mut status = 0;
    // SAFETY: `status` is a live integer.
    while unsafe { libc::waitpid(pid as i32, &raw mut status, 0) } == -1 {
        if errno() != i64::from(libc::EINTR) {
            return Err(errno());
        }
    }
    let (code, signal) = if libc::WIFSIGNALED(status) {
        (-1, libc::WTERMSIG(status))
    } else {
        (libc::WEXITSTATUS(status), 0)
    };
    Ok(Values::from([
        ("code".to_string(), Value::Int(i64::from(code))),
        ("signal".to_string(), Value::Int(i64::from(signal))),
    ]))
}

pub(super) fn posix_spawn(worker: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    start(worker, step, Fresh::spawn_process)
}

pub(super) fn vfork(worker: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    start(worker, step, Fresh::vfork)
}

/// Starts a fresh process on its reserved channel.
fn start(
    worker: &Arc<Worker>,
    step: &Step,
    how: impl Fn(&Fresh) -> Result<i32, i64>,
) -> Result<Values, i64> {
    let name = step.bind.as_deref().ok_or(22i64)?;
    let fd = lock(&worker.channels).remove(name).ok_or(22i64)?.fd;
    let started = how(&leaving::fresh_worker(fd));
    // SAFETY: this end now belongs to the child. An open copy here would hide the child's death.
    drop(unsafe { Channel::from_inherited(fd) });
    let pid = started?;
    lock(&worker.handles).insert(name.to_string(), pid as u64);
    Ok(value("pid", i64::from(pid)))
}

/// Schedules `execve` for after the report to the parent, since afterwards this program cannot report anything.
pub(super) fn execve(worker: &Arc<Worker>, _: &Channel, _: &Step) -> Result<Values, i64> {
    *lock(&worker.leaving) = Some(Leaving::Exec);
    Ok(Values::new())
}

/// Schedules `exit` for after the report to the parent.
pub(super) fn exit(worker: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    *lock(&worker.leaving) = Some(Leaving::Exit(int_argument(step, "code").unwrap_or(0) as i32));
    Ok(Values::new())
}

pub(super) fn atexit(_: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    leaving::at_exit(step.bind.as_deref().ok_or(22i64)?).map(|()| Values::new())
}

pub(super) fn kill(worker: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    let pid = lock(&worker.handles)
        .get(&text(step, "actor"))
        .copied()
        .ok_or(3i64)?;
    // SAFETY: a signal to a process that a step of this worker started and has not waited for.
    let result =
        unsafe { libc::kill(pid as i32, int_argument(step, "signal").unwrap_or(0) as i32) };
    if result == 0 {
        Ok(Values::new())
    } else {
        Err(errno())
    }
}
