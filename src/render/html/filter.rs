//! A filter of rows without a script: radio buttons, and a style that hides what the chosen one does not select. A
//! browser that does not know `:has` shows all rows and no filter.

use std::fmt::Write as _;

use cuda_pitfalls_core::text::escape::escape_html;

/// A choice of a filter.
pub(crate) struct FilterChoice {
    /// The class of the rows that it shows: letters, digits and hyphens.
    pub(crate) class: String,
    /// The name of the choice; not escaped yet.
    pub(crate) name: String,
    pub(crate) count: usize,
}

/// The class of everything that filters may hide.
pub(crate) const ROW: &str = "row";

/// Returns a filter with `all` chosen; empty without choices. `id` distinguishes it from other filters of the page.
pub(crate) fn filter(
    id: &str,
    legend: &str,
    all: (&str, usize),
    choices: &[FilterChoice],
) -> String {
    if choices.len() < 2 {
        return String::new();
    }
    let mut out = format!(
        "<fieldset class=\"filter\"><legend>{}</legend>\n<style>",
        escape_html(legend)
    );
    for FilterChoice { class, .. } in choices {
        let _ = write!(
            out,
            "body:has(#{id}-{class}:checked) .{ROW}:not(.{class}) {{ display: none !important; }}"
        );
    }
    out.push_str("</style>\n");
    let others = choices.iter().map(|choice| {
        (
            choice.class.as_str(),
            choice.name.as_str(),
            choice.count,
            "",
        )
    });
    for (class, name, count, checked) in
        std::iter::once(("all", all.0, all.1, " checked")).chain(others)
    {
        let _ = writeln!(
            out,
            "<label class=\"{class}\"><input type=\"radio\" name=\"{id}\" id=\"{id}-{class}\"{checked}>{} {count}</label>",
            escape_html(name)
        );
    }
    out.push_str("</fieldset>\n");
    out
}
