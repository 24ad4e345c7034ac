//! A Markdown table without its empty columns.

/// Rows below a heading. Cells are Markdown.
pub(super) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Table {
        Table { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub(super) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| cell.into().replace('|', "\\|")).collect());
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Writes the table after an empty line; nothing if it has no rows.
    pub(super) fn write(&self, out: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        let says_something =
            |column: &usize| self.rows.iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()));
        let columns: Vec<usize> = (0..self.head.len()).filter(says_something).collect();
        let line = |cells: &[String]| {
            let cells: Vec<&str> = columns.iter().map(|column| cells.get(*column).map_or("", String::as_str)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        out.push('\n');
        out.push_str(&line(&self.head));
        out.push_str(&format!("| {} |\n", vec!["---"; columns.len()].join(" | ")));
        for row in &self.rows {
            out.push_str(&line(row));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_columns_are_left_out() {
        let mut table = Table::new(["a", "b", "c"]);
        table.row(["1", "", "3"]);
        table.row(["", "", "6|7"]);
        let mut out = String::new();
        table.write(&mut out);
        assert_eq!(out, "\n| a | c |\n| --- | --- |\n| 1 | 3 |\n|  | 6\\|7 |\n");
    }
}
