//! Limits that were set, or were to be set.

use cuda_pitfalls_calls::Constants;

use super::super::clue::Clue;
use super::program::Program;
use super::{about, is_error, status_name};
use crate::trace::{Trace, What};

/// A clue for each limit.
pub(super) fn clues<'a>(_: &'a Trace, programs: &[Program<'a>]) -> Vec<Clue<'a>> {
    let mut clues = Vec::new();
    for &(index, event) in programs.iter().flat_map(|program| &program.events) {
        let What::Limit { limit, value, after_launch } = event.what else { continue };
        let Some(clue) = about("limit-set", index, event) else { continue };
        let mut clue = clue
            .with("limit", name(limit))
            .with("value", value)
            .with("after_launch", after_launch)
            .with_known("refused", event.status.map(|status| is_error(Some(status))))
            .with_known("status", event.status.map(status_name));
        clue.gpu.clone_from(&event.gpu);
        clues.push(clue);
    }
    clues
}

/// The name of a limit in `CUlimit`, or its number.
fn name(limit: i32) -> String {
    let limits = Constants::all().iter().find(|constants| constants.name == "CUlimit");
    let name = limits.and_then(|limits| limits.values.iter().find(|(_, value)| *value == i64::from(limit)));
    name.map_or_else(|| format!("limit {limit}"), |(name, _)| (*name).to_owned())
}
