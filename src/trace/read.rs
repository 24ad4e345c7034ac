//! Reading a trace, whole or cut short.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::{Counts, End, Event, FILE, Line, MAJOR, Memory, Process, SCHEMA, Start, What};
use crate::text::escape::terminal;

/// The longest line that is read: a stack has some kilobytes.
const LONGEST_LINE: u64 = 16 << 20;
/// The most lines that are kept of one kind.
const MOST_LINES: usize = 2_000_000;

/// A whole trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The first line.
    pub start: Start,
    /// The processes, in the order in which they were noticed.
    pub processes: Vec<Process>,
    /// What they did, in the order of time.
    pub events: Vec<Event>,
    /// Memory of the GPUs, as changes.
    pub memory: Vec<Memory>,
    /// What each process did altogether.
    pub counts: Vec<Counts>,
    /// The last line; none if the trace was cut short.
    pub end: Option<End>,
}

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", terminal(&path.to_string_lossy()))]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is no trace.
    #[error("{}, line {line}: {why}", terminal(&path.to_string_lossy()))]
    Format {
        /// Which one.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// The file that is meant by a path: the trace of a folder, or the path itself.
fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE) } else { path.to_path_buf() }
}

/// Whether a path is that of a trace, by its first line.
pub fn is_trace(path: &Path) -> bool {
    let path = file_of(path);
    // A pipe would wait for its writer, and what is taken from it is gone.
    if !std::fs::metadata(&path).is_ok_and(|data| data.is_file()) {
        return false;
    }
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut first = String::new();
    let read = BufReader::new(file.take(4096)).read_line(&mut first);
    let compact: String = first.split_whitespace().collect();
    read.is_ok() && compact.contains(&format!("\"name\":\"{SCHEMA}\""))
}

/// Hands over the lines of a trace one by one, as they are read.
///
/// # Errors
/// As for [`Trace::open`].
pub fn lines(path: &Path, mut take: impl FnMut(Line)) -> Result<(), TraceError> {
    let path = file_of(path);
    let file = std::fs::File::open(&path).map_err(|source| TraceError::File { path: path.clone(), source })?;
    each(BufReader::new(file), &path, |line| {
        take(line);
        Ok(())
    })
}

/// Reads line by line. Text after the last complete line is left out, as a writer leaves it that was
/// killed.
fn each(
    mut text: impl BufRead,
    path: &Path,
    mut take: impl FnMut(Line) -> Result<(), String>,
) -> Result<(), TraceError> {
    let mut is_newer = false;
    for number in 1.. {
        let mut bytes = Vec::new();
        let read = text.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes);
        read.map_err(|source| TraceError::File { path: path.to_path_buf(), source })?;
        let wrong = |why: String| TraceError::Format { path: path.to_path_buf(), line: number, why };
        if bytes.last() != Some(&b'\n') {
            break;
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<Line>(&bytes) {
            Ok(line) => {
                is_newer |= matches!(&line, Line::Start(start) if start.schema.minor > super::MINOR);
                take(line).map_err(wrong)?;
            }
            // A newer minor may have lines that this version does not know.
            Err(_) if is_newer => {}
            Err(error) => return Err(wrong(format!("this is no line of a trace: {error}"))),
        }
    }
    Ok(())
}

impl Trace {
    /// Reads a trace: a file, or the folder that it is in. Text after the last complete line is left
    /// out, as a writer leaves it that was killed.
    ///
    /// # Errors
    /// Which line of which file is no line of a trace.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        let path = file_of(path);
        let failed = |source| TraceError::File { path: path.clone(), source };
        let file = std::fs::File::open(&path).map_err(failed)?;
        Trace::read(BufReader::new(file), &path)
    }

    /// Reads a trace from its text; `path` is named in errors.
    ///
    /// # Errors
    /// As for [`Trace::open`].
    pub fn read(text: impl BufRead, path: &Path) -> Result<Trace, TraceError> {
        let mut trace: Option<Trace> = None;
        each(text, path, |line| match (&mut trace, line) {
            (None, Line::Start(start)) => Trace::begin(*start).map(|begun| trace = Some(begun)),
            (None, _) => Err("a trace begins with a line of the kind `start`".to_owned()),
            (Some(_), Line::Start(_)) => Err("a second trace begins here".to_owned()),
            (Some(trace), line) => {
                trace.take(line);
                Ok(())
            }
        })?;
        let none = || TraceError::Format { path: path.to_path_buf(), line: 1, why: "the trace is empty".to_owned() };
        let mut trace = trace.ok_or_else(none)?;
        trace.events.sort_by_key(|event| event.t_ns);
        Ok(trace)
    }

    /// A trace that has only begun.
    ///
    /// # Errors
    /// It is of another schema.
    pub fn begin(start: Start) -> Result<Trace, String> {
        if start.schema.name != SCHEMA || start.schema.major != MAJOR {
            let (name, major) = (terminal(&start.schema.name), start.schema.major);
            return Err(format!("this is `{name}` {major}; this version reads `{SCHEMA}` {MAJOR}"));
        }
        if let Some(why) = start.provenance.contradiction(&start.on, false) {
            return Err(why);
        }
        let (processes, events, memory, counts) = Default::default();
        Ok(Trace { start, processes, events, memory, counts, end: None })
    }

    /// Adds a line.
    pub fn take(&mut self, line: Line) {
        fn push<T>(all: &mut Vec<T>, one: T) {
            if all.len() < MOST_LINES {
                all.push(one);
            }
        }
        match line {
            Line::Start(_) => {}
            Line::Process(process) => push(&mut self.processes, process),
            Line::Event(event) => push(&mut self.events, *event),
            Line::Memory(memory) => push(&mut self.memory, memory),
            Line::Counts(counts) => push(&mut self.counts, counts),
            Line::End(end) => self.end = Some(end),
        }
    }

    /// The index of a GPU in NVML order.
    pub fn gpu_index(&self, uuid: Option<&str>) -> Option<usize> {
        let uuid = uuid?;
        self.start.gpus.iter().position(|gpu| gpu.uuid == uuid)
    }

    /// Seconds since the program was started.
    pub fn seconds(&self, t_ns: u64) -> f64 {
        t_ns.saturating_sub(self.start.t_ns) as f64 / 1e9
    }

    /// The `cuInit` that counts for a process: its first that succeeded, or its first.
    pub fn init_of(&self, pid: u32) -> Option<&Event> {
        let of_process = || self.events.iter().filter(|event| event.pid == pid);
        let done = of_process().find(|event| matches!(&event.what, What::InitDone { visible: Some(_), .. }));
        let before = |event: &&Event| {
            matches!(event.what, What::Init { .. }) && done.is_none_or(|done| event.t_ns <= done.t_ns + 1)
        };
        // An attempt that failed has a beginning of its own before.
        match done {
            Some(_) => of_process().rfind(before),
            None => of_process().find(before),
        }
    }

    /// What the mask was when a process initialised the driver; none if it did not, or if that was
    /// not seen. The inner value is none where the variable was not set.
    pub fn mask_of(&self, pid: u32) -> Option<Option<&str>> {
        let of_process = || self.events.iter().filter(|event| event.pid == pid);
        let is_done = |event: &&Event| matches!(&event.what, What::InitDone { visible: Some(_), .. });
        // A `cuInit` that failed has read the mask before the one that counts, and what asks for it once that has
        // returned changes nothing.
        let until = of_process().find(is_done).map(|done| done.t_ns.saturating_add(done.elapsed_ns.unwrap_or(0)));
        let reads = of_process().filter_map(|event| match &event.what {
            What::MaskRead { value, .. } => Some((event.t_ns, value.as_deref())),
            _ => None,
        });
        let read = reads.take_while(|(t_ns, _)| until.is_none_or(|until| *t_ns <= until)).last();
        read.map(|(_, value)| value).or_else(|| match &self.init_of(pid)?.what {
            What::Init { variables, .. } => Some(variables.get("CUDA_VISIBLE_DEVICES").map(String::as_str)),
            _ => None,
        })
    }

    /// How many GPUs a process could see.
    pub fn visible_to(&self, pid: u32) -> Option<&[String]> {
        self.events.iter().filter(|event| event.pid == pid).find_map(|event| match &event.what {
            What::InitDone { visible: Some(_), gpus } => Some(gpus.as_slice()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::fixture::{Made, PID};
    use crate::trace::{Trace, What};

    /// A process whose libcuda asks for the mask at these places: in a `cuInit` that fails, in one that succeeds, and
    /// after it.
    fn asked(failed: Option<&str>, counts: Option<&str>, later: Option<&str>) -> Trace {
        let read = |made: Made, value: Option<&str>| match value {
            Some(value) => {
                let what = What::MaskRead { value: Some(value.to_owned()), after_hook: true };
                made.event("getenv", what, |_| {})
            }
            None => made,
        };
        let mut made = Made::on(2);
        if failed.is_some() {
            made = read(made, failed).init_fails(&[("CUDA_VISIBLE_DEVICES", "")], 100);
        }
        read(read(made, counts).init(&[("CUDA_VISIBLE_DEVICES", "1")], &[1]), later).ends(&[]).done()
    }

    #[test]
    fn the_mask_is_what_the_cuinit_that_counts_has_read() {
        let mask = |trace: Trace| trace.mask_of(PID).flatten().map(str::to_owned);
        assert_eq!(mask(asked(None, Some("1"), None)).as_deref(), Some("1"));
        assert_eq!(mask(asked(None, Some("1"), Some("0"))).as_deref(), Some("1"), "not what is asked for later");
        assert_eq!(mask(asked(Some(""), Some("1"), None)).as_deref(), Some("1"), "nor what a cuInit read that failed");
        assert_eq!(mask(asked(Some(""), Some("1"), Some("0"))).as_deref(), Some("1"));
        // Where nobody saw libcuda ask, it is what the variable was.
        assert_eq!(mask(asked(None, None, None)).as_deref(), Some("1"));
        assert_eq!(Made::on(1).done().mask_of(PID), None);
    }

    /// A write before it is in time, though another `cuInit` had failed by then.
    #[test]
    fn the_cuinit_that_counts_is_the_one_that_succeeded() {
        let made = Made::on(2).init_fails(&[("CUDA_VISIBLE_DEVICES", "")], 100).setenv("CUDA_VISIBLE_DEVICES", "1");
        let trace = made.init(&[("CUDA_VISIBLE_DEVICES", "1")], &[1]).ends(&[]).done();
        let written = trace.events.iter().find(|event| matches!(event.what, What::Variable { .. })).expect("a write");
        assert!(trace.init_of(PID).is_some_and(|init| init.t_ns > written.t_ns), "{:#?}", trace.events);
        assert_eq!(trace.mask_of(PID), Some(Some("1")), "as nobody saw libcuda ask for it");
        let failed = Made::on(1).init_fails(&[], 100).ends(&[]).done();
        assert!(failed.init_of(PID).is_some());
    }
}
