//! Adding files to the list of evidence.

use std::fs;
use std::path::{Component, Path};

use cuda_pitfalls::evidence::{LIST, Listed, parse, sha256, text};
use cuda_pitfalls::report::{self, Stored};
use cuda_pitfalls::survey::SurveyDocument;
use cuda_pitfalls::trace::{FILE, Trace};
use cuda_pitfalls::verdict::Provenance;

use crate::TaskError;

/// Updates the list of evidence for these folders below `reports/`: it gets all of their files except prose. A folder
/// that no longer exists loses its lines. Returns the names in new lines.
///
/// # Errors
/// A folder is not below `reports/` or has a simulated document, or a file cannot be read or written.
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

/// The files of a folder and its subfolders, as entries of the list.
fn files(reports: &Path, below: &str) -> Result<Vec<Listed>, TaskError> {
    let folder = reports.join(below);
    let mut found = Vec::new();
    if !folder.exists() {
        return Ok(found);
    }
    for entry in fs::read_dir(&folder)
        .map_err(|error| format!("cannot read `{}`: {error}", folder.display()))?
    {
        let entry = entry?;
        let name = format!("{below}/{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            found.extend(files(reports, &name)?);
        } else if kind.is_file() && !name.ends_with(".md") {
            if is_simulated(&entry.path())? {
                return Err(format!("reports/{name} is simulated, and no evidence").into());
            }
            found.push(Listed {
                sha256: sha256(&entry.path())?,
                name,
            });
        }
    }
    Ok(found)
}

/// Whether a document says that no real driver answered; false for anything but a report, survey or trace.
fn is_simulated(path: &Path) -> Result<bool, TaskError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name == FILE {
        return Ok(Trace::open(path)?.start.provenance == Provenance::Simulated);
    }
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
