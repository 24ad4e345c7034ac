//! The traces of a real driver in `/proc` of a process, which others can see: descriptors of the device files,
//! a thread of the driver, and a thread for each context. The numbers were measured with driver 580.159.04 (docs/who.md).
//! Everything here may fail, and then is missing: no call depends on it.

use crate::c;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Thread, park};

/// Descriptors of a GPU's device file after `cuInit`, and further ones of each context.
const GPU_FILES: (usize, usize) = (4, 16);
/// Descriptors of the other device files after `cuInit`.
const COMMON_FILES: [(&str, usize); 2] = [("nvidiactl", 1), ("nvidia-uvm", 2)];
/// The stack of a thread that only waits, in bytes.
const STACK_BYTES: usize = 64 << 10;

/// The traces of one process.
#[derive(Default)]
pub struct Presence {
    files: Vec<File>,
    contexts: BTreeMap<u64, ContextPresence>,
}

/// The traces of one context.
struct ContextPresence {
    _files: Vec<File>,
    thread: Option<WaitingThread>,
}

/// A thread that waits for its end.
struct WaitingThread {
    thread: Thread,
    has_ended: Arc<AtomicBool>,
}

impl Presence {
    /// Leaves the traces of `cuInit` with these GPUs.
    pub fn initialize(&mut self, gpus: &[usize]) {
        for (name, count) in COMMON_FILES {
            self.files.extend(open_device(name, count));
        }
        for gpu in gpus {
            self.files
                .extend(open_device(&format!("nvidia{gpu}"), GPU_FILES.0));
        }
        // Code of this library runs until the process ends.
        c::stay_loaded();
        WaitingThread::start("cuda00001400006");
    }

    /// Leaves the traces of a new context.
    pub fn add_context(&mut self, handle: u64, gpu: usize) {
        let context = ContextPresence {
            _files: open_device(&format!("nvidia{gpu}"), GPU_FILES.1),
            thread: WaitingThread::start("cuda-EvtHandlr"),
        };
        self.contexts.insert(handle, context);
    }

    /// Removes the traces of a context.
    pub fn remove_context(&mut self, handle: u64) {
        let context = self.contexts.remove(&handle);
        if let Some(ended) = context.and_then(|context| context.thread) {
            ended.has_ended.store(true, Ordering::Release);
            ended.thread.unpark();
        }
    }
}

impl WaitingThread {
    fn start(name: &str) -> Option<WaitingThread> {
        let has_ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&has_ended);
        let thread = Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
        // Signals of the program are for its own threads.
        let started = c::without_signals(|| {
            thread.spawn(move || {
                while !end.load(Ordering::Acquire) {
                    park();
                }
            })
        });
        let thread = started.ok()?.thread().clone();
        Some(WaitingThread { thread, has_ended })
    }
}

fn open_device(name: &str, count: usize) -> Vec<File> {
    let Some(folder) = c::own_path().and_then(|path| path.parent().map(PathBuf::from)) else {
        return Vec::new();
    };
    let path = folder.join(name);
    (0..count).map_while(|_| File::open(&path).ok()).collect()
}
