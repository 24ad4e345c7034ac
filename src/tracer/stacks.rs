//! Stacks of parked threads, read from outside: the only user of py-spy and blazesym.
//!
//! The libraries in the program send return addresses; here they get names. Frames of Python are
//! read from the interpreter's memory, whether its lock is held or not: a parked thread does not
//! move.
//!
//! They are read on a thread of its own: what a program has in its memory, and what lies under the
//! names of its libraries, is its own business, and may take for ever to read.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use py_spy::{Config, PythonSpy};

use crate::trace::{Frame, Language, Owner, Stack};

/// The tables of symbols of larger files are not read: it would take as long as the call itself.
const LARGEST_MODULE: u64 = 64 << 20;
/// Line numbers are looked up in files up to this size.
const LARGEST_DEBUG: u64 = 256 << 20;
/// Other threads run while one is read, and may move under the reader.
const TRIES: u32 = 3;
/// More frames are left out.
const MOST_FRAMES: usize = 128;

/// A parked thread waits no longer than this.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a reading comes to that is not done in time.
const SLOW: &str = "it could not be read within two seconds";

/// What is to be read.
enum Question {
    Forget(u32),
    Python(u32),
    Stack { pid: u32, tid: u32, pthread: u64, frames: Vec<u64> },
}

/// What was read.
enum Answer {
    Python((Option<String>, Option<String>)),
    Stack(Stack),
}

/// Reads stacks of the processes of one program.
pub(super) struct Stacks {
    questions: Sender<Question>,
    answers: Receiver<Answer>,
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
            let mut names = Names::new(ours);
            for question in asked {
                let read = match question {
                    Question::Forget(pid) => {
                        names.forget(pid);
                        continue;
                    }
                    Question::Python(pid) => Answer::Python(names.python(pid)),
                    Question::Stack { pid, tid, pthread, frames } => {
                        Answer::Stack(names.read(pid, tid, pthread, &frames))
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
        let _ = self.questions.send(Question::Forget(pid));
    }

    /// The version of Python in a process, or why its stacks cannot be read.
    pub(super) fn python(&mut self, pid: u32) -> (Option<String>, Option<String>) {
        match self.ask(Question::Python(pid)) {
            Some(Answer::Python(found)) => found,
            _ => (None, Some(format!("the Python of process {pid}: {SLOW}"))),
        }
    }

    /// The stack of a parked thread: `frames` are its return addresses, innermost first.
    pub(super) fn read(&mut self, pid: u32, tid: u32, pthread: u64, frames: &[u64]) -> Stack {
        match self.ask(Question::Stack { pid, tid, pthread, frames: frames.to_vec() }) {
            Some(Answer::Stack(stack)) => stack,
            _ => Stack::unread(SLOW),
        }
    }

    /// Asks, and waits as long as a thread does. While an earlier answer is late, nothing is asked.
    fn ask(&mut self, question: Question) -> Option<Answer> {
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

/// Gives names to frames.
struct Names {
    /// How the paths of the libraries of the trace begin: their frames are left out.
    ours: Vec<String>,
    pythons: BTreeMap<u32, Python>,
    symbolizer: Symbolizer,
}

/// What is known of the Python of a process.
enum Python {
    Readable(Box<PythonSpy>),
    /// None is mapped.
    None,
    /// It cannot be read, and why.
    Refused(String),
}

/// One line of a process's map of memory.
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

impl Names {
    fn new(ours: Vec<String>) -> Names {
        let symbolizer = Symbolizer::builder().enable_inlined_fns(false).enable_auto_reload(false).build();
        Names { ours, pythons: BTreeMap::new(), symbolizer }
    }

    fn forget(&mut self, pid: u32) {
        self.pythons.remove(&pid);
    }

    fn python(&mut self, pid: u32) -> (Option<String>, Option<String>) {
        match self.open(pid) {
            Python::Readable(spy) => (Some(spy.version.to_string()), None),
            Python::None => (None, None),
            Python::Refused(why) => (None, Some(why.clone())),
        }
    }

    fn open(&mut self, pid: u32) -> &mut Python {
        // What was refused may have been too early in the interpreter's life.
        if !matches!(self.pythons.get(&pid), Some(Python::Readable(_))) {
            self.pythons.insert(pid, open(pid));
        }
        self.pythons.entry(pid).or_insert(Python::None)
    }

    fn read(&mut self, pid: u32, tid: u32, pthread: u64, frames: &[u64]) -> Stack {
        let (mappings, mut missing) = match mappings(pid) {
            Ok(mappings) => (mappings, None),
            Err(error) => (Vec::new(), Some(format!("the memory map of process {pid} cannot be read: {error}"))),
        };
        let mut native = self.named(pid, &mappings, frames);
        let has_python = mappings.iter().any(|mapping| is_python(&mapping.path));
        let (mut python, mut meanwhile) = (Vec::new(), Vec::new());
        if has_python {
            match self.python_frames(pid, tid, pthread) {
                Ok(found) => (python, meanwhile) = found,
                Err(why) => missing = Some(why),
            }
        }
        if !python.is_empty() {
            // Below the first frame of the interpreter the native stack repeats what Python's says.
            let interpreter = native.iter().position(|frame| frame.module.as_deref().is_some_and(is_python));
            native.truncate(interpreter.unwrap_or(native.len()));
            native.append(&mut python);
        }
        native.truncate(MOST_FRAMES);
        Stack { frames: native, meanwhile, missing }
    }

    /// The frames of Python on a thread. Where none of them is the user's: those of the newest thread that
    /// has one.
    fn python_frames(&mut self, pid: u32, tid: u32, pthread: u64) -> Result<(Vec<Frame>, Vec<Frame>), String> {
        let spy = match self.open(pid) {
            Python::Readable(spy) => spy,
            Python::None => return Ok(Default::default()),
            Python::Refused(why) => return Err(why.clone()),
        };
        let mut last = String::new();
        for _ in 0..TRIES {
            match spy.get_stack_traces() {
                Ok(traces) => {
                    // A child that has just been forked still has its parent's number of the thread; before 3.11
                    // Python has none at all. What the C library calls the thread is the same in both.
                    let by_number = traces.iter().position(|trace| trace.os_thread_id == Some(u64::from(tid)));
                    let found = by_number.or_else(|| traces.iter().position(|trace| trace.thread_id == pthread));
                    let mut stacks: Vec<Vec<Frame>> = traces.iter().map(|trace| frames_of(&trace.frames)).collect();
                    let own = found.and_then(|at| stacks.get_mut(at)).map(std::mem::take).unwrap_or_default();
                    let is_users = |stack: &&Vec<Frame>| stack.iter().any(|frame| frame.owner == Owner::Program);
                    let meanwhile = match is_users(&&own) {
                        true => Vec::new(),
                        false => stacks.iter().find(is_users).cloned().unwrap_or_default(),
                    };
                    return Ok((own, meanwhile));
                }
                Err(error) => last = format!("{error:#}"),
            }
        }
        Err(format!("the Python stack cannot be read: {last}"))
    }

    /// Native frames with names, without those of the trace's own libraries.
    fn named(&self, pid: u32, mappings: &[Mapping], frames: &[u64]) -> Vec<Frame> {
        let program =
            std::fs::read_link(format!("/proc/{pid}/exe")).ok().map(|path| path.to_string_lossy().into_owned());
        let mut named = Vec::new();
        for (index, address) in frames.iter().enumerate() {
            // A return address is behind the call; the call may be the last of its line.
            let address = address.saturating_sub(u64::from(index > 0));
            let Some(mapping) = mappings.iter().find(|it| (it.start..it.end).contains(&address)) else { continue };
            if self.ours.iter().any(|ours| mapping.path.starts_with(ours)) {
                continue;
            }
            let offset = address - mapping.start + mapping.offset;
            let bare = Frame::native("", Some(&mapping.path), None, program.as_deref());
            let size = std::fs::metadata(&mapping.path).map_or(u64::MAX, |data| data.len());
            let with_lines = bare.owner == Owner::Program && size <= LARGEST_DEBUG;
            if size > LARGEST_MODULE && !with_lines {
                named.push(bare);
                continue;
            }
            let mut elf = Elf::new(&mapping.path);
            elf.debug_syms = with_lines;
            let found = self.symbolizer.symbolize_single(&Source::Elf(elf), Input::FileOffset(offset));
            named.push(match found {
                Ok(Symbolized::Sym(symbol)) => {
                    let source = symbol
                        .code_info
                        .as_ref()
                        .map(|code| (code.to_path().to_string_lossy().into_owned(), code.line));
                    Frame::native(&symbol.name, Some(&mapping.path), source, program.as_deref())
                }
                _ => bare,
            });
        }
        named.retain(|frame| frame.language == Language::Native);
        named
    }
}

/// Where code is that was given to Python as text: by `-c`, or on its standard input.
const GIVEN: [&str; 2] = ["<string>", "<stdin>"];

fn frames_of(frames: &[py_spy::Frame]) -> Vec<Frame> {
    // Packages make code of text too, but what Python itself began with is the user's own.
    let given = frames.last().map(|first| first.filename.as_str()).filter(|file| GIVEN.contains(file));
    let frame = |frame: &py_spy::Frame| {
        let mut named = Frame::python(&frame.name, &frame.filename, u32::try_from(frame.line).unwrap_or(0));
        if given == Some(frame.filename.as_str()) {
            named.owner = Owner::Program;
        }
        named
    };
    frames.iter().map(frame).take(MOST_FRAMES).collect()
}

/// Opens the Python of a process.
fn open(pid: u32) -> Python {
    match mappings(pid) {
        Ok(mappings) if !mappings.iter().any(|mapping| is_python(&mapping.path)) => return Python::None,
        Ok(_) => {}
        Err(error) => return Python::Refused(format!("the memory map of process {pid} cannot be read: {error}")),
    }
    let config = Config { blocking: py_spy::config::LockingStrategy::NonBlocking, ..Config::default() };
    match PythonSpy::new(pid as i32, &config) {
        Ok(spy) => Python::Readable(Box::new(spy)),
        Err(error) => Python::Refused(format!("the Python of process {pid} cannot be read: {error:#}")),
    }
}

/// Whether a file is an interpreter of Python.
fn is_python(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("libpython") || (name.starts_with("python") && !name.contains(".so"))
}

/// The files that a process has mapped.
fn mappings(pid: u32) -> std::io::Result<Vec<Mapping>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let parse = |line: &str| {
        let mut parts = line.splitn(6, ' ');
        let (start, end) = parts.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let offset = number(parts.nth(1)?)?;
        let path = parts.nth(2)?.trim();
        path.starts_with('/').then_some(Mapping {
            start: number(start)?,
            end: number(end)?,
            offset,
            path: path.trim_end_matches(" (deleted)").to_owned(),
        })
    };
    Ok(text.lines().filter_map(parse).collect())
}
