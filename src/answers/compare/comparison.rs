//! The document of a comparison, and the words and tolerances that all of its parts share.

use schemars::JsonSchema;
use serde::Serialize;

use crate::difference::differing_values;
use crate::exit::Exit;
use cuda_pitfalls_core::observe::FALLBACK_EPSILON_BYTES;
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::text::counts::{listed, tally_items};
use cuda_pitfalls_core::verdict::Provenance;

/// The name of the schema.
pub const SCHEMA: &str = "cuda-pitfalls-comparison";

/// What differs between A and B.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Which document this is.
    pub schema: SchemaId,
    /// What was compared: `report`, `trace`, `releases`, or the survey's word.
    pub of: String,
    /// The one side.
    pub a: ComparisonSide,
    /// The other side.
    pub b: ComparisonSide,
    /// The libcudart of A and of B, where one was compared with another; null where each was with itself.
    pub libcudart: Option<[String; 2]>,
    /// Facts about the machines that differ. They are no difference in behaviour.
    pub machines: Vec<FactDifference>,
    /// What behaved differently, in the order of A.
    pub changed: Vec<EntryDifference>,
    /// Differences that come from another question or another machine: they do not count.
    pub explained: Vec<EntryDifference>,
    /// What only A has measured.
    pub only_in_a: Vec<Only>,
    /// What only B has measured.
    pub only_in_b: Vec<Only>,
    /// How many scenarios or rows showed the same.
    pub same: usize,
    /// How many neither of them has measured.
    pub in_neither: usize,
}

/// One of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComparisonSide {
    /// What the reader calls it, such as its path; the run's id if it has no name.
    pub name: String,
    /// The run's id.
    pub run: String,
    /// The version of cuda-pitfalls that made it.
    pub version: String,
    /// Whether a real driver answered.
    pub provenance: Provenance,
    /// Whether its run finished.
    pub complete: bool,
    /// The GPUs and the driver, in words.
    pub machine: String,
}

/// One fact that is not the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FactDifference {
    /// The case of a scenario; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// The step's label, where the fact is one of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The fact, such as `status`.
    pub fact: String,
    /// What it is in A, in words.
    pub a: String,
    /// What it is in B, in words.
    pub b: String,
    /// In how many of the attempts that count A and B showed this; only for outcomes of cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<[String; 2]>")]
    pub seen: Option<[Share; 2]>,
}

/// In how many of how many attempts something was seen; in JSON and in words `3/5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Share {
    /// In how many.
    pub count: u64,
    /// Of how many that count.
    pub of: u64,
}

impl From<Share> for String {
    fn from(Share { count, of }: Share) -> String {
        format!("{count}/{of}")
    }
}

/// A scenario or a row that is not the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EntryDifference {
    /// The scenario's instance, or what the row is about.
    pub name: String,
    /// The version of libcudart, where both are of one.
    pub libcudart: Option<String>,
    /// What differs. Of each case it is the first fact; what follows from it may differ too.
    pub changes: Vec<FactDifference>,
    /// What the reader must know, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Something that only one of the two has measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Only {
    /// The scenario's instance, or what the row is about; null for everything on this libcudart.
    pub name: Option<String>,
    /// The version of libcudart, where it is of one.
    pub libcudart: Option<String>,
    /// Why the other one has no measurement of it, by a word of `Reason`; null where it was not asked there.
    pub reason: Option<String>,
    /// How many scenarios or rows these are.
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

    /// The facts that differ, by their names. One that only one of them has is `absent` in the other.
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
    /// How a comparison ends: whether something behaves differently, if anything could be compared.
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

/// Different values, how often each is there where they are several.
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

/// Whether two amounts of memory are the same: a hundredth counts for nothing, and neither do a few pages.
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

/// Why two documents cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// A document has nothing of the libcudart that is asked for.
    #[error("{side} has nothing of libcudart {version}; it has {has}")]
    Libcudart {
        /// The document: A or B.
        side: &'static str,
        /// The version that is asked for.
        version: String,
        /// The versions that the document has.
        has: String,
    },
    /// Versions are asked for where rows have none.
    #[error("versions of libcudart can be compared in reports and in surveys of calls")]
    Versions,
    /// Two surveys of different kinds.
    #[error("A is a survey of {a}, B is one of {b}: they ask different questions")]
    Kinds {
        /// What A is a survey of.
        a: &'static str,
        /// What B is a survey of.
        b: &'static str,
    },
    /// Two documents of which only one is a survey or a trace.
    #[error("A is a {a}, B is a {b}: only two of a kind can be compared")]
    Documents {
        /// What A is.
        a: &'static str,
        /// What B is.
        b: &'static str,
    },
}
