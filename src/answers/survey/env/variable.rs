//! The variables to test. `scenarios/surveys/env.toml` is parsed strictly.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{EnvRow, Moment};
use crate::survey::list::read_list;
use crate::survey::question::{Item, scenario};
use crate::survey::row::LeftOut;
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::experiment::Step;
use cuda_pitfalls_core::scenario::{Case, Check, CheckFile, Gpus, GpusFile};
use cuda_pitfalls_core::source::tree::Node;

const PATH: &str = "scenarios/surveys/env.toml";

/// The case that sets the variable at exec.
pub(super) const AT_EXEC: &str = "trap";
/// The case that never sets it.
pub(super) const NEVER: &str = "control";
/// The label of the step that sets the variable.
const SET: &str = "set-the-variable";

/// A documented variable, and the proof that it had an effect.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvVariable {
    /// The variable.
    pub name: String,
    /// The value to set.
    pub value: String,
    /// The documented meaning, in a sentence.
    pub about: String,
    /// The proof that the variable had an effect, in a sentence.
    pub observable: String,
    /// The page that documents the variable.
    pub source: String,
    /// Environment at exec in every case.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Number of GPUs visible to the worker.
    #[serde(default = "one_gpu", deserialize_with = "gpus")]
    pub gpus: Gpus,
    /// The calls in the form of the file.
    #[serde(rename = "steps")]
    step_tables: Spanned<Vec<Node>>,
    /// The checks in the form of the file.
    #[serde(rename = "effect")]
    effect_tables: Vec<Spanned<CheckFile>>,
    #[serde(skip)]
    steps: Vec<Step>,
    /// Checks that hold if the variable had an effect, and fail if it is not set.
    #[serde(skip)]
    effect: Vec<Check>,
    /// Moments when the variable is set, earliest first.
    pub moments: Vec<Moment>,
}

/// Returns the name of the case that sets the variable right before a step.
pub(super) fn case_before(step: &str) -> String {
    format!("before-{step}")
}

fn one_gpu() -> Gpus {
    Gpus::Masked(1)
}

fn gpus<'de, D: Deserializer<'de>>(file: D) -> Result<Gpus, D::Error> {
    match GpusFile::deserialize(file)? {
        GpusFile::Masked(count) => Ok(Gpus::Masked(count)),
        GpusFile::Unmasked(_) => Ok(Gpus::All),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VariablesFile {
    variable: Vec<Spanned<EnvVariable>>,
    #[serde(default)]
    left_out: Vec<LeftOut>,
}

/// Returns the variables to test, in the order of the list.
///
/// # Errors
/// Returns the errors of the list, with their places.
pub fn variables() -> Result<Vec<EnvVariable>, Invalid> {
    variables_and_left_out().map(|(variables, _)| variables)
}

/// Returns the variables to test, and the excluded ones with the reasons.
pub(super) fn variables_and_left_out() -> Result<(Vec<EnvVariable>, Vec<LeftOut>), Invalid> {
    read(cuda_pitfalls_scenarios::survey("env"))
}

pub(super) fn read(source: &str) -> Result<(Vec<EnvVariable>, Vec<LeftOut>), Invalid> {
    read_list(PATH, source, |file: VariablesFile, excerpts| {
        let mut variables: Vec<EnvVariable> = Vec::new();
        for written in file.variable {
            let (span, mut variable) = (written.span(), written.into_inner());
            excerpts.environment(&variable.env, &span);
            let own = BTreeMap::from([(variable.name.clone(), variable.value.clone())]);
            excerpts.environment(&own, &span);
            (variable.steps, variable.effect) =
                excerpts.read_case(&variable.step_tables, &variable.effect_tables);
            if let Some(wrong) = variable.wrong() {
                return Err((span, format!("{}: {wrong}", variable.name)));
            }
            let known = variables
                .iter()
                .map(|known| &known.name)
                .chain(file.left_out.iter().map(|left| &left.name));
            if known.into_iter().any(|known| *known == variable.name) {
                return Err((span, format!("{} occurs twice", variable.name)));
            }
            variables.push(variable);
        }
        Ok((variables, file.left_out))
    })
}

impl EnvVariable {
    /// Returns an error that the reader of scenarios cannot find.
    fn wrong(&self) -> Option<String> {
        if self.moments.is_empty() {
            return Some("`moments` is empty, and nothing could be determined".to_string());
        }
        let mut from = 0;
        for Moment { before, .. } in &self.moments {
            match self.index_of(before) {
                None => return Some(format!("no step has the label `{before}`")),
                Some(index) if index < from => {
                    return Some(format!("`{before}` comes too late among the moments"));
                }
                Some(index) => from = index + 1,
            }
        }
        self.env
            .contains_key(&self.name)
            .then(|| "`env` must not hold the variable itself".to_string())
    }

    fn index_of(&self, label: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.label == label)
    }

    /// Returns the question: the same calls with the variable at exec, set at each moment, and never.
    pub(super) fn into_item(self) -> Item {
        let set = Step::call("setenv", SET)
            .with("name", self.name.as_str())
            .with("value", self.value.as_str());
        let case = |name: &str, does: &str, set_before: Option<usize>| {
            let mut steps = self.steps.clone();
            if let Some(index) = set_before {
                steps.insert(index, set.clone());
            }
            let env = self.env.clone();
            Case {
                name: name.to_string(),
                does: does.to_string(),
                env,
                steps,
                probes: true,
                ..Case::default()
            }
        };
        let mut at_exec = case(AT_EXEC, "set at exec", None);
        at_exec.env.insert(self.name.clone(), self.value.clone());
        let mut cases = vec![at_exec];
        cases.extend(self.moments.iter().map(|Moment { before, .. }| {
            case(
                &case_before(before),
                &format!("set before {before}"),
                self.index_of(before),
            )
        }));
        cases.push(case(NEVER, "never set", None));
        let (name, question) = (
            format!("survey-env/{}", self.name),
            format!("When is {} read?", self.name),
        );
        let gpus = match self.gpus {
            Gpus::Masked(count) => Some(count),
            Gpus::All => None,
        };
        let EnvVariable {
            name: variable,
            value,
            observable,
            moments,
            ..
        } = self;
        let row = EnvRow {
            variable,
            value,
            observable,
            moments,
            ..EnvRow::default()
        };
        Item::new(
            row,
            scenario(name, question, gpus, self.effect, cases),
            EnvRow::with,
        )
    }
}
