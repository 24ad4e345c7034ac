//! The document of a comparison, and the words and tolerances that all of its parts share.

use schemars::JsonSchema;
use serde::Serialize;

use crate::difference::differing_values;
use crate::exit::Exit;
use crate::published::Publication;
use cuda_pitfalls_core::observe::FALLBACK_EPSILON_BYTES;
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::text::counts::{listed, tally_items};
use cuda_pitfalls_core::verdict::Provenance;

/// The name of the schema.
pub const SCHEMA: &str = "cuda-pitfalls-comparison";

/// Differences between A and B.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Schema of this document.
    pub schema: SchemaId,
    /// Type of the compared documents: `report`, `trace`, `releases`, or the survey's word.
    pub of: String,
    /// First document.
    pub a: ComparisonSide,
    /// Second document.
    pub b: ComparisonSide,
    /// Versions of libcudart in A and in B, if two versions were compared with each other; null if each was compared
    /// with itself.
    pub libcudart: Option<[String; 2]>,
    /// Facts about the machines that differ. They do not count as differences in behavior.
    pub machines: Vec<FactDifference>,
    /// Differences in behavior, in the order of A.
    pub changed: Vec<EntryDifference>,
    /// Differences that do not count, because the question or the machine differs.
    pub explained: Vec<EntryDifference>,
    /// Measurements that only A has.
    pub only_in_a: Vec<Only>,
    /// Measurements that only B has.
    pub only_in_b: Vec<Only>,
    /// Number of scenarios or rows with the same result.
    pub same: usize,
    /// Number of scenarios or rows that neither document has measured.
    pub in_neither: usize,
}

/// A compared document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComparisonSide {
    /// Name given by the caller, such as its path; the run's id if it has no name.
    pub name: String,
    /// The run's id.
    pub run: String,
    /// Version of cuda-pitfalls that produced the document.
    pub version: String,
    /// Source of the answers: a real driver or the simulated machine.
    pub provenance: Provenance,
    /// `true` if the run finished.
    pub complete: bool,
    /// Description of the GPUs and the driver.
    pub machine: String,
    /// Whether the document is one of the measurements that this version of the program was published with; absent if
    /// no document of its run is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Publication>,
}

/// A fact that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FactDifference {
    /// The case of a scenario; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// Label of the step, if the fact is about a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The fact, such as `status`.
    pub fact: String,
    /// The fact's value in A, as text.
    pub a: String,
    /// The fact's value in B, as text.
    pub b: String,
    /// Shares of the attempts in A and B with this outcome; only for outcomes of cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<[String; 2]>")]
    pub seen: Option<[Share; 2]>,
}

/// Share of the attempts that showed something: `3/5` in JSON and in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Share {
    /// Number of attempts that showed this.
    pub count: u64,
    /// Number of attempts that count.
    pub of: u64,
}

impl From<Share> for String {
    fn from(Share { count, of }: Share) -> String {
        format!("{count}/{of}")
    }
}

/// A scenario or a row that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EntryDifference {
    /// Instance of the scenario, or subject of the row.
    pub name: String,
    /// Version of libcudart, if both entries have the same one.
    pub libcudart: Option<String>,
    /// Differences: the first one of each case. Facts after it may differ as a consequence.
    pub changes: Vec<FactDifference>,
    /// Notes for the reader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A measurement that only one of the two documents has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Only {
    /// Instance of the scenario, or subject of the row; null for everything on this libcudart.
    pub name: Option<String>,
    /// Version of libcudart, if the entry depends on it.
    pub libcudart: Option<String>,
    /// Reason why the other document has no measurement of it, as a word of `Reason`; null if the other document does
    /// not include it.
    pub reason: Option<String>,
    /// Number of scenarios or rows that this entry stands for.
    pub count: usize,
}

pub(super) enum Relation {
    Same,
    Changed(EntryDifference),
    Explained(EntryDifference),
}

impl FactDifference {
    pub(super) fn new(fact: &str, a: impl Into<String>, b: impl Into<String>) -> FactDifference {
        FactDifference {
            fact: fact.to_string(),
            a: a.into(),
            b: b.into(),
            ..FactDifference::default()
        }
    }

    /// Returns the facts that differ, by their names. A fact that is missing on one side is `absent` there.
    pub(super) fn between(
        a: &[(String, String)],
        b: &[(String, String)],
        absent: &str,
    ) -> Vec<FactDifference> {
        let facts = [a, b].map(|facts| facts.iter().map(|(name, value)| (name, value)));
        let mut differing = Vec::new();
        for (name, values) in differing_values(facts) {
            let [a, b] = values.map(|value| value.map_or(absent, String::as_str));
            differing.push(FactDifference::new(name, a, b));
        }
        differing
    }
}

impl Comparison {
    /// Returns the exit code of a comparison, which depends on whether the behavior differs, if anything could be
    /// compared.
    pub fn exit(&self) -> Exit {
        match (self.changed.is_empty(), self.same) {
            (false, _) => Exit::Unexpected,
            (true, 0) => Exit::NothingMeasured,
            (true, _) => Exit::Ok,
        }
    }

    pub(super) fn new(
        of: &str,
        [a, b]: [ComparisonSide; 2],
        machines: Vec<FactDifference>,
    ) -> Comparison {
        Comparison {
            schema: SchemaId::current(SCHEMA),
            of: of.to_string(),
            a,
            b,
            machines,
            ..Comparison::default()
        }
    }

    pub(super) fn add_entry(
        &mut self,
        name: String,
        libcudart: Option<String>,
        relation: Relation,
    ) {
        match relation {
            Relation::Same => self.same += 1,
            Relation::Changed(difference) => self.changed.push(EntryDifference {
                name,
                libcudart,
                ..difference
            }),
            Relation::Explained(difference) => self.explained.push(EntryDifference {
                name,
                libcudart,
                ..difference
            }),
        }
    }
}

pub(super) const UNKNOWN: &str = "not known";

pub(super) fn known(text: &Option<String>) -> String {
    text.clone().unwrap_or_else(|| UNKNOWN.to_string())
}

/// Returns the distinct values, each with its count if there are several.
pub(super) fn all(values: impl Iterator<Item = String>) -> String {
    let mut values = tally_items(values);
    values.sort();
    match values.as_slice() {
        [(value, _)] => value.clone(),
        several => {
            let counted = several
                .iter()
                .map(|(value, times)| format!("{times}× {value}"));
            listed(counted, "")
        }
    }
}

/// Returns `true` if two amounts of memory count as equal: they differ by at most a hundredth or a few pages.
pub(super) fn is_noise(one: i64, other: i64) -> bool {
    let largest = one.unsigned_abs().max(other.unsigned_abs());
    one.abs_diff(other) <= FALLBACK_EPSILON_BYTES.max(largest / 100)
}

pub(super) fn yes_or_no(holds: bool) -> String {
    if holds { "yes" } else { "no" }.to_string()
}

impl ComparisonSide {
    pub(super) fn new(
        run: &str,
        version: &str,
        provenance: Provenance,
        complete: bool,
        machine: String,
    ) -> ComparisonSide {
        let (run, version) = (run.to_string(), version.to_string());
        ComparisonSide {
            name: run.clone(),
            run,
            version,
            provenance,
            complete,
            machine,
            published: None,
        }
    }
}

impl EntryDifference {
    pub(super) fn new(changes: Vec<FactDifference>, notes: Vec<String>) -> EntryDifference {
        EntryDifference {
            changes,
            notes,
            ..EntryDifference::default()
        }
    }
}

/// Reason why two documents cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// A document has no results for the requested libcudart.
    #[error("{side} has no results for libcudart {version}; it has {has}")]
    Libcudart {
        /// The document: A or B.
        side: &'static str,
        /// The requested version.
        version: String,
        /// The versions that the document has.
        has: String,
    },
    /// Versions were requested for rows that do not have a version.
    #[error("libcudart versions can be compared in reports and in surveys of calls")]
    Versions,
    /// Two surveys of different kinds.
    #[error("A is a survey of {a}, B is a survey of {b}")]
    Kinds {
        /// Kind of the survey A.
        a: &'static str,
        /// Kind of the survey B.
        b: &'static str,
    },
    /// Only one of the two documents is a survey or a trace.
    #[error("A is a {a}, B is a {b}: only documents of the same kind can be compared")]
    Documents {
        /// Type of A.
        a: &'static str,
        /// Type of B.
        b: &'static str,
    },
}
