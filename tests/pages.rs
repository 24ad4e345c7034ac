//! The pages in `docs/pitfalls/`: committed, and what the scenarios and the committed reports make.
//!
//! `CUDA_PITFALLS_BLESS=1 cargo test --test pages` writes them anew and removes those of scenarios
//! that are no more; read the diff.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cuda_pitfalls::report::read;
use cuda_pitfalls::{catalogue, page};

use common::{bless, committed_reports, root};

/// The text of every page by its path.
fn made() -> BTreeMap<String, String> {
    let scenarios = catalogue::select(&[]).expect("the scenarios that come with the program are valid");
    let mut measured = Vec::new();
    for (name, path) in committed_reports() {
        let report = read(&path).expect("a committed report can be read");
        measured.extend(page::measurements(&scenarios, &name, &report));
    }
    let mut pages: BTreeMap<String, String> =
        scenarios.iter().map(|scenario| (page::path(scenario), page::page(scenario, &measured))).collect();
    pages.insert(page::index_path(), page::index(&scenarios));
    pages
}

/// The pages that lie there now, by their paths.
fn lying(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            lying(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let path = path.strip_prefix(root()).expect("below the package");
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

#[test]
fn the_committed_pages_are_those_that_scenarios_and_reports_make() {
    let made = made();
    let mut lying_there = Vec::new();
    lying(&root().join(page::FOLDER), &mut lying_there);
    let left: Vec<&String> = lying_there.iter().filter(|path| !made.contains_key(*path)).collect();
    if bless() {
        for path in left {
            fs::remove_file(root().join(path)).expect("a page of no scenario can be removed");
        }
        for (path, text) in &made {
            let path = root().join(path);
            fs::create_dir_all(path.parent().expect("a page lies in a folder")).expect("its folder can be made");
            fs::write(&path, text).expect("a page can be written");
        }
        return;
    }
    let committed = |path: &String| fs::read_to_string(root().join(path)).unwrap_or_default();
    let stale: Vec<&String> =
        made.iter().filter(|(path, text)| committed(path) != **text).map(|(path, _)| path).collect();
    assert!(stale.is_empty() && left.is_empty(), "stale: {stale:#?}, of no scenario: {left:#?}; bless them");
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let made = made();
    let mut dead = Vec::new();
    for (page, text) in &made {
        let folder = Path::new(page).parent().expect("a page lies in a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { plain(&folder.join(file)) };
            let anchors = made.get(&target).is_none_or(|text| {
                let heading = format!("## {}\n", anchor.replace('-', " "));
                anchor.is_empty()
                    || text.contains(&format!("id=\"{anchor}\""))
                    || text.to_lowercase().contains(&heading)
            });
            if !(made.contains_key(&target) || root().join(&target).is_file()) || !anchors {
                dead.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

/// A path without `..`.
fn plain(path: &Path) -> String {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain.to_string_lossy().into_owned()
}
