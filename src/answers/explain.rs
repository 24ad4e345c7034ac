//! The answer to words: a symptom, a call, an error, a variable, a line of a framework, a pasted traceback.
//!
//! What comes with the program is looked up: scenarios, the tables of calls and statuses, and the summary of the
//! surveys. [`Explainer`] ranks scenarios by how well they answer, and says how certain that is; docs/explain.md
//! describes how, and how often the right one comes first. Nothing here touches a clock, a file, the environment or a GPU.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod certainty;
mod error;
mod fact;
mod index;
mod query;
mod term;
mod words;

pub use certainty::Certainty;
pub use error::{Advice, ErrorCause, all_advice};
pub use fact::NameFact;
pub use query::Query;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use self::index::{Index, Match};
use crate::releases::LineReleases;
use crate::summary::{Basis, Summary};
use cuda_pitfalls_core::catalogue::essential;
use cuda_pitfalls_core::scenario::symptom::{self, Symptom};
use cuda_pitfalls_core::scenario::{Expected, Instance, Scenario};
use cuda_pitfalls_core::text::counts::tally;
use cuda_pitfalls_trace::diagnosis;

/// The most answers that are shown.
pub const MOST_ANSWERS: usize = 5;
/// A scenario with a smaller share of the words does not answer them.
const LEAST_COVERAGE: f64 = 0.3;
/// A scenario with a smaller share of the best score is not shown.
const LEAST_BESIDE_THE_BEST: f64 = 0.3;
/// Lowers a scenario of CUDA calls, if the query names a framework.
const CALLS_BESIDE_A_FRAMEWORK: f64 = 0.75;
/// Lowers a scenario of a framework, if the query names another one.
const ANOTHER_FRAMEWORK: f64 = 0.5;
/// Lowers a scenario of a framework, if the query names none.
const UNNAMED_FRAMEWORK: f64 = 0.8;
/// Raises a question of the essential set, because people ask these most.
const ASKED_MOST: f64 = 1.1;
/// Lowers a scenario about the instrument itself.
const INSTRUMENT: f64 = 0.6;
/// Lowers a scenario whose answer is no: people meet causes, and ask about them.
const NO_CAUSE: f64 = 0.85;

/// The answers to a query, and what is known of the names in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation<'a> {
    /// What was asked.
    pub query: Query,
    /// How sure it is that the first of them answers.
    pub certainty: Certainty,
    /// The symptom that was asked by its name: all its questions are the answers.
    pub symptom: Option<&'static Symptom>,
    /// What is known of the names.
    pub facts: Vec<NameFact>,
    /// At most [`MOST_ANSWERS`], the likeliest first; of a symptom all.
    pub answers: Vec<ScenarioAnswer<'a>>,
}

impl Explanation<'_> {
    /// What helps against the error that was said, where that is the first answer.
    pub fn first_advice(&self) -> Option<&Advice> {
        self.facts.iter().find_map(NameFact::advice).filter(|_| self.certainty == Certainty::Advised)
    }

    /// The names of what answers, the likeliest first: of errors and messages, and of scenarios.
    pub fn names(&self) -> Vec<String> {
        let (first, last): (Vec<&NameFact>, Vec<&NameFact>) =
            self.facts.iter().partition(|it| self.certainty == Certainty::Advised && it.advice().is_some());
        let scenarios = self.answers.iter().map(|answer| answer.scenario.name.clone());
        first
            .into_iter()
            .filter_map(NameFact::id)
            .chain(scenarios)
            .chain(last.into_iter().filter_map(NameFact::id))
            .collect()
    }
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioAnswer<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// More is better; scores of two queries cannot be compared.
    pub score: f64,
    /// The machines that measured it, in words.
    pub machines: Vec<String>,
    /// The runs that support it; none if nothing was measured.
    pub basis: Option<&'a Basis>,
    /// The lines that decide whether the pitfall can show, with the releases in which they were asked.
    pub releases: Vec<&'a LineReleases>,
}

/// Whether the question of a scenario is answered by yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The pitfall is expected everywhere.
    Yes,
    /// It is expected nowhere.
    No,
    /// It depends on a version or on a value.
    #[serde(rename = "some")]
    Depends,
    /// Nothing was measured.
    #[serde(rename = "open")]
    Unmeasured,
}

impl Word {
    /// As it is printed.
    pub fn name(self) -> String {
        crate::survey::word(self)
    }
}

/// The answer that follows from the expectations of a scenario.
pub fn word(scenario: &Scenario) -> Word {
    let mut verdicts = scenario.instances.iter().flat_map(expected);
    let Some(first) = verdicts.next() else { return Word::Unmeasured };
    match (first, verdicts.all(|other| other == first)) {
        (Expected::Reproduced, true) => Word::Yes,
        (Expected::NotReproduced, true) => Word::No,
        (_, false) => Word::Depends,
    }
}

/// The verdicts that an instance expects, without those for values of parameters that it does not have.
fn expected(instance: &Instance) -> impl Iterator<Item = Expected> + '_ {
    instance.expect.iter().filter(|entry| entry.when.may_hold_for(instance)).map(|entry| entry.verdict)
}

/// Scenarios that are ready to be looked up.
pub struct Explainer<'a> {
    scenarios: &'a [Scenario],
    summary: &'a Summary,
    index: Index,
    /// Names of the scenarios that people ask about most.
    asked_most: BTreeSet<String>,
}

impl<'a> Explainer<'a> {
    /// Reads the scenarios once for many queries.
    pub fn new(scenarios: &'a [Scenario], summary: &'a Summary) -> Explainer<'a> {
        let instances = essential::all().into_iter().map(|essential| essential.name);
        let asked_most = instances.filter_map(|name| name.split('[').next().map(str::to_owned)).collect();
        Explainer { scenarios, summary, index: Index::new(scenarios), asked_most }
    }

    /// Looks up a query. Nothing is found where nothing in it is about CUDA's start-up.
    pub fn explain(&self, query: Query) -> Explanation<'a> {
        if let Some(found) = self.by_own_name(&query) {
            return found;
        }
        let facts = fact::facts(&query, self.summary);
        let found = self.ranked(&query, !facts.is_empty());
        let matches: Vec<&Match> = found.iter().take(2).map(|(found, _)| found).collect();
        let certainty = certainty::judge(&query, &facts, &matches, &self.index);
        let best = found.first().map_or(0.0, |(found, _)| found.score);
        let answers = found
            .into_iter()
            .filter(|(found, _)| found.score >= best * LEAST_BESIDE_THE_BEST)
            // Beside the causes of an error stands only what is about the same names.
            .filter(|(found, _)| certainty != Certainty::Advised || self.index.has_name(found.place, &query))
            .take(MOST_ANSWERS)
            .map(|(found, scenario)| self.answer(scenario, found.score));
        let (facts, answers) = match certainty {
            Certainty::Nothing => (Vec::new(), Vec::new()),
            _ => (facts, answers.collect()),
        };
        Explanation { certainty, symptom: None, facts, answers, query }
    }

    /// The answer to one of the program's own names: a scenario, a finding of `trace`, or a symptom.
    fn by_own_name(&self, query: &Query) -> Option<Explanation<'a>> {
        let name = query.said.trim().trim_end_matches(".toml").to_lowercase();
        let rule = diagnosis::rules().iter().find(|rule| rule.name == name);
        let name = rule.map_or(name.as_str(), |rule| rule.scenario.as_str());
        let symptom = symptom::find(name);
        let scenarios: Vec<&'a Scenario> = match symptom {
            Some(symptom) => self.questions(symptom),
            None => {
                let mut all = self.scenarios.iter();
                let named =
                    all.find(|it| it.name == name || it.name.split_once('/').is_some_and(|(_, last)| last == name));
                named.into_iter().collect()
            }
        };
        if scenarios.is_empty() {
            return None;
        }
        let answers = scenarios.into_iter().map(|scenario| self.answer(scenario, 0.0)).collect();
        Some(Explanation { certainty: Certainty::Named, symptom, facts: Vec::new(), answers, query: query.clone() })
    }

    /// The questions of a symptom: what people ask most, yes before no, calls and PyTorch before other frameworks.
    fn questions(&self, symptom: &Symptom) -> Vec<&'a Scenario> {
        let mut found: Vec<&Scenario> =
            self.scenarios.iter().filter(|scenario| scenario.symptoms.contains(&symptom.id)).collect();
        found.sort_by_key(|scenario| {
            let is_asked_most = self.asked_most.contains(&scenario.name);
            let is_of_few =
                scenario.name.starts_with("framework/") && !scenario.tags.iter().any(|tag| tag == "pytorch");
            (word(scenario) == Word::No, !is_asked_most, word(scenario) != Word::Yes, is_of_few)
        });
        found
    }

    fn ranked(&self, query: &Query, has_facts: bool) -> Vec<(Match, &'a Scenario)> {
        // If no scenario has the name, only the surveys know it.
        let is_name = query.is_one_word && has_facts;
        let mut found: Vec<(Match, &'a Scenario)> = self
            .index
            .search(query)
            .into_iter()
            .filter(|found| found.coverage >= LEAST_COVERAGE || query.is_pasted)
            .filter(|found| !is_name || self.index.has_name(found.place, query))
            .filter_map(|found| Some((found, self.scenarios.get(found.place)?)))
            .map(|(found, scenario)| {
                let most = if self.asked_most.contains(&scenario.name) { ASKED_MOST } else { 1.0 };
                let cause = if word(scenario) == Word::No { NO_CAUSE } else { 1.0 };
                (Match { score: found.score * most * cause * suited(query, scenario), ..found }, scenario)
            })
            .collect();
        found.sort_by(|(one, _), (other, _)| other.score.total_cmp(&one.score).then(one.place.cmp(&other.place)));
        found
    }

    fn answer(&self, scenario: &'a Scenario, score: f64) -> ScenarioAnswer<'a> {
        let basis = self.summary.answers.get(&scenario.name);
        let releases = self.summary.releases.iter().filter(|line| line.scenarios.contains(&scenario.name)).collect();
        ScenarioAnswer { scenario, score, machines: self.machines(scenario), basis, releases }
    }

    /// The machines of the reports that support the expected answer, in words, each once.
    fn machines(&self, scenario: &Scenario) -> Vec<String> {
        let entries = scenario.instances.iter().flat_map(|instance| &instance.expect);
        let machines = tally(entries.filter_map(|entry| self.summary.machines.get(&entry.evidence)));
        machines.into_iter().map(|(machine, _)| machine.clone()).collect()
    }
}

/// The factor of a scenario: how well it fits the frameworks and the language of the query.
fn suited(query: &Query, scenario: &Scenario) -> f64 {
    let subject = scenario.name.split('/').next().unwrap_or_default();
    if subject == "instrument" {
        return INSTRUMENT;
    }
    let is_framework = subject == "framework";
    let is_named = query.frameworks.iter().any(|named| scenario.tags.iter().any(|tag| tag == named));
    match (is_framework, query.frameworks.is_empty()) {
        (true, false) if is_named => 1.0,
        (true, false) => ANOTHER_FRAMEWORK,
        (false, false) => CALLS_BESIDE_A_FRAMEWORK,
        (true, true) if query.has_other => ANOTHER_FRAMEWORK,
        (true, true) if query.is_python && !query.is_c => 1.0,
        (true, true) => UNNAMED_FRAMEWORK,
        (false, true) => 1.0,
    }
}

#[cfg(test)]
mod tests;
