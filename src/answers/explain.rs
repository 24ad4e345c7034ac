//! The answer to words: a symptom, a call, an error, a variable, a line of a framework, a pasted traceback.
//!
//! Looked up is what comes with the program, in this order: the names of what is known, command lines, errors and messages,
//! and then the scenarios by how near they are and by the symptoms that are said. Only what was named or said is claimed; what is near is called so. docs/explain.md
//! says how often the right answer comes first. Nothing here touches a clock, a file, the environment or a GPU.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod advice;
mod closest;
mod command;
mod error;
mod foreign;
mod message;
mod names;
mod query;
mod symptom;
mod term;
mod words;

pub use advice::{Advice, ErrorCause, advice_about, all_advice};
pub use closest::{Ranking, ranking};
pub use command::scenario_of_mask;
pub use query::Query;

use schemars::JsonSchema;
use serde::Serialize;

use self::closest::Match;
use self::term::Term;
use crate::known::{Known, KnownEntry, KnownKind, KnownScenario, Word};
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::scenario::Scenario;

/// The most entries of what was said that are shown.
const MOST_SAID: usize = 2;
/// The most answers that are shown.
pub const MOST_ANSWERS: usize = 5;
/// A scenario with a smaller share of the words does not answer them.
const LEAST_COVERAGE: f64 = 0.3;
/// A scenario with a smaller share of the best score is not shown.
const LEAST_BESIDE_THE_BEST: f64 = 0.3;
/// A scenario's message counts as said from this share of its words on.
const SAID: f64 = 0.85;
/// A scenario's own question was asked from this share of its words on.
const ASKED: f64 = 0.9;
/// So much of a question, in a text that it is at least half of, comes before the advice about an error.
const MOST: f64 = 0.7;
const HALF: f64 = 0.5;
/// A scenario comes before the advice about an error beside its name from this share of the words on.
const WHOLE: f64 = 0.7;
/// A typed question without a name may be answered from this share of its words on.
const PERHAPS: f64 = 0.35;
/// With a smaller share of the words the best answer is not told by them.
const WEAK: f64 = 0.5;
/// By so much of the best score others are raised above it.
const ABOVE: f64 = 1.01;
/// Lowers a scenario of CUDA calls, if the query names a framework.
const CALLS_BESIDE_A_FRAMEWORK: f64 = 0.75;
/// Lowers a scenario of a framework, if the query names another one.
const ANOTHER_FRAMEWORK: f64 = 0.5;
/// Lowers a scenario of a framework, if the query names none.
const UNNAMED_FRAMEWORK: f64 = 0.8;
/// Raises a question of the essential set, because people ask these most.
const ASKED_MOST: f64 = 1.1;
/// The share of the words that a symptom's question is taken to have.
const PERHAPS_SAID: f64 = 0.35;
/// Raises a scenario about the symptom that was said.
const SYMPTOM: f64 = 1.4;
/// Raises a scenario about a symptom that was said in fewer words.
const SECOND_SYMPTOM: f64 = 1.15;
/// Lowers a scenario about the instrument itself.
const INSTRUMENT: f64 = 0.6;
/// Lowers a scenario whose answer is no: people meet causes, and ask about them.
const NO_CAUSE: f64 = 0.85;

/// How sure it is that the first answer is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The name of something was asked.
    Named,
    /// An error or a message was said.
    Said,
    /// An error or a message was said, and it is known what helps against it.
    Advised,
    /// Nothing settles the answer; these are the closest by their words.
    Closest,
    /// Nothing here is about CUDA's start-up.
    Nothing,
}

impl Certainty {
    /// Whether the first answer is claimed to be right.
    pub const fn is_claimed(self) -> bool {
        matches!(self, Certainty::Named | Certainty::Said | Certainty::Advised)
    }
}

/// The answers to a query, and what is known of the names in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation<'a> {
    /// What was asked.
    pub query: Query,
    /// How sure it is that the first of them answers.
    pub certainty: Certainty,
    /// What was named or said, the likeliest first. Only this is claimed.
    pub said: Vec<&'a KnownEntry>,
    /// What else the text names.
    pub beside: Vec<&'a KnownEntry>,
    /// The questions that answer it, at most [`MOST_ANSWERS`], the likeliest first; of a symptom all.
    pub answers: Vec<ScenarioAnswer<'a>>,
}

impl Explanation<'_> {
    /// The symptom that was asked: all its questions are the answers.
    pub fn symptom(&self) -> Option<&KnownEntry> {
        self.said.first().copied().filter(|entry| entry.kind == KnownKind::Symptom)
    }

    /// What helps against the error that was said, where that is the first answer.
    pub fn first_advice(&self) -> Option<&'static Advice> {
        self.said.iter().find_map(|entry| advice_about(&entry.id))
    }

    /// What was said, and what else is named, with what is known to help.
    pub fn entries(&self) -> impl Iterator<Item = (&KnownEntry, Option<&'static Advice>)> {
        let entries = self.said.iter().chain(&self.beside).filter(|entry| entry.kind != KnownKind::Scenario);
        entries.map(|entry| (*entry, advice_about(&entry.id)))
    }

    /// The ids of what answers, the likeliest first.
    pub fn names(&self) -> Vec<String> {
        let said = self.said.iter().map(|entry| &entry.id);
        let answers = self.answers.iter().map(|answer| &answer.known.name);
        let mut names: Vec<String> = Vec::new();
        for name in said.chain(answers).chain(self.beside.iter().map(|entry| &entry.id)) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioAnswer<'a> {
    /// The question and its answer.
    pub known: &'a KnownScenario,
    /// More is better; scores of two queries cannot be compared.
    pub score: f64,
}

impl ScenarioAnswer<'_> {
    /// The scenario itself, read from its file.
    pub fn scenario(&self) -> Option<Scenario> {
        catalogue::built_in(&self.known.name)
    }
}

/// What is known, ready to be looked up.
pub struct Explainer<'a> {
    known: &'a Known,
    ranking: &'a Ranking<'a>,
}

impl Explainer<'static> {
    /// What comes with the program.
    pub fn embedded() -> Explainer<'static> {
        Explainer { known: Known::embedded(), ranking: Ranking::embedded() }
    }
}

impl<'a> Explainer<'a> {
    /// Another store than that of the program.
    pub fn new(known: &'a Known, ranking: &'a Ranking<'a>) -> Explainer<'a> {
        Explainer { known, ranking }
    }

    /// Looks up a query. Nothing is found where nothing in it is about CUDA's start-up.
    pub fn explain(&self, query: Query) -> Explanation<'a> {
        let named = names::whole(&query.line, self.known);
        // What a mask's value does is more than that it is a mask.
        let is_of_mask = named.first().is_some_and(|entry| entry.kind == KnownKind::Variable);
        if !(named.is_empty() || is_of_mask && command::is_settled(&query.said)) {
            return self.about(query, named);
        }
        if query.platform.is_some() {
            return Explanation { certainty: Certainty::Nothing, said: vec![], beside: vec![], answers: vec![], query };
        }
        let mut errors: Vec<&KnownEntry> = query.errors.iter().filter_map(|id| self.known.entry(id)).collect();
        errors.retain(|entry| matches!(entry.kind, KnownKind::Error | KnownKind::Message));
        errors.sort_by_key(|entry| advice_about(&entry.id).is_none());
        let beside = names::within(&query, self.known);
        let commands = self.scenarios_of(&command::commands(&query.said), &query);
        if !commands.is_empty() && errors.iter().all(|entry| advice_about(&entry.id).is_none()) {
            let is_settled = command::is_settled(&query.said);
            // A variable in a launcher is never set too late, which is what is known of it.
            let beside = beside.into_iter().filter(|entry| entry.kind != KnownKind::Variable).collect();
            return self.answered_by(query, commands, is_settled, beside);
        }
        let told = self.scenarios_of(&query.errors, &query);
        if !told.is_empty() && query.errors.first().is_some_and(|id| !is_of_error(id)) {
            return self.answered_by(query, told, true, [errors, beside].concat());
        }
        if let Some(cause) = self.mask_that_causes(&errors, &query) {
            return self.answered_by(query, vec![cause], true, [errors, beside].concat());
        }
        if let Some(symptom) = self.advised_symptom(&query).filter(|_| errors.is_empty()) {
            let (certainty, beside) = (Certainty::Closest, vec![symptom]);
            return Explanation { query, certainty, said: Vec::new(), beside, answers: Vec::new() };
        }
        let mut found = self.closest(&query, !(errors.is_empty() && beside.is_empty()));
        self.add_symptoms(&query, &mut found);
        let best = found.first().map(|(found, _)| found);
        let certainty = match self.certainty(&query, &errors, !beside.is_empty(), best) {
            Certainty::Nothing if is_seen(&query) => Certainty::Closest,
            certainty => certainty,
        };
        if certainty == Certainty::Nothing {
            return Explanation { query, certainty, said: Vec::new(), beside: Vec::new(), answers: Vec::new() };
        }
        let (mut said, mut beside) = match certainty {
            Certainty::Closest => (Vec::new(), errors.into_iter().chain(beside).collect()),
            Certainty::Advised => (errors, beside),
            _ => match best.and_then(|best| self.known.entry(best.scenario)) {
                Some(about) => (vec![about], [errors, beside].concat()),
                None => (errors, beside),
            },
        };
        if query.is_pasted && certainty == Certainty::Advised {
            // A traceback names variables and lines that are in order.
            beside.clear();
        }
        said.truncate(MOST_SAID);
        beside.truncate(MOST_SAID.saturating_sub(said.len()));
        let score = best.map_or(0.0, |best| best.score);
        let answers = found
            .iter()
            .filter(|(found, _)| found.score >= score * LEAST_BESIDE_THE_BEST)
            // Beside the causes of an error stands only what is about the same names.
            .filter(|(found, _)| certainty != Certainty::Advised || self.ranking.has_name(found, &query))
            .take(MOST_ANSWERS)
            .map(|(found, known)| ScenarioAnswer { known, score: found.score })
            .collect();
        Explanation { query, certainty, said, beside, answers }
    }

    /// What is known of what was asked by its name, and the questions about it.
    fn about(&self, query: Query, said: Vec<&'a KnownEntry>) -> Explanation<'a> {
        let of_entries = said.iter().flat_map(|entry| match entry.kind {
            KnownKind::Scenario => vec![&entry.id],
            _ => entry.scenarios.iter().collect(),
        });
        let mut answers: Vec<ScenarioAnswer<'a>> = Vec::new();
        for known in of_entries.filter_map(|name| self.known.scenario(name)) {
            if !answers.iter().any(|answer| answer.known.name == known.name) {
                answers.push(ScenarioAnswer { known, score: 0.0 });
            }
        }
        if said.first().is_some_and(|entry| entry.kind != KnownKind::Symptom) {
            answers.truncate(MOST_ANSWERS);
        }
        let has_advice = said.first().is_some_and(|entry| advice_about(&entry.id).is_some());
        let certainty = if has_advice { Certainty::Advised } else { Certainty::Named };
        Explanation { query, certainty, said, beside: Vec::new(), answers }
    }

    /// Whether the question with this name is of a symptom.
    pub fn has_symptom(&self, name: &str, symptom: &str) -> bool {
        self.known.scenario(name).is_some_and(|known| known.symptoms.iter().any(|id| id == symptom))
    }

    /// The scenario of a mask's value in the text, if it is among the causes of an error there.
    fn mask_that_causes(&self, errors: &[&KnownEntry], query: &Query) -> Option<&'a KnownScenario> {
        let name = command::mask_in_text(&query.said)?;
        let mut causes = errors.iter().filter_map(|entry| advice_about(&entry.id)).flat_map(|advice| &advice.causes);
        causes.any(|cause| cause.scenario.as_deref() == Some(name)).then(|| self.known.scenario(name))?
    }

    /// The symptom that a text says first, if no scenario is about it and what to do about it was read.
    fn advised_symptom(&self, query: &Query) -> Option<&'a KnownEntry> {
        let symptom = query.symptoms.first().and_then(|id| self.known.entry(id))?;
        let is_advised = symptom.scenarios.is_empty() && advice_about(&symptom.id).is_some();
        (is_advised && query.is_sentence_about_gpus()).then_some(symptom)
    }

    /// What these scenarios answer, the first of them claimed or not.
    fn answered_by(
        &self,
        query: Query,
        found: Vec<&'a KnownScenario>,
        is_claimed: bool,
        mut beside: Vec<&'a KnownEntry>,
    ) -> Explanation<'a> {
        let first = found.first().filter(|_| is_claimed).and_then(|known| self.known.entry(&known.name));
        let said: Vec<&KnownEntry> = first.into_iter().collect();
        let certainty = if said.is_empty() { Certainty::Closest } else { Certainty::Said };
        beside.truncate(MOST_SAID - said.len());
        let answers = found.into_iter().take(MOST_ANSWERS).map(|known| ScenarioAnswer { known, score: 0.0 }).collect();
        Explanation { query, certainty, said, beside, answers }
    }

    /// The scenarios with these ids, and the first ones of these symptoms.
    fn scenarios_of(&self, ids: &[String], query: &Query) -> Vec<&'a KnownScenario> {
        let mut found: Vec<&KnownScenario> = Vec::new();
        for id in ids.iter().filter(|id| !is_of_error(id)) {
            match id.starts_with("symptom/") {
                true => found.extend(self.suited_questions(id, query).into_iter().take(MOST_ANSWERS)),
                false => found.extend(self.known.scenario(id)),
            }
        }
        found
    }

    /// The questions of a symptom for a query: those of its framework first, of PyTorch where none is named
    /// and nothing is said in C.
    fn suited_questions(&self, symptom: &str, query: &Query) -> Vec<&'a KnownScenario> {
        let names = self.known.entry(symptom).into_iter().flat_map(|entry| &entry.scenarios);
        let mut found: Vec<&KnownScenario> = names.filter_map(|name| self.known.scenario(name)).collect();
        found.sort_by_key(|known| {
            let is_other = suited(query, known) < 1.0
                && !(query.frameworks.is_empty() && !query.is_c && known.tags.iter().any(|tag| tag == "pytorch"));
            (known.word == Word::No, is_other)
        });
        found
    }

    /// Puts what a mask's value settles first, and adds what is asked most about the symptom that a text says: before
    /// the rest where its words fit no question well, else behind it.
    fn add_symptoms(&self, query: &Query, found: &mut Vec<(Match<'a>, &'a KnownScenario)>) {
        let mut symptoms = query.symptoms.clone();
        if query.misspelt.values().any(|meant| meant == "CUDA_VISIBLE_DEVICES") {
            symptoms.insert(0, "symptom/mask-ignored".to_owned());
        }
        if let Some(symptom) = symptoms.first() {
            let is_weak = found.first().is_none_or(|(found, _)| found.coverage < WEAK);
            let least = found.first().map_or(1.0, |(found, _)| found.score) * LEAST_BESIDE_THE_BEST;
            for known in self.suited_questions(symptom, query).into_iter().take(MOST_ANSWERS) {
                add(found, known, least);
            }
            if is_weak {
                let id = symptom.trim_start_matches("symptom/");
                raise(found, |known| known.symptoms.iter().any(|symptom| symptom == id));
            }
        }
        if let Some(known) = command::mask_in_text(&query.said).and_then(|name| self.known.scenario(name)) {
            add(found, known, 0.0);
            raise(found, |other| other.name == known.name);
        }
        found.sort_by(|(one, _), (other, _)| other.score.total_cmp(&one.score));
    }

    /// The names of the questions about a name, the likeliest first.
    pub fn questions_about(&self, name: &str) -> Vec<String> {
        let query = Query::parse(name);
        let found = self.closest(&query, true);
        let score = found.first().map_or(0.0, |(found, _)| found.score);
        let near = found.iter().filter(|(found, _)| found.score >= score * LEAST_BESIDE_THE_BEST);
        let near = near.filter(|(found, _)| self.ranking.has_name(found, &query));
        near.take(MOST_ANSWERS).map(|(_, known)| known.name.clone()).collect()
    }

    /// The scenarios that are near, the nearest first.
    fn closest(&self, query: &Query, has_entries: bool) -> Vec<(Match<'a>, &'a KnownScenario)> {
        // If no scenario has the name, only the surveys know it.
        let is_name = query.is_one_word && has_entries;
        let mut found: Vec<(Match<'a>, &'a KnownScenario)> = self
            .ranking
            .search(query)
            .into_iter()
            .filter(|found| found.coverage >= LEAST_COVERAGE || query.is_pasted)
            .filter(|found| !is_name || self.ranking.has_name(found, query))
            .filter_map(|found| Some((found, self.known.scenario(found.scenario)?)))
            .map(|(found, known)| {
                let most = if known.is_essential { ASKED_MOST } else { 1.0 };
                let cause = if known.word == Word::No { NO_CAUSE } else { 1.0 };
                let score = found.score * most * cause * of_symptoms(known, &query.symptoms) * suited(query, known);
                (Match { score, ..found }, known)
            })
            .collect();
        found.sort_by(|(one, _), (other, _)| other.score.total_cmp(&one.score).then(one.scenario.cmp(other.scenario)));
        found
    }

    /// How sure an answer is. Words alone are no ground: a healthy log has most words of some question.
    fn certainty(&self, query: &Query, errors: &[&KnownEntry], has_names: bool, best: Option<&Match<'_>>) -> Certainty {
        let has_advice = errors.iter().any(|entry| advice_about(&entry.id).is_some());
        match (best, query.is_pasted) {
            // A question has more words than its error, and a scenario may be about just these.
            (Some(best), false) if self.is_asked(query, best) && (has_advice || best.meant >= ASKED) => {
                Certainty::Closest
            }
            _ if has_advice => Certainty::Advised,
            (Some(best), _) if self.is_said(query, best) => Certainty::Said,
            // What causes an error without advice is in the questions.
            (Some(_), _) if !errors.is_empty() => Certainty::Closest,
            (None, _) if !errors.is_empty() => Certainty::Said,
            // A traceback and a log name many functions, and most of them are in order.
            (Some(_), true) if query.names_a_failure() => Certainty::Closest,
            (_, true) => Certainty::Nothing,
            (_, false) if has_names => Certainty::Closest,
            (Some(best), false) if query.is_about_cuda() && best.coverage >= PERHAPS => Certainty::Closest,
            // The words of a question of ours, though none of them is CUDA's.
            (Some(best), false) if best.terms > 2 && best.coverage >= WHOLE => Certainty::Closest,
            _ => Certainty::Nothing,
        }
    }

    /// Whether a message that a scenario is about was said. A sentence that names a call is about that call.
    fn is_said(&self, query: &Query, best: &Match<'_>) -> bool {
        let is_of_another = || query.terms.keys().any(Term::is_telling) && !self.ranking.has_name(best, query);
        best.said >= SAID && if query.is_pasted { query.is_about_cuda() } else { !is_of_another() }
    }

    /// Whether a typed text asks a scenario's question: it has most words of it, or a name of it and few others.
    fn is_asked(&self, query: &Query, best: &Match<'_>) -> bool {
        best.coverage >= HALF && best.meant >= MOST
            || best.coverage >= WHOLE && best.meant >= PERHAPS && self.ranking.has_name_beside_errors(best, query)
    }
}

/// Adds a scenario that no word was looked up in.
fn add<'a>(found: &mut Vec<(Match<'a>, &'a KnownScenario)>, known: &'a KnownScenario, score: f64) {
    if !found.iter().any(|(_, other)| other.name == known.name) {
        let scenario = known.name.as_str();
        let coverage = PERHAPS_SAID;
        let none = Match { scenario, index: usize::MAX, score, coverage, said: 0.0, meant: 0.0, terms: 0 };
        found.push((none, known));
    }
}

/// Raises some scenarios above all others, in their order.
fn raise(found: &mut [(Match<'_>, &KnownScenario)], is_raised: impl Fn(&KnownScenario) -> bool) {
    let best = found.iter().map(|(found, _)| found.score).fold(1.0, f64::max) * ABOVE;
    for (found, _) in found.iter_mut().filter(|(_, known)| is_raised(known)) {
        found.score += best;
    }
}

/// Whether a text that names nothing still says what is seen: a symptom, a mask's value or a misspelt variable.
fn is_seen(query: &Query) -> bool {
    let is_symptom = query.is_sentence_about_gpus() && !query.symptoms.is_empty();
    is_symptom || !query.misspelt.is_empty() || command::mask_in_text(&query.said).is_some()
}

fn is_of_error(id: &str) -> bool {
    id.starts_with("error/") || id.starts_with("message/")
}

/// The factor of a scenario: whether it is about the symptoms that were said, of which the first says most.
fn of_symptoms(known: &KnownScenario, symptoms: &[String]) -> f64 {
    let is_known =
        |id: &String| id.strip_prefix("symptom/").is_some_and(|id| known.symptoms.iter().any(|own| own == id));
    match symptoms.iter().position(is_known) {
        Some(0) => SYMPTOM,
        Some(1) => SECOND_SYMPTOM,
        _ => 1.0,
    }
}

/// The factor of a scenario: how well it fits the frameworks and the language of the query.
fn suited(query: &Query, known: &KnownScenario) -> f64 {
    let subject = known.name.split('/').next().unwrap_or_default();
    if subject == "instrument" {
        return INSTRUMENT;
    }
    let is_framework = subject == "framework";
    let is_named = query.frameworks.iter().any(|named| known.tags.iter().any(|tag| tag == named));
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
