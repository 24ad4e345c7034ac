//! The state of a worker, and the result of a call.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use super::symbols::Symbols;
use cuda_pitfalls_core::event::{SetAside, Status, Value};
use cuda_pitfalls_core::experiment::Step;

/// The state that all threads of a worker share, and that forked processes inherit.
pub(super) struct Worker {
    /// The channels reserved for processes that are not started yet.
    pub(super) channels: Mutex<BTreeMap<String, SetAside>>,
    pub(super) probes: bool,
    pub(super) symbols: Symbols,
    pub(super) handles: Mutex<HashMap<String, u64>>,
    /// Bytes that steps of any process have bound, by name.
    pub(super) bytes: Mutex<HashMap<String, Vec<u8>>>,
    /// Private copies of libcuda and libcudart, by name.
    pub(super) copies: Mutex<HashMap<String, libloading::Library>>,
    pub(super) threads: Mutex<HashMap<String, WorkerThread>>,
    /// The way in which this process exits, if a step requested it and was reported.
    pub(super) leaving: Mutex<Option<Leaving>>,
}

/// The action of this process after its step was reported to the parent.
pub(super) enum Leaving {
    /// `exit` with this code.
    Exit(i32),
    /// Replace this process by a fresh one.
    Exec,
}

/// A step for a thread: its index and its call.
pub(super) type Job = (usize, Step);

/// A thread that waits for steps.
pub(super) struct WorkerThread {
    pub(super) jobs: mpsc::Sender<Job>,
    pub(super) done: Arc<Mutex<mpsc::Receiver<()>>>,
    pub(super) handle: std::thread::JoinHandle<()>,
}

pub(super) struct CallResult {
    pub(super) status: Option<Status>,
    pub(super) values: BTreeMap<String, Value>,
    pub(super) bytes: Option<String>,
    pub(super) elapsed_ns: u64,
}

/// Locks a mutex even if a thread panicked while it held the lock: the data behind these locks is always consistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn errno() -> i64 {
    i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(-1))
}

impl Worker {
    /// Stores bytes that other processes bound.
    pub(super) fn store_bytes(&self, bytes: BTreeMap<String, String>) {
        for (name, hex) in bytes {
            let digits = hex
                .as_bytes()
                .chunks(2)
                .map(|digits| std::str::from_utf8(digits).unwrap_or_default());
            let bytes = digits
                .map(|digits| u8::from_str_radix(digits, 16).unwrap_or(0))
                .collect();
            lock(&self.bytes).insert(name, bytes);
        }
    }
}
