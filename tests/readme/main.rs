//! README.md and the wheel's page: their commands are run, the outputs that they show are what the program prints,
//! they stay short, and their links resolve.

use crate::common;

mod commands;
mod excerpts;
mod links;
mod words;

use std::fs;

use common::root;

/// The page of the repository.
const README: &str = "README.md";
/// The page of the wheel, which a package index shows.
const WHEEL: &str = "python/README.md";

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("a page of the repository")
}

/// Returns the lines of a page, each with the language of its block. Fences are left out.
fn lines(page: &str) -> Vec<(Option<&str>, &str)> {
    let mut block = None;
    let mut lines = Vec::new();
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), block) {
            (Some(_), Some(_)) => block = None,
            (Some(language), None) => block = Some(language),
            (None, _) => lines.push((block, line)),
        }
    }
    lines
}
