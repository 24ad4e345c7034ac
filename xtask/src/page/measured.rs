//! Results of committed reports for today's scenarios.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use cuda_pitfalls::judge::{self, Facts, planned_today};
use cuda_pitfalls::known::Basis;
use cuda_pitfalls::machine::{Interpreter, Machine};
use cuda_pitfalls::observe::Scene;
use cuda_pitfalls::render::words;
use cuda_pitfalls::report::{CaseReport, Report, ScenarioReport};
use cuda_pitfalls::scenario::python::with_needed;
use cuda_pitfalls::scenario::{Check, Instance, Python, Scenario};
use cuda_pitfalls::text::counts::counted;
use cuda_pitfalls::text::versions::{Version, name, number};
use cuda_pitfalls::verdict::{Kind, Provenance, Reason, Verdict};

use super::prose::{escape_text, markdown_link, to_markdown, write_paragraph};
use crate::table::MarkdownTable;

/// The libcudart of tables with a single measurement, if there is a choice.
const USUAL_LIBCUDART: &str = "13.0";
/// The number of GPUs of such tables: the smallest with a used and an unused GPU.
const USUAL_GPUS: usize = 2;

/// An instance of a scenario in one report, judged by today's file.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The folder of the report, below `reports/`.
    pub report: String,
    /// Start time of the run, RFC 3339 in UTC.
    pub started_at: String,
    /// The machine of the report.
    pub machine: Machine,
    /// `true` if the run had the whole machine: no other process was on a GPU, and no GPU was left to another run.
    pub alone: bool,
    /// `true` if the run was interrupted.
    pub interrupted: bool,
    /// The verdict that the report stores, on the question as it was then.
    pub then: Verdict,
    /// Difference from today's question, as text: a different effect, other cases.
    pub changed: Option<&'static str>,
    /// The results, without the events and readings of attempts.
    pub part: ScenarioReport,
}

/// Returns the measurements of these scenarios in a report. Scenarios that were not run, were simulated, or were
/// measured with other calls than today's are left out.
pub fn report_measurements(
    scenarios: &[Scenario],
    name: &str,
    report: &Report,
) -> Vec<Measurement> {
    let figures = report.run.calibrations();
    let scene = Scene {
        calibration: &figures,
        gpus: &report.machine.gpus,
    };
    let mut measured = Vec::new();
    for part in &report.scenarios {
        let is_simulated = part.verdict.provenance != Provenance::Measured;
        if part.verdict.kind == Kind::Skipped || is_simulated {
            continue;
        }
        let mut known = scenarios.iter();
        if let Some(scenario) = known.find(|scenario| scenario.name == part.scenario) {
            measured.extend(part_measurement(scenario, name, report, part, &scene));
        }
    }
    measured
}

/// Returns `true` if a run could use all GPUs of its machine: each was calibrated.
fn has_every_gpu(report: &Report) -> bool {
    let mut gpus = report.machine.gpus.iter();
    gpus.all(|gpu| {
        let mut known = report.run.calibration.iter();
        known.any(|known| known.figures.uuid == gpu.uuid)
    })
}

/// Returns the measurement in a part of a report, judged by today's scenario; `None` if its calls are no longer
/// today's.
fn part_measurement(
    scenario: &Scenario,
    name: &str,
    report: &Report,
    part: &ScenarioReport,
    scene: &Scene<'_>,
) -> Option<Measurement> {
    let today = planned_today(scenario, report, part)?;
    let asked = match &part.plan {
        Some(plan) => effect(&plan.effect),
        None => Vec::new(),
    };
    let changed = if today.compares_others() {
        Some("different cases compared")
    } else {
        (asked != effect(&today.plan.effect)).then_some("different effect")
    };
    let mut part = part.clone();
    let then = part.verdict.clone();
    today.rename_cases(&mut part.cases);
    let plan = today.plan;
    let libcudart = part.libcudart.as_ref();
    let facts = Facts::new(&report.machine, libcudart, &plan, report.provenance);
    part.verdict = judge::judge_scenario(&plan, &mut part.cases, scene, &facts);
    part.plan = Some(plan);
    for attempt in part.cases.iter_mut().flat_map(|case| &mut case.attempts) {
        attempt.recording.events.clear();
        attempt.recording.snapshots.clear();
        attempt.recording.polling = None;
    }
    Some(Measurement {
        report: name.to_owned(),
        started_at: report.run.started_at.clone(),
        machine: report.machine.clone(),
        alone: report.run.co_tenants.is_empty() && has_every_gpu(report),
        interrupted: report.run.interrupted.is_some() || !report.complete,
        then,
        changed,
        part,
    })
}

/// Returns the requirements of an effect, without their places in the file.
fn effect(checks: &[Check]) -> Vec<(&str, String, String)> {
    let mut effect = Vec::new();
    for check in checks {
        let facts = format!("{:?}", check.facts);
        effect.push((check.at.as_str(), facts, format!("{:?}", check.when)));
    }
    effect
}

/// Returns the evidence for the answer to each question: every run that reached a verdict on it, on the driver's own
/// libcuda.
pub fn answer_bases(measured: &[Measurement]) -> BTreeMap<String, Basis> {
    let mut by: BTreeMap<&str, Vec<&Measurement>> = BTreeMap::new();
    for measurement in measured {
        if measurement.is_conclusive() && measurement.machine.other_libcuda().is_none() {
            let own = by.entry(&measurement.part.scenario).or_default();
            own.push(measurement);
        }
    }
    let mut bases = BTreeMap::new();
    for (name, measurements) in by {
        bases.insert(name.to_owned(), answer_basis(&measurements));
    }
    bases
}

fn answer_basis(measurements: &[&Measurement]) -> Basis {
    let (mut least, mut most) = (u32::MAX, 0);
    let (mut runs, mut interrupted) = (BTreeSet::new(), BTreeSet::new());
    let mut machines: BTreeSet<(usize, String)> = BTreeSet::new();
    let mut newest: BTreeMap<String, String> = BTreeMap::new();
    for measurement in measurements {
        for case in &measurement.part.cases {
            if matches!(case.name.as_str(), "trap" | "control") {
                let attempts = attempts_counted(case);
                (least, most) = (least.min(attempts), most.max(attempts));
            }
        }
        runs.insert(&measurement.report);
        if measurement.interrupted {
            interrupted.insert(&measurement.report);
        }
        machines.insert((measurement.machine.gpus.len(), measurement.gpus()));
        for (name, version) in measurement.versions() {
            let known = newest.entry(name).or_default();
            if number(&version) > number(known) {
                *known = version;
            }
        }
    }
    let newest = newest.into_iter();
    Basis {
        least: least.min(most),
        most,
        runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
        interrupted: u32::try_from(interrupted.len()).unwrap_or(u32::MAX),
        machines: machines.into_iter().map(|(_, machine)| machine).collect(),
        newest: newest
            .map(|(name, version)| format!("{name} {version}"))
            .collect(),
    }
}

/// Returns the number of attempts of a case that count.
pub fn attempts_counted(case: &CaseReport) -> u32 {
    case.outcomes.iter().map(|outcome| outcome.count).sum()
}

/// Returns the attempts of a case in these measurements, of the instance with the fewest; `None` if no instance has the
/// case.
pub fn case_attempts(scenario: &Scenario, measured: &[&Measurement], case: &str) -> Option<u32> {
    let mut least = None;
    for instance in &scenario.instances {
        if !instance.cases.iter().any(|known| known.name == case) {
            continue;
        }
        let mut attempts = 0;
        for measurement in measured {
            if measurement.part.name == instance.name {
                attempts += measurement.part.case(case).map_or(0, attempts_counted);
            }
        }
        least = Some(least.map_or(attempts, |least: u32| least.min(attempts)));
    }
    least
}

/// Returns the interpreter of lines, with those packages that they need; `None` for calls.
pub(crate) fn lines_interpreter(machine: &Machine, part: &ScenarioReport) -> Option<Interpreter> {
    let cases = part.plan.iter().flat_map(|plan| &plan.cases);
    let lines: Vec<&Python> = cases.filter_map(|case| case.python.as_ref()).collect();
    if lines.is_empty() {
        return None;
    }
    let needed = lines.iter().flat_map(|python| &python.needs);
    Some(with_needed(needed, machine.python.as_ref()?))
}

pub(crate) fn python_in_words(found: &Interpreter) -> String {
    format!("Python {}{}", found.version, words::packages(found))
}

impl Measurement {
    pub(super) fn libcudart(&self) -> &str {
        self.part
            .libcudart
            .as_ref()
            .and_then(|runtime| runtime.version.as_deref())
            .unwrap_or("unknown")
    }

    /// Returns the interpreter, with those packages that the lines need; `None` for a measurement of calls.
    fn python_interpreter(&self) -> Option<Interpreter> {
        lines_interpreter(&self.machine, &self.part)
    }

    /// Returns the software in addition to the driver: libcudart, or the interpreter and the packages that the lines
    /// need.
    pub(crate) fn software_in_words(&self) -> String {
        match self.python_interpreter() {
            Some(python) => python_in_words(&python),
            None => format!("libcudart {}", self.libcudart()),
        }
    }

    /// Returns the measured versions of the packages that its lines need, or of libcudart.
    fn versions(&self) -> Vec<(String, String)> {
        let Some(Interpreter {
            version, packages, ..
        }) = self.python_interpreter()
        else {
            return vec![("libcudart".to_owned(), self.libcudart().to_owned())];
        };
        let mut found = Vec::new();
        for (name, version) in packages {
            found.extend(version.map(|version| (name, version)));
        }
        if found.is_empty() {
            vec![("Python".to_owned(), version)]
        } else {
            found
        }
    }

    pub(super) fn is_of_lines(&self) -> bool {
        self.part
            .plan
            .iter()
            .flat_map(|plan| &plan.cases)
            .any(|case| case.python.is_some())
    }

    fn is_conclusive(&self) -> bool {
        self.part.verdict.kind.is_conclusive()
    }

    /// Returns `true` if its attempts count for the answer, together with those of other runs.
    pub(crate) fn counts_for_answer(&self) -> bool {
        let reason = self.part.verdict.reason;
        let is_too_short = matches!(reason, Some(Reason::Interrupted | Reason::TooFewAttempts));
        (self.is_conclusive() || is_too_short) && self.machine.other_libcuda().is_none()
    }

    /// Returns the model of the GPUs in one word: `H200`.
    pub(crate) fn gpu_model(&self) -> String {
        let gpu = self.machine.gpus.first();
        let name = gpu.and_then(|gpu| gpu.name.as_deref()).unwrap_or_default();
        let model = name.trim_start_matches("NVIDIA ").split(' ').next();
        model.unwrap_or_default().to_owned()
    }

    /// Returns `true` if the report stores a different verdict than today's question gives.
    pub fn is_asked_otherwise(&self) -> bool {
        self.then.kind != self.part.verdict.kind
    }

    /// Returns the verdict as text. If the report stores a different verdict, or the question differed, that is added.
    pub fn verdict_words(&self) -> String {
        let now = verdict_in_words(&self.part.verdict);
        if !self.is_asked_otherwise() {
            return self.changed.map_or(now.clone(), |changed| {
                format!("{now} ({changed} at that time)")
            });
        }
        format!(
            "{now} (original verdict: {}; {})",
            verdict_in_words(&self.then),
            self.changed.unwrap_or("older rules")
        )
    }

    /// Returns the driver's version, and that of the libcuda if it is another driver's.
    pub(crate) fn driver(&self) -> String {
        let version = self.machine.driver_version.as_deref().unwrap_or("unknown");
        match self.machine.other_libcuda() {
            Some(libcuda) => format!("{version}, libcuda {libcuda}"),
            None => version.to_owned(),
        }
    }

    /// Returns the GPUs as text: `2 × NVIDIA H200`.
    pub(crate) fn gpus(&self) -> String {
        let mut names = BTreeSet::new();
        for gpu in &self.machine.gpus {
            names.insert(gpu.name.as_deref().unwrap_or("unknown GPU"));
        }
        let names: Vec<&str> = names.into_iter().collect();
        format!(
            "{} × {}",
            self.machine.gpus.len(),
            to_markdown(&names.join(" and "))
        )
    }
}

const DOES_NOT_SHOW: &str = "does not occur";

/// Returns a verdict as text: whether the pitfall showed.
pub(super) fn verdict_in_words(verdict: &Verdict) -> String {
    let reason = verdict
        .reason
        .map(|reason| reason.name().replace('_', " "))
        .unwrap_or_default();
    match verdict.kind {
        Kind::Reproduced => "occurs".to_owned(),
        Kind::NotReproduced => DOES_NOT_SHOW.to_owned(),
        Kind::Inconclusive => format!("open: {reason}"),
        Kind::Skipped => format!("not run: {reason}"),
        Kind::HarnessError => format!("failed: {reason}"),
    }
}

/// The report and libcudart of a page's tables.
pub(super) struct Reference<'m> {
    /// The report's measurements of the scenario, in the order of the instances.
    pub(super) of: Vec<&'m Measurement>,
}

impl<'m> Reference<'m> {
    /// Returns the latest report of the usual machine and libcudart without other processes, if one exists.
    pub(super) fn new(scenario: &Scenario, own: &[&'m Measurement]) -> Reference<'m> {
        let rank = |measurement: &&'m Measurement| {
            let is_usual = (
                measurement.alone,
                measurement.machine.gpus.len() == USUAL_GPUS,
                measurement.libcudart() == USUAL_LIBCUDART,
            );
            let libcudart = measurement.libcudart();
            (
                is_usual,
                &measurement.started_at,
                &measurement.report,
                libcudart,
            )
        };
        let best = own.iter().map(rank).max();
        let mut of = Vec::new();
        for instance in &scenario.instances {
            of.extend(
                own.iter()
                    .find(|measurement: &&&'m Measurement| {
                        measurement.part.name == instance.name && Some(rank(measurement)) == best
                    })
                    .copied(),
            );
        }
        Reference { of }
    }

    /// Returns the measurement to show in full: the first where the pitfall showed, otherwise the first.
    pub(super) fn shown_measurement(&self) -> Option<&'m Measurement> {
        let there = self
            .of
            .iter()
            .find(|measurement| measurement.part.verdict.kind == Kind::Reproduced);
        there.or(self.of.first()).copied()
    }

    /// Returns the instance of that measurement, otherwise the first.
    pub(super) fn instance<'s>(&self, scenario: &'s Scenario) -> Option<&'s Instance> {
        let first = scenario.instances.first();
        let Some(shown) = self.shown_measurement() else {
            return first;
        };
        let mut instances = scenario.instances.iter();
        instances
            .find(|instance| instance.name == shown.part.name)
            .or(first)
    }
}

/// Writes the evidence for the answer, and the table of machines.
pub(super) fn write_machines(out: &mut String, scenario: &Scenario, own: &[&Measurement]) {
    out.push_str("\n## Measured\n");
    if own.is_empty() {
        out.push_str("\nNot measured yet.\n");
        return;
    }
    if own.iter().any(|measurement| measurement.is_conclusive()) {
        let attempts = attempts_in_words(scenario, own);
        let words = format!("The answer is based on {attempts}. {}", tried_versions(own));
        write_paragraph(out, &words);
    }
    let table = machines_table(scenario, own);
    let _ = writeln!(
        out,
        "\n<details><summary>{}</summary>",
        counted(table.len() as u64, "measurement")
    );
    out.push_str(&table.to_text());
    let mut notes =
        "“Occurs” means in every attempt of the trap and in none of the control.".to_owned();
    if own
        .iter()
        .any(|measurement| measurement.is_asked_otherwise())
    {
        notes.push_str(
            " “Original verdict” is the verdict in the report. The scenario or the rules were changed after that run, and the \
             word before it is the current verdict on the same recorded attempts.",
        );
    }
    write_paragraph(out, &notes);
    out.push_str("\n</details>\n");
}

/// Returns the attempts on each model, over all runs, of the instance with the fewest: `5 + 5 attempts (trap + control)
/// on H100 and 3 + 3 on H200, in 2 runs`.
fn attempts_in_words(scenario: &Scenario, own: &[&Measurement]) -> String {
    let mut models: BTreeMap<String, Vec<&Measurement>> = BTreeMap::new();
    let mut runs: BTreeMap<&str, bool> = BTreeMap::new();
    for measurement in own {
        if measurement.counts_for_answer() {
            let of_model = models.entry(measurement.gpu_model()).or_default();
            of_model.push(measurement);
            runs.insert(&measurement.report, measurement.interrupted);
        }
    }
    let mut words = Vec::new();
    for (model, measured) in models {
        let counts = ["trap", "control"].map(|case| case_attempts(scenario, &measured, case));
        // The first model has the noun.
        words.push(match (counts, words.is_empty()) {
            ([Some(trap), Some(control)], true) => {
                format!("{trap} + {control} attempts (trap + control) on {model}")
            }
            ([Some(trap), Some(control)], false) => format!("{trap} + {control} on {model}"),
            ([trap, _], true) => {
                let attempts = counted(trap.unwrap_or_default(), "attempt");
                format!("{attempts} on {model}")
            }
            ([trap, _], false) => format!("{} on {model}", trap.unwrap_or_default()),
        });
    }
    let interrupted = runs.values().filter(|is_interrupted| **is_interrupted);
    let interrupted = match interrupted.count() {
        0 => String::new(),
        some => format!(", {some} of them interrupted"),
    };
    let runs = counted(runs.len() as u64, "run");
    let words = words.join(" and ");
    format!("{words}, in {runs}{interrupted}")
}

/// Returns the table of machines, with a row for each report and libcudart.
fn machines_table(scenario: &Scenario, own: &[&Measurement]) -> MarkdownTable {
    let mut rows: BTreeMap<_, Vec<&Measurement>> = BTreeMap::new();
    for measurement in own {
        let libcudart = measurement.part.libcudart.as_ref();
        let number = libcudart.and_then(|runtime| runtime.number);
        let gpus = measurement.machine.gpus.len();
        let row = rows.entry((gpus, number, &measurement.report)).or_default();
        row.push(measurement);
    }
    let software = if scenario.has_python_lines() {
        "Python"
    } else {
        "libcudart"
    };
    let mut table = MarkdownTable::new([
        "machine",
        "driver",
        software,
        "attempts of each case",
        "the pitfall",
        "report",
    ]);
    for measurements in rows.values() {
        let Some(first) = measurements.first() else {
            continue;
        };
        let report = format!("../../../reports/{}", first.report);
        let versions = first.software_in_words();
        table.row([
            first.gpus(),
            to_markdown(&first.driver()),
            to_markdown(versions.trim_start_matches(&format!("{software} "))),
            attempts(measurements),
            instances_in_words(scenario, measurements),
            markdown_link(&escape_text(&first.report), &report),
        ]);
    }
    table
}

/// Returns the versions that were measured, with a note that others were not.
fn tried_versions(own: &[&Measurement]) -> String {
    let drivers: BTreeSet<String> = own.iter().map(|measurement| measurement.driver()).collect();
    let drivers = drivers.into_iter().collect::<Vec<_>>().join(" and ");
    let software = if own.iter().any(|measurement| measurement.is_of_lines()) {
        let all: BTreeSet<String> = own
            .iter()
            .map(|measurement| measurement.software_in_words())
            .collect();
        all.into_iter().collect::<Vec<_>>().join("; ")
    } else {
        let versions: Vec<String> = libcudart_versions(own)
            .iter()
            .map(|version| name(version))
            .collect();
        format!("libcudart {}", versions.join(", "))
    };
    let (software, drivers) = (to_markdown(&software), to_markdown(&drivers));
    format!(
        "Measured with {software} on driver {drivers}. Other versions, including newer ones, were not measured."
    )
}

/// Returns the measured versions of libcudart, oldest first.
pub(super) fn libcudart_versions(own: &[&Measurement]) -> Vec<Version> {
    let mut versions = BTreeSet::new();
    for measurement in own {
        versions.insert(number(measurement.libcudart()));
    }
    versions.into_iter().collect()
}

/// Returns the number of attempts that count: `5`, or `4 to 5`.
fn attempts(measurements: &[&Measurement]) -> String {
    let mut counts: BTreeSet<u32> = BTreeSet::new();
    let mut is_interrupted = false;
    for measurement in measurements {
        counts.extend(measurement.part.cases.iter().map(attempts_counted));
        is_interrupted |= measurement.interrupted;
    }
    let attempts = match (counts.first(), counts.last()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(least), _) => least.to_string(),
        (None, _) => String::new(),
    };
    if is_interrupted {
        format!("{attempts}, run interrupted")
    } else {
        attempts
    }
}

/// Returns the results of several instances: one word, or the number of values with each result.
fn instances_in_words(scenario: &Scenario, measurements: &[&Measurement]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for measurement in measurements {
        *counts.entry(measurement.verdict_words()).or_default() += 1;
    }
    let values = scenario.instances.len();
    if values == 1 {
        return counts.into_keys().next().unwrap_or_default();
    }
    let mut counted = Vec::new();
    for (word, count) in counts.iter().rev() {
        counted.push(match *count {
            count if count == values && word == DOES_NOT_SHOW => format!("{word} for any value"),
            count if count == values => format!("{word} for every value"),
            1 => format!("{word} for 1 value"),
            count => format!("{word} for {count} values"),
        });
    }
    counted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{measurement, question};

    #[test]
    fn page_states_the_attempts_on_each_model() {
        let mut scenario = question("a/b");
        let mut of_h200 = measurement("a/b", "h200", "NVIDIA H200", [1, 2]);
        of_h200.interrupted = true;
        let measured = [
            measurement("a/b", "h100", "NVIDIA H100 80GB HBM3", [5, 5]),
            measurement("a/b", "h200-again", "NVIDIA H200", [2, 2]),
            of_h200,
        ];
        let own: Vec<&Measurement> = measured.iter().collect();
        assert_eq!(
            attempts_in_words(&scenario, &own),
            "5 + 5 attempts (trap + control) on H100 and 3 + 4 on H200, in 3 runs, 1 of them interrupted"
        );
        // An instance that was added to the file later was not measured.
        let mut added = scenario.instances[0].clone();
        added.name = "a/b[gpu=1]".to_owned();
        scenario.instances.push(added);
        let words = attempts_in_words(&scenario, &own[..1]);
        assert_eq!(words, "0 + 0 attempts (trap + control) on H100, in 1 run");
    }
}
