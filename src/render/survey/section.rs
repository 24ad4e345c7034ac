//! A headed table.

use crate::block::{Block, Table, Text};

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
    /// `true` if it is too long for a terminal.
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
