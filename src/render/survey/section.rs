//! A headed table, as text and as Markdown.

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

use cuda_pitfalls_core::text::escape;

/// One line under the header.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
/// The widest line. Nearly every name of a call stays whole in it, so that it can be searched for.
const WIDTH: u16 = 140;

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
    /// Whether it is too long for a terminal.
    pub(crate) only_on_pages: bool,
}

impl Section {
    /// A table, with the columns that hold code.
    pub(crate) fn new(title: impl Into<String>, header: &[&str], rows: Vec<Vec<String>>, code: &[usize]) -> Section {
        let header = header.iter().map(|name| (*name).to_owned()).collect();
        Section { title: title.into(), header, rows, code: code.to_vec(), ..Section::default() }
    }

    pub(crate) fn text(&self) -> String {
        let mut out = format!("{}\n", escape::terminal(&self.title));
        for paragraph in &self.text {
            out.push_str(&format!("{}\n", escape::terminal(paragraph)));
        }
        if self.rows.is_empty() {
            return out;
        }
        let mut table = Table::new();
        table.force_no_tty().set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
        table.load_style(STYLE).set_header(self.header.iter().map(|name| escape::terminal(name)));
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| escape::terminal(cell)));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 1));
        }
        for line in table.lines() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("## {}\n", escape::markdown(&self.title));
        for paragraph in &self.text {
            out.push_str(&format!("\n{}\n", escape::markdown(paragraph)));
        }
        if self.rows.is_empty() {
            return out;
        }
        let header: Vec<_> = self.header.iter().map(|name| escape::markdown(name)).collect();
        out.push_str(&format!("\n| {} |\n|{}\n", header.join(" | "), " --- |".repeat(header.len())));
        for row in &self.rows {
            let cells = row.iter().enumerate().map(|(column, cell)| self.cell(column, cell));
            out.push_str(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")));
        }
        out
    }

    fn cell(&self, column: usize, cell: &str) -> String {
        if !self.code.contains(&column) || cell.is_empty() {
            return escape::markdown(cell);
        }
        // Code is not escaped by backslashes; only what ends it or the cell is replaced.
        let shown = escape::visible(cell).replace('|', "\\|");
        if shown.contains('`') { format!("`` {shown} ``") } else { format!("`{shown}`") }
    }
}

#[cfg(test)]
mod tests {
    use super::Section;

    #[test]
    fn cells_of_code_stay_as_they_are_and_others_are_escaped() {
        let section = Section::new("T", &["a", "b"], vec![vec!["x|`y".into(), "1*2".into()]], &[0]);
        assert!(section.markdown().contains("| `` x\\|`y `` | 1\\*2 |"), "{}", section.markdown());
        assert!(section.text().contains("x|`y"), "{}", section.text());
    }
}
