//! What committed reports show about the scenarios as they are today.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::judge::{self, Facts, planned_today};
use cuda_pitfalls::machine::Machine;
use cuda_pitfalls::observe::Scene;
use cuda_pitfalls::render::words;
use cuda_pitfalls::report::{CaseReport, Report, ScenarioReport};
use cuda_pitfalls::scenario::python::with_needed;
use cuda_pitfalls::scenario::{Check, Instance, Scenario};
use cuda_pitfalls::summary::Basis;
use cuda_pitfalls::text::versions::number;
use cuda_pitfalls::verdict::{Kind, Provenance, Verdict};

use super::prose::{escaped, link, paragraph, prose};
use super::table::Table;

/// The libcudart that tables of one measurement are from, where there is a choice.
const USUAL_LIBCUDART: &str = "13.0";
/// And the number of GPUs: the fewest on which one can be used and another not.
const USUAL_GPUS: usize = 2;

/// One instance of a scenario as one report has it, judged by what the file says today.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The folder of the report, below `reports/`.
    pub report: String,
    /// When its run was started.
    pub started_at: String,
    /// The machine it is from.
    pub machine: Machine,
    /// Whether no other process was on its GPUs.
    pub alone: bool,
    /// Whether its run ended before it was through.
    pub interrupted: bool,
    /// The verdict that the report holds, on the question as it was asked then.
    pub then: Verdict,
    /// What of the question is not today's, in words: another effect, other cases.
    pub changed: Option<&'static str>,
    /// What was measured, without the calls and readings of its attempts.
    pub part: ScenarioReport,
}

/// What a report says about these scenarios. What was not run, was simulated, or was measured with
/// other calls than the file has today is left out.
pub fn measurements(scenarios: &[Scenario], name: &str, report: &Report) -> Vec<Measurement> {
    let figures = report.run.calibrations();
    let scene = Scene { calibration: &figures, gpus: &report.machine.gpus };
    let is_run =
        |part: &&ScenarioReport| part.verdict.kind != Kind::Skipped && part.verdict.provenance == Provenance::Measured;
    let judged = report.scenarios.iter().filter(is_run).filter_map(|part| {
        let scenario = scenarios.iter().find(|scenario| scenario.name == part.scenario)?;
        let today = planned_today(scenario, report, part)?;
        let mut part = part.clone();
        let then = part.verdict.clone();
        let asked = part.plan.as_ref().map(|plan| effect(&plan.effect)).unwrap_or_default();
        let changed = if today.compares_others() {
            Some("other cases compared")
        } else {
            (asked != effect(&today.plan.effect)).then_some("another effect")
        };
        today.rename(&mut part.cases);
        let plan = today.plan;
        let facts = Facts::new(&report.machine, part.libcudart.as_ref(), &plan, report.provenance);
        part.verdict = judge::judge(&plan, &mut part.cases, &scene, &facts);
        part.plan = Some(plan);
        for attempt in part.cases.iter_mut().flat_map(|case| &mut case.attempts) {
            attempt.recording.events.clear();
            attempt.recording.sweeps.clear();
            attempt.recording.free_run = None;
        }
        Some((part, then, changed))
    });
    let measurement = |(part, then, changed)| Measurement {
        report: name.to_owned(),
        started_at: report.run.started_at.clone(),
        machine: report.machine.clone(),
        alone: report.run.co_tenants.is_empty(),
        interrupted: report.run.interrupted.is_some() || !report.complete,
        then,
        changed,
        part,
    };
    judged.map(measurement).collect()
}

/// What an effect asks for, without where it stands in the file.
fn effect(checks: &[Check]) -> Vec<(&str, String, String)> {
    checks.iter().map(|check| (check.at.as_str(), format!("{:?}", check.facts), format!("{:?}", check.when))).collect()
}

/// On what the answer to each question rests: every run that came to a verdict on it.
pub fn bases(measured: &[Measurement]) -> BTreeMap<String, Basis> {
    let mut by: BTreeMap<&str, Vec<&Measurement>> = BTreeMap::new();
    for one in measured.iter().filter(|one| one.is_conclusive()) {
        by.entry(&one.part.scenario).or_default().push(one);
    }
    by.into_iter().map(|(name, of)| (name.to_owned(), basis(&of))).collect()
}

fn basis(of: &[&Measurement]) -> Basis {
    let attempts: Vec<u32> = of.iter().flat_map(|one| one.part.cases.iter().filter(decides).map(counted)).collect();
    let runs: BTreeMap<&str, bool> = of.iter().map(|one| (one.report.as_str(), one.interrupted)).collect();
    let machines: BTreeSet<(usize, String)> = of.iter().map(|one| (one.machine.gpus.len(), one.gpus())).collect();
    let mut newest: BTreeMap<String, String> = BTreeMap::new();
    for (name, version) in of.iter().flat_map(|one| one.versions()) {
        let known = newest.entry(name).or_default();
        if number(&version) > number(known) {
            *known = version;
        }
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Basis {
        least: attempts.iter().copied().min().unwrap_or_default(),
        most: attempts.iter().copied().max().unwrap_or_default(),
        runs: count(runs.len()),
        interrupted: count(runs.values().filter(|interrupted| **interrupted).count()),
        machines: machines.into_iter().map(|(_, machine)| machine).collect(),
        newest: newest.into_iter().map(|(name, version)| format!("{name} {version}")).collect(),
    }
}

fn decides(case: &&CaseReport) -> bool {
    matches!(case.name.as_str(), "trap" | "control")
}

/// How many attempts at a case count.
fn counted(case: &CaseReport) -> u32 {
    case.outcomes.iter().map(|outcome| outcome.count).sum()
}

impl Measurement {
    /// The version of libcudart.
    pub(super) fn libcudart(&self) -> &str {
        self.part.libcudart.as_ref().and_then(|runtime| runtime.version.as_deref()).unwrap_or("unknown")
    }

    /// What the calls or the lines ran on, beside the driver: libcudart, or the interpreter and those packages
    /// that the lines need.
    pub(super) fn software(&self) -> String {
        let cases = self.part.plan.iter().flat_map(|plan| &plan.cases);
        let needs = cases.filter_map(|case| case.python.as_ref()).flat_map(|it| &it.needs);
        let Some(python) = self.machine.python.as_ref().filter(|_| self.is_of_lines()) else {
            return format!("libcudart {}", self.libcudart());
        };
        format!("Python {}{}", python.version, words::packages(&with_needed(needs, python)))
    }

    /// The packages that its lines need, or libcudart, each with the version that was measured.
    fn versions(&self) -> Vec<(String, String)> {
        let cases = self.part.plan.iter().flat_map(|plan| &plan.cases);
        let needs = cases.filter_map(|case| case.python.as_ref()).flat_map(|it| &it.needs);
        let Some(python) = self.machine.python.as_ref().filter(|_| self.is_of_lines()) else {
            return vec![("libcudart".to_owned(), self.libcudart().to_owned())];
        };
        let packages = with_needed(needs, python).packages.into_iter();
        let found: Vec<(String, String)> = packages.filter_map(|(name, version)| Some((name, version?))).collect();
        if found.is_empty() { vec![("Python".to_owned(), python.version.clone())] } else { found }
    }

    /// Whether lines of Python were measured.
    pub(super) fn is_of_lines(&self) -> bool {
        self.part.plan.iter().flat_map(|plan| &plan.cases).any(|case| case.python.is_some())
    }

    /// Whether it came to a verdict.
    fn is_conclusive(&self) -> bool {
        self.part.verdict.kind.is_conclusive()
    }

    /// Whether the report holds another verdict than today's question makes of its attempts.
    pub fn is_asked_otherwise(&self) -> bool {
        self.then.kind != self.part.verdict.kind
    }

    /// Whether the pitfall showed, with what the report itself says where that is not the same, and with what was
    /// another then where it is.
    pub fn told(&self) -> String {
        let now = happened(&self.part.verdict);
        if !self.is_asked_otherwise() {
            return self.changed.map_or(now.clone(), |changed| format!("{now} ({changed} then)"));
        }
        format!("{now} (as asked then: {}; {})", happened(&self.then), self.changed.unwrap_or("judged by older rules"))
    }

    /// The driver's version.
    pub(super) fn driver(&self) -> &str {
        self.machine.driver_version.as_deref().unwrap_or("unknown")
    }

    /// The GPUs in words: `2 × NVIDIA H200`.
    pub(super) fn gpus(&self) -> String {
        let names: BTreeSet<&str> =
            self.machine.gpus.iter().map(|gpu| gpu.name.as_deref().unwrap_or("unknown GPU")).collect();
        let names: Vec<&str> = names.into_iter().collect();
        format!("{} × {}", self.machine.gpus.len(), prose(&names.join(" and ")))
    }
}

/// What the latest conclusive measurement of an instance says: on two GPUs where it was measured on them, and
/// of calls on the usual libcudart.
pub fn verdict_of(measured: &[Measurement], instance: &str) -> Option<Kind> {
    let of_it = measured.iter().filter(|one| one.part.name == instance);
    let usual = of_it.filter(|one| one.is_of_lines() || one.libcudart() == USUAL_LIBCUDART);
    let conclusive = usual.filter(|one| one.part.verdict.kind.is_conclusive());
    let latest = conclusive.max_by_key(|one| (one.machine.gpus.len() == USUAL_GPUS, &one.started_at));
    latest.map(|one| one.part.verdict.kind)
}

const DOES_NOT_SHOW: &str = "does not show";

/// Whether the pitfall showed, in words.
pub(super) fn happened(verdict: &Verdict) -> String {
    let reason = || verdict.reason.map(|reason| reason.name().replace('_', " ")).unwrap_or_default();
    match verdict.kind {
        Kind::Reproduced => "shows".to_owned(),
        Kind::NotReproduced => DOES_NOT_SHOW.to_owned(),
        Kind::Inconclusive => format!("open: {}", reason()),
        Kind::Skipped => format!("not run: {}", reason()),
        Kind::HarnessError => format!("failed: {}", reason()),
    }
}

/// The one report and libcudart that tables of what was seen are from.
pub(super) struct Reference<'m> {
    /// Its measurements of the scenario, in the order of its instances.
    pub(super) of: Vec<&'m Measurement>,
}

impl<'m> Reference<'m> {
    /// The usual machine and libcudart if they were measured, with no other process there, and the latest report of those.
    pub(super) fn of(scenario: &Scenario, own: &[&'m Measurement]) -> Reference<'m> {
        let rank = |one: &Measurement| {
            let is_usual = (one.alone, one.machine.gpus.len() == USUAL_GPUS, one.libcudart() == USUAL_LIBCUDART);
            (is_usual, one.started_at.clone(), one.report.clone(), one.libcudart().to_owned())
        };
        let best = own.iter().map(|one| rank(one)).max();
        let same = |name: &str| own.iter().find(|one| one.part.name == name && Some(rank(one)) == best).copied();
        Reference { of: scenario.instances.iter().filter_map(|instance| same(&instance.name)).collect() }
    }

    /// The measurement to show in full: the first in which the pitfall is there, or else the first.
    pub(super) fn shown(&self) -> Option<&'m Measurement> {
        let there = self.of.iter().find(|one| one.part.verdict.kind == Kind::Reproduced);
        there.or(self.of.first()).copied()
    }

    /// The instance that was measured so, or the first.
    pub(super) fn instance<'s>(&self, scenario: &'s Scenario) -> Option<&'s Instance> {
        let shown = self.shown();
        let is_shown = |instance: &&Instance| shown.is_some_and(|shown| shown.part.name == instance.name);
        scenario.instances.iter().find(is_shown).or(scenario.instances.first())
    }
}

/// The table of machines, a row for each report and libcudart.
pub(super) fn section(out: &mut String, scenario: &Scenario, own: &[&Measurement]) {
    out.push_str("\n## Measured\n");
    if own.is_empty() {
        out.push_str("\nNot measured yet.\n");
        return;
    }
    let key = |one: &Measurement| {
        let number = one.part.libcudart.as_ref().and_then(|it| it.number);
        (one.machine.gpus.len(), number, one.report.clone())
    };
    let mut rows: Vec<_> = own.iter().map(|one| key(one)).collect();
    rows.sort();
    rows.dedup();
    let conclusive: Vec<&Measurement> = own.iter().filter(|one| one.is_conclusive()).copied().collect();
    if !conclusive.is_empty() {
        paragraph(out, &format!("The answer rests on {}.", prose(&basis(&conclusive).sentence())));
    }
    let software = if scenario.has_python_lines() { "Python" } else { "libcudart" };
    let mut table = Table::new(["machine", "driver", software, "attempts of each case", "the pitfall", "report"]);
    for row in rows {
        let of: Vec<&Measurement> = own.iter().filter(|one| key(one) == row).copied().collect();
        let Some(first) = of.first() else { continue };
        let report = format!("../../../reports/{}/report.json", first.report);
        table.row([
            first.gpus(),
            prose(first.driver()),
            prose(first.software().trim_start_matches(&format!("{software} "))),
            attempts(&of),
            together(scenario, &of),
            link(&escaped(&first.report), &report),
        ]);
    }
    table.write(out);
    let mut notes = "“Shows” means: in every attempt of the trap, and in none of the control.".to_owned();
    if own.iter().any(|one| one.is_asked_otherwise()) {
        notes.push_str(
            " “As asked then” is the verdict that the report holds: the question was changed after it was asked, and \
             the word before it is what today's question makes of the same recorded attempts.",
        );
    }
    paragraph(out, &notes);
}

/// How many attempts count: `5`, or `4 to 5`.
fn attempts(of: &[&Measurement]) -> String {
    let counts: Vec<u32> = of.iter().flat_map(|one| &one.part.cases).map(counted).collect();
    let attempts = match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(least), _) => least.to_string(),
        (None, _) => String::new(),
    };
    if of.iter().any(|one| one.interrupted) { format!("{attempts}, run interrupted") } else { attempts }
}

/// What several instances showed: one word, or how many values showed which.
fn together(scenario: &Scenario, of: &[&Measurement]) -> String {
    let all: Vec<String> = of.iter().map(|one| one.told()).collect();
    if scenario.instances.len() == 1 {
        return all.first().cloned().unwrap_or_default();
    }
    let different: BTreeSet<&String> = all.iter().collect();
    let counted = |word: &&String| match all.iter().filter(|other| other == word).count() {
        count if count == scenario.instances.len() && *word == DOES_NOT_SHOW => format!("{word} for any value"),
        count if count == scenario.instances.len() => format!("{word} for every value"),
        1 => format!("{word} for 1 value"),
        count => format!("{word} for {count} values"),
    };
    different.iter().rev().map(counted).collect::<Vec<_>>().join(", ")
}
