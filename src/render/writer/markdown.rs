//! Blocks as Markdown, for pages of a repository, issue trackers and job summaries.

use std::fmt::Write as _;

use crate::block::{Block, Entry, Span, Table, Text};
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::escape::{escape_html, escape_markdown, visible};

/// Returns the blocks with an empty line between them; adjacent facts are one list.
pub(crate) fn write(blocks: &[Block]) -> String {
    let mut out = String::new();
    let mut is_after_fact = false;
    for block in blocks {
        let is_fact = matches!(block, Block::Fact(..));
        let markdown = block_markdown(block);
        if !(out.is_empty() || markdown.is_empty() || is_fact && is_after_fact) {
            out.push('\n');
        }
        out += &markdown;
        is_after_fact = is_fact;
    }
    out
}

fn block_markdown(block: &Block) -> String {
    match block {
        Block::Heading(level, text) => {
            format!("{} {}\n", "#".repeat(*level), inline_markdown(text))
        }
        Block::Paragraph(text) => inline_markdown(text) + "\n",
        Block::Note(word, text) => escape_markdown(word) + &inline_markdown(text) + "\n",
        Block::Banner(text) => format!("> **{}**\n", escape_markdown(text)),
        Block::Badges(badges) => {
            let words = listed(badges.iter().map(|(_, words)| words), "");
            escape_markdown(&words) + "\n"
        }
        Block::Prose(text) => format!("{text}\n"),
        Block::Fact(name, text) => {
            format!("- {}: {}\n", escape_markdown(name), inline_markdown(text))
        }
        Block::List(items) => items
            .iter()
            .map(|item| format!("- {}\n", inline_markdown(item)))
            .collect(),
        Block::Numbered(items) => items
            .iter()
            .zip(1..)
            .map(|(item, number)| format!("{number}. {}\n", inline_markdown(item)))
            .collect(),
        Block::Table(table) => table_rows(table),
        Block::Code(language, lines) => {
            let text: String = lines.iter().map(|line| visible(line) + "\n").collect();
            fenced_block(language, &text)
        }
        Block::Fold(summary, blocks) => format!(
            "<details><summary>{}</summary>\n\n{}\n</details>\n",
            escape_html(summary),
            write(blocks)
        ),
        Block::Entry(entry) => entry_item(entry),
        Block::OnPages(blocks) | Block::Section { blocks, .. } => write(blocks),
        Block::Chart(_) | Block::Drawn(_) | Block::Gap => String::new(),
    }
}

/// Returns an item of a list, with its body indented below it.
fn entry_item(entry: &Entry) -> String {
    if entry.title.0.is_empty() {
        return write(&entry.body);
    }
    let title = inline_markdown(&entry.title);
    let aside = escape_markdown(&entry.aside);
    let head = format!("- **{title}** {aside}");
    let mut out = head.trim_end().to_owned() + "\n\n";
    for line in write(&entry.body).lines() {
        out += format!("  {line}").trim_end();
        out.push('\n');
    }
    out
}

/// Returns a table below its caption. Records are numbered.
fn table_rows(table: &Table) -> String {
    let mut out = String::new();
    if !table.caption.is_empty() {
        out += &(escape_markdown(&table.caption) + "\n\n");
    }
    let is_numbered = table.records.is_some();
    let mut columns = table.columns.len();
    out.push('|');
    if is_numbered {
        columns += 1;
        out += " |";
    }
    for name in &table.columns {
        out += format!(" {}", escape_markdown(name)).trim_end();
        out += " |";
    }
    let _ = writeln!(out, "\n|{}", " --- |".repeat(columns));
    for (row, number) in table.rows.iter().zip(1..) {
        let mut cells: Vec<String> = row.iter().map(inline_markdown).collect();
        if is_numbered {
            cells.insert(0, number.to_string());
        }
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

fn inline_markdown(text: &Text) -> String {
    let written = text.0.iter().map(|span| match span {
        Span::Plain(text) | Span::Toned(_, text) => escape_markdown(text),
        Span::Strong(text) => format!("**{}**", escape_markdown(text)),
        Span::Code(text) => code(text),
        Span::Link { text, to } if to.starts_with('#') => escape_markdown(text),
        Span::Link { text, to } => {
            format!("[{}](<{}>)", escape_markdown(text), link_destination(to))
        }
        Span::Fold(summary, items) => {
            format!(
                "{}<br>{}",
                escape_markdown(summary),
                listed(items.iter().map(inline_markdown), "")
            )
        }
        Span::Break => "<br>".to_owned(),
        Span::Chip(_) | Span::Bars(_) => String::new(),
    });
    written.collect()
}

/// Returns inline code. It is not escaped by backslashes; only characters that end it or a cell are replaced.
fn code(text: &str) -> String {
    let shown = visible(text).replace('|', "\\|");
    match longest_run(&shown) {
        _ if shown.is_empty() => shown,
        0 => format!("`{shown}`"),
        run => format!("{ticks} {shown} {ticks}", ticks = "`".repeat(run + 1)),
    }
}

/// Returns a fenced block. Its fence is longer than any run of backticks in the text.
pub(crate) fn fenced_block(language: &str, text: &str) -> String {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    format!("{fence}{language}\n{text}{fence}\n")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Returns the destination of a link, escaped so that nothing in it ends the link, the cell or the line.
fn link_destination(link: &str) -> String {
    link.chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-._~:/?#@!$&*+,;=%".contains(*c))
        .collect()
}
