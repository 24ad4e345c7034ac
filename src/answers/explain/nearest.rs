//! The texts with known answers that are most similar to a query: texts from threads, and the program's own questions
//! and errors. `scenarios/texts.json` contains the words of threads and errors without their order. The file next to
//! each scenario contains the words of its question. `cargo xtask bless` generates both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::query::Query;
use super::term::Term;
use crate::known::{Known, KnownKind, KnownScenario};

/// Weights of the votes for the answers of a text, the best first; [`LAST_VOTES`] for all others.
const RANK_VOTES: [f64; 3] = [1.0, 0.7, 0.5];
const LAST_VOTES: f64 = 0.4;
/// Weight of two adjacent words; a single word has the weight 1.
const PAIR: f64 = 0.7;
/// Weight of the program's own texts, and of texts typed from memory, when deciding whether a query is about something
/// else: the texts of threads have a different style.
const OWN_SHARE: f64 = 0.42;
/// Similarity so low that nothing follows from it. It pulls the share of such a query toward 0.
const HARDLY_LIKE: f64 = 0.023;
/// Prefix of a pair of words.
const PAIR_MARK: char = '|';
/// Minimum length of a word that may be misspelled. Shorter words have too many similar ones.
const SHORTEST_NEAR: usize = 6;
/// Minimum length of a word that may have two wrong letters instead of one.
const FAR_FROM: usize = 9;

/// The built-in texts. Texts that cannot be parsed are left out; a test rules that out.
static RANKING: LazyLock<Ranking<'static>> = LazyLock::new(|| {
    let stored = StoredTexts::parse(cuda_pitfalls_scenarios::texts()).unwrap_or_default();
    let mut questions = Vec::new();
    for facts in cuda_pitfalls_scenarios::question_facts() {
        let line = facts.lines().nth(2).unwrap_or_default();
        questions.extend(serde_json::from_str::<QuestionTexts>(line).ok());
    }
    Ranking::new(stored, questions)
});

/// The number of characters of the sentence about an error or a symptom that are indexed.
const MOST_OF_A_SENTENCE: usize = 200;

/// Returns the names of errors, messages and symptoms, with their meanings.
pub fn entry_texts(known: &Known) -> Vec<LabelledText> {
    let kinds = [KnownKind::Error, KnownKind::Message, KnownKind::Symptom];
    let mut texts = Vec::new();
    for entry in &known.entries {
        if kinds.contains(&entry.kind) {
            let sentence: String = entry.sentence.chars().take(MOST_OF_A_SENTENCE).collect();
            let text = entry.names.join(" ") + " " + &sentence;
            texts.push(LabelledText::new("", &text, vec![entry.id.clone()]));
        }
    }
    texts
}

/// The terms of a question and of its messages, as the third line of `scenarios/SUBJECT/NAME.ndjson`. They are stored
/// because extracting the terms of all questions takes the larger part of 80 ms.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QuestionTexts {
    /// The name of the scenario.
    name: String,
    /// The terms of each text.
    texts: Vec<BTreeSet<String>>,
}

impl QuestionTexts {
    /// Returns the terms of a scenario.
    pub fn new(scenario: &KnownScenario) -> QuestionTexts {
        let texts = [&scenario.question].into_iter().chain(&scenario.messages);
        QuestionTexts {
            name: scenario.name.clone(),
            texts: texts.map(|text| query_keys(&Query::parse(text))).collect(),
        }
    }
}

/// A text with known answers; without answers if it is about something else.
#[derive(Clone, Debug)]
pub struct LabelledText {
    terms: BTreeSet<String>,
    answers: Vec<String>,
    is_own: bool,
}

impl LabelledText {
    /// Returns a text with the ids of its answers, the best first. `source` is the address of its thread, or anything
    /// else for a text typed from memory.
    pub fn new(source: &str, text: &str, answers: Vec<String>) -> LabelledText {
        LabelledText {
            terms: query_keys(&Query::parse(text)),
            answers,
            is_own: !source.starts_with("http"),
        }
    }
}

/// The texts of threads, errors, messages and symptoms in the format of `scenarios/texts.json`. Lists of indices are
/// stored as strings and parsed on demand, because most of them are never needed.
#[derive(Default, Deserialize)]
pub struct StoredTexts<'t> {
    /// Index of the first text that does not come from a thread. Texts of threads come first.
    own: usize,
    /// The ids of the answers of each text, the best first, with a space between them.
    #[serde(borrow)]
    texts: Vec<&'t str>,
    /// Terms in alphabetical order, each with the indices of the texts that contain it.
    #[serde(borrow)]
    terms: Vec<(&'t str, &'t str)>,
}

impl<'t> StoredTexts<'t> {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns an error if it is not valid.
    pub fn parse(text: &'t str) -> Result<StoredTexts<'t>, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// All searchable texts: first those of the file, then those of questions.
pub struct Ranking<'t> {
    stored: StoredTexts<'t>,
    /// The scenario of each text of a question.
    questions: Vec<String>,
    /// The terms of questions, with the indices of their texts.
    question_terms: BTreeMap<String, Vec<usize>>,
    /// Total weight of the terms of each text.
    weights: Vec<f64>,
}

/// Result of comparing a query with all texts.
#[derive(Debug, Default)]
pub(super) struct NearestTexts<'t> {
    /// The answers with their votes.
    pub(super) votes: BTreeMap<&'t str, f64>,
    /// Share of the similar texts that have answers: from -1, if all are about something else, to 1.
    pub(super) share: f64,
}

/// Returns the terms of a query in the format of the file: `=` before a name, `|` before a pair.
fn query_keys(query: &Query) -> BTreeSet<String> {
    let pairs = query
        .pairs
        .iter()
        .map(|(one, other)| format!("{PAIR_MARK}{one} {other}"));
    query
        .terms
        .iter()
        .chain(&query.code)
        .map(key)
        .chain(pairs)
        .collect()
}

fn key(term: &Term) -> String {
    if term.is_name {
        format!("={}", term.text)
    } else {
        term.text.clone()
    }
}

/// Returns the square of the weight of a term that `with` of `all` texts contain.
fn term_weight(key: &str, with: usize, all: usize) -> f64 {
    let (all, with) = (all as f64, with as f64);
    let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
    (if key.starts_with(PAIR_MARK) {
        PAIR * rarity
    } else {
        rarity
    })
    .powi(2)
}

/// Returns `true` if a term that this number of texts contain is significant. A pair of words in a single text is not.
fn is_known_term(key: &str, texts: usize) -> bool {
    texts > 1 || !key.starts_with(PAIR_MARK)
}

fn parse_indices(list: &str) -> impl Iterator<Item = usize> + '_ {
    list.split(' ').filter_map(|index| index.parse().ok())
}

/// Returns the text of `scenarios/texts.json`, with one line for each text and each term.
pub fn make_stored_texts<'t>(texts: impl IntoIterator<Item = &'t LabelledText>) -> String {
    let mut texts: Vec<&LabelledText> = texts.into_iter().collect();
    texts.sort_by_key(|text| text.is_own);
    let own = texts.partition_point(|text| !text.is_own);
    let mut terms: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (index, text) in texts.iter().enumerate() {
        for term in &text.terms {
            terms.entry(term).or_default().push(index.to_string());
        }
    }
    let texts: Vec<String> = texts
        .iter()
        .map(|text| json!(text.answers.join(" ")).to_string())
        .collect();
    let terms: Vec<String> = terms
        .iter()
        .map(|(term, texts)| json!([term, texts.join(" ")]).to_string())
        .collect();
    format!(
        "{{\"own\": {own},\n\"texts\": [\n{}\n],\n\"terms\": [\n{}\n]}}\n",
        texts.join(",\n"),
        terms.join(",\n")
    )
}

impl Ranking<'static> {
    /// Returns the ranking of the built-in texts.
    pub fn embedded() -> &'static Ranking<'static> {
        &RANKING
    }
}

impl<'t> Ranking<'t> {
    /// Returns a ranking of the stored texts, followed by the texts of questions.
    pub fn new(stored: StoredTexts<'t>, all: Vec<QuestionTexts>) -> Ranking<'t> {
        let mut questions = Vec::new();
        let mut question_terms: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for QuestionTexts { name, texts } in all {
            for terms in texts {
                let index = stored.texts.len() + questions.len();
                questions.push(name.clone());
                for term in terms {
                    question_terms.entry(term).or_default().push(index);
                }
            }
        }
        let mut ranking = Ranking {
            stored,
            questions,
            question_terms,
            weights: Vec::new(),
        };
        ranking.weights = ranking.text_weights();
        ranking
    }

    fn text_count(&self) -> usize {
        self.stored.texts.len() + self.questions.len()
    }

    /// Returns the total weight of the terms of each text.
    fn text_weights(&self) -> Vec<f64> {
        let mut squares = vec![0.0; self.text_count()];
        let mut add_term = |key: &str, texts: &[usize]| {
            if is_known_term(key, texts.len()) {
                let weight = term_weight(key, texts.len(), squares.len());
                for text in texts {
                    if let Some(square) = squares.get_mut(*text) {
                        *square += weight;
                    }
                }
            }
        };
        for (key, texts) in &self.stored.terms {
            let mut texts: Vec<usize> = parse_indices(texts).collect();
            texts.extend(self.question_terms.get(*key).into_iter().flatten());
            add_term(key, &texts);
        }
        for (key, texts) in &self.question_terms {
            if self.stored_term(key).is_none() {
                add_term(key, texts);
            }
        }
        squares
            .into_iter()
            .map(|square| (square.sqrt() * 100.0).round() / 100.0)
            .collect()
    }

    /// Returns the ids of the answers of a text, the best first.
    fn answers(&self, text: usize) -> Vec<&str> {
        if let Some(answers) = self.stored.texts.get(text) {
            return answers.split_whitespace().collect();
        }
        let question = self.questions.get(text - self.stored.texts.len());
        question.map(String::as_str).into_iter().collect()
    }

    /// Returns the votes of all texts: each votes with the square of its similarity, weighted by the rank of its
    /// answers.
    pub(super) fn nearest_texts(&self, query: &Query) -> NearestTexts<'_> {
        let mut votes: BTreeMap<&str, f64> = BTreeMap::new();
        let (mut inside, mut outside) = (0.0, 0.0);
        let mut others = 0;
        for (index, nearness) in self.text_nearness(query).into_iter().enumerate() {
            let is_own = index >= self.stored.own;
            let share = if is_own { OWN_SHARE } else { 1.0 } * f64::powi(nearness, 3);
            let answers = self.answers(index);
            if answers.is_empty() {
                outside += share;
                others += usize::from(!is_own);
                continue;
            }
            inside += share;
            if nearness > 0.0 {
                for (rank, id) in answers.into_iter().enumerate() {
                    let rank_votes = RANK_VOTES.get(rank).copied().unwrap_or(LAST_VOTES);
                    *votes.entry(id).or_default() += rank_votes * nearness.powi(2);
                }
            }
        }
        // For the share, texts about something else get the same total weight as texts with answers.
        outside *= (self.stored.own - others) as f64 / others.max(1) as f64;
        NearestTexts {
            votes,
            share: (inside - outside) / (inside + outside + HARDLY_LIKE),
        }
    }

    /// Returns the similarity of each text: the cosine of the angle between its weighted terms and those of the query.
    fn text_nearness(&self, query: &Query) -> Vec<f64> {
        let (mut shared, mut whole) = (vec![0.0; self.text_count()], 0.0);
        for key in query_keys(query) {
            let texts = self.texts_with(&key);
            // A pair that occurs in no text, or in a single one, is not significant.
            if texts.is_empty() && key.starts_with(PAIR_MARK) {
                continue;
            }
            let weight = term_weight(&key, texts.len(), shared.len());
            whole += weight;
            for text in texts {
                if let Some(shared) = shared.get_mut(text) {
                    *shared += weight;
                }
            }
        }
        for (shared, weight) in shared.iter_mut().zip(&self.weights) {
            if *shared > 0.0 {
                *shared /= weight * f64::sqrt(whole);
            }
        }
        shared
    }

    /// Returns the texts that contain a term, or the term with the most similar spelling. Returns no texts for a pair
    /// of words in a single text.
    fn texts_with(&self, key: &str) -> Vec<usize> {
        let texts = self.texts_with_exactly(key);
        if !is_known_term(key, texts.len()) {
            return Vec::new();
        }
        if !texts.is_empty() {
            return texts;
        }
        match self.spelt_nearly(key) {
            Some(known) => self.texts_with_exactly(known),
            None => texts,
        }
    }

    fn texts_with_exactly(&self, key: &str) -> Vec<usize> {
        let stored = self.stored_term(key).unwrap_or_default();
        let questions = self.question_terms.get(key).into_iter().flatten();
        parse_indices(stored).chain(questions.copied()).collect()
    }

    fn stored_term(&self, key: &str) -> Option<&'t str> {
        let terms = &self.stored.terms;
        let index = terms
            .binary_search_by(|(known, _)| (*known).cmp(key))
            .ok()?;
        terms.get(index).map(|(_, texts)| *texts)
    }

    fn spelt_nearly(&self, key: &str) -> Option<&str> {
        let length = key.chars().count();
        // A number with one wrong digit is another error or GPU. Short words have too many similar ones.
        if length < SHORTEST_NEAR
            || key.starts_with(PAIR_MARK)
            || key.bytes().any(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        let reach = if length < FAR_FROM { 1 } else { 2 };
        let start: String = key.chars().take(2).collect();
        let threads = &self.stored.terms;
        let from = threads.partition_point(|(known, _)| *known < start.as_str());
        let of_threads = threads.iter().skip(from).map(|(known, _)| *known);
        let own = self.question_terms.range(start.clone()..);
        let own = own.map(|(known, _)| known.as_str());
        let mut nearest: Option<(usize, &str)> = None;
        for known in of_threads
            .take_while(|known| known.starts_with(&start))
            .chain(own.take_while(|known| known.starts_with(&start)))
        {
            if known.chars().count().abs_diff(length) > reach {
                continue;
            }
            let found = (strsim::osa_distance(known, key), known);
            if found.0 <= reach && nearest.is_none_or(|nearest| found < nearest) {
                nearest = Some(found);
            }
        }
        nearest.map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Vec<LabelledText> {
        [
            (
                "the mask is ignored after import torch",
                &["framework/late-mask", "symptom/mask-ignored"][..],
            ),
            ("the mask is ignored", &["visibility/late-mask"]),
            ("memory is freed too late", &["memory/late"]),
            ("the carnival mask is too expensive", &[]),
        ]
        .map(|(text, answers)| {
            LabelledText::new(
                "https://a.thread",
                text,
                answers.iter().map(|id| (*id).to_owned()).collect(),
            )
        })
        .to_vec()
    }

    #[test]
    fn the_nearest_texts_vote_for_their_answers_by_rank() {
        let text = make_stored_texts(&texts());
        let ranking = Ranking::new(StoredTexts::parse(&text).unwrap(), Vec::new());
        let found = ranking.nearest_texts(&Query::parse("mask ignored after import torch"));
        let vote = |id: &str| found.votes.get(id).copied().unwrap_or_default();
        assert!(
            vote("framework/late-mask") > vote("visibility/late-mask"),
            "{found:?}"
        );
        assert!(
            (vote("symptom/mask-ignored") - 0.7 * vote("framework/late-mask")).abs() < 1e-9,
            "{found:?}"
        );
        assert!(found.share > 0.9, "{found:?}");
    }

    #[test]
    fn a_text_about_something_else_is_told_by_its_neighbours() {
        let text = make_stored_texts(&texts());
        let ranking = Ranking::new(StoredTexts::parse(&text).unwrap(), Vec::new());
        let found = ranking.nearest_texts(&Query::parse("expensive carnival mask"));
        assert!(found.share < -0.5, "{found:?}");
    }

    #[test]
    fn a_word_that_is_spelt_nearly_as_a_known_one_stands_for_it() {
        let text = make_stored_texts(&texts());
        let ranking = Ranking::new(StoredTexts::parse(&text).unwrap(), Vec::new());
        let votes = |text: &str| ranking.nearest_texts(&Query::parse(text)).votes;
        assert_eq!(votes("expensiv carnvial"), votes("expensive carnival"));
        assert!(votes("memroy freed").contains_key("memory/late"));
    }

    #[test]
    fn questions_are_looked_up_as_stored_texts_are() {
        let mut all = texts();
        all.truncate(3);
        let query = Query::parse("memroy is freed after import");
        let text = make_stored_texts(&all);
        let whole = Ranking::new(StoredTexts::parse(&text).unwrap(), Vec::new());
        let text = make_stored_texts(&all[..2]);
        let questions = all[2..].iter().map(|text| QuestionTexts {
            name: text.answers.join(" "),
            texts: vec![text.terms.clone()],
        });
        let parts = Ranking::new(StoredTexts::parse(&text).unwrap(), questions.collect());
        assert_eq!(whole.weights, parts.weights);
        assert_eq!(
            whole.nearest_texts(&query).votes,
            parts.nearest_texts(&query).votes
        );
    }

    #[test]
    fn the_texts_of_the_program_can_be_read_and_are_small() {
        let source = cuda_pitfalls_scenarios::texts();
        let threads = StoredTexts::parse(source).unwrap();
        assert!(threads.texts.len() > 1000 && threads.terms.len() > 5000);
        let mut questions = Ranking::embedded().questions.clone();
        questions.dedup();
        let all: Vec<String> = cuda_pitfalls_scenarios::questions()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(questions, all, "each question is looked up");
        assert!(
            source.len() + cuda_pitfalls_scenarios::known().len() <= 2_500_000,
            "{} bytes",
            source.len()
        );
    }
}
