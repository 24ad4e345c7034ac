//! Rows for spreadsheets: RFC 4180.
//!
//! A spreadsheet runs a cell that begins like a formula, whatever it is. Such text gets an apostrophe before it, by
//! which spreadsheets know text; figures of ours, which may begin with a minus, do not.

use cuda_pitfalls_core::text::escape::visible;

/// Text of others: nothing in it acts, not as a formula either.
pub(crate) fn text(text: &str) -> String {
    let text = visible(text);
    // Some spreadsheets take a full-width sign for the sign.
    if text.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) {
        format!("'{text}")
    } else {
        text
    }
}

/// One record, each cell in quotes if it has to be.
pub(crate) fn record<const N: usize>(cells: [String; N]) -> String {
    let quoted = cells.map(|cell| {
        let is_plain = !cell.contains(['"', ',', ';', '\n', '\r']) && cell.trim_matches(' ') == cell;
        if is_plain { cell } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
    });
    quoted.join(",") + "\r\n"
}
