//! What CUDA keeps per thread: the stack of current contexts, the runtime's device and its last error.

use std::cell::RefCell;

/// The state of one thread. A new thread starts on device 0 with no context, whatever its creator chose.
pub struct Thread {
    pub stack: Vec<u64>,
    pub device: usize,
    pub last_error: u32,
}

thread_local! {
    static THREAD: RefCell<Thread> = const { RefCell::new(Thread { stack: Vec::new(), device: 0, last_error: 0 }) };
}

impl Thread {
    /// The current context's handle, or `None`.
    pub fn current(&self) -> Option<u64> {
        self.stack.last().copied()
    }

    /// Replaces the current context, as `cuCtxSetCurrent` does: it does not push.
    pub fn set_current(&mut self, context: Option<u64>) {
        self.stack.pop();
        self.stack.extend(context);
    }
}

/// Runs `work` on the calling thread's state; `None` while the thread is being torn down.
pub fn with<T>(work: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    THREAD.try_with(|thread| thread.try_borrow_mut().ok().map(|mut thread| work(&mut thread))).ok().flatten()
}
