//! Reading the stacks of parked threads from outside. The only user of py-spy and blazesym.
//!
//! The libraries in the program send return addresses, which get names here. Python frames are read from the
//! interpreter's memory, whether or not its lock is held, because a parked thread does not move.
//!
//! Stacks are read on a separate thread: the memory of a program and the files of its libraries are not under our
//! control, and reading them may never end.

mod notebook;
mod reader;
mod source;

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::Stack;
use cuda_pitfalls_core::holding::PythonStack;
use notebook::Notebooks;
use reader::StackReader;

/// Returns the Python stack of the main thread of a process, without stopping it; `None` if it has no Python. The
/// process decides what is read and for how long: call this in a process that can be ended.
pub fn read_python_stack(pid: u32) -> Option<PythonStack> {
    reader::read_main_thread(pid)
}

/// The longest wait of a parked thread.
const PATIENCE: Duration = Duration::from_secs(2);

/// The reason for a stack that was not read in time.
const SLOW: &str = "it could not be read within two seconds";

enum StackQuery {
    Forget(u32),
    Python(u32),
    Stack(ParkedThread),
}

/// A thread that waits for the tracer.
pub(super) struct ParkedThread {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// The thread's ID in the C library.
    pub(super) pthread: u64,
    /// The thread's return addresses, innermost first.
    pub(super) frames: Vec<u64>,
    /// The connection of the thread, if a descriptor was left for it.
    pub(super) waiting: Option<UnixStream>,
}

enum StackAnswer {
    Python((Option<String>, Option<String>)),
    Stack(Stack),
}

/// A reader of the stacks of one program's processes.
pub(super) struct Stacks {
    questions: Sender<StackQuery>,
    answers: Receiver<StackAnswer>,
    /// The number of answers that will come too late for their callers.
    late: usize,
}

impl Stacks {
    /// Starts a reader for a command with these arguments. It leaves out frames of libraries whose paths begin with
    /// `ours`.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(super) fn new(ours: Vec<String>, arguments: &[OsString]) -> std::io::Result<Stacks> {
        let notebooks = Notebooks::new(arguments);
        let (questions, asked) = channel();
        let (answer, answers) = channel();
        // The thread is not joined at the program's end.
        std::thread::Builder::new()
            .name("stacks".into())
            .spawn(move || {
                let mut names = StackReader::new(ours, notebooks);
                for question in asked {
                    let read = match question {
                        StackQuery::Forget(pid) => {
                            names.forget_process(pid);
                            continue;
                        }
                        StackQuery::Python(pid) => StackAnswer::Python(names.python(pid)),
                        StackQuery::Stack(thread) => StackAnswer::Stack(names.read(&thread)),
                    };
                    if answer.send(read).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Stacks {
            questions,
            answers,
            late: 0,
        })
    }

    /// Forgets a process that has ended or runs another program.
    pub(super) fn forget_process(&mut self, pid: u32) {
        let _ = self.questions.send(StackQuery::Forget(pid));
    }

    /// Returns the Python version of a process, or the reason why its stacks cannot be read.
    pub(super) fn python(&mut self, pid: u32) -> (Option<String>, Option<String>) {
        match self.ask(StackQuery::Python(pid)) {
            Some(StackAnswer::Python(found)) => found,
            _ => (None, Some(format!("the Python of process {pid}: {SLOW}"))),
        }
    }

    /// Returns the stack of a parked thread.
    pub(super) fn read(&mut self, thread: ParkedThread) -> Stack {
        match self.ask(StackQuery::Stack(thread)) {
            Some(StackAnswer::Stack(stack)) => stack,
            _ => Stack::from_failure(SLOW),
        }
    }

    /// Sends a query, and waits for the answer as long as a parked thread does. While an earlier answer is late, no
    /// query is sent.
    fn ask(&mut self, question: StackQuery) -> Option<StackAnswer> {
        while self.late > 0 && self.answers.try_recv().is_ok() {
            self.late -= 1;
        }
        if self.late > 0 {
            return None;
        }
        self.questions.send(question).ok()?;
        match self.answers.recv_timeout(PATIENCE) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => {
                self.late += 1;
                None
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }
}
