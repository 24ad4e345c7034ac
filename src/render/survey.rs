//! Surveys as tables: for a terminal, as Markdown pages in `docs/surveys/`, and as pages for a browser.
//!
//! Each survey is put into `Section`s once, and all forms are made of these. Several documents of
//! one survey (other libcudarts, another machine) make one page.

mod calls;
mod cell;
mod changes;
mod env;
mod errors;
mod mask;
mod needs;
mod permissions;
mod python;
pub(crate) mod section;
mod startup;

pub use python::listed;

use std::collections::BTreeMap;

use section::Section;

use super::Format;
use super::block::{Block, Span};
use super::writer::{html, markdown, terminal};
use cuda_pitfalls_answers::survey::document::{LeftOut, Row, SurveyDocument};
use cuda_pitfalls_answers::survey::mask::MaskRow;
use cuda_pitfalls_answers::survey::{About, Survey, SurveyKind};
use cuda_pitfalls_core::text::{escape, units};
use cuda_pitfalls_core::verdict::Provenance;

/// The widest line. Nearly every name of a call stays whole in it, so that it can be searched for.
const WIDTH: usize = 140;

/// A survey's document and what its folder is called.
#[derive(Clone, Debug)]
pub struct NamedSurvey {
    /// The folder, such as `survey-calls-h200-x2`.
    pub name: String,
    /// What lies there.
    pub survey: Survey,
}

impl NamedSurvey {
    /// A title on a page of so many surveys: with the name of the folder where there are several.
    fn title(&self, text: &str, surveys: usize) -> String {
        if surveys == 1 { text.to_string() } else { format!("{text} ({})", self.name) }
    }
}

/// The survey as the terminal shows it, with where it is and how it ended.
pub fn text(survey: &Survey, path: &str) -> String {
    let source = NamedSurvey { name: String::new(), survey: survey.clone() };
    terminal::write(&blocks(survey.kind(), &[source]), WIDTH) + "\n" + &ending(survey, path)
}

/// The counts of a survey, where it is and how it ended.
pub fn ending(survey: &Survey, path: &str) -> String {
    let mut out = vec![totals(survey)];
    // The names would fill screens.
    let left_out = survey.about().left_out.len();
    out.extend((left_out > 0).then(|| format!("{left_out} more were not asked; the document lists which and why")));
    out.push(format!("survey  {}", escape::terminal(path)));
    if let Some(folder) = std::path::Path::new(path).parent().filter(|_| !survey.is_complete()) {
        out.push(format!("resume  the same command with --resume {}", escape::terminal(&folder.to_string_lossy())));
    }
    if let Some(exit) = &survey.header().exit {
        out.push(format!("exit    {} ({})", exit.code, escape::terminal(&exit.name)));
    }
    out.join("\n") + "\n"
}

/// The survey in a form; none if surveys do not have it.
pub fn as_format(survey: &Survey, format: Format, path: &str) -> Option<String> {
    match format {
        Format::Text => Some(text(survey, path)),
        Format::Markdown => Some(markdown::write(&page_of(survey))),
        Format::Html => Some(html::page(&format!("cuda-pitfalls: {}", view(survey.kind()).0), &page_of(survey))),
        _ => permissions::as_format(survey.document()?, format),
    }
}

fn page_of(survey: &Survey) -> Vec<Block> {
    page_blocks(survey.kind(), &[NamedSurvey { name: String::new(), survey: survey.clone() }])
}

/// How the documents of one kind become the sections of a page.
type Sections = fn(&[NamedSurvey]) -> Vec<Section>;

/// How the documents of one kind become a page: its title, its opening, and its sections.
fn view(kind: SurveyKind) -> (&'static str, &'static str, Sections) {
    match kind {
        SurveyKind::Calls => ("What each call does as the first of a process", calls::OPENING, calls::sections),
        SurveyKind::Mask => ("How the driver reads CUDA_VISIBLE_DEVICES", mask::OPENING, mask::sections),
        SurveyKind::Env => ("When each environment variable is read", env::OPENING, env::sections),
        SurveyKind::Needs => ("What CUDA needs from the operating system", needs::OPENING, needs::sections),
        SurveyKind::Python => ("Which line of Python initialises CUDA", python::OPENING, python::sections),
        SurveyKind::Errors => ("What frameworks make of an error of the driver", errors::OPENING, errors::sections),
        SurveyKind::Startup => {
            ("How long a start takes, and what host memory it needs", startup::OPENING, startup::sections)
        }
    }
}

/// A page of all that is known from these documents of one survey.
pub fn page(kind: SurveyKind, sources: &[NamedSurvey]) -> String {
    markdown::write(&page_blocks(kind, sources))
}

fn page_blocks(kind: SurveyKind, sources: &[NamedSurvey]) -> Vec<Block> {
    let (title, opening, _) = view(kind);
    let mut page = vec![Block::heading(1, title)];
    if sources.iter().any(|source| source.survey.provenance() == Provenance::Simulated) {
        page.push(Block::paragraph(Span::Strong("Simulated: none of this is evidence.".to_string())));
    }
    page.push(Block::Prose(opening));
    match sources {
        [] => page.push(Block::paragraph("None of this was measured yet.")),
        _ => page.extend(measured_on(sources).blocks()),
    }
    page.extend(blocks(kind, sources));
    page
}

fn blocks(kind: SurveyKind, sources: &[NamedSurvey]) -> Vec<Block> {
    view(kind).2(sources).into_iter().flat_map(Section::blocks).collect()
}

/// The documents with rows of this type.
fn documents<R: Row>(sources: &[NamedSurvey]) -> Vec<&SurveyDocument<R>> {
    sources.iter().filter_map(|source| source.survey.document()).collect()
}

fn measured_on(sources: &[NamedSurvey]) -> Section {
    let row = |source: &NamedSurvey| {
        let survey = &source.survey;
        vec![
            source.name.clone(),
            survey.machine().summary(),
            format!("{}{}", survey.about().rows.len(), if survey.is_complete() { "" } else { ", not finished" }),
            attempts(survey),
            units::duration(survey.header().elapsed_ns),
        ]
    };
    let header = ["reports/", "machine", "rows", "attempts of each", "took"];
    Section::new("Measured on", &header, sources.iter().map(row).collect(), &[0])
}

/// Attempts of each case; where masks had more or fewer than others, how many had how many.
fn attempts(survey: &Survey) -> String {
    let mut rows: BTreeMap<u32, usize> = BTreeMap::new();
    for row in survey.rows::<MaskRow>().iter().filter(|row| row.standing.unmeasured.is_none()) {
        *rows.entry(row.standing.attempts).or_default() += 1;
    }
    if rows.len() < 2 {
        return survey.header().repeat.to_string();
    }
    let parts = rows.iter().rev().map(|(attempts, rows)| format!("{attempts} ({rows} rows)"));
    parts.collect::<Vec<_>>().join(", ")
}

/// How many rows have facts, in a line.
fn totals(survey: &Survey) -> String {
    let About { provenance, header, rows, complete, .. } = survey.about();
    let count = |is: &dyn Fn(&dyn Row) -> bool| rows.iter().filter(|row| !row.is_control() && is(**row)).count();
    let mut parts =
        vec![format!("{} of {} rows have all their facts", count(&|row| row.is_conclusive()), count(&|_| true))];
    if provenance == Provenance::Simulated {
        parts.insert(0, "SIMULATED".to_string());
    }
    let others = [
        (count(&|row| !row.standing().disagreement.is_empty()), "with attempts that disagree"),
        (count(&|row| row.standing().unmeasured.is_some()), "could not be measured here"),
        (count(&|row| row.is_unexpected()), "against the rule"),
    ];
    parts.extend(others.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")));
    if !complete {
        parts.push("not finished".to_string());
    }
    if let Some(why) = &header.host_unsafe {
        parts.push(format!("stopped because this host is not safe: {}", escape::terminal(why)));
    }
    format!("{} in {}", parts.join(", "), units::duration(header.elapsed_ns))
}

/// Rows whose attempts disagree, each with the facts that they disagree on.
fn disagreements<'a, R: Row>(rows: impl Iterator<Item = &'a R>) -> Section {
    let rows = rows.filter(|row| !row.standing().disagreement.is_empty());
    let row = |row: &R| vec![row.key(), row.standing().disagreement.join(", "), row.standing().attempts.to_string()];
    Section::new("Rows whose attempts disagree", &["row", "on", "attempts"], rows.map(row).collect(), &[0])
}

/// Rows without facts, each with why.
fn unmeasured<'a, R: Row>(title: String, rows: impl Iterator<Item = &'a R>) -> Section {
    let rows = rows.filter_map(|row| {
        let why = row.standing().unmeasured.as_ref()?;
        Some(vec![row.key(), why.reason.name(), why.detail.clone()])
    });
    Section::new(title, &["row", "reason", "detail"], rows.collect(), &[0])
}

/// What was not asked, by reason: the last that is given for a name, since reasons are reworded.
fn left_out<'a>(all: impl Iterator<Item = &'a LeftOut>) -> Section {
    let reasons: BTreeMap<&str, &str> = all.map(|left| (left.name.as_str(), left.reason.as_str())).collect();
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, reason) in reasons {
        by_reason.entry(reason).or_default().push(name);
    }
    let row = |(reason, names): (&str, Vec<&str>)| vec![reason.to_string(), names.len().to_string(), names.join(" ")];
    let rows = by_reason.into_iter().map(row).collect();
    Section { only_on_pages: true, ..Section::new("Not asked", &["because", "how many", "which"], rows, &[2]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_stands_under_the_last_reason_given() {
        let left = |name: &str, reason: &str| LeftOut { name: name.to_string(), reason: reason.to_string() };
        let given = [left("cuA", "old"), left("cuB", "other"), left("cuA", "new")];
        let rows = left_out(given.iter()).rows;
        assert_eq!(rows, [["new", "1", "cuA"], ["other", "1", "cuB"]].map(|row| row.map(str::to_string).to_vec()));
    }
}
