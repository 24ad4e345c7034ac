//! Orders of a table's rows without a script: radio buttons, and a style that gives each row the rank of the chosen
//! one. A browser that does not know `:has` shows the rows as they are written, and no buttons.

use std::fmt::Write as _;

use super::page::element;
use crate::block::RowOrders;
use cuda_pitfalls_core::text::escape::html;

/// The buttons; nothing where there is nothing to choose.
pub(crate) fn choice(RowOrders { id, names, .. }: &RowOrders) -> String {
    if names.len() < 2 {
        return String::new();
    }
    let id = html(id);
    let mut out = "<fieldset class=\"filter\"><legend>Sorted by</legend>\n<style>".to_owned();
    for index in 1..names.len() {
        let _ = write!(
            out,
            "body:has(#{id}-{index}:checked) .{id} td {{ order: var(--rank-{index}); }}"
        );
    }
    out.push_str("</style>\n");
    for (index, name) in names.iter().enumerate() {
        let checked = if index == 0 { " checked" } else { "" };
        let _ = writeln!(
            out,
            "<label><input type=\"radio\" name=\"{id}\" id=\"{id}-{index}\"{checked}>{}</label>",
            html(name)
        );
    }
    out + "</fieldset>\n"
}

/// The table with the parts that it holds, laid out so that its rows can change places.
pub(crate) fn table(
    RowOrders { id, names, .. }: &RowOrders,
    columns: usize,
    class: &str,
    parts: &str,
) -> String {
    match names.len() {
        0 | 1 => element("table", class, parts),
        _ => format!(
            "<table class=\"sorted {} {class}\" style=\"--columns:{columns}\">{parts}</table>",
            html(id)
        ),
    }
}

/// A row with its cells and its ranks.
pub(crate) fn row(ranks: &[usize], class: &str, cells: &str) -> String {
    let row = element("tr", class, cells);
    let ranks = ranks
        .iter()
        .enumerate()
        .skip(1)
        .map(|(index, rank)| format!("--rank-{index}:{rank};"));
    match ranks.collect::<String>() {
        style if style.is_empty() => row,
        style => row.replacen("<tr", &format!("<tr style=\"{style}\""), 1),
    }
}
