//! Limits that a program set, or tried to set.

use super::super::clue::Clue;
use super::about;
use crate::{EventKind, History, is_error, limit_name, status_name};

pub(super) fn limit_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let mut clues = Vec::new();
    for &(index, event) in history.programs.iter().flat_map(|program| &program.events) {
        let EventKind::Limit {
            limit,
            value,
            after_launch,
        } = event.what
        else {
            continue;
        };
        let Some(clue) = about("limit-set", index, event) else {
            continue;
        };
        let name = match limit_name(limit) {
            Some(name) => name.to_owned(),
            None => format!("limit {limit}"),
        };
        let mut clue = clue
            .with("limit", name)
            .with("value", value)
            .with("after_launch", after_launch)
            .with("refused", event.status.map(is_error))
            .with("status", event.status.map(status_name));
        clue.gpu.clone_from(&event.gpu);
        clues.push(clue);
    }
    clues
}
