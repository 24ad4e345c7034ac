//! The document of a fleet.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change::{CaseChange, FactDiffers};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::verdict::{Kind, Provenance};

/// The name of the schema.
pub const SCHEMA: &str = "cuda-pitfalls-fleet";

/// The complete document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// Schema of this document.
    pub schema: SchemaId,
    /// Source of the answers: real drivers or the simulated machine. Measured and simulated reports are never merged
    /// into one document.
    pub provenance: Provenance,
    /// Version of cuda-pitfalls that merged the reports.
    pub version: String,
    /// Inputs, and what happened to each.
    pub input: Input,
    /// Expected machines, if a list was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<ExpectedMachines>,
    /// Machines by name.
    pub machines: Vec<FleetMachine>,
    /// Every question in a report and every row of a survey, by name. The rest of this document refers to them by
    /// index.
    pub questions: Vec<Question>,
    /// Groups of comparable machines, the largest first.
    pub groups: Vec<Group>,
    /// Differences, the most important first.
    pub differences: Vec<Difference>,
    /// Machines that differ, grouped by the set of their differences. Machines where CUDA does not start come first.
    #[serde(default)]
    pub outliers: Vec<Outliers>,
}

/// Inputs. Every input is in one bucket, so that the buckets add up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Number of documents found in the inputs, merged or not.
    pub documents: u64,
    /// Number of documents in each bucket.
    pub buckets: BTreeMap<Bucket, u64>,
    /// Examples of documents that were not merged, with the reason: at most [`MOST_EXAMPLES`] of each bucket.
    pub not_merged: Vec<NotMerged>,
    /// The start of the earliest merged run, RFC 3339, UTC.
    pub from: Option<String>,
    /// The start of the latest merged run.
    pub to: Option<String>,
}

/// Maximum number of inputs of a bucket that are listed.
pub const MOST_EXAMPLES: usize = 100;

/// Result of reading a document.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Bucket {
    /// Compared.
    Merged,
    /// Compared, although its run did not finish: it counts for the questions that it contains.
    Partial,
    /// A later report of the same machine and the same questions was merged instead.
    Duplicate,
    /// Like a duplicate, but the later report differs.
    Disagreeing,
    /// Older than `--max-age` allows.
    Stale,
    /// Dated in the future: another report of the machine was merged instead, or `--max-age` requires current ones.
    Future,
    /// From the simulated machine, while measured reports are merged.
    Simulated,
    /// From a real driver, while simulated reports are merged.
    Measured,
    /// Incomplete: the document ends early.
    Truncated,
    /// Invalid: from another program, contradictory, or larger than allowed.
    Invalid,
    /// Unsupported by this version: the document has another schema.
    Unsupported,
    /// Without any answer, although CUDA may start on its machine.
    Empty,
    /// The file could not be read.
    Unreadable,
}

/// A document that was not merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotMerged {
    /// Path, with the line or the position in the archive.
    pub path: String,
    /// Bucket of the document.
    pub bucket: Bucket,
    /// Reason, as text.
    pub why: String,
}

/// Machines that were expected to report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Expected")]
pub struct ExpectedMachines {
    /// Number of expected names.
    pub machines: usize,
    /// Names that were expected, but not merged.
    pub missing: Vec<String>,
    /// Names that were merged but not expected.
    pub unexpected: Vec<String>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Machine")]
pub struct FleetMachine {
    /// Name: the label `node`, or else `host`, or else the shortened UUIDs of its GPUs. If two machines have the same
    /// label, the UUID of a GPU is appended.
    pub name: String,
    /// Name in its reports, if another machine with other GPUs has the same name in its reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_name: Option<String>,
    /// The labels of the machine's reports.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Reason why CUDA does not start on the machine; absent if CUDA starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_cuda: Option<String>,
    /// Reason why none of its reports is compared, such as `stale`; absent if at least one is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<Bucket>,
    /// Subjects that two of the machine's reports disagree on, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// The UUIDs of the machine's GPUs.
    pub gpus: Vec<String>,
    /// Paths of the machine's merged reports.
    pub reports: Vec<String>,
    /// The start of the machine's latest merged run, RFC 3339, UTC.
    pub started_at: String,
    /// `true` if one of the machine's merged reports is dated in the future.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dated_ahead: bool,
    /// `true` if one of the machine's merged reports is partial.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Number of its verdicts of each kind, according to its reports: expected, unexpected, and so on.
    pub verdicts: BTreeMap<Kind, usize>,
    /// Number of unexpected verdicts in the machine's reports, merged or not.
    pub unexpected: usize,
    /// Warnings in the machine's reports about the measurement, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Fleet {
    /// Returns `true` if a machine that sent something was not compared, or not with all of its run, or if a document
    /// could not be read. Files that do not belong to this program are ignored, because they may be in the same directory.
    pub fn has_uncompared(&self) -> bool {
        let unread = [Bucket::Truncated, Bucket::Unsupported, Bucket::Unreadable];
        let has_unread = unread.iter().any(|bucket| {
            self.input
                .buckets
                .get(bucket)
                .is_some_and(|count| *count > 0)
        });
        has_unread
            || self
                .machines
                .iter()
                .any(|machine| machine.left_out.is_some() || machine.partial)
    }

    /// Parses a document.
    ///
    /// # Errors
    /// Returns an error if the text does not fit the type, or if the document contains two questions with the same
    /// name, two groups with the same key, or two results of a group for the same question: readers could not know
    /// which of the two applies.
    pub fn parse(text: &[u8]) -> serde_json::Result<Fleet> {
        let fleet: Fleet = serde_json::from_slice(text)?;
        let twice = if has_twice(
            fleet
                .questions
                .iter()
                .map(|question| (&question.name, question.is_row)),
        ) {
            "two questions have the same name"
        } else if has_twice(fleet.groups.iter().map(|group| &group.key)) {
            "two groups have the same properties"
        } else if fleet
            .groups
            .iter()
            .any(|group| has_twice(group.usual.iter().map(|usual| usual.question)))
        {
            "a group lists a question twice"
        } else {
            return Ok(fleet);
        };
        Err(serde::de::Error::custom(format!(
            "it contradicts itself: {twice}"
        )))
    }
}

fn has_twice<T: Ord>(mut all: impl Iterator<Item = T>) -> bool {
    let mut known = BTreeSet::new();
    !all.all(|item| known.insert(item))
}

impl FleetMachine {
    /// Returns `true` if its reports disagree, or if another machine has the same name.
    pub fn has_conflict(&self) -> bool {
        self.shared_name.is_some() || !self.conflicts.is_empty()
    }
}

impl Bucket {
    /// Returns `true` if the documents in the bucket were compared.
    pub fn is_merged(self) -> bool {
        matches!(self, Bucket::Merged | Bucket::Partial)
    }
}

/// A question that machines are compared by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// Name: the instance of a scenario, a survey and its row (`survey calls: cudaMalloc`), or `machine: driver`. If
    /// two versions of the program test different things under the same name, a hash is appended to all but the most
    /// frequent variant: `memory/context-cost (asked otherwise: 1a2b3c4d5e6f7788)`.
    pub name: String,
    /// Text of the question; empty for rows.
    pub question: String,
    /// Page of the pitfall, relative to the documentation; absent if it has no page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// `true` if the question is a row of a survey. A row has no verdict, and the kind of its outcomes is `reproduced`
    /// if it was measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_row: bool,
}

/// Properties that must be equal for machines to be compared.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Key {
    /// The label of `--group-by` and its value; absent without the option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// `true` if properties of the machines are compared, such as the number of their GPUs, but not their answers. The
    /// following fields are empty in that case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_facts: bool,
    /// The GPU models, each with how many there are: `2x NVIDIA H200`.
    pub gpus: String,
    /// The driver; empty if it could not be read.
    pub driver: String,
    /// The libcudart of the questions; empty for questions without libcudart.
    pub libcudart: String,
    /// `true` if a GPU is in MIG mode.
    pub mig: bool,
    /// `true` if processes of others used the GPUs.
    pub shared: bool,
}

/// Machines that can be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Properties that the machines have in common.
    pub key: Key,
    /// Indices into [`Fleet::machines`].
    pub machines: Vec<usize>,
    /// The usual results of these machines, by question.
    pub usual: Vec<Usual>,
}

/// Results of a group for a question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usual {
    /// Index into [`Fleet::questions`].
    pub question: usize,
    /// Distinct outcomes, the most frequent first. The first one is usual if more than half of the members with an
    /// answer have it. Empty if no member has an answer.
    pub outcomes: Vec<GroupOutcome>,
    /// Bytes by case and GPU, `trap/gpu0` (only the GPU for rows), that the members with the usual outcome used,
    /// without outliers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used_bytes: BTreeMap<String, ByteSpread>,
    /// Machines that ran the question without getting an answer, as indices into [`Fleet::machines`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_answer: Vec<usize>,
    /// Machines of the group whose reports do not contain the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_asked: Vec<usize>,
    /// Machines whose own report marks the verdict unexpected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unexpected: Vec<usize>,
}

/// An outcome, and the number of machines that have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Outcome")]
pub struct GroupOutcome {
    /// The verdict.
    pub kind: Kind,
    /// Facts of each case, step by step.
    pub facts: Vec<CaseChange>,
    /// Number of machines.
    pub machines: usize,
}

/// Spread of a figure over several machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Spread")]
pub struct ByteSpread {
    /// Number of machines.
    pub count: usize,
    /// The median, in bytes.
    pub median_bytes: i64,
    /// The median of the distances from the median, in bytes.
    pub mad_bytes: i64,
    /// The smallest, in bytes.
    pub least_bytes: i64,
    /// The largest, in bytes.
    pub most_bytes: i64,
}

/// A difference between machines of a group and the other members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Index into [`Fleet::groups`].
    pub group: usize,
    /// Index into [`Fleet::questions`].
    pub question: usize,
    /// Machines that differ, as indices into [`Fleet::machines`].
    pub machines: Vec<usize>,
    /// Number of members of the group with the usual outcome. For bytes: with the usual amount. For machines without an
    /// answer: with any answer.
    pub usual_machines: usize,
    /// `true` if no outcome has a majority. In that case the usual outcome is only the most frequent one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_split: bool,
    /// Type and details of the difference.
    pub what: What,
}

/// Type of a difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum What {
    /// A different outcome.
    Outcome {
        /// Index into [`Usual::outcomes`]; the usual one is 0.
        outcome: usize,
        /// `true` if the verdict differs; `false` if only facts differ.
        verdict_differs: bool,
        /// The facts that differ.
        facts: Vec<FactDiffers>,
    },
    /// The same outcome with different figures.
    Bytes {
        /// The case and GPU, `trap/gpu0`.
        figure: String,
        /// Bytes used by the usual members, without those that differ.
        usual: ByteSpread,
        /// Bytes used by the members that differ.
        these: ByteSpread,
    },
    /// No answer, although other members of the group have one.
    NoAnswer {
        /// Reasons in the machines' reports, each with its number of occurrences.
        reasons: BTreeMap<String, usize>,
    },
}

/// Machines with the same differences, or machines where CUDA does not start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outliers {
    /// `true` if CUDA does not start on these machines. Such machines have no differences.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_cuda: bool,
    /// Indices into [`Fleet::machines`].
    pub machines: Vec<usize>,
    /// Indices into [`Fleet::differences`], the most important first. A difference may apply to only some of the
    /// machines: those of two groups, or those that differ in the same fact by another value.
    pub differences: Vec<usize>,
    /// Labels, such as `rack=3`, that all of these machines have and no other machine of the fleet has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}
