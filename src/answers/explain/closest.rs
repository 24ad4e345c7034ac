//! How near each scenario is to a text: BM25 over fields with weights. `scenarios/ranking.json` holds what can be known
//! of it before a text is there, which `cargo xtask bless` makes of the scenarios, so that no index is built at a start.

mod fields;

pub use fields::ranking;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::query::Query;
use super::term::Term;

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
/// Scores stand in the file as whole numbers.
const PARTS: f64 = 1000.0;

/// Empty if the file cannot be read, which a test excludes.
static RANKING: LazyLock<Ranking<'static>> =
    LazyLock::new(|| Ranking::parse(cuda_pitfalls_scenarios::RANKING).unwrap_or_default());

/// The scenarios as they are ranked. Lists of scenarios are texts that are read when they are asked for: most are not.
#[derive(Default, Deserialize, Serialize)]
pub struct Ranking<'t> {
    /// The names of the scenarios.
    #[serde(borrow)]
    scenarios: Vec<&'t str>,
    /// The rarity of all terms of each scenario's question.
    questions: Vec<f64>,
    /// The terms of each message, and the index of its scenario.
    #[serde(borrow)]
    messages: Vec<(usize, Vec<&'t str>)>,
    /// Each term in the order of letters, an exact name with `=` before it. The scenarios that have it: index, colon, how
    /// much of it, and `q` if it is in the question.
    #[serde(borrow)]
    terms: Vec<(&'t str, &'t str)>,
    /// Words that stand beside each other, in the order of letters, and the indices of the scenarios.
    #[serde(borrow)]
    pairs: Vec<(&'t str, &'t str)>,
}

/// How near a scenario is to a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Match<'t> {
    pub(super) scenario: &'t str,
    pub(super) index: usize,
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

/// What a scenario has of a term.
struct Posting {
    scenario: usize,
    score: f64,
    in_question: bool,
}

/// What is looked up for one term of a query.
struct Asked<'t> {
    /// The term itself or those that are spelt nearly so, as they are in the file.
    terms: Vec<(&'t str, &'t str)>,
    /// What it weighs.
    mass: f64,
}

/// What a scenario has of a query.
#[derive(Clone, Default)]
struct Found {
    score: f64,
    covered: f64,
    meant: f64,
    said: f64,
    terms: usize,
}

fn postings(text: &str) -> impl Iterator<Item = Posting> + '_ {
    text.split(' ').filter_map(|posting| {
        let (scenario, score) = posting.split_once(':')?;
        let parts: f64 = score.trim_end_matches('q').parse().ok()?;
        Some(Posting { scenario: scenario.parse().ok()?, score: parts / PARTS, in_question: score.ends_with('q') })
    })
}

/// A term as it is in the file.
fn key(term: &Term) -> String {
    if term.is_name { format!("={}", term.text) } else { term.text.clone() }
}

impl Ranking<'static> {
    /// What comes with the program.
    pub fn embedded() -> &'static Ranking<'static> {
        &RANKING
    }
}

impl<'t> Ranking<'t> {
    /// Reads the file.
    ///
    /// # Errors
    /// It is not valid.
    pub fn parse(text: &'t str) -> Result<Ranking<'t>, serde_json::Error> {
        serde_json::from_str(text)
    }

    fn rarity(&self, with: usize) -> f64 {
        let (all, with) = (self.scenarios.len() as f64, with as f64);
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }

    fn rarity_of(&self, postings: &str) -> f64 {
        self.rarity(postings.split(' ').count())
    }

    fn postings(&self, key: &str) -> Option<&'t str> {
        let index = self.terms.binary_search_by(|(known, _)| (*known).cmp(key)).ok()?;
        self.terms.get(index).map(|(_, postings)| *postings)
    }

    /// The indexed terms for a term: the term itself, or those that are spelt nearly so; and their weight.
    fn looked_up(&self, term: &Term) -> (Vec<(&'t str, &'t str)>, f64) {
        let key = key(term);
        if let Ok(index) = self.terms.binary_search_by(|(known, _)| (*known).cmp(&key)) {
            return (self.terms.get(index).copied().into_iter().collect(), 1.0);
        }
        let length = term.text.chars().count();
        // A number that is wrong by a digit is another error or GPU. Short words have too many neighbours.
        if length < SHORTEST_NEAR || term.text.bytes().any(|byte| byte.is_ascii_digit()) {
            return (Vec::new(), NEAR);
        }
        let reach = if length < FAR_FROM { 1 } else { 2 };
        let start: String = key.chars().take(if term.is_name { 2 } else { 1 }).collect();
        let near = self.terms.iter().filter(|(known, _)| known.starts_with(&start));
        let near = near.filter(|(known, _)| known.chars().count().abs_diff(key.chars().count()) <= reach);
        let near = near.map(|known| (strsim::osa_distance(known.0, &key), known));
        let near: Vec<(usize, &(&str, &str))> = near.filter(|(distance, _)| *distance <= reach).collect();
        let nearest = near.iter().map(|(distance, _)| *distance).min();
        let found = near.iter().filter(|(distance, _)| Some(*distance) == nearest);
        (found.map(|(_, known)| **known).collect(), NEAR)
    }

    fn asked(&self, query: &Query) -> Vec<Asked<'t>> {
        let asked = query.terms.iter().map(|(term, times)| {
            let (terms, near) = self.looked_up(term);
            let rarity = terms.iter().map(|(_, postings)| self.rarity_of(postings) * near).fold(0.0, f64::max);
            // A word that no scenario has speaks against all of them, if a person chose it. A name may be one of the
            // program's own, unless it is all that was asked.
            let is_counted = if term.is_name { query.is_one_word } else { !query.is_pasted };
            let unknown = if is_counted { UNKNOWN } else { 0.0 };
            let mass = if terms.is_empty() { unknown } else { rarity };
            let kind = if term.is_name { NAME } else { 1.0 };
            Asked { terms, mass: mass * kind * times }
        });
        asked.collect()
    }

    /// Every scenario that has something of a query, the nearest first.
    pub(super) fn search(&self, query: &Query) -> Vec<Match<'t>> {
        let asked = self.asked(query);
        let whole: f64 = asked.iter().map(|asked| asked.mass).sum();
        let mut all = vec![Found::default(); self.scenarios.len()];
        let mut known = BTreeSet::new();
        for Asked { terms, mass } in &asked {
            let mut best = vec![0.0_f64; self.scenarios.len()];
            for (term, text) in terms {
                let rarity = if known.insert(*term) { self.rarity_of(text) } else { 0.0 };
                for posting in postings(text) {
                    if let (Some(best), Some(found)) = (best.get_mut(posting.scenario), all.get_mut(posting.scenario)) {
                        *best = best.max(posting.score);
                        found.meant += if posting.in_question { rarity } else { 0.0 };
                    }
                }
            }
            for (found, best) in all.iter_mut().zip(best).filter(|(_, best)| *best > 0.0) {
                found.score += mass * best;
                found.covered += mass;
                found.terms += 1;
            }
        }
        self.add_pairs(query, &mut all);
        self.add_messages(query, &mut all);
        let found = all.into_iter().enumerate().filter(|(_, found)| found.score > 0.0);
        let mut found: Vec<Match<'t>> = found
            .filter_map(|(index, found)| {
                let coverage = if whole > 0.0 { found.covered / whole } else { 0.0 };
                // A question with more words is more special, so it answers less.
                let meant = found.meant / self.questions.get(index)?.max(1.0);
                let share = COVERED * coverage + MEANT * meant + (1.0 - COVERED - MEANT);
                let Found { score, said, terms, .. } = found;
                let scenario = self.scenarios.get(index)?;
                Some(Match { scenario, index, score: score * share, coverage, said, meant, terms })
            })
            .collect();
        found.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.index.cmp(&other.index)));
        found
    }

    fn add_pairs(&self, query: &Query, all: &mut [Found]) {
        for (one, other) in &query.pairs {
            let key = format!("{one} {other}");
            let Ok(index) = self.pairs.binary_search_by(|(known, _)| (*known).cmp(&key)) else { continue };
            let words =
                [one, other].map(|word| self.postings(word).map_or(self.rarity(0), |text| self.rarity_of(text)));
            let scenarios = self.pairs.get(index).into_iter().flat_map(|(_, scenarios)| scenarios.split(' '));
            for scenario in scenarios.filter_map(|text| text.parse::<usize>().ok()) {
                if let Some(found) = all.get_mut(scenario) {
                    found.score += PAIR * words.iter().sum::<f64>();
                }
            }
        }
    }

    /// Adds the share of its best message that one line of the query has. Words of several lines make no message.
    fn add_messages(&self, query: &Query, all: &mut [Found]) {
        let lines = query.lines.iter().map(|line| line.iter().map(key).collect::<BTreeSet<String>>());
        let lines: Vec<BTreeSet<String>> = lines.collect();
        for (scenario, terms) in &self.messages {
            let said = lines.iter().map(|line| terms.iter().filter(|term| line.contains(**term)).count());
            let said = said.max().unwrap_or(0) as f64 / terms.len() as f64;
            if let Some(found) = all.get_mut(*scenario) {
                found.said = found.said.max(said);
            }
        }
        for found in all {
            found.score += if found.said >= MOST_OF_A_MESSAGE { MESSAGE * found.said } else { 0.0 };
        }
    }

    /// Whether a scenario has one of the telling names of a query; for the one word of a query any name will do.
    pub(super) fn has_name(&self, found: &Match<'_>, query: &Query) -> bool {
        self.has_one(found, query, |term| term.is_telling() || (query.is_one_word && term.is_name))
    }

    /// Whether a scenario has a telling name of a query that is no error.
    pub(super) fn has_name_beside_errors(&self, found: &Match<'_>, query: &Query) -> bool {
        self.has_one(found, query, |term| term.is_telling() && !term.is_error())
    }

    fn has_one(&self, found: &Match<'_>, query: &Query, is_asked: impl Fn(&Term) -> bool) -> bool {
        let names = query.terms.keys().filter(|term| is_asked(term));
        let mut known = names.flat_map(|term| self.looked_up(term).0);
        known.any(|(_, text)| postings(text).any(|posting| posting.scenario == found.index))
    }
}
