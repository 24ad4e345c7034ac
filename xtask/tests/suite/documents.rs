//! The committed documents match the scenarios, tables of calls and reports that they are generated from.
//!
//! `cargo xtask bless` writes them, and so does `CUDA_PITFALLS_BLESS=1` with this test; read the diff.

use std::fs;

use xtask::documents::{bless_documents, root, stale_documents};
use xtask::explain;
use xtask::tables::SCENARIOS;

use crate::made;

#[test]
fn the_committed_documents_are_those_that_are_made_and_are_marked_for_reviewers() {
    let made = &made().documents;
    assert!(made.len() > 190, "only {} documents are made", made.len());
    if std::env::var_os("CUDA_PITFALLS_BLESS").is_some() {
        bless_documents(made).expect("the documents can be written");
    }
    let stale = stale_documents(made).expect("the documents can be read");
    assert!(
        stale.is_empty(),
        "out of date, or of no scenario: {stale:#?}; `cargo xtask bless` writes them anew"
    );
    let attributes =
        fs::read_to_string(root().join(".gitattributes")).expect(".gitattributes can be read");
    let marked: Vec<&str> = attributes
        .lines()
        .filter_map(|line| line.strip_suffix(" linguist-generated"))
        .collect();
    let is_marked = |path: &str| {
        marked
            .iter()
            .any(|pattern| match pattern.split_once("**/*") {
                Some((folder, ending)) => path.starts_with(folder) && path.ends_with(ending),
                None => *pattern == path,
            })
    };
    // Only parts of these pages are generated; reviewers read the rest.
    let read = [SCENARIOS, explain::PAGE];
    let unmarked: Vec<&String> = made
        .keys()
        .filter(|path| !read.contains(&path.as_str()) && !is_marked(path))
        .collect();
    assert!(
        unmarked.is_empty(),
        ".gitattributes does not mark {unmarked:#?}"
    );
}
