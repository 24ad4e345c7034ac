//! How often `explain` finds the right answer to what people write, and the page about it.

use std::fmt::Write as _;

use cuda_pitfalls::explain::{Explainer, Query};
use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::summary::Summary;
use cuda_pitfalls::text::escape;

use crate::TaskError;

/// What somebody wrote, and what answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// As it was written.
    pub words: String,
    /// The thread.
    pub source: String,
    /// Full names of the scenarios that answer it.
    pub answers: Vec<String>,
}

/// How one phrase fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// What was asked.
    pub phrase: Phrase,
    /// At which place the first right answer came, from 1 on; none if it is not among those that are told.
    pub rank: Option<usize>,
    /// The scenario that came first.
    pub first: String,
    /// Whether the ranking may not have been tuned on it.
    pub is_held_out: bool,
}

/// Phrases counted by where the right answer came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub all: usize,
    /// The right one came first.
    pub first: usize,
    /// The right one was among the first three.
    pub three: usize,
    /// The right one was told.
    pub told: usize,
}

impl Counts {
    /// Of phrases that were ranked.
    pub fn of<'a>(ranked: impl Iterator<Item = &'a Ranked>) -> Counts {
        ranked.fold(Counts::default(), |counts, one| {
            let within = |places: usize| usize::from(one.rank.is_some_and(|rank| rank <= places));
            Counts {
                all: counts.all + 1,
                first: counts.first + within(1),
                three: counts.three + within(3),
                told: counts.told + within(usize::MAX),
            }
        })
    }

    fn row(self, name: &str) -> String {
        let percent = |part: usize| format!("{part} ({} %)", (part * 100 + self.all / 2) / self.all.max(1));
        format!(
            "| {name} | {} | {} | {} | {} |\n",
            self.all,
            percent(self.first),
            percent(self.three),
            percent(self.told)
        )
    }
}

/// The phrases of `tests/phrasings.toml`.
///
/// # Errors
/// What is wrong with the file, in words.
pub fn phrases(source: &str) -> Result<Vec<Phrase>, TaskError> {
    let table: toml::Table = source.parse().map_err(|error| format!("tests/phrasings.toml: {error}"))?;
    let list = table.get("phrase").and_then(toml::Value::as_array).ok_or("tests/phrasings.toml has no `phrase`")?;
    let read = |entry: &toml::Value| -> Option<Phrase> {
        let text = |key: &str| entry.get(key)?.as_str().map(str::to_owned);
        let answers = entry.get("answers")?.as_array()?.iter().filter_map(|name| name.as_str().map(str::to_owned));
        Some(Phrase { words: text("words")?, source: text("source")?, answers: answers.collect() })
    };
    let wrong =
        |entry: &toml::Value| format!("tests/phrasings.toml: `words`, `source` and `answers` are needed: {entry}");
    list.iter().map(|entry| read(entry).ok_or_else(|| wrong(entry).into())).collect()
}

/// Looks each phrase up. Every second one, from the second on, is held out.
pub fn ranked(phrases: &[Phrase], scenarios: &[Scenario], summary: &Summary) -> Vec<Ranked> {
    let explainer = Explainer::new(scenarios, summary);
    let rank = |(place, phrase): (usize, &Phrase)| {
        let found = explainer.explain(Query::of(&phrase.words));
        let names: Vec<&str> = found.answers.iter().map(|answer| answer.scenario.name.as_str()).collect();
        let right = names.iter().position(|name| phrase.answers.iter().any(|answer| answer == name));
        Ranked {
            phrase: phrase.clone(),
            rank: right.map(|place| place + 1),
            first: names.first().map(|name| (*name).to_owned()).unwrap_or_default(),
            is_held_out: place % 2 == 1,
        }
    };
    phrases.iter().enumerate().map(rank).collect()
}

/// docs/explain.md.
pub fn page(ranked: &[Ranked]) -> String {
    let mut out = OPENING.to_owned();
    let tuned = Counts::of(ranked.iter().filter(|one| !one.is_held_out));
    let held_out = Counts::of(ranked.iter().filter(|one| one.is_held_out));
    let _ = writeln!(out, "| phrases | how many | right one first | among the first three | among those told |");
    let _ = writeln!(out, "| --- | --- | --- | --- | --- |");
    out.push_str(&tuned.row("tuned on"));
    out.push_str(&held_out.row("held out"));
    out.push_str(&Counts::of(ranked.iter()).row("all"));
    let several = ranked.iter().filter(|one| one.phrase.answers.len() > 1).count();
    let _ = writeln!(
        out,
        "\nOf {several} of the {} phrases more than one scenario is right: where a thread does not say whether it is \
         about a framework or about calls, both answer it.\n\n## Each phrase\n",
        ranked.len()
    );
    let _ = writeln!(out, "| phrase | half | place | answered by |\n| --- | --- | --- | --- |");
    for one in ranked {
        let half = if one.is_held_out { "held out" } else { "tuned on" };
        let place = one.rank.map_or_else(|| "–".to_owned(), |rank| rank.to_string());
        let name = one.phrase.answers.iter().find(|answer| **answer == one.first).or(one.phrase.answers.first());
        let name = name.map(String::as_str).unwrap_or_default();
        let words = escape::markdown(&one.phrase.words);
        let _ = writeln!(out, "| [{words}]({}) | {half} | {place} | [{name}](pitfalls/{name}.md) |", one.phrase.source);
    }
    out
}

const OPENING: &str = "\
# How `explain` finds its answers

`cuda-pitfalls explain WORDS…` answers a symptom, a call, an error, a variable or a line of a framework from what comes \
with the program: no GPU and no checkout is needed. `explain -` reads a traceback or a log from standard input to its \
end, passes it through to stdout, and then answers on stderr. It looks at the last MiB. What is typed at a terminal is not \
repeated, and with `--json` nothing but the document is printed; both answer on stdout.

```sh
cuda-pitfalls explain torch.cuda.is_available mask
cuda-pitfalls explain 700
cuda-pitfalls explain cudaGetErrorString
python train.py 2>&1 | cuda-pitfalls explain -
```

It exits with 0 if it found something, with 4 if it found nothing, and with 2 if no words were given. `--json` prints \
one document.

## How scenarios are ranked

1. **Words.** What was typed is taken apart into words, without their endings and in one spelling. \
[scenarios/synonyms.toml](../scenarios/synonyms.toml) lists words of one meaning, such as `subprocess` and `child`. Exact \
names (`torch.cuda.is_available`, `cudaSetDevice`, `CUDA_VISIBLE_DEVICES`) are kept whole too. `GPU 0`, `cuda:0` and \
`device 0` are one.
2. **Errors.** A number, a name or a message of an error stands for the error: `700`, `cudaErrorIllegalAddress`, \
`CUDA_ERROR_ILLEGAL_ADDRESS` and `an illegal memory access was encountered` are one. The names are those of the tables of \
calls, the messages are in [scenarios/errors.toml](../scenarios/errors.toml).
3. **Fields.** Each scenario is looked up in its question, its messages (`says`), its name, the common belief, the answer, \
symptoms, tags, the workaround, the comment, the calls or lines of its trap, and its checks. A word counts more in the \
question than in a step, and a rare word more than a frequent one (BM25 over weighted fields). Two words that stand \
beside each other in the scenario too count more. A message of `says` that was pasted whole counts most.
4. **Spelling.** A word that no scenario has stands for those that differ from it by one letter, or by two if it is long.
5. **Language.** If a framework was named, scenarios of other frameworks count half. If none was, scenarios of CUDA calls \
count more than those of frameworks.
6. **Nothing.** A scenario that has less than a third of the words, by weight, is no answer.

Of a pasted text only messages, names of errors and functions, and the names of packages are looked up. Paths, addresses, \
times and line numbers are dropped.

Above the answers stands what the surveys know of a name: what a call or a line of Python does as the first of a process, \
or when a variable is read.

## How often the right one comes first

[tests/phrasings.toml](../tests/phrasings.toml) lists what people wrote in issue threads: titles and short quotes of \
error messages. None of them is in the `says` of a scenario. The ranking was tuned on every second phrase; of the \
others, which are held out, only the counts below were looked at meanwhile.

";
