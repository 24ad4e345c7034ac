//! docs/SUMMARY.md, the table of contents with which mdBook makes a book of docs/.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cuda_pitfalls::scenario::subject;

/// The path of the table of contents, below the root of the repository.
pub const SUMMARY: &str = "docs/SUMMARY.md";

/// The table of contents of `pages`, which are texts by their paths below `docs/`.
///
/// A page is in it once, because mdBook leaves out what is not and refuses what is there twice: first the pages in the
/// order of README.md, then pitfalls by subject, surveys, and the rest.
pub fn summary(mut pages: BTreeMap<String, String>) -> String {
    let index = pages.remove("README.md").unwrap_or_default();
    let mut out =
        "<!-- Made by `cargo xtask bless`. -->\n# Summary\n\n[Documentation](README.md)\n"
            .to_owned();
    for part in index.split("\n## ").skip(1) {
        let targets = part
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#']).next());
        let mut own = String::new();
        for target in targets.filter(|target| !target.contains('/')) {
            own.extend(pages.remove(target).map(|text| entry(target, &text)));
        }
        let title = part.lines().next().unwrap_or_default();
        section(&mut out, title, &own);
    }
    let mut pitfalls = taken(&mut pages, "pitfalls/README.md");
    for subject in subject::all() {
        let own = taken(&mut pages, &format!("pitfalls/{}/", subject.folder));
        let _ = write!(
            pitfalls,
            "- [{}]()\n  {}\n",
            subject.sentence,
            own.trim_end().replace('\n', "\n  ")
        );
    }
    section(&mut out, "Pitfalls", &pitfalls);
    for (title, folder) in [("Surveys", "surveys/"), ("More", "")] {
        let own = taken(&mut pages, folder);
        section(&mut out, title, &own);
    }
    out
}

/// Writes a part under its title; nothing if it has no page.
fn section(out: &mut String, title: &str, entries: &str) {
    if !entries.is_empty() {
        let _ = write!(out, "\n# {title}\n\n{entries}");
    }
}

/// The entries of the pages below a path, which are removed.
fn taken(pages: &mut BTreeMap<String, String>, below: &str) -> String {
    pages
        .extract_if(.., |path, _| path.starts_with(below))
        .map(|(path, text)| entry(&path, &text))
        .collect()
}

fn entry(path: &str, text: &str) -> String {
    let title = text
        .lines()
        .find_map(|line| line.strip_prefix("# "))
        .unwrap_or(path);
    format!("- [{title}]({path})\n")
}
