//! Answers to free text: a symptom, a call, an error, a variable, a Python line, a pasted traceback.
//!
//! The built-in knowledge is searched in this order: known names, other platforms, command lines, messages and errors,
//! and then the most similar texts with known answers. The first step with a match gives the answer. Only what the text
//! names or reports is claimed as the answer; similar texts are labeled as such. docs/explain.md lists how often the
//! right answer comes first. This module does not use a clock, files, the environment or a GPU.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod advice;
mod claim;
mod command;
mod error;
mod foreign;
mod message;
mod names;
mod nearest;
mod query;
mod term;
mod words;
mod xid;

pub use advice::{Advice, ErrorCause, advice_about, all_advice};
pub use claim::{KnownAnswer, explain_lines, explain_status};
pub use command::scenario_of_mask;
pub use names::measured_code;
pub use nearest::{
    LabelledText, QuestionTexts, Ranking, StoredTexts, entry_texts, make_stored_texts,
};
pub use query::Query;
pub use xid::{Xid, all_xids};

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use self::nearest::NearestTexts;
use crate::known::{Known, KnownEntry, KnownKind, KnownScenario, MOST_ANSWERS, Word};
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::scenario::Scenario;

/// Errors with many causes.
const VAGUE: [&str; 2] = ["error/100", "error/999"];
/// Maximum number of named or reported entries to list.
const MOST_SAID: usize = 2;
/// Minimum share of the best answer's votes for an answer to be listed.
const LEAST_OF_THE_BEST: f64 = 0.2;
/// Minimum share of a symptom's votes for one of its scenarios to replace the symptom's advice.
const OF_ITS_QUESTION: f64 = 0.7;
/// Maximum number of similar answers next to a claimed one.
const MOST_BESIDE_A_CLAIM: usize = 2;
/// Minimum share of similar texts with answers. Below it, a text is about something else.
const LEAST_SHARE: f64 = 0.40;
/// Minimum number of words of a text without any CUDA name. Shorter texts are not significant: `progress` is similar to
/// a capture in progress.
const FEWEST_WORDS: usize = 2;
/// Reduction of the required similarity for a text that names CUDA.
const OF_CUDA: f64 = 0.125;
/// Increase of the required similarity for pasted text.
const OF_PASTED: f64 = 0.13;

/// Certainty that the first answer is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The query is the name of something known.
    Named,
    /// The query contains an error or a message.
    Said,
    /// The query contains an error or a message with known advice.
    Advised,
    /// No exact match; these are the answers of the most similar texts.
    Closest,
    /// No match: the query is not about CUDA's start-up.
    #[default]
    Nothing,
}

impl Certainty {
    /// Returns `true` if the first answer is claimed to be right.
    pub const fn is_claimed(self) -> bool {
        matches!(
            self,
            Certainty::Named | Certainty::Said | Certainty::Advised
        )
    }
}

/// The answers to a query, and entries about the names in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation<'a> {
    /// The query.
    pub query: Query,
    /// Certainty that the first answer is right.
    pub certainty: Certainty,
    /// Entries that the query names or reports, the likeliest first. Only these are claimed.
    pub said: Vec<&'a KnownEntry>,
    /// Errors, messages and symptoms that answer the most similar texts.
    pub near: Vec<&'a KnownEntry>,
    /// Other entries that the query names.
    pub beside: Vec<&'a KnownEntry>,
    /// Scenarios that answer it, at most [`MOST_ANSWERS`], the likeliest first; all scenarios for a symptom.
    pub answers: Vec<ScenarioAnswer<'a>>,
    /// The import in the query, if it was not measured; `None` for other queries.
    pub unmeasured_import: Option<String>,
    /// Ids of all answers, of entries and scenarios, the likeliest first.
    order: Vec<String>,
}

impl<'a> Explanation<'a> {
    /// Returns an explanation with the named or reported entries, followed by the scenarios that answer it.
    fn with_certainty(
        certainty: Certainty,
        said: Vec<&'a KnownEntry>,
        answers: Vec<&'a KnownScenario>,
    ) -> Explanation<'a> {
        let order = said
            .iter()
            .map(|entry| &entry.id)
            .chain(answers.iter().map(|known| &known.name))
            .cloned();
        let order = distinct_ids(order);
        let answers = answers
            .into_iter()
            .map(|known| ScenarioAnswer { known, score: 0.0 })
            .collect();
        Explanation {
            certainty,
            said,
            answers,
            order,
            ..Explanation::default()
        }
    }

    /// Returns the symptom in the query. All its scenarios are the answers.
    pub fn asked_symptom(&self) -> Option<&KnownEntry> {
        self.said
            .first()
            .copied()
            .filter(|entry| entry.kind == KnownKind::Symptom)
    }

    /// Returns the advice for the reported error, if that is the first answer.
    pub fn first_advice(&self) -> Option<&'static Advice> {
        self.said.iter().find_map(|entry| advice_about(&entry.id))
    }

    /// Returns the reported, similar and other named entries, with the advice for each if there is any.
    pub fn entries(&self) -> impl Iterator<Item = (&KnownEntry, Option<&'static Advice>)> {
        let entries = self.said.iter().chain(&self.near).chain(&self.beside);
        entries
            .filter(|entry| entry.kind != KnownKind::Scenario)
            .map(|entry| (*entry, advice_about(&entry.id)))
    }

    /// Returns the ids of the answers, the likeliest first.
    pub fn names(&self) -> Vec<String> {
        distinct_ids(
            self.order
                .iter()
                .chain(self.beside.iter().map(|entry| &entry.id))
                .cloned(),
        )
    }
}

/// Returns each id once, in the original order.
fn distinct_ids(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    all.filter(|id| seen.insert(id.clone())).collect()
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioAnswer<'a> {
    /// The scenario and its answer.
    pub known: &'a KnownScenario,
    /// Score of the answer: higher is better. Scores of different queries cannot be compared.
    pub score: f64,
}

impl ScenarioAnswer<'_> {
    /// Returns the scenario, read from its file.
    pub fn scenario(&self) -> Option<Scenario> {
        catalogue::built_in(&self.known.name)
    }
}

/// Searchable knowledge.
pub struct Explainer<'a> {
    known: &'a Known,
    /// Ranking to search; `None` for the built-in one, which is loaded only if no other look-up answers.
    ranking: Option<&'a Ranking<'a>>,
}

impl Explainer<'static> {
    /// Returns an explainer that uses the built-in knowledge.
    pub fn embedded() -> Explainer<'static> {
        Explainer {
            known: Known::embedded(),
            ranking: None,
        }
    }
}

impl<'a> Explainer<'a> {
    /// Returns an explainer of other knowledge than the built-in one.
    pub fn new(known: &'a Known, ranking: &'a Ranking<'a>) -> Explainer<'a> {
        Explainer {
            known,
            ranking: Some(ranking),
        }
    }

    fn ranking(&self) -> &'a Ranking<'a> {
        self.ranking.unwrap_or_else(|| Ranking::embedded())
    }

    /// Looks up a query. The result is empty if the query contains nothing about CUDA's start-up.
    pub fn explain(&self, query: Query) -> Explanation<'a> {
        let found = self
            .explain_by_name(&query)
            .or_else(|| explain_other_platform(&query))
            .or_else(|| self.explain_import(&query))
            .or_else(|| self.explain_function(&query))
            .or_else(|| self.explain_command_line(&query))
            .or_else(|| self.explain_by_message(&query))
            .or_else(|| self.explain_mask_cause(&query))
            .or_else(|| self.explain_by_advice(&query))
            .or_else(|| self.explain_by_nearest(&query))
            .unwrap_or_default();
        Explanation { query, ..found }
    }

    /// Looks up the query as a name, and returns the entry with its scenarios.
    fn explain_by_name(&self, query: &Query) -> Option<Explanation<'a>> {
        let said = names::find_named(&query.line, self.known);
        let first = *said.first()?;
        // The effect of a mask's value is more specific than the fact that it is a mask.
        if first.kind == KnownKind::Variable && command::is_settled(&query.said) {
            return None;
        }
        let of_entries = said.iter().flat_map(|entry| match entry.kind {
            KnownKind::Scenario => vec![&entry.id],
            _ => entry.scenarios.iter().collect(),
        });
        let mut seen = BTreeSet::new();
        let questions = of_entries
            .filter(|name| seen.insert(*name))
            .filter_map(|name| self.known.scenario(name));
        let most = if first.kind == KnownKind::Symptom {
            usize::MAX
        } else {
            MOST_ANSWERS
        };
        let answers = questions.take(most).collect();
        let certainty = if advice_about(&first.id).is_some() {
            Certainty::Advised
        } else {
            Certainty::Named
        };
        Some(Explanation::with_certainty(certainty, said, answers))
    }

    /// Explains that an import was not measured, and adds the measurements of the packages that it names.
    fn explain_import(&self, query: &Query) -> Option<Explanation<'a>> {
        let (statement, modules) = names::find_import(&query.line)?;
        let ids = modules.iter().map(|module| format!("line/import {module}"));
        let near: Vec<&KnownEntry> = ids
            .filter_map(|id| self.known.entry(&id))
            .take(MOST_SAID)
            .collect();
        let certainty = if near.is_empty() {
            Certainty::Nothing
        } else {
            Certainty::Closest
        };
        let order = near.iter().map(|entry| entry.id.clone()).collect();
        let unmeasured_import = Some(statement.to_owned());
        Some(Explanation {
            certainty,
            near,
            order,
            unmeasured_import,
            ..Explanation::default()
        })
    }

    /// Returns the measurements of a function that the query calls with other arguments, or whose result it uses.
    fn explain_function(&self, query: &Query) -> Option<Explanation<'a>> {
        let mut near = names::find_function(&query.line, self.known);
        let measured: Vec<String> = near.iter().map(|entry| entry.id.clone()).collect();
        if measured.is_empty() {
            return None;
        }
        let found = self.explain_by_nearest(query).unwrap_or_default();
        near.extend(
            found
                .near
                .into_iter()
                .filter(|entry| !measured.contains(&entry.id)),
        );
        let order = distinct_ids(measured.into_iter().chain(found.order));
        Some(Explanation {
            certainty: Certainty::Closest,
            near,
            order,
            beside: Vec::new(),
            ..found
        })
    }

    /// Explains the value of a mask or another setting in front of a command, unless the text also contains an error
    /// with advice.
    fn explain_command_line(&self, query: &Query) -> Option<Explanation<'a>> {
        let found = self.scenarios_of(&command::scenarios_for_command(&query.said), query);
        if found.is_empty()
            || self
                .errors(query)
                .iter()
                .any(|entry| advice_about(&entry.id).is_some())
        {
            return None;
        }
        let first = if command::is_settled(&query.said) {
            found.first()
        } else {
            None
        };
        let said: Vec<&KnownEntry> = first
            .and_then(|known| self.known.entry(&known.name))
            .into_iter()
            .collect();
        let certainty = if said.is_empty() {
            Certainty::Closest
        } else {
            Certainty::Said
        };
        // A variable in a launcher is never set too late, which is the advice in its entry.
        let mut beside = self.named_within(query);
        beside.retain(|entry| entry.kind != KnownKind::Variable);
        beside.truncate(MOST_SAID - said.len());
        let answers = found.into_iter().take(MOST_ANSWERS).collect();
        Some(Explanation {
            beside,
            ..Explanation::with_certainty(certainty, said, answers)
        })
    }

    /// Returns the scenario about a message in the text.
    fn explain_by_message(&self, query: &Query) -> Option<Explanation<'a>> {
        query.errors.first().filter(|id| !is_of_error(id))?;
        self.claim_first(self.scenarios_of(&query.errors, query), query)
    }

    /// Explains the value of a mask in the text, if it is among the causes of an error in the text.
    fn explain_mask_cause(&self, query: &Query) -> Option<Explanation<'a>> {
        let name = command::mask_in_text(&query.said)?;
        let errors = self.errors(query);
        let mut causes = errors
            .iter()
            .filter_map(|entry| advice_about(&entry.id))
            .flat_map(|advice| &advice.causes);
        let is_cause = causes.any(|cause| cause.scenario.as_deref() == Some(name));
        let mut found = Vec::new();
        if is_cause {
            found.extend(self.known.scenario(name));
        }
        self.claim_first(found, query)
    }

    /// Returns an explanation that claims the first of these scenarios, with similar ones.
    fn claim_first(
        &self,
        mut found: Vec<&'a KnownScenario>,
        query: &Query,
    ) -> Option<Explanation<'a>> {
        let first = self.known.entry(&found.first()?.name)?;
        let (near, rest) = (self.near_questions(query), found.split_off(1));
        let more = near.into_iter().take(MOST_BESIDE_A_CLAIM).chain(rest);
        found.extend(more.filter(|known| known.name != first.id));
        found.truncate(MOST_ANSWERS);
        let mut beside = [self.errors(query), self.named_within(query)].concat();
        beside.truncate(MOST_SAID - 1);
        Some(Explanation {
            beside,
            ..Explanation::with_certainty(Certainty::Said, vec![first], found)
        })
    }

    /// Returns the reported errors and messages, if there is advice for at least one of them.
    fn explain_by_advice(&self, query: &Query) -> Option<Explanation<'a>> {
        let mut said = self.errors(query);
        advice_about(&said.first()?.id)?;
        said.truncate(MOST_SAID);
        // Variables and lines in a traceback usually have nothing to do with the error.
        let mut beside = if query.is_pasted {
            Vec::new()
        } else {
            self.named_within(query)
        };
        beside.truncate(MOST_SAID - said.len());
        let answers = self
            .near_questions(query)
            .into_iter()
            .take(MOST_BESIDE_A_CLAIM)
            .collect();
        let mut found = Explanation::with_certainty(Certainty::Advised, said, answers);
        // Further reported errors are less likely than similar texts.
        let second = 1..found.said.len();
        let others: Vec<String> = found.order.drain(second).collect();
        found.order.extend(others);
        Some(Explanation { beside, ..found })
    }

    /// Returns the answers of the most similar texts, or `None` if those texts are about something else.
    fn explain_by_nearest(&self, query: &Query) -> Option<Explanation<'a>> {
        let neighbours = self.ranking().nearest_texts(query);
        if !self.names_something_of_cuda(query) && is_about_something_else(query, &neighbours) {
            return None;
        }
        let votes = self.answers_of(&neighbours, query);
        let order: Vec<String> = votes
            .iter()
            .take(MOST_ANSWERS)
            .map(|(id, _)| (*id).to_owned())
            .collect();
        let of_order = || votes.iter().take(MOST_ANSWERS);
        let questions =
            of_order().filter_map(|(id, score)| Some((self.known.scenario(id)?, *score)));
        let answers: Vec<ScenarioAnswer<'a>> = questions
            .map(|(known, score)| ScenarioAnswer { known, score })
            .collect();
        let entries = of_order().filter_map(|(id, _)| self.known.entry(id));
        let near: Vec<&KnownEntry> = entries
            .filter(|entry| entry.kind != KnownKind::Scenario)
            .collect();
        let mut beside = [self.errors(query), self.named_within(query)].concat();
        beside.retain(|entry| !near.contains(entry));
        beside.truncate(MOST_SAID);
        Some(Explanation {
            certainty: Certainty::Closest,
            near,
            beside,
            answers,
            order,
            ..Explanation::default()
        })
    }

    /// Returns the variables and calls that a text names among other words. Lines are left out, because the behavior of
    /// a line in a fresh process answers only the question about that line.
    fn named_within(&self, query: &Query) -> Vec<&'a KnownEntry> {
        let mut found = names::find_names_within(query, self.known);
        found.retain(|entry| entry.kind != KnownKind::Line);
        found
    }

    /// Returns `true` if a text that no other look-up answers is still about CUDA: it has an error without advice or a
    /// misspelled variable, or a sentence names a variable, a line or a call. Names in a traceback do not count,
    /// because most of them have nothing to do with the error.
    fn names_something_of_cuda(&self, query: &Query) -> bool {
        !(query.errors.is_empty() && query.misspelt.is_empty())
            || !(query.is_pasted || names::find_names_within(query, self.known).is_empty())
    }

    /// Returns the votes of the most similar texts, highest first. Votes for a symptom are given to its scenario with
    /// the most votes, or else to its advice, or else to the first scenario that suits the query.
    fn answers_of(&self, neighbours: &NearestTexts<'a>, query: &Query) -> Vec<(&'a str, f64)> {
        let mut votes: BTreeMap<&str, f64> = BTreeMap::new();
        for (id, vote) in &neighbours.votes {
            let questions = if id.starts_with("symptom/") {
                self.suited_questions(id, query)
            } else {
                Vec::new()
            };
            let voted = questions
                .iter()
                .filter_map(|known| neighbours.votes.get_key_value(known.name.as_str()));
            let voted = voted.max_by(|(_, one), (_, other)| one.total_cmp(other));
            let is_advised = advice_about(id).is_some();
            let voted = voted
                .filter(|(_, other)| !is_advised || **other >= OF_ITS_QUESTION * vote)
                .map(|(name, _)| *name);
            let first = match questions.first() {
                Some(known) if !is_advised => Some(known.name.as_str()),
                _ => None,
            };
            let answer = voted.or(first).unwrap_or(id);
            *votes.entry(answer).or_default() += vote;
        }
        let mut votes: Vec<(&str, f64)> = votes.into_iter().collect();
        votes.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let least = votes
            .first()
            .map_or(0.0, |(_, best)| best * LEAST_OF_THE_BEST);
        votes.retain(|(_, vote)| *vote >= least);
        votes
    }

    /// Returns the scenarios that answer the most similar texts.
    fn near_questions(&self, query: &Query) -> Vec<&'a KnownScenario> {
        let votes = self.answers_of(&self.ranking().nearest_texts(query), query);
        votes
            .into_iter()
            .filter_map(|(id, _)| self.known.scenario(id))
            .collect()
    }

    /// Returns `true` if the scenario with this name belongs to a symptom.
    pub fn has_symptom(&self, name: &str, symptom: &str) -> bool {
        self.known
            .scenario(name)
            .is_some_and(|known| known.symptoms.iter().any(|id| id == symptom))
    }

    /// Returns the errors and messages in a text, those with advice first. "No device" and "unknown error" have many
    /// causes, so a more specific message in the same text takes precedence.
    fn errors(&self, query: &Query) -> Vec<&'a KnownEntry> {
        let mut errors: Vec<&KnownEntry> = query
            .errors
            .iter()
            .filter_map(|id| self.known.entry(id))
            .collect();
        errors.retain(|entry| matches!(entry.kind, KnownKind::Error | KnownKind::Message));
        errors.sort_by_key(|entry| {
            (
                advice_about(&entry.id).is_none(),
                VAGUE.contains(&entry.id.as_str()),
            )
        });
        errors
    }

    /// Returns the scenarios with these ids, and the first scenarios of these symptoms.
    fn scenarios_of(&self, ids: &[String], query: &Query) -> Vec<&'a KnownScenario> {
        let mut found: Vec<&KnownScenario> = Vec::new();
        for id in ids.iter().filter(|id| !is_of_error(id)) {
            if id.starts_with("symptom/") {
                let questions = self.suited_questions(id, query);
                found.extend(questions.into_iter().take(MOST_ANSWERS));
            } else {
                found.extend(self.known.scenario(id));
            }
        }
        found
    }

    /// Returns the scenarios of a symptom that suit a query: answers with yes before no, and those of the query's
    /// framework first. If the query names no framework and does not look like C, PyTorch is assumed.
    fn suited_questions(&self, symptom: &str, query: &Query) -> Vec<&'a KnownScenario> {
        let names = self
            .known
            .entry(symptom)
            .into_iter()
            .flat_map(|entry| &entry.scenarios);
        let mut found: Vec<&KnownScenario> =
            names.filter_map(|name| self.known.scenario(name)).collect();
        let frameworks = if query.frameworks.is_empty() {
            &["pytorch"][..]
        } else {
            &query.frameworks
        };
        found.sort_by_key(|known| {
            let is_suited = if query.is_c {
                !known.name.starts_with("framework/")
            } else {
                known
                    .tags
                    .iter()
                    .any(|tag| frameworks.contains(&tag.as_str()))
            };
            (known.word == Word::No, !is_suited)
        });
        found
    }
}

/// Returns an empty explanation for a text about a platform other than CUDA.
fn explain_other_platform<'a>(query: &Query) -> Option<Explanation<'a>> {
    query.platform.map(|_| Explanation::default())
}

/// Returns `true` if the texts most similar to a query are about something else, or if none is similar.
fn is_about_something_else(query: &Query, neighbours: &NearestTexts<'_>) -> bool {
    let words = query
        .terms
        .iter()
        .filter(|term| term.text.contains(char::is_alphabetic))
        .count();
    if words < FEWEST_WORDS && !query.is_about_cuda() {
        return true;
    }
    let of_cuda = if query.is_about_cuda() { OF_CUDA } else { 0.0 };
    let of_pasted = if query.is_pasted { OF_PASTED } else { 0.0 };
    neighbours.share < LEAST_SHARE + of_pasted - of_cuda
}

fn is_of_error(id: &str) -> bool {
    ["error/", "message/", "xid/"]
        .iter()
        .any(|folder| id.starts_with(folder))
}

#[cfg(test)]
mod tests;
