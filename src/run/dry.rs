//! `--dry-run`: what would run on this machine. No worker is started and no report is written.

use super::Options;
use super::console::Console;
use super::stage::Stage;
use crate::catalogue::Selection;
use crate::exit::Exit;

pub(super) fn run(_options: &Options, _stage: &mut Stage, _selection: &Selection, _console: &mut Console) -> Exit {
    Exit::Ok
}
