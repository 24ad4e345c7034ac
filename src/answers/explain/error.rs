//! Errors by their numbers, names and messages, and what is known to help.

use std::sync::LazyLock;

use cuda_pitfalls_calls::{CallLibrary, status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::term::{Term, pieces};

const SOURCE: &str = cuda_pitfalls_scenarios::ERRORS;
/// So many pieces before a number are looked at for the word that makes it an error.
const REACH: usize = 4;
/// A smaller number before the word error is an amount: `2 errors`.
const LEAST_BARE: u32 = 100;
/// A text of so few pieces is about nothing else: `error 700`.
const SHORTEST: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownError {
    code: u32,
    /// What an older release said of it.
    #[serde(default)]
    says: Option<String>,
    /// The number that libcudart gave it before CUDA 10.1.
    #[serde(default)]
    old: Option<u32>,
}

/// What an error means, what causes it, and what to do first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// Its name, such as `error/999` or `message/no-cuda-gpus`.
    pub id: String,
    /// The statuses of CUDA that it is about; empty for a message that is no status.
    #[serde(default)]
    pub codes: Vec<u32>,
    /// Messages that programs print.
    #[serde(default)]
    pub says: Vec<String>,
    /// What it means, in a sentence.
    pub means: String,
    /// What can cause it. How likely each is was not measured.
    pub causes: Vec<ErrorCause>,
    /// What to do first.
    pub first: String,
    /// Whether `doctor` can tell which of the causes it is, on the machine where it happens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doctor: bool,
}

/// A cause of an error, with what says so: a scenario or a survey that measured it, or the source where it was read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Cause")]
#[serde(deny_unknown_fields)]
pub struct ErrorCause {
    /// The cause.
    pub cause: String,
    /// The scenario that measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The survey that measured it, such as `errors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<String>,
    /// The address where it was read. It was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How to tell it apart from the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tell: Option<String>,
}

impl ErrorCause {
    /// Whether this project measured it.
    pub fn is_measured(&self) -> bool {
        self.scenario.is_some() || self.survey.is_some()
    }
}

impl KnownError {
    /// The messages that programs print, today's first.
    fn messages(&self) -> impl Iterator<Item = &str> {
        status::message(self.code).into_iter().chain(self.says.as_deref())
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdviceFile {
    error: Vec<KnownError>,
    boilerplate: Vec<String>,
    elsewhere: Vec<String>,
    advice: Vec<Advice>,
}

/// Empty if the file is not valid; a test excludes that.
static FILE: LazyLock<AdviceFile> = LazyLock::new(|| toml::from_str(SOURCE).unwrap_or_default());

/// The errors with this number: two, if libcudart has used it for two.
fn by_number(number: u32) -> Vec<Term> {
    if number == 0 {
        return Vec::new();
    }
    let has_name = [CallLibrary::Runtime, CallLibrary::Driver]
        .iter()
        .any(|library| status::name(*library, number.into()).is_some());
    let old = FILE.error.iter().filter(|known| known.old == Some(number)).map(|known| known.code);
    old.chain(has_name.then_some(number)).map(Term::error).collect()
}

pub(super) fn by_name(name: &str) -> Option<Term> {
    let mut all = [CallLibrary::Runtime, CallLibrary::Driver].into_iter().flat_map(status::table);
    let (code, _) = all.find(|(_, known)| known.to_str().is_ok_and(|known| known.eq_ignore_ascii_case(name)))?;
    (*code != 0).then(|| Term::error(*code))
}

/// The errors that a text says by number or by message, line by line. `is_own` says that it is one of the program's own
/// texts, each of which is about CUDA.
pub(super) fn said(text: &str, is_own: bool) -> Vec<Term> {
    let is_short = pieces(text).len() <= SHORTEST;
    let is_typed = !text.contains('\n');
    let mut found = Vec::new();
    for line in text.lines() {
        let is_about_cuda = is_own || is_about_cuda(line);
        found.extend(numbers(line, is_short, is_typed, is_about_cuda));
        found.extend(messages(line, is_about_cuda));
    }
    found
}

/// The numbers of a line that are errors: beside a word that says so, in a line about CUDA. A bare number is one only
/// if nothing else was said.
fn numbers(line: &str, is_short: bool, is_typed: bool, is_about_cuda: bool) -> Vec<Term> {
    let pieces: Vec<String> = pieces(line).into_iter().map(|piece| piece.to_lowercase()).collect();
    let mut found = Vec::new();
    for (place, piece) in pieces.iter().enumerate() {
        // A leading zero is of a date, and a number behind a number or a file's name is a line or a time.
        let is_plain = piece.len() <= 4 && !(piece.len() > 1 && piece.starts_with('0'));
        let Some(number) = piece.parse::<u32>().ok().filter(|_| is_plain) else { continue };
        let before = pieces.get(place.saturating_sub(REACH)..place).unwrap_or_default();
        let after = pieces.get(place + 1..pieces.len().min(place + REACH)).unwrap_or_default();
        let is_behind_a_place = before
            .last()
            .is_some_and(|word| word.contains('.') || word.starts_with(|letter: char| letter.is_ascii_digit()));
        let is_near = is_about_cuda && before.iter().any(|word| names_a_failure(word) || names_a_call(word));
        let is_said = !is_behind_a_place
            && (before.last().is_some_and(|word| names_an_error(word))
                || is_near
                || (is_about_cuda && number >= LEAST_BARE && after.iter().any(|word| word == "error")));
        let is_other = before.iter().any(|word| names_another_number(word));
        let is_alone = pieces.len() == 1 && is_short;
        // `make` ends with Error 1 and 2.
        let is_after_error = matches!(before, [.., word] if word == "error")
            || matches!(before, [.., word, code] if word == "error" && code == "code");
        let is_typed = is_typed && number > 2 && is_after_error;
        if is_alone || (is_said && !is_other && (is_about_cuda || is_short || is_typed)) {
            found.extend(by_number(number));
        }
    }
    found
}

/// Whether the number after this word is likely a status.
fn names_an_error(word: &str) -> bool {
    let words =
        ["error", "err", "errno", "status", "code", "failure", "failed", "returned", "returns", "result", "retcode"];
    words.contains(&word) || word.ends_with("error") || word.ends_with("_status")
}

/// Whether a number some words further on is likely a status.
fn names_a_failure(word: &str) -> bool {
    names_an_error(word) && !matches!(word, "code" | "status" | "result")
}

fn names_a_call(word: &str) -> bool {
    word == "cuinit" || word.starts_with("cudaget") || word.starts_with("cudasuccess") || word.starts_with("cudaset")
}

/// Whether the number after this word is another one: an exit code, a line, an answer of a web server.
fn names_another_number(word: &str) -> bool {
    ["exit", "http", "https", "line", "step", "epoch", "port", "signal", "exited", "page", "xid"].contains(&word)
}

fn is_about_cuda(line: &str) -> bool {
    let lower = line.to_lowercase();
    ["cuda", "cuinit", "nvml", "nvidia", "gpu"].iter().any(|word| lower.contains(word))
}

/// The errors whose messages a line has.
fn messages(line: &str, is_about_cuda: bool) -> Vec<Term> {
    let line = line.to_lowercase();
    let is_of_cuda = is_about_cuda && !line.contains("nvidia-container-cli") && !line.contains("nvml");
    // Other programs say short ones and 800 too, so CUDA must be named beside them.
    let is_said = |known: &KnownError, message: &str| {
        line.contains(&message.to_lowercase()) && (is_of_cuda || (message.split(' ').count() > 2 && known.code != 800))
    };
    let said = FILE.error.iter().filter(|known| known.messages().any(|message| is_said(known, message)));
    said.map(|known| Term::error(known.code)).collect()
}

/// A text without what frameworks print below every error, and without lines that are about something else.
pub(super) fn without_boilerplate(text: &str) -> String {
    let mut text = FILE.boilerplate.iter().fold(text.to_owned(), |text, phrase| text.replace(phrase.as_str(), ""));
    if text.lines().any(is_elsewhere) {
        text = text.lines().filter(|line| !is_elsewhere(line)).fold(String::new(), |text, line| text + line + "\n");
    }
    text
}

fn is_elsewhere(line: &str) -> bool {
    let line = line.to_lowercase();
    FILE.elsewhere.iter().any(|word| line.contains(word.as_str()))
}

/// What is known of the messages in a text that are no status, in the order of the file.
pub(super) fn messages_with_advice(text: &str) -> impl Iterator<Item = &'static Advice> {
    let text = text.to_lowercase();
    FILE.advice.iter().filter(move |advice| advice.says.iter().any(|said| text.contains(&said.to_lowercase())))
}

pub(super) fn advice(code: u32) -> Option<&'static Advice> {
    FILE.advice.iter().find(|advice| advice.codes.contains(&code))
}

/// What the libraries call an error, and what they say of it.
pub(super) fn described(code: u32) -> Option<(Vec<&'static str>, Option<String>)> {
    let names = [CallLibrary::Runtime, CallLibrary::Driver]
        .into_iter()
        .filter_map(|library| status::name(library, code.into()));
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| (names, status::message(code).map(str::to_owned)))
}

/// What is known to help against each error, in the order in which a page has them.
pub fn all_advice() -> &'static [Advice] {
    &FILE.advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_file_has_a_name_and_is_there_once() {
        let file: AdviceFile = toml::from_str(SOURCE).unwrap();
        assert!(file.error.len() > 30);
        for known in &file.error {
            assert!(described(known.code).is_some(), "{known:?}");
            assert_eq!(file.error.iter().filter(|other| other.code == known.code).count(), 1, "{known:?}");
            assert!(status::message(known.code).is_some(), "{known:?}");
        }
    }

    #[test]
    fn every_cause_is_measured_by_a_scenario_or_read_at_an_address() {
        let file: AdviceFile = toml::from_str(SOURCE).unwrap();
        let scenarios = cuda_pitfalls_core::catalogue::select(&[]).unwrap();
        let mut ids = std::collections::BTreeSet::new();
        for advice in &file.advice {
            assert!(ids.insert(&advice.id), "{}", advice.id);
            assert!(!advice.codes.is_empty() || !advice.says.is_empty(), "{}", advice.id);
            for cause in &advice.causes {
                match (&cause.scenario, &cause.survey, &cause.source) {
                    (Some(name), None, None) => assert!(scenarios.iter().any(|known| known.name == *name), "{name}"),
                    (None, Some(kind), None) => {
                        assert!(crate::survey::SurveyKind::all().iter().any(|known| known.name() == kind), "{kind}");
                    }
                    (None, None, Some(address)) => assert!(address.starts_with("https://"), "{address}"),
                    both => panic!("{}: {both:?}", advice.id),
                }
            }
        }
    }

    #[test]
    fn a_number_is_an_error_only_beside_what_says_so() {
        for (text, code) in [
            ("700", 700),
            ("error 700", 700),
            ("CUDA error(700)", 700),
            ("cuInit failed: 304", 304),
            ("cuInit = 3", 3),
            ("Check failed: error == cudaSuccess (803 vs. 0)", 803),
            ("ggml_cuda_init: CUDA driver initialization failed with error 999", 999),
        ] {
            assert!(said(text, false).contains(&Term::error(code)), "{text}: {:?}", said(text, false));
        }
        for text in [
            "Tried to allocate 300.00 MiB on GPU 0",
            "GET /index.html HTTP/1.1 200 304",
            "the CUDA program finished with exit code 100",
            "step 700, loss 3",
            "the request failed with status code 304 and was sent again",
            "torch 2.11 on 100 GPUs, 201 steps",
        ] {
            assert_eq!(said(text, false), [], "{text}");
        }
    }

    #[test]
    fn an_old_number_is_today_s_error() {
        assert_eq!(by_number(77), [Term::error(700)]);
        assert_eq!(by_number(4), [Term::error(719), Term::error(4)]);
        assert!(by_number(0).is_empty() && by_number(54_321).is_empty());
    }
}
