//! Where a file of the repository is in the site.

use std::collections::{BTreeMap, BTreeSet};

use super::Sources;

/// The document that lists the others.
pub(super) const INDEX: &str = "docs/README.md";

/// Pages by paths in the repository.
pub(super) struct Places {
    pages: BTreeMap<String, String>,
    pictures: BTreeSet<String>,
    repository: Option<String>,
}

/// What a link leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A page or a picture, by its path in the source of the book, with the anchor.
    Here(String),
    /// A file or a folder of the repository that is no page.
    File(String),
    /// Another site, or a place on the same page.
    Elsewhere,
}

impl Places {
    /// The pages that documents become.
    pub(super) fn of(sources: &Sources) -> Places {
        let mut pages: BTreeMap<String, String> =
            sources.documents.keys().map(|path| (path.clone(), page_path(path))).collect();
        // A link to a folder leads to its index.
        for subject in cuda_pitfalls::scenario::subject::all() {
            let folder = format!("{}/{}", crate::page::FOLDER, subject.folder);
            pages.insert(folder.clone(), format!("{}/index.md", page_path(&folder)));
        }
        let folders = pages
            .clone()
            .into_iter()
            .filter_map(|(path, page)| Some((path.strip_suffix("/README.md")?.to_owned(), page)));
        pages.extend(folders.collect::<Vec<_>>());
        Places { pages, pictures: sources.pictures.clone(), repository: sources.repository.clone() }
    }

    /// The page of a document.
    pub(super) fn page(&self, path: &str) -> Option<&str> {
        self.pages.get(path).map(String::as_str)
    }

    /// The address of a file of the repository that is no page, if it can be read somewhere.
    pub(super) fn address(&self, path: &str) -> Option<String> {
        self.repository.as_ref().map(|repository| format!("{}/{path}", repository.trim_end_matches('/')))
    }

    /// What a link in a document leads to. In a text that was made for the site, it begins with `/`.
    pub(super) fn find(&self, link: &str, from: &str) -> Place {
        if link.starts_with('#') || link.contains("://") || link.starts_with("mailto:") {
            return Place::Elsewhere;
        }
        if let Some(page) = link.strip_prefix('/') {
            return Place::Here(page.to_owned());
        }
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = resolved(file, from);
        let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
        if let Some(page) = self.pages.get(&path) {
            return Place::Here(format!("{page}{anchor}"));
        }
        if self.pictures.contains(&path) { Place::Here(page_path(&path)) } else { Place::File(path) }
    }
}

/// The path of the page that a document becomes. The folder docs/ is the root of the site.
pub(super) fn page_path(path: &str) -> String {
    match path {
        INDEX => return "documentation.md".to_owned(),
        "README.md" => return "program.md".to_owned(),
        _ => {}
    }
    let path = path.strip_prefix("docs/").unwrap_or(path);
    match path.rsplit_once('/') {
        Some((folder, "README.md")) => format!("{folder}/index.md"),
        Some(_) => path.to_owned(),
        None => path.to_lowercase(),
    }
}

/// A path below the root of the repository, from one that starts at a document.
pub(super) fn resolved(link: &str, from: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// A path in the site, from a page on.
pub(super) fn relative(page: &str, to: &str) -> String {
    format!("{}{to}", "../".repeat(page.matches('/').count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_its_page_and_a_link_its_path() {
        let paths = ["docs/README.md", "README.md", "docs/pitfalls/README.md", "docs/trace.md", "CONTRIBUTING.md"];
        let pages = ["documentation.md", "program.md", "pitfalls/index.md", "trace.md", "contributing.md"];
        assert_eq!(paths.map(page_path), pages);
        assert_eq!(resolved("../../reports/x", "docs/pitfalls/a.md"), "reports/x");
        assert_eq!(resolved("context/", "docs/pitfalls/README.md"), "docs/pitfalls/context");
        assert_eq!(relative("pitfalls/a/b.md", "trace.md"), "../../trace.md");
    }
}
