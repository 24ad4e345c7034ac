//! A question of a survey: a scenario made from a recipe.

use std::collections::BTreeMap;

use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::experiment::Step;
use cuda_pitfalls_core::fact::{ExitCheck, FactSet};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::observe::Scene;
use cuda_pitfalls_core::report::ScenarioReport;
use cuda_pitfalls_core::scenario::{Case, Check, Gpus, Instance, Needs, Python, Scenario};
use cuda_pitfalls_core::verdict::Provenance;

/// The longest that one step of a survey may take, in milliseconds: the slowest start of a driver takes a few seconds,
/// and a call that hangs does so in every attempt.
const STEP_TIMEOUT_MS: u64 = 10_000;

/// One question of a survey.
#[derive(Clone, Debug, PartialEq)]
pub struct SurveyQuestion {
    /// The subject of the question, unique in the survey: a call, a mask, a variable. The key of a row is this and,
    /// if the question is asked for each libcudart, its version.
    pub key: String,
    /// Names of groups with which it can be selected.
    pub sets: Vec<String>,
    /// Whether it is asked for each libcudart.
    pub of_libcudart: bool,
    /// The scenario.
    pub scenario: Scenario,
}

/// A question, and how to make a row from its results.
pub struct Item<R> {
    /// The question.
    pub question: SurveyQuestion,
    /// The number of attempts, if it differs from that of the survey.
    pub repeat: Option<u32>,
    /// Reduces the results to a row.
    pub reduce: Box<dyn Fn(&SurveyAnswer<'_>) -> R>,
}

/// The results from which a row is made.
#[derive(Clone, Copy, Debug)]
pub struct SurveyAnswer<'a> {
    /// The results of the scenario.
    pub report: &'a ScenarioReport,
    /// The machine's GPUs and calibrations.
    pub scene: &'a Scene<'a>,
    /// The machine, for conditions.
    pub machine: &'a Machine,
    /// Who answered the calls.
    pub provenance: Provenance,
}

/// The content of a question's scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    /// The scenario's name, such as `survey-calls/cudaMalloc`.
    pub(super) name: String,
    /// The question, ending in a question mark.
    pub(super) question: String,
    /// How many GPUs the worker's mask names; `None` for no mask.
    pub(super) gpus: Option<u32>,
    /// The checks of the effect; if empty, that the worker exits normally.
    pub(super) effect: Vec<Check>,
    /// The cases; the first is the `trap`.
    pub(super) cases: Vec<DraftCase>,
}

/// One case of a [`Draft`].
#[derive(Clone, Debug, Default)]
pub(super) struct DraftCase {
    /// `trap`, `control`, …
    pub(super) name: String,
    /// What is special about the case.
    pub(super) does: String,
    /// Environment at exec.
    pub(super) env: BTreeMap<String, String>,
    /// What the case needs of its interpreter, if its steps are Python lines.
    pub(super) python: Option<Python>,
    /// The calls.
    pub(super) steps: Vec<Step>,
}

impl Draft {
    /// The scenario with this content.
    pub(super) fn scenario(self) -> Scenario {
        let gpus = self.gpus.map_or(Gpus::All, Gpus::Masked);
        let case = |DraftCase { name, does, env, python, steps }| Case {
            name,
            does,
            gpus,
            env,
            probes: true,
            python,
            steps,
            expect: Vec::new(),
        };
        let has_control = self.cases.iter().any(|case| case.name == "control");
        let left = FactSet { exit: Some(ExitCheck::Code(0)), ..FactSet::default() };
        let left = Check { facts: left, ..Check::default() };
        let instance = Instance {
            name: self.name.clone(),
            values: BTreeMap::new(),
            cases: self.cases.into_iter().map(case).collect(),
            effect: if self.effect.is_empty() { vec![left] } else { self.effect },
            expect: Vec::new(),
        };
        let no_control = if has_control { "" } else { "a survey asks what is, not what should be" };
        Scenario {
            name: self.name,
            question: self.question,
            why: String::new(),
            belief: String::new(),
            answer: String::new(),
            workaround: String::new(),
            no_control: no_control.to_string(),
            twin: None,
            tags: Vec::new(),
            symptoms: Vec::new(),
            says: Vec::new(),
            sources: Vec::new(),
            needs: Needs { gpus: self.gpus.unwrap_or(1), ..Needs::default() },
            hazards: Vec::new(),
            repeat: defaults::REPEAT,
            step_timeout_ms: STEP_TIMEOUT_MS,
            timeout_ms: defaults::TIMEOUT_S * 1000,
            nondeterministic: false,
            parameters: Vec::new(),
            instances: vec![instance],
            sha256: String::new(),
        }
    }
}
