//! A headed table.

use crate::block::{Block, Span, Table, Text, Tone};
use crate::html::filter::{FilterChoice, ROW, filter};

/// A headed table. Nothing in it is escaped yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// Paragraphs in front of the table.
    pub(crate) text: Vec<String>,
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Columns that hold code.
    pub(crate) code: Vec<usize>,
    /// `true` if the table is too long for a terminal.
    pub(crate) only_on_pages: bool,
}

impl Section {
    /// Returns a table, with the columns that hold code.
    pub(crate) fn new(
        title: impl Into<String>,
        header: &[&str],
        rows: Vec<Vec<String>>,
        code: &[usize],
    ) -> Section {
        let header = header.iter().map(|name| (*name).to_owned()).collect();
        Section {
            title: title.into(),
            header,
            rows,
            code: code.to_vec(),
            ..Section::default()
        }
    }

    /// Returns its heading, paragraphs and table; empty if there is nothing below the heading.
    pub(crate) fn blocks(self) -> Vec<Block> {
        if self.rows.is_empty() && self.text.is_empty() {
            return Vec::new();
        }
        let mut blocks = vec![Block::heading(2, self.title)];
        blocks.extend(self.text.into_iter().map(Block::paragraph));
        let mut rows: Vec<Vec<Text>> = Vec::new();
        for cells in self.rows {
            let mut row = Vec::new();
            for (column, cell) in cells.into_iter().enumerate() {
                row.push(if self.code.contains(&column) {
                    Text::code(cell)
                } else {
                    cell.into()
                });
            }
            rows.push(row);
        }
        if !rows.is_empty() {
            blocks.push(Block::Table(Table::new(self.header, rows)));
        }
        if self.only_on_pages {
            vec![Block::OnPages(blocks)]
        } else {
            blocks
        }
    }
}

/// Returns the sections for a browser, with colored cells, behind a filter by their titles. `id` distinguishes the
/// filter from others of the page, and `about` is folded between the two.
pub(crate) fn filtered_sections(
    id: &str,
    legend: &str,
    about: (&str, &'static str),
    sections: Vec<Section>,
) -> Vec<Block> {
    let (mut choices, mut boxes, mut all) = (Vec::new(), Vec::new(), 0);
    for (index, mut section) in sections.into_iter().enumerate() {
        let class = format!("p{index}");
        let count = section.rows.len();
        all += count;
        // What is in parentheses is the number of rows or the machine.
        let name = section.title.split(" (").next().unwrap_or_default();
        if count > 0 {
            choices.push(FilterChoice {
                class: class.clone(),
                name: name.to_owned(),
                count,
            });
        }
        section.only_on_pages = false;
        let mut blocks = section.blocks();
        for block in &mut blocks {
            if let Block::Table(table) = block {
                table.records = Some("rows");
                table.rows.iter_mut().flatten().for_each(color_cell);
            }
        }
        boxes.push(Block::Section {
            id: format!("{id}-{index}"),
            class: format!("{ROW} {class}"),
            blocks,
        });
    }
    let (summary, prose) = about;
    let mut blocks = vec![
        Block::Drawn(filter(id, legend, ("all", all), &choices)),
        Block::Fold(summary.to_owned(), vec![Block::Prose(prose)]),
    ];
    blocks.extend(boxes);
    blocks
}

/// Colors a cell if it is an answer: orange for a pitfall, green for none, and gray for an unknown one.
fn color_cell(cell: &mut Text) {
    let [Span::Plain(text)] = cell.0.as_slice() else {
        return;
    };
    let tone = match text.as_str() {
        "yes" | "with NVML" | "silent" => Tone::Shows,
        "no" | "no with NVML" | "without NVML" | "works" => Tone::Good,
        "already initialized"
        | "not decided without a GPU"
        | "absent"
        | "fails first"
        | "needs a GPU"
        | "two answers"
        | "unknown"
        | "?"
        | "–" => Tone::Dim,
        _ => return,
    };
    *cell = Span::Toned(tone, text.clone()).into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::html;

    #[test]
    fn a_page_filters_sections_and_colors_answers() {
        let row = |cells: [&str; 3]| vec![cells.map(str::to_owned).to_vec()];
        let header = ["call", "reads the mask", "returned"];
        let mut long = Section::new(
            "Not <measured> (1)",
            &header,
            row(["cuB", "no", "999"]),
            &[0],
        );
        long.only_on_pages = true;
        let sections = vec![
            Section::new(
                "First (1)",
                &header,
                row(["yes", "yes", "yes, on gpu0"]),
                &[0],
            ),
            Section {
                title: "Only text".to_owned(),
                text: vec!["One version.".to_owned()],
                ..Section::default()
            },
            long,
        ];
        let page = html::write(&filtered_sections(
            "t",
            "Table",
            ("About", "prose"),
            sections,
        ));
        let wanted = [
            "id=\"t-all\" checked>all 2</label>",
            "id=\"t-p0\">First 1</label>",
            "id=\"t-p2\">Not &lt;measured&gt; 1</label>",
            "<section class=\"row p0\" id=\"t-0\">",
            "<code>yes</code></td><td data-name=\"reads the mask\"><span class=\"shows\">yes</span></td>",
            "<td data-name=\"returned\">yes, on gpu0</td>",
            "<section class=\"row p1\" id=\"t-1\">",
            "<span class=\"good\">no</span></td><td data-name=\"returned\">999</td>",
        ];
        let places = wanted.map(|part| page.find(part).unwrap_or_else(|| panic!("{part}: {page}")));
        assert!(places.is_sorted(), "{places:?}");
        assert!(!page.contains("id=\"t-p1\""), "it has no rows: {page}");
    }
}
