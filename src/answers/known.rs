//! Knowledge that is available without a checkout: everything that has a name, with a sentence about it, and the
//! answers of the scenarios. `scenarios/known.json` contains the named things, and `scenarios/SUBJECT/NAME.ndjson` the
//! knowledge about a single scenario, so that a new scenario changes only its own file. `cargo xtask bless` generates
//! both from the committed files.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::survey::needs::NeedsProgram;
use cuda_pitfalls_core::scenario::{Expected, Instance, Scenario};
use cuda_pitfalls_core::text::versions::number;

/// Maximum number of answers in the output.
pub const MOST_ANSWERS: usize = 5;

/// The words before the results of `survey imports`, which end the sentence of a Python line.
pub const IMPORTED: &str = "Imported without a GPU:";

/// The built-in knowledge. Parts that cannot be parsed are left out; a test rules that out.
static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let names = serde_json::from_str(cuda_pitfalls_scenarios::known()).unwrap_or_default();
    let mut scenarios = Vec::new();
    for facts in cuda_pitfalls_scenarios::question_facts() {
        let line = facts.lines().nth(1).unwrap_or_default();
        scenarios.extend(serde_json::from_str::<KnownScenario>(line).ok());
    }
    Known::new(names, scenarios)
});

/// The knowledge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Everything that has a name, in look-up order.
    pub entries: Vec<KnownEntry>,
    /// Scenarios, in the order of their names.
    pub scenarios: Vec<KnownScenario>,
    /// Effects of each denied file or system call, from the first call on.
    pub needs: Vec<NeedFacts>,
    /// Memory cost of one context on each GPU model, from the calibrations of the committed reports.
    pub contexts: Vec<ContextCost>,
}

/// Knowledge other than scenarios, as stored in `scenarios/known.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownNames {
    /// Everything that has a name except scenarios, in look-up order. Each entry lists only the scenarios that were
    /// assigned to it by hand.
    pub entries: Vec<KnownEntry>,
    /// See [`Known::needs`].
    pub needs: Vec<NeedFacts>,
    /// See [`Known::contexts`].
    pub contexts: Vec<ContextCost>,
}

impl KnownNames {
    /// Returns the text of the file, with one line for each entry.
    pub fn text(&self) -> String {
        let [entries, needs] = [lines(&self.entries), lines(&self.needs)];
        let contexts = lines(&self.contexts);
        format!(
            "{{\"entries\": [\n{entries}\n],\n\"needs\": [\n{needs}\n],\n\"contexts\": [\n{contexts}\n]}}\n"
        )
    }
}

/// Memory cost of one context on a GPU model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextCost {
    /// The name of the GPU.
    pub gpu: String,
    /// The driver's version.
    pub driver: String,
    /// Maximum memory cost of `cuInit` and one primary context together, in bytes.
    pub bytes: u64,
    /// Number of calibrations that measured this cost or slightly less.
    pub calibrations: usize,
}

/// Something that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownEntry {
    /// An id that is unique in the store: the name of a scenario, or the kind and a name, such as `error/700`.
    pub id: String,
    /// Type of the entry.
    pub kind: KnownKind,
    /// Names in use. The first is the official one.
    pub names: Vec<String>,
    /// A sentence about the entry.
    pub sentence: String,
    /// Page about it, relative to the root of the repository; empty if it has no page.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub page: String,
    /// Evidence for the sentence: machines, runs, releases or tables.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rests_on: String,
    /// Scenarios about the entry, the likeliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<String>,
}

/// Type of a named thing. If two things share a name, the type listed first here takes precedence.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum KnownKind {
    /// A finding of `trace`.
    Rule,
    /// Something that users observe.
    Symptom,
    /// A scenario.
    Scenario,
    /// A status of libcudart or libcuda.
    Error,
    /// A message that is not a status.
    Message,
    /// An environment variable.
    Variable,
    /// A value of `CUDA_VISIBLE_DEVICES`.
    Mask,
    /// A call of a C library.
    Call,
    /// A Python line.
    Line,
    /// A file or a system call that CUDA needs.
    Need,
    /// A status of another library.
    Status,
    /// A command of this program.
    Command,
    /// An exit code of this program.
    Exit,
}

/// A scenario and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownScenario {
    /// `<subject>/<what-happens>`.
    pub name: String,
    /// The question.
    pub question: String,
    /// One-word answer.
    pub word: Word,
    /// The answer in a sentence; empty if there is no answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
    /// Symptoms that users observe, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symptoms: Vec<String>,
    /// Words to select by.
    pub tags: Vec<String>,
    /// Messages that the scenario is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
    /// `true` if it is one of the most common questions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_essential: bool,
    /// Descriptions of the machines in the reports that support the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// Runs that support the answer; `None` if nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// Behavior of the deciding lines in each release, one clause per line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<String>,
    /// Number of threads that the scenario is the best answer to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub threads: usize,
    /// Ids of the entries that the scenario mentions, and the place of each mention.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub about: BTreeMap<String, Mention>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Place where a scenario mentions an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mention {
    /// First part of the scenario that contains the name.
    pub part: MentionPart,
    /// `true` if the name of the scenario does not contain the name of the entry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_not_in_name: bool,
}

/// A part of a scenario, the most relevant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MentionPart {
    /// The question itself.
    Question,
    /// A message that the scenario is about.
    Message,
    /// The common belief.
    Belief,
    /// The calls or lines of the scenario's trap.
    Step,
    /// A status that the scenario's trap returns.
    Status,
}

impl KnownScenario {
    /// Returns the scenario as an entry with names.
    fn entry(&self) -> KnownEntry {
        let last = self.name.rsplit('/').next().unwrap_or_default().to_owned();
        KnownEntry {
            id: self.name.clone(),
            kind: KnownKind::Scenario,
            names: vec![self.name.clone(), last, self.question.clone()],
            sentence: if self.answer.is_empty() {
                self.word.name()
            } else {
                self.answer.clone()
            },
            page: format!("docs/pitfalls/{}.md", self.name),
            rests_on: self.basis.as_ref().map(Basis::sentence).unwrap_or_default(),
            scenarios: Vec::new(),
        }
    }
}

/// One-word answer to the question of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The pitfall is expected everywhere.
    Yes,
    /// The pitfall is expected nowhere.
    No,
    /// The answer depends on a version or on a value.
    #[serde(rename = "some")]
    Depends,
    /// No measurement exists.
    #[serde(rename = "open")]
    Unmeasured,
}

impl Word {
    /// Returns the word as it is printed.
    pub fn name(self) -> String {
        crate::survey::word(self)
    }

    /// Returns the answer that follows from the expectations of a scenario.
    pub fn from_expectations(scenario: &Scenario) -> Word {
        let mut verdicts = scenario.instances.iter().flat_map(expected);
        let Some(first) = verdicts.next() else {
            return Word::Unmeasured;
        };
        match (first, verdicts.all(|other| other == first)) {
            (Expected::Reproduced, true) => Word::Yes,
            (Expected::NotReproduced, true) => Word::No,
            (_, false) => Word::Depends,
        }
    }
}

/// Returns the verdicts that an instance expects, except those for parameter values that it does not have.
fn expected(instance: &Instance) -> impl Iterator<Item = Expected> + '_ {
    instance
        .expect
        .iter()
        .filter(|entry| entry.when.may_hold_for(instance))
        .map(|entry| entry.verdict)
}

/// Evidence for an answer: the runs that ran the scenario in its current form and reached a verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Basis {
    /// The smallest number of attempts that counted, across trap and control and across the runs.
    pub least: u32,
    /// The largest such number.
    pub most: u32,
    /// The number of runs.
    pub runs: u32,
    /// The number of runs that were interrupted.
    pub interrupted: u32,
    /// The machines, by number and model of their GPUs: `2 × NVIDIA H200`.
    pub machines: Vec<String>,
    /// The newest versions that were measured, of libcudart or of the packages that the lines need: `torch 2.11.0`.
    pub newest: Vec<String>,
}

impl Basis {
    /// Returns `true` if there is only one attempt of each case.
    pub const fn is_single(&self) -> bool {
        self.runs == 1 && self.least == 1
    }

    /// Returns `true` if every run was interrupted.
    pub const fn is_of_interrupted_runs(&self) -> bool {
        self.interrupted == self.runs
    }

    /// Returns the evidence as a phrase: `3 to 5 attempts of each case in each of 2 runs, on 1 and 2 × NVIDIA H200`.
    pub fn sentence(&self) -> String {
        let attempts = match (self.least, self.most) {
            (1, 1) => "1 attempt".to_owned(),
            (least, most) if least == most => format!("{most} attempts"),
            (least, most) => format!("{least} to {most} attempts"),
        };
        let runs = match (self.runs, self.interrupted) {
            (1, 0) => "in 1 run".to_owned(),
            (1, _) => "in 1 run, which was interrupted".to_owned(),
            (runs, 0) => format!("in each of {runs} runs"),
            (runs, 1) => format!("in each of {runs} runs, 1 of them interrupted"),
            (runs, some) if runs == some => {
                format!("in each of {runs} runs, which were all interrupted")
            }
            (runs, some) => format!("in each of {runs} runs, {some} of them interrupted"),
        };
        format!(
            "{attempts} of each case {runs}, on {}",
            machines_in_words(&self.machines)
        )
    }
}

/// Returns a list of machines that names each model once: `1, 2 and 4 × NVIDIA H200`.
pub fn machines_in_words(machines: &[String]) -> String {
    let mut models: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for (gpus, model) in machines
        .iter()
        .filter_map(|machine| machine.split_once(" × "))
    {
        models
            .entry(model)
            .or_default()
            .extend(gpus.parse::<u32>().ok());
    }
    let models = models.into_iter().map(|(model, gpus)| {
        let gpus: Vec<String> = gpus.iter().map(u32::to_string).collect();
        format!("{} × {model}", listed(&gpus))
    });
    listed(&models.collect::<Vec<_>>())
}

/// Returns `a`, `a and b`, or `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        [only] => only.clone(),
        _ => "no machine".to_owned(),
    }
}

/// Effects of a denied file or system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NeedFacts {
    /// The program whose access was denied.
    pub program: NeedsProgram,
    /// Path of a file, with `*` for the part that differs between processes and machines, or name of a system call.
    pub refused: String,
    /// The errors that it was denied with.
    pub errors: Vec<String>,
    /// First call that fails in that case.
    pub call: String,
    /// The status of the call, by its C name.
    pub status: String,
    /// `true` if a file of this name was opened for writing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_written: bool,
    /// Description of the machine of the measurement.
    pub on: String,
}

impl Known {
    /// Returns the knowledge with these names and scenarios, and adds to each entry the scenarios about it.
    pub fn new(names: KnownNames, mut scenarios: Vec<KnownScenario>) -> Known {
        scenarios.sort_by(|one, other| one.name.cmp(&other.name));
        let mut about: BTreeMap<&str, Vec<(Mention, &KnownScenario)>> = BTreeMap::new();
        for scenario in &scenarios {
            for (id, mention) in &scenario.about {
                about.entry(id).or_default().push((*mention, scenario));
            }
        }
        let mut entries = names.entries;
        for entry in &mut entries {
            let near = match entry.kind {
                KnownKind::Symptom => questions_of_symptom(&entry.names[0], &scenarios),
                _ => questions_about(about.remove(entry.id.as_str()).unwrap_or_default()),
            };
            let named = std::mem::take(&mut entry.scenarios);
            // Listed scenarios come first. For a Python line, the scenarios that mention it come first, because they
            // are closer.
            let (first, then) = match entry.kind {
                KnownKind::Line => (near, named),
                _ => (named, near),
            };
            entry.scenarios = first;
            for name in then {
                if !entry.scenarios.contains(&name) {
                    entry.scenarios.push(name);
                }
            }
        }
        entries.extend(scenarios.iter().map(KnownScenario::entry));
        entries.sort_by_key(|entry| entry.kind);
        Known {
            entries,
            scenarios,
            needs: names.needs,
            contexts: names.contexts,
        }
    }

    /// Returns the cost of a context on a GPU with this name; if several drivers were measured, on the newest.
    pub fn context_on(&self, gpu: &str) -> Option<&ContextCost> {
        self.contexts
            .iter()
            .filter(|cost| cost.gpu == gpu)
            .max_by_key(|cost| number(&cost.driver))
    }

    /// Returns the built-in knowledge.
    pub fn embedded() -> &'static Known {
        &KNOWN
    }

    /// Returns the entry with this id.
    pub fn entry(&self, id: &str) -> Option<&KnownEntry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// Returns the page about the entry with this id, relative to the root of the repository; `None` if the entry has
    /// no page.
    pub fn page(&self, id: &str) -> Option<&str> {
        self.entry(id)
            .map(|entry| entry.page.as_str())
            .filter(|page| !page.is_empty())
    }

    /// Returns the entries with a name like this one, the best match first.
    pub fn named(
        &self,
        name: &str,
        is_same: fn(&str, &str) -> bool,
    ) -> impl Iterator<Item = &KnownEntry> {
        self.entries
            .iter()
            .filter(move |entry| entry.names.iter().any(|known| is_same(known, name)))
    }

    /// Returns every one-word name, one name per line, for shell completion.
    pub fn words(&self) -> String {
        let names: BTreeSet<&String> = self
            .entries
            .iter()
            .flat_map(|entry| &entry.names)
            .filter(|name| is_word(name))
            .collect();
        names
            .into_iter()
            .fold(String::new(), |words, name| words + name + "\n")
    }

    /// Returns the scenario with this name.
    pub fn scenario(&self, name: &str) -> Option<&KnownScenario> {
        let index = self
            .scenarios
            .binary_search_by(|scenario| scenario.name.as_str().cmp(name))
            .ok()?;
        self.scenarios.get(index)
    }
}

/// Returns the scenarios of a symptom: answers with yes before no, PyTorch before all others, and then those with the
/// most threads.
fn questions_of_symptom(symptom: &str, scenarios: &[KnownScenario]) -> Vec<String> {
    let is_of_symptom =
        |scenario: &&KnownScenario| scenario.symptoms.iter().any(|id| id == symptom);
    let mut found: Vec<&KnownScenario> = scenarios.iter().filter(is_of_symptom).collect();
    found.sort_by_key(|scenario| {
        let is_of_torch = scenario.tags.iter().any(|tag| tag == "pytorch");
        (
            scenario.word == Word::No,
            !is_of_torch,
            Reverse(scenario.threads),
            !scenario.is_essential,
            scenario.word != Word::Yes,
        )
    });
    found
        .into_iter()
        .map(|scenario| scenario.name.clone())
        .collect()
}

/// Returns the scenarios that mention something, in the order of: the part that contains the name, yes before no,
/// scenarios named after it before others, and then the most common questions.
fn questions_about(mut found: Vec<(Mention, &KnownScenario)>) -> Vec<String> {
    found.sort_by_key(|(mention, scenario)| {
        (
            mention.part,
            scenario.word == Word::No,
            mention.is_not_in_name,
            !scenario.is_essential,
            Reverse(scenario.threads),
        )
    });
    found
        .into_iter()
        .take(MOST_ANSWERS)
        .map(|(_, scenario)| scenario.name.clone())
        .collect()
}

fn is_word(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte))
}

/// Returns one line of JSON for each item.
fn lines<T: Serialize>(all: &[T]) -> String {
    let lines: Vec<String> = all
        .iter()
        .map(|one| serde_json::to_string(one).expect("strings and numbers are valid JSON"))
        .collect();
    lines.join(",\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_basis_says_attempts_runs_and_interruption() {
        let basis = |least, most, runs, interrupted| Basis {
            least,
            most,
            runs,
            interrupted,
            machines: [1, 2, 4]
                .into_iter()
                .take(runs as usize)
                .map(|gpus| format!("{gpus} × NVIDIA H200"))
                .collect(),
            newest: Vec::new(),
        };
        let single = basis(1, 1, 1, 1);
        assert!(single.is_single() && single.is_of_interrupted_runs());
        assert_eq!(
            single.sentence(),
            "1 attempt of each case in 1 run, which was interrupted, on 1 × NVIDIA H200"
        );
        let several = basis(3, 5, 3, 1);
        assert!(!several.is_single() && !several.is_of_interrupted_runs());
        assert_eq!(
            several.sentence(),
            "3 to 5 attempts of each case in each of 3 runs, 1 of them interrupted, on 1, 2 and 4 × \
             NVIDIA H200"
        );
    }

    #[test]
    fn every_question_with_an_expectation_has_a_basis() {
        let scenarios =
            cuda_pitfalls_core::catalogue::select_scenarios(&[]).expect("they are valid");
        for scenario in scenarios {
            let known = Known::embedded()
                .scenario(&scenario.name)
                .expect("it is known");
            assert_eq!(
                known.word,
                Word::from_expectations(&scenario),
                "{}",
                scenario.name
            );
            if known.word != Word::Unmeasured {
                let basis = known.basis.as_ref().expect("it was measured");
                assert!(
                    basis.runs > 0 && !basis.newest.is_empty(),
                    "{}",
                    scenario.name
                );
            }
        }
    }

    #[test]
    fn the_store_of_the_program_is_whole_and_small() {
        let known = Known::embedded();
        assert!(
            known.entries.len() > 1500 && known.scenarios.len() > 200 && known.needs.len() > 40
        );
        // It is a part of every binary and wheel.
        let bytes = cuda_pitfalls_scenarios::known().len()
            + cuda_pitfalls_scenarios::question_facts()
                .map(str::len)
                .sum::<usize>();
        assert!(bytes <= 2_000_000, "{bytes} bytes");
        assert!(
            known
                .scenarios
                .is_sorted_by(|one, other| one.name < other.name)
        );
        assert!(known.entries.is_sorted_by_key(|entry| entry.kind));
        let mut ids = BTreeSet::new();
        for entry in &known.entries {
            assert!(
                ids.insert(&entry.id) && !entry.names.is_empty() && !entry.sentence.is_empty(),
                "{entry:?}"
            );
            assert!(
                entry
                    .scenarios
                    .iter()
                    .all(|name| known.scenario(name).is_some()),
                "{entry:?}"
            );
        }
    }
}
