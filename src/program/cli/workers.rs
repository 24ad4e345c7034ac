//! What every command needs that starts processes.

use std::path::PathBuf;

use super::output::fail;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_instrument::supervisor::Interrupt;

/// The path of this program, which workers run too, and Ctrl-C.
///
/// # Errors
/// The exit code, once it is said why the system refused one of them.
pub(super) fn prepare_workers(json: bool) -> Result<(PathBuf, Interrupt), Exit> {
    let prepared = std::env::current_exe().and_then(|program| Ok((program, Interrupt::install()?)));
    prepared.map_err(|error| fail(error, Exit::Internal, json))
}
