//! The effects of the site: reads what is committed, and lets mdBook write the pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use cuda_pitfalls::releases::{self, EnvironmentDocument};
use cuda_pitfalls::{catalogue, evidence, summary};
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use serde::Deserialize;

use super::{AskedLine, ErrorTexts, Measured, Site, Sources, TITLE};
use crate::TaskError;

/// What the search leaves out: tables of which other pages have each row, and what only developers read.
const UNSEARCHED: [&str; 9] = [
    "architecture.md",
    "changelog.md",
    "contributing.md",
    "dependencies.md",
    "explain.md",
    "provenance.md",
    "scenarios",
    "surveys/calls.md",
    "surveys/python.md",
];
/// The file that marks a folder as one that this task may write anew.
const MARK: &str = "made-by-xtask-site";
/// Documents beside those of docs/.
const OTHERS: [&str; 6] =
    ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "scenarios/README.md", "scenarios/steps.md"];
const STYLE: &str = include_str!("../../site/site.css");
const SCRIPT: &str = include_str!("../../site/site.js");
const MOVED: &str = include_str!("../../site/moved.toml");
/// Kinds of documents of the evidence that say when they were measured.
const REPORTS: [&str; 8] = [
    "report.json",
    "survey-calls.json",
    "survey-env.json",
    "survey-errors.json",
    "survey-mask.json",
    "survey-needs.json",
    "survey-python.json",
    "survey-startup.json",
];
/// Traces have a line for each event; the first says when.
const TRACE: &str = "trace.ndjson";

/// Reads what the site is made from.
///
/// # Errors
/// A committed file cannot be read or is not valid.
pub fn sources(root: &Path, repository: Option<String>) -> Result<Sources, TaskError> {
    let read = |path: &str| fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"));
    let (mut documents, mut pictures) = (BTreeMap::new(), BTreeSet::new());
    for path in below(root, "docs")?.into_iter().chain(OTHERS.map(str::to_owned)) {
        if path.ends_with(".md") {
            documents.insert(path.clone(), read(&path)?);
        } else {
            pictures.insert(path);
        }
    }
    let manifest: Manifest = toml::from_str(&read("Cargo.toml")?)?;
    Ok(Sources {
        version: manifest.workspace.package.version,
        documents,
        pictures,
        scenarios: catalogue::select(&[])?,
        summary: summary::embedded(),
        errors: ErrorTexts::parse(&read("scenarios/errors.toml")?)?,
        lines: AskedLine::parse(&read("scenarios/surveys/python.toml")?)?,
        evidence: measured(&root.join("reports"))?,
        matrix: crate::documents::matrix()?,
        moved: toml::from_str(MOVED)?,
        repository,
    })
}

#[derive(Deserialize)]
struct Manifest {
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    package: Package,
}

#[derive(Deserialize)]
struct Package {
    version: String,
}

/// The files below a folder, as paths below the root.
fn below(root: &Path, folder: &str) -> Result<Vec<String>, TaskError> {
    let (mut found, mut folders) = (Vec::new(), vec![root.join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// What a report or a survey says of itself.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    #[serde(alias = "survey")]
    run: Began,
    machine: Machine,
}

/// When and by what it was measured, as a run, a survey and the first line of a trace say it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Began {
    started_at: String,
    version: String,
    driver_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Machine {
    driver_version: String,
}

impl Began {
    fn measured(self) -> Option<Measured> {
        let (day, _) = self.started_at.split_once('T')?;
        Some(Measured { day: day.to_owned(), version: self.version, driver: self.driver_version })
    }
}

/// The documents of the list of evidence that say when they were measured, by the names that pages give them.
fn measured(reports: &Path) -> Result<BTreeMap<String, Measured>, TaskError> {
    let mut found = BTreeMap::new();
    for listed in evidence::listed() {
        let (folder, file) = listed.name.rsplit_once('/').unwrap_or(("", &listed.name));
        let name = if folder == "compact" { listed.name.as_str() } else { folder };
        let began = if file == TRACE {
            let mut first = String::new();
            BufReader::new(fs::File::open(listed.find(reports)?)?).read_line(&mut first)?;
            serde_json::from_str(&first)?
        } else if REPORTS.contains(&file) || folder == "compact" {
            let head: Head = serde_json::from_slice(&fs::read(listed.find(reports)?)?)?;
            Began { driver_version: head.machine.driver_version, ..head.run }
        } else if releases::is_file_name(file) {
            let document: EnvironmentDocument = serde_json::from_slice(&fs::read(listed.find(reports)?)?)?;
            let began = document.environment.asked_at;
            found.extend(
                Began { started_at: began, version: document.version, ..Began::default() }
                    .measured()
                    .map(|it| (listed.name, it)),
            );
            continue;
        } else {
            continue;
        };
        found.extend(began.measured().map(|measured| (name.to_owned(), measured)));
    }
    Ok(found)
}

/// Writes the site into a folder, and returns the number of its pages. The folder is new, empty, or one that was
/// written by this before.
///
/// # Errors
/// The folder holds something else, or a file cannot be written.
pub fn write(site: &Site, root: &Path, out: &Path) -> Result<usize, TaskError> {
    let is_other = out.exists() && !out.join(MARK).exists() && fs::read_dir(out)?.next().is_some();
    if is_other {
        return Err(format!("{} is neither empty nor a site that was made before", out.display()).into());
    }
    fs::create_dir_all(out)?;
    let out = out.canonicalize()?;
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("src");
    put(&source.join("SUMMARY.md"), &site.contents)?;
    for page in site.pages.values() {
        put(&source.join(&page.path), &page.text)?;
    }
    for (to, from) in &site.pictures {
        let to = source.join(to);
        fs::create_dir_all(to.parent().unwrap_or(&source))?;
        fs::copy(root.join(from), to)?;
    }
    put(&folder.path().join("site.css"), STYLE)?;
    put(&folder.path().join("site.js"), SCRIPT)?;
    let book = MDBook::load_with_config(folder.path(), config(site, &out)?)?;
    book.build()?;
    put(&out.join(MARK), "")?;
    Ok(site.pages.len())
}

fn put(path: &PathBuf, text: &str) -> Result<(), TaskError> {
    path.parent().map(fs::create_dir_all).transpose()?;
    Ok(fs::write(path, text)?)
}

/// What mdBook is told. No preprocessor runs: text of others could tell it to include a file.
fn config(site: &Site, out: &Path) -> Result<Config, TaskError> {
    let text = format!(
        "[book]\n\
         title = \"{TITLE}\"\n\
         description = \"What happens when CUDA starts, measured on GPUs\"\n\
         [build]\n\
         create-missing = false\n\
         use-default-preprocessors = false\n\
         [output.html]\n\
         smart-punctuation = false\n\
         definition-lists = false\n\
         admonitions = false\n\
         no-section-label = true\n\
         sidebar-header-nav = false\n\
         input-404 = \"\"\n\
         additional-css = [\"site.css\"]\n\
         additional-js = [\"site.js\"]\n\
         [output.html.print]\n\
         enable = false\n\
         [output.html.playground]\n\
         runnable = false\n\
         [output.html.fold]\n\
         enable = true\n\
         [output.html.search]\n\
         boost-title = 3\n"
    );
    let mut config: Config = text.parse()?;
    config.build.build_dir = out.to_path_buf();
    config.set("output.html.redirect", &site.redirects)?;
    let is_there = |path: &&str| site.pages.keys().any(|page| page.starts_with(*path));
    let unsearched = UNSEARCHED.into_iter().filter(is_there).map(|path| (path, BTreeMap::from([("enable", false)])));
    config.set("output.html.search.chapter", unsearched.collect::<BTreeMap<_, _>>())?;
    Ok(config)
}
