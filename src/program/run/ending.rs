//! The end of a run: its signal and exit code in the document, the document on disk, and the last line on stderr.

use std::time::Duration;

use super::console::Console;
use super::error::RunError;
use super::session::Session;
use crate::host;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::survey::SurveyDocument;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::report::{ExitCode, Report, Store, StoreError};
use cuda_pitfalls_instrument::supervisor::signal_name;

/// A document that records how its run ended.
pub(super) trait RunDocument {
    /// Records when the run ended, and the signal that stopped it, if any.
    fn note_end(&mut self, finished_at: String, signal: Option<String>);

    /// The exit code that the content of the document means, if the document is on disk.
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
    document.note_end(
        clock::utc_now(),
        session.supervisor.interrupt.signal().map(signal_name),
    );
    document.exit()
}

/// Writes a document for the last time, with the exit code in it. If that fails, a document that is on disk already
/// must not have another code.
pub(super) fn write(
    document: &mut impl RunDocument,
    store: &Store,
    exit: Exit,
) -> Result<(), RunError> {
    document.set_exit(exit);
    let written = document.write(store);
    if written.is_err() {
        document.set_exit(exit.worst(Exit::NotDurable));
        let _ = document.write(store);
    }
    Ok(written?)
}

/// Writes a document for the last time and hands it over. If handing it over makes the exit code worse, the document is
/// written again. `hand_over` prints, and returns the exit code that it named on stderr.
pub(super) fn finish_document<D: RunDocument>(
    document: &mut D,
    store: &Store,
    exit: Exit,
    hand_over: impl FnOnce(&D) -> Exit,
) -> Result<Exit, RunError> {
    write(document, store, exit)?;
    let ended = hand_over(document);
    if ended != exit {
        write(document, store, ended)?;
    }
    Ok(ended)
}

/// Turns a panic into an error, because a panic is a fault of the harness.
pub(super) fn catch_panic<T>(run: impl FnOnce() -> Result<T, RunError>) -> Result<T, RunError> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    caught.unwrap_or_else(|_| {
        Err(RunError::Internal(
            "the harness panicked (see above)".to_string(),
        ))
    })
}

/// The exit code of a run. If the run could not begin or not complete, the console says why.
pub(super) fn guard_run(
    mut console: Console,
    run: impl FnOnce(&mut Console) -> Result<Exit, RunError>,
) -> Exit {
    catch_panic(|| run(&mut console)).unwrap_or_else(|error| {
        console.failed(&error.to_string(), error.exit());
        error.exit()
    })
}
