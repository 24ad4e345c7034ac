//! The document of a fleet.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change::{CaseChange, FactDiffers};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::verdict::{Kind, Provenance};

/// The name of the schema.
pub const SCHEMA: &str = "cuda-pitfalls-fleet";

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// Which document this is.
    pub schema: SchemaId,
    /// Whether real drivers answered. Measured and simulated reports are never merged into one document.
    pub provenance: Provenance,
    /// The version of cuda-pitfalls that merged.
    pub version: String,
    /// What was read, and what became of it.
    pub input: Input,
    /// Who was expected, if anybody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<ExpectedMachines>,
    /// One for each machine, by name.
    pub machines: Vec<FleetMachine>,
    /// Every question that a report asked or a row that a survey measured, by name. Other places of this
    /// document name one by its place here.
    pub questions: Vec<Question>,
    /// Machines that can be compared with one another; the largest first.
    pub groups: Vec<Group>,
    /// What differs, the most important first.
    pub differences: Vec<Difference>,
    /// The machines that differ, by the set of what they differ in; those on which CUDA does not start come first.
    #[serde(default)]
    pub outliers: Vec<Outliers>,
}

/// What was read. Every input is in one bucket, so that the buckets add up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// How many documents were found in the inputs, whatever became of them.
    pub documents: u64,
    /// How many of them fell into each bucket.
    pub buckets: BTreeMap<Bucket, u64>,
    /// Some of those that were not merged, with the reason: at most [`MOST_EXAMPLES`] of each bucket.
    pub not_merged: Vec<NotMerged>,
    /// The start of the earliest merged run, RFC 3339, UTC.
    pub from: Option<String>,
    /// The start of the latest merged run.
    pub to: Option<String>,
}

/// How many inputs of a bucket are named.
pub const MOST_EXAMPLES: usize = 100;

/// What became of one document.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Bucket {
    /// Compared.
    Merged,
    /// Compared, although its run did not finish: it counts for what it asked.
    Partial,
    /// A later report of the same machine and the same questions was merged instead.
    Duplicate,
    /// Like a duplicate, but the later report says something else.
    Disagreeing,
    /// Older than `--max-age` allows.
    Stale,
    /// Dated in the future: another report of the machine was merged instead, or `--max-age` asked for current ones.
    Future,
    /// Of the simulated machine, where measured reports are merged.
    Simulated,
    /// Of a real driver, where simulated reports are merged.
    Measured,
    /// Ends in the middle.
    Truncated,
    /// Not a document of this program, or one that contradicts itself or is larger than allowed.
    Invalid,
    /// Of a schema that this version does not read.
    Unsupported,
    /// It answered no question, although CUDA may start on its machine.
    Empty,
    /// The file could not be read.
    Unreadable,
}

/// One document that was not merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotMerged {
    /// Its path, with its line or its place in the archive.
    pub path: String,
    /// What became of it.
    pub bucket: Bucket,
    /// Why, in words.
    pub why: String,
}

/// Who was expected to report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Expected")]
pub struct ExpectedMachines {
    /// How many names were expected.
    pub machines: usize,
    /// Expected, and no report of it was merged.
    pub missing: Vec<String>,
    /// Merged, and nobody expected it.
    pub unexpected: Vec<String>,
}

/// One machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Machine")]
pub struct FleetMachine {
    /// The label `node`, or else `host`, or else the UUIDs of its GPUs in short. Where two machines have one label, the
    /// UUID of a GPU stands behind it.
    pub name: String,
    /// What its reports call it, where those of another machine, with other GPUs, call that one the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_name: Option<String>,
    /// The labels of its reports.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Why CUDA does not start on it; absent where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_cuda: Option<String>,
    /// Why no report of it is compared, such as `stale`; absent where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<Bucket>,
    /// What two of its reports disagree on, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// The UUIDs of its GPUs.
    pub gpus: Vec<String>,
    /// Where its merged reports were.
    pub reports: Vec<String>,
    /// The start of its latest merged run, RFC 3339, UTC.
    pub started_at: String,
    /// Whether a merged report of it is dated in the future.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dated_ahead: bool,
    /// Whether a merged report of it is partial.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// What its reports said about its verdicts: how many were as expected, unexpected, and so on.
    pub verdicts: BTreeMap<Kind, usize>,
    /// How many verdicts were unexpected by its own reports, merged or not.
    pub unexpected: usize,
    /// Doubts that its reports have about their measurement, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Fleet {
    /// Whether a machine that sent something was not compared, or a document was not read. A file that is no document of
    /// this program may lie beside the reports.
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
                .any(|machine| machine.left_out.is_some())
    }

    /// Parses a document.
    ///
    /// # Errors
    /// It does not fit the type, or it says twice what a question is called, what a group has in common, or what a group
    /// shows of a question: each reader would take another of the two for the one.
    pub fn parse(text: &[u8]) -> serde_json::Result<Fleet> {
        let fleet: Fleet = serde_json::from_slice(text)?;
        let twice = if has_twice(
            fleet
                .questions
                .iter()
                .map(|question| (&question.name, question.is_row)),
        ) {
            "two questions have one name"
        } else if has_twice(fleet.groups.iter().map(|group| &group.key)) {
            "two groups have the same in common"
        } else if fleet
            .groups
            .iter()
            .any(|group| has_twice(group.usual.iter().map(|usual| usual.question)))
        {
            "a group shows a question twice"
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
    /// Whether its reports disagree, or another machine has its name.
    pub fn has_conflict(&self) -> bool {
        self.shared_name.is_some() || !self.conflicts.is_empty()
    }
}

impl Bucket {
    /// Whether what is in it was compared.
    pub fn is_merged(self) -> bool {
        matches!(self, Bucket::Merged | Bucket::Partial)
    }
}

/// Something that was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The instance of a scenario, a survey and its row (`survey calls: cudaMalloc`), or `machine: driver`. Where two versions of the
    /// program ask a question of one name in other ways, all but the most frequent have what they ask behind it:
    /// `memory/context-cost (asked otherwise: 1a2b3c4d5e6f7788)`.
    pub name: String,
    /// The question in words; empty for rows.
    pub question: String,
    /// The page of the pitfall, relative to the documentation; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Whether it is a row of a survey: it has no verdict, and its outcomes say `reproduced` where it was measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_row: bool,
}

/// What must be equal for machines to be compared.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Key {
    /// The label of `--group-by` and its value; absent without the option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether the machines themselves are compared, such as the number of their GPUs, and not their answers. What
    /// follows is empty then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_facts: bool,
    /// The GPU models, each with how many there are: `2x NVIDIA H200`.
    pub gpus: String,
    /// The driver; empty if it could not be read.
    pub driver: String,
    /// The libcudart of the questions; empty for those that need none.
    pub libcudart: String,
    /// Whether a GPU is in MIG mode.
    pub mig: bool,
    /// Whether processes of others were on the GPUs.
    pub shared: bool,
}

/// Machines that can be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// What they have in common.
    pub key: Key,
    /// Places in [`Fleet::machines`].
    pub machines: Vec<usize>,
    /// What they usually show, by question.
    pub usual: Vec<Usual>,
}

/// What a group shows of one question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usual {
    /// Place in [`Fleet::questions`].
    pub question: usize,
    /// The distinct outcomes, the most frequent first. It is usual if more than half of those with an answer show it.
    /// None where no member has an answer.
    pub outcomes: Vec<GroupOutcome>,
    /// Bytes by case and GPU, `trap/gpu0` (of rows the GPU alone): what the members of the usual outcome used, without
    /// those that differ in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used_bytes: BTreeMap<String, ByteSpread>,
    /// Machines that were asked and gave no answer, as places in [`Fleet::machines`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_answer: Vec<usize>,
    /// Machines of the group whose reports do not ask it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_asked: Vec<usize>,
    /// Machines of which the own report says that the verdict is unexpected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unexpected: Vec<usize>,
}

/// One outcome, and how many machines showed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Outcome")]
pub struct GroupOutcome {
    /// The verdict.
    pub kind: Kind,
    /// What each case showed, step by step.
    pub facts: Vec<CaseChange>,
    /// How many machines.
    pub machines: usize,
}

/// Figures of several machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Spread")]
pub struct ByteSpread {
    /// How many machines.
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

/// One way in which machines of a group differ from the others in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Place in [`Fleet::groups`].
    pub group: usize,
    /// Place in [`Fleet::questions`].
    pub question: usize,
    /// The machines that differ, as places in [`Fleet::machines`].
    pub machines: Vec<usize>,
    /// How many members of the group show the usual outcome; of bytes, how many use what is usual; of machines without
    /// an answer, how many have one.
    pub usual_machines: usize,
    /// Whether no outcome has a majority. What is called usual is only the most frequent one then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_split: bool,
    /// In what.
    pub what: What,
}

/// In what machines differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum What {
    /// Another outcome.
    Outcome {
        /// Place in [`Usual::outcomes`]; the usual one is 0.
        outcome: usize,
        /// Whether its verdict is another, and not only facts beside it.
        verdict_differs: bool,
        /// The facts that differ.
        facts: Vec<FactDiffers>,
    },
    /// The same outcome with other figures.
    Bytes {
        /// The case and GPU, `trap/gpu0`.
        figure: String,
        /// What the usual members used, without those that differ.
        usual: ByteSpread,
        /// What those that differ used.
        these: ByteSpread,
    },
    /// No answer, where others of the group have one.
    NoAnswer {
        /// The reasons that their reports give, each with how often.
        reasons: BTreeMap<String, usize>,
    },
}

/// Machines that differ in the same things, or on which CUDA does not start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outliers {
    /// Whether CUDA does not start on them; they have no differences then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_cuda: bool,
    /// Places in [`Fleet::machines`].
    pub machines: Vec<usize>,
    /// Places in [`Fleet::differences`], the most important first. A place may be of some of the machines only: those of
    /// two groups, or those that differ in the same thing by another value.
    pub differences: Vec<usize>,
    /// Labels, `rack=3`, that all of these machines have and no other machine of the fleet has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}
