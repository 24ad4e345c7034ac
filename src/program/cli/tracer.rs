//! The tracer of one row of `survey python`: traces one program, apart from its caller, into one document.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_trace::tracer::{self, Apart, NvmlFound};

/// Arguments that `survey python` passes.
#[derive(Debug, clap::Args)]
pub(super) struct TracerArguments {
    /// Target, like that of `trace`.
    #[arg(long, value_parser = crate::argument::on)]
    on: On,
    /// The folder that gets the document.
    #[arg(long)]
    folder: PathBuf,
    /// Time limit of the program, in milliseconds.
    #[arg(long)]
    limit_ms: u64,
    /// Calls that are not passed on, as `cuInit=999`.
    #[arg(long, default_value = "")]
    returns: String,
    /// The NVML that the program finds: the machine's, none (on the simulated machine), or the simulated machine's.
    #[arg(long, default_value = "machine", value_parser = parse_nvml)]
    nvml: NvmlFound,
    /// The file that gets the program's stderr.
    #[arg(long)]
    stderr: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn parse_nvml(word: &str) -> Result<NvmlFound, &'static str> {
    match word {
        "machine" => Ok(NvmlFound::Machine),
        "nothing" => Ok(NvmlFound::Nothing),
        "simulated" => Ok(NvmlFound::Simulated),
        _ => Err("one of machine, nothing, simulated"),
    }
}

/// Traces the program. The result is in the document; a trace that failed prints the reason on stderr.
pub(super) fn trace(arguments: TracerArguments) -> Exit {
    let TracerArguments {
        on,
        folder,
        limit_ms,
        returns,
        nvml,
        stderr,
        command,
    } = arguments;
    let limit = Duration::from_millis(limit_ms);
    let options = tracer::TraceOptions {
        commit: crate::COMMIT.map(str::to_owned),
        command,
        on,
        folder,
        preload: true,
        returns,
        nvml,
        apart: Some(Apart { limit, stderr }),
        ..tracer::TraceOptions::default()
    };
    let traced = std::env::current_exe()
        .map_err(|error| error.to_string())
        .and_then(|program| tracer::trace(&program, &options).map_err(|error| error.to_string()));
    let why = match traced.map(|traced| traced.lost) {
        Ok(None) => return Exit::Ok,
        Ok(Some(why)) | Err(why) => why,
    };
    let _ = std::io::stderr().lock().write_all(why.as_bytes());
    Exit::Internal
}
