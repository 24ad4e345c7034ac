//! The table of contents.

use std::fmt::Write as _;

use super::{Draft, write};

/// The pages by kind.
pub(super) struct Parts<'a> {
    pub(super) start: &'a Draft,
    pub(super) documents: &'a [Draft],
    pub(super) subjects: &'a [Draft],
    pub(super) errors: &'a [Draft],
    pub(super) lines: &'a [Draft],
    pub(super) calls: &'a [Draft],
    pub(super) releases: &'a [Draft],
    /// Paths of documents in the repository, in the order in which they are read.
    pub(super) order: &'a [String],
}

/// A page with those below it, or the title of a part.
pub(super) enum Entry {
    Part(&'static str),
    Page { title: String, path: String, under: Vec<Entry> },
}

impl Entry {
    fn page(draft: &Draft, under: Vec<Entry>) -> Entry {
        Entry::Page { title: draft.title.clone(), path: draft.path.clone(), under }
    }

    /// The table as mdBook reads it.
    pub(super) fn summary(entries: &[Entry]) -> String {
        let mut out = "# Summary\n".to_owned();
        written(&mut out, entries, 0);
        out
    }
}

fn written(out: &mut String, entries: &[Entry], depth: usize) {
    for entry in entries {
        match entry {
            Entry::Part(title) => {
                let _ = writeln!(out, "\n# {title}\n");
            }
            Entry::Page { title, path, under } => {
                let _ = writeln!(out, "{}- [{}]({path})", "    ".repeat(depth), write::plain(&write::title(title)));
                written(out, under, depth + 1);
            }
        }
    }
}

/// The first page, with the others below it.
fn group(drafts: &[Draft]) -> Option<Entry> {
    let (first, others) = drafts.split_first()?;
    Some(Entry::page(first, others.iter().map(|draft| Entry::page(draft, Vec::new())).collect()))
}

/// The table of contents of all pages.
pub(super) fn of(parts: Parts<'_>) -> Vec<Entry> {
    let mut entries = vec![Entry::page(parts.start, Vec::new()), Entry::Part("Answers")];
    let of_subject = |subject: &Draft| {
        let folder = subject.path.trim_end_matches("index.md");
        let own = parts.documents.iter().filter(|draft| draft.path.starts_with(folder));
        Entry::page(subject, own.map(|draft| Entry::page(draft, Vec::new())).collect())
    };
    let subjects: Vec<Entry> = parts.subjects.iter().map(of_subject).collect();
    let symptoms = parts.documents.iter().find(|draft| draft.path == "pitfalls/index.md");
    entries.extend(symptoms.map(|draft| Entry::page(draft, subjects)));
    entries.extend([parts.errors, parts.lines, parts.calls, parts.releases].into_iter().filter_map(group));
    entries.extend(folder("surveys", parts.documents));
    entries.push(Entry::Part("Documents"));
    let place = |draft: &Draft| parts.order.iter().position(|path| *path == draft.from).unwrap_or(usize::MAX);
    let is_alone = |draft: &&Draft| {
        !["pitfalls/", "surveys/", "upstream/", "scenarios/"].iter().any(|folder| draft.path.starts_with(folder))
    };
    let mut others: Vec<&Draft> = parts.documents.iter().filter(is_alone).collect();
    others.sort_by_key(|draft| (draft.path != "documentation.md", draft.path != "program.md", place(draft)));
    entries.extend(others.into_iter().map(|draft| Entry::page(draft, Vec::new())));
    entries.extend(["upstream", "scenarios"].into_iter().filter_map(|name| folder(name, parts.documents)));
    entries
}

/// The index of a folder, with its pages.
fn folder(name: &str, documents: &[Draft]) -> Option<Entry> {
    let own: Vec<&Draft> = documents.iter().filter(|draft| draft.path.starts_with(&format!("{name}/"))).collect();
    let index = own.iter().find(|draft| draft.path.ends_with("/index.md"))?;
    let others = own.iter().filter(|draft| draft.path != index.path);
    Some(Entry::page(index, others.map(|draft| Entry::page(draft, Vec::new())).collect()))
}
