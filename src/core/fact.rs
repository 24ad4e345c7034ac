//! The facts that a check can test in an attempt. Each kind of fact is one [`FactKind`] with all its code: its parser
//! for scenario files, its JSON Schema, its words in a sentence, its evaluation against an observation, and its column
//! in reports and pages.
//!
//! To add one, write its kind in a file of this directory, give it its field in [`FactSet`] and its name in [`KINDS`].

mod bytes;
mod calls;
mod change;
pub mod changes;
mod contexts;
mod current;
mod exit;
mod gpus;
mod initialised;
mod look;
mod matcher;
mod memory;
mod status;
mod value;
mod visible;
pub mod words;

pub use change::{Change, ChangeSubject, Fact, RowFact, Token};
pub use exit::ExitCheck;
pub(crate) use gpus::gpu_name;
pub use gpus::{GpuList, GpuNames};
pub use look::{Look, Sight, Truth};
pub use matcher::{Matcher, Operand, values_of};

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::observation::Class;
use crate::python::{LINE, LINE_MESSAGE};
use crate::source::reader::Reader;
use crate::source::schema::{GPU, or_parameter, reference};
use crate::source::tree::Node;
use cuda_pitfalls_calls::Call;

/// The facts of a check. A fact that the check does not test is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactSet {
    /// Names of allowed statuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<String>,
    /// Output values by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub value: BTreeMap<String, Matcher>,
    /// The GPUs the process sees, in CUDA order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible: Option<GpuList>,
    /// The visible GPUs whose primary context is active, in any order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<GpuList>,
    /// The GPU of the calling thread's current context, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// `true` if the driver is initialized in the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialised: Option<bool>,
    /// The class of the change in device memory, by GPU; `others` means every GPU that is not named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: BTreeMap<String, Vec<Class>>,
    /// The change in device memory since the baseline, in bytes, by GPU (NVML v2 `used`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used_bytes: BTreeMap<String, Matcher>,
    /// The change in device memory since the step before, in bytes, by GPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grown_bytes: BTreeMap<String, Matcher>,
    /// The largest change seen between the step before and this one, by GPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peak_bytes: BTreeMap<String, Matcher>,
    /// Memory that NVML reports for the worker itself, in bytes, by GPU; needs PIDs that can be matched.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub process_bytes: BTreeMap<String, Matcher>,
    /// Driver calls that the process of a Python line made in the step, by name; 0 for a call that it did not make.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, Matcher>,
    /// The end of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitCheck>,
}

/// Every kind of fact about a step, in the order in which reports show them.
pub static KINDS: [FactKind; 12] = [
    status::STATUS,
    value::VALUE,
    visible::VISIBLE,
    contexts::CONTEXTS,
    current::CURRENT,
    initialised::INITIALISED,
    calls::CALLS,
    memory::MEMORY,
    bytes::USED_BYTES,
    bytes::GROWN_BYTES,
    bytes::PEAK_BYTES,
    bytes::PROCESS_BYTES,
];

/// A kind of fact about a step, with everything that the program knows about it.
pub struct FactKind {
    /// The key of the fact in files.
    pub key: &'static str,
    pub(crate) read: fn(&mut FactSet, &mut CheckReader<'_, '_>, &Node),
    pub(crate) schema: fn() -> Value,
    /// The matchers of the fact. The plan fills in `${gpus}` and `${gpu0}` in them.
    pub(crate) matchers: fn(&mut FactSet) -> Vec<&mut Matcher>,
    /// The requirements of a check, as clauses of a sentence; empty if the check does not test this fact.
    pub(crate) sentences: fn(&FactSet) -> Vec<String>,
    /// Compares the requirements of a check with a step that returned.
    pub(crate) held: fn(&FactSet, &Look<'_>, &GpuNames<'_>) -> Vec<Truth>,
    /// `true` if it can be evaluated only if memory was read during calls.
    pub(crate) needs_polling: bool,
    /// The column of the fact in reports and pages.
    pub told: FactColumn,
    /// The observation after a step; `None` if it could not be observed. The second argument selects one value or one
    /// GPU, if there are several.
    pub seen: fn(&Look<'_>, Option<&str>) -> Option<Sight>,
}

/// The column in reports and pages for the observations of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactColumn {
    /// Next to the call, as its result.
    WithCall,
    /// Next to the change in memory.
    WithMemory,
    /// In its own words, and in its own column.
    Alone {
        /// The heading of the column.
        heading: &'static str,
        /// The prefix of the value in places without a column.
        brief: &'static str,
        /// The tables that show it although no check tests it.
        unasked: Unasked,
    },
}

/// The tables that show a fact although no check tests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// Nowhere.
    Never,
    /// After the last step of a case.
    Last,
    /// After the last step of a case, and on pages.
    Always,
}

impl FactKind {
    /// Returns the kind of fact with this key in files.
    pub fn find(key: &str) -> Option<&'static FactKind> {
        KINDS.iter().find(|kind| kind.key == key)
    }

    /// Returns the kinds that have their own column. `initialised` comes first.
    pub fn kinds_with_column() -> Vec<&'static FactKind> {
        let mut columns: Vec<_> = KINDS
            .iter()
            .filter(|kind| matches!(kind.told, FactColumn::Alone { .. }))
            .collect();
        columns.sort_by_key(|kind| kind.key != initialised::INITIALISED.key);
        columns
    }

    /// Returns `true` if a check tests this kind of fact.
    pub fn is_asked(&self, facts: &FactSet) -> bool {
        !(self.sentences)(facts).is_empty()
    }
}

impl FactSet {
    /// Returns the requirements for the step, as clauses of a sentence.
    pub fn sentences(&self) -> Vec<String> {
        KINDS
            .iter()
            .flat_map(|kind| (kind.sentences)(self))
            .collect()
    }

    /// Returns `true` if some fact can be evaluated only if memory was read during calls.
    pub(crate) fn needs_polling(&self) -> bool {
        KINDS
            .iter()
            .any(|kind| kind.needs_polling && kind.is_asked(self))
    }

    /// Compares every fact with a step. Without `polled`, facts that need memory readings during calls are left out.
    pub(crate) fn held(&self, look: &Look<'_>, gpus: &GpuNames<'_>, polled: bool) -> Vec<Truth> {
        let told = KINDS.iter().filter(|kind| polled || !kind.needs_polling);
        told.flat_map(|kind| (kind.held)(self, look, gpus))
            .collect()
    }

    pub(crate) fn fill_matchers<E>(
        &mut self,
        mut fill: impl FnMut(&mut Matcher) -> Result<(), E>,
    ) -> Result<(), E> {
        KINDS
            .iter()
            .try_for_each(|kind| (kind.matchers)(self).into_iter().try_for_each(&mut fill))
    }
}

type FindStep<'r, 'a> = dyn Fn(&mut Reader<'a>, &str, &Range<usize>) -> Vec<CheckedStep> + 'r;

pub(crate) struct CheckReader<'r, 'a> {
    pub(crate) reader: &'r mut Reader<'a>,
    /// The step in each case, if it is known there.
    pub(crate) rows: &'r [CheckedStep],
    /// Finds another step by its label in each case; reports a label that does not exist.
    pub(crate) find: &'r FindStep<'r, 'a>,
}

/// The properties of a step that a check must know.
#[derive(Clone, Debug)]
pub(crate) enum CheckedStep {
    /// A call of the tables.
    Call(&'static Call),
    /// A Python line, and the name that it gives to its value.
    Line { value: Option<String> },
}

impl CheckedStep {
    fn values(&self) -> Vec<&str> {
        match self {
            CheckedStep::Call(call) => matcher::values_of(call),
            CheckedStep::Line { value } => {
                value.as_deref().into_iter().chain([LINE_MESSAGE]).collect()
            }
        }
    }

    fn name(&self) -> &str {
        match self {
            CheckedStep::Call(call) => call.name,
            CheckedStep::Line { .. } => LINE,
        }
    }
}

pub(crate) fn kind_schemas() -> impl Iterator<Item = (&'static str, Value)> {
    KINDS
        .iter()
        .map(|kind| (kind.key, (kind.schema)()))
        .chain([("exit", exit::schema())])
}

pub(crate) fn schema_definitions() -> [(&'static str, Value); 6] {
    [
        ("status", status::status_schema()),
        (
            "gpu",
            or_parameter(json!([{ "type": "string", "pattern": GPU }])),
        ),
        (
            "gpus",
            or_parameter(
                json!([{ "enum": ["all", "none"] }, { "type": "array", "items": reference("gpu") }]),
            ),
        ),
        (
            "class",
            or_parameter(json!([{ "enum": Class::ALL.map(Class::name) }])),
        ),
        (
            "matcher",
            matcher::schema(json!({ "type": ["integer", "string"] })),
        ),
        ("bytes_matcher", bytes::amount_schema()),
    ]
}

/// A [`FactSet`] with these facts; the others are empty.
#[cfg(test)]
macro_rules! facts {
    ($($key:ident: $stated:expr),+) => {
        $crate::fact::FactSet { $($key: $stated,)+ ..$crate::fact::FactSet::default() }
    };
}
#[cfg(test)]
pub(crate) use facts;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_of_a_check_has_its_kind() {
        let schema = schemars::schema_for!(FactSet);
        let mut fields: Vec<&str> = schema
            .get("properties")
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .map(|key| key.as_str())
            .collect();
        let mut kinds: Vec<&str> = kind_schemas().map(|(key, _)| key).collect();
        fields.sort_unstable();
        kinds.sort_unstable();
        assert_eq!(fields, kinds);
    }
}
