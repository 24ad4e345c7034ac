//! The store of what is known: `scenarios/known.json`, made of scenarios, reports, surveys and tables.

mod measured;

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::catalogue::essential;
use cuda_pitfalls::exit::Exit;
use cuda_pitfalls::explain::{self, Advice, ErrorCause};
use cuda_pitfalls::known::{
    Basis, ContextCost, KnownEntry, KnownKind, KnownNames, KnownScenario, Mention, MentionPart,
    Word,
};
use cuda_pitfalls::machine::Machine;
use cuda_pitfalls::releases::LineReleases;
use cuda_pitfalls::render::releases;
use cuda_pitfalls::scenario::{Case, Scenario, environment, symptom};
use cuda_pitfalls::survey::SurveyDocument;
use cuda_pitfalls::survey::env::EnvRow;
use cuda_pitfalls::survey::python::{PythonLine, PythonRow};
use cuda_pitfalls::text::counts::tally_items;
use cuda_pitfalls::text::versions::{Version, name, number};
use cuda_pitfalls::{cli, diagnosis};
use cuda_pitfalls_calls::{CallLibrary, status};

use self::measured::{CallFacts, MeasuredFacts, line_sentence, variable_sentence};
use crate::explain::Phrasings;
use crate::{errors, page};

/// What the store is made of.
pub struct KnownSources<'s> {
    /// The questions.
    pub scenarios: &'s [Scenario],
    /// The evidence for each answer, by the scenario's name.
    pub bases: &'s BTreeMap<String, Basis>,
    /// The machine of each report, by its folder.
    pub machines: Vec<(String, Machine)>,
    /// What one context takes on each model.
    pub contexts: Vec<ContextCost>,
    /// The committed surveys.
    pub surveys: Vec<&'s SurveyDocument>,
    /// What each line does in one release after another.
    pub releases: &'s [LineReleases],
    /// The lines of the survey.
    pub lines: &'s [PythonLine],
    /// What people wrote in threads.
    pub phrasings: &'s Phrasings,
}

impl KnownSources<'_> {
    /// What has a name, and the questions with what they are about.
    pub fn known(&self) -> (KnownNames, Vec<KnownScenario>) {
        let measured = MeasuredFacts::new(self.surveys.clone());
        let mut entries = self.own_names();
        entries.extend(self.errors());
        entries.extend(status_entries());
        entries.extend(self.variables(&measured.variables));
        entries.extend(measured.masks.iter().cloned());
        entries.extend(self.calls(&measured.calls));
        entries.extend(self.lines(&measured.lines));
        entries.extend(measured::need_entries(&measured.needs));
        entries.sort_by_key(|entry| entry.kind);
        let scenarios = self
            .scenarios
            .iter()
            .map(|scenario| self.known_scenario(scenario, &entries))
            .collect();
        let names = KnownNames {
            entries,
            needs: measured.needs,
            contexts: self.contexts.clone(),
        };
        (names, scenarios)
    }

    fn known_scenario(&self, scenario: &Scenario, entries: &[KnownEntry]) -> KnownScenario {
        let evidence = scenario
            .instances
            .iter()
            .flat_map(|instance| &instance.expect)
            .map(|entry| &entry.evidence);
        let deciding = self
            .releases
            .iter()
            .filter(|line| line.scenarios.contains(&scenario.name));
        KnownScenario {
            name: scenario.name.clone(),
            question: scenario.question.clone(),
            word: Word::from_expectations(scenario),
            answer: scenario.answer.clone(),
            symptoms: scenario.symptoms.clone(),
            tags: scenario.tags.clone(),
            messages: scenario.says.clone(),
            is_essential: is_essential(scenario),
            machines: tally_items(evidence.filter_map(|folder| self.machine(folder)))
                .into_iter()
                .map(|(machine, _)| machine)
                .collect(),
            basis: self.bases.get(&scenario.name).cloned(),
            releases: deciding.map(releases::line).collect(),
            threads: self.phrasings.thread_count(&scenario.name),
            about: mentions(scenario, entries),
        }
    }

    /// The machine of a report, in words.
    fn machine(&self, evidence: &str) -> Option<String> {
        let folder = evidence.strip_prefix("reports/")?;
        self.machines
            .iter()
            .find(|(name, _)| name == folder)
            .map(|(_, machine)| machine_in_words(machine))
    }

    /// The program's own names: findings of `trace`, symptoms, commands and exit codes.
    fn own_names(&self) -> Vec<KnownEntry> {
        let rules = diagnosis::embedded_rules().iter().map(|rule| KnownEntry {
            names: vec![rule.name.clone(), rule.title.clone()],
            sentence: format!("`trace` finds that {}: {}", rule.title, rule.why),
            page: format!("docs/diagnoses.md#{}", rule.name),
            rests_on: rule.evidence.clone(),
            scenarios: vec![rule.scenario.clone()],
            ..entry(KnownKind::Rule, "rule", &rule.name)
        });
        let symptoms = symptom::all().iter().map(|symptom| KnownEntry {
            names: vec![symptom.id.clone(), symptom.sentence.clone()],
            sentence: symptom.sentence.clone(),
            ..entry(KnownKind::Symptom, "symptom", &symptom.id)
        });
        // The index has the symptoms that a question is about, and docs/errors.md the others.
        let symptoms = symptoms.map(|symptom| KnownEntry {
            page: match explain::advice_about(&symptom.id) {
                Some(advice) if !self.has_symptom(&symptom.names[0]) => errors::advice_link(advice),
                _ => symptom
                    .id
                    .replace("symptom/", &format!("{}#", page::index_path())),
            },
            ..symptom
        });
        let commands = cli::list_commands()
            .into_iter()
            .map(|(name, about)| KnownEntry {
                names: vec![name.clone(), format!("cuda-pitfalls {name}")],
                sentence: format!("cuda-pitfalls {name}: {about}"),
                page: "README.md".to_owned(),
                ..entry(KnownKind::Command, "command", &name)
            });
        let exits = Exit::WORST_FIRST.into_iter().map(|exit| KnownEntry {
            names: ["exit code ", "exit ", "exit status "]
                .into_iter()
                .map(|words| format!("{words}{}", exit.code()))
                .chain([exit.name().to_owned()])
                .collect(),
            sentence: format!(
                "Exit code {} of cuda-pitfalls ({}): {}.",
                exit.code(),
                exit.name(),
                exit.meaning()
            ),
            page: "docs/run.md".to_owned(),
            ..entry(KnownKind::Exit, "exit", &exit.code().to_string())
        });
        rules.chain(symptoms).chain(commands).chain(exits).collect()
    }

    fn has_symptom(&self, symptom: &str) -> bool {
        let mut symptoms = self.scenarios.iter().flat_map(|one| &one.symptoms);
        symptoms.any(|id| id == symptom)
    }

    /// Every line that was asked on a GPU or in a release.
    fn lines(&self, measured: &[(PythonRow, String)]) -> Vec<KnownEntry> {
        let mut ids: Vec<&String> = measured.iter().map(|(row, _)| &row.id).collect();
        ids.extend(self.releases.iter().map(|facts| &facts.line));
        let mut known = BTreeSet::new();
        ids.retain(|id| known.insert(*id));
        ids.iter().map(|id| self.line(id, &ids, measured)).collect()
    }

    fn line(&self, id: &str, all: &[&String], measured: &[(PythonRow, String)]) -> KnownEntry {
        let facts = measured.iter().find(|(row, _)| row.id == id);
        let released: Vec<&LineReleases> = self
            .releases
            .iter()
            .filter(|facts| facts.line == id)
            .collect();
        let mut sentences: Vec<String> = facts.map(line_sentence).into_iter().collect();
        let clauses: Vec<String> = released.iter().map(|facts| releases::line(facts)).collect();
        sentences.extend(
            (!clauses.is_empty()).then(|| format!("Asked without a GPU, {}.", clauses.join("; "))),
        );
        let function = function(id);
        let mut names = vec![id.to_owned()];
        let last = function.rsplit('.').next().unwrap_or_default();
        let is_only = !all.iter().any(|other| {
            self::function(other) != function
                && self::function(other).rsplit('.').next() == Some(last)
        });
        if function == id && is_only && last.contains('_') && !function.contains(' ') {
            names.push(last.to_owned());
        }
        names.dedup();
        let decided = self.lines.iter().filter(|line| line.id == id);
        let scenarios = decided.flat_map(|line| line.scenarios.clone()).collect();
        let page = if facts.is_some() {
            "docs/surveys/python.md"
        } else {
            "docs/surveys/releases.md"
        };
        let on = facts.map(|(_, on)| on.clone());
        let without = (!released.is_empty()).then(|| {
            let count: usize = released
                .iter()
                .flat_map(|facts| &facts.spans)
                .map(|span| span.releases.len())
                .sum();
            format!("{count} releases without a GPU")
        });
        KnownEntry {
            names,
            sentence: sentences.join(" "),
            page: page.to_owned(),
            rests_on: on.into_iter().chain(without).collect::<Vec<_>>().join("; "),
            scenarios,
            ..entry(KnownKind::Line, "line", id)
        }
    }

    /// The statuses of libcudart and libcuda, and messages that are no status.
    fn errors(&self) -> Vec<KnownEntry> {
        let mut codes: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (code, name) in [CallLibrary::Runtime, CallLibrary::Driver]
            .into_iter()
            .flat_map(status::table)
        {
            let names = codes.entry(*code).or_default();
            let name = name.to_string_lossy().into_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        codes.remove(&0);
        let statuses = codes.into_iter().map(|(code, names)| {
            let says = status::message(code)
                .map(|says| format!(": {says}"))
                .unwrap_or_default();
            let known = explain::all_advice()
                .iter()
                .find(|advice| advice.codes.contains(&code));
            let scenarios = known
                .iter()
                .flat_map(|advice| measured_by(advice))
                .collect();
            KnownEntry {
                sentence: format!("Error {code} is {}{says}.", names.join(", ")),
                names: [format!("error {code}"), code.to_string()]
                    .into_iter()
                    .chain(names)
                    .collect(),
                page: match known {
                    Some(advice) => errors::advice_link(advice),
                    None if i64::from(code) == status::SIM_NOT_MODELLED => {
                        "docs/simulated-machine.md".to_owned()
                    }
                    None => String::new(),
                },
                rests_on: known
                    .map_or_else(|| "the names of CUDA's headers".to_owned(), advice_grounds),
                scenarios,
                ..entry(KnownKind::Error, "error", &code.to_string())
            }
        });
        let messages = explain::all_advice()
            .iter()
            .filter(|advice| advice.id.starts_with("message/"));
        let messages = messages.map(|advice| KnownEntry {
            id: advice.id.clone(),
            names: [advice.id.clone()]
                .into_iter()
                .chain(advice.says.iter().cloned())
                .collect(),
            sentence: advice.means.clone(),
            page: errors::advice_link(advice),
            rests_on: advice_grounds(advice),
            scenarios: measured_by(advice).collect(),
            ..entry(KnownKind::Message, "message", &advice.id)
        });
        let xids = explain::all_xids().iter().map(|(xid, advice)| KnownEntry {
            names: advice.says.clone(),
            sentence: xid.sentence(),
            page: "docs/errors.md#xids".to_owned(),
            rests_on: advice_grounds(advice),
            scenarios: measured_by(advice).collect(),
            ..entry(KnownKind::Message, "xid", &xid.code.to_string())
        });
        statuses.chain(messages).chain(xids).collect()
    }

    fn variables(&self, measured: &[(EnvRow, String)]) -> Vec<KnownEntry> {
        let entries = environment::variable_readers().map(|(name, reader)| {
            let facts = measured.iter().find(|(row, _)| row.variable == name);
            KnownEntry {
                sentence: facts.map_or_else(
                    || format!("{name} is read by {reader}; when it is read was not measured."),
                    variable_sentence,
                ),
                page: facts
                    .map(|_| "docs/surveys/env.md".to_owned())
                    .unwrap_or_default(),
                rests_on: facts.map_or_else(
                    || "scenarios/variables.toml".to_owned(),
                    |(_, on)| on.clone(),
                ),
                ..entry(KnownKind::Variable, "variable", name)
            }
        });
        entries.collect()
    }

    /// The calls. The plain call of a function has its name; another way to call it has a dash and a word behind it.
    fn calls(&self, measured: &[CallFacts]) -> Vec<KnownEntry> {
        let entries = measured.iter().map(|facts| {
            let function = facts.function();
            let others = measured.iter().filter(|other| other.function() == function);
            let plain = others.min_by_key(|other| other.call.len());
            let mut names = vec![facts.call.clone()];
            if plain.is_some_and(|plain| plain.call == facts.call) {
                names.push(function.to_owned());
            }
            names.dedup();
            KnownEntry {
                names,
                sentence: facts.sentence(),
                page: "docs/surveys/calls.md".to_owned(),
                rests_on: facts.on.clone(),
                ..entry(KnownKind::Call, "call", &facts.call)
            }
        });
        entries.collect()
    }
}

/// The entries that a question names, each with the part of the question that has the name.
fn mentions(scenario: &Scenario, entries: &[KnownEntry]) -> BTreeMap<String, Mention> {
    let steps: Vec<&str> = trap_cases(scenario).flat_map(steps).collect();
    let statuses: Vec<&str> = trap_cases(scenario).flat_map(statuses_of).collect();
    let parts = [
        (MentionPart::Question, scenario.question.clone()),
        (MentionPart::Message, scenario.says.join("\n")),
        (MentionPart::Belief, scenario.belief.clone()),
        (MentionPart::Step, steps.join("\n")),
        (MentionPart::Status, statuses.join("\n")),
    ];
    let called = scenario.name.replace('-', "_");
    let mut found = BTreeMap::new();
    for entry in entries {
        let names = looked_for(entry);
        let has_one = |text: &str| names.iter().any(|name| has_name(text, name));
        if let Some((part, _)) = parts.iter().find(|(_, text)| has_one(text)) {
            let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
            let mention = Mention {
                part: *part,
                is_not_in_name: !names.iter().any(|name| called.contains(&last(name))),
            };
            found.insert(entry.id.clone(), mention);
        }
    }
    found
}

/// The names of an entry that a question is about if it has one of them.
fn looked_for(entry: &KnownEntry) -> Vec<&str> {
    let own = entry.names[0].as_str();
    match entry.kind {
        // Behind `error 700` and `700` are the names of the status.
        KnownKind::Error => entry.names.iter().skip(2).map(String::as_str).collect(),
        KnownKind::Variable => vec![own],
        KnownKind::Call => own.split('-').take(1).collect(),
        KnownKind::Line if !function(own).contains(' ') => vec![function(own)],
        _ => Vec::new(),
    }
}

fn trap_cases(scenario: &Scenario) -> impl Iterator<Item = &Case> {
    scenario
        .instances
        .iter()
        .take(1)
        .flat_map(|instance| &instance.cases)
        .filter(|case| case.name == "trap")
}

/// The calls or lines of a case, and the variables that are set for it.
fn steps(case: &Case) -> impl Iterator<Item = &str> {
    let steps = case
        .steps
        .iter()
        .map(|step| step.python_line().unwrap_or(&step.call));
    case.env.keys().map(String::as_str).chain(steps)
}

fn statuses_of(case: &Case) -> impl Iterator<Item = &str> {
    case.expect
        .iter()
        .flat_map(|check| &check.facts.status)
        .map(String::as_str)
}

/// Whether a text has a name, and not only as a part of a longer one.
fn has_name(text: &str, name: &str) -> bool {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(name).any(|(index, _)| {
        let (before, after) = (&text[..index], &text[index + name.len()..]);
        !before.ends_with(is_of_name) && !after.starts_with(is_of_name)
    })
}

fn is_essential(scenario: &Scenario) -> bool {
    essential::all()
        .iter()
        .any(|instance| instance.name.split('[').next() == Some(&scenario.name))
}

/// An entry of which nothing but its id and its own name is known.
fn entry(kind: KnownKind, folder: &str, own: &str) -> KnownEntry {
    KnownEntry {
        id: format!("{folder}/{own}"),
        kind,
        names: vec![own.to_owned()],
        sentence: String::new(),
        page: String::new(),
        rests_on: String::new(),
        scenarios: Vec::new(),
    }
}

/// The function of a line. Several lines of one function differ behind a comma or a bracket.
fn function(line: &str) -> &str {
    line.split([',', '(']).next().unwrap_or_default()
}

fn measured_by(advice: &Advice) -> impl Iterator<Item = String> + '_ {
    advice
        .causes
        .iter()
        .filter_map(|cause| cause.scenario.clone())
}

fn advice_grounds(advice: &Advice) -> String {
    let measured = advice
        .causes
        .iter()
        .filter(|cause| ErrorCause::is_measured(cause))
        .count();
    format!("{measured} of {} causes measured", advice.causes.len())
}

/// The statuses of other libraries.
fn status_entries() -> Vec<KnownEntry> {
    let libraries = [
        CallLibrary::Nvml,
        CallLibrary::Nvrtc,
        CallLibrary::Cublas,
        CallLibrary::Cufft,
        CallLibrary::Nccl,
    ];
    let mut entries = Vec::new();
    for library in libraries {
        for (code, name) in status::table(library) {
            if i64::from(*code) == status::SIM_NOT_MODELLED {
                continue;
            }
            let name = name.to_string_lossy();
            entries.push(KnownEntry {
                sentence: format!("{name} is status {code} of {}.", library.name()),
                rests_on: "the names of its header".to_owned(),
                ..entry(KnownKind::Status, "status", &name)
            });
        }
    }
    entries
}

/// The GPUs, the driver and the libcudarts of a machine: `2× NVIDIA H200, driver 580.159.04, libcudart 13.0`.
fn machine_in_words(machine: &Machine) -> String {
    let versions: BTreeSet<Version> = machine
        .libcudart
        .iter()
        .filter_map(|runtime| runtime.version.as_deref())
        .map(number)
        .collect();
    let names: Vec<String> = versions.iter().map(|version| name(version)).collect();
    let libcudart = match names.as_slice() {
        [] => String::new(),
        [first, _, _, .., last] => format!(", {} libcudarts from {first} to {last}", names.len()),
        few => format!(", libcudart {}", few.join(", ")),
    };
    machine.summary() + &libcudart
}
