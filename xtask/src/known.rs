//! The store of all knowledge: `scenarios/known.json`, made from scenarios, reports, surveys and tables.

mod measured;

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::catalogue::essential;
use cuda_pitfalls::exit::Exit;
use cuda_pitfalls::explain::{self, Advice, ErrorCause};
use cuda_pitfalls::known::{
    Basis, ContextCost, IMPORTED, KnownEntry, KnownKind, KnownNames, KnownScenario, Mention,
    MentionPart, Word,
};
use cuda_pitfalls::machine::Machine;
use cuda_pitfalls::releases::{ImportRow, LineReleases};
use cuda_pitfalls::render::survey::NamedSurvey;
use cuda_pitfalls::render::{imports, releases};
use cuda_pitfalls::report::Report;
use cuda_pitfalls::scenario::{Scenario, environment, symptom};
use cuda_pitfalls::survey::SurveyKind;
use cuda_pitfalls::survey::env::EnvRow;
use cuda_pitfalls::survey::python::{PythonLine, PythonRow};
use cuda_pitfalls::text::counts::{counted, tally_items};
use cuda_pitfalls::text::versions::{Version, name, number};
use cuda_pitfalls::verdict::Provenance;
use cuda_pitfalls::{cli, diagnosis};
use cuda_pitfalls_calls::{CallLibrary, status};

use self::measured::{CallFacts, MeasuredFacts, line_sentence, variable_sentence};
use crate::explain::Phrasings;
use crate::{diagnoses, errors, page};

/// Sources of the store.
pub struct KnownSources<'s> {
    /// The questions.
    pub scenarios: &'s [Scenario],
    /// The evidence for each answer, by the scenario's name.
    pub bases: &'s BTreeMap<String, Basis>,
    /// The reports, by their folders.
    pub reports: &'s [(String, Report)],
    /// The committed surveys by their kind.
    pub surveys: &'s [(SurveyKind, Vec<NamedSurvey>)],
    /// Results of each line in one release after another.
    pub releases: &'s [LineReleases],
    /// Results of the imports of packages.
    pub imports: &'s [ImportRow],
    /// The lines of the survey.
    pub lines: &'s [PythonLine],
    /// Texts that users wrote in threads.
    pub phrasings: &'s Phrasings,
}

impl KnownSources<'_> {
    /// Returns the entries with a name, and the questions with their subjects.
    pub fn known(&self) -> (KnownNames, Vec<KnownScenario>) {
        let surveys = self.surveys.iter().flat_map(|(_, surveys)| surveys);
        let measured = MeasuredFacts::new(surveys.map(|named| &named.survey).collect());
        let mut entries = self.own_names();
        entries.extend(error_entries());
        entries.extend(message_entries());
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
            contexts: context_costs(self.reports),
        };
        (names, scenarios)
    }

    fn known_scenario(&self, scenario: &Scenario, entries: &[KnownEntry]) -> KnownScenario {
        let mut machines = Vec::new();
        for instance in &scenario.instances {
            for expected in &instance.expect {
                machines.extend(self.machine(&expected.evidence));
            }
        }
        let machines = tally_items(machines).into_iter();
        let mut releases = Vec::new();
        for line in self.releases {
            if line.scenarios.contains(&scenario.name) {
                releases.push(releases::line(line));
            }
        }
        KnownScenario {
            name: scenario.name.clone(),
            question: scenario.question.clone(),
            word: Word::from_expectations(scenario),
            answer: scenario.answer.clone(),
            symptoms: scenario.symptoms.clone(),
            tags: scenario.tags.clone(),
            messages: scenario.says.clone(),
            is_essential: is_essential(scenario),
            machines: machines.map(|(machine, _)| machine).collect(),
            basis: self.bases.get(&scenario.name).cloned(),
            releases,
            threads: self.phrasings.thread_count(&scenario.name),
            about: mentions(scenario, entries),
        }
    }

    /// Returns the machine of a report, as text.
    fn machine(&self, evidence: &str) -> Option<String> {
        let folder = evidence.strip_prefix("reports/")?;
        let (_, report) = self.reports.iter().find(|(name, _)| name == folder)?;
        Some(machine_in_words(&report.machine))
    }

    /// Returns the program's own names: findings of `trace`, symptoms, commands and exit codes.
    fn own_names(&self) -> Vec<KnownEntry> {
        let mut entries = Vec::new();
        for rule in diagnosis::embedded_rules() {
            entries.push(KnownEntry {
                names: vec![rule.name.clone(), rule.title.clone()],
                sentence: format!("`trace` finds that {}: {}", rule.title, rule.why),
                page: format!("{}#{}", diagnoses::PAGE, rule.name),
                rests_on: rule.evidence.clone(),
                scenarios: vec![rule.scenario.clone()],
                ..entry(KnownKind::Rule, "rule", &rule.name)
            });
        }
        for symptom in symptom::all() {
            // The index has the symptoms that a question is about, and docs/errors.md the others.
            let entry = entry(KnownKind::Symptom, "symptom", &symptom.id);
            let page = match explain::advice_about(&entry.id) {
                Some(advice) if !self.has_symptom(&symptom.id) => errors::advice_link(advice),
                _ => format!("{}#{}", page::index_path(), symptom.id),
            };
            entries.push(KnownEntry {
                names: vec![symptom.id.clone(), symptom.sentence.clone()],
                sentence: symptom.sentence.clone(),
                page,
                ..entry
            });
        }
        for (name, about) in cli::list_commands() {
            entries.push(KnownEntry {
                names: vec![name.clone(), format!("cuda-pitfalls {name}")],
                sentence: format!("cuda-pitfalls {name}: {about}"),
                page: "README.md".to_owned(),
                ..entry(KnownKind::Command, "command", &name)
            });
        }
        for exit in Exit::WORST_FIRST {
            let (code, name) = (exit.code(), exit.name());
            entries.push(KnownEntry {
                names: vec![
                    format!("exit code {code}"),
                    format!("exit {code}"),
                    format!("exit status {code}"),
                    name.to_owned(),
                ],
                sentence: format!(
                    "Exit code {code} of cuda-pitfalls ({name}): {}.",
                    exit.meaning()
                ),
                page: "docs/run.md".to_owned(),
                ..entry(KnownKind::Exit, "exit", &code.to_string())
            });
        }
        entries
    }

    fn has_symptom(&self, symptom: &str) -> bool {
        let mut symptoms = self.scenarios.iter().flat_map(|one| &one.symptoms);
        symptoms.any(|id| id == symptom)
    }

    /// Returns every line that was run on a GPU or in a release.
    fn lines(&self, measured: &[(PythonRow, String)]) -> Vec<KnownEntry> {
        let mut ids: Vec<&String> = measured.iter().map(|(row, _)| &row.id).collect();
        ids.extend(self.releases.iter().map(|facts| &facts.line));
        ids.extend(self.measured_imports().map(|row| &row.line));
        let mut known = BTreeSet::new();
        ids.retain(|id| known.insert(*id));
        ids.iter().map(|id| self.line(id, &ids, measured)).collect()
    }

    fn line(&self, id: &str, all: &[&String], measured: &[(PythonRow, String)]) -> KnownEntry {
        let facts = measured.iter().find(|(row, _)| row.id == id);
        let mut released = Vec::new();
        let mut release_count = 0;
        for line in self.releases {
            if line.line == id {
                released.push(releases::line(line));
                release_count += line
                    .spans
                    .iter()
                    .map(|span| span.releases.len())
                    .sum::<usize>();
            }
        }
        let (mut sentences, mut grounds) = (Vec::new(), Vec::new());
        if let Some(facts) = facts {
            sentences.push(line_sentence(facts));
            grounds.push(facts.1.clone());
        }
        if !released.is_empty() {
            sentences.push(format!("Measured without a GPU: {}.", released.join("; ")));
            grounds.push(format!("{release_count} releases without a GPU"));
        }
        let mut imported: Vec<&ImportRow> = self.measured_imports().collect();
        imported.retain(|row| row.line == id);
        if !imported.is_empty() {
            let told = imports::sentences(&imported).join("; ");
            sentences.push(format!("{IMPORTED} {id} {told}."));
            grounds.push(counted(imported.len(), "import") + " without a GPU");
        }
        let mut names = vec![id.to_owned()];
        names.extend(last_part_alone(id, all).map(str::to_owned));
        let mut scenarios = Vec::new();
        for line in self.lines {
            if line.id == id {
                scenarios.extend(line.scenarios.iter().cloned());
            }
        }
        let page = if facts.is_some() {
            "docs/surveys/python.md"
        } else if imported.is_empty() {
            "docs/surveys/releases.md"
        } else {
            "docs/imports.md"
        };
        KnownEntry {
            names,
            sentence: sentences.join(" "),
            page: page.to_owned(),
            rests_on: grounds.join("; "),
            scenarios,
            ..entry(KnownKind::Line, "line", id)
        }
    }

    /// Returns the imports of packages that could be installed.
    fn measured_imports(&self) -> impl Iterator<Item = &ImportRow> {
        self.imports.iter().filter(|row| !row.version.is_empty())
    }

    fn variables(&self, measured: &[(EnvRow, String)]) -> Vec<KnownEntry> {
        let mut entries = Vec::new();
        for (name, reader) in environment::variable_readers() {
            let entry = entry(KnownKind::Variable, "variable", name);
            entries.push(
                match measured.iter().find(|(row, _)| row.variable == name) {
                    Some(facts) => KnownEntry {
                        sentence: variable_sentence(facts),
                        page: "docs/surveys/env.md".to_owned(),
                        rests_on: facts.1.clone(),
                        ..entry
                    },
                    None => KnownEntry {
                        sentence: format!(
                            "{name} is read by {reader}; when it is read was not measured."
                        ),
                        rests_on: "scenarios/variables.toml".to_owned(),
                        ..entry
                    },
                },
            );
        }
        entries
    }

    /// Returns the calls. The plain call of a function has its name; a variant has a suffix of a dash and a word.
    fn calls(&self, measured: &[CallFacts]) -> Vec<KnownEntry> {
        let mut entries = Vec::new();
        for facts in measured {
            let function = facts.function();
            let mut names = vec![facts.call.clone()];
            let others = measured.iter().filter(|other| other.function() == function);
            let plain = others.min_by_key(|other| other.call.len());
            if facts.call != function && plain == Some(facts) {
                names.push(function.to_owned());
            }
            entries.push(KnownEntry {
                names,
                sentence: facts.sentence(),
                page: "docs/surveys/calls.md".to_owned(),
                rests_on: facts.on.clone(),
                ..entry(KnownKind::Call, "call", &facts.call)
            });
        }
        entries
    }
}

/// Returns the last part of the name of a line's function, if it can stand for the name and no other function ends with
/// it.
fn last_part_alone<'i>(id: &'i str, all: &[&String]) -> Option<&'i str> {
    let function = function(id);
    let (_, last) = function.rsplit_once('.')?;
    if function != id || !last.contains('_') || function.contains(' ') {
        return None;
    }
    for other in all {
        let other = self::function(other);
        if other != function && other.rsplit('.').next() == Some(last) {
            return None;
        }
    }
    Some(last)
}

/// Returns the entries that a question names, each with the part of the question that contains the name.
fn mentions(scenario: &Scenario, entries: &[KnownEntry]) -> BTreeMap<String, Mention> {
    let (steps, statuses) = trap_texts(scenario);
    let parts = [
        (MentionPart::Question, scenario.question.clone()),
        (MentionPart::Message, scenario.says.join("\n")),
        (MentionPart::Belief, scenario.belief.clone()),
        (MentionPart::Step, steps),
        (MentionPart::Status, statuses),
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

/// Returns the names of an entry; a question with one of them is about the entry.
fn looked_for(entry: &KnownEntry) -> Vec<&str> {
    let own = entry.names[0].as_str();
    match entry.kind {
        // The names of the status follow `error 700` and `700`.
        KnownKind::Error => entry.names.iter().skip(2).map(String::as_str).collect(),
        KnownKind::Variable => vec![own],
        KnownKind::Call => own.split('-').take(1).collect(),
        KnownKind::Line if !function(own).contains(' ') => vec![function(own)],
        _ => Vec::new(),
    }
}

/// Returns the calls or lines of a scenario's trap and the variables that are set for it, and the statuses that it
/// expects.
fn trap_texts(scenario: &Scenario) -> (String, String) {
    let (mut steps, mut statuses): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let first = scenario.instances.first();
    for case in first.iter().flat_map(|instance| &instance.cases) {
        if case.name != "trap" {
            continue;
        }
        steps.extend(case.env.keys().map(String::as_str));
        for step in &case.steps {
            steps.push(step.python_line().unwrap_or(&step.call));
        }
        for check in &case.expect {
            statuses.extend(check.facts.status.iter().map(String::as_str));
        }
    }
    (steps.join("\n"), statuses.join("\n"))
}

/// Returns `true` if a text contains a name, but not only as a part of a longer one.
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

/// Returns an entry with only its id and its own name.
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

/// Returns the function of a line. Several lines of one function differ after a comma or a bracket.
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

/// Returns the statuses of libcudart and libcuda.
fn error_entries() -> Vec<KnownEntry> {
    let mut codes: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for library in [CallLibrary::Runtime, CallLibrary::Driver] {
        for (code, name) in status::table(library) {
            let names = codes.entry(*code).or_default();
            let name = name.to_string_lossy().into_owned();
            if *code != 0 && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    codes.remove(&0);
    let mut entries = Vec::new();
    for (code, codes_names) in codes {
        let mut advices = explain::all_advice().iter();
        let known = advices.find(|advice| advice.codes.contains(&code));
        let mut sentence = format!("Error {code} is {}", codes_names.join(", "));
        if let Some(says) = status::message(code) {
            sentence += &format!(": {says}");
        }
        let mut names = vec![format!("error {code}"), code.to_string()];
        names.extend(codes_names);
        let mut entry = KnownEntry {
            sentence: sentence + ".",
            names,
            rests_on: "the names of CUDA's headers".to_owned(),
            ..entry(KnownKind::Error, "error", &code.to_string())
        };
        if let Some(advice) = known {
            entry.page = errors::advice_link(advice);
            entry.rests_on = advice_grounds(advice);
            entry.scenarios = measured_by(advice).collect();
        } else if i64::from(code) == status::SIM_NOT_MODELLED {
            entry.page = "docs/simulated-machine.md".to_owned();
        }
        entries.push(entry);
    }
    entries
}

/// Returns the messages that are not a status, and the numbers of the kernel's log.
fn message_entries() -> Vec<KnownEntry> {
    let mut entries = Vec::new();
    for advice in explain::all_advice() {
        if advice.id.starts_with("message/") {
            let mut names = vec![advice.id.clone()];
            names.extend(advice.says.iter().cloned());
            entries.push(KnownEntry {
                id: advice.id.clone(),
                names,
                sentence: advice.means.clone(),
                page: errors::advice_link(advice),
                rests_on: advice_grounds(advice),
                scenarios: measured_by(advice).collect(),
                ..entry(KnownKind::Message, "message", &advice.id)
            });
        }
    }
    for (xid, advice) in explain::all_xids() {
        entries.push(KnownEntry {
            names: advice.says.clone(),
            sentence: xid.sentence(),
            page: format!("{}#xids", errors::PAGE),
            rests_on: advice_grounds(advice),
            scenarios: measured_by(advice).collect(),
            ..entry(KnownKind::Message, "xid", &xid.code.to_string())
        });
    }
    entries
}

/// Returns the statuses of other libraries.
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

/// Returns the cost of one context on each model, by sound calibrations on real GPUs.
fn context_costs(reports: &[(String, Report)]) -> Vec<ContextCost> {
    let mut found: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for (_, report) in reports {
        let Some(driver) = &report.machine.driver_version else {
            continue;
        };
        if report.provenance != Provenance::Measured {
            continue;
        }
        for cost in report.run.calibrations() {
            let mut gpus = report.machine.gpus.iter();
            let gpu = gpus.find(|gpu| gpu.uuid == cost.uuid);
            if let Some(model) = gpu.and_then(|gpu| gpu.name.clone())
                && cost.sound
            {
                let costs = found.entry((model, driver.clone())).or_default();
                costs.push(cost.context_bytes);
            }
        }
    }
    let mut costs = Vec::new();
    for ((gpu, driver), all) in found {
        costs.push(ContextCost {
            gpu,
            driver,
            bytes: all.iter().copied().max().unwrap_or_default(),
            calibrations: all.len(),
        });
    }
    costs
}

/// Returns the GPUs, the driver and the libcudarts of a machine: `2× NVIDIA H200, driver 580.159.04, libcudart 13.0`.
fn machine_in_words(machine: &Machine) -> String {
    let mut versions: BTreeSet<Version> = BTreeSet::new();
    for runtime in &machine.libcudart {
        versions.extend(runtime.version.as_deref().map(number));
    }
    let names: Vec<String> = versions.iter().map(|version| name(version)).collect();
    let libcudart = match names.as_slice() {
        [] => String::new(),
        [first, _, _, .., last] => format!(", {} libcudarts from {first} to {last}", names.len()),
        few => format!(", libcudart {}", few.join(", ")),
    };
    machine.summary() + &libcudart
}
