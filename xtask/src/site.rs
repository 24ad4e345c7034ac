//! The site: every answer as a static page, with a search in the browser. `cargo xtask site` makes it.
//!
//! Pure: committed texts become pages in Markdown, with a table of contents. [`disk`] reads those texts, and lets
//! mdBook write the pages.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod calls;
mod contents;
pub mod disk;
mod errors;
mod evidence;
mod lines;
mod links;
mod matrix;
mod places;
mod questions;
mod start;
mod write;

pub use errors::ErrorTexts;
pub use evidence::Measured;
pub use lines::AskedLine;

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::explain::Explainer;
use cuda_pitfalls::releases::Matrix;
use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::summary::Summary;

use self::contents::Entry;
use self::places::Places;

/// The title of the site.
pub const TITLE: &str = "cuda-pitfalls";

/// What the site is made from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The version of the program.
    pub version: String,
    /// Documents in Markdown, by their paths below the root of the repository.
    pub documents: BTreeMap<String, String>,
    /// The paths of pictures that documents show.
    pub pictures: BTreeSet<String>,
    /// The questions.
    pub scenarios: Vec<Scenario>,
    /// What the surveys found, in short.
    pub summary: Summary,
    /// What CUDA says of errors, and what is known to help.
    pub errors: ErrorTexts,
    /// The lines of Python that were asked, in the order of their file.
    pub lines: Vec<AskedLine>,
    /// The documents of the evidence, by their names below `reports/`.
    pub evidence: BTreeMap<String, Measured>,
    /// Which line calls `cuInit` in which version of its package; empty if that was not asked.
    pub matrix: Matrix,
    /// New addresses by those that pages had before.
    pub moved: BTreeMap<String, String>,
    /// The address below which files of the repository can be read; none if it is not known.
    pub repository: Option<String>,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its path in the source of the book, such as `errors/100.md`; the page itself ends in `.html`.
    pub path: String,
    /// Its name in the table of contents.
    pub title: String,
    /// Its text in Markdown.
    pub text: String,
}

/// A page before its links are those of the site.
#[derive(Clone, Debug, Default)]
struct Draft {
    path: String,
    title: String,
    text: String,
    /// The path of the document in the repository that its links start from; empty if the text was made for the site.
    /// Links of such a text begin with `/`, the root of the site.
    from: String,
    /// Names of the evidence that it rests on, beside what its text names.
    rests: BTreeSet<String>,
}

/// All pages.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The pages, by their paths.
    pub pages: BTreeMap<String, Page>,
    /// The table of contents, as mdBook reads it.
    pub contents: String,
    /// New addresses by old ones, relative to the old one's folder.
    pub redirects: BTreeMap<String, String>,
    /// Paths in the repository of pictures, by their paths in the source of the book.
    pub pictures: BTreeMap<String, String>,
}

/// Makes the site.
pub fn make(sources: &Sources) -> Site {
    let places = Places::of(sources);
    let explainer = Explainer::new(&sources.scenarios, &sources.summary);
    let documents = documents(sources, &places);
    let rests = rests_of_questions(sources, &places, &documents);
    let errors = errors::pages(sources, &explainer, &rests);
    let lines = lines::pages(sources, &explainer);
    let calls = calls::pages(sources, &explainer);
    let releases = matrix::pages(&sources.matrix);
    let subjects = questions::subjects(sources, &rests);
    let start = start::page(sources, &errors, &releases);
    let redirects = redirects(sources);
    let contents = contents::of(contents::Parts {
        start: &start,
        documents: &documents,
        subjects: &subjects,
        errors: &errors,
        lines: &lines,
        calls: &calls,
        releases: &releases,
        order: &links::targets(sources.documents.get(places::INDEX).map_or("", String::as_str), places::INDEX),
    });
    let drafts = [vec![start], documents, subjects, errors, lines, calls, releases].concat();
    let pages = drafts.into_iter().map(|draft| finished(draft, sources, &places));
    let pictures = sources.pictures.iter().map(|path| (places::page_path(path), path.clone())).collect();
    Site {
        pages: pages.map(|page| (page.path.clone(), page)).collect(),
        contents: Entry::summary(&contents),
        redirects,
        pictures,
    }
}

/// The documents of the repository as drafts.
fn documents(sources: &Sources, places: &Places) -> Vec<Draft> {
    let draft = |(path, text): (&String, &String)| Draft {
        path: places.page(path).unwrap_or_default().to_owned(),
        title: links::title(text).unwrap_or_else(|| path.clone()),
        text: format!("{text}{}", questions::messages(path, &sources.scenarios)),
        from: path.clone(),
        rests: BTreeSet::new(),
    };
    sources.documents.iter().map(draft).collect()
}

/// The evidence that the page of each question names, by the question's name.
fn rests_of_questions(sources: &Sources, places: &Places, documents: &[Draft]) -> BTreeMap<String, BTreeSet<String>> {
    let of = |scenario: &Scenario| {
        let path = crate::page::path(scenario);
        let draft = documents.iter().find(|draft| draft.from == path)?;
        let named = links::rewrite(&draft.text, &draft.path, &draft.from, places).named;
        Some((scenario.name.clone(), evidence::names(&named, &sources.evidence)))
    };
    sources.scenarios.iter().filter_map(of).collect()
}

/// A page with the links of the site, and at its end the versions of the program and of its evidence.
fn finished(draft: Draft, sources: &Sources, places: &Places) -> Page {
    let rewritten = links::rewrite(&draft.text, &draft.path, &draft.from, places);
    let mut rests = evidence::names(&rewritten.named, &sources.evidence);
    rests.extend(draft.rests);
    let stand = evidence::stand(&sources.version, &rests, &sources.evidence);
    Page { path: draft.path, title: write::title(&draft.title), text: format!("{}\n\n{stand}\n", rewritten.text) }
}

/// The old addresses of pages, and those of errors by their names.
fn redirects(sources: &Sources) -> BTreeMap<String, String> {
    let named = errors::names(&sources.errors).into_iter();
    let named = named.map(|(name, code)| (format!("errors/{name}.html"), format!("errors/{code}.html")));
    let moved = sources.moved.iter().map(|(old, new)| (old.clone(), new.clone()));
    let relative = |(old, new): (String, String)| {
        let new = places::relative(&old, &new);
        (old, new)
    };
    named.chain(moved).map(relative).collect()
}
