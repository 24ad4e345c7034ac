//! Links of documents as links of the site.

use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{Event, LinkType, OffsetIter, Options, Parser, Tag, TagEnd};

use super::places::{Place, Places, relative, resolved};
use super::write;

/// A text with the links of the site.
pub(super) struct Rewritten {
    pub(super) text: String,
    /// What it names below `reports/`, by links and as code.
    pub(super) named: BTreeSet<String>,
}

/// A part of the text, and what comes in its place.
type Edit = (Range<usize>, String);

/// What mdBook reads, too.
fn parser(text: &str) -> OffsetIter<'_> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_HEADING_ATTRIBUTES;
    Parser::new_ext(text, options).into_offset_iter()
}

/// Makes each link of a text one of the site. A link to a file that is no page becomes the file's path. Headings lose
/// their angle brackets: mdBook's search shows headings as HTML.
pub(super) fn rewrite(text: &str, page: &str, from: &str, places: &Places) -> Rewritten {
    let (mut edits, mut named, mut in_heading) = (Vec::new(), BTreeSet::new(), false);
    for (event, range) in parser(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => in_heading = true,
            Event::End(TagEnd::Heading(_)) => in_heading = false,
            Event::Start(
                Tag::Link { link_type: LinkType::Inline, dest_url, .. }
                | Tag::Image { link_type: LinkType::Inline, dest_url, .. },
            ) => {
                named.extend(report(&dest_url, from));
                edits.extend(edited(text, range, &dest_url, &places.find(&dest_url, from), page, places));
            }
            Event::Code(code) => {
                named.insert(code.strip_prefix("reports/").unwrap_or(&code).to_owned());
                if in_heading && code.contains(['<', '>']) {
                    let words = text.get(range.clone()).unwrap_or_default();
                    edits.push((range, write::title(words)));
                }
            }
            Event::Text(words) if in_heading && words.contains(['<', '>']) => {
                edits.push((range, write::title(&words)));
            }
            _ => {}
        }
    }
    Rewritten { text: applied(text, edits), named }
}

/// What a link names below `reports/`.
fn report(link: &str, from: &str) -> Option<String> {
    let is_ours = !link.contains("://") && !link.starts_with(['#', '/']);
    let path = is_ours.then(|| resolved(link.split('#').next().unwrap_or_default(), from))?;
    Some(path.strip_prefix("reports/")?.to_owned())
}

/// What changes at a link.
fn edited(text: &str, range: Range<usize>, link: &str, place: &Place, page: &str, places: &Places) -> Vec<Edit> {
    let whole = text.get(range.clone()).unwrap_or_default();
    let Some((words, _)) = whole.rsplit_once("](") else { return Vec::new() };
    let at = range.start + words.len() + 2;
    let destination = at..at + link.len();
    match place {
        Place::Elsewhere => Vec::new(),
        Place::Here(to) => vec![(destination, relative(page, to))],
        Place::File(path) => match places.address(path) {
            Some(address) => vec![(destination, address)],
            None => vec![(range, named_file(words.trim_start_matches('['), path))],
        },
    }
}

/// The words of a link with the path of its file.
fn named_file(words: &str, path: &str) -> String {
    if words.trim_matches('`') == path { format!("`{path}`") } else { format!("{words} (`{path}`)") }
}

fn applied(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    for (range, new) in edits {
        // A picture within a link: the outer one was edited.
        if range.start < done {
            continue;
        }
        out.push_str(text.get(done..range.start).unwrap_or_default());
        out.push_str(&new);
        done = range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// The first heading, as plain text.
pub(super) fn title(text: &str) -> Option<String> {
    let events = parser(text).map(|(event, _)| event);
    let heading = events.skip_while(|event| !matches!(event, Event::Start(Tag::Heading { .. })));
    let words = heading.take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let words: String = words
        .map(|event| match event {
            Event::Text(words) | Event::Code(words) => words.into_string(),
            Event::SoftBreak => " ".to_owned(),
            _ => String::new(),
        })
        .collect();
    (!words.is_empty()).then_some(words)
}

/// The paths in the repository that the links of a document lead to, in their order.
pub(super) fn targets(text: &str, from: &str) -> Vec<String> {
    let links = parser(text).filter_map(|(event, _)| match event {
        Event::Start(Tag::Link { dest_url, .. }) if !dest_url.contains("://") => Some(dest_url.into_string()),
        _ => None,
    });
    links.map(|link| resolved(link.split('#').next().unwrap_or_default(), from)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Sources;
    use super::*;

    fn places(repository: Option<&str>) -> Places {
        let documents = ["docs/a.md", "docs/sub/b.md"].map(|path| (path.to_owned(), String::new()));
        let pictures = BTreeSet::from(["docs/c.png".to_owned()]);
        let repository = repository.map(str::to_owned);
        Places::of(&Sources { documents: documents.into(), pictures, repository, ..Sources::default() })
    }

    #[test]
    fn a_link_leads_to_the_page_and_a_file_is_named() {
        let text = "[x](../a.md#y) [`reports/r`](../../reports/r) [r](../../reports/r/report.json) ![p](../c.png) \
                    <https://e.org> [up](#z) `[no](../a.md)`";
        let made = rewrite(text, "sub/b.md", "docs/sub/b.md", &places(None));
        let expected = "[x](../a.md#y) `reports/r` r (`reports/r/report.json`) ![p](../c.png) <https://e.org> \
                        [up](#z) `[no](../a.md)`";
        assert_eq!(made.text, expected);
        assert!(made.named.contains("r") && made.named.contains("r/report.json"), "{:?}", made.named);
        let made = rewrite(text, "sub/b.md", "docs/sub/b.md", &places(Some("https://e.org/blob/main/")));
        assert!(made.text.contains("[r](https://e.org/blob/main/reports/r/report.json)"), "{}", made.text);
    }

    #[test]
    fn links_of_the_site_itself_start_at_its_root() {
        let made = rewrite("[x](/sub/b.md#y)\n\n# A <b> `<c>` &lt;d&gt;\n", "errors/1.md", "", &places(None));
        assert!(made.text.starts_with("[x](../sub/b.md#y)"), "{}", made.text);
        let heading = made.text.lines().last().unwrap_or_default();
        assert!(!heading.replace("<b>", "").contains(['<', '>']) && !heading.contains("&lt;"), "{heading}");
    }
}
