//! What every command needs that starts processes.

use std::path::Path;

use super::output::fail;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_instrument::supervisor::Interrupt;

/// Finds what every run needs: this program, which workers are again, and Ctrl-C.
pub(super) fn with_workers(json: bool, run: impl FnOnce(&Path, Interrupt) -> Exit) -> Exit {
    match (std::env::current_exe(), Interrupt::install()) {
        (Ok(program), Ok(interrupt)) => run(&program, interrupt),
        (Err(error), _) | (_, Err(error)) => fail(error, Exit::Internal, json),
    }
}
