//! What was measured or read in a release of a package that is no longer the newest.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use cuda_pitfalls::explain::{self, Advice};
use cuda_pitfalls::releases::{ImportRow, bare_name, normalize_name, version_order};

use crate::TaskError;
use crate::documents::import_rows;

/// Returns a sentence about everything that rests on an older release than that of the file, which has lines such as
/// `torch==2.15.0`. A package that the file does not name is not judged.
///
/// # Errors
/// Returns an error if the file has no such line, or what was measured cannot be read.
pub fn outdated(file: &str) -> Result<Vec<String>, TaskError> {
    let newest = newest_versions(&std::fs::read_to_string(file)?);
    if newest.is_empty() {
        return Err(format!("`{file}` has no line such as `torch==2.15.0`").into());
    }
    let mut told = outdated_rows(&import_rows()?, &newest);
    for advice in explain::all_advice() {
        told.extend(outdated_advice(advice, &newest));
    }
    Ok(told)
}

/// Returns a sentence for each package whose newest release is newer than those that advice was read in.
fn outdated_advice(advice: &Advice, newest: &BTreeMap<String, String>) -> Vec<String> {
    let mut read: BTreeMap<&str, &str> = BTreeMap::new();
    for release in advice.read_in.iter().chain(&advice.seen_in) {
        let Some((package, version)) = release.split_once(' ') else {
            continue;
        };
        let known = read.entry(package).or_default();
        if version_order(known, version) == Ordering::Less {
            *known = version;
        }
    }
    for cause in &advice.causes {
        if let Some(of) = &cause.read
            && let Some(version) = of.versions.split_whitespace().next_back()
            && version.starts_with(|first: char| first.is_ascii_digit())
        {
            read.entry(&of.of).or_insert(version);
        }
    }
    outdated_versions(&advice.id, read, newest)
}

fn outdated_versions(
    what: &str,
    versions: BTreeMap<&str, &str>,
    newest: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut told = Vec::new();
    for (package, version) in versions {
        if let Some(newer) = newest.get(&normalize_name(package))
            && version_order(version, newer) == Ordering::Less
        {
            told.push(format!("{what}: {package} {version}, now {newer}"));
        }
    }
    told
}

fn newest_versions(text: &str) -> BTreeMap<String, String> {
    let mut newest = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, version)) = line.split_once("==") {
            newest.insert(
                normalize_name(bare_name(name.trim())),
                version.trim().to_owned(),
            );
        }
    }
    newest
}

/// Returns the packages whose newest row is of an older release than the newest one.
fn outdated_rows(rows: &[ImportRow], newest: &BTreeMap<String, String>) -> Vec<String> {
    let mut measured: BTreeMap<&str, &str> = BTreeMap::new();
    for row in rows {
        let known = measured.entry(&row.package).or_default();
        if version_order(known, &row.version) == Ordering::Less {
            *known = &row.version;
        }
    }
    outdated_versions("imports", measured, newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_release_makes_a_row_old() {
        let row = r#"{"line":"import a","package":"A_b","version":"1.9","python":"3.12.1","state":"no","asked":"2026-11-29"}"#;
        let rows = [serde_json::from_str(row).unwrap()];
        let outdated = |index: &str| outdated_rows(&rows, &newest_versions(index));
        assert_eq!(outdated("a-b==1.10"), ["imports: A_b 1.9, now 1.10"]);
        assert!(outdated("a-b==1.9\nother==2").is_empty());
    }
}
