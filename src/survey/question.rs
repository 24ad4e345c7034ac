//! A question of a survey: a scenario, written by a recipe.
//!
//! The recipe is put into words as a scenario file and read by the reader of such files, so that a
//! survey can ask nothing that a scenario could not, and a mistake in a recipe is told like any.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::catalogue::{Invalid, kernel_names};
use crate::machine::Machine;
use crate::observe::Scene;
use crate::report::ScenarioReport;
use crate::scenario::{self, Scenario};
use crate::verdict::Provenance;

/// The most that one step of a survey may take: the slowest start of a driver takes a few seconds,
/// and a call that hangs is met in every attempt.
const STEP_TIMEOUT: &str = "10s";

/// One question of a survey.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What the question is about, unique in the survey: a call, a mask, a variable. A row's key
    /// is this, and the version of libcudart where it is asked of each.
    pub key: String,
    /// Names by which it can be selected together with others.
    pub sets: Vec<String>,
    /// Whether it is asked once for each libcudart.
    pub of_libcudart: bool,
    /// What is asked.
    pub scenario: Scenario,
}

/// A question, and what makes a row of what it showed.
pub struct Item<R> {
    /// What is asked.
    pub question: Question,
    /// Attempts, where they are other than those of the survey.
    pub repeat: Option<u32>,
    /// Reduces what was seen to a row.
    pub reduce: Box<dyn Fn(&Answered<'_>) -> R>,
}

/// Everything that a row is made of.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// What happened.
    pub report: &'a ScenarioReport,
    /// What is known about the machine's GPUs.
    pub scene: &'a Scene<'a>,
    /// What conditions can ask about.
    pub machine: &'a Machine,
    /// Who answered.
    pub provenance: Provenance,
}

/// A scenario to be written. Steps and checks are as in a scenario file.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    /// The scenario's name, such as `survey-calls/cudaMalloc`.
    pub(super) name: String,
    /// The question, ending in a question mark.
    pub(super) question: String,
    /// How many GPUs the worker's mask names; no mask if none is given.
    pub(super) gpus: Option<u32>,
    /// The checks that make the effect; only that the worker left in good order if there are none.
    pub(super) effect: Vec<Value>,
    /// The cases; the first is the `trap`.
    pub(super) cases: Vec<DraftCase>,
}

/// One case of a [`Draft`].
#[derive(Clone, Debug, Default)]
pub(super) struct DraftCase {
    /// `trap`, `control`, …
    pub(super) name: String,
    /// What is special about it.
    pub(super) does: String,
    /// Environment at exec.
    pub(super) env: BTreeMap<String, String>,
    /// The calls.
    pub(super) steps: Vec<Value>,
}

impl Draft {
    /// The scenario.
    ///
    /// # Errors
    /// What is wrong with the recipe, with the text that was made of it.
    pub(super) fn write(self) -> Result<Scenario, Invalid> {
        let (name, path) = (self.name.clone(), format!("{}.toml, as written by its survey", self.name));
        let source = self.text();
        scenario::load(&name, &path, &source, &kernel_names()).map_err(|diagnostics| Invalid {
            path,
            source,
            diagnostics,
        })
    }

    fn text(self) -> String {
        let effect = if self.effect.is_empty() {
            vec![Value::Table(Table::from_iter([("exit".to_string(), Value::Integer(0))]))]
        } else {
            self.effect
        };
        let mut file = Table::new();
        file.insert("question".into(), self.question.into());
        file.insert("folklore".into(), "Asked by a survey.".into());
        file.insert("effect".into(), Value::Array(effect));
        file.insert("step_timeout".into(), STEP_TIMEOUT.into());
        if !self.cases.iter().any(|case| case.name == "control") {
            file.insert("no_control".into(), "a survey asks what is, not what should be".into());
        }
        match self.gpus {
            None => file.insert("gpus".into(), "all".into()),
            Some(count) => {
                let needs = Table::from_iter([("gpus".to_string(), Value::Integer(count.into()))]);
                file.insert("needs".into(), needs.into())
            }
        };
        let cases = self.cases.into_iter().map(|case| (case.name.clone(), Value::Table(case.table())));
        file.insert("cases".into(), Value::Table(cases.collect()));
        toml::to_string(&file).unwrap_or_default()
    }
}

impl DraftCase {
    fn table(self) -> Table {
        let mut table = Table::new();
        table.insert("does".into(), self.does.into());
        let env = self.env.into_iter().map(|(name, value)| (name, Value::String(value)));
        table.insert("env".into(), Value::Table(env.collect()));
        table.insert("steps".into(), Value::Array(self.steps));
        table
    }
}

/// A step of one call with arguments, as a scenario file has it.
pub(super) fn step<const N: usize>(call: &str, arguments: [(&str, &str); N], label: Option<&str>) -> Value {
    let arguments = arguments.into_iter().map(|(name, value)| (name.to_string(), Value::String(value.to_string())));
    let mut step = Table::from_iter([(call.to_string(), Value::Table(arguments.collect()))]);
    if let Some(label) = label {
        step.insert("label".into(), label.into());
    }
    Value::Table(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(steps: Vec<Value>) -> Draft {
        let case = DraftCase { name: "trap".into(), does: "it".into(), steps, ..DraftCase::default() };
        let question = "Does it?".into();
        Draft { name: "survey-test/x".into(), question, gpus: Some(1), cases: vec![case], ..Draft::default() }
    }

    #[test]
    fn a_recipe_becomes_a_scenario() {
        let mask = step("setenv", [("name", "CUDA_VISIBLE_DEVICES"), ("value", "")], Some("mask"));
        let scenario = draft(vec![step("cuInit", [], None), mask]).write().unwrap();
        let labels: Vec<&str> = scenario.instances[0].cases[0].steps.iter().map(|step| step.label.as_str()).collect();
        assert_eq!(labels, ["cuInit", "mask"]);
    }

    #[test]
    fn a_mistake_in_a_recipe_is_told_with_the_text() {
        let wrong = draft(vec![step("cuInti", [], None)]).write().unwrap_err();
        let told = wrong.diagnostics[0].render(&wrong.source, false);
        assert!(told.contains("cuInti") && told.contains("cuInit"), "{told}");
    }
}
