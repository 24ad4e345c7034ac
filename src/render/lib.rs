//! Every format of every document, and all English text that is made from one.
//!
//! Every renderer is a function from a document to text: no clock, file, environment or process. A document may be
//! untrusted, so its text passes through [`cuda_pitfalls_core::text::escape`] first, and nothing here can panic on it.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod answer;
pub mod applicable;
pub mod bisect;
mod block;
pub mod change;
pub mod compare;
pub mod doctor;
pub mod explain;
pub mod facts;
pub mod fleet;
pub mod full;
mod health;
mod html;
pub mod impact;
pub mod imports;
pub mod issue;
pub mod lines;
pub mod listing;
mod machine;
mod prepared;
pub mod preview;
pub mod published;
pub mod releases;
mod report;
mod results;
mod sentence;
mod steps;
pub mod survey;
pub mod svg;
pub mod tally;
pub mod trace;
pub mod versions;
pub mod visibility;
pub mod who;
pub mod words;
mod writer;

#[cfg(test)]
mod fixture;

use cuda_pitfalls_core::report::CompactReport;

pub use prepared::{Prepared, has_words, with_words};
pub use writer::terminal::{Screen, Style};

/// Output formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Format {
    /// Answers, as the terminal shows them during a run.
    Text,
    /// Every case of every scenario, as `run --verbose` shows them.
    TextFull,
    /// A page in one file that loads nothing from outside.
    Html,
    /// A page for issue trackers and job summaries.
    Markdown,
    /// XML that CI systems read as test results.
    Junit,
    /// A file for the textfile collector of a Prometheus node exporter.
    Prometheus,
    /// Annotations for a GitHub Actions log.
    Github,
    /// A trace as results in SARIF 2.1.0, which code scanning and editors show at the user's own lines.
    Sarif,
    /// A seccomp profile for container runtimes (OCI), made from the permissions in a `survey needs` document.
    Oci,
    /// The compact report: the same document without steps, attempts and samples, on one line.
    Compact,
}

impl Format {
    /// Returns all formats.
    pub fn all() -> &'static [Format] {
        <Format as clap::ValueEnum>::value_variants()
    }
}

/// Renders a report as text that ends with a newline; `None` if reports do not have the format. `screen` applies to
/// text.
pub fn render(
    prepared: &Prepared<'_>,
    format: Format,
    screen: impl Into<Screen>,
) -> Option<String> {
    let report = &prepared.view();
    Some(match format {
        Format::Text => answer::report(report, screen),
        Format::TextFull => full::report(report, screen),
        Format::Html => report::report_page(report),
        Format::Markdown => report::report_markdown(report),
        Format::Compact => compact_json(&prepared.to_compact()),
        _ => machine::form_writer(format)?(&results::report_findings(report)),
    })
}

#[expect(
    clippy::expect_used,
    reason = "a report without attempts has none to read back"
)]
fn compact_json(report: &CompactReport) -> String {
    serde_json::to_string(report).expect("a compact report can always be written as JSON") + "\n"
}

#[cfg(test)]
mod tests;
