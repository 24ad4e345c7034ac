//! A measured figure that a row prints, and how to read it from a report.

use serde_json::{Value, json};

use super::{Evidence, EvidenceSource, is_meant};
use cuda_pitfalls_core::fact::{FactKind, KINDS, Look};
use cuda_pitfalls_core::observation::Observation;
use cuda_pitfalls_core::report::{Outcome, ScenarioReport};
use cuda_pitfalls_core::scenario::Range;
use cuda_pitfalls_core::text::counts::grouped;
use cuda_pitfalls_core::text::units;

/// The fact with a figure for each output.
const VALUE: &str = "value";

/// A figure to print: a fact of one step of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The instance.
    pub scenario: String,
    /// The case.
    pub case: String,
    /// The label of the step; empty for how the worker ended.
    pub at: String,
    /// The kind of fact.
    pub fact: Printed,
    /// The GPU; `None` for each GPU.
    pub gpu: Option<String>,
    /// Only measurements with a libcudart in this range count; `None` for any.
    pub libcudart: Option<Range>,
    /// A description of the figure; empty if its place in the row describes it.
    pub says: String,
}

/// What to print of a case, in the words of a scenario's checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Printed {
    /// The fact of a step with this key; for `value`, also the name of the output.
    Fact(&'static str, Option<String>),
    /// How long the call took.
    Elapsed,
    /// How the worker ended.
    Exit,
}

impl Printed {
    /// The words of all kinds but outputs.
    pub(super) fn words() -> impl Iterator<Item = &'static str> {
        let facts = KINDS.iter().map(|kind| kind.key).filter(|key| *key != VALUE);
        facts.chain(["elapsed", "exit"])
    }

    /// Parses one of [`Printed::words`], or `value.<name>`.
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

/// A figure and its values in reports.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureReadings<'a> {
    /// The figure.
    pub figure: &'a Figure,
    /// Its value in each report that has it.
    pub readings: Vec<FigureReading>,
}

/// The value of a figure in one report.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureReading {
    /// Where it was measured.
    pub place: EvidenceSource,
    /// The value in words.
    pub text: String,
    /// The exact value: bytes, nanoseconds, a name, a list, or an object by GPU.
    pub value: Value,
}

impl<'a> FigureReadings<'a> {
    /// Reads a figure in every report that answered its question.
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

    /// The distinct values in words, each with the places where it was measured.
    pub fn distinct(&self) -> Vec<(&str, Vec<&EvidenceSource>)> {
        grouped(self.readings.iter().map(|reading| (reading.text.as_str(), &reading.place)))
    }
}

/// Whether a figure has this value in every outcome; `None` if it could not be read.
pub(super) fn is(figure: &Figure, scenario: &ScenarioReport, wanted: &Value) -> Option<bool> {
    let outcomes = &scenario.case(&figure.case)?.outcomes;
    let mut all = (!outcomes.is_empty()).then_some(true);
    for outcome in outcomes {
        let (_, value) = read(figure, outcome)?;
        // A status is compared by its C name; its number is only for the reader.
        let holds = value == *wanted || value.get("name").is_some_and(|name| name == wanted);
        all = all.map(|so_far| so_far && holds);
    }
    all
}

/// A figure in one outcome: in words, and exactly.
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
