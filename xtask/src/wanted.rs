//! The attempts that the evidence still lacks: `cargo xtask evidence --wanted`.
//!
//! The goal is [`GOAL`] attempts of every case on each model of GPU, and [`FEWEST`] of cases with Python lines.
//! Attempts of different reports add up. Compact reports have no calls to compare with today's, so they do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use cuda_pitfalls::plan::FEWEST;
use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::text::counts::counted;

use crate::page::{Measurement, attempts_counted, case_attempts};

/// The attempts of each case that an answer needs on each model.
const GOAL: u32 = 5;
/// The longest batch of several questions: a run that is interrupted loses at most this.
const BATCH: Duration = Duration::from_secs(60);
/// The time of a run before its first attempt, with calibration.
const START: Duration = Duration::from_millis(2_500);
/// The time of an attempt of a case that was never measured.
const UNKNOWN: Duration = Duration::from_secs(2);

/// The options of `evidence --wanted`.
#[derive(Clone, Debug, Default)]
pub struct WantedOptions {
    model: Option<String>,
    /// The number of GPUs of the machine; questions that need more are left out.
    gpus: Option<u32>,
    /// Leaves out questions with Python lines.
    no_frameworks: bool,
    /// Questions that were first measured on this day or later are new.
    since: Option<String>,
    selectors: bool,
}

impl WantedOptions {
    /// Returns the options; `None` if one is unknown or lacks its value.
    pub fn parse(arguments: &[String]) -> Option<WantedOptions> {
        let mut options = WantedOptions::default();
        let mut left = arguments.iter();
        while let Some(argument) = left.next() {
            match argument.as_str() {
                "--model" => options.model = Some(left.next()?.clone()),
                "--since" => options.since = Some(left.next()?.clone()),
                "--gpus" => options.gpus = Some(left.next()?.parse().ok()?),
                "--no-frameworks" => options.no_frameworks = true,
                "--selectors" => options.selectors = true,
                _ => return None,
            }
        }
        Some(options)
    }

    fn has_question(&self, scenario: &Scenario) -> bool {
        let has_gpus = self.gpus.is_none_or(|gpus| scenario.needs.gpus <= gpus);
        has_gpus && !(self.no_frameworks && scenario.has_python_lines())
    }
}

/// The value of a run, the most valuable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gain {
    /// The answer rests on at most one report.
    SecondReport,
    /// The model has fewer than [`FEWEST`] attempts of a case.
    Fewest,
    /// Fewer attempts than the goal were made on the model.
    Goal,
}

impl Gain {
    const fn gain_in_words(self) -> &'static str {
        match self {
            Gain::SecondReport => "answers on one report alone, or on none",
            Gain::Fewest => "to 3 attempts on this model",
            Gain::Goal => "to the goal on this model",
        }
    }
}

/// A question, and the measurements whose attempts count for its answer.
struct AskedQuestion<'m> {
    scenario: &'m Scenario,
    measured: Vec<&'m Measurement>,
}

impl<'m> AskedQuestion<'m> {
    fn goal_attempts(&self) -> u32 {
        if self.scenario.has_python_lines() {
            FEWEST
        } else {
            GOAL
        }
    }

    /// Returns the names of the cases, each with the name of its instance.
    fn case_names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.scenario.instances.iter().flat_map(|instance| {
            let cases = instance.cases.iter();
            cases.map(|case| (instance.name.as_str(), case.name.as_str()))
        })
    }

    /// Returns the attempts of the case with the fewest, in the measurements that `counts` accepts.
    fn least_attempts(&self, counts: impl Fn(&Measurement) -> bool) -> u32 {
        let mut measured = self.measured.clone();
        measured.retain(|measurement| counts(measurement));
        let names: BTreeSet<&str> = self.case_names().map(|(_, case)| case).collect();
        let counts = names
            .iter()
            .map(|case| case_attempts(self.scenario, &measured, case));
        counts.flatten().min().unwrap_or_default()
    }

    fn attempts_on(&self, model: &str) -> u32 {
        self.least_attempts(|measurement| measurement.gpu_model() == model)
    }

    /// Returns the attempts of the case with the fewest in one report on the model, in the report where it has most.
    fn most_in_one_run(&self, model: &str) -> u32 {
        let mut most = 0;
        for report in self.report_names() {
            let attempts =
                self.least_attempts(|one| one.report == report && one.gpu_model() == model);
            most = most.max(attempts);
        }
        most
    }

    fn report_names(&self) -> BTreeSet<&'m str> {
        let measured = self.measured.iter();
        measured.map(|one| one.report.as_str()).collect()
    }

    /// Returns the duration of one attempt of each case: their mean on the model, otherwise on any.
    fn round_duration(&self, model: &str) -> Duration {
        let mut round = Duration::ZERO;
        for (instance, case) in self.case_names() {
            let (mut own, mut any) = (Vec::new(), Vec::new());
            for measurement in &self.measured {
                let Some(case) = measurement.part.case(case) else {
                    continue;
                };
                if measurement.part.name != instance {
                    continue;
                }
                let walls = case.attempts.iter().map(|one| one.recording.wall_ns);
                if measurement.gpu_model() == model {
                    own.extend(walls.clone());
                }
                any.extend(walls);
            }
            let known = if own.is_empty() { any } else { own };
            let sum = Duration::from_nanos(known.iter().sum());
            let count = u32::try_from(known.len()).unwrap_or(u32::MAX);
            round += sum.checked_div(count).unwrap_or(UNKNOWN);
        }
        round
    }

    /// Returns what a machine must have for it: `2 GPUs, torch`.
    fn needs_in_words(&self) -> String {
        let mut needs = vec![counted(self.scenario.needs.gpus, "GPU")];
        let cases = self.scenario.instances.iter().flat_map(|one| &one.cases);
        let lines = cases.flat_map(|case| &case.python);
        let packages: BTreeSet<&String> = lines.flat_map(|python| &python.needs).collect();
        needs.extend(packages.into_iter().cloned());
        needs.join(", ")
    }

    /// Returns `true` if it was first measured on this day or later, or never.
    fn is_new(&self, since: &str) -> bool {
        let starts = self.measured.iter().map(|one| one.started_at.as_str());
        starts.min().is_none_or(|first| first >= since)
    }

    /// Returns the runs that it lacks on a model.
    fn missing_runs(&'m self, model: &str) -> Vec<WantedRun<'m>> {
        let attempts = self.attempts_on(model);
        let mut steps = Vec::new();
        let first = FEWEST.saturating_sub(attempts);
        if self.report_names().len() < 2 {
            // Also if that report is of this model: another run may be on another machine.
            steps.push((Gain::SecondReport, FEWEST));
        } else if first > 0 {
            steps.push((Gain::Fewest, first));
        }
        let planned: u32 = steps.iter().map(|(_, repeat)| repeat).sum();
        let rest = self.goal_attempts().saturating_sub(attempts + planned);
        if rest > 0 {
            steps.push((Gain::Goal, rest));
        }
        let round = self.round_duration(model);
        let runs = steps.into_iter().map(|(gain, repeat)| WantedRun {
            question: self,
            attempts,
            gain,
            repeat,
            duration: round * repeat,
        });
        runs.collect()
    }
}

/// A question to run again with this many attempts of each case.
struct WantedRun<'m> {
    question: &'m AskedQuestion<'m>,
    /// The attempts on the model that were made.
    attempts: u32,
    gain: Gain,
    repeat: u32,
    duration: Duration,
}

impl WantedRun<'_> {
    fn batch_kind(&self) -> BatchKind {
        let scenario = self.question.scenario;
        let mut options = format!("--repeat {}", self.repeat);
        for hazard in &scenario.hazards {
            let _ = write!(options, " --allow {}", hazard.name());
        }
        BatchKind {
            gain: self.gain,
            gpus: scenario.needs.gpus.max(1),
            is_framework: scenario.has_python_lines(),
            options,
        }
    }
}

/// What the questions of one `cuda-pitfalls run` have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct BatchKind {
    gain: Gain,
    gpus: u32,
    is_framework: bool,
    options: String,
}

/// The questions of one `cuda-pitfalls run`.
struct Batch<'m> {
    kind: BatchKind,
    runs: Vec<WantedRun<'m>>,
}

impl Batch<'_> {
    fn whole_duration(&self) -> Duration {
        START + self.runs.iter().map(|run| run.duration).sum::<Duration>()
    }

    /// Returns the time per question. One that was never measured on the model counts twice.
    fn duration_per_value(&self) -> Duration {
        let values = self.runs.iter().map(|run| 1 + u32::from(run.attempts == 0));
        self.whole_duration() / values.sum::<u32>().max(1)
    }

    /// Returns the arguments of `cuda-pitfalls run`.
    fn run_arguments(&self) -> String {
        let mut arguments = self.kind.options.clone();
        for run in &self.runs {
            let _ = write!(arguments, " {}", run.question.scenario.name);
        }
        arguments
    }
}

/// Returns the runs in batches, the most valuable per second first.
fn make_batches(runs: Vec<WantedRun<'_>>) -> Vec<Batch<'_>> {
    let mut kinds: BTreeMap<BatchKind, Vec<WantedRun<'_>>> = BTreeMap::new();
    for run in runs {
        kinds.entry(run.batch_kind()).or_default().push(run);
    }
    let mut batches: Vec<Batch<'_>> = Vec::new();
    for (kind, mut runs) in kinds {
        runs.sort_by_key(|run| (run.attempts > 0, run.duration));
        for run in runs {
            match batches.last_mut() {
                Some(last)
                    if last.kind == kind && last.whole_duration() + run.duration <= BATCH =>
                {
                    last.runs.push(run);
                }
                _ => batches.push(Batch {
                    kind: kind.clone(),
                    runs: vec![run],
                }),
            }
        }
    }
    batches.sort_by_key(|batch| (batch.kind.gain, batch.duration_per_value()));
    batches
}

/// Returns the questions with the measurements that count for their answers.
fn asked_questions<'m>(
    scenarios: &'m [Scenario],
    measured: &'m [Measurement],
) -> Vec<AskedQuestion<'m>> {
    let mut questions = Vec::new();
    for scenario in scenarios {
        let mut own: Vec<&Measurement> = measured.iter().collect();
        own.retain(|one| one.part.scenario == scenario.name && one.counts_for_answer());
        questions.push(AskedQuestion {
            scenario,
            measured: own,
        });
    }
    questions
}

/// Returns the list of missing attempts, as text.
pub fn list_wanted(
    scenarios: &[Scenario],
    measured: &[Measurement],
    options: &WantedOptions,
) -> String {
    let questions = asked_questions(scenarios, measured);
    let models: BTreeSet<String> = measured.iter().map(Measurement::gpu_model).collect();
    let mut out = String::new();
    if !options.selectors {
        questions
            .iter()
            .for_each(|question| write_attempts(&mut out, question));
    }
    for model in &models {
        if options.model.as_ref().is_some_and(|wanted| wanted != model) {
            continue;
        }
        let mut runs = Vec::new();
        for question in &questions {
            if options.has_question(question.scenario) {
                runs.extend(question.missing_runs(model));
            }
        }
        let batches = make_batches(runs);
        if options.selectors {
            batches
                .iter()
                .for_each(|batch| out += &(batch.run_arguments() + "\n"));
        } else {
            write_batches(&mut out, model, &batches);
        }
    }
    if !options.selectors {
        write_summary(&mut out, &questions, &models, options.since.as_deref());
    }
    out
}

/// Writes the attempts of each case by machine, driver and software.
fn write_attempts(out: &mut String, question: &AskedQuestion<'_>) {
    let reports = counted(question.report_names().len() as u64, "report");
    let _ = writeln!(out, "{}: {reports}", question.scenario.name);
    let mut counts: BTreeMap<(&str, String), BTreeMap<&str, u32>> = BTreeMap::new();
    for measurement in &question.measured {
        let setting = format!(
            "{}, driver {}, {}",
            measurement.gpus(),
            measurement.driver(),
            measurement.software_in_words()
        );
        for case in &measurement.part.cases {
            let by_instance = counts.entry((&case.name, setting.clone())).or_default();
            *by_instance.entry(&measurement.part.name).or_default() += attempts_counted(case);
        }
    }
    for ((case, setting), by_instance) in counts {
        let mut least = by_instance.values().min().copied().unwrap_or_default();
        if by_instance.len() < question.scenario.instances.len() {
            least = 0;
        }
        let _ = writeln!(out, "  {case}: {least} on {setting}");
    }
}

fn write_batches(out: &mut String, model: &str, batches: &[Batch<'_>]) {
    let mut before = Duration::ZERO;
    let _ = writeln!(out, "\nWanted on {model}");
    for batch in batches {
        before += batch.whole_duration();
        let _ = writeln!(
            out,
            "\n{:.0} s, {:.0} s with those before, {}: run {}",
            batch.whole_duration().as_secs_f64(),
            before.as_secs_f64(),
            batch.kind.gain.gain_in_words(),
            batch.kind.options
        );
        for run in &batch.runs {
            let _ = writeln!(
                out,
                "  {:6.1} s  {} ({} of {} attempts, {}, {})",
                run.duration.as_secs_f64(),
                run.question.scenario.name,
                run.attempts,
                run.question.goal_attempts(),
                counted(run.question.report_names().len() as u64, "report"),
                run.question.needs_in_words()
            );
        }
    }
}

/// Writes the numbers of answers by what they rest on.
fn write_summary(
    out: &mut String,
    questions: &[AskedQuestion<'_>],
    models: &BTreeSet<String>,
    since: Option<&str>,
) {
    let (mut answers, mut on_all, mut in_run_on_all) = (0, 0, 0);
    let (mut in_one_run, mut alone) = (0, 0);
    let (mut at_goal, mut new, mut new_on_all) = (0, 0, 0);
    for question in questions {
        let reports = question.report_names();
        let least = models.iter().map(|model| question.attempts_on(model));
        let least = least.min().unwrap_or_default();
        let in_runs: Vec<u32> = models
            .iter()
            .map(|model| question.most_in_one_run(model))
            .collect();
        answers += u32::from(!reports.is_empty());
        on_all += u32::from(least >= FEWEST);
        at_goal += u32::from(least >= question.goal_attempts());
        in_one_run += u32::from(in_runs.iter().any(|run| *run >= GOAL));
        in_run_on_all += u32::from(in_runs.iter().all(|run| *run >= FEWEST));
        alone += u32::from(reports.len() == 1);
        if since.is_some_and(|since| question.is_new(since)) {
            new += 1;
            new_on_all += u32::from(least > 0);
        }
    }
    let names: Vec<&str> = models.iter().map(String::as_str).collect();
    let models = names.join(" and ");
    let _ = writeln!(out, "\nSummary\n");
    let mut rows = vec![
        ("answers".to_owned(), answers),
        (
            format!("{FEWEST} attempts or more of every case on {models}"),
            on_all,
        ),
        ("of these in one run on each".to_owned(), in_run_on_all),
        (format!("the goal on {models}"), at_goal),
        (
            format!("{GOAL} attempts or more of every case in one run"),
            in_one_run,
        ),
        ("on one report alone".to_owned(), alone),
    ];
    if let Some(since) = since {
        rows.push((format!("first measured since {since}, or not yet"), new));
        rows.push((format!("of these measured on {models}"), new_on_all));
    }
    for (what, count) in rows {
        let _ = writeln!(out, "  {count:5}  {what}");
    }
}

#[cfg(test)]
mod tests {
    use cuda_pitfalls::verdict::Kind;

    use super::*;
    use crate::fixture::{measurement, question};

    fn made_up() -> (Vec<Scenario>, Vec<Measurement>) {
        let (h100, h200) = ("NVIDIA H100 80GB HBM3", "NVIDIA H200");
        let mut foreign = measurement("a/two-models", "libcuda", h200, [9, 9]);
        foreign.part.verdict.kind = Kind::HarnessError;
        let measured = vec![
            measurement("a/two-models", "h100", h100, [5, 5]),
            measurement("a/two-models", "h200", h200, [1, 2]),
            measurement("a/two-models", "h200-again", h200, [1, 2]),
            foreign,
            measurement("a/one-report", "h200", h200, [5, 5]),
            measurement("a/full", "h100", h100, [5, 5]),
            measurement("a/full", "h200", h200, [2, 2]),
            measurement("a/full", "h200-again", h200, [3, 3]),
        ];
        let names = ["a/full", "a/two-models", "a/one-report", "a/new"];
        (names.map(question).to_vec(), measured)
    }

    fn list(arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|&one| one.to_owned()).collect();
        let (scenarios, measured) = made_up();
        let options = WantedOptions::parse(&arguments).unwrap();
        list_wanted(&scenarios, &measured, &options)
    }

    #[test]
    fn attempts_of_several_reports_add_up() {
        let list = list(&["--model", "H200", "--selectors"]);
        // The trap with 2 attempts decides, and the failed measurement adds none. `a/full` lacks nothing.
        let expected = [
            "--repeat 3 a/new a/one-report",
            "--repeat 1 a/two-models",
            "--repeat 2 a/new a/two-models",
        ];
        let found: Vec<&str> = list.lines().collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn summary_counts_answers_by_their_evidence() {
        let list = list(&["--since", "2026-11-26"]);
        let (_, summary) = list.split_once("Summary").unwrap();
        let numbers: Vec<&str> = summary
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(
            numbers,
            ["3", "1", "1", "1", "3", "1", "4", "2"],
            "{summary}"
        );
        assert!(list.contains("  trap: 2 on 1 × NVIDIA H200, driver 580.159.04"));
    }

    #[test]
    fn question_beyond_the_machine_is_left_out() {
        let (mut scenarios, measured) = made_up();
        scenarios[3].needs.gpus = 4;
        let options = WantedOptions {
            gpus: Some(2),
            selectors: true,
            ..WantedOptions::default()
        };
        assert!(!list_wanted(&scenarios, &measured, &options).contains("a/new"));
    }
}
