//! Every generated document that is committed: its path, its text, and whether the committed text is up to date.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use cuda_pitfalls::explain::{
    Explainer, QuestionTexts, Ranking, StoredTexts, entry_texts, make_stored_texts,
};
use cuda_pitfalls::known::{Known, KnownScenario};
use cuda_pitfalls::releases::{self, ImportRow, LineReleases, Matrix};
use cuda_pitfalls::render::survey::{self as survey_page, NamedSurvey};
use cuda_pitfalls::report::{self, Report, StoreError, Stored};
use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::schemas::SCHEMAS;
use cuda_pitfalls::survey::{SurveyDocument, SurveyKind, python};
use cuda_pitfalls::text::json;
use cuda_pitfalls::{catalogue, diagnosis, render, trace};

use crate::explain::{Fared, PartSources, Phrasings};
use crate::known::KnownSources;
use crate::page::Measurement;
use crate::wanted::{self, WantedOptions};
use crate::{TaskError, diagnoses, errors, explain, listed, page, published, steps, tables};

/// Texts of documents by their paths below the root of the repository.
pub type Documents = BTreeMap<String, String>;

/// The folder of questions.
const QUESTIONS: &str = "scenarios";

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The generated documents, and the data that they are made from.
pub struct MadeDocuments {
    /// The texts, by their paths.
    pub documents: Documents,
    /// The built-in scenarios.
    pub scenarios: Vec<Scenario>,
    /// Results of the reports for today's scenarios.
    pub measured: Vec<Measurement>,
    /// Results of `explain` on texts that people write, each looked up in an index without it.
    pub fared: Fared,
    /// Results of `explain` on the texts that were set aside.
    pub locked: Fared,
}

/// Makes all generated documents.
///
/// # Errors
/// Returns an error if a source of the documents cannot be read or is not valid.
pub fn make_documents() -> Result<MadeDocuments, TaskError> {
    let scenarios = catalogue::select_scenarios(&[])?;
    let phrasings = Phrasings::parse(&read_file("tests/phrasings.toml")?)?;
    let locked = read_file("tests/phrasings-locked.toml")?
        + "\n"
        + &read_file("tests/phrasings-locked-others.toml")?;
    let locked = Phrasings::parse(&locked)?;
    let (mut measured, mut reports) = (Vec::new(), Vec::new());
    for measured_report in measured_reports(&scenarios)? {
        measured.extend(measured_report.measured);
        reports.push((measured_report.name, measured_report.report));
    }
    let (matrix, surveys) = (release_matrix()?, committed_surveys()?);
    let imports = import_rows()?;
    let lines = python::built_in().map_err(|invalid| invalid.path)?.lines;
    let asked = releases::line_releases(&matrix, &lines);
    let sources = KnownSources {
        scenarios: &scenarios,
        bases: &page::answer_bases(&measured),
        reports: &reports,
        surveys: &surveys,
        releases: &asked,
        imports: &imports,
        lines: &lines,
        phrasings: &phrasings,
    };
    let (names, questions) = sources.known();
    let question_texts: Vec<QuestionTexts> = questions.iter().map(QuestionTexts::new).collect();
    let mut documents = question_facts(&scenarios, &questions, &question_texts);
    documents.insert("scenarios/known.json".to_owned(), names.text());
    let known = Known::new(names, questions);
    let entries = entry_texts(&known);
    let labeled = phrasings.labeled_texts();
    let own_texts = labeled.iter().map(|labeled| &labeled.text);
    let texts = make_stored_texts(own_texts.chain(&entries));
    let ranking = Ranking::new(StoredTexts::parse(&texts)?, question_texts.clone());
    let locked = Fared::measure_texts(&locked, &Explainer::new(&known, &ranking));
    let fared = Fared::by_parts(&PartSources {
        phrasings: &phrasings,
        labeled: &labeled,
        entries: &entries,
        questions: &question_texts,
        known: &known,
    })?;
    documents.insert("scenarios/texts.json".to_owned(), texts);
    let published_list = published::published_list()?;
    documents.insert(published::LIST.to_owned(), published_list);
    documents.extend(scenario_pages(&scenarios, &measured, &asked, &known));
    documents.extend(survey_pages(&matrix, &surveys));
    documents.insert(
        "docs/imports.md".to_owned(),
        render::imports::page(&imports),
    );
    documents.extend(pages_with_parts(&measured, &locked)?);
    documents.extend(schema_documents());
    documents.insert(tables::PLUGIN.to_owned(), tables::plugin_tables());
    Ok(MadeDocuments {
        documents,
        scenarios,
        measured,
        fared,
        locked,
    })
}

/// Reads a text of the repository, by its path.
fn read_file(path: &str) -> std::io::Result<String> {
    fs::read_to_string(root().join(path))
}

/// Returns the pages that are written by hand except for generated parts.
fn pages_with_parts(measured: &[Measurement], locked: &Fared) -> Result<Documents, TaskError> {
    let traced = traced_runs()?;
    let diagnoses = diagnoses::page(&read_file(diagnoses::PAGE)?, &traced, measured)?;
    let explain = explain::page(&read_file(explain::PAGE)?, locked)?;
    let scenarios = tables::in_scenarios_readme(&read_file(tables::SCENARIOS)?)?;
    let pages = [
        (diagnoses::PAGE, diagnoses),
        (explain::PAGE, explain),
        (errors::PAGE, errors::page(&read_file(errors::PAGE)?)?),
        (steps::PAGE, steps::page(&read_file(steps::PAGE)?)?),
        (tables::SCENARIOS, scenarios),
    ];
    Ok(pages
        .map(|(path, text)| (path.to_owned(), text))
        .into_iter()
        .collect())
}

fn survey_pages(matrix: &Matrix, surveys: &[(SurveyKind, Vec<NamedSurvey>)]) -> Documents {
    let mut pages = Documents::new();
    let matrix_page = render::releases::matrix_page(matrix);
    pages.insert("docs/surveys/releases.md".to_owned(), matrix_page);
    for (kind, surveys) in surveys {
        let path = format!("docs/surveys/{}.md", kind.name());
        pages.insert(path, survey_page::page(*kind, surveys));
    }
    pages
}

/// A committed report with what it measured of today's scenarios, by the name of its folder.
struct MeasuredReport {
    name: String,
    report: Report,
    measured: Vec<Measurement>,
}

/// Returns the committed reports. Reading them is most of the work, so two threads share it.
///
/// # Errors
/// Returns an error if a committed report cannot be read.
fn measured_reports(scenarios: &[Scenario]) -> Result<Vec<MeasuredReport>, TaskError> {
    let read = |(name, file): &(String, PathBuf)| {
        let report = report::read(file)?;
        Ok(MeasuredReport {
            measured: page::report_measurements(scenarios, name, &report),
            name: name.clone(),
            report,
        })
    };
    let files = committed_files(report::REPORT)?;
    let (first, second) = files.split_at(files.len() / 2);
    thread::scope(|scope| {
        let second = scope.spawn(|| second.iter().map(read).collect::<Vec<_>>());
        let mut measured: Vec<Result<_, StoreError>> = first.iter().map(read).collect();
        measured.extend(second.join().unwrap_or_else(|panic| resume_unwind(panic)));
        Ok(measured.into_iter().collect::<Result<_, _>>()?)
    })
}

/// Returns the text of `evidence --wanted`: the attempts that the committed reports lack.
///
/// # Errors
/// Returns an error if a committed report cannot be read.
pub fn wanted_attempts(options: &WantedOptions) -> Result<String, TaskError> {
    let scenarios = catalogue::select_scenarios(&[])?;
    let mut measured = Vec::new();
    for report in measured_reports(&scenarios)? {
        measured.extend(report.measured);
    }
    Ok(wanted::list_wanted(&scenarios, &measured, options))
}

/// Returns the findings of today's rules in the committed traces of real programs, by name.
///
/// # Errors
/// Returns an error if a committed trace cannot be read.
pub fn traced_runs() -> Result<Vec<diagnoses::TracedRun>, TaskError> {
    let mut traced = Vec::new();
    for (name, file) in committed_files(trace::FILE)? {
        let Some(name) = name.strip_prefix("traces/").map(str::to_owned) else {
            continue;
        };
        let trace = trace::Trace::open(&file)?;
        traced.push(diagnoses::TracedRun {
            name,
            findings: diagnosis::findings(&trace),
            trace,
        });
    }
    Ok(traced)
}

/// Returns the pages of scenarios, with their measurements, and the index.
fn scenario_pages(
    scenarios: &[Scenario],
    measured: &[Measurement],
    asked: &[LineReleases],
    known: &Known,
) -> Documents {
    let mut pages = Documents::from([(page::index_path(), page::index(scenarios))]);
    for scenario in scenarios {
        let text = page::page(scenario, measured, asked, known);
        pages.insert(page::path(scenario), text);
    }
    pages
}

/// Returns the stored documents of each question, in addition to its file.
fn question_facts(
    scenarios: &[Scenario],
    questions: &[KnownScenario],
    texts: &[QuestionTexts],
) -> Documents {
    let mut documents = Documents::new();
    for ((scenario, known), texts) in scenarios.iter().zip(questions).zip(texts) {
        let outline = catalogue::outline_line(scenario);
        let known = serde_json::to_string(known).expect("strings and numbers are valid JSON");
        let texts = serde_json::to_string(texts).expect("texts are JSON");
        let path = format!("{QUESTIONS}/{}.ndjson", scenario.name);
        documents.insert(path, format!("{outline}\n{known}\n{texts}\n"));
    }
    documents
}

/// Returns the schemas that `cuda-pitfalls schema` prints.
fn schema_documents() -> Documents {
    let mut documents = Documents::new();
    for schema in &SCHEMAS {
        let folder = match schema.name {
            "scenario" => "scenarios",
            _ => "reports",
        };
        let path = format!("{folder}/{}.schema.json", schema.name);
        documents.insert(path, json::document(&(schema.make)()));
    }
    documents
}

/// Returns the committed surveys by their kind, each with the name of its directory.
fn committed_surveys() -> Result<Vec<(SurveyKind, Vec<NamedSurvey>)>, TaskError> {
    let mut surveys = Vec::new();
    for kind in SurveyKind::all().iter().copied() {
        let mut own = Vec::new();
        for (name, file) in committed_files(&kind.file())? {
            let survey = SurveyDocument::from_stored(&Stored::open(&file)?);
            let survey = survey.ok_or_else(|| format!("{name} is no survey"))??;
            own.push(NamedSurvey { name, survey });
        }
        surveys.push((kind, own));
    }
    Ok(surveys)
}

/// Returns the results of Python lines in one release after another, by the committed documents of environments.
///
/// # Errors
/// Returns an error if a committed document cannot be read.
fn release_matrix() -> Result<Matrix, TaskError> {
    let mut documents = Vec::new();
    for listed in listed::listed() {
        let file = listed.name.rsplit('/').next().unwrap_or_default();
        if releases::is_file_name(file) {
            let stored = Stored::open(&listed.find(&root().join("reports"))?)?;
            documents.push(stored.parse(releases::SCHEMA)?);
        }
    }
    Ok(Matrix::new(&documents))
}

/// Returns the committed results of the imports of packages.
///
/// # Errors
/// Returns an error if they cannot be read.
pub fn import_rows() -> Result<Vec<ImportRow>, TaskError> {
    let path = format!("reports/imports/{}", releases::IMPORTS_FILE);
    Ok(releases::read_rows(&read_file(&path)?)?)
}

/// Returns the committed reports or surveys with this file name, each with the name of its directory.
fn committed_files(file: &str) -> Result<Vec<(String, PathBuf)>, TaskError> {
    Ok(listed::documents(&root().join("reports"), file)?)
}

/// Returns the paths of the files with an ending in a directory and its subdirectories, relative to the root of the
/// repository.
///
/// # Errors
/// Returns an error if a directory cannot be read.
pub fn files(folder: &str, ending: &str) -> Result<Vec<String>, TaskError> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                found.push(path.strip_prefix(root())?.to_string_lossy().into_owned());
            }
        }
    }
    Ok(found)
}

/// Returns the paths of documents whose committed text differs, and of those of scenarios that no longer exist.
///
/// # Errors
/// Returns an error if a directory cannot be read.
pub fn stale_documents(made: &Documents) -> Result<Vec<String>, TaskError> {
    let mut stale = Vec::new();
    for (path, text) in made {
        if read_file(path).ok().as_ref() != Some(text) {
            stale.push(path.clone());
        }
    }
    let mut left = files(page::FOLDER, "md")?;
    left.extend(files(QUESTIONS, "ndjson")?);
    left.retain(|path| !made.contains_key(path));
    stale.append(&mut left);
    Ok(stale)
}

/// Writes the documents that are out of date, and removes those of scenarios that no longer exist. Returns the paths of
/// both.
///
/// # Errors
/// Returns an error if a directory cannot be read, or a file cannot be written or removed.
pub fn bless_documents(made: &Documents) -> Result<Vec<String>, TaskError> {
    let stale = stale_documents(made)?;
    for path in &stale {
        let file = root().join(path);
        match made.get(path) {
            Some(text) => {
                fs::create_dir_all(file.parent().unwrap_or(root()))?;
                fs::write(file, text)?;
            }
            None => fs::remove_file(file)?,
        }
    }
    Ok(stale)
}
