//! The changes that a trace's reader should make, line by line: the same in every format.

use super::TraceView;
use cuda_pitfalls_trace::EventKind;
use cuda_pitfalls_trace::diagnosis::Finding;

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct LineChange<'a> {
    pub(super) at: Option<String>,
    /// The line that called `cuInit` too early.
    read_at: Option<String>,
    /// The source line, as its file had it.
    pub(super) source: Option<&'a str>,
    pub(super) title: &'a str,
    pub(super) workaround: &'a str,
    pub(super) scenario: &'a str,
}

impl<'a> LineChange<'a> {
    pub(super) fn new(seen: &TraceView<'a>, finding: &'a Finding) -> LineChange<'a> {
        let mut events = finding
            .events
            .iter()
            .map(|index| seen.trace.events.get(*index));
        let first = events.next().flatten();
        let mut after = events.flatten();
        let read = after.find(|event| matches!(event.what, EventKind::Init { .. }));
        let at = first.and_then(|event| seen.line_words(event));
        let read_at = read.and_then(|event| seen.line_words(event));
        let source = first.and_then(|event| event.stack.source.as_deref());
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

    /// Returns the location and the finding there.
    pub(super) fn sentence(&self) -> String {
        let mut sentence = self.title.to_owned();
        if let Some(at) = &self.at {
            sentence = format!("{at}: {sentence}");
        }
        if let Some(read_at) = &self.read_at {
            sentence += &format!("; CUDA was initialized at {read_at}");
        }
        sentence
    }
}
