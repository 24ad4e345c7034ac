//! CUDA's state per thread: the stack of current contexts, the runtime's device and its last error.

use std::cell::Cell;

/// The state of one thread. A new thread starts on device 0 with no context, whatever its creator chose.
#[derive(Default)]
pub struct Thread {
    pub stack: Vec<u64>,
    pub device: usize,
    pub last_error: u32,
    /// The mode of stream captures; 0 is the global one.
    pub capture_mode: i32,
}

thread_local! {
    /// The state of this thread. It has no destructor, so that exit handlers still find it: the few bytes of a thread
    /// that ended are never freed.
    static THREAD: Cell<*mut Thread> = const { Cell::new(std::ptr::null_mut()) };
}

impl Thread {
    /// Returns the current context's handle, or `None`.
    pub fn current(&self) -> Option<u64> {
        self.stack.last().copied()
    }

    /// Replaces the current context, as `cuCtxSetCurrent` does: it does not push.
    pub fn set_current(&mut self, context: Option<u64>) {
        self.stack.pop();
        self.stack.extend(context);
    }
}

/// Runs `work` on the calling thread's state; `None` inside another call of this function.
pub fn with<T>(work: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    THREAD.with(|cell| {
        // Taken out while the work runs, so that there are never two references to it.
        let found = cell.replace(IN_USE);
        if found == IN_USE {
            return None;
        }
        let own = if found.is_null() {
            Box::into_raw(Box::default())
        } else {
            found
        };
        // SAFETY: the pointer comes from Box::into_raw, is never freed, and only this thread has it, only once.
        let result = work(unsafe { &mut *own });
        cell.set(own);
        Some(result)
    })
}

/// Stands in for a state that is in use; no box lies at this address.
const IN_USE: *mut Thread = std::ptr::without_provenance_mut(1);
