//! A Markdown table without its empty columns.

use std::fmt::Write as _;

/// Rows below a heading. Cells are Markdown.
pub(super) struct MarkdownTable {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl MarkdownTable {
    pub(super) fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> MarkdownTable {
        MarkdownTable {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(
            cells
                .into_iter()
                .map(|cell| cell.into().replace('|', "\\|"))
                .collect(),
        );
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Writes the table after an empty line; nothing if it has no rows.
    pub(super) fn write(&self, out: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        let columns: Vec<usize> = (0..self.head.len())
            .filter(|column: &usize| {
                self.rows
                    .iter()
                    .any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()))
            })
            .collect();
        let rules = vec!["---".to_owned(); self.head.len()];
        out.push('\n');
        for row in [&self.head, &rules].into_iter().chain(&self.rows) {
            let cells: Vec<&str> = columns
                .iter()
                .map(|column| row.get(*column).map_or("", String::as_str))
                .collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_columns_are_left_out() {
        let mut table = MarkdownTable::new(["a", "b", "c"]);
        table.row(["1", "", "3"]);
        table.row(["", "", "6|7"]);
        let mut out = String::new();
        table.write(&mut out);
        assert_eq!(out, "\n| a | c |\n| --- | --- |\n| 1 | 3 |\n|  | 6\\|7 |\n");
    }
}
