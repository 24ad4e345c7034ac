//! A trace for people and for CI: on a terminal, as a page, as test results, as annotations.
//!
//! Every form is made of the same `entry`s: an important event, or a group of equal ones, with the
//! user's own line, what it did to memory, and the pitfalls that begin there.

mod cards;
mod change;
mod entry;
mod file;
mod github;
mod html;
mod issue;
mod junit;
mod markdown;
mod place;
mod proof;
mod reported;
mod sarif;
pub mod sim;
mod summary;
mod text;
mod totals;
mod unseen;

pub use summary::{
    ContextSummary, FindingSummary, Mask, Position, ProcessSummary, ProgramExit, TraceSummary, ViolationSummary, schema,
};

use super::Format;
use super::issue::Attached;
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_core::text::lines;
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};
use cuda_pitfalls_trace::policy::{PolicyOutcome, Violation};
use cuda_pitfalls_trace::{History, Trace};

/// A trace and what was made of it.
struct Seen<'a> {
    trace: &'a Trace,
    history: History<'a>,
    findings: &'a [Finding],
    violations: &'a [Violation],
    /// What of the policy cannot be decided, because the trace saw less.
    undecided: &'a [String],
}

impl<'a> Seen<'a> {
    fn new(trace: &'a Trace, findings: &'a [Finding], outcome: &'a PolicyOutcome) -> Seen<'a> {
        let (violations, undecided) = (outcome.violations.as_slice(), outcome.undecided.as_slice());
        Seen { trace, history: History::of(trace), findings, violations, undecided }
    }

    /// A trace in which nothing was found.
    #[cfg(test)]
    fn bare(trace: &'a Trace) -> Seen<'a> {
        Seen { trace, history: History::of(trace), findings: &[], violations: &[], undecided: &[] }
    }

    /// What is found of this severity.
    fn found(&self, severity: Severity) -> impl Iterator<Item = &'a Finding> {
        self.findings.iter().filter(move |finding| finding.severity == severity)
    }
}

/// What findings have in common that are told once: the rule's words, but for the process.
fn alike(finding: &Finding) -> (&str, String, &str) {
    let says = finding.says.replace(&format!("pid {}", finding.pid), "pid");
    (&finding.title, says, &finding.workaround)
}

/// The trace as the terminal shows it, in lines of at most `width` columns, but for fewer than 40.
pub fn text(trace: &Trace, findings: &[Finding], outcome: &PolicyOutcome, width: usize) -> String {
    text::text(&Seen::new(trace, findings, outcome), width)
}

/// The trace as one page, without scripts and without links to anything outside.
pub fn html(trace: &Trace, findings: &[Finding], outcome: &PolicyOutcome) -> String {
    html::page(&Seen::new(trace, findings, outcome))
}

/// Test results, as CI systems read them; `name` is what the trace is called.
pub fn junit(trace: &Trace, findings: &[Finding], outcome: &PolicyOutcome, name: &str) -> String {
    junit::file(&Seen::new(trace, findings, outcome), name)
}

/// Annotations of a GitHub Actions log; `root` is the folder of the repository, which files are relative to.
pub fn github(trace: &Trace, findings: &[Finding], outcome: &PolicyOutcome, root: &str) -> String {
    github::lines(&Seen::new(trace, findings, outcome), root)
}

/// Results in SARIF 2.1.0; `root` is the folder of the sources, which files are relative to.
pub fn sarif(trace: &Trace, findings: &[Finding], outcome: &PolicyOutcome, root: &str) -> String {
    sarif::document(&Seen::new(trace, findings, outcome), root)
}

/// A page for an issue or a job summary.
pub fn markdown(trace: &Trace, findings: &[Finding], outcome: &PolicyOutcome) -> String {
    markdown::page(&Seen::new(trace, findings, outcome))
}

/// The scenarios that prove the pitfalls of a trace, each once.
pub fn proofs(findings: &[Finding]) -> Vec<Scenario> {
    proof::scenarios(findings.iter().filter(|finding| finding.severity == Severity::Pitfall))
}

/// The text of an issue about a stored trace, whose policy is not known; `proofs` are its [`proofs`], `attached` their
/// reproducers.
pub fn issue(trace: &Trace, findings: &[Finding], proofs: &[Scenario], attached: &[Attached]) -> String {
    issue::issue(&Seen::new(trace, findings, &PolicyOutcome::default()), proofs, attached)
}

/// The summary, as `trace --json` prints it; its schema is [`schema`].
pub fn json(trace: &Trace, findings: &[Finding], outcome: &PolicyOutcome) -> serde_json::Value {
    serde_json::to_value(summary::summary(&Seen::new(trace, findings, outcome))).unwrap_or_default()
}

/// The trace in a form, none if traces do not have it; `name` is what the trace is called, such as its path, and `root`
/// the folder of the sources.
pub fn as_format(
    trace: &Trace,
    findings: &[Finding],
    outcome: &PolicyOutcome,
    format: Format,
    [name, root]: [&str; 2],
) -> Option<String> {
    match format {
        Format::Text => Some(text(trace, findings, outcome, lines::WIDTH)),
        Format::Html => Some(html(trace, findings, outcome)),
        Format::Markdown => Some(markdown(trace, findings, outcome)),
        Format::Junit => Some(junit(trace, findings, outcome, name)),
        Format::Github => Some(github(trace, findings, outcome, root)),
        Format::Sarif => Some(sarif(trace, findings, outcome, root)),
        _ => None,
    }
}
