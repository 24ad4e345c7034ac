//! Blocks as parts of a page.
//!
//! The page is stricter than it needs to be: even in our own Markdown, no link, image or tag gets through.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::block::{Block, Entry, Span, Table, Text, Tone};
use crate::html::page::{self, element, fold_element};
use crate::svg;
use cuda_pitfalls_core::text::escape::escape_html;

const STYLE: &str = include_str!("html/document.css");
const SORT: &str = include_str!("html/sort.js");

/// Returns a page that consists of these blocks.
pub(crate) fn page(title: &str, blocks: &[Block]) -> String {
    page::page_head(page::POLICY, title, STYLE) + &write(blocks) + page::END
}

/// Returns a page whose tables can be sorted by a column.
pub(crate) fn sortable_page(title: &str, blocks: &[Block]) -> String {
    let head = page::page_head(&page::script_policy(SORT), title, STYLE);
    head + &write(blocks) + &format!("<script>{SORT}</script>\n") + page::END
}

/// Returns the blocks as HTML elements.
pub(crate) fn write(blocks: &[Block]) -> String {
    blocks
        .iter()
        .map(|block| block_html(block) + "\n")
        .collect()
}

fn block_html(block: &Block) -> String {
    match block {
        Block::Heading(level, text) => {
            let words = inline_html(text);
            let anchor = heading_anchor(&words);
            format!("<h{level} id=\"{anchor}\">{words}</h{level}>")
        }
        Block::Paragraph(text) => element("p", "", &inline_html(text)),
        Block::Note(word, text) => element("p", "", &(escape_html(word) + &inline_html(text))),
        Block::Banner(text) => {
            format!(
                "<p class=\"banner\" role=\"alert\">{}</p>",
                escape_html(text)
            )
        }
        Block::Badges(badges) => badges_html(badges),
        Block::Prose(markdown) => prose_html(markdown),
        Block::Fact(name, text) => {
            let fact = format!("{}: {}", escape_html(name), inline_html(text));
            element("p", "", &fact)
        }
        Block::List(items) => list("ul", items),
        Block::Numbered(items) => list("ol", items),
        Block::Table(table) => table_rows(table),
        Block::Code(_, lines) => {
            let code: String = lines.iter().map(|line| escape_html(line) + "\n").collect();
            element("pre", "", &element("code", "", &code))
        }
        Block::Fold(summary, blocks) => fold_element(summary, &write(blocks)),
        Block::Entry(entry) => entry_html(entry),
        Block::Section { class, id, blocks } => format!(
            "<section class=\"{}\" id=\"{}\">\n{}</section>",
            escape_html(class),
            escape_html(id),
            write(blocks)
        ),
        Block::Chart(chart) => svg::draw_chart(chart),
        Block::Drawn(elements) => elements.clone(),
        Block::OnPages(blocks) => write(blocks),
        Block::Gap => String::new(),
    }
}

fn badges_html(badges: &[(Tone, String)]) -> String {
    let mut elements = String::new();
    for (tone, words) in badges {
        let class = format!("badge {}", tone_class(*tone));
        elements += &element("span", &class, &escape_html(words));
        elements.push(' ');
    }
    element("p", "counts", &elements)
}

fn entry_html(entry: &Entry) -> String {
    let mut title = String::new();
    if !entry.title.0.is_empty() {
        let aside = element("span", "when", &escape_html(&entry.aside));
        let words = format!("{} {aside}", inline_html(&entry.title));
        title = element("p", "title", &words) + "\n";
    }
    format!(
        "<article class=\"{}\" id=\"{}\">\n{title}{}</article>",
        escape_html(&entry.class),
        escape_html(&entry.id),
        write(&entry.body)
    )
}

fn list(tag: &str, items: &[Text]) -> String {
    let mut elements = String::new();
    for item in items {
        elements += &element("li", "", &inline_html(item));
        elements.push('\n');
    }
    element(tag, "", &elements)
}

/// Returns a table, which scrolls by itself if it is wide.
fn table_rows(table: &Table) -> String {
    let names: Vec<String> = table.columns.iter().map(|name| escape_html(name)).collect();
    let heads: String = names
        .iter()
        .map(|name| format!("<th scope=\"col\">{name}</th>"))
        .collect();
    let mut rows = String::new();
    for (index, cells) in table.rows.iter().enumerate() {
        let mut row = String::new();
        for (name, cell) in names.iter().zip(cells) {
            row += &match table.records {
                Some(_) => format!("<td data-name=\"{name}\">{}</td>", inline_html(cell)),
                None => element("td", "", &inline_html(cell)),
            };
        }
        let class = table.classes.get(index).map_or("", String::as_str);
        rows += &element("tr", class, &row);
        rows.push('\n');
    }
    let caption = if table.caption.is_empty() {
        String::new()
    } else {
        element("caption", "", &escape_html(&table.caption))
    };
    let parts = format!(
        "{caption}<thead>{}</thead>\n<tbody>\n{rows}</tbody>",
        element("tr", "", &heads)
    );
    let class = match table.records {
        Some(class) => format!("summary {class}"),
        None => String::new(),
    };
    element("div", "wide", &element("table", &class, &parts))
}

/// Returns the anchor of a heading: its words, with hyphens between them.
fn heading_anchor(heading: &str) -> String {
    let words = heading
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

fn inline_html(text: &Text) -> String {
    let written = text.0.iter().map(|span| match span {
        Span::Plain(text) => escape_html(text),
        Span::Strong(text) => element("strong", "", &escape_html(text)),
        Span::Toned(tone, text) => element("span", tone_class(*tone), &escape_html(text)),
        Span::Code(text) if text.is_empty() => String::new(),
        Span::Code(text) => element("code", "", &escape_html(text)),
        Span::Link { text, to } => {
            format!("<a href=\"{}\">{}</a>", escape_html(to), escape_html(text))
        }
        Span::Fold(summary, items) => fold_element(summary, &list("ul", items)),
        Span::Break => "<br>".to_owned(),
        Span::Bars(percents) => {
            let bars = percents.map(|percent| match percent {
                101.. => "<i class=\"cut\" style=\"width:100%\"></i>".to_owned(),
                _ => format!("<i style=\"width:{percent}%\"></i>"),
            });
            format!(
                "<span class=\"bars\" aria-hidden=\"true\">{}</span>",
                bars.concat()
            )
        }
        Span::Chip(color) => element("span", &format!("chip g{color}"), ""),
    });
    written.collect()
}

pub(crate) fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Dim => "dim",
        Tone::Plain => "plain",
        Tone::Good => "good",
        Tone::Shows => "shows",
        Tone::Doubt => "doubt",
        Tone::Bad => "bad",
    }
}

/// Returns our own Markdown as HTML without its links, because their files are not part of the page.
fn prose_html(markdown: &str) -> String {
    let kept = Parser::new_ext(markdown, Options::empty()).filter_map(|event| match event {
        Event::Start(Tag::Link { .. } | Tag::Image { .. })
        | Event::End(TagEnd::Link | TagEnd::Image) => None,
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        other => Some(other),
    });
    let mut out = String::new();
    pulldown_cmark::html::push_html(&mut out, kept);
    out
}
