//! A question of a survey: a scenario that a recipe makes.

use std::collections::BTreeMap;

use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::experiment::Step;
use cuda_pitfalls_core::fact::{ExitCheck, FactSet};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::observe::Scene;
use cuda_pitfalls_core::report::ScenarioReport;
use cuda_pitfalls_core::scenario::{Case, Check, Gpus, Instance, Needs, Scenario};
use cuda_pitfalls_core::verdict::Provenance;

/// The most that one step of a survey may take: the slowest start of a driver takes a few seconds,
/// and a call that hangs is met in every attempt.
const STEP_TIMEOUT_MS: u64 = 10_000;

/// One question of a survey.
#[derive(Clone, Debug, PartialEq)]
pub struct SurveyQuestion {
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
    pub question: SurveyQuestion,
    /// Attempts, where they are other than those of the survey.
    pub repeat: Option<u32>,
    /// Reduces what was seen to a row.
    pub reduce: Box<dyn Fn(&SurveyAnswer<'_>) -> R>,
}

/// Everything that a row is made of.
#[derive(Clone, Copy, Debug)]
pub struct SurveyAnswer<'a> {
    /// What happened.
    pub report: &'a ScenarioReport,
    /// What is known about the machine's GPUs.
    pub scene: &'a Scene<'a>,
    /// What conditions can ask about.
    pub machine: &'a Machine,
    /// Who answered.
    pub provenance: Provenance,
}

/// What a question asks, before it is a scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    /// The scenario's name, such as `survey-calls/cudaMalloc`.
    pub(super) name: String,
    /// The question, ending in a question mark.
    pub(super) question: String,
    /// How many GPUs the worker's mask names; no mask if none is given.
    pub(super) gpus: Option<u32>,
    /// The checks that make the effect; only that the worker left in good order if there are none.
    pub(super) effect: Vec<Check>,
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
    pub(super) steps: Vec<Step>,
}

impl Draft {
    /// The scenario.
    pub(super) fn scenario(self) -> Scenario {
        let gpus = self.gpus.map_or(Gpus::All, Gpus::Masked);
        let case = |DraftCase { name, does, env, steps }| Case {
            name,
            does,
            gpus,
            env,
            probes: true,
            python: None,
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
            folklore: String::new(),
            answer: String::new(),
            remedy: String::new(),
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
