//! What a trace's reader is to change, line by line: the same in every form.

use super::{TraceView, entry, place};
use cuda_pitfalls_core::text::counts::tally_items;
use cuda_pitfalls_trace::EventKind;
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct LineChange<'a> {
    pub(super) at: Option<String>,
    /// The line that called `cuInit` too early.
    read_at: Option<String>,
    /// That line, as its file had it.
    pub(super) source: Option<&'a str>,
    pub(super) title: &'a str,
    pub(super) workaround: &'a str,
    pub(super) scenario: &'a str,
}

impl<'a> LineChange<'a> {
    pub(super) fn new(seen: &TraceView<'a>, finding: &'a Finding) -> LineChange<'a> {
        let event = finding
            .events
            .first()
            .and_then(|index| seen.trace.events.get(*index));
        let at = event
            .and_then(|event| place::place(seen.trace, &event.stack))
            .map(|place| entry::shown(&place));
        let mut after = finding
            .events
            .iter()
            .skip(1)
            .filter_map(|index| seen.trace.events.get(*index));
        let after = after.find(|event| matches!(event.what, EventKind::Init { .. }));
        let read_at = after
            .and_then(|event| place::place(seen.trace, &event.stack))
            .map(|place| entry::shown(&place));
        let source = event.and_then(|event| event.stack.source.as_deref());
        let Finding {
            title,
            workaround,
            scenario,
            ..
        } = finding;
        LineChange {
            at,
            source,
            read_at,
            title,
            workaround,
            scenario,
        }
    }

    /// Where, and what is wrong there.
    pub(super) fn sentence(&self) -> String {
        let at = self
            .at
            .as_ref()
            .map(|at| format!("{at}: "))
            .unwrap_or_default();
        let read = self
            .read_at
            .as_ref()
            .map(|read| format!("; CUDA was initialised at {read}"))
            .unwrap_or_default();
        format!("{at}{}{read}", self.title)
    }
}

/// Of each pitfall, with how often it was found. A note asks for no change; the page has what one can do about it.
pub(super) fn changes<'a>(seen: &TraceView<'a>) -> Vec<(LineChange<'a>, usize)> {
    tally_items(
        seen.found(Severity::Pitfall)
            .map(|finding| LineChange::new(seen, finding)),
    )
}
