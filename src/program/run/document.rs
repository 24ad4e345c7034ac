//! The document of a run: empty before the first question, and at the end with its signal and exit code.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::error::RunError;
use super::options::{RunOptions, WorkerOptions};
use super::session::Session;
use crate::host;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::survey::SurveyDocument;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::report::{
    ExitCode, Report, Required, Requirement, Run, SCHEMA, SchemaId, Store, StoreError,
};
use cuda_pitfalls_instrument::output;
use cuda_pitfalls_instrument::supervisor::signal_name;

/// Maximum number of characters that a label contributes to the name of a folder.
const LONGEST_NAME: usize = 64;

/// Returns a report without scenarios.
///
/// # Errors
/// Returns an error if a label is given twice.
pub(super) fn blank_report(options: &RunOptions, session: &Session) -> Result<Report, RunError> {
    let started_ns = clock::now_ns();
    let seed = options.asked.seed.unwrap_or(started_ns);
    let labels = options.collect_labels()?;
    let allowed = options.allow.iter().map(|hazard| hazard.name().to_string());
    Ok(Report {
        schema: SchemaId::current(SCHEMA),
        must_understand: Vec::new(),
        provenance: session.provenance,
        run: Run {
            id: make_run_id(&labels, started_ns),
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: crate::COMMIT.map(str::to_string),
            started_at: clock::utc_now(),
            started_ns,
            selectors: options.all_selectors(),
            labels,
            shard: options.shard.map(|shard| shard.to_string()),
            require: compare_requirements(options, session),
            allow_skip: options.allow_skip.clone(),
            on: session.on.clone(),
            // Every JSON reader is exact up to 2^53.
            seed: seed & ((1 << 53) - 1),
            nonce: options.nonce.clone(),
            allowed: allowed.collect(),
            warnings: session.notes.clone(),
            host_unsafe: session.unkillable_process(),
            ..Run::default()
        },
        machine: session.machine.clone(),
        scenarios: Vec::new(),
        complete: false,
    })
}

/// Returns the requirements of the options, compared with what this machine has, so that a runner that lost a GPU does
/// not look healthy. The number of answers is not known before the run.
pub(super) fn compare_requirements(options: &RunOptions, session: &Session) -> Vec<Requirement> {
    let mut requirements = options.require.clone();
    for requirement in &mut requirements {
        if requirement.what == Required::Gpus {
            *requirement = requirement.with(session.usable_gpus().len() as u64);
        }
    }
    requirements
}

/// Returns the parent of the run's directory. A run that is not kept goes to the directory of its private files.
pub(super) fn parent_folder(options: &WorkerOptions, session: &Session, is_kept: bool) -> PathBuf {
    match &options.out {
        Some(out) => out.clone(),
        None if is_kept => PathBuf::from(defaults::REPORTS),
        None => session.folder().join("reports"),
    }
}

/// Returns the name of a run and of its directory: the machine, if a label names it, and the start time.
fn make_run_id(labels: &BTreeMap<String, String>, started_ns: u64) -> String {
    let random = (started_ns ^ u64::from(std::process::id())) & 0xffff;
    let id = format!("{}-{random:04x}", clock::utc_compact());
    match labels.get("node").or_else(|| labels.get("host")) {
        Some(machine) => format!("{}-{id}", escape_file_name(machine)),
        None => id,
    }
}

/// Returns a label as part of a file name, with only those characters that have no special meaning to shells and file
/// systems.
fn escape_file_name(label: &str) -> String {
    let name: String = label.chars().take(LONGEST_NAME).collect();
    let name = name.replace(
        |c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c),
        "_",
    );
    if name.starts_with(['.', '-']) {
        format!("_{name}")
    } else {
        name
    }
}

/// A document that records how its run ended.
pub(super) trait RunDocument {
    /// Records when the run ended, and the signal that stopped it, if any.
    fn note_end(&mut self, finished_at: String, signal: Option<String>);

    /// Returns the exit code for the content of the document, if the document is on disk.
    fn exit(&self) -> Exit;

    fn set_exit(&mut self, exit: Exit);

    /// Replaces the document on disk.
    fn write(&self, store: &Store) -> Result<(), StoreError>;
}

impl RunDocument for Report {
    fn note_end(&mut self, finished_at: String, signal: Option<String>) {
        self.complete = signal.is_none() && self.run.stopped_by.is_none();
        self.run.interrupted = signal;
        self.run.require = self.view().requirements();
        self.run.elapsed_ns = clock::now_ns() - self.run.started_ns;
        let elapsed = Duration::from_nanos(self.run.elapsed_ns);
        self.run.finished_at =
            clock::utc_since(&self.run.started_at, elapsed).or(Some(finished_at));
        self.run.parent_peak_rss_bytes = host::peak_rss_bytes();
    }

    fn exit(&self) -> Exit {
        Exit::from_report(&self.view())
    }

    fn set_exit(&mut self, exit: Exit) {
        self.run.exit = Some(exit_code(exit));
    }

    fn write(&self, store: &Store) -> Result<(), StoreError> {
        store.write(self)
    }
}

impl RunDocument for SurveyDocument {
    fn note_end(&mut self, finished_at: String, signal: Option<String>) {
        self.header.interrupted = signal;
        self.header.finished_at = Some(finished_at);
    }

    fn exit(&self) -> Exit {
        Exit::from_survey(self)
    }

    fn set_exit(&mut self, exit: Exit) {
        self.header.exit = Some(exit_code(exit));
    }

    fn write(&self, store: &Store) -> Result<(), StoreError> {
        store.write_document(&self.kind.file(), self).map(drop)
    }
}

fn exit_code(exit: Exit) -> ExitCode {
    ExitCode {
        code: exit.code(),
        name: exit.name().to_string(),
    }
}

/// Records how a run ended, and returns the exit code that applies if the document gets to disk.
pub(super) fn note_run_end(document: &mut impl RunDocument, session: &Session) -> Exit {
    let signal = session.supervisor.interrupt.signal().map(signal_name);
    document.note_end(clock::utc_now(), signal);
    document.exit()
}

/// Writes a document for the last time, with the exit code in it. If that fails, a document that is on disk already
/// must not have another code.
pub(super) fn write_last(
    document: &mut impl RunDocument,
    store: &Store,
    exit: Exit,
) -> Result<(), StoreError> {
    document.set_exit(exit);
    let written = document.write(store);
    if written.is_err() {
        document.set_exit(exit.worst(Exit::NotDurable));
        let _ = document.write(store);
    }
    written
}

/// Writes a document for the last time and hands it over. `hand_over` prints, and returns the exit code of that. If it
/// makes the exit code of the run worse, the document is written again.
pub(super) fn finish_document<D: RunDocument>(
    document: &mut D,
    store: &Store,
    exit: Exit,
    hand_over: impl FnOnce(&D) -> Exit,
) -> Result<Exit, RunError> {
    write_last(document, store, exit)?;
    let ended = exit.worst(hand_over(document));
    if ended == exit {
        return Ok(exit);
    }
    // Stdout already has its only document, so an error of the run must not print a second one.
    if let Err(error) = write_last(document, store, ended) {
        output::print_line(&format!("cuda-pitfalls: {error}"));
        return Ok(ended.worst(Exit::NotDurable));
    }
    Ok(ended)
}
