//! A measured figure that a row prints, and reading it from a report.

use serde_json::{Value, json};

use super::{Evidence, EvidenceSource, is_meant};
use cuda_pitfalls_core::fact::{FactKind, KINDS, Look};
use cuda_pitfalls_core::observation::Observation;
use cuda_pitfalls_core::report::{Outcome, ScenarioReport};
use cuda_pitfalls_core::scenario::Range;
use cuda_pitfalls_core::text::counts::grouped;
use cuda_pitfalls_core::text::units;

/// The fact that has a figure for each output.
const VALUE: &str = "value";

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
    pub fact: Printed,
    /// On which GPU; on each where none is named.
    pub gpu: Option<String>,
    /// Only with a libcudart in this range.
    pub libcudart: Option<Range>,
    /// What the figure is. Empty where its place says it.
    pub says: String,
}

/// What of a case to print, in the words of a scenario's checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Printed {
    /// The fact of a step with this key; of `value`, the output with this name.
    Fact(&'static str, Option<String>),
    /// How long the call took.
    Elapsed,
    /// How the worker ended.
    Exit,
}

impl Printed {
    /// The words for all but outputs.
    pub(super) fn words() -> impl Iterator<Item = &'static str> {
        let facts = KINDS.iter().map(|kind| kind.key).filter(|key| *key != VALUE);
        facts.chain(["elapsed", "exit"])
    }

    /// Reads one of [`Printed::words`], or `value.<name>`.
    pub(super) fn parse(word: &str) -> Option<Printed> {
        match (word, word.split_once('.')) {
            ("elapsed", _) => Some(Printed::Elapsed),
            ("exit", _) => Some(Printed::Exit),
            (_, Some((VALUE, name))) if !name.is_empty() => Some(Printed::Fact(VALUE, Some(name.to_owned()))),
            _ => FactKind::find(word).filter(|kind| kind.key != VALUE).map(|kind| Printed::Fact(kind.key, None)),
        }
    }

    /// The word in files.
    pub fn name(&self) -> String {
        match self {
            Printed::Fact(key, Some(name)) => format!("{key}.{name}"),
            Printed::Fact(key, None) => (*key).to_owned(),
            Printed::Elapsed => "elapsed".to_owned(),
            Printed::Exit => "exit".to_owned(),
        }
    }
}

/// A figure and what it was found to be.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureReadings<'a> {
    /// Which.
    pub figure: &'a Figure,
    /// In each report that has it.
    pub readings: Vec<FigureReading>,
}

/// A figure in one report.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureReading {
    /// Where.
    pub place: EvidenceSource,
    /// In words.
    pub text: String,
    /// Exactly: bytes, nanoseconds, a name, a list, or an object by GPU.
    pub value: Value,
}

impl<'a> FigureReadings<'a> {
    /// Looks a figure up in every report that answered its question.
    pub(super) fn of(figure: &'a Figure, evidence: &Evidence) -> FigureReadings<'a> {
        let answered = evidence.of(&figure.scenario).filter(|(place, scenario)| {
            scenario.verdict.kind.is_conclusive() && is_meant(figure.libcudart.as_ref(), place.libcudart.as_deref())
        });
        let readings = answered.filter_map(|(place, scenario)| {
            let (text, value) = read(figure, scenario.case(&figure.case)?.outcomes.first()?)?;
            Some(FigureReading { place, text, value })
        });
        FigureReadings { figure, readings: readings.collect() }
    }

    /// The different readings in words, each with the places that have it.
    pub fn distinct(&self) -> Vec<(&str, Vec<&EvidenceSource>)> {
        grouped(self.readings.iter().map(|reading| (reading.text.as_str(), &reading.place)))
    }
}

/// Whether a figure is this in every outcome; none if it could not be read.
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
    let Observation { end, .. } = &outcome.observation;
    let look = || Look::at(&outcome.observation, &figure.at);
    match &figure.fact {
        Printed::Exit => Some((format!("ended {end}"), json!(end))),
        Printed::Elapsed => look().map(|Look { step, .. }| (units::duration(step.elapsed_ns), json!(step.elapsed_ns))),
        Printed::Fact(key, name) => {
            let seen = FactKind::find(key)?.seen;
            seen(&look()?, name.as_deref().or(figure.gpu.as_deref())).map(|seen| (seen.words, seen.exact))
        }
    }
}
