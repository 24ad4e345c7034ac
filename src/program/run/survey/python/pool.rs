//! Rows at once: a few threads, each with one row at a time.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::attempt::{Attempts, wants_to_be_alone};
use cuda_pitfalls_answers::survey::python::{PythonAttempt, PythonLine};
use cuda_pitfalls_instrument::supervisor::Interrupt;

/// How often the user is looked after.
const TICK: Duration = Duration::from_millis(50);

/// Rows of a batch, for each thread. What is stopped midway loses a batch at most.
const BATCH: usize = 4;

/// A row to be asked.
#[derive(Clone, Debug)]
pub(super) struct RowJob {
    /// The line.
    pub(super) line: PythonLine,
    /// How long a process of it may run.
    pub(super) limit: Duration,
}

/// What the caller is told.
pub(super) enum PoolEvent {
    /// The row at this index is done.
    Done(usize, Vec<PythonAttempt>),
    /// Time has passed.
    Tick,
}

/// Asks all rows, and tells of each when it is done, in any order. A row that the user stopped is not told of.
///
/// Rows are asked in batches: the attempts of a batch that may run at once, then, one after the other, those that
/// must run alone. To change between the two for every row would let all threads wait for the slowest each time.
pub(super) fn run(attempts: &Attempts, jobs: Vec<RowJob>, interrupt: &mut Interrupt, mut tell: impl FnMut(PoolEvent)) {
    let mut rows: VecDeque<PoolRow> =
        jobs.into_iter().enumerate().map(|(at, job)| PoolRow { at, job, made: Vec::new() }).collect();
    while !rows.is_empty() {
        let batch: Vec<PoolRow> = rows.drain(..rows.len().min(BATCH * attempts.jobs())).collect();
        let mut left = Vec::new();
        let together = |row: &PoolRow| attempts.together(&row.job);
        stage(attempts, attempts.jobs(), batch, together, interrupt, |done| match done {
            Some(row) if wants_to_be_alone(&row.made) => left.push(row),
            Some(row) => tell(PoolEvent::Done(row.at, row.made)),
            None => tell(PoolEvent::Tick),
        });
        let alone = |row: &PoolRow| attempts.alone(&row.job, row.made.clone());
        stage(attempts, 1, left, alone, interrupt, |done| match done {
            Some(row) => tell(PoolEvent::Done(row.at, row.made)),
            None => tell(PoolEvent::Tick),
        });
        if attempts.stop.load(Ordering::Relaxed) {
            break;
        }
    }
}

/// A row and what was made of it so far.
struct PoolRow {
    /// Where the caller has it.
    at: usize,
    job: RowJob,
    made: Vec<PythonAttempt>,
}

/// Does one thing with each row, several rows at once. Tells of each that is done, and of none when time has passed.
fn stage(
    attempts: &Attempts,
    threads: usize,
    rows: Vec<PoolRow>,
    ask: impl Fn(&PoolRow) -> Option<Vec<PythonAttempt>> + Sync,
    interrupt: &mut Interrupt,
    mut tell: impl FnMut(Option<PoolRow>),
) {
    let threads = threads.min(rows.len());
    let queue: Mutex<VecDeque<PoolRow>> = Mutex::new(rows.into());
    let (done, all_done) = channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (done, queue, ask) = (done.clone(), &queue, &ask);
            scope.spawn(move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some(row) = next() {
                    let Some(made) = ask(&row) else { break };
                    if done.send(PoolRow { made, ..row }).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        loop {
            match all_done.recv_timeout(TICK) {
                Ok(row) => tell(Some(row)),
                Err(RecvTimeoutError::Timeout) => tell(None),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if interrupt.check() {
                attempts.stop.store(true, Ordering::Relaxed);
            }
        }
    });
}
