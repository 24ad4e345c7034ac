//! Links inside the repository resolve, and every page of docs/ is on the index.

use std::fs;
use std::path::{Path, PathBuf};

use super::{README, WHEEL, lines, page};
use crate::common::root;

/// The targets of links outside blocks of code.
fn targets(page: &str) -> Vec<String> {
    let prose = lines(page).into_iter().filter(|(block, _)| block.is_none());
    let targets = prose.flat_map(|(_, line)| line.split("](").skip(1));
    targets.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// The anchor that a heading has.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.map(|it| if it == ' ' { '-' } else { it }).collect()
}

fn has_anchor(page: &str, wanted: &str) -> bool {
    page.contains(&format!("id=\"{wanted}\""))
        || lines(page).iter().any(|(block, line)| {
            block.is_none() && line.starts_with('#') && anchor(line.trim_start_matches('#')) == wanted
        })
}

/// The links of a page that lead to no file or to no heading.
fn broken(path: &Path, text: &str) -> Vec<String> {
    let folder = path.parent().unwrap_or(root());
    let is_ours = |target: &String| !target.contains("://") && !target.starts_with("mailto:");
    let leads_nowhere = |target: &String| {
        let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { path.to_path_buf() } else { folder.join(file) };
        !file.exists() || !wanted.is_empty() && !fs::read_to_string(&file).is_ok_and(|page| has_anchor(&page, wanted))
    };
    targets(text)
        .into_iter()
        .filter(is_ours)
        .filter(leads_nowhere)
        .map(|it| format!("{}: {it}", path.display()))
        .collect()
}

/// The pages of docs/ itself.
fn documents() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs")).expect("docs/").flatten().map(|entry| entry.path());
    let mut pages: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|it| it == "md")).collect();
    pages.sort();
    pages
}

#[test]
fn links_lead_somewhere() {
    let others = [README, "CONTRIBUTING.md", "SECURITY.md", "docs/surveys/README.md", "scenarios/README.md"];
    let pages = others.iter().map(|path| root().join(path)).chain(documents());
    let found: Vec<String> =
        pages.flat_map(|path| broken(&path, &fs::read_to_string(&path).unwrap_or_default())).collect();
    assert!(found.is_empty(), "{found:#?}");
    let wrong = "[a](#nowhere) [b](docs/none.md) [c](docs/install.md#none) [d](docs/install.md#the-wheel)";
    assert_eq!(broken(&root().join(README), wrong).len(), 3);
}

/// A package index shows the wheel's page without the repository.
#[test]
fn the_page_of_the_wheel_has_no_link_into_the_repository() {
    let found: Vec<String> = targets(&page(WHEEL)).into_iter().filter(|it| !it.contains("://")).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_index_of_docs_has_every_page() {
    let index = page("docs/README.md");
    let missing: Vec<PathBuf> = documents()
        .into_iter()
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            !["README.md", "SUMMARY.md"].contains(&&*name) && !targets(&index).iter().any(|target| target.split('#').next() == Some(&*name))
        })
        .collect();
    assert!(missing.is_empty(), "not in docs/README.md: {missing:?}");
}

/// The paths of the repository that a page names in code.
fn paths(page: &str) -> Vec<String> {
    const FOLDERS: [&str; 8] = ["src/", "tests/", "docs/", "scenarios/", "xtask/", "deploy/", "python/", ".ci/"];
    let prose = lines(page).into_iter().filter(|(block, _)| block.is_none());
    let spans = prose.flat_map(|(_, line)| line.split('`').skip(1).step_by(2));
    let is_path = |span: &&str| {
        FOLDERS.iter().any(|folder| span.starts_with(folder)) && !span.contains([' ', '<', '*', '{', '…'])
    };
    spans.filter(is_path).map(ToOwned::to_owned).collect()
}

#[test]
fn the_pages_for_contributors_name_files_that_are_there() {
    for name in ["CONTRIBUTING.md", "docs/architecture.md"] {
        let named = paths(&page(name));
        let missing: Vec<&String> = named.iter().filter(|path| !root().join(path).exists()).collect();
        assert!(named.len() > 10 && missing.is_empty(), "{name} names what is not there: {missing:?}");
    }
}
