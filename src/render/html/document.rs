//! A page from the Markdown of a survey.
//!
//! The Markdown holds escaped foreign text, but pages do not rely on that: no link, image or tag gets through, except
//! the line break that cells of tables have.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use super::page::{self, POLICY};

const STYLE: &str = include_str!("document.css");

/// What of Markdown's HTML stays HTML.
const BREAK: &str = "<br>";

pub(crate) fn document(title: &str, markdown: &str) -> String {
    let parser = Parser::new_ext(markdown, Options::ENABLE_TABLES);
    let mut body = String::new();
    html::push_html(&mut body, parser.flat_map(kept));
    format!("{}{body}{}", page::head(POLICY, title, STYLE), page::END)
}

/// What of the Markdown the page shows, and as what. A wide table is scrolled by itself.
fn kept(event: Event<'_>) -> Vec<Event<'_>> {
    match event {
        // The files that links lead to are not beside the page.
        Event::Start(Tag::Link { .. } | Tag::Image { .. }) | Event::End(TagEnd::Link | TagEnd::Image) => Vec::new(),
        Event::Html(text) | Event::InlineHtml(text) if &*text == BREAK => vec![Event::InlineHtml(text)],
        Event::Html(text) | Event::InlineHtml(text) => vec![Event::Text(text)],
        Event::Start(Tag::Table(_)) => vec![Event::Html(CowStr::from("<div class=\"wide\">")), event],
        Event::End(TagEnd::Table) => vec![event, Event::Html(CowStr::from("</div>\n"))],
        other => vec![other],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_tables_and_line_breaks_get_through() {
        let text = "# A\n\n| `x` | b |\n| --- | --- |\n| <script>x</script> | [c](http://d)<br>![e](http://f) |\n\n<img src=g>\n";
        let page = document("A & B", text);
        crate::fixture::assert_inert(&page);
        for part in ["<title>A &amp; B</title>", "<code>x</code>", "<td>c<br>e</td>", "&lt;script&gt;", "&lt;img src="]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
