//! The plan of a run on a machine: a value to print before anything is started.

use serde::Serialize;

use crate::exit::Exit;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::plan::estimate::{self, Pace};
use cuda_pitfalls_core::plan::{Options, Unmet, resolve_plan};
use cuda_pitfalls_core::report::Requirement;
use cuda_pitfalls_core::scenario::{Instance, Scenario, Step};
use cuda_pitfalls_core::verdict::{Provenance, Reason};

/// A complete run that was not started.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Preview {
    /// Always `true`: marks this document as a preview, not as a report.
    pub dry_run: bool,
    /// Source of the answers: a real driver or the simulated machine.
    pub provenance: Provenance,
    /// `cuda` or `sim:<machine>`.
    pub on: String,
    /// Number of GPUs of the machine.
    pub gpus: usize,
    /// Instances that would run, in the order of the selection.
    pub would_run: Vec<WouldRun>,
    /// Instances that cannot run on this machine.
    pub not_applicable: Vec<NotApplicable>,
    /// Number of attempts in total.
    pub attempts: u64,
    /// Expected duration in total, calibration included, in milliseconds.
    pub expected_ms: u64,
    /// Requirements on the machine, and whether they are met; answers are unknown before a run.
    pub require: Vec<Requirement>,
    /// Reason given for accepting that something selected by name does not apply.
    pub allow_skip: Option<String>,
}

/// An instance that would run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WouldRun {
    /// The instance.
    pub name: String,
    /// The question.
    pub question: String,
    /// Version of the libcudart that the instance would run on.
    pub libcudart_version: Option<String>,
    /// The cases.
    pub cases: Vec<String>,
    /// Attempts of each case.
    pub repeat: u32,
    /// Expected duration, in milliseconds.
    pub expected_ms: u64,
    /// Python code that the cases would run, in order; absent for C calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub python: Vec<WouldRunPython>,
}

/// Python code of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WouldRunPython {
    /// The case.
    pub case: String,
    /// Steps that would run, in order.
    pub steps: Vec<Step>,
}

/// An instance that cannot run on this machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotApplicable {
    /// The instance.
    pub name: String,
    /// The question.
    pub question: String,
    /// Reason, from the fixed list of reasons.
    pub reason: Reason,
    /// Description of what is missing, with numbers.
    pub detail: String,
    /// Short description of the unmet need.
    pub lacks: String,
    /// `true` if the instance was selected by its exact name.
    pub asked_by_name: bool,
}

impl Preview {
    /// Returns an empty preview.
    pub fn new(on: &str, machine: &Machine, provenance: Provenance) -> Preview {
        Preview {
            dry_run: true,
            provenance,
            on: on.to_string(),
            gpus: machine.gpus.len(),
            ..Preview::default()
        }
    }

    /// Adds instances as they would run with these options. Each comes with a flag that is `true` if it was selected by
    /// its exact name.
    pub fn add_instances<'a>(
        &mut self,
        instances: impl IntoIterator<Item = (&'a Scenario, &'a Instance, bool)>,
        machine: &Machine,
        options: &Options,
    ) {
        let pace = self.expected_pace();
        if self.expected_ms == 0 {
            self.expected_ms = whole_milliseconds(estimate::run([], self.gpus, pace));
        }
        for (scenario, instance, asked_by_name) in instances {
            let (name, question) = (instance.name.clone(), scenario.question.clone());
            match resolve_plan(scenario, instance, machine, options) {
                Ok(plan) => {
                    let expected_ms = whole_milliseconds(estimate::plan(&plan, self.gpus, pace));
                    self.attempts += u64::from(plan.repeat) * plan.cases.len() as u64;
                    self.expected_ms += expected_ms;
                    let lines = plan.cases.iter().filter(|case| case.python.is_some());
                    let python = lines.map(|case| WouldRunPython {
                        case: case.name.clone(),
                        steps: case.steps.clone(),
                    });
                    let python = python.collect();
                    let runtime = if scenario.has_python_lines() {
                        None
                    } else {
                        options.libcudart.as_ref()
                    };
                    self.would_run.push(WouldRun {
                        name,
                        question,
                        libcudart_version: runtime.and_then(|one| one.version.clone()),
                        cases: plan.cases.into_iter().map(|case| case.name).collect(),
                        repeat: plan.repeat,
                        expected_ms,
                        python,
                    });
                }
                Err(Unmet {
                    reason,
                    detail,
                    lacks,
                }) => {
                    self.not_applicable.push(NotApplicable {
                        name,
                        question,
                        reason,
                        detail,
                        lacks,
                        asked_by_name,
                    });
                }
            }
        }
    }

    fn expected_pace(&self) -> Pace {
        match self.provenance {
            Provenance::Measured => Pace::default(),
            Provenance::Simulated => Pace::SIMULATED,
        }
    }

    /// Returns the exit code of the run if every answer is as expected.
    pub fn exit(&self) -> Exit {
        let is_missed = self
            .not_applicable
            .iter()
            .any(|one| one.asked_by_name && !one.reason.is_no_gpu());
        if self.allow_skip.is_none() && is_missed {
            Exit::Skipped
        } else if self.would_run.is_empty() || self.require.iter().any(Requirement::is_unmet) {
            Exit::NothingMeasured
        } else {
            Exit::Ok
        }
    }
}

fn whole_milliseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
