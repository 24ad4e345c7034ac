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

`cuda-pitfalls explain WORDS…` answers a symptom, a call, an error, a variable or a line of a framework from what comes \
with the program: no GPU and no checkout is needed. `explain -` reads a traceback or a log from standard input to its \
end, passes it through to stdout, and then answers on stderr. It looks at the last MiB. What is typed at a terminal \
is not \
repeated, and with `--json` nothing but the document is printed; both answer on stdout. `explain -- COMMAND…` runs a \
command with your input, output and signals, answers on stderr what it wrote there, and ends as it did. If it failed \
to start CUDA, the checks of `doctor` run and name the cause that holds here.

```sh
cuda-pitfalls explain torch.cuda.is_available mask
cuda-pitfalls explain 700
cuda-pitfalls explain cudaGetErrorString
cuda-pitfalls explain -- python train.py
python train.py 2>&1 | cuda-pitfalls explain -
```

It exits with 0 if it found something, with 4 if there is nothing about CUDA start-up in the text, and with 2 if no \
words were given. `--json` prints one document.

## The order of look-up

1. **Names.** [scenarios/known.json](../scenarios/known.json) and, for each question, the file beside it have everything that has a name: questions, findings of \
`trace`, symptoms, errors, messages, variables, masks, calls, lines of frameworks, files and system calls that CUDA \
needs, \
statuses of other libraries, and the commands and exit codes of this program. A line that is such a name, in a usual \
spelling (`import x`, `from x import y`, other capitals, `torch.` before it or not, a variable with a value or \
misspelt), answers with its own entry first, and then with the questions about it. A line of Python is claimed only \
if it is the code that was measured; another call of its function, or one with something called on its result, is \
closest, and names the code that was measured. An import that nobody measured is answered by the command that asks \
it. Of two that share a name the one that \
comes first in this list is meant. `list --names` prints all of them.
2. **Not CUDA's.** Texts about HIP and ROCm, XPU, NPU, Metal, Apple's MPS, Vulkan and their like are said to be that.
3. **Command lines.** A mask in front of a command, in `export` or in `env` is there before the program starts, so it is \
never too late: what its value settles is answered, or which GPUs its numbers mean. An error with advice beside it \
comes first.
4. **Errors.** A C name, or a number that is bound as a code: `error 700`, `(700)`, `returned 304`, `cuInit = 3`, or alone. \
A version, a count, an ordinal, a line, an exit code is none.
5. **Messages** of all libraries; of several in one line the longest, and a number beside it decides. An error that people \
search often comes with its causes; each says which scenario or survey measured it, or where it was read, for which \
package and versions and on which day. What to do first stands above them. They stand in the order in which to look; \
how often each occurs is not known. Three are shown, and all with `--all`. A message that a question is \
about (`says`) answers with the question.
6. **Nearest texts.** What nothing above settles is answered as the texts most like it were. That is called *closest* and \
never claimed. Beside an answer of a message or an error stand the two questions that are closest. Names that a text \
has \
among other words are explained beside it.

The first step that finds something answers.

Of a pasted text only messages, names of errors and functions, and the names of packages are looked up. Paths, addresses, \
times and line numbers are dropped, and what frameworks print below every error.

## How questions are ranked

1. **Texts.** About three thousand texts of public threads and nine hundred short sentences are labelled by hand with \
what answers them, or as being about something else: [tests/phrasings.toml](../tests/phrasings.toml). Beside them \
stand \
the questions of this program, and its errors, messages and symptoms with what they mean. Only their words come with \
the \
program, without their order: [scenarios/texts.json](../scenarios/texts.json).
2. **Words.** A text is taken apart into words, without their endings and in one spelling. \
[scenarios/synonyms.toml](../scenarios/synonyms.toml) lists words and phrases of one meaning, such as `subprocess` \
and \
`child`, or `VRAM` and `memory`; one word stands for all of a list. It also has the words of the field in Chinese, \
Japanese, \
Korean and Russian, in English; what else a text says in these scripts is left out. Exact names \
(`torch.cuda.is_available`, \
`cudaSetDevice`, `CUDA_VISIBLE_DEVICES`) are kept whole too. `GPU 0`, `cuda:0` and `device 0` are one. Two words that \
stand \
beside each other count as a pair, 0.7 times. A word that no text has stands for the one that differs from it by one \
letter, \
or by two if it is long.
3. **Likeness.** Two texts are the more alike the more words they share, and rare words count more (the cosine of their \
words, each by how rare it is).
4. **Votes.** All texts vote for their answers, each by the square of how like yours it is and by the rank of the answer in \
its list. A vote for a symptom goes to the question of the symptom that has most votes, if these are 0.7 of the \
symptom's \
or more; else to the symptom's causes, or, where none are listed, to its first question: yes before no, and then by \
framework (that of your text, or PyTorch).
5. **Nothing.** Each text of a thread says by the cube of how like yours it is whether yours is one with an answer or about \
something else, as if there were as many of both kinds; short sentences and what the program says itself count 0.42 \
times. \
No answer is given if the share of those with an answer is too small. How much is enough was fitted: a name of CUDA, \
of a \
GPU or of a framework lowers it, and what is pasted needs more. A text with an error of CUDA always has an answer.

## How often the right one comes first

Measured with texts that nobody had looked at when they were opened: 130 of public threads of two years, 20 typed \
from memory as a stranger would, and 110 about other matters ([texts](../tests/phrasings-locked.toml), \
[others](../tests/phrasings-locked-others.toml)). They were put away by [hash](../tests/phrasings-locked.sha256) \
first, \
their answers were listed by somebody who did not see what the program says, and they were opened once, on 27 \
November \
2026, when all that is tuned was done (for later versions the table is made again, and nothing is tuned on them); \
whether a thread is for them or to be looked up was decided by its address \
alone. Sentences of people \
are retold, messages stand as programs print them; about half are of pull requests and commits, whose symptom was \
told \
back, and most causes are those of excerpts. Another set of 150 and 110, opened before that, had 59 % right first, \
75 % among the first three, 2 % wrong and claimed, and 90 % of the others not answered. \
None of the texts is among those that are looked up. An error with advice is right where the list names the \
error or its first cause.

";
