//! What is read of a scenario, and how much each part of it counts.

use std::collections::{BTreeMap, BTreeSet};

use super::super::term::{Term, pairs};
use super::super::words::{terms, terms_of_people};
use super::{PARTS, Ranking, key};
use cuda_pitfalls_core::scenario::{Case, Scenario, symptom};

/// `k1` of BM25: how soon repeats of a term stop raising the score.
const SATURATION: f64 = 1.4;
/// `b` of BM25: how much a long field lowers the score.
const LENGTH: f64 = 0.6;
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

struct ReadScenario {
    /// How often each field has each term.
    counts: BTreeMap<Term, [u16; FIELDS.len()]>,
    /// How many terms each field has.
    lengths: [f64; FIELDS.len()],
    /// Words that stand beside each other in the question, the belief and the messages.
    pairs: BTreeSet<(String, String)>,
    question: BTreeSet<Term>,
    messages: Vec<BTreeSet<Term>>,
}

impl ReadScenario {
    fn new(scenario: &Scenario) -> ReadScenario {
        let mut read = ReadScenario {
            counts: BTreeMap::new(),
            lengths: [0.0; FIELDS.len()],
            pairs: BTreeSet::new(),
            question: terms(&scenario.question).into_iter().collect(),
            messages: scenario.says.iter().map(|said| terms_of_people(said).into_iter().collect()).collect(),
        };
        for (index, (_, reading, text)) in FIELDS.into_iter().enumerate() {
            let text = text(scenario);
            let found = if reading == FieldReading::Said { terms_of_people(&text) } else { terms(&text) };
            if let Some(length) = read.lengths.get_mut(index) {
                *length = found.len() as f64;
            }
            if reading != FieldReading::Words {
                read.pairs.extend(pairs(&found));
            }
            for term in found {
                let counts = read.counts.entry(term).or_insert([0; FIELDS.len()]);
                if let Some(count) = counts.get_mut(index) {
                    *count = count.saturating_add(1);
                }
            }
        }
        read
    }

    /// How much of a term it has: from 0 to `SATURATION + 1`.
    fn saturated(&self, counts: &[u16], means: &[f64]) -> f64 {
        let fields = FIELDS.into_iter().zip(counts).zip(self.lengths.iter().zip(means));
        let weighted: f64 = fields
            .map(|(((weight, ..), count), (length, mean))| {
                let length = 1.0 - LENGTH + LENGTH * length / mean.max(1.0);
                weight * f64::from(*count) / length
            })
            .sum();
        weighted * (SATURATION + 1.0) / (weighted + SATURATION * 2.0)
    }
}

/// The text of `scenarios/ranking.json`, with one line for each term.
pub fn ranking(scenarios: &[Scenario]) -> String {
    let all: Vec<ReadScenario> = scenarios.iter().map(ReadScenario::new).collect();
    let count = all.len().max(1) as f64;
    let means: Vec<f64> = (0..FIELDS.len())
        .map(|field| all.iter().filter_map(|read| read.lengths.get(field)).sum::<f64>() / count)
        .collect();
    let (mut terms, mut pairs) = (BTreeMap::<String, Vec<String>>::new(), BTreeMap::<String, Vec<String>>::new());
    for (index, read) in all.iter().enumerate() {
        for (term, counts) in &read.counts {
            let score = (read.saturated(counts, &means) * PARTS).round();
            let mark = if read.question.contains(term) { "q" } else { "" };
            terms.entry(key(term)).or_default().push(format!("{index}:{score}{mark}"));
        }
        for (one, other) in &read.pairs {
            pairs.entry(format!("{one} {other}")).or_default().push(index.to_string());
        }
    }
    let empty = Ranking { scenarios: scenarios.iter().map(|it| it.name.as_str()).collect(), ..Ranking::default() };
    let rarity = |term: &Term| empty.rarity(terms.get(&key(term)).map_or(0, Vec::len));
    let questions = all.iter().map(|read| read.question.iter().map(rarity).sum::<f64>());
    let questions: Vec<f64> = questions.map(|rarity| (rarity * PARTS).round() / PARTS).collect();
    let messages = all.iter().enumerate().flat_map(|(index, read)| {
        let long = read.messages.iter().filter(|message| message.len() >= 2);
        long.map(move |message| (index, message.iter().map(key).collect::<Vec<String>>()))
    });
    let lists = [
        list("scenarios", empty.scenarios.iter()),
        list("questions", questions.iter()),
        list("messages", messages),
        list("terms", terms.iter().map(|(term, scenarios)| (term, scenarios.join(" ")))),
        list("pairs", pairs.iter().map(|(pair, scenarios)| (pair, scenarios.join(" ")))),
    ];
    format!("{{{}}}\n", lists.join(",\n"))
}

fn list(name: &str, all: impl Iterator<Item = impl serde::Serialize>) -> String {
    let lines: Vec<String> = all.map(|one| serde_json::to_string(&one).unwrap_or_default()).collect();
    format!("\"{name}\": [\n{}\n]", lines.join(",\n"))
}
