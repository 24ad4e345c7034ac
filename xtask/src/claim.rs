//! Claims of published articles, and docs/claims.md, which compares them with the committed reports.
//!
//! A row of `scenarios/claims/` states a verdict and names the answers that support it. The verdict is shown only while
//! every one of these answers is measured and is as the row says.
//!
//! Pure: texts and reports become Markdown.

mod page;
mod weigh;

pub use page::page;
pub use weigh::{Ledger, Weighed, weigh};

use cuda_pitfalls::experiment::Step;
use cuda_pitfalls::fact::{FactKind, Look, Sight, values_of};
use cuda_pitfalls::observation::Observation;
use cuda_pitfalls::python::{LINE_MESSAGE, LINE_VALUE};
use cuda_pitfalls::scenario::{Expected, Instance, Range, Scalar, Scenario};
use cuda_pitfalls_calls as calls;
use serde::Deserialize;

use crate::TaskError;

/// One published text and its claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Article {
    /// Its title in our words.
    article: String,
    /// Its title as published.
    title: String,
    #[serde(default)]
    author: Option<String>,
    /// The date, such as `2025-05-23`.
    published: String,
    #[serde(default)]
    note: String,
    /// Its claims, in the order of the text.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// One sentence that is true or false.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `S<article>-<number>`.
    pub id: String,
    /// The claim in our words.
    says: String,
    #[serde(default)]
    note: String,
    /// Why no run of this program can decide it; empty if one can.
    #[serde(default)]
    untestable: String,
    /// Why no scenario asks it yet; empty if one does.
    #[serde(default)]
    unmeasured: String,
    verdict: Option<Stated>,
    /// The condition under which a qualified claim holds.
    #[serde(default)]
    condition: String,
    /// The real cause of what people observed.
    #[serde(default)]
    cause: String,
    /// The answers that decide the claim.
    #[serde(default)]
    shown_by: Vec<Expects>,
    /// The answers that show the cause.
    #[serde(default)]
    cause_shown_by: Vec<Expects>,
    /// The figures beside the verdict.
    #[serde(default)]
    pub numbers: Vec<Figure>,
}

/// The verdict that a row states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stated {
    Confirmed,
    Refuted,
    /// True under a condition.
    Qualified,
    /// The claim says what may happen, and it did not happen. Attempts cannot refute such a claim.
    NotSeen,
}

/// The answer that a row needs from a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expects {
    /// A scenario, for all of its instances, or one instance.
    scenario: String,
    #[serde(skip)]
    instances: Vec<String>,
    /// Whether the scenario runs lines of a framework.
    #[serde(skip)]
    in_framework: bool,
    verdict: Expected,
    /// Only answers with a libcudart in this range count.
    libcudart: Option<Range>,
    #[serde(default)]
    case: String,
    #[serde(default)]
    at: String,
    #[serde(default)]
    fact: String,
    gpu: Option<String>,
    /// The fact's value in every outcome of the case. The verdict only compares trap and control.
    is: Option<serde_json::Value>,
    /// What this answer shows about the claim; empty if the scenario's name says it.
    #[serde(default)]
    shows: String,
}

/// A figure to print.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    scenario: String,
    case: String,
    at: String,
    fact: String,
    gpu: Option<String>,
    /// What it is; empty if its place says it.
    #[serde(default)]
    says: String,
}

/// What is looked at: a fact of one step of one case.
#[derive(Clone, Copy, Debug)]
struct FactAddress<'a> {
    case: &'a str,
    /// The label of the step.
    at: &'a str,
    /// The key of a [`FactKind`], or `value.` and the name of a value.
    fact: &'a str,
    gpu: Option<&'a str>,
}

impl Article {
    /// Reads an article's file.
    ///
    /// # Errors
    /// It is not valid, a row is not complete, or a row names what its scenario does not have.
    pub fn parse(source: &str, scenarios: &[Scenario]) -> Result<Article, TaskError> {
        let mut article: Article = toml::from_str(source)?;
        for claim in &mut article.claims {
            claim
                .resolve(scenarios)
                .map_err(|why| format!("{}: {why}", claim.id))?;
        }
        Ok(article)
    }
}

impl Claim {
    /// Finds what the row names.
    fn resolve(&mut self, scenarios: &[Scenario]) -> Result<(), String> {
        if !self.is_complete() {
            let why = "a row has a verdict with all that it needs, or `untestable` or `unmeasured` and nothing else";
            return Err(why.to_owned());
        }
        for expects in self.shown_by.iter_mut().chain(&mut self.cause_shown_by) {
            let instances = instances(&expects.scenario, scenarios)?;
            if [&expects.case, &expects.at, &expects.fact]
                .iter()
                .any(|text| text.is_empty() == expects.is.is_some())
            {
                return Err(format!(
                    "a fact of {} needs `case`, `at`, `fact` and `is`",
                    expects.scenario
                ));
            }
            if expects.is.is_some() {
                instances
                    .iter()
                    .try_for_each(|instance| expects.place().find_in(instance))?;
            }
            expects.in_framework = instances
                .iter()
                .flat_map(|it| &it.cases)
                .any(|case| case.python.is_some());
            expects.instances = instances
                .into_iter()
                .map(|instance| instance.name.clone())
                .collect();
        }
        for figure in &self.numbers {
            match instances(&figure.scenario, scenarios)?[..] {
                [instance] => figure.place().find_in(instance)?,
                _ => {
                    return Err(format!(
                        "a figure needs one instance of {}",
                        figure.scenario
                    ));
                }
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        let has_answers = !self.shown_by.is_empty() && !self.numbers.is_empty();
        let (has_cause, has_condition) = (!self.cause.is_empty(), !self.condition.is_empty());
        let reasons = [&self.untestable, &self.unmeasured]
            .into_iter()
            .filter(|why| !why.is_empty())
            .count();
        has_cause != self.cause_shown_by.is_empty()
            && reasons == usize::from(self.verdict.is_none())
            && has_answers == self.verdict.is_some()
            && has_condition == (self.verdict == Some(Stated::Qualified))
            && match self.verdict {
                Some(Stated::Refuted | Stated::NotSeen) => has_cause,
                Some(Stated::Qualified) => true,
                Some(Stated::Confirmed) | None => !has_cause,
            }
    }

    /// Whether CUDA calls alone decide the claim, without lines of a framework. The articles are about frameworks.
    fn is_of_calls_only(&self) -> bool {
        self.verdict.is_some() && !self.shown_by.iter().any(|answer| answer.in_framework)
    }
}

impl Stated {
    const fn name(self) -> &'static str {
        match self {
            Stated::Confirmed => "confirmed",
            Stated::Refuted => "refuted",
            Stated::Qualified => "qualified",
            Stated::NotSeen => "not seen",
        }
    }
}

impl Expects {
    fn place(&self) -> FactAddress<'_> {
        FactAddress {
            case: &self.case,
            at: &self.at,
            fact: &self.fact,
            gpu: self.gpu.as_deref(),
        }
    }
}

impl Figure {
    fn place(&self) -> FactAddress<'_> {
        FactAddress {
            case: &self.case,
            at: &self.at,
            fact: &self.fact,
            gpu: self.gpu.as_deref(),
        }
    }
}

impl FactAddress<'_> {
    /// Refuses a place that an instance does not have: a renamed step must not leave a claim without its test.
    fn find_in(&self, instance: &Instance) -> Result<(), String> {
        let FactAddress {
            case,
            at,
            fact,
            gpu,
        } = *self;
        let name = &instance.name;
        let found = instance.cases.iter().find(|known| known.name == case);
        let found = found.ok_or_else(|| format!("{name} has no case `{case}`"))?;
        let step = found.steps.iter().find(|step| step.label == at);
        let step = step.ok_or_else(|| format!("{name} has no step `{at}` in its {case}"))?;
        match fact.strip_prefix("value.") {
            Some(value) if !values(step).contains(&value) => Err(format!(
                "{name} has no value `{value}` at `{at}` of its {case}"
            )),
            Some(_) => Ok(()),
            None if fact == "value" || FactKind::find(fact).is_none() => {
                Err(format!("there is no fact `{fact}`"))
            }
            None if fact == "memory" && gpu.is_none() => {
                Err("a class of memory is that of one `gpu`".to_owned())
            }
            None => Ok(()),
        }
    }

    /// What was seen there; `None` if it could not be observed.
    fn seen(&self, observation: &Observation) -> Option<Sight> {
        let (key, name) = self
            .fact
            .split_once('.')
            .map_or((self.fact, self.gpu), |(key, name)| (key, Some(name)));
        (FactKind::find(key)?.seen)(&Look::at(observation, self.at)?, name)
    }
}

/// The instances of this name: one, or all of a scenario.
fn instances<'s>(name: &str, scenarios: &'s [Scenario]) -> Result<Vec<&'s Instance>, String> {
    let all = scenarios.iter().flat_map(|scenario| {
        scenario
            .instances
            .iter()
            .map(move |it| (&scenario.name, it))
    });
    let found: Vec<&Instance> = all
        .filter(|(scenario, it)| *scenario == name || it.name == name)
        .map(|(_, instance)| instance)
        .collect();
    if found.is_empty() {
        Err(format!("there is no scenario `{name}`"))
    } else {
        Ok(found)
    }
}

fn values(step: &Step) -> Vec<&str> {
    let mut names: Vec<&str> = calls::find(&step.call).map(values_of).unwrap_or_default();
    if let Some(Scalar::Text(name)) = step.args.get(LINE_VALUE) {
        names.push(name);
    }
    names.extend(step.python_line().map(|_| LINE_MESSAGE));
    names
}

#[cfg(test)]
mod tests;
