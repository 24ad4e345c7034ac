//! A measured figure that a row prints, and reading it from a report.

use serde_json::{Value, json};

use super::{Evidence, Place, is_meant};
use crate::observe::{MemoryObservation, StepObservation, words};
use crate::report::{Outcome, ScenarioReport};
use crate::scenario::Range;
use crate::text::counts::grouped;
use crate::text::units;

/// Which figure to print: a fact of one step of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The instance.
    pub scenario: String,
    /// The case.
    pub case: String,
    /// The label of the step; empty for how the worker ended.
    pub at: String,
    /// What of it.
    pub fact: Fact,
    /// On which GPU; on each where none is named.
    pub gpu: Option<String>,
    /// Only with a libcudart in this range.
    pub libcudart: Option<Range>,
    /// What the figure is. Empty where its place says it.
    pub says: String,
}

/// What of a step to print, in the words of a scenario's checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// What the call returned.
    Status,
    /// One of its outputs.
    Value(String),
    /// The class of the change of memory since the baseline.
    Memory,
    /// The change of memory since the baseline.
    UsedBytes,
    /// The change of memory since the step before.
    GrownBytes,
    /// The largest change since the step before.
    PeakBytes,
    /// What NVML says of the worker itself.
    ProcessBytes,
    /// The GPUs with an active primary context.
    Contexts,
    /// The GPUs the process sees.
    Visible,
    /// The GPU of the thread's current context.
    Current,
    /// How long the call took.
    Elapsed,
    /// How the worker ended.
    Exit,
}

impl Fact {
    /// The words for all but outputs.
    pub(super) const WORDS: [&str; 11] = [
        "status",
        "memory",
        "used_bytes",
        "grown_bytes",
        "peak_bytes",
        "process_bytes",
        "contexts",
        "visible",
        "current",
        "elapsed",
        "exit",
    ];

    /// Reads a word of [`Fact::WORDS`], or `value.<name>`.
    pub(super) fn parse(word: &str) -> Option<Fact> {
        if let Some(name) = word.strip_prefix("value.") {
            return (!name.is_empty()).then(|| Fact::Value(name.to_owned()));
        }
        Some(match word {
            "status" => Fact::Status,
            "memory" => Fact::Memory,
            "used_bytes" => Fact::UsedBytes,
            "grown_bytes" => Fact::GrownBytes,
            "peak_bytes" => Fact::PeakBytes,
            "process_bytes" => Fact::ProcessBytes,
            "contexts" => Fact::Contexts,
            "visible" => Fact::Visible,
            "current" => Fact::Current,
            "elapsed" => Fact::Elapsed,
            "exit" => Fact::Exit,
            _ => return None,
        })
    }

    /// The word in files.
    pub fn name(&self) -> String {
        let word = match self {
            Fact::Value(name) => return format!("value.{name}"),
            Fact::Status => "status",
            Fact::Memory => "memory",
            Fact::UsedBytes => "used_bytes",
            Fact::GrownBytes => "grown_bytes",
            Fact::PeakBytes => "peak_bytes",
            Fact::ProcessBytes => "process_bytes",
            Fact::Contexts => "contexts",
            Fact::Visible => "visible",
            Fact::Current => "current",
            Fact::Elapsed => "elapsed",
            Fact::Exit => "exit",
        };
        word.to_owned()
    }
}

/// A figure and what it was found to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Read<'a> {
    /// Which.
    pub figure: &'a Figure,
    /// In each report that has it.
    pub readings: Vec<Reading>,
}

/// A figure in one report.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Where.
    pub place: Place,
    /// In words.
    pub text: String,
    /// Exactly: bytes, nanoseconds, a name, a list, or an object by GPU.
    pub value: Value,
}

impl<'a> Read<'a> {
    /// Looks a figure up in every report that answered its question.
    pub(super) fn of(figure: &'a Figure, evidence: &Evidence) -> Read<'a> {
        let answered = evidence.of(&figure.scenario).filter(|(place, scenario)| {
            scenario.verdict.kind.is_conclusive() && is_meant(figure.libcudart.as_ref(), place.libcudart.as_deref())
        });
        let readings = answered.filter_map(|(place, scenario)| {
            let (text, value) = read(figure, scenario.case(&figure.case)?.outcomes.first()?)?;
            Some(Reading { place, text, value })
        });
        Read { figure, readings: readings.collect() }
    }

    /// The different readings in words, each with the places that have it.
    pub fn distinct(&self) -> Vec<(&str, Vec<&Place>)> {
        grouped(self.readings.iter().map(|reading| (reading.text.as_str(), &reading.place)))
    }
}

/// Whether a figure is this in every outcome; none where it could not be read.
pub(super) fn is(figure: &Figure, scenario: &ScenarioReport, wanted: &Value) -> Option<bool> {
    let outcomes = &scenario.case(&figure.case)?.outcomes;
    let mut all = (!outcomes.is_empty()).then_some(true);
    for outcome in outcomes {
        let (_, value) = read(figure, outcome)?;
        // A status is named by its C name; its number stands beside it for the reader.
        let is = value == *wanted || value.get("name").is_some_and(|name| name == wanted);
        all = all.map(|so_far| so_far && is);
    }
    all
}

/// A figure in words and exactly, in one outcome.
fn read(figure: &Figure, outcome: &Outcome) -> Option<(String, Value)> {
    if figure.fact == Fact::Exit {
        let end = &outcome.observation.end;
        return Some((format!("ended {end}"), json!(end)));
    }
    let step = outcome.observation.step(&figure.at)?;
    let gpu = figure.gpu.as_deref();
    match &figure.fact {
        Fact::Status => step.status.as_ref().map(|status| {
            let name = words::status(status);
            (format!("{name} ({})", status.code), json!({ "code": status.code, "name": status.name }))
        }),
        Fact::Value(name) => step
            .values
            .get(name)
            .or_else(|| step.varying.get(name))
            .map(|value| (format!("{name} = {}", words::value(value)), json!(value))),
        Fact::Contexts => step.contexts.as_ref().map(|gpus| match gpus.is_empty() {
            true => ("no context".to_owned(), json!(gpus)),
            false => (format!("contexts {}", gpus.join(",")), json!(gpus)),
        }),
        Fact::Visible => step.visible.as_ref().map(|gpus| (format!("sees {}", words::gpus(gpus)), json!(gpus))),
        Fact::Current => step.current.as_ref().map(|gpu| (format!("current {gpu}"), json!(gpu))),
        Fact::Elapsed => Some((units::duration(step.elapsed_ns), json!(step.elapsed_ns))),
        Fact::Memory => {
            let gpu = gpu?;
            let class = step.memory.get(gpu)?.class?.name();
            Some((format!("{gpu} {class}"), json!(class)))
        }
        Fact::UsedBytes => by_gpu(step, gpu, |_, memory| memory.used_bytes, units::delta),
        Fact::GrownBytes => {
            let before = before(outcome, step);
            let grown = |gpu: &str, memory: &MemoryObservation| {
                let before = before.map_or(Some(0), |step| step.memory.get(gpu).and_then(|memory| memory.used_bytes));
                Some(memory.used_bytes?.saturating_sub(before?))
            };
            by_gpu(step, gpu, grown, units::delta)
        }
        Fact::PeakBytes => {
            // No peak of its own means that the larger of the two ends was the largest seen.
            let before = before(outcome, step);
            let peak = |gpu: &str, memory: &MemoryObservation| {
                let before = before.map_or(Some(0), |step| step.memory.get(gpu).and_then(|memory| memory.used_bytes));
                memory.peak_bytes.or_else(|| Some(memory.used_bytes?.max(before?)))
            };
            by_gpu(step, gpu, peak, units::delta)
        }
        Fact::ProcessBytes => {
            let process = |_: &str, memory: &MemoryObservation| i64::try_from(memory.process_bytes?).ok();
            by_gpu(step, gpu, process, |bytes| units::bytes(bytes.unsigned_abs()))
        }
        Fact::Exit => None,
    }
}

/// The step before another; none for the first, before which there is the baseline.
fn before<'o>(outcome: &'o Outcome, step: &StepObservation) -> Option<&'o StepObservation> {
    let steps = &outcome.observation.steps;
    let place = steps.iter().position(|other| other.label == step.label)?;
    steps.get(place.checked_sub(1)?)
}

/// One GPU's figure, or that of each.
fn by_gpu(
    step: &StepObservation,
    gpu: Option<&str>,
    figure: impl Fn(&str, &MemoryObservation) -> Option<i64>,
    words: fn(i64) -> String,
) -> Option<(String, Value)> {
    let word = |bytes: Option<i64>| bytes.map_or_else(|| "not read".to_owned(), words);
    if let Some(gpu) = gpu {
        let bytes = figure(gpu, step.memory.get(gpu)?);
        return Some((format!("{gpu} {}", word(bytes)), json!(bytes)));
    }
    let all: Vec<(&String, Option<i64>)> =
        words::in_order(&step.memory).into_iter().map(|(gpu, memory)| (gpu, figure(gpu, memory))).collect();
    if all.is_empty() {
        return None;
    }
    let texts: Vec<String> = all.iter().map(|(gpu, bytes)| format!("{gpu} {}", word(*bytes))).collect();
    let values: serde_json::Map<String, Value> =
        all.into_iter().map(|(gpu, bytes)| (gpu.clone(), json!(bytes))).collect();
    Some((texts.join(", "), Value::Object(values)))
}
