//! A question of a survey: a scenario made from a recipe.

use super::python::LineQuestions;
use super::row::{KindRow, LeftOut, SurveyRow};
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::event::Status;
use cuda_pitfalls_core::fact::{ExitCheck, FactSet};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::observe::{Observation, Scene, observe_attempt};
use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::recording::Recording;
use cuda_pitfalls_core::report::ScenarioReport;
use cuda_pitfalls_core::scenario::{Case, Check, Gpus, Instance, Needs, Scenario};
use cuda_pitfalls_core::verdict::Provenance;

/// Maximum duration of one step of a survey, in milliseconds: the slowest start of a driver takes a few seconds, and a
/// call that hangs does so in every attempt.
const STEP_TIMEOUT_MS: u64 = 10_000;

/// Name of the case of a question that has only one.
pub(super) const TRAP: &str = "trap";

/// Inputs for the questions of a survey.
pub struct SurveyRequest<'a> {
    /// The UUIDs of the machine's GPUs, in NVML order.
    pub uuids: &'a [String],
    /// Number of GPUs visible to a worker of `survey calls`.
    pub visible_gpus: u32,
    /// The seed of generated questions.
    pub seed: u64,
    /// Number of masks to generate, in addition to the listed ones.
    pub generate: usize,
    /// Attempts of each generated mask.
    pub repeat_generated: u32,
    /// Returns the functions that libcuda and the libcudarts export. It takes a while.
    pub exported: &'a dyn Fn() -> Vec<String>,
}

/// The questions of a survey, and the order in which they run.
pub enum SurveyQuestions {
    /// Questions that run once, independent of the results of the others; and the excluded items.
    Listed(Vec<Item>, Vec<LeftOut>),
    /// Questions in stages, where each stage follows from the rows before; and the excluded items.
    Staged(Vec<LeftOut>),
    /// Python lines, each in a traced program.
    Lines(LineQuestions),
}

/// A question of a survey.
pub struct Item {
    /// The row of the question, without results. Its key is the key of the result without the version of libcudart.
    pub row: SurveyRow,
    /// Names of groups that select the question.
    pub sets: Vec<String>,
    /// `true` if the question runs on each libcudart.
    pub of_libcudart: bool,
    /// The scenario.
    pub scenario: Scenario,
    /// Number of attempts, if it differs from the survey's.
    pub repeat: Option<u32>,
    /// Returns the row with these results.
    pub reduce: Box<dyn Fn(&SurveyAnswer<'_>) -> SurveyRow>,
}

impl Item {
    /// Returns a question that runs on a single libcudart, with the number of attempts of the survey.
    pub(super) fn new<R: KindRow>(
        row: R,
        scenario: Scenario,
        reduce: fn(R, &SurveyAnswer<'_>) -> R,
    ) -> Item {
        Item {
            row: SurveyRow::new(&row),
            sets: Vec::new(),
            of_libcudart: false,
            scenario,
            repeat: None,
            reduce: Box::new(move |answered| SurveyRow::new(&reduce(row.clone(), answered))),
        }
    }
}

/// Results that a row is made from.
#[derive(Clone, Copy, Debug)]
pub struct SurveyAnswer<'a> {
    /// The results of the scenario.
    pub report: &'a ScenarioReport,
    /// The machine's GPUs and calibrations.
    pub scene: &'a Scene<'a>,
    /// The machine, for conditions.
    pub machine: &'a Machine,
    /// Source of the answers: a real driver or the simulated machine.
    pub provenance: Provenance,
}

impl<'a> SurveyAnswer<'a> {
    /// Returns the plan of a case, and the recordings of its attempts that count; `None` if it was not planned or did
    /// not run.
    pub(super) fn case_recordings(&self, case: &str) -> Option<(&'a CasePlan, Vec<&'a Recording>)> {
        let planned = self.report.plan.as_ref()?.case(case)?;
        let made = self.report.cases.iter().find(|made| made.name == case)?;
        let counting = made.attempts.iter().filter(|attempt| attempt.is_valid());
        Some((
            planned,
            counting.map(|attempt| &attempt.recording).collect(),
        ))
    }

    /// Returns the observations of the attempts of a case that count.
    pub(super) fn case_observations(&self, case: &str) -> Vec<Observation> {
        let (Some(plan), Some((planned, recordings))) =
            (&self.report.plan, self.case_recordings(case))
        else {
            return Vec::new();
        };
        recordings
            .into_iter()
            .map(|recording| observe_attempt(plan, planned, recording, self.scene))
            .collect()
    }

    pub(super) fn libcudart_version(&self) -> Option<String> {
        self.report.libcudart.as_ref()?.version.clone()
    }
}

/// Returns the C name of a status, or its number if it does not have a name.
pub(super) fn status_name(status: &Status) -> String {
    status
        .name
        .clone()
        .unwrap_or_else(|| status.code.to_string())
}

/// Returns the scenario with these cases. `gpus` is the number of GPUs in the worker's mask; `None` for no mask.
/// Without checks of an effect, the effect is that the worker exits normally.
pub(super) fn scenario(
    name: String,
    question: String,
    gpus: Option<u32>,
    mut effect: Vec<Check>,
    mut cases: Vec<Case>,
) -> Scenario {
    cases
        .iter_mut()
        .for_each(|case| case.gpus = gpus.map_or(Gpus::All, Gpus::Masked));
    if effect.is_empty() {
        let facts = FactSet {
            exit: Some(ExitCheck::Code(0)),
            ..FactSet::default()
        };
        effect.push(Check {
            facts,
            ..Check::default()
        });
    }
    let has_control = cases.iter().any(|case| case.name == "control");
    let no_control = if has_control {
        ""
    } else {
        "a survey has no expected results"
    };
    let instance = Instance {
        name: name.clone(),
        cases,
        effect,
        ..Instance::default()
    };
    Scenario {
        name,
        question,
        no_control: no_control.to_string(),
        needs: Needs {
            gpus: gpus.unwrap_or(1),
            ..Needs::default()
        },
        repeat: defaults::REPEAT,
        step_timeout_ms: STEP_TIMEOUT_MS,
        timeout_ms: defaults::TIMEOUT_S * 1000,
        instances: vec![instance],
        ..Scenario::default()
    }
}
