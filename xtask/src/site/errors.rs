//! A page for each error and each message: what it means, what causes it, what to do first, which questions answer it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use cuda_pitfalls::explain::{Advice, Cause, Explainer, Query, word};
use cuda_pitfalls_calls::{CallLibrary, status};
use serde::Deserialize;

use super::{Draft, Sources, write};
use crate::TaskError;
use crate::page::prose;

/// The libraries whose names of an error people paste.
const LIBRARIES: [CallLibrary; 2] = [CallLibrary::Driver, CallLibrary::Runtime];

/// What `scenarios/errors.toml` holds of errors and messages.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ErrorTexts {
    /// What CUDA says of each error.
    pub error: Vec<ErrorText>,
    /// What is known to help.
    pub advice: Vec<Advice>,
}

/// What the libraries say of one error.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ErrorText {
    /// Its number.
    pub code: u32,
    /// The message that programs print.
    pub says: String,
    /// The number that libcudart gave it before CUDA 10.1.
    #[serde(default)]
    pub old: Option<u32>,
}

impl ErrorTexts {
    /// Reads `scenarios/errors.toml`.
    ///
    /// # Errors
    /// The file is not valid.
    pub fn parse(source: &str) -> Result<ErrorTexts, TaskError> {
        toml::from_str(source).map_err(|error| format!("scenarios/errors.toml: {error}").into())
    }

    /// The numbers of errors, in their order.
    fn codes(&self) -> BTreeSet<u32> {
        let advised = self.advice.iter().flat_map(|advice| advice.codes.iter().copied());
        self.error.iter().map(|error| error.code).chain(advised).collect()
    }

    fn says(&self, code: u32) -> Option<&ErrorText> {
        self.error.iter().find(|error| error.code == code)
    }

    /// The messages that are no status.
    fn messages(&self) -> impl Iterator<Item = &Advice> {
        self.advice.iter().filter(|advice| advice.codes.is_empty())
    }
}

/// The numbers of errors by their names in C.
pub(super) fn names(errors: &ErrorTexts) -> BTreeMap<&'static str, u32> {
    let of = |code: u32| names_of(code).into_iter().map(move |(name, _)| (name, code));
    errors.codes().into_iter().flat_map(of).collect()
}

/// The names of an error with their libraries.
fn names_of(code: u32) -> Vec<(&'static str, CallLibrary)> {
    LIBRARIES.into_iter().filter_map(|library| Some((status::name(library, code.into())?, library))).collect()
}

/// The page of a message: `message/no-cuda-gpus` becomes `errors/no-cuda-gpus.md`.
fn path(id: &str) -> String {
    format!("errors/{}.md", write::slug(id.rsplit('/').next().unwrap_or(id)))
}

/// The list of errors, and the page of each.
pub(super) fn pages(
    sources: &Sources,
    explainer: &Explainer<'_>,
    rests: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<Draft> {
    let errors = &sources.errors;
    let mut pages: Vec<Draft> = errors.codes().into_iter().map(|code| of_code(code, errors, explainer)).collect();
    pages.extend(errors.messages().map(|advice| of_message(advice, explainer)));
    for page in &mut pages {
        let named = rests.iter().filter(|(name, _)| page.text.contains(&format!("(/pitfalls/{name}.md)")));
        page.rests = named.flat_map(|(_, rests)| rests.iter().cloned()).collect();
    }
    let mut text = "# Errors and messages\n\nA page for each error of CUDA that programs report when they start, and \
                    for messages that are no status of CUDA. Paste the message into the search, or look here.\n\n"
        .to_owned();
    for page in &pages {
        let _ = writeln!(text, "- [{}](/{})", write::plain(&page.title), page.path);
    }
    let index = Draft { path: "errors/index.md".into(), title: "Errors and messages".into(), text, ..Draft::default() };
    [vec![index], pages].concat()
}

/// The page of a status.
fn of_code(code: u32, errors: &ErrorTexts, explainer: &Explainer<'_>) -> Draft {
    let names = names_of(code);
    let text = errors.says(code);
    let first = names.first().map_or(String::new(), |(name, _)| (*name).to_owned());
    let says = text.map_or(first, |text| text.says.clone());
    let title = format!("Error {code}: {says}");
    let mut out = format!("# {}\n", write::plain(&write::title(&title)));
    for (name, library) in &names {
        said(&mut out, name);
        let _ = writeln!(out, "The name of error {code} in {}.", library.name());
    }
    said(&mut out, &says);
    let _ = writeln!(out, "What CUDA says of it, and programs print.");
    if let Some(old) = text.and_then(|text| text.old) {
        let _ = writeln!(out, " Before CUDA 10.1 libcudart gave it the number {old}: error {old}.");
    }
    let mut words: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    words.push(&says);
    for advice in errors.advice.iter().filter(|advice| advice.codes.contains(&code)) {
        advised(&mut out, advice);
    }
    questions(&mut out, &words.join(" "), explainer);
    asked(&mut out, &code.to_string());
    Draft { path: format!("errors/{code}.md"), title, text: out, ..Draft::default() }
}

/// The page of a message that is no status.
fn of_message(advice: &Advice, explainer: &Explainer<'_>) -> Draft {
    let says = advice.says.first().unwrap_or(&advice.id);
    let mut out = format!("# {}\n", write::plain(&write::title(says)));
    advised(&mut out, advice);
    questions(&mut out, &advice.says.join("\n"), explainer);
    asked(&mut out, &format!("'{}'", says.replace('\'', "'\\''")));
    Draft { path: path(&advice.id), title: says.clone(), text: out, ..Draft::default() }
}

/// A name or a message under a heading of its own, so that the search finds it by itself.
fn said(out: &mut String, text: &str) {
    let _ = writeln!(out, "\n### {} {{.said}}\n", write::plain(&write::title(text)));
}

fn advised(out: &mut String, advice: &Advice) {
    for message in &advice.says {
        said(out, message);
        out.push_str("A message that programs print.\n");
    }
    let _ = writeln!(out, "\n## What it means {{#means}}\n\n{}\n", prose(&advice.means));
    if !advice.causes.is_empty() {
        out.push_str("\n## What can cause it {#causes}\n\n");
    }
    for cause in &advice.causes {
        let _ = writeln!(out, "- {}", in_words(cause));
    }
    let _ = writeln!(out, "\n## What to do first {{#first}}\n\n{}\n", prose(&advice.first));
    if advice.doctor {
        out.push_str("\nOn the machine where it happens, `cuda-pitfalls doctor` tells which of the causes it is: ");
        out.push_str("[doctor](/doctor.md).\n");
    }
}

/// A cause, what says so, and how to tell it apart.
fn in_words(cause: &Cause) -> String {
    let says = match (&cause.scenario, &cause.survey, &cause.source) {
        (Some(scenario), ..) => format!("measured: [{}](/pitfalls/{scenario}.md)", write::plain(scenario)),
        (_, Some(survey), _) => format!("measured: [survey {}](/surveys/{survey}.md)", write::plain(survey)),
        (_, _, Some(source)) => format!("read, not measured: {}", address(source)),
        _ => "not measured".to_owned(),
    };
    let tell = cause.tell.as_ref().map(|tell| format!(" To tell: {}.", prose(tell))).unwrap_or_default();
    format!("{} ({says}).{tell}", prose(&cause.cause))
}

/// A link to a source, if it is an address.
fn address(source: &str) -> String {
    let is_link = source.starts_with("https://") && !source.contains([' ', '<', '>']);
    if is_link { format!("<{source}>") } else { write::plain(source) }
}

/// The questions that `explain` answers a text with.
fn questions(out: &mut String, text: &str, explainer: &Explainer<'_>) {
    let answers = explainer.explain(Query::of(text)).answers;
    if answers.is_empty() {
        return;
    }
    out.push_str("\n## Questions that answer it {#questions}\n\n");
    for answer in answers {
        let (name, question) = (&answer.scenario.name, prose(&answer.scenario.question));
        let _ = writeln!(out, "- **{}** [{question}](/pitfalls/{name}.md)", word(answer.scenario).name());
    }
}

/// How to ask the program.
fn asked(out: &mut String, words: &str) {
    out.push_str("\n## Ask the program {#ask}\n");
    write::block(out, "sh", &format!("cuda-pitfalls explain {words}"));
    out.push_str("A whole log answers more: [explain](/explain.md) reads it from standard input. ");
    out.push_str("What frameworks make of an error of the driver: [survey errors](/surveys/errors.md).\n");
}
