//! Blocks as Markdown, for pages of a repository, issue trackers and job summaries.

use std::fmt::Write as _;

use crate::block::{Block, Entry, Span, Table, Text};
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::escape;

/// The blocks with an empty line between them; facts that follow each other are one list.
pub(crate) fn write(blocks: &[Block]) -> String {
    let mut out = String::new();
    let mut is_after_fact = false;
    for block in blocks {
        let is_fact = matches!(block, Block::Fact(..));
        let written = written(block);
        if !(out.is_empty() || written.is_empty() || is_fact && is_after_fact) {
            out.push('\n');
        }
        out += &written;
        is_after_fact = is_fact;
    }
    out
}

fn written(block: &Block) -> String {
    match block {
        Block::Heading(level, text) => {
            format!("{} {}\n", "#".repeat(*level), inline_markdown(text))
        }
        Block::Paragraph(text) => format!("{}\n", inline_markdown(text)),
        Block::Note(word, text) => format!(
            "{}{}\n",
            escape::escape_markdown(word),
            inline_markdown(text)
        ),
        Block::Banner(text) => format!("> **{}**\n", escape::escape_markdown(text)),
        Block::Badges(badges) => {
            format!(
                "{}\n",
                escape::escape_markdown(&listed(badges.iter().map(|(_, words)| words), ""))
            )
        }
        Block::Prose(text) => format!("{text}\n"),
        Block::Fact(name, text) => format!(
            "- {}: {}\n",
            escape::escape_markdown(name),
            inline_markdown(text)
        ),
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
            let text: String = lines
                .iter()
                .map(|line| escape::visible(line) + "\n")
                .collect();
            fenced_block(language, &text)
        }
        Block::Fold(summary, blocks) => {
            let summary = escape::escape_html(summary);
            format!(
                "<details><summary>{summary}</summary>\n\n{}\n</details>\n",
                write(blocks)
            )
        }
        Block::Entry(Entry {
            title, aside, body, ..
        }) => {
            let title = format!(
                "**{}** {}",
                inline_markdown(title),
                escape::escape_markdown(aside)
            );
            let body = write(body)
                .lines()
                .map(|line| format!("  {line}").trim_end().to_owned() + "\n")
                .collect::<String>();
            format!("- {}\n\n{body}", title.trim_end())
        }
        Block::OnPages(blocks) | Block::Section { blocks, .. } => write(blocks),
        Block::Chart(_) | Block::Drawn(_) | Block::Gap => String::new(),
    }
}

/// A table below its caption. Records are numbered.
fn table_rows(table: &Table) -> String {
    let mut out = if table.caption.is_empty() {
        String::new()
    } else {
        escape::escape_markdown(&table.caption) + "\n\n"
    };
    let number = table.records.map(|_| String::new());
    let names: Vec<String> = number
        .clone()
        .into_iter()
        .chain(
            table
                .columns
                .iter()
                .map(|name| escape::escape_markdown(name)),
        )
        .collect();
    let heads = names
        .iter()
        .map(|name| format!(" {name}").trim_end().to_owned() + " |");
    let _ = writeln!(
        out,
        "|{}\n|{}",
        heads.collect::<String>(),
        " --- |".repeat(names.len())
    );
    for (row, index) in table.rows.iter().zip(1..) {
        let number = number.iter().map(|_| index.to_string());
        let cells: Vec<String> = number.chain(row.iter().map(inline_markdown)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

fn inline_markdown(text: &Text) -> String {
    let written = text.0.iter().map(|span| match span {
        Span::Plain(text) | Span::Toned(_, text) => escape::escape_markdown(text),
        Span::Strong(text) => format!("**{}**", escape::escape_markdown(text)),
        Span::Code(text) => code(text),
        Span::Link { text, to } if to.starts_with('#') => escape::escape_markdown(text),
        Span::Link { text, to } => format!(
            "[{}](<{}>)",
            escape::escape_markdown(text),
            link_destination(to)
        ),
        Span::Fold(summary, items) => {
            format!(
                "{}<br>{}",
                escape::escape_markdown(summary),
                listed(items.iter().map(inline_markdown), "")
            )
        }
        Span::Break => "<br>".to_owned(),
    });
    written.collect()
}

/// Code is not escaped by backslashes; only what ends it or a cell is replaced.
fn code(text: &str) -> String {
    let shown = escape::visible(text).replace('|', "\\|");
    match longest_run(&shown) {
        _ if shown.is_empty() => shown,
        0 => format!("`{shown}`"),
        run => format!("{ticks} {shown} {ticks}", ticks = "`".repeat(run + 1)),
    }
}

/// A fenced block. Its fence is longer than any run of backticks in the text.
pub(crate) fn fenced_block(language: &str, text: &str) -> String {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    format!("{fence}{language}\n{text}{fence}\n")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// The destination of a link, in which nothing ends it, the cell or the line.
fn link_destination(link: &str) -> String {
    link.chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-._~:/?#@!$&*+,;=%".contains(*c))
        .collect()
}
