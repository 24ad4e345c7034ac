//! Known errors and messages: their numbers, their texts, their causes and the advice about them. The data is read from
//! `scenarios/errors.toml`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::xid::all_xids;
use cuda_pitfalls_calls::status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownError {
    pub(super) code: u32,
    /// Message of an older release.
    #[serde(default)]
    says: Option<String>,
    /// The number that libcudart gave the error before CUDA 10.1.
    #[serde(default)]
    pub(super) old: Option<u32>,
}

/// A message that scenarios are about.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioMessage {
    /// The message as it is printed.
    pub(super) says: String,
    /// Names of scenarios, the best first, or `symptom/ID`.
    pub(super) answers: Vec<String>,
}

/// Meaning of an error, its causes, and the first thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// The name, such as `error/999` or `message/no-cuda-gpus`.
    pub id: String,
    /// CUDA statuses that it is about; empty for a message that is not a status.
    #[serde(default)]
    pub codes: Vec<u32>,
    /// Messages that programs print.
    #[serde(default)]
    pub says: Vec<String>,
    /// For each of `says`, the newest release in whose files it was found; empty if it was found in none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen_in: Vec<String>,
    /// Meaning in a sentence.
    pub means: String,
    /// Possible causes. Their likelihood was not measured.
    pub causes: Vec<ErrorCause>,
    /// First thing to do.
    pub first: String,
    /// Releases for which it was read or measured, such as `torch 2.15.0`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_in: Vec<String>,
    /// Day of `seen_in` and `read_in`, such as 2026-11-29.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_on: Option<String>,
    /// `true` if `doctor` can determine the cause on the machine where the error occurs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doctor: bool,
    /// `true` if the message does not indicate a problem. Then it does not answer a text that also contains something
    /// else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub harmless: bool,
}

/// A cause of an error, with its evidence: a scenario or a survey that measured it, or a source that documents it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Cause")]
#[serde(deny_unknown_fields)]
pub struct ErrorCause {
    /// The cause.
    pub cause: String,
    /// The scenario that measured the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The survey that measured the cause, such as `errors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<String>,
    /// Address of the source that documents it. The cause itself was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Subject and date of the source, if the cause was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<ReadFor>,
    /// Check that distinguishes this cause from the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tell: Option<String>,
}

/// Subject of a cited source, and the day when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadFor {
    /// The package.
    pub of: String,
    /// Versions of the package: numbers, or versions of a thread or of a page.
    pub versions: String,
    /// Day, such as 2026-11-28.
    pub on: String,
}

impl Advice {
    /// Returns the sentence about the releases for which it was read, or in whose files its messages were found.
    pub fn releases_sentence(&self) -> Option<String> {
        let on = self.read_on.as_ref()?;
        if !self.read_in.is_empty() {
            return Some(format!("Read for {} ({on}).", self.read_in.join(", ")));
        }
        let seen: BTreeSet<&str> = self.seen_in.iter().map(String::as_str).collect();
        let found: Vec<&str> = seen.into_iter().filter(|seen| !seen.is_empty()).collect();
        Some(format!("Messages found in {} ({on}).", found.join(", ")))
    }
}

impl ErrorCause {
    /// Returns a cause that a source documents.
    pub(super) fn read(cause: &str, source: &str, read: &ReadFor) -> ErrorCause {
        ErrorCause {
            cause: cause.to_owned(),
            scenario: None,
            survey: None,
            source: Some(source.to_owned()),
            read: Some(read.clone()),
            tell: None,
        }
    }

    /// Returns a phrase about the evidence.
    pub fn grounds_phrase(&self) -> Option<String> {
        if let Some(measured) = self
            .scenario
            .clone()
            .or(self.survey.as_ref().map(|kind| format!("survey {kind}")))
        {
            return Some(format!("measured: {measured}"));
        }
        let read = self
            .read
            .as_ref()
            .map(|ReadFor { of, versions, on }| format!("; {of}, {versions}; {on}"));
        Some(format!(
            "source (not reproduced{}): {}",
            read.unwrap_or_default(),
            self.source.as_ref()?
        ))
    }

    /// Returns `true` if this project measured it.
    pub fn is_measured(&self) -> bool {
        self.scenario.is_some() || self.survey.is_some()
    }
}

impl KnownError {
    /// Returns the messages that programs print, the current one first.
    pub(super) fn error_messages(&self) -> impl Iterator<Item = &str> {
        status::message(self.code)
            .into_iter()
            .chain(self.says.as_deref())
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdviceFile {
    error: Vec<KnownError>,
    message: Vec<ScenarioMessage>,
    boilerplate: Vec<String>,
    elsewhere: Vec<String>,
    advice: Vec<Advice>,
}

/// The errors file. It is empty if it cannot be parsed; a test rules that out.
static FILE: LazyLock<AdviceFile> =
    LazyLock::new(|| toml::from_str(cuda_pitfalls_scenarios::errors()).unwrap_or_default());

/// Returns the errors that are found by their texts, in the order of the file.
pub(super) fn known_errors() -> &'static [KnownError] {
    &FILE.error
}

/// Returns the messages that scenarios are about.
pub(super) fn scenario_messages() -> &'static [ScenarioMessage] {
    &FILE.message
}

/// Returns a text without the hints that frameworks print below every error, and without lines about something else.
pub(super) fn without_boilerplate(text: &str) -> String {
    let mut text = FILE
        .boilerplate
        .iter()
        .fold(text.to_owned(), |text, phrase| {
            text.replace(phrase.as_str(), "")
        });
    if text.lines().any(is_elsewhere) {
        text = text
            .lines()
            .filter(|line| !is_elsewhere(line))
            .fold(String::new(), |text, line| text + line + "\n");
    }
    text
}

fn is_elsewhere(line: &str) -> bool {
    let line = line.to_lowercase();
    FILE.elsewhere
        .iter()
        .any(|word| line.contains(word.as_str()))
}

/// Returns the advice about each error, in the order of the page.
pub fn all_advice() -> &'static [Advice] {
    &FILE.advice
}

/// Returns the advice about an error or a message, by its id: `error/700`, `message/no-cuda-gpus`, `xid/79`.
pub fn advice_about(id: &str) -> Option<&'static Advice> {
    if let Some(code) = id.strip_prefix("xid/") {
        let index = code.parse::<usize>().ok()?.checked_sub(1)?;
        return all_xids().get(index).map(|(_, advice)| advice);
    }
    advice_of_file(id)
}

/// Returns the advice about an id in the errors file.
pub(super) fn advice_of_file(id: &str) -> Option<&'static Advice> {
    let code = id.strip_prefix("error/").and_then(|code| code.parse().ok());
    FILE.advice
        .iter()
        .find(|advice| advice.id == id || code.is_some_and(|code| advice.codes.contains(&code)))
}

#[cfg(test)]
mod tests {
    use cuda_pitfalls_core::scenario::framework::frameworks;
    use cuda_pitfalls_core::scenario::symptom;

    use super::*;

    #[test]
    fn every_error_of_the_file_has_a_name_and_is_there_once() {
        let file: AdviceFile = toml::from_str(cuda_pitfalls_scenarios::errors()).unwrap();
        assert!(file.error.len() > 30);
        for known in &file.error {
            assert_eq!(
                file.error
                    .iter()
                    .filter(|other| other.code == known.code)
                    .count(),
                1,
                "{known:?}"
            );
            assert!(known.error_messages().next().is_some(), "{known:?}");
        }
    }

    #[test]
    fn every_message_of_a_scenario_is_answered() {
        let scenarios = cuda_pitfalls_core::catalogue::select_scenarios(&[]).unwrap();
        for id in scenario_messages()
            .iter()
            .flat_map(|message| &message.answers)
        {
            let is_symptom = id
                .strip_prefix("symptom/")
                .is_some_and(|id| symptom::find(id).is_some());
            assert!(
                is_symptom || scenarios.iter().any(|known| known.name == *id),
                "{id}"
            );
        }
    }

    #[test]
    fn advice_that_names_a_framework_names_its_release() {
        let mut named = 0;
        for advice in all_advice() {
            let id = &advice.id;
            let releases: Vec<&String> = advice.read_in.iter().chain(&advice.seen_in).collect();
            for release in &releases {
                let version = release.rsplit(' ').next().unwrap_or_default();
                assert!(
                    release.is_empty() || version.starts_with(char::is_numeric),
                    "{id}: {release}"
                );
            }
            assert!(
                advice.seen_in.is_empty() || advice.seen_in.len() == advice.says.len(),
                "{id}"
            );
            let has_release = releases.iter().any(|release| !release.is_empty());
            assert_eq!(has_release, advice.read_on.is_some(), "{id}");
            if names_framework(&advice.means) {
                named += 1;
                assert!(has_release, "{id}");
            }
        }
        assert!(named > 30, "{named}");
    }

    /// Returns `true` if one of the words of a text is a name of a framework.
    fn names_framework(text: &str) -> bool {
        let text = text.to_lowercase();
        text.split(is_word_end).any(|part| {
            frameworks()
                .iter()
                .any(|known| known.name == part || known.words.iter().any(|word| word == part))
        })
    }

    fn is_word_end(letter: char) -> bool {
        !letter.is_alphanumeric() && letter != '_'
    }

    #[test]
    fn every_cause_is_measured_by_a_scenario_or_read_at_an_address() {
        let file: AdviceFile = toml::from_str(cuda_pitfalls_scenarios::errors()).unwrap();
        let scenarios = cuda_pitfalls_core::catalogue::select_scenarios(&[]).unwrap();
        let mut ids = std::collections::BTreeSet::new();
        for advice in &file.advice {
            assert!(ids.insert(&advice.id), "{}", advice.id);
            assert!(
                !advice.codes.is_empty() || !advice.says.is_empty(),
                "{}",
                advice.id
            );
            assert!(
                !advice
                    .says
                    .iter()
                    .any(|said| said.starts_with('*') || said.ends_with('*')),
                "{}",
                advice.id
            );
            for cause in &advice.causes {
                match (&cause.scenario, &cause.survey, &cause.source) {
                    (Some(name), None, None) => {
                        assert!(scenarios.iter().any(|known| known.name == *name), "{name}")
                    }
                    (None, Some(kind), None) => {
                        assert!(
                            crate::survey::SurveyKind::all()
                                .iter()
                                .any(|known| known.name() == kind),
                            "{kind}"
                        );
                    }
                    (None, None, Some(address)) => {
                        assert!(address.starts_with("https://"), "{address}");
                        let read = cause.read.as_ref();
                        let read = read
                            .unwrap_or_else(|| panic!("{address}: no package, versions and date"));
                        assert!(
                            !read.of.is_empty() && read.versions.len() > 1,
                            "{address}: {read:?}"
                        );
                        let is_date = read.on.len() == 10 && read.on.starts_with("20");
                        assert!(
                            is_date && read.on.split('-').count() == 3,
                            "{address}: {read:?}"
                        );
                    }
                    both => panic!("{}: {both:?}", advice.id),
                }
            }
        }
    }
}
