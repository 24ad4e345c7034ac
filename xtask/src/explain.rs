//! How often `explain` finds the right answer to what people write, and the page about it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cuda_pitfalls::explain::{
    Certainty, Explainer, LabelledText, Query, QuestionTexts, Ranking, StoredTexts, advice_about,
    make_stored_texts,
};
use cuda_pitfalls::known::Known;
use serde::Deserialize;

use crate::TaskError;

/// What people write: texts that `explain` answers, and texts that are none of its business.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phrasings {
    /// Texts that are answered.
    #[serde(default)]
    pub phrase: Vec<Phrase>,
    /// Texts about something else.
    #[serde(default)]
    pub negative: Vec<Negative>,
}

/// What somebody wrote, and what answers it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phrase {
    /// As it was written.
    pub words: String,
    /// The thread.
    pub source: String,
    /// Each right answer: the full name of a scenario, `error/CODE`, the id of a message, `symptom/ID`, which any of
    /// the symptom's scenarios answers, or `missing: ` with what nothing says yet.
    pub answers: Vec<String>,
    /// Which kind of text it is.
    #[serde(default)]
    pub kind: PhraseKind,
}

/// A kind of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhraseKind {
    /// What somebody sees, in their own words.
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
    /// As it was written.
    pub words: String,
    /// Where.
    pub source: String,
    /// Which kind of text it is, in a word.
    #[serde(default)]
    pub kind: String,
}

impl Phrasings {
    /// Reads a file of texts.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn parse(source: &str) -> Result<Phrasings, TaskError> {
        toml::from_str(source).map_err(|error| format!("texts for explain: {error}").into())
    }

    /// The texts as `explain` looks them up. One whose answers are all missing says nothing.
    pub fn labeled_texts(&self) -> Vec<LabelledText> {
        let answered = self.phrase.iter().filter_map(
            |Phrase {
                 words,
                 source,
                 answers,
                 ..
             }| {
                let known = answers
                    .iter()
                    .filter(|answer| !answer.starts_with("missing: "))
                    .cloned();
                Some(known.collect())
                    .filter(|known: &Vec<String>| !known.is_empty())
                    .map(|known| (words, source, known))
            },
        );
        let others = self
            .negative
            .iter()
            .map(|Negative { words, source, .. }| (words, source, Vec::new()));
        answered
            .chain(others)
            .map(|(words, source, answers)| LabelledText::new(source, words, answers))
            .collect()
    }

    /// The texts of one part of the threads, and those of all other parts. What is of no thread is a part by its words.
    fn part(&self, part: usize) -> (Phrasings, Phrasings) {
        let is_in = |source: &str, words: &str| {
            let key = if source.starts_with("http") {
                source
            } else {
                words
            };
            key.bytes().map(usize::from).sum::<usize>() % PARTS == part
        };
        let all = self.clone();
        let phrases = all.phrase.into_iter();
        let (phrase, phrases) = phrases.partition(|text| is_in(&text.source, &text.words));
        let negatives = all.negative.into_iter();
        let (negative, negatives) = negatives.partition(|text| is_in(&text.source, &text.words));
        (
            Phrasings { phrase, negative },
            Phrasings {
                phrase: phrases,
                negative: negatives,
            },
        )
    }

    /// The number of threads that a scenario is the best answer to.
    pub fn thread_count(&self, scenario: &str) -> usize {
        let asked = self
            .phrase
            .iter()
            .filter(|phrase| phrase.answers.first().is_some_and(|best| best == scenario));
        asked
            .map(|phrase| &phrase.source)
            .collect::<BTreeSet<_>>()
            .len()
    }
}

/// The texts are measured in so many parts, each by the texts of the others.
const PARTS: usize = 5;

/// How one phrase fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// What was asked.
    pub phrase: Phrase,
    /// At which place the first right answer came, from 1 on; none if it is not among those that are told.
    pub rank: Option<usize>,
    /// What came first; empty if nothing was answered.
    pub first: String,
    /// How sure the answer was.
    pub certainty: Certainty,
}

/// Texts counted by where the right answer came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCounts {
    /// All.
    pub all: usize,
    /// The right one came first.
    pub first: usize,
    /// The right one was among the first three.
    pub three: usize,
    /// A wrong one came first and was claimed to be right.
    pub claimed: usize,
    /// Nothing was answered.
    pub nothing: usize,
}

impl RankCounts {
    /// Of phrases that were ranked.
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

    /// Of texts about something else: none of them has a right answer.
    pub fn from_others(answers: impl Iterator<Item = Certainty>) -> RankCounts {
        answers.fold(RankCounts::default(), |counts, certainty| RankCounts {
            all: counts.all + 1,
            claimed: counts.claimed + usize::from(certainty.is_claimed()),
            nothing: counts.nothing + usize::from(certainty == Certainty::Nothing),
            ..counts
        })
    }

    fn row(self, name: &str) -> String {
        row(
            name,
            self.all,
            &[self.first, self.three, self.claimed, self.nothing],
        )
    }
}

/// A row of a table: how many there are, and parts of them.
fn row(name: &str, all: usize, parts: &[usize]) -> String {
    let shares = parts
        .iter()
        .map(|part| format!("{part} ({} %)", (part * 100 + all / 2) / all.max(1)));
    format!(
        "| {name} | {all} | {} |\n",
        shares.collect::<Vec<_>>().join(" | ")
    )
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

/// The scenario that measured the first cause of an error or a message: a reader sees it first.
fn first_cause(id: &str) -> Option<&'static str> {
    advice_about(id)?.causes.first()?.scenario.as_deref()
}

/// How a text about something else was answered.
pub struct Answered {
    /// The text.
    pub negative: Negative,
    /// How sure the answer was.
    pub certainty: Certainty,
    /// What came first, if anything did.
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

/// How `explain` fares on what people write.
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

    /// Looks every text up among the program's own texts and those of the other parts.
    ///
    /// # Errors
    /// The index of a part cannot be read.
    pub fn by_parts(
        phrasings: &Phrasings,
        known: &Known,
        entries: &[LabelledText],
        questions: &[QuestionTexts],
    ) -> Result<Fared, TaskError> {
        let mut fared = Fared {
            ranked: Vec::new(),
            answered: Vec::new(),
        };
        for (part, others) in (0..PARTS).map(|part| phrasings.part(part)) {
            let texts = [&others.labeled_texts(), entries].concat();
            let text = make_stored_texts(&texts);
            let ranking = Ranking::new(StoredTexts::parse(&text)?, questions.to_vec());
            let Fared { ranked, answered } =
                Fared::measure_texts(&part, &Explainer::new(known, &ranking));
            fared.ranked.extend(ranked);
            fared.answered.extend(answered);
        }
        Ok(fared)
    }
}

/// docs/explain.md, with the figures of the texts that nobody had tuned by.
pub fn page(locked: &Fared) -> String {
    let Fared { ranked, answered } = locked;
    let mut out = OPENING.to_owned();
    out.push_str("| texts | how many | right one first | among the first three | wrong and claimed | not answered |\n");
    out.push_str("| --- | --- | --- | --- | --- | --- |\n");
    out.push_str(&RankCounts::from_ranked(ranked.iter()).row("all"));
    let kinds = [
        (PhraseKind::Symptom, "symptoms"),
        (PhraseKind::Error, "messages and tracebacks"),
        (PhraseKind::Log, "logs"),
    ];
    for (kind, name) in kinds {
        let of_kind = ranked.iter().filter(|ranked| ranked.phrase.kind == kind);
        out.push_str(&RankCounts::from_ranked(of_kind).row(name));
    }
    out.push_str("\n| texts about something else | not answered | closest | claimed |\n| --- | --- | --- | --- |\n");
    let counts = RankCounts::from_others(answered.iter().map(|answered| answered.certainty));
    let RankCounts {
        all,
        nothing,
        claimed,
        ..
    } = counts;
    out.push_str(
        &row("", all, &[nothing, all - nothing - claimed, claimed]).replacen("|  ", "", 1),
    );
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
    let _ = writeln!(
        out,
        "\nOf the texts {unsaid} have no right answer among what is known; they count as not found. These were not found \
         among the first three:\n",
    );
    out.push_str(&missed);
    out
}

const OPENING: &str = "\
# How `explain` finds its answers

`cuda-pitfalls explain WORDS…` explains a symptom, a call, an error, a variable or a framework line from built-in \
data: it needs no GPU and no checkout. `explain -` reads a traceback or a log from standard input to its end, passes \
it through to stdout, and then answers on stderr. It examines the last MiB. Text that is typed at a terminal is not \
repeated, and with `--json` only the document is printed; both answer on stdout. `explain -- COMMAND…` runs a \
command with your input, output and signals, answers on stderr what it wrote there, and ends as it did. If the \
command failed to start CUDA, the checks of `doctor` run and report the cause that applies here.

```sh
cuda-pitfalls explain torch.cuda.is_available mask
cuda-pitfalls explain 700
cuda-pitfalls explain cudaGetErrorString
cuda-pitfalls explain -- python train.py
python train.py 2>&1 | cuda-pitfalls explain -
```

It exits with 0 if it found something, with 4 if the text contains nothing about CUDA start-up, and with 2 if no \
words were given. `--json` prints one document.

## The order of look-up

The first step that finds something answers.

1. **Names.** [scenarios/known.json](../scenarios/known.json) and, for each scenario, the file next to it contain \
everything that has a name: scenarios, findings of `trace`, symptoms, errors, messages, variables, masks, calls, \
framework lines, files and system calls that CUDA needs, statuses of other libraries, and the commands and exit \
codes of this program.
   - A line that is such a name, in a usual spelling (`import x`, `from x import y`, other capitals, with or without \
`torch.`, a variable with a value or misspelled), answers with its own entry first, and then with the scenarios \
about it.
   - A Python line is an exact match only if it is the measured code. Another call of its function, or a call on its \
result, is reported as closest, together with the measured code. An import that was not measured is answered by the \
command that measures it.
   - If two entries share a name, the one that comes first in this list is used. `list --names` prints all of them.
2. **Not about CUDA.** Texts about HIP and ROCm, XPU, NPU, Metal, Apple's MPS, Vulkan and similar technologies are \
reported as such.
3. **Command lines.** A mask in front of a command, in `export` or in `env` is set before the program starts, so it \
is never too late. The answer is the effect of its value, or the GPUs that its numbers select. An error with advice \
in the same text comes first.
4. **Errors.** A C name, or a number that is bound as a code: `error 700`, `(700)`, `returned 304`, `cuInit = 3`, or \
alone. Versions, counts, ordinals, line numbers and exit codes are not taken for error codes.
5. **Messages** of all libraries. Of several in one line, the longest is used, and a number next to it decides. \
Common errors come with their causes. Each cause states the scenario or survey that measured it, or its source, with \
the package, versions and day. What to do first is above them. The causes are in the order in which to check them; \
how often each occurs is not known. Three are shown, and all with `--all`. A message that a scenario is about \
(`says`) answers with the scenario.
6. **Nearest texts.** Otherwise the answers of the most similar known texts are shown. They are called *closest* and \
never claimed to be exact. The answer of a message or an error is followed by the two closest scenarios. Names that \
a text has among other words are explained too.

In a pasted text, only messages, names of errors and functions, and the names of packages are looked up. Paths, \
addresses, times, line numbers and the lines that frameworks print below every error are dropped.

## How questions are ranked

1. **Texts.** About three thousand texts of public threads and nine hundred short sentences are labeled by hand with \
their answers, or as being about something else: [tests/phrasings.toml](../tests/phrasings.toml). The texts also \
include the questions of this program, and its errors, messages and symptoms with their meanings. The program \
contains only their words, without their order: [scenarios/texts.json](../scenarios/texts.json).
2. **Words.** A text is split into words, without their endings and in one spelling. \
[scenarios/synonyms.toml](../scenarios/synonyms.toml) lists words and phrases with the same meaning, such as \
`subprocess` and `child`, or `VRAM` and `memory`; one word represents all of a list. It also translates technical \
words in Chinese, Japanese, Korean and Russian to English; the rest of a text in these scripts is ignored. Exact \
names (`torch.cuda.is_available`, `cudaSetDevice`, `CUDA_VISIBLE_DEVICES`) are also kept complete. `GPU 0`, `cuda:0` \
and `device 0` are the same. Two adjacent words count as a pair, with weight 0.7. An unknown word is replaced by the \
known one that differs from it by one character, or by two if it is long.
3. **Similarity.** Two texts are more similar the more words they share, and rare words count more (the cosine of \
their words, weighted by rarity).
4. **Votes.** All texts vote for their answers, each with the square of its similarity to yours and by the rank of \
the answer in its list. A vote for a symptom goes to the scenario of the symptom that has most votes, if these are \
0.7 of the symptom's or more. Otherwise it goes to the symptom's causes, or, if none are listed, to its first \
scenario: yes before no, and then by framework (that of your text, or PyTorch).
5. **No answer.** Each text of a thread votes, with the cube of its similarity to yours, on whether yours is one \
with an answer or about something else, as if there were equally many of both types. Short sentences and the \
program's own texts count 0.42 times. No answer is given if the share of those with an answer is too small. The \
threshold was fitted: a CUDA, GPU or framework name lowers it, and pasted text raises it. A text \
with a CUDA error always has an answer.

## How often the right one comes first

This was measured with texts that nobody had seen before they were opened: 130 of public threads of two years, 20 \
typed from memory as a stranger would, and 110 about other subjects ([texts](../tests/phrasings-locked.toml), \
[others](../tests/phrasings-locked-others.toml)). They were sealed by [hash](../tests/phrasings-locked.sha256) \
first, and their answers were listed by somebody who did not see the program's answers. They were opened once, on 27 \
November 2026, when all tuning was done (for later versions the table is made again, and nothing is tuned on them). \
Whether a thread belongs to them or to the texts that are looked up was decided by its address alone.

People's sentences are paraphrased; messages are as programs print them. About half are from pull requests and \
commits, whose symptom was reconstructed, and most causes are those of excerpts. Another set of 150 and 110, opened \
before that, had 59 % right first, 75 % among the first three, 2 % wrong and claimed, and 90 % of the others not \
answered. None of the texts is among those that are looked up. An error with advice is right if the list names the \
error or its first cause.

";
