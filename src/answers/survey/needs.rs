//! `survey needs`: what CUDA and NVML need from the operating system, and the effect of each denial.
//!
//! A program of a few calls runs under a filter that denies nothing, which records every file and every system call
//! that it uses. Then it runs again for each of these, denied with one error after the other, at one moment after the
//! other. The row contains what its calls return in that case. Two controls run first: the program without a filter,
//! and with a filter that denies nothing, must behave the same.

mod least;
mod programs;
mod refusals;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use least::{Least, Permissions, least, needed_permissions};
pub use programs::{NeedsMoment, NeedsProgram};
pub use refusals::next;

use super::SurveyKind;
use super::question::{SurveyAnswer, SurveyQuestions, TRAP, status_name};
use super::row::{KindRow, RowAttempts};
use cuda_pitfalls_core::event::{Event, Value};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::recording::{PathUse, Recording};
use cuda_pitfalls_core::text::counts::listed;

/// Results of a program under one denial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NeedRow {
    /// The calls that the program makes.
    pub program: NeedsProgram,
    /// First moment when something is denied.
    pub moment: NeedsMoment,
    /// The path of a file, with `*` for the part that differs between processes and machines, or the name of a system
    /// call.
    ///
    /// - `everything else` stands for everything that makes no difference by itself, each denied with an error that
    ///   makes no difference. ` but ` adds the part of it that is not denied, and ` and ` adds one thing that does make
    ///   a difference.
    /// - `nothing` stands for a filter that denies nothing, and null for a program without a filter.
    pub refused: Option<String>,
    /// Error that the program gets, such as `EPERM`; null if nothing is denied.
    pub error: Option<String>,
    /// `true` if the program used it at all; null if nothing is denied or if attempts disagree. A row where it was not
    /// used is not a result.
    pub met: Option<bool>,
    /// Status that each call returned, in the order of the calls; null if attempts disagree.
    pub statuses: Option<Vec<ReturnedStatus>>,
    /// The GPUs that the program sees, by CUDA or NVML ordinal, as NVML indices of this machine; null if attempts
    /// disagree.
    pub gpus: Option<Vec<u32>>,
    /// End of the program, if it did not exit by itself; null if it did, or if attempts disagree.
    pub died: Option<Death>,
    /// Files and system calls that each call of the program used; only if the filter denies nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<SystemUse>,
    /// Number of attempts that count, and the reasons why the others do not.
    #[serde(flatten)]
    pub standing: RowAttempts,
}

/// Status that a call returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReturnedStatus {
    /// The call, with a number if the program makes it several times.
    pub call: String,
    /// The status of the call, by its C name.
    pub status: String,
}

/// End of a program that did not exit by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Death {
    /// Name of a signal, `hang`, `exit` and a code, or `child` if a child that had to make the calls died.
    pub by: String,
    /// Call that was running.
    pub at: Option<String>,
}

/// Files and system calls that the processes of a program used during one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SystemUse {
    /// The call, or `refuse`, `start` or `wait` for a step of the harness; `load` for the time before the first step.
    pub during: String,
    /// Number of times that each system call was made.
    pub system_calls: BTreeMap<String, u64>,
    /// Files that were named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, PathUse>,
}

/// Name of the denial of everything that makes no difference by itself, each with an error that makes no difference.
pub const EVERYTHING_ELSE: &str = "everything else";

/// Separator between [`EVERYTHING_ELSE`] and the part of it that is not denied.
const BUT: &str = " but ";
/// Separator between [`EVERYTHING_ELSE`] and what is denied in addition.
const AND: &str = " and ";

/// End of a program whose child died.
const CHILD: &str = "child";

/// Name of the time before the first step.
const LOAD: &str = "load";

/// Returns the questions of the survey.
pub(super) fn questions() -> SurveyQuestions {
    SurveyQuestions::Staged(refusals::left_out())
}

impl KindRow for NeedRow {
    const KIND: SurveyKind = SurveyKind::Needs;

    fn question(&self) -> (String, Option<String>) {
        let what = match (&self.refused, &self.error) {
            (Some(refused), Some(error)) => format!("{refused} {error}"),
            (Some(refused), None) => refused.clone(),
            (None, _) => "no filter".to_string(),
        };
        (
            format!("{} {} {what}", self.program.name(), self.moment.name()),
            None,
        )
    }

    fn standing(&self) -> &RowAttempts {
        &self.standing
    }

    fn derived_facts(&self, _: &Machine) -> Vec<(&'static str, serde_json::Value)> {
        vec![("returned", json!(self.statuses.as_deref().map(returned)))]
    }

    fn has_facts(&self) -> bool {
        self.statuses.is_some() && self.gpus.is_some()
    }

    fn is_control(&self) -> bool {
        self.error.is_none()
    }
}

impl NeedRow {
    fn new(
        program: NeedsProgram,
        moment: NeedsMoment,
        refused: Option<&str>,
        error: Option<&str>,
    ) -> NeedRow {
        NeedRow {
            program,
            moment,
            refused: refused.map(str::to_string),
            error: error.map(str::to_string),
            ..NeedRow::default()
        }
    }

    fn with(mut self, answered: &SurveyAnswer<'_>) -> NeedRow {
        let gpus = answered.scene.gpus.iter();
        let uuids: Vec<&str> = gpus.map(|gpu| gpu.uuid.as_str()).collect();
        let mut standing = RowAttempts::from_report(answered.report);
        let (mut seen, mut first) = (Vec::new(), None);
        if let Some((planned, recordings)) = answered.case_recordings(TRAP) {
            for recording in &recordings {
                seen.push(read_result(planned, recording, &uuids));
            }
            first = recordings.first().map(|recording| (planned, *recording));
        }
        let met = standing.agreed("met", seen.iter().map(|seen| seen.met));
        self.met = match self.error {
            Some(_) => met,
            None => None,
        };
        self.statuses = standing.agreed("statuses", seen.iter().map(|seen| seen.statuses.clone()));
        self.gpus = standing.agreed("gpus", seen.iter().map(|seen| seen.gpus.clone()));
        self.died = standing
            .agreed("died", seen.iter().map(|seen| seen.died.clone()))
            .flatten();
        if let (Some(_), None, Some((planned, recording))) = (&self.refused, &self.error, first) {
            self.asked = list_system_uses(self.program, planned, recording);
        }
        NeedRow { standing, ..self }
    }

    /// Returns `true` if something is denied that is not part of everything else.
    pub fn is_alone(&self) -> bool {
        match &self.refused {
            Some(refused) => !refused.starts_with(EVERYTHING_ELSE) && !self.is_control(),
            None => false,
        }
    }

    /// Returns `true` if the program is known to have behaved differently than in `control`.
    pub fn differs_from(&self, control: &NeedRow) -> bool {
        let is_other = self.statuses != control.statuses || self.gpus != control.gpus;
        self.died.is_some() || (self.has_facts() && is_other)
    }

    /// Returns the first call with another result than without a denial, and its status.
    pub fn first_failure(&self, control: &NeedRow) -> Option<&ReturnedStatus> {
        let usual = control.statuses.as_deref().unwrap_or_default();
        let mut statuses = self.statuses.as_deref()?.iter();
        statuses.find(|status| !usual.contains(status))
    }

    /// Returns the first call that fails because of this denial alone, if the denial starts before the first call;
    /// `None` for other rows, and for those without effect.
    pub fn effect_at_start<'a>(&'a self, rows: &'a [NeedRow]) -> Option<&'a ReturnedStatus> {
        if !self.is_alone() || self.moment != NeedsMoment::Init {
            return None;
        }
        let control = self.control(rows)?;
        let differs = self.is_conclusive() && self.met != Some(false) && self.differs_from(control);
        if differs {
            self.first_failure(control)
        } else {
            None
        }
    }

    /// Returns `true` if the denied thing is a file that the program opens for writing.
    pub fn is_of_written_file(&self, rows: &[NeedRow]) -> bool {
        let (Some(control), Some(refused)) = (self.control(rows), &self.refused) else {
            return false;
        };
        let mut files = control.asked.iter().map(|asked| asked.files.get(refused));
        files.any(|used| used.is_some_and(|used| used.written))
    }

    /// Returns `true` if the remaining GPUs were renumbered. Otherwise each kept its ordinal, and the denied ones fail.
    pub fn is_counted_anew(&self, control: &NeedRow) -> bool {
        let seen = self.gpus.as_deref().unwrap_or_default();
        if seen.is_empty() || seen == control.gpus.as_deref().unwrap_or_default() {
            return false;
        }
        let Some(failure) = self.first_failure(control) else {
            return true;
        };
        match failure.call.rsplit(' ').next().map(str::parse::<usize>) {
            Some(Ok(ordinal)) => ordinal >= seen.len(),
            _ => true,
        }
    }

    /// Returns the control of a row among others: the same program at the same moment, with a filter that denies
    /// nothing.
    pub fn control<'a>(&self, rows: &'a [NeedRow]) -> Option<&'a NeedRow> {
        control(rows, self.program, self.moment)
    }
}

fn control(rows: &[NeedRow], program: NeedsProgram, moment: NeedsMoment) -> Option<&NeedRow> {
    rows.iter().find(|row| {
        (row.program, row.moment) == (program, moment)
            && row.error.is_none()
            && row.refused.is_some()
    })
}

/// Returns the statuses of calls as one line of text.
pub fn returned(statuses: &[ReturnedStatus]) -> String {
    let statuses = statuses.iter();
    listed(
        statuses.map(|one| format!("{} {}", one.call, one.status)),
        "",
    )
}

/// Returns `true` if the controls have run, which record the files and system calls that the programs use.
pub fn has_records(rows: &[NeedRow]) -> bool {
    rows.iter().any(|row| !row.asked.is_empty())
}

/// Returns the reason why no filter works on this machine; `None` if one does, or if none was tried.
pub fn why_unfiltered(rows: &[NeedRow]) -> Option<&str> {
    for row in rows {
        // A framework that is not installed does not show anything about filters.
        let is_filtered = row.is_control() && row.refused.is_some() && !row.program.is_framework();
        if let Some(unmeasured) = &row.standing.unmeasured
            && is_filtered
        {
            return Some(&unmeasured.detail);
        }
    }
    None
}

/// Returns the controls that failed: programs that behave differently with a filter that denies nothing.
pub fn disturbed_controls(rows: &[NeedRow]) -> Vec<String> {
    let mut disturbed = Vec::new();
    for row in rows {
        if let Some(filtered) = row.control(rows)
            && row.refused.is_none()
            && filtered.differs_from(row)
        {
            disturbed.push(row.key());
        }
    }
    disturbed
}

struct RefusalResult {
    met: bool,
    statuses: Vec<ReturnedStatus>,
    gpus: Vec<u32>,
    died: Option<Death>,
}

fn read_result(planned: &CasePlan, recording: &Recording, uuids: &[&str]) -> RefusalResult {
    let label = |step: usize| planned.steps.get(step).map(|step| step.label.as_str());
    let (mut statuses, mut gpus) = (Vec::new(), Vec::new());
    for said in &recording.events {
        let Event::End {
            step,
            status: Some(status),
            values,
            ..
        } = &said.event
        else {
            continue;
        };
        let Some(label) = label(*step).filter(|label| programs::is_call(label)) else {
            continue;
        };
        statuses.push(ReturnedStatus {
            call: label.to_string(),
            status: status_name(status),
        });
        if let (0, Some(Value::Text(uuid))) = (status.code, values.get("uuid")) {
            let index = uuids.iter().position(|known| known == uuid);
            gpus.extend(index.and_then(|index| u32::try_from(index).ok()));
        }
    }
    let exit = &recording.exit;
    let by = match (exit.deadline_at, &exit.signal, exit.code) {
        (Some(_), ..) => Some("hang".to_string()),
        (None, Some(signal), _) => Some(signal.clone()),
        (None, None, Some(code)) if code != 0 => Some(format!("exit {code}")),
        // A child of the worker died, and the worker itself did not.
        _ => exit.died_at.map(|_| CHILD.to_string()),
    };
    let mut at = exit.deadline_at.or(exit.died_at);
    for said in recording.events.iter().rev() {
        if let Event::Begin { step, .. } = &said.event
            && at.is_none()
        {
            at = Some(*step);
        }
    }
    let at = at.and_then(label).map(str::to_string);
    let mut steps = recording.system_calls.iter();
    let met = steps.any(|step| !step.refused.is_empty());
    RefusalResult {
        met,
        statuses,
        gpus,
        died: by.map(|by| Death { by, at }),
    }
}

/// Returns the files and system calls that a program used, by step. For frameworks, only system files are kept, because
/// an import opens thousands of files of the framework. The start of a framework's interpreter is left out, because it
/// is not tested and would reveal details of the machine.
fn list_system_uses(
    program: NeedsProgram,
    planned: &CasePlan,
    recording: &Recording,
) -> Vec<SystemUse> {
    let is_framework = program.is_framework();
    let mut asked = Vec::new();
    for used in &recording.system_calls {
        if is_framework && used.step.is_none() {
            continue;
        }
        let mut files = used.paths.clone();
        files.retain(|path, _| !is_framework || refusals::is_of_the_system(path));
        let step = used.step.and_then(|step| planned.steps.get(step));
        asked.push(SystemUse {
            during: step.map_or(LOAD, |step| &step.label).to_owned(),
            system_calls: used.calls.clone(),
            files,
        });
    }
    asked
}

/// Returns the names of everything that these calls used: files with their use, and system calls.
fn needs_of_calls(
    asked: &[SystemUse],
    is_of: impl Fn(&str) -> bool,
) -> (BTreeMap<&str, PathUse>, BTreeSet<&str>) {
    let (mut files, mut calls) = (BTreeMap::<&str, PathUse>::new(), BTreeSet::new());
    for asked in asked {
        if !is_of(&asked.during) {
            continue;
        }
        calls.extend(asked.system_calls.keys().map(String::as_str));
        for (path, used) in &asked.files {
            let all = files.entry(path).or_default();
            all.calls.extend(used.calls.iter().cloned());
            all.exists |= used.exists;
            all.written |= used.written;
        }
    }
    (files, calls)
}
