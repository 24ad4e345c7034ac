//! The texts of known answers that are nearest to a query: what people wrote in threads, and the program's own questions
//! and errors. `scenarios/ranking.json` has their words without their order, which `cargo xtask bless` makes, so that no
//! index is built at a start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::query::Query;
use super::term::Term;

/// What the answers of a text count, the best first; all others count as the last.
const OF_RANK: [f64; 4] = [1.0, 0.7, 0.5, 0.4];
/// What two words that stand beside each other weigh; a word weighs 1.
const PAIR: f64 = 0.7;
/// What the program says, and what was typed from memory, says so little about whether something else is meant: people
/// in threads write otherwise.
const OWN_SHARE: f64 = 0.42;
/// Of a text so little is like all others that nothing is said of it.
const HARDLY_LIKE: f64 = 0.023;
/// Two words stand for a pair behind this mark.
const PAIR_MARK: char = '|';
/// Shorter words have too many neighbours for a guess.
const SHORTEST_NEAR: usize = 6;
/// From this length on, two letters may be wrong instead of one.
const FAR_FROM: usize = 9;

/// Empty if the file cannot be read, which a test excludes.
static RANKING: LazyLock<Ranking<'static>> =
    LazyLock::new(|| Ranking::parse(cuda_pitfalls_scenarios::RANKING).unwrap_or_default());

/// A text whose answers are known; one about something else has none.
#[derive(Clone, Debug)]
pub struct LabelledText {
    terms: BTreeSet<String>,
    answers: Vec<String>,
    is_own: bool,
}

impl LabelledText {
    /// A text with the ids of its answers, the best first. Its `source` is its thread, or the name of the program's own.
    pub fn new(source: &str, text: &str, answers: Vec<String>) -> LabelledText {
        let is_own = !source.starts_with("http");
        LabelledText {
            terms: query_keys(&Query::parse(text)),
            answers,
            is_own,
        }
    }
}

/// The texts as they are looked up. Lists are texts that are read when they are asked for: most are not.
#[derive(Default, Deserialize)]
pub struct Ranking<'t> {
    /// The index of the first text that is of no thread, behind those that are.
    own: usize,
    /// The ids of all answers.
    #[serde(borrow)]
    answers: Vec<&'t str>,
    /// The weight of each text, and the indices of its answers.
    #[serde(borrow)]
    texts: Vec<(f64, &'t str)>,
    /// Each term in the order of letters, with the texts that have it.
    #[serde(borrow)]
    terms: Vec<(&'t str, &'t str)>,
}

/// What the nearest texts say of a query.
#[derive(Debug, Default)]
pub(super) struct NearestTexts<'t> {
    /// The answers with their votes.
    pub(super) votes: BTreeMap<&'t str, f64>,
    /// Whether the near texts are those with answers: from -1, where all are about something else, to 1.
    pub(super) share: f64,
}

/// The terms of a query as they are in the file: a name behind `=`, a pair behind `|`.
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

/// The square of what a term weighs that so many of all texts have.
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

fn parse_indices(list: &str) -> impl Iterator<Item = usize> + '_ {
    list.split(' ').filter_map(|index| index.parse().ok())
}

/// The text of `scenarios/ranking.json`, with one line for each term. A pair that only one text has is left out.
pub fn make_ranking<'a>(texts: impl Iterator<Item = &'a LabelledText>) -> String {
    let mut texts: Vec<&LabelledText> = texts.collect();
    texts.sort_by_key(|text| text.is_own);
    let own = texts.partition_point(|text| !text.is_own);
    let answers: BTreeSet<&String> = texts.iter().flat_map(|text| &text.answers).collect();
    let mut terms: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (index, text) in texts.iter().enumerate() {
        for term in &text.terms {
            terms.entry(term).or_default().push(index.to_string());
        }
    }
    terms.retain(|term, texts| texts.len() > 1 || !term.starts_with(PAIR_MARK));
    let weighed = texts.iter().map(|text| {
        let known = text
            .terms
            .iter()
            .filter_map(|term| terms.get(term.as_str()).map(|with| (term, with.len())));
        let weight: f64 = known
            .map(|(term, with)| term_weight(term, with, texts.len()))
            .sum();
        let own = text
            .answers
            .iter()
            .filter_map(|answer| answers.iter().position(|known| *known == answer));
        (
            (weight.sqrt() * 100.0).round() / 100.0,
            own.map(|index| index.to_string())
                .collect::<Vec<_>>()
                .join(" "),
        )
    });
    let lists = [
        list("answers", answers.iter()),
        list("texts", weighed),
        list(
            "terms",
            terms.iter().map(|(term, texts)| (term, texts.join(" "))),
        ),
    ];
    format!("{{\"own\": {own},\n{}}}\n", lists.join(",\n"))
}

fn list(name: &str, all: impl Iterator<Item = impl serde::Serialize>) -> String {
    let lines: Vec<String> = all
        .map(|one| serde_json::to_string(&one).unwrap_or_default())
        .collect();
    format!("\"{name}\": [\n{}\n]", lines.join(",\n"))
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

    /// What all texts answer together: each votes by the square of how near it is, and by the rank of its answers.
    pub(super) fn nearest_texts(&self, query: &Query) -> NearestTexts<'t> {
        let mut votes: BTreeMap<&str, f64> = BTreeMap::new();
        let (mut inside, mut outside) = (0.0, 0.0);
        for (index, (nearness, (_, answers))) in self
            .text_nearness(query)
            .into_iter()
            .zip(&self.texts)
            .enumerate()
        {
            let of_share = if index < self.own { 1.0 } else { OWN_SHARE };
            *if answers.is_empty() {
                &mut outside
            } else {
                &mut inside
            } += of_share * nearness.powi(3);
            for (rank, answer) in parse_indices(answers)
                .enumerate()
                .take_while(|_| nearness > 0.0)
            {
                let of_rank = OF_RANK
                    .get(rank)
                    .or(OF_RANK.last())
                    .copied()
                    .unwrap_or_default();
                if let Some(id) = self.answers.get(answer) {
                    *votes.entry(id).or_default() += of_rank * nearness.powi(2);
                }
            }
        }
        let others = self
            .texts
            .iter()
            .take(self.own)
            .filter(|(_, answers)| answers.is_empty())
            .count();
        // As many are about something else as have answers, for the share.
        outside *= (self.own - others) as f64 / others.max(1) as f64;
        NearestTexts {
            votes,
            share: (inside - outside) / (inside + outside + HARDLY_LIKE),
        }
    }

    /// How near each text is: the cosine of the angle between its weighed terms and those of the query.
    fn text_nearness(&self, query: &Query) -> Vec<f64> {
        let (mut shared, mut whole) = (vec![0.0; self.texts.len()], 0.0);
        for key in query_keys(query) {
            let with: Vec<usize> = self
                .looked_up(&key)
                .into_iter()
                .flat_map(parse_indices)
                .collect();
            // Pairs of one text are not in the file, so one that is not there says nothing.
            if with.is_empty() && key.starts_with(PAIR_MARK) {
                continue;
            }
            let weight = term_weight(&key, with.len(), self.texts.len());
            whole += weight;
            for text in with {
                if let Some(shared) = shared.get_mut(text) {
                    *shared += weight;
                }
            }
        }
        let weighed = shared.into_iter().zip(&self.texts);
        weighed
            .map(|(shared, (weight, _))| {
                if shared > 0.0 {
                    shared / (weight * f64::sqrt(whole))
                } else {
                    0.0
                }
            })
            .collect()
    }

    /// The texts that have a term, or the one that is spelt nearly so.
    fn looked_up(&self, key: &str) -> Option<&'t str> {
        let index = self.terms.binary_search_by(|(known, _)| (*known).cmp(key));
        let found = index.ok().and_then(|index| self.terms.get(index));
        found
            .or_else(|| self.spelt_nearly(key))
            .map(|(_, texts)| *texts)
    }

    fn spelt_nearly(&self, key: &str) -> Option<&(&'t str, &'t str)> {
        let length = key.chars().count();
        // A number that is wrong by a digit is another error or GPU. Short words have too many neighbours.
        if length < SHORTEST_NEAR
            || key.starts_with(PAIR_MARK)
            || key.bytes().any(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        let reach = if length < FAR_FROM { 1 } else { 2 };
        let start: String = key.chars().take(2).collect();
        let from = self
            .terms
            .partition_point(|(known, _)| *known < start.as_str());
        let alike = self
            .terms
            .iter()
            .skip(from)
            .take_while(|(known, _)| known.starts_with(&start));
        let alike = alike.filter(|(known, _)| known.chars().count().abs_diff(length) <= reach);
        let alike = alike.map(|known| (strsim::osa_distance(known.0, key), known));
        alike
            .filter(|(distance, _)| *distance <= reach)
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, known)| known)
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
        let text = make_ranking(texts().iter());
        let found = Ranking::parse(&text)
            .unwrap()
            .nearest_texts(&Query::parse("mask ignored after import torch"));
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
        let text = make_ranking(texts().iter());
        let found = Ranking::parse(&text)
            .unwrap()
            .nearest_texts(&Query::parse("expensive carnival mask"));
        assert!(found.share < -0.5, "{found:?}");
    }

    #[test]
    fn a_word_that_is_spelt_nearly_as_a_known_one_stands_for_it() {
        let text = make_ranking(texts().iter());
        let ranking = Ranking::parse(&text).unwrap();
        let votes = |text: &str| ranking.nearest_texts(&Query::parse(text)).votes;
        assert_eq!(votes("expensiv carnvial"), votes("expensive carnival"));
        assert!(votes("memroy freed").contains_key("memory/late"));
    }

    #[test]
    fn the_ranking_of_the_program_can_be_read_and_is_small() {
        let source = cuda_pitfalls_scenarios::RANKING;
        let ranking = Ranking::parse(source).unwrap();
        assert!(ranking.texts.len() > 1000 && ranking.terms.len() > 5000);
        assert!(
            source.len() + cuda_pitfalls_scenarios::KNOWN.len() <= 2_000_000,
            "{} bytes",
            source.len()
        );
    }
}
