//! Runs several rows at once, on a few threads with one row each at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::attempt::{Attempts, RowJob, wants_to_be_alone};
use cuda_pitfalls_answers::survey::python::PythonAttempt;
use cuda_pitfalls_instrument::supervisor::Interrupt;

/// Interval at which to check whether the user wants to stop.
const TICK: Duration = Duration::from_millis(50);

/// Number of rows of a batch per thread. A survey that is stopped loses at most one batch.
const BATCH: usize = 4;

/// The caller's index of a row, and its attempts.
pub(super) type DoneRow = (usize, Vec<PythonAttempt>);

/// Runs all rows, and passes each one on when it is done, in any order, and `None` while time passes. Rows that the
/// user stopped are not passed on.
///
/// Rows run in batches: first the attempts that may run at the same time, then, one after the other, those that must
/// run alone. If each row switched between the two, all threads would wait for the slowest one each time.
pub(super) fn run(
    attempts: &Attempts,
    jobs: Vec<RowJob>,
    interrupt: &mut Interrupt,
    mut tell: impl FnMut(Option<DoneRow>),
) {
    let mut rows: VecDeque<PoolRow> = jobs
        .into_iter()
        .enumerate()
        .map(|(at, job)| PoolRow {
            at,
            job,
            made: Vec::new(),
        })
        .collect();
    while !rows.is_empty() {
        let batch: Vec<PoolRow> = rows
            .drain(..rows.len().min(BATCH * attempts.job_count()))
            .collect();
        let mut left = Vec::new();
        run_stage(
            attempts,
            attempts.job_count(),
            batch,
            |row| attempts.attempts_together(&row.job),
            interrupt,
            |done| match done {
                Some(row) if wants_to_be_alone(&row.job, &row.made) => left.push(row),
                done => tell(done.map(|row| (row.at, row.made))),
            },
        );
        run_stage(
            attempts,
            1,
            left,
            |row| attempts.alone(&row.job, row.made.clone()),
            interrupt,
            |done| {
                tell(done.map(|row| (row.at, row.made)));
            },
        );
        if attempts.stop.load(Ordering::Relaxed) {
            break;
        }
    }
}

struct PoolRow {
    /// The caller's index of the row.
    at: usize,
    job: RowJob,
    made: Vec<PythonAttempt>,
}

/// Processes the rows, several at once. Reports each row as it finishes, and ticks in between.
fn run_stage(
    attempts: &Attempts,
    threads: usize,
    rows: Vec<PoolRow>,
    ask: impl Fn(&PoolRow) -> Option<Vec<PythonAttempt>> + Sync,
    interrupt: &mut Interrupt,
    mut tell: impl FnMut(Option<PoolRow>),
) {
    let (stop, tell) = (&attempts.stop, &mut tell);
    each(
        threads,
        rows,
        |row| ask(&row).map(|made| PoolRow { made, ..row }),
        interrupt,
        stop,
        tell,
    );
}

/// Processes the items, several at once. Reports each item as it finishes, and ticks in between. `stop` is set if the
/// user wants to stop; `ask` returns nothing then.
pub(in crate::run) fn each<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    ask: impl Fn(T) -> Option<R> + Sync,
    interrupt: &mut Interrupt,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Option<R>),
) {
    let started = threads.min(items.len());
    let queue: Mutex<VecDeque<T>> = Mutex::new(items.into());
    let (done, all_done) = channel();
    std::thread::scope(|scope| {
        for _ in 0..started {
            let (done, queue, ask) = (done.clone(), &queue, &ask);
            scope.spawn(move || {
                let next = || {
                    queue
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front()
                };
                while let Some(item) = next() {
                    let Some(made) = ask(item) else { break };
                    if done.send(made).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        loop {
            match all_done.recv_timeout(TICK) {
                Ok(made) => tell(Some(made)),
                Err(RecvTimeoutError::Timeout) => tell(None),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if interrupt.check() {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
}
