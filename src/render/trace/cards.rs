//! Which findings are told together, and which events they are about. A trace may have thousands of both.

use std::collections::{HashMap, HashSet};

use super::{TraceView, alike};
use cuda_pitfalls_trace::diagnosis::Finding;

/// What the first part of a page tells, so that the rest need not repeat it.
pub(super) struct FindingCards<'a> {
    /// The first finding of those that are told by the same words.
    firsts: HashMap<(&'a str, String, &'a str), usize>,
    events: HashSet<usize>,
}

impl<'a> FindingCards<'a> {
    pub(super) fn of(seen: &TraceView<'a>) -> FindingCards<'a> {
        // Of several with one key the last in this order stays.
        let firsts = seen.findings.iter().enumerate().rev().map(|(place, finding)| (alike(finding), place));
        let events = seen.findings.iter().flat_map(|finding| finding.events.iter().copied()).collect();
        FindingCards { firsts: firsts.collect(), events }
    }

    /// The number of what tells a finding.
    pub(super) fn number(&self, finding: &'a Finding) -> usize {
        self.firsts.get(&alike(finding)).copied().unwrap_or_default()
    }

    pub(super) fn has_event(&self, event: usize) -> bool {
        self.events.contains(&event)
    }
}
