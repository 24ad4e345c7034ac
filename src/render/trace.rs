//! A trace for people and for CI: on a terminal, as a page, as test results, as annotations.
//!
//! Every format is made of the same `entry`s: an important event, or a group of equal ones, with the user's own line,
//! its effect on memory, and the pitfalls that begin there.

mod change;
mod entry;
mod file;
mod ledger;
mod place;
mod proof;
mod reported;
mod results;
mod sarif;
pub mod sim;
mod summary;
mod timeline;
mod totals;
mod unseen;
mod view;

pub use summary::schema;

use super::Format;
use super::machine::form_writer;
use super::writer::terminal::Screen;
use cuda_pitfalls_answers::imported::known_import;
use cuda_pitfalls_answers::known::Known;
use cuda_pitfalls_answers::refused::{RefusedCall, last_error, refused_calls};
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};
use cuda_pitfalls_trace::ledger::{Ledger, all_ledgers};
use cuda_pitfalls_trace::policy::{PolicyOutcome, Violation};
use cuda_pitfalls_trace::{History, Trace, TraceEvent};

/// Maximum number of tests of each sort, and of annotations.
const MOST_TESTS: usize = 1000;
const MOST_ANNOTATIONS: usize = 50;

/// A trace and its findings.
pub struct TraceView<'a> {
    trace: &'a Trace,
    history: History<'a>,
    ledgers: Vec<Ledger<'a>>,
    refusals: Vec<RefusedCall>,
    /// The line of stderr that the program failed with, if it contains a known error.
    last_error: Option<RefusedCall>,
    findings: &'a [Finding],
    violations: &'a [Violation],
    /// Conditions of the policy that cannot be decided, because the trace observed too little.
    undecided: &'a [String],
    /// Warnings that a reader must see first.
    banners: Vec<String>,
    /// Sentences on what the trace could not observe.
    not_seen: Vec<String>,
    /// The number of pitfalls and other totals of the trace, the most important first.
    totals: Vec<String>,
}

impl<'a> TraceView<'a> {
    /// Returns the view of a trace, its findings and the outcome of the policy.
    pub fn new(
        trace: &'a Trace,
        findings: &'a [Finding],
        outcome: &'a PolicyOutcome,
    ) -> TraceView<'a> {
        let history = History::new(trace);
        let mut view = TraceView {
            trace,
            ledgers: all_ledgers(trace),
            refusals: refused_calls(&history),
            last_error: last_error(trace),
            findings,
            violations: &outcome.violations,
            undecided: &outcome.undecided,
            banners: unseen::unseen_banners(trace),
            not_seen: unseen::unseen_sentences(&history),
            totals: Vec::new(),
            history,
        };
        view.totals = totals::parts(&view);
        view
    }

    /// Returns the view of a trace without findings.
    #[cfg(test)]
    fn bare(trace: &'a Trace) -> TraceView<'a> {
        TraceView::new(
            trace,
            &[],
            const {
                &PolicyOutcome {
                    violations: Vec::new(),
                    undecided: Vec::new(),
                }
            },
        )
    }

    fn found(&self, severity: Severity) -> impl Iterator<Item = &'a Finding> {
        self.findings
            .iter()
            .filter(move |finding| finding.severity == severity)
    }

    /// Returns `true` if the program failed.
    fn has_failed(&self) -> bool {
        match &self.trace.end {
            Some(end) => end.failure_reason().is_some(),
            None => false,
        }
    }

    /// Returns the user's line of an event, as text.
    fn line_words(&self, event: &TraceEvent) -> Option<String> {
        let line = place::place(self.trace, &event.stack)?;
        Some(entry::line_words(&line))
    }

    /// Returns the user's line of an event, for JSON.
    fn position(&self, event: Option<usize>) -> Option<summary::Position> {
        let event = self.trace.events.get(event?)?;
        summary::user_position(self.trace, &event.stack)
    }

    /// Returns the measured results of an import, in sentences, if one of these events is that a program first called
    /// `cuInit` during this import.
    fn import_words(&self, events: impl IntoIterator<Item = usize>) -> Option<String> {
        for index in events {
            let program = self.history.program_of(index)?;
            let init = self.history.programs.get(program)?.inits.first();
            if init.is_some_and(|init| init.events.contains(&index)) {
                let event = self.trace.events.get(index)?;
                return known_import(Known::embedded(), &event.stack);
            }
        }
        None
    }

    /// Returns the number of CUDA calls that failed, if the program failed.
    fn refused(&self) -> usize {
        if self.has_failed() {
            self.refusals.len()
        } else {
            0
        }
    }

    /// Returns the trace in a format; `None` if traces do not have it. `name` is the name of the trace, such as its
    /// path, and `root` the directory that files are relative to.
    pub fn as_format(
        &self,
        format: Format,
        screen: impl Into<Screen>,
        [name, root]: [&str; 2],
    ) -> Option<String> {
        match format {
            Format::Text => Some(view::text(self, screen)),
            Format::Html => Some(self.to_html()),
            Format::Markdown => Some(view::render_markdown(self)),
            Format::Sarif => Some(sarif::document(self, root)),
            Format::Junit => self.write_findings(format, [name, root], MOST_TESTS),
            Format::Github => self.write_findings(format, [name, root], MOST_ANNOTATIONS),
            _ => None,
        }
    }

    fn write_findings(
        &self,
        format: Format,
        [name, root]: [&str; 2],
        most: usize,
    ) -> Option<String> {
        let write = form_writer(format)?;
        Some(write(&results::trace_findings(self, name, root, most)))
    }

    /// Returns the page, without scripts and without links to anything outside.
    pub fn to_html(&self) -> String {
        view::render_html(self)
    }

    /// Returns the summary, as `trace --json` prints it; its schema is [`schema`].
    #[expect(clippy::expect_used, reason = "its maps have keys that are text")]
    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(summary::trace_summary(self)).expect("a summary is JSON")
    }
}

/// Key of findings that are reported once: the rule's texts, without the process.
type Alike<'a> = (&'a str, String, &'a str);

fn alike_key(finding: &Finding) -> Alike<'_> {
    let says = finding.says.replace(&format!("pid {}", finding.pid), "pid");
    (&finding.title, says, &finding.workaround)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    #[test]
    fn every_form_says_that_a_line_is_of_a_thread_beside() {
        let forms = |trace: &Trace| -> Vec<String> {
            let (findings, outcome) = (fixture::findings(trace), fixture::outcome(trace));
            let seen = TraceView::new(trace, &findings, &outcome);
            let all = Format::all().iter();
            let all =
                all.filter_map(|format| seen.as_format(*format, 400, ["t", "/home/me/project"]));
            all.chain([seen.json().to_string()]).collect()
        };
        let words = [
            crate::machine::BESIDE,
            "other thread (main thread at",
            "meanwhile the program was at",
            "\"is_beside\":true",
        ];
        let says = |form: &String| words.iter().any(|word| form.contains(word));
        let mut trace = fixture::trace();
        assert!(forms(&trace).iter().all(|form| !says(form)));
        trace
            .events
            .iter_mut()
            .for_each(|event| event.stack.meanwhile = std::mem::take(&mut event.stack.frames));
        let forms = forms(&trace);
        assert_eq!(forms.len(), 7);
        forms.iter().for_each(|form| assert!(says(form), "{form}"));
    }
}
