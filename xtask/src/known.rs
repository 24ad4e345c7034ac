//! The store of what is known: `scenarios/known.json`, made of scenarios, reports, surveys and tables.

mod measured;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::catalogue::essential;
use cuda_pitfalls::exit::Exit;
use cuda_pitfalls::explain::{self, Advice, ErrorCause, MOST_ANSWERS};
use cuda_pitfalls::known::{Basis, ContextCost, Known, KnownEntry, KnownKind, KnownScenario, Word};
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
    /// The store.
    pub fn known(&self) -> Known {
        let mut scenarios = Vec::new();
        for scenario in self.scenarios {
            scenarios.push(self.known_scenario(scenario));
        }
        scenarios.sort_by(|one, other| one.name.cmp(&other.name));
        let measured = MeasuredFacts::new(self.surveys.clone());
        let mut entries = self.own_names();
        entries.extend(
            self.scenarios
                .iter()
                .zip(&scenarios)
                .map(|(it, known)| scenario_entry(it, known)),
        );
        entries.extend(self.errors());
        entries.extend(status_entries());
        entries.extend(self.variables(&measured.variables));
        entries.extend(measured.masks.iter().cloned());
        entries.extend(self.calls(&measured.calls));
        entries.extend(self.lines(&measured.lines));
        entries.extend(measured::need_entries(&measured.needs));
        entries.sort_by_key(|entry| entry.kind);
        Known {
            entries,
            needs: measured.needs,
            scenarios,
            contexts: self.contexts.clone(),
        }
    }

    fn known_scenario(&self, scenario: &Scenario) -> KnownScenario {
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
            scenarios: self.questions(&symptom.id),
            ..entry(KnownKind::Symptom, "symptom", &symptom.id)
        });
        // The index has the symptoms that a question is about, and docs/errors.md the others.
        let symptoms = symptoms.map(|symptom| KnownEntry {
            page: match explain::advice_about(&symptom.id) {
                Some(advice) if symptom.scenarios.is_empty() => errors::advice_link(advice),
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

    /// The questions of a symptom: yes before no, PyTorch before all else, and then what was asked in most threads.
    fn questions(&self, symptom: &str) -> Vec<String> {
        let mut found: Vec<&Scenario> = self.scenarios.iter().collect();
        found.retain(|scenario| scenario.symptoms.iter().any(|id| id == symptom));
        found.sort_by_key(|scenario| {
            let word = Word::from_expectations(scenario);
            let is_of_torch = scenario.tags.iter().any(|tag| tag == "pytorch");
            let threads = self.phrasings.thread_count(&scenario.name);
            (
                word == Word::No,
                !is_of_torch,
                Reverse(threads),
                !is_essential(scenario),
                word != Word::Yes,
            )
        });
        found
            .into_iter()
            .map(|scenario| scenario.name.clone())
            .collect()
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
        let mut scenarios = if function.contains(' ') {
            Vec::new()
        } else {
            self.questions_about(&[function])
        };
        let decided = self
            .lines
            .iter()
            .filter(|line| line.id == id)
            .flat_map(|line| &line.scenarios);
        let decided: Vec<String> = decided
            .filter(|name| !scenarios.contains(name))
            .cloned()
            .collect();
        scenarios.extend(decided);
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

    /// The questions about one of these names: those that have it in the question, in a message, in the common belief, in
    /// the steps of the trap or in what these return, in this order; yes before no, those that are called after one of
    /// them before others, and then what people ask most.
    fn questions_about(&self, names: &[&str]) -> Vec<String> {
        let parts: [fn(&Scenario) -> String; 5] = [
            |scenario| scenario.question.clone(),
            |scenario| scenario.says.join("\n"),
            |scenario| scenario.belief.clone(),
            |scenario| {
                trap_cases(scenario)
                    .flat_map(steps)
                    .collect::<Vec<_>>()
                    .join("\n")
            },
            |scenario| {
                trap_cases(scenario)
                    .flat_map(statuses_of)
                    .collect::<Vec<_>>()
                    .join("\n")
            },
        ];
        let mut found: Vec<(usize, &Scenario)> = Vec::new();
        for scenario in self.scenarios {
            let part = parts
                .iter()
                .position(|part| names.iter().any(|name| has_name(&part(scenario), name)));
            found.extend(part.map(|part| (part, scenario)));
        }
        found.sort_by_key(|(part, scenario)| {
            let is_no = Word::from_expectations(scenario) == Word::No;
            let called = scenario.name.replace('-', "_");
            let is_called_after = names
                .iter()
                .any(|name| called.contains(name.rsplit('.').next().unwrap_or(name)));
            let threads = self.phrasings.thread_count(&scenario.name);
            (
                *part,
                is_no,
                !is_called_after,
                !is_essential(scenario),
                Reverse(threads),
            )
        });
        found
            .into_iter()
            .take(MOST_ANSWERS)
            .map(|(_, scenario)| scenario.name.clone())
            .collect()
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
            let mut scenarios: Vec<String> = known
                .iter()
                .flat_map(|advice| measured_by(advice))
                .collect();
            let near = self.questions_about(&names.iter().map(String::as_str).collect::<Vec<_>>());
            scenarios.extend(
                near.into_iter()
                    .filter(|name| !scenarios.contains(name))
                    .collect::<Vec<_>>(),
            );
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
                scenarios: self.questions_about(&[name]),
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
                scenarios: self.questions_about(&[function]),
                ..entry(KnownKind::Call, "call", &facts.call)
            }
        });
        entries.collect()
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

fn scenario_entry(scenario: &Scenario, known: &KnownScenario) -> KnownEntry {
    let last = known.name.rsplit('/').next().unwrap_or_default().to_owned();
    let sentence = if known.answer.is_empty() {
        known.word.name()
    } else {
        known.answer.clone()
    };
    KnownEntry {
        id: known.name.clone(),
        kind: KnownKind::Scenario,
        names: vec![known.name.clone(), last, known.question.clone()],
        sentence,
        page: page::path(scenario),
        rests_on: known
            .basis
            .as_ref()
            .map(Basis::sentence)
            .unwrap_or_default(),
        scenarios: Vec::new(),
    }
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
