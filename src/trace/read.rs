//! Reading a trace, complete or truncated.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use super::{
    End, FILE, Holder, LedgerReading, Memory, ProcessCounts, SCHEMA, TraceEvent, TraceLine,
    TraceProcess, TraceStart,
};
use cuda_pitfalls_core::input;
use cuda_pitfalls_core::machine::{is_simulated_gpu, is_simulated_library};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_instrument::simulated::NO_DEVICE;

/// The longest line that is read: a stack has a few kilobytes.
const LONGEST_LINE: u64 = 16 << 20;
/// The maximum number of lines that are kept of each type.
const MOST_LINES: usize = 2_000_000;

/// A trace in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The first line.
    pub start: TraceStart,
    /// The processes, in the order of their lines.
    pub processes: Vec<TraceProcess>,
    /// The events, sorted by time.
    pub events: Vec<TraceEvent>,
    /// Changes of the GPUs' memory.
    pub memory: Vec<Memory>,
    /// The holders of memory (with `--memory`).
    pub holders: Vec<Holder>,
    /// The readings of memory by owner, sorted by time (with `--memory`).
    pub ledger: Vec<LedgerReading>,
    /// The totals of each program.
    pub counts: Vec<ProcessCounts>,
    /// The last line; none if the trace was truncated.
    pub end: Option<End>,
}

/// An error while a trace is read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", terminal(&path.to_string_lossy()))]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is not a trace.
    #[error("{}, line {line}: {why}", terminal(&path.to_string_lossy()))]
    Format {
        /// The path of the file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The fault in the line.
        why: LineError,
    },
}

/// A sentence that describes an invalid line of a trace.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LineError(String);

/// Returns the path of the trace in a folder, or the path itself.
pub fn trace_file(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.join(FILE)
    } else {
        path.to_path_buf()
    }
}

/// Opens the text of a trace, which may be compressed. Returns the path of its file too.
fn open_text(path: &Path) -> Result<(Box<dyn BufRead>, PathBuf), TraceError> {
    let path = trace_file(path);
    match input::open_document(&path) {
        Ok(text) => Ok((text, path)),
        Err(source) => Err(TraceError::File { path, source }),
    }
}

/// Returns `true` if a file begins with the first line of a trace.
pub fn is_trace(path: &Path) -> bool {
    // A pipe is not opened: the open would block, and a read would remove the bytes.
    let Ok(text) = input::open_document(&trace_file(path)) else {
        return false;
    };
    let mut first = String::new();
    let read = text.take(4096).read_line(&mut first);
    let compact: String = first.split_whitespace().collect();
    read.is_ok() && compact.contains(&format!("\"name\":\"{SCHEMA}\""))
}

/// Passes the lines of a trace to `take` one by one, as they are read.
///
/// # Errors
/// Returns an error as [`Trace::open`] does, or if `take` cannot write a line as JSON.
pub fn lines(
    path: &Path,
    mut take: impl FnMut(TraceLine) -> serde_json::Result<()>,
) -> Result<(), TraceError> {
    let (text, path) = open_text(path)?;
    each(text, &path, |line| {
        take(line)
            .map_err(|error| LineError(format!("this line cannot be written as JSON: {error}")))
    })
}

/// Reads line by line. Leaves out text after the last complete line, which a killed writer leaves behind.
fn each(
    mut text: impl BufRead,
    path: &Path,
    mut take: impl FnMut(TraceLine) -> Result<(), LineError>,
) -> Result<(), TraceError> {
    let mut is_newer = false;
    for number in 1.. {
        let mut bytes = Vec::new();
        let read = text
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut bytes);
        read.map_err(|source| TraceError::File {
            path: path.to_path_buf(),
            source,
        })?;
        if bytes.last() != Some(&b'\n') {
            break;
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let taken = match serde_json::from_slice::<TraceLine>(&bytes) {
            Ok(line) => {
                is_newer |= matches!(&line, TraceLine::Start(start) if start.schema.minor > SchemaId::MINOR);
                take(line)
            }
            // A newer minor may have lines that this version does not know.
            Err(_) if is_newer => Ok(()),
            Err(error) => Err(LineError(format!("not a trace line: {error}"))),
        };
        taken.map_err(|why| TraceError::Format {
            path: path.to_path_buf(),
            line: number,
            why,
        })?;
    }
    Ok(())
}

impl Trace {
    /// Returns `true` if the driver was the simulated one without a GPU, whose `cuInit` may fail where a real one
    /// succeeds.
    pub fn has_no_device(&self) -> bool {
        self.start.on.strip_prefix("sim:") == Some(NO_DEVICE)
    }

    /// Reads a trace from a file or from the folder that contains it. Leaves out text after the last complete line.
    ///
    /// # Errors
    /// Returns an error with the file and the line if a line is not valid in a trace.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        let (text, path) = open_text(path)?;
        Trace::read(text, &path)
    }

    /// Reads a trace from its text; `path` appears in errors.
    ///
    /// # Errors
    /// Returns an error as [`Trace::open`] does.
    pub fn read(text: impl BufRead, path: &Path) -> Result<Trace, TraceError> {
        let mut trace: Option<Trace> = None;
        each(text, path, |line| match (&mut trace, line) {
            (None, TraceLine::Start(start)) => {
                Trace::from_start(*start).map(|begun| trace = Some(begun))
            }
            (None, _) => Err(LineError(
                "a trace begins with a line of type `start`".to_owned(),
            )),
            (Some(_), TraceLine::Start(_)) => {
                Err(LineError("a second trace begins here".to_owned()))
            }
            (Some(trace), line) => {
                trace.take(line);
                Ok(())
            }
        })?;
        let mut trace = trace.ok_or_else(|| {
            let why = LineError("the trace is empty".to_owned());
            TraceError::Format {
                path: path.to_path_buf(),
                line: 1,
                why,
            }
        })?;
        trace.events.sort_by_key(|event| event.t_ns);
        Ok(trace)
    }

    /// Returns a trace that has only its first line.
    ///
    /// # Errors
    /// Returns an error if the line has another schema.
    pub fn from_start(start: TraceStart) -> Result<Trace, LineError> {
        if start.schema.name != SCHEMA || start.schema.major != SchemaId::MAJOR {
            let (name, major) = (terminal(&start.schema.name), start.schema.major);
            let why = format!(
                "this is `{name}` {major}; this version reads `{SCHEMA}` {}",
                SchemaId::MAJOR
            );
            return Err(LineError(why));
        }
        let is_simulated = start.libcuda.as_deref().is_some_and(is_simulated_library)
            || start.gpus.iter().any(|gpu| is_simulated_gpu(&gpu.uuid));
        if let Some(why) = start.provenance.find_contradiction(&start.on, is_simulated) {
            return Err(LineError(why));
        }
        let (processes, events, memory, holders, ledger, counts) = Default::default();
        Ok(Trace {
            start,
            processes,
            events,
            memory,
            holders,
            ledger,
            counts,
            end: None,
        })
    }

    /// Adds a line.
    pub fn take(&mut self, line: TraceLine) {
        fn push<T>(all: &mut Vec<T>, one: T) {
            if all.len() < MOST_LINES {
                all.push(one);
            }
        }
        match line {
            TraceLine::Start(_) => {}
            TraceLine::Process(process) => push(&mut self.processes, process),
            TraceLine::Event(event) => push(&mut self.events, *event),
            TraceLine::Memory(memory) => push(&mut self.memory, memory),
            TraceLine::Holder(holder) => push(&mut self.holders, *holder),
            TraceLine::Ledger(reading) => push(&mut self.ledger, reading),
            TraceLine::Counts(counts) => push(&mut self.counts, counts),
            TraceLine::End(end) => self.end = Some(end),
        }
    }

    /// Returns the UUIDs of the GPUs in NVML order.
    pub fn gpu_uuids(&self) -> Vec<String> {
        let gpus = self.start.gpus.iter();
        gpus.map(|gpu| gpu.uuid.clone()).collect()
    }

    /// Returns the memory of a GPU before the program was started. None if it was not read.
    pub fn used_before(&self, gpu_index: usize) -> Option<u64> {
        *self.start.used_bytes.get(gpu_index)?
    }

    /// Returns the time of each event and of each reading of memory.
    pub fn stamps(&self) -> impl Iterator<Item = u64> {
        let events = self.events.iter().map(|event| event.t_ns);
        events.chain(self.memory.iter().map(|memory| memory.t_ns))
    }

    /// Returns the index of a GPU in NVML order.
    pub fn gpu_index(&self, uuid: Option<&str>) -> Option<usize> {
        let uuid = uuid?;
        self.start.gpus.iter().position(|gpu| gpu.uuid == uuid)
    }

    /// Seconds since the program was started.
    pub fn seconds_since_start(&self, t_ns: u64) -> f64 {
        t_ns.saturating_sub(self.start.t_ns) as f64 / 1e9
    }
}
