//! Stacks of parked threads, read from outside: the only user of py-spy and blazesym.
//!
//! The libraries in the program send return addresses; here they get names. Frames of Python are
//! read from the interpreter's memory, whether its lock is held or not: a parked thread does not
//! move.
//!
//! They are read on a thread of its own: what a program has in its memory, and what lies under the
//! names of its libraries, is its own business, and may take for ever to read.

mod reader;
mod source;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::Stack;
use reader::StackReader;

/// A parked thread waits no longer than this.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a reading comes to that is not done in time.
const SLOW: &str = "it could not be read within two seconds";

/// What is to be read.
enum StackQuery {
    Forget(u32),
    Python(u32),
    Stack { pid: u32, tid: u32, pthread: u64, frames: Vec<u64> },
}

/// What was read.
enum StackAnswer {
    Python((Option<String>, Option<String>)),
    Stack(Stack),
}

/// Reads stacks of the processes of one program.
pub(super) struct Stacks {
    questions: Sender<StackQuery>,
    answers: Receiver<StackAnswer>,
    /// How many answers nobody waits for any more.
    late: usize,
}

impl Stacks {
    /// For a trace whose libraries have paths that begin so.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn new(ours: Vec<String>) -> std::io::Result<Stacks> {
        let (questions, asked) = channel();
        let (answer, answers) = channel();
        // The program ends without waiting for it.
        std::thread::Builder::new().name("stacks".into()).spawn(move || {
            let mut names = StackReader::new(ours);
            for question in asked {
                let read = match question {
                    StackQuery::Forget(pid) => {
                        names.forget(pid);
                        continue;
                    }
                    StackQuery::Python(pid) => StackAnswer::Python(names.python(pid)),
                    StackQuery::Stack { pid, tid, pthread, frames } => {
                        StackAnswer::Stack(names.read(pid, tid, pthread, &frames))
                    }
                };
                if answer.send(read).is_err() {
                    return;
                }
            }
        })?;
        Ok(Stacks { questions, answers, late: 0 })
    }

    /// Forgets a process that has ended or become another program.
    pub(super) fn forget(&mut self, pid: u32) {
        let _ = self.questions.send(StackQuery::Forget(pid));
    }

    /// The version of Python in a process, or why its stacks cannot be read.
    pub(super) fn python(&mut self, pid: u32) -> (Option<String>, Option<String>) {
        match self.ask(StackQuery::Python(pid)) {
            Some(StackAnswer::Python(found)) => found,
            _ => (None, Some(format!("the Python of process {pid}: {SLOW}"))),
        }
    }

    /// The stack of a parked thread: `frames` are its return addresses, innermost first.
    pub(super) fn read(&mut self, pid: u32, tid: u32, pthread: u64, frames: &[u64]) -> Stack {
        match self.ask(StackQuery::Stack { pid, tid, pthread, frames: frames.to_vec() }) {
            Some(StackAnswer::Stack(stack)) => stack,
            _ => Stack::unread(SLOW),
        }
    }

    /// Asks, and waits as long as a thread does. While an earlier answer is late, nothing is asked.
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
