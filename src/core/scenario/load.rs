//! Reading a scenario file strictly. Errors have locations; all that [`super::file`] cannot find are reported at once.

mod arguments;
mod cases;
mod checks;
mod conditions;
mod excerpt;
mod parameters;

pub use excerpt::Excerpts;

use std::iter::repeat_n;
use std::ops::Range;

use toml::Spanned;

use self::cases::{Common, Scope};
use self::conditions::check_when;
use self::parameters::{Combination, Parameters};
use super::file::ScenarioFile;
use super::symptom;
use super::{Case, Gpus, Hazard, Instance, Scenario};
use crate::defaults;
use crate::source::diagnostic::{self, Diagnostic, suggest_name};
use crate::source::reader::{self, Reader, opening_comment};
use crate::source::size;
use crate::source::tree;

const MOST_SOURCE_BYTES: usize = 256 << 10;
const MOST_CASES: usize = 16;
/// Maximum number of characters of a pasted message, which is one line.
const MOST_SAID: usize = 160;

/// Parses the text of a scenario file.
///
/// `name` is the name of the scenario, `file` the name of the file in messages, and `known_kernels` the names that a
/// `ptx` argument can have.
///
/// # Errors
/// Returns the first part with a wrong type, or every other error of the file, sorted by location.
pub fn load_scenario(
    name: &str,
    file: &str,
    source: &str,
    known_kernels: &[&str],
) -> Result<Scenario, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, source, known_kernels);
    let scenario = read_scenario(&mut reader, name);
    reader.finish(scenario)
}

fn read_scenario(reader: &mut Reader<'_>, name: &str) -> Option<Scenario> {
    let table = reader.parse_table("a scenario file", MOST_SOURCE_BYTES)?;
    let parameters = Parameters::read(reader, table.get_ref());
    let combinations = parameters.combinations();
    let mut scenario: Option<Scenario> = None;
    // Copying the tables would be most of the work of reading them, so the last combination takes the original.
    for (combination, mut table) in combinations.iter().zip(repeat_n(table, combinations.len())) {
        combination.fill_file(reader, table.get_mut());
        let file: ScenarioFile = reader.read_typed(table)?;
        let mut sections = FileReader {
            reader,
            file: &file,
            parameters: &parameters,
        };
        let scenario = scenario.get_or_insert_with(|| sections.read_header(name));
        let instance = sections.read_instance(combination, scenario);
        scenario.instances.push(instance);
    }
    scenario
}

/// The sections of a file, filled in with the values of one combination.
struct FileReader<'r, 'a> {
    reader: &'r mut Reader<'a>,
    file: &'r ScenarioFile,
    parameters: &'r Parameters<'r>,
}

impl FileReader<'_, '_> {
    /// Returns the scenario without its instances.
    fn read_header(&mut self, name: &str) -> Scenario {
        let file = self.file;
        if !file.question.get_ref().ends_with('?') {
            let message = "a question ends in a question mark";
            self.reader.error(&file.question.span(), message, None);
        }
        self.check_controls();
        if let Some(when) = &file.expect_when {
            check_when(self.reader, when.get_ref(), &when.span(), self.parameters);
        }
        let sources = file.sources.iter().map(|source| source.0.clone());
        let no_control = file.no_control.as_ref();
        Scenario {
            name: name.to_string(),
            question: file.question.get_ref().clone(),
            why: opening_comment(self.reader.source),
            belief: file.belief.0.clone(),
            answer: file.answer.0.clone(),
            workaround: file.workaround.0.clone(),
            no_control: no_control.map_or_else(String::new, |why| why.get_ref().0.clone()),
            twin: self.check_twin(),
            tags: self.check_tags(),
            symptoms: self.check_symptoms(),
            says: self.check_says(),
            sources: sources.collect(),
            needs: file.needs.clone(),
            hazards: self.check_hazards(),
            repeat: self.check_repeat(),
            step_timeout_ms: self.parse_duration(
                "step_timeout",
                file.step_timeout.as_ref(),
                defaults::STEP_TIMEOUT_S,
                120,
            ),
            timeout_ms: self.parse_duration(
                "timeout",
                file.timeout.as_ref(),
                defaults::TIMEOUT_S,
                600,
            ),
            nondeterministic: file.nondeterministic,
            parameters: self.parameters.to_list(),
            instances: Vec::new(),
            sha256: sha256_hex(self.reader.source),
        }
    }

    fn read_instance(&mut self, combination: &Combination<'_>, scenario: &Scenario) -> Instance {
        let file = self.file;
        let gpus = file.gpus.as_ref();
        let common = Common {
            gpus: gpus
                .and_then(|gpus| cases::check_gpus(self.reader, gpus, file.needs.gpus))
                .unwrap_or(Gpus::Masked(file.needs.gpus)),
            needed_gpus: file.needs.gpus,
            hazards: &scenario.hazards,
        };
        let mut cases: Vec<Case> = Vec::new();
        let mut scopes: Vec<Scope> = Vec::new();
        for (name, written) in file.cases_in_order() {
            let (mut case, scope) = cases::read_case(self.reader, name, written, &common);
            let checks = &written.expect;
            case.expect = checks::read_checks(self.reader, checks, &[&scope], self.parameters);
            cases.push(case);
            scopes.push(scope);
        }
        let effect = &file.effect;
        if effect.get_ref().is_empty() {
            let message = "the effect needs a check";
            self.reader.error(&effect.span(), message, None);
        }
        let compared: Vec<&Scope> = scopes
            .iter()
            .filter(|scope| matches!(scope.case.as_str(), "trap" | "control"))
            .collect();
        let effect = checks::read_checks(self.reader, effect.get_ref(), &compared, self.parameters);
        let mut expect = Vec::new();
        for expectation in &file.expect {
            let (place, read) = (expectation.span(), expectation.get_ref());
            check_when(self.reader, &read.when, &place, self.parameters);
            if read.because.trim().is_empty() {
                let message = "`because` is empty, but an expectation needs a reason";
                self.reader.error(&place, message, None);
            }
            expect.push(read.clone());
        }
        if let Some(everywhere) = &file.expect_when {
            for expectation in &mut expect {
                expectation.when.inherit_conditions(everywhere.get_ref());
            }
            for check in cases.iter_mut().flat_map(|case| &mut case.expect) {
                check.when.inherit_conditions(everywhere.get_ref());
            }
        }
        Instance {
            name: combination.instance_name(&scenario.name),
            values: combination.values(),
            cases,
            effect,
            expect,
        }
    }

    fn check_tags(&mut self) -> Vec<String> {
        let mut tags = Vec::new();
        for tag in &self.file.tags {
            let name = self.reader.check_name(tag.get_ref(), &tag.span(), "tag");
            tags.extend(name.map(str::to_string));
        }
        tags
    }

    fn check_hazards(&mut self) -> Vec<Hazard> {
        let mut hazards = Vec::new();
        let names = Hazard::LISTED.map(Hazard::name);
        for word in &self.file.hazards {
            let known = Hazard::LISTED
                .into_iter()
                .find(|hazard| hazard.name() == word.get_ref());
            if known.is_none() {
                let message = format!("unknown hazard `{word}`");
                let help = suggest_name(word.get_ref(), names);
                self.reader.error(&word.span(), message, help);
            }
            hazards.extend(known);
        }
        hazards
    }

    fn check_repeat(&mut self) -> u32 {
        let Some(repeat) = &self.file.repeat else {
            return defaults::REPEAT;
        };
        if !(1..=100).contains(repeat.get_ref()) {
            let message = format!("{repeat} is not in 1 to 100");
            self.reader.error(&repeat.span(), message, None);
        }
        *repeat.get_ref()
    }

    fn check_symptoms(&mut self) -> Vec<String> {
        let known = symptom::ids();
        let mut symptoms = Vec::new();
        for symptom in &self.file.symptoms {
            let id = symptom.get_ref();
            if !known.contains(&id.as_str()) {
                let all = "scenarios/symptoms.toml lists them all".to_string();
                let help = suggest_name(id, known.iter().copied()).or(Some(all));
                let message = format!("unknown symptom `{id}`");
                self.reader.error(&symptom.span(), message, help);
                continue;
            }
            self.push_once(&mut symptoms, id, &symptom.span());
        }
        symptoms
    }

    /// Checks `twin`. The existence of a scenario with that name is checked elsewhere, where all scenarios are known.
    fn check_twin(&mut self) -> Option<String> {
        let twin = self.file.twin.as_ref()?;
        let is_part = |part: &str| {
            let mut bytes = part.bytes();
            !part.is_empty() && bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        };
        match twin.get_ref().split_once('/') {
            Some((subject, name)) if is_part(subject) && is_part(name) => {
                Some(twin.get_ref().clone())
            }
            _ => {
                let help = "write a full name, such as `visibility/mask-after-cuinit`".to_string();
                let message = format!("`{twin}` is not the name of a scenario");
                self.reader.reject(&twin.span(), message, Some(help))
            }
        }
    }

    fn check_says(&mut self) -> Vec<String> {
        let mut says = Vec::new();
        for said in &self.file.says {
            let text = said.get_ref();
            if text.trim().is_empty() {
                self.reader.error(&said.span(), "this is empty", None);
                continue;
            }
            if text.chars().count() > MOST_SAID {
                let help =
                    "paste the line that contains the error, without paths and numbers".to_string();
                let message = format!("more than {MOST_SAID} characters");
                self.reader.error(&said.span(), message, Some(help));
                continue;
            }
            self.push_once(&mut says, text, &said.span());
        }
        says
    }

    /// Adds a text to a list that must not contain duplicates.
    fn push_once(&mut self, found: &mut Vec<String>, text: &str, place: &Range<usize>) {
        if found.iter().any(|known| known.eq_ignore_ascii_case(text)) {
            let message = format!("`{text}` is listed twice");
            self.reader.error(place, message, None);
        } else {
            found.push(text.to_string());
        }
    }

    fn parse_duration(
        &mut self,
        key: &str,
        written: Option<&Spanned<String>>,
        default_s: u64,
        most_s: u64,
    ) -> u64 {
        let Some(text) = written else {
            return default_s * 1000;
        };
        match size::parse_milliseconds(text.get_ref()) {
            Ok(ms) if ms <= most_s * 1000 => return ms,
            Ok(_) => {
                let message = format!("`{key}` is at most {most_s}s");
                self.reader.error(&text.span(), message, None);
            }
            Err(wrong) => self
                .reader
                .error(&text.span(), wrong.message, Some(wrong.help)),
        }
        default_s * 1000
    }

    /// Checks that the scenario has a trap, and either a control or the reason why a control is impossible.
    fn check_controls(&mut self) {
        let cases = self.file.cases_in_order();
        let Some((first, _)) = cases.first() else {
            let help = Some("add `[cases.trap]`, the order that people write".to_string());
            return self.reader.error(&(0..0), "no case is called `trap`", help);
        };
        if cases.len() > MOST_CASES {
            let message = format!("more than {MOST_CASES} cases");
            self.reader.error(&first.span(), message, None);
        }
        let find = |name: &str| {
            let (key, _) = cases.iter().find(|(key, _)| key.get_ref() == name)?;
            Some(key.span())
        };
        let Some(trap) = find("trap") else {
            let help = Some("add `[cases.trap]`, the order that people write".to_string());
            let message = "no case is called `trap`";
            return self.reader.error(&first.span(), message, help);
        };
        match (find("control"), &self.file.no_control) {
            (None, None) => {
                let help = "add `[cases.control]`, or give the reason in `no_control`";
                let help = Some(help.to_string());
                self.reader.error(&trap, "this trap has no control", help);
            }
            (Some(control), Some(why)) => {
                let message = "a scenario can have `no_control` or a control, not both";
                self.reader
                    .error_with(&why.span(), message, &control, "the control");
            }
            _ => {}
        }
    }
}

/// The SHA-256 of a file's text, in hexadecimal digits.
pub fn sha256_hex(source: impl AsRef<[u8]>) -> String {
    hmac_sha256::Hash::hash(source.as_ref())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests;
