//! Names for the frames of a stopped thread, from its process's files and memory.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use py_spy::{Config, PythonSpy};

use super::notebook::Notebooks;
use super::{ParkedThread, source};

use crate::{Frame, FrameLanguage, FrameOwner, Stack};
use cuda_pitfalls_core::holding::PythonStack;

/// The reason for missing frames of a thread.
#[derive(Clone, Debug, thiserror::Error)]
enum StackError {
    #[error("the memory map of process {pid} cannot be read: {why}")]
    Mappings { pid: u32, why: String },
    #[error("the Python of process {pid} cannot be read: {why}")]
    Interpreter { pid: u32, why: String },
    #[error("the libpython of process {0} was replaced, or may not be read")]
    Replaced(u32),
    #[error("the Python stack cannot be read: {0}")]
    Frames(String),
}

/// The largest file whose symbol table is read: a larger one would take as long as the call itself.
const LARGEST_MODULE: u64 = 64 << 20;
/// The largest file whose line numbers are read.
const LARGEST_DEBUG: u64 = 256 << 20;
/// The maximum number of attempts to read a stack: other threads run at the same time, and may change memory under the
/// reader.
const TRIES: u32 = 3;
/// The numbers of innermost and of outermost frames that are kept of a deep stack.
const KEPT: (usize, usize) = (112, 16);

pub(super) struct StackReader {
    /// The prefixes of the paths of the trace's own libraries, whose frames are left out.
    ours: Vec<String>,
    pythons: BTreeMap<u32, PythonMemory>,
    symbolizer: Symbolizer,
    notebooks: Notebooks,
}

/// The Python interpreter in a process.
enum PythonMemory {
    Readable(Box<PythonSpy>),
    /// No interpreter is mapped.
    Absent,
    /// An interpreter is mapped, but its memory cannot be read, for this reason.
    Refused(StackError),
}

struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

impl StackReader {
    pub(super) fn new(ours: Vec<String>, notebooks: Notebooks) -> StackReader {
        let symbolizer = Symbolizer::builder()
            .enable_inlined_fns(false)
            .enable_auto_reload(false)
            .build();
        StackReader {
            ours,
            pythons: BTreeMap::new(),
            symbolizer,
            notebooks,
        }
    }

    pub(super) fn forget_process(&mut self, pid: u32) {
        self.pythons.remove(&pid);
    }

    pub(super) fn python(&mut self, pid: u32) -> (Option<String>, Option<String>) {
        match self.open(pid) {
            PythonMemory::Readable(spy) => (Some(spy.version.to_string()), None),
            PythonMemory::Absent => (None, None),
            PythonMemory::Refused(why) => (None, Some(why.to_string())),
        }
    }

    fn open(&mut self, pid: u32) -> &mut PythonMemory {
        // An earlier attempt may have failed because the interpreter was not initialized yet.
        if !matches!(self.pythons.get(&pid), Some(PythonMemory::Readable(_))) {
            self.pythons.insert(pid, open(pid));
        }
        self.pythons.entry(pid).or_insert(PythonMemory::Absent)
    }

    pub(super) fn read(&mut self, thread: &ParkedThread) -> Stack {
        let ParkedThread {
            pid,
            ref frames,
            ref waiting,
            ..
        } = *thread;
        let (mappings, mut missing) = match read_mappings(pid) {
            Ok(mappings) => (mappings, None),
            Err(why) => (Vec::new(), Some(why.to_string())),
        };
        let mut native = self.named(pid, &mappings, frames);
        let has_python = mappings.iter().any(|mapping| is_python(&mapping.path));
        let (mut python, mut meanwhile) = (Vec::new(), Vec::new());
        if has_python {
            match self.python_frames(thread) {
                Ok(found) => (python, meanwhile) = found,
                Err(why) => missing = Some(why.to_string()),
            }
        }
        if !python.is_empty() {
            // Below the first frame of the interpreter, the native stack shows the same calls as Python's stack.
            let interpreter = native
                .iter()
                .position(|frame| frame.module.as_deref().is_some_and(is_python));
            native.truncate(interpreter.unwrap_or(native.len()));
            native.append(&mut python);
        }
        cut_frames(&mut meanwhile);
        let mut stack = Stack {
            left_out: cut_frames(&mut native),
            frames: native,
            meanwhile,
            source: None,
            missing,
        };
        if let Some(waiting) = waiting {
            stack.source = source::line(pid, waiting, &stack);
            self.notebooks.name(pid, waiting, &mut stack);
        }
        stack
    }

    /// Returns the Python frames of a thread. If none of them belongs to the user, also returns those of the newest
    /// thread with a user frame.
    fn python_frames(
        &mut self,
        thread: &ParkedThread,
    ) -> Result<(Vec<Frame>, Vec<Frame>), StackError> {
        let spy = match self.open(thread.pid) {
            PythonMemory::Readable(spy) => spy,
            PythonMemory::Absent => return Ok(Default::default()),
            PythonMemory::Refused(why) => return Err(why.clone()),
        };
        let mut last = String::new();
        for _ in 0..TRIES {
            match spy.get_stack_traces() {
                Ok(traces) => return Ok(frames_for_thread(&traces, thread)),
                Err(error) => last = format!("{error:#}"),
            }
        }
        Err(StackError::Frames(last))
    }

    /// Returns native frames with names, without those of the trace's own libraries.
    fn named(&self, pid: u32, mappings: &[Mapping], frames: &[u64]) -> Vec<Frame> {
        let program = std::fs::read_link(format!("/proc/{pid}/exe"))
            .ok()
            .map(|path| path.to_string_lossy().into_owned());
        let mut named = Vec::new();
        for (index, address) in frames.iter().enumerate() {
            // A return address follows the call, which may be the last one of its line.
            let address = address.saturating_sub(u64::from(index > 0));
            let Some(mapping) = mappings
                .iter()
                .find(|mapping| (mapping.start..mapping.end).contains(&address))
            else {
                continue;
            };
            if self.ours.iter().any(|ours| mapping.path.starts_with(ours)) {
                continue;
            }
            let offset = address - mapping.start + mapping.offset;
            let bare = Frame::from_native("", Some(&mapping.path), None, program.as_deref());
            let size = std::fs::metadata(&mapping.path).map_or(u64::MAX, |data| data.len());
            let with_lines = bare.owner == FrameOwner::Program && size <= LARGEST_DEBUG;
            if size > LARGEST_MODULE && !with_lines {
                named.push(bare);
                continue;
            }
            let mut elf = Elf::new(&mapping.path);
            elf.debug_syms = with_lines;
            let found = self
                .symbolizer
                .symbolize_single(&Source::Elf(elf), Input::FileOffset(offset));
            named.push(match found {
                Ok(Symbolized::Sym(symbol)) => {
                    let source = symbol
                        .code_info
                        .as_ref()
                        .map(|code| (code.to_path().to_string_lossy().into_owned(), code.line));
                    Frame::from_native(
                        &symbol.name,
                        Some(&mapping.path),
                        source,
                        program.as_deref(),
                    )
                }
                _ => bare,
            });
        }
        named.retain(|frame| frame.language == FrameLanguage::Native);
        named
    }
}

/// Returns the stack of the main thread of a process, which continues meanwhile; `None` if it has no Python.
pub(super) fn read_main_thread(pid: u32) -> Option<PythonStack> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    if !text.lines().all(|line| is_mapped_by_name(pid, line)) {
        return Some(failed_stack(&StackError::Replaced(pid)));
    }
    let mut spy = match open(pid) {
        PythonMemory::Readable(spy) => spy,
        PythonMemory::Absent => return None,
        PythonMemory::Refused(why) => return Some(failed_stack(&why)),
    };
    let mut last = String::new();
    for _ in 0..TRIES {
        match spy.get_stack_traces() {
            Ok(traces) => return Some(stack_of_main_thread(&traces, pid)),
            Err(error) => last = format!("{error:#}"),
        }
    }
    Some(failed_stack(&StackError::Frames(last)))
}

/// Returns `false` for a libpython whose name now leads to another file. py-spy opens it by name, and the process may have
/// put a link there.
fn is_mapped_by_name(pid: u32, line: &str) -> bool {
    let (range, path) = (line.split(' ').next(), line.find('/'));
    let (Some(range), Some(path)) = (range, path.and_then(|at| line.get(at..))) else {
        return true;
    };
    if !path.contains("/libpython") {
        return true;
    }
    let ends: Vec<&str> = range
        .split('-')
        .map(|end| end.trim_start_matches('0'))
        .collect();
    let mapped = std::fs::metadata(format!("/proc/{pid}/map_files/{}", ends.join("-")));
    let Ok(named) = std::fs::symlink_metadata(format!("/proc/{pid}/root{path}")) else {
        return false;
    };
    let is_same = match mapped {
        Ok(mapped) => (mapped.dev(), mapped.ino()) == (named.dev(), named.ino()),
        // Only root may use these links.
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    };
    named.is_file() && is_same
}

fn failed_stack(why: &StackError) -> PythonStack {
    PythonStack {
        error: Some(why.to_string()),
        ..PythonStack::default()
    }
}

fn stack_of_main_thread(traces: &[py_spy::StackTrace], pid: u32) -> PythonStack {
    let mut stack = PythonStack::default();
    let main = Some(u64::from(pid));
    let found = traces.iter().find(|trace| trace.os_thread_id == main);
    let Some(trace) = found.or(traces.last()) else {
        return stack;
    };
    let mut frames = frames_of(&trace.frames);
    cut_frames(&mut frames);
    for frame in frames {
        let file = frame.file.as_deref().unwrap_or("?");
        let line = format!("{file}:{} in {}", frame.line.unwrap_or(0), frame.function);
        if frame.owner == FrameOwner::Program && stack.user_line.is_none() {
            stack.user_line = Some(line.clone());
        }
        stack.frames.push(line);
    }
    stack
}

/// The file names of code that Python got as text: by `-c`, or from standard input.
const GIVEN: [&str; 2] = ["<string>", "<stdin>"];
/// The multiprocessing files where its children begin.
const OF_CHILDREN: [&str; 3] = ["spawn.py", "forkserver.py", "resource_tracker.py"];

/// Returns the frames of a thread. If none of them belongs to the user, also returns those of the newest thread with a
/// user frame.
fn frames_for_thread(
    traces: &[py_spy::StackTrace],
    thread: &ParkedThread,
) -> (Vec<Frame>, Vec<Frame>) {
    // A freshly forked child still stores its parent's thread ID, and before 3.11 Python stores none.
    // The ID in the C library is the same in both processes.
    let tid = Some(u64::from(thread.tid));
    let found = traces
        .iter()
        .position(|trace| trace.os_thread_id == tid)
        .or_else(|| {
            traces
                .iter()
                .position(|trace| trace.thread_id == thread.pthread)
        });
    let mut stacks = Vec::new();
    for trace in traces {
        let mut stack = frames_of(&trace.frames);
        if let Some(waiting) = &thread.waiting {
            source::name_entry_script(thread.pid, waiting, &mut stack);
        }
        stacks.push(stack);
    }
    let own = match found {
        Some(index) => std::mem::take(&mut stacks[index]),
        None => Vec::new(),
    };
    if has_users(&own) {
        return (own, Vec::new());
    }
    let users = stacks.into_iter().find(|stack| has_users(stack));
    (own, users.unwrap_or_default())
}

fn frames_of(frames: &[py_spy::Frame]) -> Vec<Frame> {
    // Packages may also create code from text, but the code that Python began with belongs to the user, except for the
    // line that multiprocessing starts its children with.
    let is_of_multiprocessing = frames.iter().rev().nth(1).is_some_and(|frame| {
        let (_, file) = frame
            .filename
            .rsplit_once("multiprocessing/")
            .unwrap_or_default();
        ["main", "spawn_main"].contains(&frame.name.as_str()) && OF_CHILDREN.contains(&file)
    });
    let given = frames.last().map(|first| first.filename.as_str());
    let given = given.filter(|file| GIVEN.contains(file) && !is_of_multiprocessing);
    let mut named = Vec::new();
    for frame in frames {
        if only_passes(frame) {
            continue;
        }
        let line = u32::try_from(frame.line).unwrap_or(0);
        let mut kept = Frame::python(&frame.name, &frame.filename, line);
        if given == Some(frame.filename.as_str()) {
            kept.owner = FrameOwner::Program;
        }
        named.push(kept);
    }
    named
}

/// The prefixes of the files of Python's import system. Each import has five of its frames.
const PASSING: [&str; 3] = [
    "<frozen importlib._bootstrap",
    "<frozen runpy>",
    "<frozen zipimport>",
];

/// Returns `true` if a frame of Python's library only runs a module.
fn only_passes(frame: &py_spy::Frame) -> bool {
    let file = &frame.filename;
    PASSING.iter().any(|start| file.starts_with(start))
        || (frame.name == "import_module" && file.ends_with("/importlib/__init__.py"))
}

/// Cuts a stack to its innermost and outermost frames and the user's innermost one, which says where the call was made.
/// Returns the number of frames that were removed. py-spy reads at most 4,096.
fn cut_frames(frames: &mut Vec<Frame>) -> usize {
    let (innermost, outermost) = KEPT;
    let all = frames.len();
    let user = frames
        .iter()
        .position(|frame| frame.owner == FrameOwner::Program);
    let removed = innermost..all.saturating_sub(outermost);
    let mut index = 0;
    frames.retain(|_| {
        let is_kept = !removed.contains(&index) || user == Some(index);
        index += 1;
        is_kept
    });
    all - frames.len()
}

fn has_users(stack: &[Frame]) -> bool {
    stack.iter().any(|frame| frame.owner == FrameOwner::Program)
}

fn open(pid: u32) -> PythonMemory {
    match read_mappings(pid) {
        Ok(mappings) if !mappings.iter().any(|mapping| is_python(&mapping.path)) => {
            return PythonMemory::Absent;
        }
        Ok(_) => {}
        Err(why) => return PythonMemory::Refused(why),
    }
    let config = Config {
        blocking: py_spy::config::LockingStrategy::NonBlocking,
        // Shortening looks for files at paths that the process chooses.
        full_filenames: true,
        ..Config::default()
    };
    match PythonSpy::new(pid as i32, &config) {
        Ok(spy) => PythonMemory::Readable(Box::new(spy)),
        Err(error) => PythonMemory::Refused(StackError::Interpreter {
            pid,
            why: format!("{error:#}"),
        }),
    }
}

fn is_python(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("libpython") || (name.starts_with("python") && !name.contains(".so"))
}

/// Returns the files that a process has mapped.
fn read_mappings(pid: u32) -> Result<Vec<Mapping>, StackError> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| {
        let why = error.to_string();
        StackError::Mappings { pid, why }
    })?;
    let mappings = text.lines().filter_map(|line| {
        let mut parts = line.splitn(6, ' ');
        let (start, end) = parts.next()?.split_once('-')?;
        let offset = u64::from_str_radix(parts.nth(1)?, 16).ok()?;
        let path = parts.nth(2)?.trim();
        path.starts_with('/').then_some(Mapping {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            offset,
            path: path.trim_end_matches(" (deleted)").to_owned(),
        })
    });
    Ok(mappings.collect())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn deep_stack_keeps_both_ends_and_the_users_line() {
        let of = |owner| Frame {
            owner,
            ..Frame::python("f", "/l/site-packages/deep/a.py", 1)
        };
        for (count, user, kept) in [(128, 60, 128), (129, 128, 128), (4_096, 2_000, 129)] {
            let mut frames: Vec<Frame> = vec![of(FrameOwner::Package); count];
            frames[user] = of(FrameOwner::Program);
            frames[count - 1].function = "outermost".to_owned();
            assert_eq!(cut_frames(&mut frames), count - kept);
            assert_eq!(frames.len(), kept);
            assert!(has_users(&frames));
            assert_eq!(frames[kept - 1].function, "outermost");
        }
    }

    #[test]
    fn library_of_python_that_was_replaced_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libpython3.12.so.1.0");
        std::fs::write(&path, [0; 8192]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        // SAFETY: the mapping is new, and stays.
        let mapped = unsafe {
            let flags = libc::MAP_PRIVATE;
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ,
                flags,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        let pid = std::process::id();
        for is_replaced in [false, true] {
            if is_replaced {
                std::fs::remove_file(&path).unwrap();
                let deleted = format!("{} (deleted)", path.display());
                std::os::unix::fs::symlink("/etc/passwd", deleted).unwrap();
            }
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let is_readable = maps.lines().all(|line| is_mapped_by_name(pid, line));
            assert_eq!(is_readable, !is_replaced);
        }
    }
}
