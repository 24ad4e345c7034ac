//! Adding files to the list of evidence, and packing documents.

use std::fs;
use std::io;
use std::path::{Component, Path};
use std::process::Command;

use cuda_pitfalls::input::{PACKED, document_path};
use cuda_pitfalls::releases::{IMPORTS_FILE, is_file_name};
use cuda_pitfalls::report::{self, Stored};
use cuda_pitfalls::survey::SurveyDocument;
use cuda_pitfalls::trace::{Trace, is_trace};
use cuda_pitfalls::verdict::Provenance;

use crate::TaskError;
use crate::listed::{LIST, Listed, file_sha256, parse, text};

/// Documents of at least this size are packed.
const PACKED_BYTES: u64 = 16 << 10;

/// Updates the list of evidence for these folders below `reports/`: it gets all of their files except prose, and
/// large documents are packed. A folder that no longer exists loses its lines. Returns the names in new lines.
///
/// # Errors
/// Returns an error if a directory is not below `reports/` or has a simulated document, or a file cannot be read or
/// written.
pub fn list(root: &Path, folders: &[String]) -> Result<Vec<String>, TaskError> {
    let path = root.join(LIST);
    let before = parse(&fs::read_to_string(&path)?);
    let mut list = before.clone();
    for folder in folders {
        let below = Path::new(folder)
            .strip_prefix("reports")
            .unwrap_or(Path::new(""));
        let is_plain = below
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || below.as_os_str().is_empty() {
            return Err(format!(
                "`{folder}` is no folder below `reports`, such as reports/h200-x2"
            )
            .into());
        }
        let below = below
            .components()
            .map(|part| part.as_os_str().to_string_lossy())
            .collect::<Vec<_>>()
            .join("/");
        list.retain(|entry| !entry.name.starts_with(&format!("{below}/")));
        let found = files(&root.join("reports"), &below)?;
        if found.is_empty() && before.len() == list.len() {
            return Err(format!("`{folder}` has no file").into());
        }
        list.extend(found);
    }
    list.sort();
    fs::write(&path, text(&list))?;
    list.retain(|entry| !before.contains(entry));
    Ok(list.into_iter().map(|entry| entry.name).collect())
}

/// Returns the files of a directory and its subdirectories, as entries of the list.
fn files(reports: &Path, below: &str) -> Result<Vec<Listed>, TaskError> {
    let folder = reports.join(below);
    let mut found = Vec::new();
    if !folder.exists() {
        return Ok(found);
    }
    let entries = fs::read_dir(&folder)
        .map_err(|error| format!("cannot read `{}`: {error}", folder.display()))?;
    // All of them before one is packed, which changes the folder.
    for entry in entries.collect::<Result<Vec<_>, _>>()? {
        let file = format!("{below}/{}", entry.file_name().to_string_lossy());
        // A packed document is listed by the name that it had.
        let name = file.strip_suffix(PACKED).unwrap_or(&file).to_owned();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            found.extend(files(reports, &file)?);
        } else if kind.is_file() && !name.ends_with(".md") {
            let path = reports.join(&name);
            if file != name && path.exists() {
                return Err(format!("reports/{name} is there twice, packed and not").into());
            }
            if is_simulated(&path)? {
                return Err(format!("reports/{name} is simulated, and no evidence").into());
            }
            if is_packable(&name) && entry.metadata()?.len() >= PACKED_BYTES {
                pack(&path)?;
            }
            let sha256 = file_sha256(&path)?;
            found.push(Listed { sha256, name });
        }
    }
    Ok(found)
}

/// Returns `true` if a file with this name is packed when it is large. Documents of environments and rows of imports are not
/// packed, because a run that resumes them rewrites them.
fn is_packable(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or_default();
    (name.ends_with(".json") || name.ends_with(".ndjson"))
        && !is_file_name(file)
        && file != IMPORTS_FILE
}

/// Replaces a document by its packed file, unless it is packed.
///
/// # Errors
/// Returns an error if the program `zstd` is not installed, or failed.
fn pack(path: &Path) -> Result<(), TaskError> {
    if document_path(path) != path {
        return Ok(());
    }
    let mut zstd = Command::new("zstd");
    match zstd.args(["-19", "-q", "--rm"]).arg(path).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`zstd` cannot pack `{}`: {status}", path.display()).into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!(
            "`zstd` is needed to pack `{}`: install it, or pack the file elsewhere",
            path.display()
        )
        .into()),
        Err(error) => Err(error.into()),
    }
}

/// Returns `true` if a document states that no real driver answered; `false` for anything but a report, survey or
/// trace.
fn is_simulated(path: &Path) -> Result<bool, TaskError> {
    if is_trace(path) {
        return Ok(Trace::open(path)?.start.provenance == Provenance::Simulated);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if !name.ends_with(".json") && !name.contains(".json.") {
        return Ok(false);
    }
    let Ok(stored) = Stored::open(path) else {
        return Ok(false);
    };
    if let Some(survey) = SurveyDocument::from_stored(&stored) {
        return Ok(survey?.provenance == Provenance::Simulated);
    }
    Ok(stored.name() == report::SCHEMA && report::read(path)?.provenance == Provenance::Simulated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_documents_are_packed_and_keep_name_and_hash() {
        let reports = tempfile::tempdir().unwrap();
        let folder = reports.path().join("a");
        fs::create_dir(&folder).unwrap();
        let large = format!("[{}]", "1,".repeat(10_000) + "1");
        for name in ["report.json", "a.py", "environment-a-1.json"] {
            fs::write(folder.join(name), &large).unwrap();
        }
        fs::write(folder.join("small.json"), "[]").unwrap();
        let before = file_sha256(&folder.join("report.json")).unwrap();
        let found = || {
            let mut found = files(reports.path(), "a").unwrap();
            found.sort();
            found
        };
        let listed = found();
        let names: Vec<&str> = listed.iter().map(|one| one.name.as_str()).collect();
        let plain = [
            "a/a.py",
            "a/environment-a-1.json",
            "a/report.json",
            "a/small.json",
        ];
        assert_eq!(names, plain);
        assert_eq!(listed[2].sha256, before);
        assert!(folder.join("report.json.zst").is_file() && !folder.join("report.json").exists());
        assert_eq!(found(), listed, "what is packed is left as it is");
        fs::write(folder.join("report.json"), "[]").unwrap();
        assert!(
            files(reports.path(), "a").is_err(),
            "which of the two is meant?"
        );
    }
}
