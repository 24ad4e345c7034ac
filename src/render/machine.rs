//! Forms for programs. A report and a trace are each made one list of findings, and every form of it is one file here,
//! which escapes its texts itself.

pub(crate) mod github;
pub(crate) mod junit;
pub(crate) mod prometheus;

use crate::Format;
use cuda_pitfalls_core::verdict::Provenance;
use junit::TestOutcome;
use prometheus::{Metric, Sample};

/// Messages are cut to this many bytes, because CI systems load a file whole.
const LIMIT: usize = 4096;

/// What is said of a line that is not proven to be the one that called.
pub(crate) const BESIDE: &str =
    "Another thread made the call: the program was at this line meanwhile.";

/// A line of the user's own code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UserLine {
    /// The file, relative to the folder that the program was started in where it lies below it.
    pub(crate) file: String,
    pub(crate) line: Option<u32>,
    /// Whether another thread was there meanwhile, and the line is not proven to be the one that called.
    pub(crate) is_beside: bool,
}

impl UserLine {
    /// What is said beside the line, if something is.
    fn remark(&self) -> Option<&'static str> {
        self.is_beside.then_some(BESIDE)
    }
}

/// What programs are told of a report or a trace.
pub(crate) struct Findings {
    /// What the document is called.
    pub(crate) name: String,
    pub(crate) started_at: String,
    pub(crate) elapsed_ns: u64,
    /// What is known of all of it, by name.
    pub(crate) properties: Vec<(&'static str, String)>,
    /// Every metric that a document of this sort has, and the samples that belong to no finding.
    pub(crate) metrics: &'static [Metric],
    pub(crate) samples: Vec<Sample>,
    /// What is about the document itself comes first.
    pub(crate) list: Vec<MachineFinding>,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Level {
    /// It is not as it must be, or that cannot be decided.
    Error,
    /// It may be wrong.
    Warning,
    /// It is worth knowing.
    Note,
}

impl Level {
    /// The word of SARIF.
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
    /// What became of it as a test; none if it is no test.
    pub(crate) outcome: Option<TestOutcome>,
    /// How much it matters; none if that is told by another finding, or nobody needs to look at it.
    pub(crate) level: Option<Level>,
    /// Those of a smaller rank are told first.
    pub(crate) rank: u8,
    /// A word for the sort of finding.
    pub(crate) sort: String,
    /// What it is called in a line.
    pub(crate) title: String,
    /// What is wrong with it, in a sentence.
    pub(crate) message: String,
    /// What is told below the title.
    pub(crate) lines: Vec<String>,
    pub(crate) place: Option<UserLine>,
    pub(crate) elapsed_ns: Option<u64>,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) samples: Vec<Sample>,
    /// What a terminal shows of it.
    pub(crate) output: Vec<String>,
    /// What a worker wrote to stderr.
    pub(crate) stderr: Vec<String>,
}

impl MachineFinding {
    /// A test that passes. Simulated results are in classes of their own: `cuda-pitfalls.simulated.visibility`.
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

    /// The test with an error: a condition that is not met, or of which nothing is known.
    pub(crate) fn with_error(self, sort: &str, message: &str) -> MachineFinding {
        MachineFinding {
            outcome: Some(TestOutcome::Error),
            sort: sort.to_owned(),
            message: message.to_owned(),
            ..self
        }
    }

    /// Something that is said and is no test.
    pub(crate) fn new_remark(level: Level, title: &str, lines: Vec<String>) -> MachineFinding {
        MachineFinding {
            level: Some(level),
            title: title.to_owned(),
            lines,
            ..MachineFinding::default()
        }
    }
}

/// What writes a form that is made of findings; none if the form is not.
pub(crate) fn form_writer(format: Format) -> Option<fn(&Findings) -> String> {
    match format {
        Format::Junit => Some(junit::write_tests),
        Format::Github => Some(github::write_annotations),
        Format::Prometheus => Some(prometheus::write_samples),
        _ => None,
    }
}
