//! Scenarios as documents, and how well each of them answers: BM25 over fields with weights.

use std::collections::{BTreeMap, BTreeSet};

use super::query::Query;
use super::term::{Term, pairs};
use super::words::{terms, terms_of_people};
use cuda_pitfalls_core::scenario::{Case, Scenario, symptom};

/// `k1` of BM25: how soon repeats of a term stop raising the score.
const SATURATION: f64 = 1.4;
/// `b` of BM25: how much a long field lowers the score.
const LENGTH: f64 = 0.6;
/// The weight of an exact name; that of a word is 1.
const NAME: f64 = 2.2;
/// The weight of a word that is only spelt nearly as an indexed one.
const NEAR: f64 = 0.7;
/// The additional weight of two words that are neighbours in the scenario too.
const PAIR: f64 = 0.35;
/// The smallest share of a scenario's message that the query must have.
const MOST_OF_A_MESSAGE: f64 = 0.75;
/// The score of a message that was pasted whole.
const MESSAGE: f64 = 12.0;
/// The part of a score that depends on the share of the query that a scenario has.
const COVERED: f64 = 0.3;
/// The part that depends on the share of the scenario's question that was asked.
const MEANT: f64 = 0.5;
/// The weight of a word that no scenario has.
const UNKNOWN: f64 = 2.0;
/// Shorter words have too many neighbours for a guess.
const SHORTEST_NEAR: usize = 6;
/// From this length on, two letters may be wrong instead of one.
const FAR_FROM: usize = 9;

/// How the text of a part of a scenario is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldReading {
    /// As what people say or paste; words that stand beside each other count together.
    Said,
    /// As sentences; words that stand beside each other count together.
    Sentence,
    Words,
}

/// A part of a scenario: the weight of a term in it, how it is read, and its text.
type Field = (f64, FieldReading, fn(&Scenario) -> String);

const FIELDS: [Field; 13] = [
    (5.0, FieldReading::Sentence, |it| it.question.clone()),
    (3.0, FieldReading::Words, |it| it.name.replace(['/', '-'], " ")),
    (4.0, FieldReading::Said, |it| it.says.join(BETWEEN)),
    (2.0, FieldReading::Sentence, |it| it.belief.clone()),
    (2.0, FieldReading::Sentence, |it| it.answer.clone()),
    (1.5, FieldReading::Words, |it| it.workaround.clone()),
    (1.5, FieldReading::Words, |it| it.why.clone()),
    (2.0, FieldReading::Words, |it| {
        let found = it.symptoms.iter().filter_map(|id| symptom::find(id));
        join(found.map(|symptom| symptom.sentence.clone()))
    }),
    (2.0, FieldReading::Words, |it| it.tags.join(" ")),
    (1.5, FieldReading::Words, |it| join(cases(it).iter().map(|case| case.does.clone()))),
    (1.2, FieldReading::Words, |it| {
        let traps = cases(it).iter().filter(|case| case.name == "trap").map(steps);
        let parameters = it.parameters.iter();
        let values = parameters
            .flat_map(|(name, values)| [name.clone()].into_iter().chain(values.iter().map(ToString::to_string)));
        join(traps.chain(values))
    }),
    (1.2, FieldReading::Words, |it| {
        let effects = it.instances.iter().flat_map(|instance| &instance.effect);
        join(effects.map(|check| check.facts.status.join(" ")))
    }),
    (0.6, FieldReading::Words, |it| {
        let checks = cases(it).iter().flat_map(|case| &case.expect);
        join(checks.map(|check| format!("{} {}", check.facts.status.join(" "), check.because)))
    }),
];

/// What stands between two texts of one part.
const BETWEEN: &str = " . ";

fn join(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(BETWEEN)
}

fn cases(scenario: &Scenario) -> &[Case] {
    scenario.instances.first().map(|instance| instance.cases.as_slice()).unwrap_or_default()
}

/// The calls or lines of a case, with what is set for it.
fn steps(case: &Case) -> String {
    let env = case.env.iter().map(|(name, value)| format!("{name} {value}"));
    let steps = case.steps.iter().map(|step| match step.python_line() {
        Some(line) => line.to_owned(),
        None => {
            let args: Vec<String> = step.args.values().map(ToString::to_string).collect();
            format!("{} {}", step.call, args.join(" "))
        }
    });
    join(env.chain(steps))
}

struct IndexedScenario {
    /// How often each field has each term.
    counts: BTreeMap<Term, [u16; FIELDS.len()]>,
    /// How many terms each field has.
    lengths: [f64; FIELDS.len()],
    /// Words that stand beside each other in the question, the belief and the messages.
    pairs: BTreeSet<(String, String)>,
    question: BTreeSet<Term>,
    says: Vec<BTreeSet<Term>>,
}

pub(super) struct Index {
    documents: Vec<IndexedScenario>,
    /// In how many documents each term is.
    frequencies: BTreeMap<Term, u32>,
    means: [f64; FIELDS.len()],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Match {
    pub(super) place: usize,
    /// More is better; two queries cannot be compared.
    pub(super) score: f64,
    /// What share of the query, by weight, the scenario has.
    pub(super) coverage: f64,
    /// What share of one of its messages a line of the query has.
    pub(super) said: f64,
    /// What share of the scenario's question, by weight, was asked.
    pub(super) meant: f64,
    /// How many terms of the query the scenario has.
    pub(super) terms: usize,
}

impl Index {
    pub(super) fn new(scenarios: &[Scenario]) -> Index {
        let documents: Vec<IndexedScenario> = scenarios.iter().map(IndexedScenario::new).collect();
        let mut frequencies = BTreeMap::new();
        for term in documents.iter().flat_map(|document| document.counts.keys()) {
            *frequencies.entry(term.clone()).or_insert(0) += 1;
        }
        let count = documents.len().max(1) as f64;
        let mut means = [0.0; FIELDS.len()];
        for (place, mean) in means.iter_mut().enumerate() {
            *mean = documents.iter().filter_map(|document| document.lengths.get(place)).sum::<f64>() / count;
        }
        Index { documents, frequencies, means }
    }

    fn rarity(&self, term: &Term) -> f64 {
        let (all, with) = (self.documents.len() as f64, f64::from(*self.frequencies.get(term).unwrap_or(&0)));
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }

    /// The indexed terms for a term, with their weights: the term itself, or those that are spelt nearly so.
    fn looked_up(&self, term: &Term) -> Vec<(Term, f64)> {
        if self.frequencies.contains_key(term) {
            return vec![(term.clone(), 1.0)];
        }
        let length = term.text.chars().count();
        // A number that is wrong by a digit is another error or GPU. Short words have too many neighbours.
        if length < SHORTEST_NEAR || term.text.bytes().any(|byte| byte.is_ascii_digit()) {
            return Vec::new();
        }
        let reach = if length < FAR_FROM { 1 } else { 2 };
        let first = term.text.chars().next();
        let near = self.frequencies.keys().filter(|known| known.is_name == term.is_name);
        let near = near.filter(|known| known.text.starts_with(|letter| Some(letter) == first));
        let near = near.filter(|known| known.text.chars().count().abs_diff(length) <= reach);
        let near = near.map(|known| (strsim::osa_distance(&known.text, &term.text), known));
        let near: Vec<(usize, &Term)> = near.filter(|(distance, _)| *distance <= reach).collect();
        let nearest = near.iter().map(|(distance, _)| *distance).min();
        let found = near.iter().filter(|(distance, _)| Some(*distance) == nearest);
        found.map(|(_, known)| ((*known).clone(), NEAR)).collect()
    }

    /// Every scenario that has something of a query, the best first.
    pub(super) fn search(&self, query: &Query) -> Vec<Match> {
        let asked: Vec<(Vec<(Term, f64)>, f64)> = query
            .terms
            .iter()
            .map(|(term, times)| {
                let found = self.looked_up(term);
                let rarity = found.iter().map(|(known, near)| self.rarity(known) * near).fold(0.0, f64::max);
                // A word that no scenario has speaks against all of them, if a person chose it. A name may be one of
                // the program's own, unless it is all that was asked.
                let is_counted = if term.is_name { query.is_one_word } else { !query.is_pasted };
                let unknown = if is_counted { UNKNOWN } else { 0.0 };
                let mass = if found.is_empty() { unknown } else { rarity };
                let kind = if term.is_name { NAME } else { 1.0 };
                (found, mass * kind * times)
            })
            .collect();
        let whole: f64 = asked.iter().map(|(_, mass)| mass).sum();
        // The indexed terms that the query asks for.
        let known: BTreeSet<&Term> = asked.iter().flat_map(|(terms, _)| terms.iter().map(|(term, _)| term)).collect();
        let mut found: Vec<Match> = Vec::new();
        for (place, document) in self.documents.iter().enumerate() {
            let (mut score, mut covered, mut count) = (0.0, 0.0, 0);
            for (terms, mass) in &asked {
                let best = terms.iter().map(|(term, _)| self.saturated(document, term)).fold(0.0, f64::max);
                if best > 0.0 {
                    score += mass * best;
                    covered += mass;
                    count += 1;
                }
            }
            for pair in query.pairs.iter().filter(|pair| document.pairs.contains(*pair)) {
                let words = [&pair.0, &pair.1].map(|word| Term { text: word.clone(), is_name: false });
                score += PAIR * words.iter().map(|word| self.rarity(word)).sum::<f64>();
            }
            let said = document.said(query);
            score += if said >= MOST_OF_A_MESSAGE { MESSAGE * said } else { 0.0 };
            if score > 0.0 {
                let coverage = if whole > 0.0 { covered / whole } else { 0.0 };
                let meant = self.meant(document, &known);
                let share = COVERED * coverage + MEANT * meant + (1.0 - COVERED - MEANT);
                found.push(Match { place, score: score * share, coverage, said, meant, terms: count });
            }
        }
        found.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.place.cmp(&other.place)));
        found
    }

    /// The share of a question that was asked, by weight. A question with more words is more special, so it answers less.
    fn meant(&self, document: &IndexedScenario, known: &BTreeSet<&Term>) -> f64 {
        let all: f64 = document.question.iter().map(|term| self.rarity(term)).sum();
        let meant = document.question.iter().filter(|term| known.contains(term));
        meant.map(|term| self.rarity(term)).sum::<f64>() / all.max(1.0)
    }

    /// Whether a scenario has one of the telling names of a query; for the one word of a query any name will do.
    pub(super) fn has_name(&self, place: usize, query: &Query) -> bool {
        self.has_one(place, query, |term| term.is_telling() || (query.is_one_word && term.is_name))
    }

    /// Whether a scenario has a telling name of a query that is no error.
    pub(super) fn has_name_beside_errors(&self, place: usize, query: &Query) -> bool {
        self.has_one(place, query, |term| term.is_telling() && !term.is_error())
    }

    fn has_one(&self, place: usize, query: &Query, is_asked: impl Fn(&Term) -> bool) -> bool {
        let names = query.terms.keys().filter(|term| is_asked(term));
        let mut known = names.flat_map(|term| self.looked_up(term)).map(|(term, _)| term);
        self.documents.get(place).is_some_and(|document| known.any(|term| document.counts.contains_key(&term)))
    }

    /// How much of a term a document has: from 0 to `SATURATION + 1`.
    fn saturated(&self, document: &IndexedScenario, term: &Term) -> f64 {
        let Some(counts) = document.counts.get(term) else { return 0.0 };
        let fields = FIELDS.into_iter().zip(counts).zip(document.lengths.iter().zip(&self.means));
        let weighted: f64 = fields
            .map(|(((weight, ..), count), (length, mean))| {
                let length = 1.0 - LENGTH + LENGTH * length / mean.max(1.0);
                weight * f64::from(*count) / length
            })
            .sum();
        weighted * (SATURATION + 1.0) / (weighted + SATURATION * 2.0)
    }
}

impl IndexedScenario {
    fn new(scenario: &Scenario) -> IndexedScenario {
        let mut document = IndexedScenario {
            counts: BTreeMap::new(),
            lengths: [0.0; FIELDS.len()],
            pairs: BTreeSet::new(),
            question: terms(&scenario.question).into_iter().collect(),
            says: scenario.says.iter().map(|said| terms_of_people(said).into_iter().collect()).collect(),
        };
        for (place, (_, reading, text)) in FIELDS.into_iter().enumerate() {
            let text = text(scenario);
            let found = if reading == FieldReading::Said { terms_of_people(&text) } else { terms(&text) };
            if let Some(length) = document.lengths.get_mut(place) {
                *length = found.len() as f64;
            }
            if reading != FieldReading::Words {
                document.pairs.extend(pairs(&found));
            }
            for term in found {
                let counts = document.counts.entry(term).or_insert([0; FIELDS.len()]);
                if let Some(count) = counts.get_mut(place) {
                    *count = count.saturating_add(1);
                }
            }
        }
        document
    }

    /// The share of its best message that one line of the query has. Words of several lines make no message.
    fn said(&self, query: &Query) -> f64 {
        let messages = self.says.iter().filter(|said| said.len() >= 2);
        let pairs = messages.flat_map(|said| query.lines.iter().map(move |line| (said, line)));
        pairs.map(|(said, line)| said.intersection(line).count() as f64 / said.len() as f64).fold(0.0, f64::max)
    }
}
