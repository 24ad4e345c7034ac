//! Children that were forked after `cuInit`.

use super::super::clue::Clue;
use super::program::Program;
use super::{about, is_error, line, status_name};
use crate::trace::{ContextChange, Event, Trace, What};

/// A clue for each child.
pub(super) fn clues<'a>(trace: &'a Trace, programs: &[Program<'a>]) -> Vec<Clue<'a>> {
    let clue = |program: &Program<'a>| {
        let (index, event) = program.events.iter().find(|(_, it)| matches!(it.what, What::Forked { .. })).copied()?;
        let What::Forked { parent, contexts } = event.what else { return None };
        let mut clue =
            about("forked", index, event)?.with("parent", u64::from(parent)).with("contexts", u64::from(contexts));
        let refused = program.events.iter().filter(|(at, _)| *at > index).find(|(_, event)| is_refused(event));
        if let Some(&(index, event)) = refused {
            clue = clue
                .with("refused", true)
                .with("refused_call", event.call.as_str())
                .with("refused_line", line(event))
                .with_known("status", event.status.map(status_name));
            clue.events.push(index);
            clue.stacks.push(&event.stack);
        } else if let Some(counts) = trace.counts.iter().find(|counts| counts.pid == program.pid) {
            let call = counts.calls.iter().find(|(_, count)| count.errors > 0).map(|(call, _)| call.as_str());
            clue = clue.with("refused", call.is_some()).with_known("refused_call", call);
            // Which line made the call, and what it got, was left out of the trace.
            clue = clue.with("refused_line", format!("pid {}", program.pid)).with("status", "an error");
        }
        Some(clue)
    };
    programs.iter().filter_map(clue).collect()
}

fn is_refused(event: &Event) -> bool {
    match event.what {
        What::Error => true,
        What::InitDone { visible, .. } => visible.is_none(),
        What::Context { change, .. } => change == ContextChange::Failed,
        _ => is_error(event.status),
    }
}
