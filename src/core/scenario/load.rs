//! Reading a scenario file strictly. All errors of the file are reported at once, each with its place.
//!
//! The TOML tree is walked by hand instead of deserialised, because deserialising stops at the first error and cannot
//! suggest the most similar of a hundred calls.

mod arguments;
mod cases;
mod checks;
mod conditions;
mod excerpt;
mod parameters;

pub use excerpt::Excerpts;

use std::sync::LazyLock;

use self::cases::{Common, Scope};
use self::conditions::file_start;
use self::parameters::{Combination, Parameters};
use super::{Gpus, Instance, Needs, Scenario};
use super::{schema, symptom};
use crate::defaults;
use crate::source::diagnostic::{self, Diagnostic, suggest_name};
use crate::source::reader::{self, Reader, get, opening_comment};
use crate::source::size;
use crate::source::tree::{self, Node, TreeEntry};

const MOST_SOURCE_BYTES: usize = 256 << 10;
const MOST_CASES: usize = 16;
/// The most characters of a pasted message, which is one line.
const MOST_SAID: usize = 160;
static KEYS: LazyLock<Vec<String>> = LazyLock::new(schema::top_level_keys);

/// Parses the text of a scenario file.
///
/// `name` is the name of the scenario, `file` the name of the file in messages, and `known_kernels` the names that a
/// `ptx` argument can have.
///
/// # Errors
/// Every error of the file, sorted by place.
pub fn load_scenario(
    name: &str,
    file: &str,
    source: &str,
    known_kernels: &[&str],
) -> Result<Scenario, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, source, known_kernels);
    let scenario = read(&mut reader, name);
    reader.finish(scenario)
}

fn read(reader: &mut Reader<'_>, name: &str) -> Option<Scenario> {
    let entries = reader.parse_top_level("a scenario file", MOST_SOURCE_BYTES)?;
    File {
        reader,
        entries: &entries,
    }
    .read(name)
}

/// The top level of a file.
struct File<'r, 'a> {
    reader: &'r mut Reader<'a>,
    entries: &'r [TreeEntry],
}

impl<'r> File<'r, '_> {
    fn read(mut self, name: &str) -> Option<Scenario> {
        self.reader.known_keys(
            self.entries,
            &KEYS.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        let question = self
            .required_node("question")
            .and_then(|node| self.question(node));
        let belief = self
            .required_node("belief")
            .and_then(|node| self.reader.sentence(node));
        let answer = self.sentence("answer");
        let workaround = self.sentence("workaround");
        let twin = self.parse_twin();
        let tags = self.parse_tags();
        let symptoms = self.parse_symptoms();
        let says = self.says();
        let sources = self.parse_sources();
        let needs = get(self.entries, "needs").map(|node| conditions::needs(self.reader, node));
        let needs = needs.unwrap_or(Needs {
            gpus: 1,
            ..Needs::default()
        });
        let gpus =
            get(self.entries, "gpus").and_then(|node| cases::gpus(self.reader, node, needs.gpus));
        let hazards =
            get(self.entries, "hazards").map(|node| conditions::parse_hazards(self.reader, node));
        let hazards = hazards.unwrap_or_default();
        let repeat =
            get(self.entries, "repeat").and_then(|node| self.reader.read_integer(node, 1..=100));
        let step_timeout_ms = self.parse_duration("step_timeout", 120_000);
        let timeout_ms = self.parse_duration("timeout", 600_000);
        let nondeterministic =
            get(self.entries, "nondeterministic").and_then(|node| self.reader.read_boolean(node));
        let cases = self
            .required_node("cases")
            .and_then(|node| self.reader.table(node))
            .unwrap_or_default();
        let cases_entry = self.entries.iter().find(|entry| entry.key.text == "cases");
        let no_control = self.check_controls(cases, cases_entry);
        let common = Common {
            gpus: gpus.unwrap_or(Gpus::Masked(needs.gpus)),
            needed_gpus: needs.gpus,
            hazards: &hazards,
        };
        let parameters = self.parse_parameters(cases, &common)?;
        let mut instances = Vec::new();
        for combination in parameters.combinations() {
            let filled = combination.filled(self.reader, cases);
            instances.push(self.instance(name, &combination, &filled, &common, &parameters));
        }
        Some(Scenario {
            name: name.to_string(),
            question: question?,
            why: opening_comment(self.reader.source),
            belief: belief?,
            answer: answer.unwrap_or_default(),
            workaround: workaround.unwrap_or_default(),
            no_control: no_control.unwrap_or_default(),
            twin,
            tags,
            symptoms,
            says,
            sources,
            needs,
            hazards,
            repeat: repeat
                .and_then(|repeat| u32::try_from(repeat).ok())
                .unwrap_or(defaults::REPEAT),
            step_timeout_ms: step_timeout_ms.unwrap_or(defaults::STEP_TIMEOUT_S * 1000),
            timeout_ms: timeout_ms.unwrap_or(defaults::TIMEOUT_S * 1000),
            nondeterministic: nondeterministic.unwrap_or(false),
            parameters: parameters.into_list(),
            instances,
            sha256: sha256_hex(self.reader.source),
        })
    }

    fn parse_parameters(&mut self, cases: &[TreeEntry], common: &Common<'_>) -> Option<Parameters> {
        let Some(node) = get(self.entries, "parameters") else {
            return Some(Parameters::default());
        };
        let parameters = Parameters::read(self.reader, node);
        if parameters.is_none() {
            // The steps are checked nevertheless, except for texts with parameters, whose values are not known.
            parameters::leave_unfilled(self.reader, cases);
            for entry in cases {
                let _ = cases::case(self.reader, entry, common);
            }
        }
        parameters
    }

    fn instance(
        &mut self,
        scenario: &str,
        combination: &Combination<'_>,
        entries: &[TreeEntry],
        common: &Common<'_>,
        parameters: &Parameters,
    ) -> Instance {
        let mut cases = Vec::new();
        let mut scopes: Vec<Scope> = Vec::new();
        for entry in entries {
            let Some((mut case, scope)) = cases::case(self.reader, entry, common) else {
                continue;
            };
            if let tree::Data::Table(keys) = &entry.value.data
                && let Some(expect) = get(keys, "expect")
            {
                case.expect = checks::parse_checks(self.reader, expect, &[&scope], parameters);
            }
            cases.push(case);
            scopes.push(scope);
        }
        let effect = self
            .required_node("effect")
            .map(|node| combination.filled_node(self.reader, node));
        if let Some(node) = &effect
            && matches!(&node.data, tree::Data::List(checks) if checks.is_empty())
        {
            self.reader
                .error(&node.place, "the effect needs a check", None);
        }
        let compared: Vec<&Scope> = scopes
            .iter()
            .filter(|s| matches!(s.case.as_str(), "trap" | "control"))
            .collect();
        let effect =
            effect.map(|node| checks::parse_checks(self.reader, &node, &compared, parameters));
        let expect =
            get(self.entries, "expect").map(|node| combination.filled_node(self.reader, node));
        let expect =
            expect.map(|node| conditions::parse_expectations(self.reader, &node, parameters));
        let everywhere = get(self.entries, "expect_when")
            .map(|node| conditions::when(self.reader, node, parameters));
        let mut expect = expect.unwrap_or_default();
        if let Some(everywhere) = &everywhere {
            let checks = cases
                .iter_mut()
                .flat_map(|case| &mut case.expect)
                .map(|check| &mut check.when);
            expect
                .iter_mut()
                .map(|expectation| &mut expectation.when)
                .chain(checks)
                .for_each(|when| when.inherit_conditions(everywhere));
        }
        Instance {
            name: combination.instance_name(scenario),
            values: combination.values(),
            cases,
            effect: effect.unwrap_or_default(),
            expect,
        }
    }

    fn required_node(&mut self, key: &str) -> Option<&'r Node> {
        self.reader
            .required_value(self.entries, key, &file_start(self.entries), "a scenario")
    }

    fn sentence(&mut self, key: &str) -> Option<String> {
        get(self.entries, key).and_then(|node| self.reader.sentence(node))
    }

    fn question(&mut self, node: &Node) -> Option<String> {
        let question = self.reader.sentence(node)?;
        if !question.ends_with('?') {
            self.reader
                .error(&node.place, "a question ends in a question mark", None);
        }
        Some(question)
    }

    fn parse_tags(&mut self) -> Vec<String> {
        let nodes = get(self.entries, "tags")
            .and_then(|node| self.reader.list(node))
            .unwrap_or_default();
        nodes
            .iter()
            .filter_map(|node| self.reader.name(node, "tag").map(str::to_string))
            .collect()
    }

    fn parse_symptoms(&mut self) -> Vec<String> {
        let known: Vec<&str> = symptom::all()
            .iter()
            .map(|symptom| symptom.id.as_str())
            .collect();
        self.each_once("symptoms", |reader, node| {
            let id = reader.text(node)?;
            if !known.contains(&id) {
                let all = "scenarios/symptoms.toml lists them all".to_string();
                let help = suggest_name(id, known.iter().copied()).or(Some(all));
                return reader.reject(&node.place, format!("unknown symptom `{id}`"), help);
            }
            Some(id.to_string())
        })
    }

    /// Reads `twin`. Whether a scenario has that name is checked elsewhere, where all scenarios are known.
    fn parse_twin(&mut self) -> Option<String> {
        let node = get(self.entries, "twin")?;
        let name = self.reader.text(node)?;
        if name.split('/').count() == 2
            && name.split('/').all(|part| {
                !part.is_empty()
                    && part
                        .bytes()
                        .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            })
        {
            return Some(name.to_string());
        }
        let help = "a twin is named as in `visibility/mask-after-cuinit`".to_string();
        self.reader.error(
            &node.place,
            format!("`{name}` is not the name of a scenario"),
            Some(help),
        );
        None
    }

    fn says(&mut self) -> Vec<String> {
        self.each_once("says", |reader, node| {
            let said = reader.sentence(node)?;
            if said.chars().count() > MOST_SAID {
                let help =
                    "paste the line that names the error, without paths and numbers".to_string();
                return reader.reject(
                    &node.place,
                    format!("more than {MOST_SAID} characters"),
                    Some(help),
                );
            }
            Some(said)
        })
    }

    /// The texts of a list, in which none may stand twice.
    fn each_once(
        &mut self,
        key: &str,
        read: impl Fn(&mut Reader<'_>, &Node) -> Option<String>,
    ) -> Vec<String> {
        let nodes = get(self.entries, key)
            .and_then(|node| self.reader.list(node))
            .unwrap_or_default();
        let mut found: Vec<String> = Vec::new();
        for node in nodes {
            let Some(text) = read(self.reader, node) else {
                continue;
            };
            if found.iter().any(|known| known.eq_ignore_ascii_case(&text)) {
                self.reader
                    .error(&node.place, format!("`{text}` is listed twice"), None);
            } else {
                found.push(text);
            }
        }
        found
    }

    fn parse_sources(&mut self) -> Vec<String> {
        let nodes = get(self.entries, "sources")
            .and_then(|node| self.reader.list(node))
            .unwrap_or_default();
        nodes
            .iter()
            .filter_map(|node| self.reader.sentence(node))
            .collect()
    }

    fn parse_duration(&mut self, key: &str, most_ms: u64) -> Option<u64> {
        let node = get(self.entries, key)?;
        let text = self.reader.text(node)?;
        match size::parse_milliseconds(text) {
            Ok(ms) if ms <= most_ms => return Some(ms),
            Ok(_) => {
                let message = format!("`{key}` is at most {}s", most_ms / 1000);
                self.reader.error(&node.place, message, None);
            }
            Err(wrong) => self
                .reader
                .error(&node.place, wrong.message, Some(wrong.help)),
        }
        None
    }

    /// Checks that there is a trap, and either a control or a reason why there can be none.
    fn check_controls(&mut self, cases: &[TreeEntry], table: Option<&TreeEntry>) -> Option<String> {
        let table = table?;
        if cases.len() > MOST_CASES {
            self.reader.error(
                &table.key.place,
                format!("more than {MOST_CASES} cases"),
                None,
            );
        }
        let Some(trap) = cases.iter().find(|entry| entry.key.text == "trap") else {
            let help = Some("add `[cases.trap]`, the order that people write".to_string());
            let place = cases
                .first()
                .map_or(&table.key.place, |entry| &entry.key.place);
            return self.reader.reject(place, "no case is called `trap`", help);
        };
        let no_control = self
            .entries
            .iter()
            .find(|entry| entry.key.text == "no_control");
        let why_none = no_control.and_then(|entry| self.reader.sentence(&entry.value));
        match (
            cases.iter().find(|entry| entry.key.text == "control"),
            no_control,
        ) {
            (None, None) => {
                let help = Some(
                    "add `[cases.control]`, or say in `no_control` why there can be none"
                        .to_string(),
                );
                self.reader
                    .error(&trap.key.place, "this trap has no control", help);
            }
            (Some(control), Some(entry)) => {
                let message = "a scenario has `no_control` or a control, not both";
                self.reader.error_with(
                    &entry.key.place,
                    message,
                    &control.key.place,
                    "the control",
                );
            }
            _ => {}
        }
        why_none
    }
}

/// The SHA-256 of a file's text, in hexadecimal digits.
pub fn sha256_hex(source: &str) -> String {
    hmac_sha256::Hash::hash(source.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests;
