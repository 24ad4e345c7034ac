//! The tree of a release: its version and the address of its repository in every file that has them, and the section of
//! the changelog.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::TaskError;

/// Texts with the version, the address of the repository, or its owner and name. Each occurs once or more.
const PLACES: [(&str, &str); 15] = [
    (".github/rehearse", "uses: {project}@"),
    (MANIFEST, "\n[workspace.package]\nversion = \"{version}\"\n"),
    (MANIFEST, "\nrepository = \"{repository}\"\n"),
    (MANIFEST, " = { version = \"={version}\", path = "),
    (CHART, "\nversion: {version}\nappVersion: {version}\n"),
    ("deploy/kubernetes/daemonset.yaml", ":{version}\n"),
    ("deploy/kubernetes/job.yaml", ":{version}\n"),
    ("docs/ci.md", "uses: {project}@"),
    ("docs/ci.md", "repo: {repository} "),
    ("docs/export.md", "cuda-pitfalls {version} from "),
    ("docs/install.md", "uses: {project}@"),
    ("docs/release.md", " --repo {project}`"),
    (PLUGIN, "\nversion = \"{version}\"\n"),
    (PLUGIN, "\"cuda-pitfalls=={version}\""),
    (PLUGIN, "\nRepository = \"{repository}\"\n"),
];
const MANIFEST: &str = "Cargo.toml";
const CHART: &str = "deploy/kubernetes/chart/Chart.yaml";
const PLUGIN: &str = "python/pytest/pyproject.toml";

/// Files in which Cargo lists our packages, by these ends of their names, among others.
const LOCKS: [&str; 2] = ["Cargo.lock", "tests/fuzz/Cargo.lock"];
const PACKAGES: &str = " -answers -calls -core -fake -instrument -render -scenarios -trace";

/// Pages with a paragraph that begins with [`NOT_PUBLISHED`] until the first release.
const PAGES: [&str; 7] = [
    "README.md",
    "docs/ci.md",
    "docs/install.md",
    "docs/library.md",
    "docs/pytest.md",
    "docs/release.md",
    "python/pytest/README.md",
];
const NOT_PUBLISHED: &str = "\n\nNot published yet: ";

/// The owner in the address of the repository until there is a public one.
const NO_OWNER: &str = "/OWNER/";

const CHANGELOG: &str = "CHANGELOG.md";
const UNRELEASED: &str = "\n## Unreleased\n";

const USAGE: &str = "a release needs a version and an address: cargo xtask release 1.2.3 \
                     --repository https://github.com/NAME/PROJECT";

/// Texts of files by their paths.
type Files = BTreeMap<&'static str, String>;

/// A version and the address of the repository.
struct Release {
    version: String,
    repository: String,
}

impl Release {
    fn from_words(words: &[String]) -> Result<Self, TaskError> {
        let (version, repository) = match words {
            [version, option, repository] if option == "--repository" => (version, repository),
            _ => return Err(USAGE.into()),
        };
        if version_numbers(version).is_none() {
            return Err(format!(
                "`{version}` is not a version that every index accepts: write three numbers, such as 1.2.3"
            )
            .into());
        }
        if !is_address(repository) {
            return Err(format!(
                "`{repository}` is not the address of a repository: write https://HOST/NAME/PROJECT"
            )
            .into());
        }
        Ok(Self {
            version: version.clone(),
            repository: repository.clone(),
        })
    }

    /// Returns the release that the manifest describes.
    fn from_manifest(manifest: &str) -> Result<Self, TaskError> {
        Ok(Self {
            version: quoted_after(manifest, "\n[workspace.package]\nversion = \"")?,
            repository: quoted_after(manifest, "\nrepository = \"")?,
        })
    }

    fn expand(&self, place: &str) -> String {
        // After `https:`, an empty part and the host.
        let project: Vec<&str> = self.repository.split('/').skip(3).collect();
        place
            .replace("{version}", &self.version)
            .replace("{repository}", &self.repository)
            .replace("{project}", &project.join("/"))
    }
}

fn quoted_after(manifest: &str, before: &str) -> Result<String, TaskError> {
    let rest = manifest.split_once(before).map(|(_, rest)| rest);
    let value = rest.and_then(|rest| rest.split_once('"'));
    value
        .map(|(value, _)| value.to_owned())
        .ok_or_else(|| missing(MANIFEST, before))
}

fn missing(path: &str, text: &str) -> TaskError {
    format!(
        "{path} has no `{text}`, which is replaced: restore it, or correct xtask/src/release.rs"
    )
    .into()
}

/// Returns the numbers of `1.2.3`. `None` for what crates.io and PyPI write differently, such as `1.2.3-rc.1`.
fn version_numbers(version: &str) -> Option<[u64; 3]> {
    let numbers: Result<Vec<u64>, _> = version.split('.').map(str::parse).collect();
    let [major, minor, patch] = numbers.ok()?.try_into().ok()?;
    // `parse` accepts `01` and `+1`.
    (format!("{major}.{minor}.{patch}") == version).then_some([major, minor, patch])
}

fn is_address(address: &str) -> bool {
    let parts: Vec<&str> = address.split('/').collect();
    let ["https:", "", host, owner, project] = parts.as_slice() else {
        return false;
    };
    let is_clean = [host, owner, project].iter().all(|part| {
        let mut characters = part.chars();
        !part.is_empty() && characters.all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    });
    is_clean && !address.contains(NO_OWNER) && !address.ends_with(".git")
}

/// Writes the release that `words` describe into the tree at `root`: all files that it changes, or none. Returns their
/// paths.
///
/// # Errors
/// Returns an error if the words describe no release, a place is not found, or a file cannot be read or written.
pub fn write_release(root: &Path, words: &[String], day: &str) -> Result<Vec<String>, TaskError> {
    let release = Release::from_words(words)?;
    let old_files = read_files(root)?;
    let mut files = old_files.clone();
    let current = Release::from_manifest(&files[MANIFEST])?;
    if version_numbers(&release.version) < version_numbers(&current.version) {
        return Err(format!(
            "{} is older than {}, the version of {MANIFEST}: choose a newer one",
            release.version, current.version
        )
        .into());
    }
    for (path, place) in PLACES {
        replace_place(
            &mut files,
            path,
            &current.expand(place),
            &release.expand(place),
        )?;
    }
    for package in PACKAGES.split(' ') {
        let place = format!("\nname = \"cuda-pitfalls{package}\"\nversion = \"{{version}}\"\n");
        for path in LOCKS {
            replace_place(
                &mut files,
                path,
                &current.expand(&place),
                &release.expand(&place),
            )?;
        }
    }
    if current.repository.contains(NO_OWNER) {
        for path in PAGES {
            let text = without_sentence(&files[path]);
            files.insert(path, text.ok_or_else(|| missing(path, NOT_PUBLISHED))?);
        }
    }
    let changelog = open_section(&files[CHANGELOG], &release.version, day)?;
    files.insert(CHANGELOG, changelog);
    files.retain(|path, text| old_files[path] != *text);
    write_files(root, &files)?;
    Ok(files.into_keys().map(str::to_owned).collect())
}

fn read_files(root: &Path) -> Result<Files, TaskError> {
    let mut files = Files::new();
    let paths = PLACES.iter().map(|(path, _)| path);
    for path in paths.chain(&LOCKS).chain(&PAGES).chain(&[CHANGELOG]) {
        let text = fs::read_to_string(root.join(path));
        files.insert(path, text.map_err(|error| format!("{path}: {error}"))?);
    }
    Ok(files)
}

fn replace_place(
    files: &mut Files,
    path: &'static str,
    old: &str,
    new: &str,
) -> Result<(), TaskError> {
    if !files[path].contains(old) {
        return Err(missing(path, old));
    }
    let text = files[path].replace(old, new);
    files.insert(path, text);
    Ok(())
}

/// Returns a page without its paragraph that says that nothing is published. `None` without such a paragraph.
fn without_sentence(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(NOT_PUBLISHED)?;
    let (_, after) = rest.split_once("\n\n")?;
    Some(format!("{before}\n\n{after}"))
}

/// Returns the changelog with what is unreleased in the section of a version, unchanged if it is there already.
fn open_section(text: &str, version: &str, day: &str) -> Result<String, TaskError> {
    let Some((before, rest)) = text.split_once(UNRELEASED) else {
        return Err(missing(CHANGELOG, UNRELEASED));
    };
    let unreleased = rest.split("\n## ").next().unwrap_or_default();
    let is_open = text.contains(&format!("\n## {version} ("));
    if unreleased.trim().is_empty() && is_open {
        return Ok(text.to_owned());
    }
    if unreleased.trim().is_empty() {
        return Err(format!(
            "{CHANGELOG} has nothing under `## Unreleased`: write there what changes for users"
        )
        .into());
    }
    if is_open {
        return Err(format!(
            "{CHANGELOG} has a section {version}, and more under `## Unreleased`: choose a newer version, or move it"
        )
        .into());
    }
    Ok(format!(
        "{before}{UNRELEASED}\n## {version} ({day})\n{rest}"
    ))
}

/// Writes each file next to its place first: what fails, such as a full disk, fails before any file is replaced.
fn write_files(root: &Path, files: &Files) -> Result<(), TaskError> {
    let mut staged = Vec::new();
    for (path, text) in files {
        let name = root.join(format!("{path}.release"));
        let created = File::create_new(&name);
        if created.is_ok() {
            staged.push((name.clone(), root.join(path)));
        }
        if let Err(error) = created.and_then(|mut file| file.write_all(text.as_bytes())) {
            for (file, _) in staged {
                let _ = fs::remove_file(file);
            }
            return Err(format!("{}: {error}", name.display()).into());
        }
    }
    for (file, path) in staged {
        fs::rename(file, path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
