//! A Markdown table without its empty columns.

/// Rows below a heading. Cells are Markdown.
pub(crate) struct MarkdownTable {
    /// The heading, the rule below it, and the rows.
    lines: Vec<Vec<String>>,
}

impl MarkdownTable {
    pub(crate) fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> MarkdownTable {
        let head: Vec<String> = head.into_iter().map(Into::into).collect();
        let rule = vec!["---".to_owned(); head.len()];
        MarkdownTable {
            lines: vec![head, rule],
        }
    }

    /// Adds a row, whose last cells may be left out. A `|` in a cell is escaped unless it is already.
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.lines[0].len(), String::new());
        for cell in &mut row {
            *cell = cell.replace("\\|", "|").replace('|', "\\|");
        }
        self.lines.push(row);
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.lines.len() - 2
    }

    /// Returns an empty line and the table, or an empty text if the table has no rows.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        let (head, rows) = (&self.lines[0], &self.lines[2..]);
        if rows.is_empty() {
            return out;
        }
        let mut is_shown = vec![false; head.len()];
        for row in rows {
            for (cell, is_shown) in row.iter().zip(&mut is_shown) {
                *is_shown |= !cell.is_empty();
            }
        }
        for line in &self.lines {
            out.push_str("\n|");
            for (cell, is_shown) in line.iter().zip(&is_shown) {
                if *is_shown {
                    out.push_str(&format!(" {cell} |"));
                }
            }
        }
        out.push('\n');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_columns_are_left_out() {
        let mut table = MarkdownTable::new(["a", "b", "c"]);
        assert_eq!(table.to_text(), "");
        table.row(["1", "", "3"]);
        table.row(["", "", "6|7\\|8"]);
        assert_eq!(
            table.to_text(),
            "\n| a | c |\n| --- | --- |\n| 1 | 3 |\n|  | 6\\|7\\|8 |\n"
        );
        assert_eq!(table.len(), 2);
    }
}
