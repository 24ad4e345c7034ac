//! Errors of CUDA, by their numbers, names and messages.

use std::sync::LazyLock;

use cuda_pitfalls_calls::{CallLibrary, status};
use serde::Deserialize;

use super::words::Term;

const SOURCE: &str = cuda_pitfalls_scenarios::ERRORS;

/// What the libraries say of one error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownError {
    /// Its number.
    pub(super) code: u32,
    /// The message that programs print.
    pub(super) says: String,
    /// The number that libcudart gave it before CUDA 10.1.
    #[serde(default)]
    old: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorFile {
    error: Vec<KnownError>,
}

/// Empty if the file is not valid; a test excludes that.
static ALL: LazyLock<Vec<KnownError>> =
    LazyLock::new(|| toml::from_str(SOURCE).map(|file: ErrorFile| file.error).unwrap_or_default());

/// The term of an error, however it was written.
fn term(code: u32) -> Term {
    Term::name(&format!("error {code}"))
}

/// The number that a term stands for; none if it is no error.
pub(super) fn code(term: &Term) -> Option<u32> {
    term.text.strip_prefix("error ").filter(|_| term.is_name)?.parse().ok()
}

/// The errors with this number: two, if libcudart has used it for two.
pub(super) fn by_number(number: u32) -> Vec<Term> {
    if number == 0 {
        return Vec::new();
    }
    let has_name =
        [CallLibrary::Runtime, CallLibrary::Driver].iter().any(|one| status::name(*one, number.into()).is_some());
    let old = ALL.iter().filter(|known| known.old == Some(number)).map(|known| known.code);
    old.chain(has_name.then_some(number)).map(term).collect()
}

/// The error of this name.
pub(super) fn by_name(name: &str) -> Option<Term> {
    let known = |library: CallLibrary| {
        let mut all = status::table(library).iter();
        all.find(|(_, known)| known.to_str().is_ok_and(|known| known.eq_ignore_ascii_case(name)))
    };
    let (code, _) = known(CallLibrary::Runtime).or_else(|| known(CallLibrary::Driver))?;
    (*code != 0).then(|| term(*code))
}

/// The errors whose messages a text has.
pub(super) fn by_message(text: &str) -> Vec<Term> {
    let text = text.to_lowercase();
    // "invalid argument" and "out of memory" are said of other things too.
    let is_said = |known: &&KnownError| known.code > 2 && text.contains(&known.says.to_lowercase());
    ALL.iter().filter(is_said).map(|known| term(known.code)).collect()
}

/// What the libraries call an error, and what they say of it.
pub(super) fn described(code: u32) -> Option<(Vec<&'static str>, Option<String>)> {
    let names =
        [CallLibrary::Runtime, CallLibrary::Driver].into_iter().filter_map(|one| status::name(one, code.into()));
    let names: Vec<&str> = names.collect();
    let says = ALL.iter().find(|known| known.code == code).map(|known| known.says.clone());
    (!names.is_empty()).then_some((names, says))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_file_has_a_name_and_is_there_once() {
        let file: ErrorFile = toml::from_str(SOURCE).unwrap();
        assert!(file.error.len() > 30);
        for known in &file.error {
            assert!(described(known.code).is_some(), "{known:?}");
            assert_eq!(file.error.iter().filter(|other| other.code == known.code).count(), 1, "{known:?}");
            assert_eq!(file.error.iter().filter(|other| other.says == known.says).count(), 1, "{known:?}");
        }
    }

    #[test]
    fn an_old_number_is_today_s_error() {
        assert_eq!(by_number(77), [term(700)]);
        assert_eq!(by_number(4), [term(719), term(4)]);
        assert!(by_number(0).is_empty() && by_number(54_321).is_empty());
    }
}
