//! `trace`: its arguments, what it prints, and how it ends.

use std::ffi::OsString;
use std::path::PathBuf;

use super::output::{explain, named};
use crate::exit::Exit;
use crate::policy::Policy;
use crate::run::On;
use crate::trace::Trace;
use crate::tracer::{self, Ended, TracerError};
use crate::{clock, diagnosis, terminal};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Parent folder of the trace's folder.
    #[arg(long, default_value = "reports")]
    out: PathBuf,
    /// The summary as one JSON document on stderr, instead of text.
    #[arg(long)]
    json: bool,
    /// Where: `cuda` (this machine's driver), `sim[:MACHINE]` (the simulated machine), or `auto`.
    #[arg(long, default_value = "cuda", value_parser = super::run::parse_on)]
    on: On,
    /// Do not watch writes of environment variables, which needs LD_PRELOAD.
    #[arg(long)]
    no_preload: bool,
    /// Leave paths and arguments out of the document.
    #[arg(long)]
    redact: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Traces a command.
pub(super) fn trace(arguments: Arguments) -> Exit {
    let Arguments { out, json, on, no_preload, redact, command } = arguments;
    let folder = out.join(format!("{}-trace-{}", clock::utc_compact(), std::process::id()));
    let options = tracer::Options { command, on, folder, preload: !no_preload, redact };
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return refuse(&error.to_string(), Exit::Internal, json),
    };
    let traced = match tracer::trace(&program, &options) {
        Ok(traced) => traced,
        Err(error) => return not_started(&error, json),
    };
    let _ = (terminal::width(&std::io::stderr()), Policy::default());
    let trace = Trace::open(&traced.document);
    match trace {
        Ok(trace) => {
            let findings = diagnosis::findings(&trace);
            eprintln!("{} events, {} findings", trace.events.len(), findings.len());
        }
        Err(error) => eprintln!("cuda-pitfalls: {error}"),
    }
    end_as(traced.ended)
}

fn refuse(why: &str, exit: Exit, json: bool) -> Exit {
    eprintln!("cuda-pitfalls: {why}");
    if json {
        explain(why, exit);
    }
    named(exit)
}

/// Ends as shells do where a program cannot be started.
fn not_started(error: &TracerError, json: bool) -> Exit {
    let exit = match error {
        TracerError::Usage(_) => Exit::Usage,
        TracerError::Document(_) => Exit::NotDurable,
        TracerError::Internal(_) => Exit::Internal,
        TracerError::Program { source, .. } => {
            eprintln!("cuda-pitfalls: {error}");
            std::process::exit(if source.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
        }
    };
    refuse(&error.to_string(), exit, json)
}

/// Ends as the program did: by the same code, or by the same signal.
fn end_as(ended: Ended) -> ! {
    if let Some(signal) = ended.signal {
        // SAFETY: no file of ours is open, and nothing is written after this.
        unsafe {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        std::process::exit(128 + signal);
    }
    std::process::exit(ended.code.unwrap_or(1))
}
