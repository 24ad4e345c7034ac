//! A summary of the committed surveys and reports. It is part of the program, so that [`crate::explain`] answers
//! without a checkout. It is stored in `scenarios/surveys/summary.json`, which `cargo xtask bless` writes.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::releases::LineReleases;
use crate::survey::SurveyDocument;
use crate::survey::calls::{CallRow, latest};
use crate::survey::env::EnvRow;
use crate::survey::needs::{NeedRow, NeedsProgram};
use crate::survey::python::{INSTRUMENT, PythonRow};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::text::versions::{Version, name, number, ranges};
use cuda_pitfalls_core::verdict::Reason;

const SOURCE: &str = cuda_pitfalls_scenarios::SUMMARY;

/// The summary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// A description of the machine of each committed report, by its name in `evidence`: `reports/h200-x2`.
    pub machines: BTreeMap<String, String>,
    /// The evidence for the answer of each question, by scenario name. Questions without an answer are missing.
    #[serde(default)]
    pub answers: BTreeMap<String, Basis>,
    /// What each call does as the first call of a process, by name.
    pub calls: Vec<CallFacts>,
    /// What each Python line does in a fresh interpreter, in the order of the survey.
    pub lines: Vec<LineFacts>,
    /// When each environment variable is read.
    pub variables: Vec<VariableFacts>,
    /// What each refused file or system call causes, from the first call on.
    #[serde(default)]
    pub needs: Vec<NeedFacts>,
    /// In which releases each Python line calls `cuInit`, in the order of the matrix.
    #[serde(default)]
    pub releases: Vec<LineReleases>,
}

/// The evidence for an answer: the runs that asked the question as it is today and reached a verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Basis {
    /// The smallest number of attempts that counted, of trap and control and over the runs.
    pub least: u32,
    /// The largest such number.
    pub most: u32,
    /// The number of runs.
    pub runs: u32,
    /// The number of runs that were interrupted.
    pub interrupted: u32,
    /// The machines, by number and model of their GPUs: `2 × NVIDIA H200`.
    pub machines: Vec<String>,
    /// The newest versions that were measured, of libcudart or of the packages that the lines need: `torch 2.11.0`.
    pub newest: Vec<String>,
}

impl Basis {
    /// Whether there is only one attempt of each case.
    pub const fn is_single(&self) -> bool {
        self.runs == 1 && self.least == 1
    }

    /// Whether every run was interrupted.
    pub const fn is_of_interrupted_runs(&self) -> bool {
        self.interrupted == self.runs
    }

    /// The evidence as a phrase: `3 to 5 attempts of each case in each of 2 runs, on 1 and 2 × NVIDIA H200`.
    pub fn sentence(&self) -> String {
        let attempts = match (self.least, self.most) {
            (1, 1) => "1 attempt".to_owned(),
            (least, most) if least == most => format!("{most} attempts"),
            (least, most) => format!("{least} to {most} attempts"),
        };
        let runs = match (self.runs, self.interrupted) {
            (1, 0) => "in 1 run".to_owned(),
            (1, _) => "in 1 run, which was interrupted".to_owned(),
            (runs, 0) => format!("in each of {runs} runs"),
            (runs, 1) => format!("in each of {runs} runs, 1 of which was interrupted"),
            (runs, some) if runs == some => format!("in each of {runs} runs, which were all interrupted"),
            (runs, some) => format!("in each of {runs} runs, {some} of which were interrupted"),
        };
        format!("{attempts} of each case {runs}, on {}", machines_in_words(&self.machines))
    }
}

/// Machines with each model once: `1, 2 and 4 × NVIDIA H200`.
pub fn machines_in_words(machines: &[String]) -> String {
    let mut models: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for (gpus, model) in machines.iter().filter_map(|machine| machine.split_once(" × ")) {
        models.entry(model).or_default().extend(gpus.parse::<u32>().ok());
    }
    let models = models.into_iter().map(|(model, gpus)| {
        let gpus: Vec<String> = gpus.iter().map(u32::to_string).collect();
        format!("{} × {model}", listed(&gpus))
    });
    listed(&models.collect::<Vec<_>>())
}

/// `a`, `a and b`, `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        [only] => only.clone(),
        _ => "no machine".to_owned(),
    }
}

/// What a refused file or system call causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NeedFacts {
    /// The program to which it is refused.
    pub program: NeedsProgram,
    /// The path of a file, with `*` for what differs between processes and machines, or the name of a system call.
    pub refused: String,
    /// The errors by which it is refused.
    pub errors: Vec<String>,
    /// The first call that fails then.
    pub call: String,
    /// Its status, by the C name.
    pub status: String,
    /// Whether a file of this name was written to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_written: bool,
    /// The machine on which it was measured, in words.
    pub on: String,
}

/// What one call does as the first call of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallFacts {
    /// The C symbol; if the call is asked in several ways, followed by a dash and a word for the way.
    pub call: String,
    /// The library of the call.
    pub library: String,
    /// The machine on which it was measured, in words.
    pub on: String,
    /// Groups of versions with equal behaviour, oldest first; a single group if only one version of the library was
    /// asked.
    pub runs: Vec<CallRun>,
}

impl CallFacts {
    /// The C function.
    pub fn function(&self) -> &str {
        self.call.split_once('-').map_or(self.call.as_str(), |(function, _)| function)
    }
}

/// What a call does with some versions of libcudart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallRun {
    /// The versions of libcudart, such as `11.7 to 13.5`. Empty for other libraries.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub versions: String,
    /// Whether it reads the mask; absent if an earlier call had read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_mask: Option<bool>,
    /// Whether it makes a context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub makes_context: Option<bool>,
    /// By how much NVML's `used` grew on each GPU, with the newest of these versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<Vec<i64>>,
    /// The name of the status that it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// What one Python line does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineFacts {
    /// Its name in the survey: `torch.cuda.is_available`.
    pub id: String,
    /// The versions of the packages that it needs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// The machine on which it was measured, in words.
    pub on: String,
    /// Whether it reads the mask; absent if earlier lines had read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_mask: Option<bool>,
    /// The place in the framework that calls `cuInit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// NVML indices of the GPUs on which it makes a context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_on: Option<Vec<u32>>,
    /// By how much NVML's `used` grew on each GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<Vec<i64>>,
    /// The exception that it raised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<String>,
}

/// When one environment variable is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VariableFacts {
    /// The variable.
    pub variable: String,
    /// The value that was set.
    pub value: String,
    /// The machine on which it was measured, in words.
    pub on: String,
    /// Whether it had any effect.
    pub has_effect: bool,
    /// The last moment at which setting it had an effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_at: Option<String>,
}

/// The summary that comes with the program. It is empty if the file cannot be read, which a test excludes.
pub fn embedded() -> Summary {
    serde_json::from_str(SOURCE).unwrap_or_default()
}

impl Summary {
    /// The summary of these surveys, of the reports' machines (each with its folder), of evidence, and of releases.
    pub fn new(
        mut surveys: Vec<&SurveyDocument>,
        reports: &[(String, Machine)],
        answers: BTreeMap<String, Basis>,
        releases: Vec<LineReleases>,
    ) -> Summary {
        let machines = reports.iter().map(|(name, machine)| (format!("reports/{name}"), in_words(machine))).collect();
        let mut summary = Summary { machines, answers, releases, ..Summary::default() };
        let mut calls: Vec<(CallRow, String)> = Vec::new();
        surveys.sort_by(|survey, other| survey.header.started_at.cmp(&other.header.started_at));
        for survey in surveys {
            let machine = &survey.machine;
            calls.extend(survey.rows_of().into_iter().map(|row| (row, machine.summary())));
            survey.rows_of().into_iter().for_each(|row| summary.add_variable(row, machine));
            survey.rows_of().iter().for_each(|row| summary.add_line(row, machine));
            summary.add_needs(&survey.rows_of(), machine);
        }
        summary.calls = of_calls(&calls);
        summary
    }

    /// The text of the file as it should be, with one line per entry.
    pub fn text(&self) -> String {
        fn list<T: Serialize>(name: &str, all: &[T]) -> String {
            let lines: Vec<String> = all.iter().map(|entry| serde_json::to_string(entry).unwrap_or_default()).collect();
            format!("\"{name}\": [\n{}\n]", lines.join(",\n"))
        }
        let machines = serde_json::to_string_pretty(&self.machines).unwrap_or_default();
        let answers = self.answers.iter().map(|(name, basis)| {
            let basis = serde_json::to_string(basis).unwrap_or_default();
            format!("{}: {basis}", serde_json::Value::from(name.as_str()))
        });
        let answers: Vec<String> = answers.collect();
        let lists = [
            list("calls", &self.calls),
            list("lines", &self.lines),
            list("variables", &self.variables),
            list("needs", &self.needs),
            list("releases", &self.releases),
        ];
        let answers = answers.join(",\n");
        format!("{{\"machines\": {machines},\n\"answers\": {{\n{answers}\n}},\n{}}}\n", lists.join(",\n"))
    }

    /// Adds a row about a line. Of several rows about one line, the last measured one counts.
    fn add_line(&mut self, row: &PythonRow, machine: &Machine) {
        if row.framework == INSTRUMENT || row.standing.unmeasured.is_some() {
            return;
        }
        let facts = LineFacts {
            id: row.id.clone(),
            versions: row.versions.clone(),
            on: machine.summary(),
            reads_mask: row.facts.reads_mask,
            at: row.facts.at.clone(),
            context_on: row.facts.context_on.clone(),
            used_bytes: row.facts.device_used_bytes.clone(),
            raised: row.facts.raised.as_ref().map(|raised| raised.kind.clone()),
        };
        put(&mut self.lines, facts, |facts| &facts.id);
    }

    /// Adds what refusals cause. What two machines agree on is there once.
    fn add_needs(&mut self, rows: &[NeedRow], machine: &Machine) {
        // What a framework needs beside the driver is no need of CUDA.
        let of_cuda = rows.iter().filter(|row| !row.program.is_framework());
        for (row, failure) in of_cuda.filter_map(|row| Some((row, row.effect_at_start(rows)?))) {
            let (Some(refused), Some(error)) = (&row.refused, &row.error) else { continue };
            let known = self.needs.iter_mut().find(|known| {
                (known.program, &known.refused) == (row.program, refused)
                    && (&known.call, &known.status) == (&failure.call, &failure.status)
            });
            match known {
                Some(known) if known.errors.contains(error) => {}
                Some(known) => known.errors.push(error.clone()),
                None => self.needs.push(NeedFacts {
                    program: row.program,
                    refused: refused.clone(),
                    errors: vec![error.clone()],
                    call: failure.call.clone(),
                    status: failure.status.clone(),
                    is_written: row.is_of_written_file(rows),
                    on: machine.summary(),
                }),
            }
        }
    }

    fn add_variable(&mut self, row: EnvRow, machine: &Machine) {
        let Some(has_effect) = row.has_effect.filter(|_| row.standing.unmeasured.is_none()) else { return };
        let EnvRow { variable, value, read_at, .. } = row;
        let facts = VariableFacts { variable, value, on: machine.summary(), has_effect, read_at };
        put(&mut self.variables, facts, |facts| &facts.variable);
    }
}

/// Puts facts in the place of those with the same name, or at the end.
fn put<T>(all: &mut Vec<T>, facts: T, name: impl Fn(&T) -> &String) {
    match all.iter_mut().find(|known| name(known) == name(&facts)) {
        Some(known) => *known = facts,
        None => all.push(facts),
    }
}

/// The GPUs, the driver and the libcudarts of a machine: `2× NVIDIA H200, driver 580.159.04, libcudart 13.0`.
fn in_words(machine: &Machine) -> String {
    let versions: BTreeSet<Version> =
        machine.libcudart.iter().filter_map(|runtime| runtime.version.as_deref()).map(number).collect();
    let names: Vec<String> = versions.iter().map(|version| name(version)).collect();
    let libcudart = match names.as_slice() {
        [] => String::new(),
        [first, _, _, .., last] => format!(", {} libcudarts from {first} to {last}", names.len()),
        few => format!(", libcudart {}", few.join(", ")),
    };
    machine.summary() + &libcudart
}

/// What each call does, by name. Rows are in the order in which they were measured.
fn of_calls(rows: &[(CallRow, String)]) -> Vec<CallFacts> {
    let standing = latest(rows.iter().map(|(row, _)| row));
    let all: BTreeSet<Version> =
        standing.iter().filter_map(|row| row.libcudart_version.as_deref()).map(number).collect();
    let all: Vec<Version> = all.into_iter().collect();
    let mut by_call: BTreeMap<(&str, &str), BTreeMap<Version, &CallRow>> = BTreeMap::new();
    for row in standing {
        let version = row.libcudart_version.as_deref().map(number).unwrap_or_default();
        by_call.entry((&row.call, &row.library)).or_default().insert(version, row);
    }
    let facts = by_call.into_iter().filter_map(|((call, library), versions)| {
        let runs = runs(&versions, &all);
        let newest = versions.values().rev().find(|row| row.standing.unmeasured.is_none())?;
        let on = rows.iter().find(|(row, _)| std::ptr::eq(row, *newest))?.1.clone();
        Some(CallFacts { call: call.to_owned(), library: library.to_owned(), on, runs })
    });
    facts.filter(|facts| !facts.runs.is_empty()).collect()
}

/// Groups of consecutive versions with equal behaviour. A version that does not export the call ends a group, and one
/// that could not be measured for another reason says nothing.
fn runs(versions: &BTreeMap<Version, &CallRow>, all: &[Version]) -> Vec<CallRun> {
    let said = versions.iter().filter_map(|(version, row)| {
        let behaviour = match row.standing.unmeasured.as_ref().map(|unmeasured| unmeasured.reason) {
            None => Some((row.reads_mask, row.makes_context(), row.status.clone())),
            Some(Reason::MissingSymbol) => None,
            Some(_) => return None,
        };
        Some((version, behaviour, *row))
    });
    let said: Vec<(&Version, Option<_>, &CallRow)> = said.collect();
    let runs = said.chunk_by(|(_, one, _), (_, other, _)| one == other).filter_map(|run| {
        let (reads_mask, makes_context, status) = run.first()?.1.clone()?;
        let versions: Vec<Version> = run.iter().map(|(version, ..)| (*version).clone()).collect();
        // The memory is that of the newest version.
        let used_bytes = run.iter().rev().find_map(|(.., row)| row.device_used_bytes.clone());
        Some(CallRun { versions: ranges(&versions, all), reads_mask, makes_context, used_bytes, status })
    });
    runs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::calls::fixture::{absent, row};

    fn facts(rows: &[CallRow]) -> Vec<CallFacts> {
        of_calls(&rows.iter().map(|row| (row.clone(), String::new())).collect::<Vec<_>>())
    }

    #[test]
    fn versions_that_do_alike_are_one_run_and_a_change_begins_another() {
        let rows = [row("12.9", true, true), row("11.7", false, false), row("12.10", true, true)];
        let facts = facts(&rows);
        assert_eq!(facts.len(), 1);
        let said: Vec<(&str, Option<bool>)> =
            facts[0].runs.iter().map(|run| (run.versions.as_str(), run.makes_context)).collect();
        assert_eq!(said, [("11.7", Some(false)), ("12.9 to 12.10", Some(true))]);
    }

    #[test]
    fn a_version_without_the_call_is_in_no_run() {
        let rows = [absent("11.7", Reason::MissingSymbol), row("12.0", true, true), absent("13.0", Reason::Crashed)];
        assert_eq!(facts(&rows)[0].runs[0].versions, "12.0");
        assert!(facts(&rows[..1]).is_empty());
    }

    #[test]
    fn a_basis_says_attempts_runs_and_interruption() {
        let basis = |least, most, runs, interrupted| Basis {
            least,
            most,
            runs,
            interrupted,
            machines: [1, 2, 4].into_iter().take(runs as usize).map(|gpus| format!("{gpus} × NVIDIA H200")).collect(),
            newest: Vec::new(),
        };
        let single = basis(1, 1, 1, 1);
        assert!(single.is_single() && single.is_of_interrupted_runs());
        assert_eq!(single.sentence(), "1 attempt of each case in 1 run, which was interrupted, on 1 × NVIDIA H200");
        let several = basis(3, 5, 3, 1);
        assert!(!several.is_single() && !several.is_of_interrupted_runs());
        assert_eq!(
            several.sentence(),
            "3 to 5 attempts of each case in each of 3 runs, 1 of which was interrupted, on 1, 2 and 4 × \
             NVIDIA H200"
        );
    }

    #[test]
    fn every_question_with_an_expectation_has_a_basis() {
        let scenarios = cuda_pitfalls_core::catalogue::select(&[]).expect("they are valid");
        let summary = embedded();
        let without: Vec<&str> = scenarios
            .iter()
            .filter(|scenario| scenario.instances.iter().any(|instance| !instance.expect.is_empty()))
            .map(|scenario| scenario.name.as_str())
            .filter(|name| summary.answers.get(*name).is_none_or(|basis| basis.runs == 0 || basis.newest.is_empty()))
            .collect();
        assert!(without.is_empty(), "{without:?}");
    }

    #[test]
    fn the_summary_of_the_program_is_there_and_small() {
        let summary = embedded();
        assert!(summary.calls.len() > 600 && summary.lines.len() > 200 && summary.variables.len() > 15);
        // It is a part of every binary and wheel, and grows with each line and release that is asked.
        assert!(SOURCE.len() <= 400_000, "{} bytes", SOURCE.len());
        assert_eq!(summary.text(), SOURCE);
        let text = summary.calls.iter().find(|facts| facts.call == "cudaGetErrorString").expect("it is asked");
        assert_eq!(text.runs.len(), 1, "{text:?}");
        assert_eq!(text.runs[0].versions, "11.7 to 13.5");
        assert_eq!((text.runs[0].reads_mask, text.runs[0].makes_context), (Some(true), Some(false)));
    }
}
