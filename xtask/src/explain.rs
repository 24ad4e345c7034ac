//! Measures how often `explain` finds the right answer to texts that people write, and writes the page about it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::panic::resume_unwind;
use std::thread;

use cuda_pitfalls::explain::{
    Certainty, Explainer, LabelledText, Query, QuestionTexts, Ranking, StoredTexts, advice_about,
    make_stored_texts,
};
use cuda_pitfalls::known::Known;
use serde::Deserialize;

use crate::TaskError;
use crate::table::MarkdownTable;
use crate::tables::replace_part;

/// The page about look-up, below the root of the repository.
pub const PAGE: &str = "docs/explain.md";

/// Texts that people write: those that `explain` answers, and those about something else.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phrasings {
    /// Texts that are answered.
    #[serde(default)]
    pub phrase: Vec<Phrase>,
    /// Texts about something else.
    #[serde(default)]
    pub negative: Vec<Negative>,
}

/// A text that a user wrote, and its right answers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phrase {
    /// The original text.
    pub words: String,
    /// The thread.
    pub source: String,
    /// Each right answer: the full name of a scenario, `error/CODE`, the id of a message, `symptom/ID`, which any of
    /// the symptom's scenarios answers, or `missing: ` with an answer that does not exist yet.
    pub answers: Vec<String>,
    /// Kind of text.
    #[serde(default)]
    pub kind: PhraseKind,
}

/// A kind of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhraseKind {
    /// A symptom, in the user's own words.
    #[default]
    Symptom,
    /// A message or a traceback.
    Error,
    /// A log with a line that matters.
    Log,
}

/// A text about something else.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Negative {
    /// The original text.
    pub words: String,
    /// Where.
    pub source: String,
    /// Kind of text, in a word.
    #[serde(default)]
    pub kind: String,
}

impl Phrasings {
    /// Reads a file of texts.
    ///
    /// # Errors
    /// Returns an error if the file is not valid.
    pub fn parse(source: &str) -> Result<Phrasings, TaskError> {
        toml::from_str(source).map_err(|error| format!("texts for explain: {error}").into())
    }

    /// Returns the texts as `explain` looks them up, each with its part. A text whose answers are all missing is left
    /// out.
    pub fn labeled_texts(&self) -> Vec<PartText> {
        let mut labeled = Vec::new();
        for phrase in &self.phrase {
            let mut answers = phrase.answers.clone();
            answers.retain(|answer| !answer.starts_with("missing: "));
            if !answers.is_empty() {
                labeled.push(PartText::new(&phrase.source, &phrase.words, answers));
            }
        }
        for negative in &self.negative {
            let (source, words) = (&negative.source, &negative.words);
            labeled.push(PartText::new(source, words, Vec::new()));
        }
        labeled
    }

    /// Returns the texts of one part.
    fn part(&self, part: usize) -> Phrasings {
        let mut phrasings = self.clone();
        phrasings
            .phrase
            .retain(|text| part_of(&text.source, &text.words) == part);
        phrasings
            .negative
            .retain(|text| part_of(&text.source, &text.words) == part);
        phrasings
    }

    /// Returns the number of threads that a scenario is the best answer to.
    pub fn thread_count(&self, scenario: &str) -> usize {
        let mut threads = BTreeSet::new();
        for phrase in &self.phrase {
            if phrase.answers.first().map(String::as_str) == Some(scenario) {
                threads.insert(&phrase.source);
            }
        }
        threads.len()
    }
}

/// Number of parts for the measurement: the texts of each part are looked up in those of the others.
const PARTS: usize = 5;

/// Returns the part of a thread. A text without a thread is assigned by its words.
fn part_of(source: &str, words: &str) -> usize {
    let key = if source.starts_with("http") {
        source
    } else {
        words
    };
    key.bytes().map(usize::from).sum::<usize>() % PARTS
}

/// A text as `explain` looks it up, with its part.
pub struct PartText {
    part: usize,
    /// The text.
    pub text: LabelledText,
}

impl PartText {
    fn new(source: &str, words: &str, answers: Vec<String>) -> PartText {
        PartText {
            part: part_of(source, words),
            text: LabelledText::new(source, words, answers),
        }
    }
}

/// Result for one phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The phrase.
    pub phrase: Phrase,
    /// Rank of the first right answer, from 1 on; `None` if no right answer is shown.
    pub rank: Option<usize>,
    /// The first answer; empty if nothing was answered.
    pub first: String,
    /// Certainty of the answer.
    pub certainty: Certainty,
}

/// Texts counted by where the right answer came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCounts {
    /// All.
    pub all: usize,
    /// The right answer came first.
    pub first: usize,
    /// The right answer was among the first three.
    pub three: usize,
    /// A wrong answer came first and was claimed to be right.
    pub claimed: usize,
    /// Number without an answer.
    pub nothing: usize,
}

impl RankCounts {
    /// Counts the phrases that were ranked.
    pub fn from_ranked<'a>(ranked: impl Iterator<Item = &'a Ranked>) -> RankCounts {
        ranked.fold(RankCounts::default(), |counts, ranked| {
            let is_claimed = ranked.certainty.is_claimed() && ranked.rank != Some(1);
            RankCounts {
                all: counts.all + 1,
                first: counts.first + usize::from(ranked.rank == Some(1)),
                three: counts.three + usize::from(ranked.rank.is_some_and(|rank| rank <= 3)),
                claimed: counts.claimed + usize::from(is_claimed),
                nothing: counts.nothing + usize::from(ranked.certainty == Certainty::Nothing),
            }
        })
    }

    /// Counts texts about something else, which have no right answer.
    pub fn from_others(answers: impl Iterator<Item = Certainty>) -> RankCounts {
        answers.fold(RankCounts::default(), |counts, certainty| RankCounts {
            all: counts.all + 1,
            claimed: counts.claimed + usize::from(certainty.is_claimed()),
            nothing: counts.nothing + usize::from(certainty == Certainty::Nothing),
            ..counts
        })
    }

    /// Returns the cells of a row: a name, the total, and the parts of it.
    fn cells(self, name: &str) -> Vec<String> {
        let mut cells = vec![name.to_owned(), self.all.to_string()];
        for part in [self.first, self.three, self.claimed, self.nothing] {
            cells.push(share(part, self.all));
        }
        cells
    }
}

/// Returns a part of a number of texts, with its percentage.
fn share(part: usize, all: usize) -> String {
    format!("{part} ({} %)", (part * 100 + all / 2) / all.max(1))
}

/// Looks a phrase up.
fn rank_phrase(phrase: &Phrase, explainer: &Explainer<'_>) -> Ranked {
    let found = explainer.explain(Query::parse(&phrase.words));
    let names = found.names();
    let rank = names.iter().position(|name| {
        let is_right = |name: &str| {
            phrase
                .answers
                .iter()
                .any(|answer| match answer.strip_prefix("symptom/") {
                    Some(id) => answer == name || explainer.has_symptom(name, id),
                    None => answer == name,
                })
        };
        is_right(name) || first_cause(name).is_some_and(is_right)
    });
    Ranked {
        phrase: phrase.clone(),
        rank: rank.map(|index| index + 1),
        first: names.first().cloned().unwrap_or_default(),
        certainty: found.certainty,
    }
}

/// Returns the scenario that measured the first cause of an error or a message: a reader sees it first.
fn first_cause(id: &str) -> Option<&'static str> {
    advice_about(id)?.causes.first()?.scenario.as_deref()
}

/// Answer to a text about something else.
pub struct Answered {
    /// The text.
    pub negative: Negative,
    /// Certainty of the answer.
    pub certainty: Certainty,
    /// The first answer, if there was one.
    pub first: Option<String>,
}

fn answered(negative: &Negative, explainer: &Explainer<'_>) -> Answered {
    let found = explainer.explain(Query::parse(&negative.words));
    let first = found.names().into_iter().next();
    Answered {
        negative: negative.clone(),
        certainty: found.certainty,
        first,
    }
}

/// Results of `explain` on texts that people write.
pub struct Fared {
    /// Each text that it answers.
    pub ranked: Vec<Ranked>,
    /// Each text about something else.
    pub answered: Vec<Answered>,
}

impl Fared {
    /// Looks every text up.
    pub fn measure_texts(phrasings: &Phrasings, explainer: &Explainer<'_>) -> Fared {
        Fared {
            ranked: phrasings
                .phrase
                .iter()
                .map(|phrase| rank_phrase(phrase, explainer))
                .collect(),
            answered: phrasings
                .negative
                .iter()
                .map(|negative| answered(negative, explainer))
                .collect(),
        }
    }

    /// Looks every text up among the program's own texts and those of the other parts. Each part has its own thread.
    ///
    /// # Errors
    /// Returns an error if the index of a part cannot be read.
    pub fn by_parts(sources: &PartSources<'_>) -> Result<Fared, TaskError> {
        let mut fared = Fared {
            ranked: Vec::new(),
            answered: Vec::new(),
        };
        thread::scope(|scope| {
            let running: Vec<_> = (0..PARTS)
                .map(|part| scope.spawn(move || sources.measure_part(part)))
                .collect();
            for thread in running {
                let part = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
                fared.ranked.extend(part.ranked);
                fared.answered.extend(part.answered);
            }
            Ok(fared)
        })
    }
}

/// Inputs of the measurement by parts.
pub struct PartSources<'s> {
    /// Texts that people write.
    pub phrasings: &'s Phrasings,
    /// The same texts as `explain` looks them up.
    pub labeled: &'s [PartText],
    /// The program's own texts.
    pub entries: &'s [LabelledText],
    /// The texts of questions.
    pub questions: &'s [QuestionTexts],
    /// Everything that has a name.
    pub known: &'s Known,
}

impl PartSources<'_> {
    fn measure_part(&self, part: usize) -> Result<Fared, serde_json::Error> {
        let others = self.labeled.iter().filter(|labeled| labeled.part != part);
        let texts = others.map(|labeled| &labeled.text).chain(self.entries);
        let stored = make_stored_texts(texts);
        let ranking = Ranking::new(StoredTexts::parse(&stored)?, self.questions.to_vec());
        let explainer = Explainer::new(self.known, &ranking);
        Ok(Fared::measure_texts(&self.phrasings.part(part), &explainer))
    }
}

/// Returns docs/explain.md with the figures of the texts that were never used for tuning.
///
/// # Errors
/// Returns an error if the page has no section for them.
pub fn page(text: &str, locked: &Fared) -> Result<String, TaskError> {
    let Fared { ranked, answered } = locked;
    let mut found = MarkdownTable::new([
        "texts",
        "how many",
        "right one first",
        "among the first three",
        "wrong and claimed",
        "not answered",
    ]);
    found.row(RankCounts::from_ranked(ranked.iter()).cells("all"));
    for (kind, name) in [
        (PhraseKind::Symptom, "symptoms"),
        (PhraseKind::Error, "messages and tracebacks"),
        (PhraseKind::Log, "logs"),
    ] {
        let is_of_kind = ranked.iter().filter(|ranked| ranked.phrase.kind == kind);
        found.row(RankCounts::from_ranked(is_of_kind).cells(name));
    }
    let RankCounts {
        all,
        nothing,
        claimed,
        ..
    } = RankCounts::from_others(answered.iter().map(|answered| answered.certainty));
    let mut others = MarkdownTable::new([
        "texts about something else",
        "not answered",
        "closest",
        "claimed",
    ]);
    others.row([
        all.to_string(),
        share(nothing, all),
        share(all - nothing - claimed, all),
        share(claimed, all),
    ]);
    let made = found.to_text() + &others.to_text() + &missed_texts(ranked);
    replace_part(text, "figures", &made)
}

/// Returns the texts whose right answer was not among the first three.
fn missed_texts(ranked: &[Ranked]) -> String {
    let (mut unsaid, mut missed) = (0, String::new());
    for Ranked { phrase, rank, .. } in ranked {
        let mut answers = phrase.answers.iter();
        unsaid += usize::from(answers.all(|answer| answer.starts_with("missing: ")));
        if rank.is_some_and(|rank| rank <= 3) {
            continue;
        }
        let (source, answers) = (&phrase.source, phrase.answers.join(", "));
        let link = match source.strip_prefix("https://") {
            Some(thread) => format!("[{}]({source})", thread.trim_start_matches("github.com/")),
            None => format!("{source}, \"{}\"", phrase.words),
        };
        let _ = writeln!(missed, "- {link}: {answers}");
    }
    format!(
        "\nFor {unsaid} of the texts, `explain` has no right answer; they count as not found. The right answer was not \
         among the first three for these:\n\n{missed}"
    )
}
