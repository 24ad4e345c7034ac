//! The library in `CUDA_INJECTION64_PATH`, and its hook `InitializeInjection`, which `cuInit` calls. `model::behaviour`
//! lists what was measured.

use crate::c;
use crate::model::behaviour::{INJECTION_FUNCTION, INJECTION_VARIABLE};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The hook of this process.
static HOOK: OncePerProcess = OncePerProcess::new();

/// Loads the library and calls its hook, unless that was done before. It must not be called under the lock: the hook is
/// code of the caller's, which may take its time and may call the driver.
pub fn call() {
    HOOK.run(|| {
        // An empty name would be the program itself to the loader. The real driver's behavior is not known then.
        let Some(path) = c::env(INJECTION_VARIABLE).filter(|path| !path.is_empty()) else {
            return false;
        };
        let Some(hook) = c::function(&path, INJECTION_FUNCTION) else {
            return false;
        };
        // SAFETY: such a library exports a C function without arguments under this name.
        unsafe { hook() };
        true
    });
}

/// Work that is done once in a process, and in a forked child unless it was done before the fork. Other threads wait
/// for it. This is not a lock, which a forked child could inherit held.
struct OncePerProcess {
    /// [`NOT_DONE`], [`DONE`], or the process whose thread does the work.
    by: AtomicU32,
}

const NOT_DONE: u32 = 0;
const DONE: u32 = u32::MAX;

/// Time that a waiting thread sleeps before it checks again.
const PAUSE: Duration = Duration::from_micros(200);

thread_local! {
    /// The process in which this thread does the work; 0 if it does not. A child that is forked during the work is a
    /// different process.
    static AT_IT_IN: Cell<u32> = const { Cell::new(0) };
}

impl OncePerProcess {
    const fn new() -> Self {
        Self {
            by: AtomicU32::new(NOT_DONE),
        }
    }

    /// Does the work, which returns `true` if there was anything to do; otherwise the next call tries again. Returns
    /// when the work is done, except to the work itself.
    fn run(&self, work: impl FnOnce() -> bool) {
        let process = c::pid();
        if AT_IT_IN.get() == process {
            return;
        }
        while let Err(by) =
            self.by
                .compare_exchange(NOT_DONE, process, Ordering::AcqRel, Ordering::Acquire)
        {
            match by {
                DONE => return,
                _ if by == process => std::thread::sleep(PAUSE),
                // A thread of the parent did the work when this process was forked. It is not here and will not end.
                _ => drop(self.by.compare_exchange(
                    by,
                    NOT_DONE,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                )),
            }
        }
        AT_IT_IN.set(process);
        let done = work();
        AT_IT_IN.set(0);
        self.by
            .store(if done { DONE } else { NOT_DONE }, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_does_not_wait_for_a_thread_of_its_parent() {
        let (once, mut reached) = (OncePerProcess::new(), false);
        // The state in a child that was forked while a thread of its parent was doing the work.
        once.by.store(c::pid() + 1, Ordering::SeqCst);
        once.run(|| {
            reached = true;
            true
        });
        assert!(reached);
    }
}
