//! The content of a scenario file: its keys and their types. The JSON Schema of the format is generated from them.
//!
//! Steps and facts have the keys of tables of the program, so [`super::load`] reads them itself.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::json;
use toml::Spanned;

use super::python::read_requirements;
use super::{Expectation, Hazard, Needs, Range, Scalar, When, symptom};
use crate::defaults;
use crate::source::schema::reference;
use crate::source::tree::{Node, TreeEntry, TreeKey};

/// A scenario file.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "a scenario of cuda-pitfalls", transform = require_control)]
pub(super) struct ScenarioFile {
    /// The question, ending in a question mark.
    #[schemars(with = "String", regex(pattern = r"\?$"))]
    pub question: Spanned<String>,
    /// The common belief.
    pub belief: Sentence,
    /// The measured result, in a sentence or two.
    #[serde(default)]
    pub answer: Sentence,
    /// The workaround: the order or call that works.
    #[serde(default)]
    pub workaround: Sentence,
    /// The scenario for the same question that uses only CUDA calls, such as visibility/mask-after-cuinit.
    #[schemars(with = "Option<String>", regex(pattern = "^[a-z0-9-]+/[a-z0-9-]+$"))]
    pub twin: Option<Spanned<String>>,
    /// Words to select by.
    #[serde(default)]
    #[schemars(with = "Vec<String>", inner(regex(pattern = "^[a-zA-Z0-9_-]+$")))]
    pub tags: Vec<Spanned<String>>,
    /// The symptoms that users see; scenarios/symptoms.toml has the sentences.
    #[serde(default)]
    #[schemars(with = "Vec<String>", extend("uniqueItems" = true, "items" = { "enum": symptom::ids() }))]
    pub symptoms: Vec<Spanned<String>>,
    /// Messages and phrasings that users paste, if no other text of the file has them: `explain` finds the scenario by
    /// them.
    #[serde(default)]
    #[schemars(with = "Vec<String>", inner(length(min = 1, max = 160)), extend("uniqueItems" = true))]
    pub says: Vec<Spanned<String>>,
    /// The sources of the question.
    #[serde(default)]
    pub sources: Vec<Sentence>,
    /// The requirements for the machine.
    #[serde(default = "need_one_gpu", deserialize_with = "NeedsFile::deserialize")]
    #[schemars(with = "NeedsFile")]
    pub needs: Needs,
    /// The GPUs that workers are started with; those of `needs` if absent.
    #[schemars(with = "Option<GpusFile>")]
    pub gpus: Option<Spanned<GpusFile>>,
    /// Dangers to other users of the machine.
    #[serde(default)]
    #[schemars(with = "Vec<String>", extend("items" = { "enum": Hazard::LISTED.map(Hazard::name) }))]
    pub hazards: Vec<Spanned<String>>,
    /// Attempts of each case.
    #[schemars(with = "Option<u32>", range(min = 1, max = 100), extend("default" = defaults::REPEAT))]
    pub repeat: Option<Spanned<u32>>,
    /// Maximum duration of one step, at most 120s.
    #[schemars(with = "Option<String>", regex(pattern = DURATION), extend("default" = seconds(defaults::STEP_TIMEOUT_S)))]
    pub step_timeout: Option<Spanned<String>>,
    /// Maximum duration of one attempt, at most 600s.
    #[schemars(with = "Option<String>", regex(pattern = DURATION), extend("default" = seconds(defaults::TIMEOUT_S)))]
    pub timeout: Option<Spanned<String>>,
    /// `true` if a mixture of outcomes is an answer.
    #[serde(default)]
    pub nondeterministic: bool,
    /// The pitfall: it occurs in an attempt if all of these hold.
    #[schemars(with = "Vec<IgnoredValue>", length(min = 1), extend("items" = reference("check")))]
    pub effect: Spanned<Vec<Spanned<CheckFile>>>,
    /// The expected verdicts; the first entry with a matching `when` counts.
    #[serde(default)]
    #[schemars(with = "Vec<Expectation>")]
    pub expect: Vec<Spanned<Expectation>>,
    /// Conditions of every expectation that has no other condition on the same fact.
    #[schemars(with = "Option<When>")]
    pub expect_when: Option<Spanned<When>>,
    /// The reason why a control is impossible.
    #[schemars(with = "Option<Sentence>")]
    pub no_control: Option<Spanned<Sentence>>,
    /// Values to fill in for `${name}`; one instance for each combination.
    #[serde(default, rename = "parameters")]
    #[schemars(
        with = "BTreeMap<String, IgnoredValue>",
        extend(
            "propertyNames" = { "pattern": "^[a-z0-9_]+$" },
            "additionalProperties" = {
                "type": "array", "minItems": 1, "uniqueItems": true, "items": { "type": ["string", "integer"] },
            },
        )
    )]
    _parameters: IgnoredAny,
    /// The ordered lists of calls that are compared.
    #[schemars(
        with = "BTreeMap<String, CaseFile>",
        extend("required" = ["trap"], "maxProperties" = 16, "propertyNames" = { "pattern": "^[a-z0-9_-]+$" })
    )]
    pub cases: BTreeMap<Spanned<String>, CaseFile>,
}

impl ScenarioFile {
    /// Returns the cases in the order of the file.
    pub(super) fn cases_in_order(&self) -> Vec<(&Spanned<String>, &CaseFile)> {
        let mut cases: Vec<_> = self.cases.iter().collect();
        cases.sort_by_key(|(name, _)| name.span().start);
        cases
    }
}

const DURATION: &str = "^[0-9]+ *(ms|s|m)$";

fn seconds(seconds: u64) -> String {
    format!("{seconds}s")
}

/// Requires either a control, or the reason why a control is impossible.
fn require_control(schema: &mut Schema) {
    let control = json!({ "properties": { "cases": { "required": ["control"] } } });
    let forms = json!([control, { "required": ["no_control"] }]);
    schema.insert("oneOf".to_string(), forms);
}

/// A text that is not empty.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(!try_from, inline)]
pub(super) struct Sentence(#[schemars(length(min = 1))] pub(super) String);

/// The text has no words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is empty")]
pub(super) struct EmptyText;

impl TryFrom<String> for Sentence {
    type Error = EmptyText;

    fn try_from(text: String) -> Result<Sentence, EmptyText> {
        if text.trim().is_empty() {
            return Err(EmptyText);
        }
        Ok(Sentence(text))
    }
}

/// A value, or a list of values.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a value or a list of values")]
#[schemars(inline)]
pub(super) enum OneOrMore<T> {
    Several(#[schemars(length(min = 1))] Vec<T>),
    One(T),
}

pub(super) fn read_each<'de, D: Deserializer<'de>>(
    file: D,
) -> Result<BTreeMap<String, Vec<Scalar>>, D::Error> {
    let mut read = BTreeMap::new();
    for (name, values) in BTreeMap::<String, OneOrMore<Scalar>>::deserialize(file)? {
        let values = match values {
            OneOrMore::Several(values) => values,
            OneOrMore::One(value) => vec![value],
        };
        if values.is_empty() {
            return Err(D::Error::custom("this list is empty"));
        }
        read.insert(name, values);
    }
    Ok(read)
}

/// [`Needs`] as written in a file.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(remote = "Needs", deny_unknown_fields)]
struct NeedsFile {
    /// Minimum number of GPUs.
    #[serde(default = "one_gpu", deserialize_with = "read_gpu_count")]
    #[schemars(range(max = 64))]
    gpus: u32,
    /// A range for the driver's version, such as `>= 525`.
    driver: Option<Range>,
    /// A range for libcudart's version, such as `>= 12.0`.
    libcudart: Option<Range>,
    /// A range for the compute capability of the GPUs used, such as `>= 9.0`.
    compute_capability: Option<Range>,
    /// `true` if the worker must be root.
    #[serde(default)]
    root: bool,
    /// `true` if the GPUs must be able to address each other's memory.
    #[serde(default)]
    peer_access: bool,
}

fn one_gpu() -> u32 {
    1
}

fn need_one_gpu() -> Needs {
    Needs {
        gpus: 1,
        ..Needs::default()
    }
}

/// Reads a number of GPUs, up to the maximum that a file can use: `gpu0` to `gpu63`.
fn read_gpu_count<'de, D: Deserializer<'de>>(file: D) -> Result<u32, D::Error> {
    let count = u32::deserialize(file)?;
    if count > 64 {
        return Err(D::Error::custom(format!("{count} is not in 0 to 64")));
    }
    Ok(count)
}

/// `"all"`, or the number of GPUs in the mask.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected an integer or `\"all\"`")]
#[schemars(transform = allow_parameter)]
pub enum GpusFile {
    /// A mask of this many GPUs.
    Masked(#[schemars(range(max = 64))] u32),
    /// No mask.
    Unmasked(AllGpus),
}

/// The word for a worker without a mask.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum AllGpus {
    /// The process sees every GPU.
    All,
}

fn allow_parameter(schema: &mut Schema) {
    if let Some(serde_json::Value::Array(forms)) = schema.get_mut("anyOf") {
        forms.push(reference("parameter"));
    }
}

/// A part that is described elsewhere.
type IgnoredValue = serde_json::Value;

/// One case.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "case")]
pub(super) struct CaseFile {
    /// The special feature of this order, in a few words.
    pub does: Sentence,
    /// The GPUs that the worker is started with, if they differ from the rest of the file.
    #[schemars(with = "Option<GpusFile>")]
    pub gpus: Option<Spanned<GpusFile>>,
    /// Environment at exec.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>", extend("propertyNames" = reference("variable")))]
    pub env: BTreeMap<Spanned<String>, Spanned<String>>,
    /// `true` if the worker runs probes after each step.
    #[serde(default = "run_probes")]
    pub probes: bool,
    /// The requirements of the case, if its steps are Python lines.
    pub python: Option<PythonFile>,
    /// Facts that every attempt of this case must show.
    #[serde(default)]
    #[schemars(with = "Vec<IgnoredValue>", extend("items" = reference("check")))]
    pub expect: Vec<Spanned<CheckFile>>,
    /// The calls, in order.
    #[schemars(with = "Vec<IgnoredValue>", length(min = 1, max = 256), extend("items" = reference("step")))]
    pub steps: Spanned<Vec<Node>>,
}

/// [`crate::python::Python`] as written in a file.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct PythonFile {
    /// Packages with their accepted versions, such as `torch >= 2.0` or `cupy-cuda12x | cupy`.
    #[serde(default, deserialize_with = "read_requirements")]
    #[schemars(inner(regex(pattern = "^[a-zA-Z0-9]")))]
    pub needs: Vec<String>,
}

fn run_probes() -> bool {
    true
}

/// A check. Its facts have the keys of [`crate::fact::KINDS`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckFile {
    pub(super) at: Option<Spanned<String>>,
    pub(super) exit: Option<Node>,
    pub(super) when: Option<Spanned<When>>,
    pub(super) because: Sentence,
    pub(super) evidence: Sentence,
    pub(super) facts: Vec<TreeEntry>,
}

impl<'de> Deserialize<'de> for CheckFile {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<CheckFile, D::Error> {
        file.deserialize_map(CheckVisitor)
    }
}

struct CheckVisitor;

impl<'de> Visitor<'de> for CheckVisitor {
    type Value = CheckFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<CheckFile, A::Error> {
        let mut check = CheckFile::default();
        while let Some(key) = table.next_key::<Spanned<String>>()? {
            match key.get_ref().as_str() {
                "at" => check.at = Some(table.next_value()?),
                "exit" => check.exit = Some(table.next_value()?),
                "when" => check.when = Some(table.next_value()?),
                "because" => check.because = table.next_value()?,
                "evidence" => check.evidence = table.next_value()?,
                _ => {
                    let place = key.span();
                    let key = TreeKey {
                        text: key.into_inner(),
                        place,
                    };
                    let value = table.next_value()?;
                    check.facts.push(TreeEntry { key, value });
                }
            }
        }
        Ok(check)
    }
}
