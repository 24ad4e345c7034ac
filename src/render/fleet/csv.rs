//! A fleet for spreadsheets: RFC 4180, a row for each machine that differs or is missing.
//!
//! A spreadsheet runs a cell that begins like a formula, whatever it is. Such text gets an apostrophe before it, by
//! which spreadsheets know text; figures of ours, which may begin with a minus, do not.

use cuda_pitfalls_answers::fleet::{Fleet, Key, What};
use cuda_pitfalls_core::text::escape::visible;

use super::words;

const HEADER: &str = "rank,differs_in,machine,question,asks,of,usual,these,usual_machines,these_machines,\
                      usual_median_bytes,these_median_bytes,gpus,driver,libcudart,mig,shared,page,cause\r\n";

pub(super) fn fleet(fleet: &Fleet) -> String {
    let mut out = HEADER.to_owned();
    for name in fleet.expected.iter().flat_map(|expected| &expected.missing) {
        let mut cells: [String; 19] = Default::default();
        (cells[1], cells[2]) = ("missing".to_owned(), text(name));
        row(&mut out, cells);
    }
    let causes = words::numbers(fleet);
    for (place, one) in words::told(fleet).iter().enumerate() {
        let bytes = match &one.difference.what {
            What::Bytes { usual, these, .. } => [usual, these].map(|it| it.median_bytes.to_string()),
            _ => [String::new(), String::new()],
        };
        let join = |part: fn(&words::Side) -> &str| one.sides.iter().map(part).collect::<Vec<_>>().join("; ");
        let of_key = |part: fn(&Key) -> String| {
            fleet.groups.get(one.difference.group).map(|group| part(&group.key)).unwrap_or_default()
        };
        for machine in &one.machines {
            let [usual_bytes, these_bytes] = bytes.clone();
            row(
                &mut out,
                [
                    (place + 1).to_string(),
                    one.rank.name().to_owned(),
                    text(machine),
                    text(one.name),
                    text(one.question),
                    text(&join(|side| &side.of)),
                    text(&join(|side| &side.usual)),
                    text(&join(|side| &side.these)),
                    one.difference.usual_machines.to_string(),
                    one.these().to_string(),
                    usual_bytes,
                    these_bytes,
                    text(&of_key(|key| key.gpus.clone())),
                    text(&of_key(|key| key.driver.clone())),
                    text(&of_key(|key| key.libcudart.clone())),
                    of_key(|key| key.mig.to_string()),
                    of_key(|key| key.shared.to_string()),
                    text(one.page.unwrap_or_default()),
                    causes.get(&place).map(|number| number.to_string()).unwrap_or_default(),
                ],
            );
        }
    }
    out
}

/// Text of others: nothing in it acts, not as a formula either.
fn text(text: &str) -> String {
    let text = visible(text);
    // Some spreadsheets take a full-width sign for the sign.
    let begins = |c: char| matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠');
    if text.trim_start().starts_with(begins) { format!("'{text}") } else { text }
}

/// One record, each cell in quotes if it has to be.
fn row<const N: usize>(out: &mut String, cells: [String; N]) {
    for (place, cell) in cells.iter().enumerate() {
        out.push_str(if place > 0 { "," } else { "" });
        if cell.contains(['"', ',', ';', '\n', '\r']) || cell.starts_with(' ') || cell.ends_with(' ') {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(cell);
        }
    }
    out.push_str("\r\n");
}
