//! Blocks for a terminal or a log, in lines of a width.

use comfy_table::{ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width};

use crate::block::{Block, Entry, Span, Table, Text};
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_core::text::lines::{UNBROKEN, display_columns, sentence, words};

/// Table style with a line under the header.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
/// The width of the column of names, so that facts line up in all views.
const NAME: usize = 12;
/// The indentation of an entry's body, of code, and of a record's cells.
const INDENT: &str = "    ";

/// Maximum width of a page of text: longer lines are hard to read.
pub(crate) const PAGE: usize = 100;

/// Coloring of words. No information is conveyed by color alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Words only.
    #[default]
    Plain,
    /// Words in ANSI colors.
    Colour,
}

/// Where text is shown: its width in columns, and its coloring.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// The maximum width of a line, in columns.
    pub width: usize,
    /// The coloring of words.
    pub style: Style,
}

impl Screen {
    /// Returns the screen with at most this width.
    pub(crate) fn at_most(self, width: usize) -> Screen {
        let width = self.width.min(width);
        Screen { width, ..self }
    }
}

impl From<usize> for Screen {
    fn from(width: usize) -> Screen {
        let style = Style::Plain;
        Screen { width, style }
    }
}

/// The ANSI codes of headings and names, and of a banner.
const BOLD: &str = "1";
const CONSPICUOUS: &str = "1;33";

impl Style {
    /// Returns the words in the color of this ANSI code.
    pub fn paint_words(self, code: &str, words: &str) -> String {
        match self {
            Style::Plain => words.to_owned(),
            Style::Colour => format!("\x1b[{code}m{words}\x1b[0m"),
        }
    }

    /// Returns each line that is written in the color of this ANSI code.
    fn paint_lines(self, code: &str, write: impl Fn(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        let lines = out.lines();
        let painted = lines.map(|line| self.paint_words(code, line) + "\n");
        painted.collect()
    }
}

/// Returns the blocks on lines of a screen's width, with a newline at the end. Code may be longer.
pub(crate) fn write(blocks: &[Block], screen: impl Into<Screen>) -> String {
    let mut out = String::new();
    write_blocks(&mut out, blocks, screen.into());
    out.lines().map(|line| guard_command(line) + "\n").collect()
}

/// Returns the line with a leading `::` escaped: where a long name is broken, the rest may begin like a command of a CI
/// system.
fn guard_command(line: &str) -> String {
    let body = line.trim_start();
    match body.strip_prefix("::") {
        Some(rest) => format!("{}\\x3a:{rest}", " ".repeat(line.len() - body.len())),
        None => line.to_owned(),
    }
}

fn write_blocks(out: &mut String, blocks: &[Block], screen: Screen) {
    for block in blocks {
        write_block(out, block, screen);
    }
}

fn write_block(out: &mut String, block: &Block, screen: Screen) {
    let Screen { width, style } = screen;
    match block {
        Block::Heading(_, text) => {
            write_gap(out);
            *out += &style.paint_lines(BOLD, |lines| write_text(lines, "", text, width));
        }
        Block::Paragraph(text) => write_text(out, "", text, width),
        Block::Note(word, text) => write_text(out, &style.paint_words(BOLD, word), text, width),
        Block::Banner(text) => {
            *out += &style.paint_lines(CONSPICUOUS, |lines| *lines += &banner_text(text, width));
        }
        Block::Badges(badges) => {
            let words = listed(badges.iter().map(|(_, words)| words), "");
            *out += &sentence("", &words, width);
        }
        Block::Prose(_) | Block::OnPages(_) | Block::Chart(_) | Block::Drawn(_) => {}
        Block::Section { blocks, .. } => write_blocks(out, blocks, screen),
        Block::Fact(name, text) => write_fact(out, "", name, text, screen),
        Block::List(items) => items
            .iter()
            .for_each(|item| write_text(out, "- ", item, width)),
        Block::Numbered(items) => {
            for (item, number) in items.iter().zip(1..) {
                write_text(out, &format!("{number:>2}. "), item, width);
            }
        }
        Block::Table(table) => write_table(out, table, screen),
        Block::Code(_, lines) => lines
            .iter()
            .for_each(|line| *out += &code_line(&escape::terminal(line), width)),
        Block::Fold(summary, blocks) => {
            write_text(out, "", &summary.into(), width);
            write_blocks(out, blocks, screen);
        }
        Block::Entry(entry) => write_entry(out, entry, screen),
        Block::Gap => write_gap(out),
    }
}

fn write_entry(out: &mut String, entry: &Entry, screen: Screen) {
    let title = shown(&entry.title.0);
    *out += &screen.style.paint_lines(BOLD, |lines| {
        write_beside(lines, &title, &entry.aside, screen.width);
    });
    let room = screen.width.saturating_sub(INDENT.len());
    for line in write(&entry.body, screen.at_most(room)).lines() {
        *out += format!("{INDENT}{line}").trim_end();
        out.push('\n');
    }
}

fn write_table(out: &mut String, table: &Table, screen: Screen) {
    if !table.caption.is_empty() {
        *out += &sentence("", &table.caption, screen.width);
    }
    // A table in which names would be broken is one of records.
    match (table.records, table_lines(table, screen)) {
        (Some(_), _) => write_records(out, table, screen),
        (None, Some(lines)) => *out += &lines,
        // An escape of `guard_command` takes three columns.
        (None, None) => write_records(out, table, screen.at_most(screen.width - 3)),
    }
}

/// Writes a text, and a word at the right of its last line, or on a separate line.
fn write_beside(out: &mut String, text: &str, right: &str, width: usize) {
    // Columns that are aligned by two spaces stay aligned.
    let text = escape::terminal(text);
    // Text after a short word in its own column, such as an answer, stays in its column.
    let hang = text
        .split_once("  ")
        .map(|(word, _)| display_columns(word) + 2)
        .filter(|hang| *hang < NAME)
        .unwrap_or(2);
    let text = text.replace("  ", &UNBROKEN.to_string().repeat(2));
    let mut lines = words(&text, width.saturating_sub(hang).max(1));
    lines
        .iter_mut()
        .skip(1)
        .for_each(|line| line.insert_str(0, &" ".repeat(hang)));
    let right = escape::terminal(right);
    let (last, gap) = (
        lines.last().map_or(0, |line| display_columns(line)),
        width.saturating_sub(display_columns(&right)),
    );
    match lines.last_mut() {
        Some(line) if last + 2 <= gap && !right.is_empty() => {
            *line += &format!("{:1$}{right}", "", gap - last)
        }
        _ if gap > 0 => lines.extend((!right.is_empty()).then(|| format!("{:gap$}{right}", ""))),
        _ => lines.extend(words(&right, width)),
    }
    out.extend(lines.into_iter().map(|line| line + "\n"));
}

/// Writes an empty line, unless the output is empty or ends with one.
fn write_gap(out: &mut String) {
    if !out.is_empty() && !out.ends_with("\n\n") {
        out.push('\n');
    }
}

fn write_fact(out: &mut String, indent: &str, name: &str, text: &Text, screen: Screen) {
    let Screen { width, style } = screen;
    let name = escape::terminal(name);
    let fill = NAME.saturating_sub(display_columns(&name)).max(1);
    let head = format!("{indent}{}{:fill$}", style.paint_words(BOLD, &name), "");
    if display_columns(&head) * 2 <= width {
        write_text(out, &head, text, width);
    } else {
        // Next to a name that is too long there is no room.
        let text = Text::from(name + " ").then(text.clone());
        write_text(out, indent, &text, width);
    }
}

/// Writes each row with its number, and its other cells as facts.
fn write_records(out: &mut String, table: &Table, screen: Screen) {
    for (row, number) in table.rows.iter().zip(1..) {
        let mut cells = table.columns.iter().zip(row);
        cells
            .next()
            .into_iter()
            .for_each(|(_, first)| write_text(out, &format!("{number:>2}. "), first, screen.width));
        for (name, cell) in cells.filter(|(_, cell)| !shown(&cell.0).is_empty()) {
            write_fact(out, INDENT, name, cell, screen);
        }
    }
}

/// Writes a text after `head`, with later lines indented to its first word.
fn write_text(out: &mut String, head: &str, text: &Text, width: usize) {
    let indent = " ".repeat(display_columns(head));
    for (index, line) in text.0.split(|span| *span == Span::Break).enumerate() {
        let head = if index == 0 { head } else { &indent };
        match line {
            [Span::Code(code)] => *out += &format!("{head}{}\n", escape::terminal(code)),
            _ => *out += &sentence(head, &shown(line), width),
        }
    }
}

/// Returns the words of a line of a text.
fn shown(line: &[Span]) -> String {
    let words = line.iter().map(|span| match span {
        Span::Plain(text) | Span::Strong(text) | Span::Toned(_, text) | Span::Code(text) => {
            text.clone()
        }
        Span::Link { text, .. } => text.clone(),
        Span::Fold(summary, items) => format!(
            "{summary}: {}",
            listed(items.iter().map(|item| shown(&item.0)), "")
        ),
        Span::Break | Span::Chip(_) | Span::Bars(_) => String::new(),
    });
    words.collect()
}

/// Returns a conspicuous text between rows of asterisks.
fn banner_text(text: &str, width: usize) -> String {
    let lines = words(&escape::terminal(text), width.saturating_sub(8).max(1));
    let longest = lines
        .iter()
        .map(|line| display_columns(line))
        .max()
        .unwrap_or(0);
    let rule = "*".repeat(longest + 8);
    let mut out = format!("{rule}\n");
    for line in lines {
        let fill = " ".repeat(longest.saturating_sub(display_columns(&line)));
        out.push_str(&format!("*** {line}{fill} ***\n"));
    }
    out + &rule + "\n"
}

/// Returns a table; `None` if its columns are too narrow for the longest words in them.
fn table_lines(table: &Table, screen: Screen) -> Option<String> {
    let mut lines = comfy_table::Table::new();
    let width = u16::try_from(screen.width).unwrap_or(u16::MAX);
    lines
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
    lines.load_style(STYLE);
    let is_bare = table.columns.iter().all(String::is_empty);
    let names: Vec<Text> = table.columns.iter().map(Text::from).collect();
    if !is_bare {
        lines.set_header(table.columns.iter().map(|name| escape::terminal(name)));
    }
    for row in &table.rows {
        lines.add_row(row.iter().map(|cell| {
            let lines = cell.0.split(|span| *span == Span::Break);
            let lines = lines.map(|line| escape::terminal(&shown(line)));
            lines.collect::<Vec<_>>().join("\n")
        }));
    }
    // Names are searched for and copied.
    let mut least = vec![0; names.len()];
    for row in table.rows.iter().chain([&names]) {
        for (index, (columns, cell)) in least.iter_mut().zip(row).enumerate() {
            *columns = (*columns).max(match index {
                0 if is_bare => display_columns(&shown(&cell.0)).min(screen.width / 5 * 3),
                _ => longest_word(cell),
            });
        }
    }
    if is_bare {
        least.truncate(1);
    } else if least.iter().map(|columns| columns + 2).sum::<usize>() > screen.width + 1 {
        return None;
    }
    for (index, column) in lines.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if let Some(Ok(columns)) = least.get(index).map(|columns| u16::try_from(columns + 1)) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(columns)));
        }
    }
    let mut out = String::new();
    for line in lines.lines() {
        let painted = match line.split_once("  ") {
            Some((name, rest)) if is_bare && !name.is_empty() => {
                format!("{}  {rest}", screen.style.paint_words(BOLD, name))
            }
            _ => line,
        };
        out += painted.trim_end();
        out.push('\n');
    }
    Some(out)
}

/// Returns the columns of the longest word of a cell.
fn longest_word(cell: &Text) -> usize {
    let mut longest = 0;
    for line in cell.0.split(|span| *span == Span::Break) {
        for word in escape::terminal(&shown(line)).split(' ') {
            longest = longest.max(display_columns(word));
        }
    }
    longest
}

/// Returns a line of a program, which is broken only if it is too long: at a space, with the rest indented further.
fn code_line(line: &str, width: usize) -> String {
    if display_columns(line) + INDENT.len() <= width {
        return format!("{INDENT}{line}\n");
    }
    let inner = line.trim_start_matches(' ');
    let indent = " ".repeat(INDENT.len() + line.len() - inner.len());
    let parts = words(
        inner,
        width.saturating_sub(indent.len() + INDENT.len()).max(20),
    );
    let heads = std::iter::once("").chain(std::iter::repeat(INDENT));
    parts
        .iter()
        .zip(heads)
        .map(|(part, head)| format!("{indent}{head}{part}\n"))
        .collect()
}
