//! A trace for people and for CI: on a terminal, as a page, as test results, as annotations.
//!
//! Every form is made of the same [`entry`]s: an important event, or a group of equal ones, with the
//! user's own line, what it did to memory, and the pitfalls that begin there.

mod entry;
#[cfg(test)]
pub(crate) mod fixture;
mod github;
mod html;
mod junit;
mod markdown;
mod place;
mod summary;
mod text;
mod totals;
mod unseen;

pub use summary::{
    ContextSummary, FindingSummary, Mask, Position, ProcessSummary, ProgramExit, Summary, ViolationSummary, schema,
};

use super::Format;
use crate::diagnosis::Finding;
use crate::policy::Violation;
use crate::text::lines;
use crate::trace::Trace;

/// A trace and what was made of it.
struct Seen<'a> {
    trace: &'a Trace,
    findings: &'a [Finding],
    violations: &'a [Violation],
}

/// The trace as the terminal shows it, in lines of at most `width` columns, but for fewer than 40.
pub fn text(trace: &Trace, findings: &[Finding], violations: &[Violation], width: usize) -> String {
    text::text(&Seen { trace, findings, violations }, width)
}

/// The trace as one page, without scripts and without links to anything outside.
pub fn html(trace: &Trace, findings: &[Finding], violations: &[Violation]) -> String {
    html::page(&Seen { trace, findings, violations })
}

/// Test results, as CI systems read them; `name` is what the trace is called.
pub fn junit(trace: &Trace, findings: &[Finding], violations: &[Violation], name: &str) -> String {
    junit::file(&Seen { trace, findings, violations }, name)
}

/// Annotations of a GitHub Actions log.
pub fn github(trace: &Trace, findings: &[Finding], violations: &[Violation]) -> String {
    github::lines(&Seen { trace, findings, violations })
}

/// A page for an issue or a job summary.
pub fn markdown(trace: &Trace, findings: &[Finding], violations: &[Violation]) -> String {
    markdown::page(&Seen { trace, findings, violations })
}

/// The summary, as `trace --json` prints it; its schema is [`schema`].
pub fn json(trace: &Trace, findings: &[Finding], violations: &[Violation]) -> serde_json::Value {
    serde_json::to_value(summary::summary(&Seen { trace, findings, violations })).unwrap_or_default()
}

/// The trace in a form that traces have; `name` is what the trace is called, such as its path.
///
/// # Errors
/// The forms that there are, where this is none of them.
pub fn as_format(
    trace: &Trace,
    findings: &[Finding],
    violations: &[Violation],
    format: Format,
    name: &str,
) -> Result<String, String> {
    match format {
        Format::Text => Ok(text(trace, findings, violations, lines::WIDTH)),
        Format::Html => Ok(html(trace, findings, violations)),
        Format::Markdown => Ok(markdown(trace, findings, violations)),
        Format::Junit => Ok(junit(trace, findings, violations, name)),
        Format::Github => Ok(github(trace, findings, violations)),
        Format::TextFull | Format::Prometheus | Format::Npd => {
            Err("a trace can be rendered as text, html, markdown, junit or github".to_owned())
        }
    }
}
