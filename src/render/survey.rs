//! Surveys as tables: for a terminal, as Markdown pages in `docs/surveys/`, and as pages for a browser.
//!
//! Each survey is put into `Section`s once, and all formats are generated from these. Several documents of one survey
//! (other libcudarts, another machine) make one page.

mod calls;
mod changes;
mod env;
mod errors;
mod mask;
mod needs;
mod permissions;
mod python;
pub(crate) mod section;
mod startup;
mod table;

pub use python::listed;

use std::collections::{BTreeMap, BTreeSet};

use section::{Section, filtered_sections};

use super::Format;
use super::block::{Block, Span};
use super::writer::terminal::Screen;
use super::writer::{html, markdown, terminal};
use table::fitting_tables;

use crate::words;
use cuda_pitfalls_answers::survey::{
    FactRow, KindFile, KindRow, LeftOut, SectionForm, SurveyDocument, SurveyKind,
};
use cuda_pitfalls_core::text::{escape, units};
use cuda_pitfalls_core::verdict::Provenance;

/// A survey's document and the name of its folder.
#[derive(Clone, Debug)]
pub struct NamedSurvey {
    /// The folder, such as `survey-calls-h200-x2`.
    pub name: String,
    /// The document at this path.
    pub survey: SurveyDocument,
}

/// Returns the survey for the terminal, with its location and its end.
pub fn text(survey: &SurveyDocument, path: &str, screen: impl Into<Screen>) -> String {
    terminal::write(&blocks(survey.kind, &[without_name(survey)]), screen)
        + "\n"
        + &survey_ending(survey, path)
}

/// Returns the counts of a survey, its location and its end.
pub fn survey_ending(survey: &SurveyDocument, path: &str) -> String {
    let mut out = vec![totals_line(survey)];
    // The names would fill screens.
    let left_out = survey.left_out.len();
    if left_out > 0 {
        out.push(format!(
            "{left_out} more were not measured; the document lists which and why"
        ));
    }
    out.push(format!("survey  {}", escape::terminal(path)));
    if !survey.complete
        && let Some(folder) = std::path::Path::new(path).parent()
    {
        out.push(format!(
            "resume  the same command with --resume {}",
            escape::terminal(&folder.to_string_lossy())
        ));
    }
    if let Some(exit) = &survey.header.exit {
        out.push(format!(
            "exit    {} ({})",
            exit.code,
            escape::terminal(&exit.name)
        ));
    }
    out.join("\n") + "\n"
}

/// Returns the survey in a format; `None` if surveys do not have it.
pub fn as_format(
    survey: &SurveyDocument,
    format: Format,
    path: &str,
    screen: impl Into<Screen>,
) -> Option<String> {
    match format {
        Format::Text => Some(text(survey, path, screen)),
        Format::Markdown => Some(markdown::write(&page_of(survey))),
        Format::Html => Some(html::page(
            &format!("cuda-pitfalls: {}", survey.kind.kind_file().title),
            &html_blocks(survey),
        )),
        _ => permissions::as_format(survey, format),
    }
}

/// Returns the survey for a browser: a filter of its tables, and the tables.
fn html_blocks(survey: &SurveyDocument) -> Vec<Block> {
    let sources = [without_name(survey)];
    let sections = survey_sections(survey.kind, &sources);
    let about = (
        "Method and columns",
        survey.kind.kind_file().opening.as_str(),
    );
    let mut page = head_blocks(survey.kind, &sources);
    let machine = survey.machine.summary();
    page.push(Block::paragraph(Span::Strong(machine)));
    page.extend(filtered_sections("table", "Table", about, sections));
    page.extend(measured_on(&sources).blocks());
    page
}

fn page_of(survey: &SurveyDocument) -> Vec<Block> {
    page_blocks(survey.kind, &[without_name(survey)])
}

fn without_name(survey: &SurveyDocument) -> NamedSurvey {
    NamedSurvey {
        name: String::new(),
        survey: survey.clone(),
    }
}

/// Returns the rows of these documents, each with the texts of its columns in addition to its facts.
fn rows(file: &KindFile, sources: &[NamedSurvey]) -> Vec<FactRow> {
    match file.rows.as_str() {
        "calls" => calls::rows(sources),
        "masks" => mask::rows(sources),
        "variables" => env::rows(sources),
        "refusals" => needs::rows(sources),
        "lines" => python::rows(sources),
        "errors" => errors::rows(sources),
        "starts" => startup::rows(sources),
        _ => sources
            .iter()
            .flat_map(|source| source.survey.fact_rows())
            .collect(),
    }
}

/// The documents that a section is made from: all documents of a page, or one of them.
struct SurveyPage<'a> {
    file: &'a KindFile,
    sources: &'a [NamedSurvey],
    rows: Vec<FactRow>,
    /// Suffix of titles, if there are sections of several documents.
    suffix: String,
}

impl SurveyPage<'_> {
    fn title(&self, form: &SectionForm) -> String {
        let machine = self
            .sources
            .first()
            .map(|source| source.survey.machine.summary())
            .unwrap_or_default();
        if form.title.contains("{machine}") {
            form.title.replace("{machine}", &machine)
        } else {
            format!("{}{}", form.title, self.suffix)
        }
    }

    /// Returns the sections of a format: the tables that it describes, or those that one function makes.
    fn form_sections(&self, form: &SectionForm) -> Vec<Section> {
        match form.made.as_str() {
            "changes" => calls::changed(self),
            "in short" => vec![calls::in_short(self, form)],
            "refused calls" => vec![calls::refused(self, form)],
            "generated masks" => mask::generated_sections(self, form),
            "least needed" => needs::least_of_each(self, form),
            "interpreters" => vec![python::interpreter_section(self.sources)],
            "frameworks" => python::framework_sections(self, form),
            "texts" => errors::text_sections(self, form),
            "left out" => vec![left_out(self.left_out())],
            _ => fitting_tables(
                self.file,
                &SectionForm {
                    title: self.title(form),
                    ..form.clone()
                },
                &self.rows,
            ),
        }
    }

    /// Returns the entries that were not measured, in the order of the surveys. An entry that one survey left out may
    /// be in another.
    fn left_out(&self) -> impl Iterator<Item = &LeftOut> {
        let asked: BTreeSet<&str> = self
            .rows
            .iter()
            .filter_map(|row| row.fact("function").as_str())
            .collect();
        let mut surveys: Vec<&SurveyDocument> =
            self.sources.iter().map(|source| &source.survey).collect();
        surveys.sort_by_key(|survey| &survey.header.started_at);
        let all = surveys.into_iter().flat_map(|survey| &survey.left_out);
        all.filter(move |left| !asked.contains(left.name.as_str()))
    }
}

/// Returns a page of all results in these documents of one survey.
pub fn page(kind: SurveyKind, sources: &[NamedSurvey]) -> String {
    markdown::write(&page_blocks(kind, sources))
}

fn page_blocks(kind: SurveyKind, sources: &[NamedSurvey]) -> Vec<Block> {
    let mut page = head_blocks(kind, sources);
    page.push(Block::Prose(&kind.kind_file().opening));
    match sources {
        [] => page.push(Block::paragraph("Not measured yet.")),
        _ => page.extend(measured_on(sources).blocks()),
    }
    page.extend(blocks(kind, sources));
    page
}

/// Returns the title of a page, and a warning if a document is simulated.
fn head_blocks(kind: SurveyKind, sources: &[NamedSurvey]) -> Vec<Block> {
    let title = kind.kind_file().title.as_str();
    let mut page = vec![Block::heading(1, title)];
    if sources
        .iter()
        .any(|source| source.survey.provenance == Provenance::Simulated)
    {
        page.push(Block::paragraph(Span::Strong(
            "Simulated: says nothing about real hardware.".to_string(),
        )));
    }
    page
}

fn blocks(kind: SurveyKind, sources: &[NamedSurvey]) -> Vec<Block> {
    survey_sections(kind, sources)
        .into_iter()
        .flat_map(Section::blocks)
        .collect()
}

fn survey_sections(kind: SurveyKind, sources: &[NamedSurvey]) -> Vec<Section> {
    let file = kind.kind_file();
    let whole = SurveyPage {
        file,
        sources,
        rows: rows(file, sources),
        suffix: String::new(),
    };
    let mut pages = Vec::new();
    for source in sources {
        let suffix = if sources.len() > 1 {
            format!(" ({})", source.name)
        } else {
            String::new()
        };
        let sources = std::slice::from_ref(source);
        pages.push(SurveyPage {
            file,
            sources,
            rows: rows(file, sources),
            suffix,
        });
    }
    let mut sections = Vec::new();
    // The sections of each document are together, document by document.
    for forms in file
        .section
        .chunk_by(|one, other| one.per_document == other.per_document)
    {
        let is_of_each = forms.first().is_some_and(|form| form.per_document);
        for page in if is_of_each {
            pages.as_slice()
        } else {
            std::slice::from_ref(&whole)
        } {
            sections.extend(forms.iter().flat_map(|form| page.form_sections(form)));
        }
    }
    sections.retain(|section| !section.rows.is_empty() || !section.text.is_empty());
    sections
}

/// Returns the rows of all documents, each with the facts that `add` makes from it and from its document's rows.
fn rows_with<R: KindRow>(
    sources: &[NamedSurvey],
    add: impl Fn(&R, &[R], &mut FactRow),
) -> Vec<FactRow> {
    let mut all = Vec::new();
    for source in sources {
        let rows = source.survey.rows_of();
        all.extend(rows.iter().map(|row| {
            let mut facts = FactRow::new(row, &source.survey.machine);
            add(row, &rows, &mut facts);
            facts
        }));
    }
    all
}

/// Returns `yes` or `no`, or `?` if unknown.
fn yes_no_unknown(fact: Option<bool>) -> &'static str {
    match fact {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
}

/// Returns the GPUs in a list; `none` if it is empty, and `?` if it is unknown.
fn gpus(on: Option<&[u32]>, none: &str) -> String {
    on.map_or_else(|| "?".to_string(), |on| words::gpus(on, none))
}

fn measured_on(sources: &[NamedSurvey]) -> Section {
    let rows = sources.iter().map(|source| {
        let survey = &source.survey;
        vec![
            source.name.clone(),
            survey.machine.summary(),
            format!(
                "{}{}",
                survey.rows.len(),
                if survey.complete {
                    ""
                } else {
                    ", not finished"
                }
            ),
            attempts(survey),
            units::format_duration(survey.header.elapsed_ns),
        ]
    });
    let header = ["reports/", "machine", "rows", "attempts of each", "took"];
    let mut section = Section::new("Measured on", &header, rows.collect(), &[0]);
    if sources.iter().all(|source| source.name.is_empty()) {
        section.header.remove(0);
        section.code.clear();
        section.rows.iter_mut().for_each(|row| drop(row.remove(0)));
    }
    section
}

/// Returns the attempts of each case; if masks had different numbers of attempts, the number of masks for each.
fn attempts(survey: &SurveyDocument) -> String {
    let mut rows: BTreeMap<u32, usize> = BTreeMap::new();
    let is_generated = survey.kind.kind_file().takes("--generate");
    for row in survey
        .rows
        .iter()
        .filter(|row| is_generated && row.standing.unmeasured.is_none())
    {
        *rows.entry(row.standing.attempts).or_default() += 1;
    }
    if rows.len() < 2 {
        return survey.header.repeat.to_string();
    }
    let parts = rows
        .iter()
        .rev()
        .map(|(attempts, rows)| format!("{attempts} ({rows} rows)"));
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns the line with the number of rows that have facts.
fn totals_line(survey: &SurveyDocument) -> String {
    let SurveyDocument {
        provenance,
        header,
        complete,
        ..
    } = survey;
    let rows = survey.fact_rows();
    let count = |fact: &str| {
        rows.iter()
            .filter(|row| row.has("!is_control") && row.has(fact))
            .count()
    };
    let mut parts = vec![format!(
        "{} of {} rows have all their facts",
        count("is_conclusive"),
        count("key")
    )];
    if *provenance == Provenance::Simulated {
        parts.insert(0, "SIMULATED".to_string());
    }
    let others = [
        (count("disagreement"), "with attempts that disagree"),
        (count("unmeasured"), "could not be measured here"),
        (count("is_unexpected"), "against the rule"),
    ];
    parts.extend(
        others
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| format!("{number} {what}")),
    );
    if !complete {
        parts.push("not finished".to_string());
    }
    if let Some(why) = &header.host_unsafe {
        parts.push(format!(
            "stopped because the host is not safe: {}",
            escape::terminal(why)
        ));
    }
    format!(
        "{} in {}",
        parts.join(", "),
        units::format_duration(header.elapsed_ns)
    )
}

/// Returns the entries that were not measured, by reason. Each name has the reason that was given last, because reasons
/// are reworded.
fn left_out<'a>(all: impl Iterator<Item = &'a LeftOut>) -> Section {
    let reasons: BTreeMap<&str, &str> = all
        .map(|left| (left.name.as_str(), left.reason.as_str()))
        .collect();
    let section = by_reason(
        "Not measured",
        reasons
            .into_iter()
            .map(|(name, reason)| (reason.to_string(), name)),
    );
    Section {
        only_on_pages: true,
        ..section
    }
}

/// Returns a section of names, grouped by their reason.
fn by_reason<'a>(title: &str, all: impl Iterator<Item = (String, &'a str)>) -> Section {
    let mut by_reason: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (reason, name) in all {
        by_reason.entry(reason).or_default().insert(name);
    }
    let rows = by_reason.into_iter().map(|(reason, names)| {
        vec![
            reason,
            names.len().to_string(),
            names.into_iter().collect::<Vec<_>>().join(" "),
        ]
    });
    Section::new(
        title,
        &["because", "how many", "which"],
        rows.collect(),
        &[2],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_stands_under_the_last_reason_given() {
        let left = |name: &str, reason: &str| LeftOut {
            name: name.to_string(),
            reason: reason.to_string(),
        };
        let given = [left("cuA", "old"), left("cuB", "other"), left("cuA", "new")];
        let rows = left_out(given.iter()).rows;
        assert_eq!(
            rows,
            [["new", "1", "cuA"], ["other", "1", "cuB"]]
                .map(|row| row.map(str::to_string).to_vec())
        );
    }
}
