//! Rows at once: a few threads, each with one row at a time.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::attempt::Attempts;
use crate::supervisor::Interrupt;
use crate::survey::python::{Line, Made};

/// How often the user is looked after.
const TICK: Duration = Duration::from_millis(50);

/// A row to be asked.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The line.
    pub(super) line: Line,
    /// How long a process of it may run.
    pub(super) limit: Duration,
}

/// What the caller is told.
pub(super) enum Event {
    /// The row at this index is done.
    Done(usize, Vec<Made>),
    /// Time has passed.
    Tick,
}

/// Asks all rows, and tells of each when it is done, in any order. A row that the user stopped is not told of.
pub(super) fn run(attempts: &Attempts, jobs: Vec<Job>, interrupt: &mut Interrupt, mut tell: impl FnMut(Event)) {
    let threads = attempts.jobs().min(jobs.len());
    let queue: Mutex<VecDeque<(usize, Job)>> = Mutex::new(jobs.into_iter().enumerate().collect());
    let (done, all_done) = channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (done, queue) = (done.clone(), &queue);
            scope.spawn(move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some((at, job)) = next() {
                    let Some(made) = attempts.row(&job) else { break };
                    if done.send((at, made)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        loop {
            match all_done.recv_timeout(TICK) {
                Ok((at, made)) => tell(Event::Done(at, made)),
                Err(RecvTimeoutError::Timeout) => tell(Event::Tick),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if interrupt.check() {
                attempts.stop.store(true, Ordering::Relaxed);
            }
        }
    });
}
