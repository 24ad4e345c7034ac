//! Formats for programs. A report and a trace are each turned into one list of findings, and every format of it is one
//! file here, which escapes its own texts.

pub(crate) mod github;
pub(crate) mod junit;
pub(crate) mod prometheus;

use crate::Format;
use cuda_pitfalls_core::verdict::Provenance;
use junit::TestOutcome;
use prometheus::{Metric, Sample};

/// Messages are cut to this many bytes, because CI systems load the entire file.
const LIMIT: usize = 4096;

/// Remark on a line that is not proven to be the caller.
pub(crate) const BESIDE: &str =
    "Another thread made the call while the main thread was at this line.";

/// A line of the user's own code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UserLine {
    /// The path of the file, relative to the program's starting folder if the file lies in it.
    pub(crate) file: String,
    pub(crate) line: Option<u32>,
    /// `true` if another thread was there at the same time, and the line is not proven to be the caller.
    pub(crate) is_beside: bool,
}

impl UserLine {
    /// Returns the remark on the line, if it has one.
    fn remark(&self) -> Option<&'static str> {
        self.is_beside.then_some(BESIDE)
    }
}

/// The findings of a report or a trace, for machine-readable formats.
pub(crate) struct Findings {
    /// Name of the document.
    pub(crate) name: String,
    pub(crate) started_at: String,
    pub(crate) elapsed_ns: u64,
    /// Properties of the whole document, by name.
    pub(crate) properties: Vec<(&'static str, String)>,
    /// Every metric that a document of this sort has, and the samples that belong to no finding.
    pub(crate) metrics: &'static [Metric],
    pub(crate) samples: Vec<Sample>,
    /// The findings; those about the document itself come first.
    pub(crate) list: Vec<MachineFinding>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Level {
    /// A violation of a requirement, or a requirement that cannot be decided.
    Error,
    /// A possible problem.
    Warning,
    /// Information.
    Note,
}

impl Level {
    /// Returns the word of SARIF.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "note",
        }
    }
}

/// A question's answer, what was found in a trace, or something about the document itself.
#[derive(Default)]
pub(crate) struct MachineFinding {
    /// The test's name, and its class: `cuda-pitfalls.visibility`.
    pub(crate) name: String,
    pub(crate) class: String,
    /// Result as a test; `None` if it is not a test.
    pub(crate) outcome: Option<TestOutcome>,
    /// Severity; `None` if another finding covers it, or it needs no attention.
    pub(crate) level: Option<Level>,
    /// Order of findings, smallest first.
    pub(crate) rank: u8,
    /// A word for the sort of finding.
    pub(crate) sort: String,
    /// Name on one line.
    pub(crate) title: String,
    /// The problem, as a sentence.
    pub(crate) message: String,
    /// Lines below the title.
    pub(crate) lines: Vec<String>,
    pub(crate) place: Option<UserLine>,
    pub(crate) elapsed_ns: Option<u64>,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) samples: Vec<Sample>,
    /// Output that a terminal shows.
    pub(crate) output: Vec<String>,
    /// Output of a worker on stderr.
    pub(crate) stderr: Vec<String>,
}

impl MachineFinding {
    /// Returns a test that passes. Simulated results have separate classes: `cuda-pitfalls.simulated.visibility`.
    pub(crate) fn new_test(provenance: Provenance, subject: &str, name: &str) -> MachineFinding {
        let class = match provenance {
            Provenance::Simulated => "cuda-pitfalls.simulated",
            Provenance::Measured => "cuda-pitfalls",
        };
        MachineFinding {
            name: name.to_owned(),
            class: format!("{class}.{subject}"),
            outcome: Some(TestOutcome::Success),
            ..MachineFinding::default()
        }
    }

    /// Returns the test with an error: a condition that is not met or cannot be decided.
    pub(crate) fn with_error(self, sort: &str, message: &str) -> MachineFinding {
        MachineFinding {
            outcome: Some(TestOutcome::Error),
            sort: sort.to_owned(),
            message: message.to_owned(),
            ..self
        }
    }

    /// Returns a remark, which is not a test.
    pub(crate) fn new_remark(level: Level, title: &str, lines: Vec<String>) -> MachineFinding {
        MachineFinding {
            level: Some(level),
            title: title.to_owned(),
            lines,
            ..MachineFinding::default()
        }
    }
}

/// Returns the writer of a format that is made of findings; `None` for other formats.
pub(crate) fn form_writer(format: Format) -> Option<fn(&Findings) -> String> {
    match format {
        Format::Junit => Some(junit::write_tests),
        Format::Github => Some(github::write_annotations),
        Format::Prometheus => Some(prometheus::write_samples),
        _ => None,
    }
}
