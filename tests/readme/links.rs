//! Links inside the repository resolve, and every page of docs/ is on the index.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{README, WHEEL, lines, page};
use crate::common::root;

/// Returns the targets of links outside blocks of code.
fn targets(page: &str) -> Vec<String> {
    let prose = lines(page).into_iter().filter(|(block, _)| block.is_none());
    let targets = prose.flat_map(|(_, line)| line.split("](").skip(1));
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.map(|it| if it == ' ' { '-' } else { it }).collect()
}

fn has_anchor(page: &str, wanted: &str) -> bool {
    page.contains(&format!("id=\"{wanted}\""))
        || lines(page).iter().any(|(block, line)| {
            block.is_none()
                && line.starts_with('#')
                && anchor(line.trim_start_matches('#')) == wanted
        })
}

/// Returns the missing files and anchors that links of these pages lead to. Each is checked once: hundreds of pages
/// lead to the same ones.
fn broken(pages: &[(PathBuf, String)]) -> Vec<String> {
    let mut targets_of: BTreeMap<(PathBuf, String), &Path> = BTreeMap::new();
    for (path, text) in pages {
        for target in targets(text)
            .iter()
            .filter(|it| !it.contains("://") && !it.starts_with("mailto:"))
        {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() {
                path.clone()
            } else {
                path.parent().unwrap_or(root()).join(file)
            };
            targets_of.insert((plain(&file), anchor.to_owned()), path);
        }
    }
    let is_broken = |(file, anchor): &(PathBuf, String)| {
        !file.exists()
            || !anchor.is_empty()
                && !fs::read_to_string(file).is_ok_and(|page| has_anchor(&page, anchor))
    };
    let broken = targets_of
        .into_iter()
        .filter(|(target, _)| is_broken(target));
    broken
        .map(|((file, anchor), page)| format!("{}: {}#{anchor}", page.display(), file.display()))
        .collect()
}

/// Returns a path without `..`, so that the same file has one name.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the pages of docs/ and of the directories in it.
fn documents() -> Vec<PathBuf> {
    let (mut pages, mut folders) = (Vec::new(), vec![root().join("docs")]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder)
            .expect("docs/")
            .flatten()
            .map(|entry| entry.path())
        {
            match path.extension() {
                None if path.is_dir() => folders.push(path),
                Some(ending) if ending == "md" => pages.push(path),
                _ => {}
            }
        }
    }
    pages
}

#[test]
fn links_lead_somewhere() {
    let others = [
        README,
        "CONTRIBUTING.md",
        "SECURITY.md",
        "scenarios/README.md",
        "tests/README.md",
    ]
    .map(|path| root().join(path));
    let read = |path: PathBuf| (path.clone(), fs::read_to_string(path).unwrap_or_default());
    let pages: Vec<(PathBuf, String)> = others.into_iter().chain(documents()).map(read).collect();
    assert!(pages.len() > 300, "only {} pages", pages.len());
    let found = broken(&pages);
    assert!(found.is_empty(), "{found:#?}");
    let wrong =
        "[a](#nowhere) [b](docs/none.md) [c](docs/install.md#none) [d](docs/install.md#the-wheel)";
    assert_eq!(broken(&[(root().join(README), wrong.to_owned())]).len(), 3);
}

/// A package index shows the wheel's page without the repository.
#[test]
fn the_page_of_the_wheel_has_no_link_into_the_repository() {
    let found: Vec<String> = targets(&page(WHEEL))
        .into_iter()
        .filter(|it| !it.contains("://"))
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_index_of_docs_has_every_page() {
    let index = page("docs/README.md");
    let missing: Vec<PathBuf> = documents()
        .into_iter()
        .filter(|path| path.parent() == Some(&*root().join("docs")))
        .filter(|path| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            name != "README.md"
                && !targets(&index)
                    .iter()
                    .any(|target| target.split('#').next() == Some(&*name))
        })
        .collect();
    assert!(missing.is_empty(), "not in docs/README.md: {missing:?}");
}

/// Returns the paths of the repository that a page names in code.
fn paths(page: &str) -> Vec<String> {
    const FOLDERS: [&str; 8] = [
        "src/",
        "tests/",
        "docs/",
        "scenarios/",
        "xtask/",
        "deploy/",
        "python/",
        ".ci/",
    ];
    let prose = lines(page).into_iter().filter(|(block, _)| block.is_none());
    let spans = prose.flat_map(|(_, line)| line.split('`').skip(1).step_by(2));
    let is_path = |span: &&str| {
        FOLDERS.iter().any(|folder| span.starts_with(folder))
            && !span.contains([' ', '<', '*', '{', '…'])
    };
    spans.filter(is_path).map(ToOwned::to_owned).collect()
}

#[test]
fn the_pages_for_contributors_name_files_that_are_there() {
    for name in ["CONTRIBUTING.md", "docs/architecture.md"] {
        let named = paths(&page(name));
        let missing: Vec<&String> = named
            .iter()
            .filter(|path| !root().join(path).exists())
            .collect();
        assert!(
            named.len() > 10 && missing.is_empty(),
            "{name} names what is not there: {missing:?}"
        );
    }
}
