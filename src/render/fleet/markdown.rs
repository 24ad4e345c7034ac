//! A fleet for issue trackers and job summaries.

use std::fmt::Write as _;

use cuda_pitfalls_answers::fleet::Fleet;
use cuda_pitfalls_core::text::escape::markdown;

use super::words::{self, Told};

/// So many differences have a row; a page of an issue tracker is at most 65,536 characters.
const MOST_DIFFERENCES: usize = 50;
/// So many facts of a difference are told.
const MOST_SIDES: usize = 4;
/// So many machines are named where there are more.
const MOST_NAMES: usize = 8;
/// So many groups have a row.
const MOST_GROUPS: usize = 50;

/// The whole page.
pub(super) fn fleet(fleet: &Fleet, docs: Option<&str>) -> String {
    let told = words::told(fleet);
    let mut out = format!("# cuda-pitfalls fleet: {}\n\n", markdown(&words::title(fleet, &told)));
    if let Some(banner) = words::banner(fleet) {
        let _ = writeln!(out, "> **{}**\n", markdown(banner));
    }
    let _ = writeln!(out, "- Read: {}", markdown(&words::input(fleet)));
    for (name, names) in words::expected(fleet, MOST_NAMES) {
        let _ = writeln!(out, "- {name}: {}", markdown(&names));
    }
    for (name, doubt) in words::doubts(fleet, MOST_NAMES) {
        let _ = writeln!(out, "- {name}: {}", markdown(&doubt));
    }
    if let Some(alone) = words::lonely(fleet, MOST_NAMES) {
        let _ = writeln!(out, "- {}", markdown(&alone));
    }
    if let Some(most) = words::most(fleet, &told, MOST_NAMES) {
        let _ = writeln!(out, "- Differ most: {}", markdown(&most));
    }
    out.push_str("\n## What differs\n\n");
    if told.is_empty() {
        out.push_str("No machine differs from the others of its group.\n");
    } else {
        out.push_str("From what is usual in the group, the most important first.\n\n");
        out.push_str("| | question | differs in | usual | these | machines | group |\n");
        out.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    }
    for (place, one) in told.iter().enumerate().take(MOST_DIFFERENCES) {
        difference(&mut out, place + 1, one, docs);
    }
    if told.len() > MOST_DIFFERENCES {
        let _ =
            writeln!(out, "\nAnd {} more; `--as html`, `csv` and `json` have them all.", told.len() - MOST_DIFFERENCES);
    }
    out.push_str("\n## Groups\n\nMachines are compared only within a group.\n\n");
    out.push_str("| group | machines |\n| --- | --- |\n");
    for (place, group) in fleet.groups.iter().enumerate().take(MOST_GROUPS) {
        let key = markdown(&words::key(&group.key));
        let _ = writeln!(out, "| {key} | {} |", words::group(group, &told, place));
    }
    if fleet.groups.len() > MOST_GROUPS {
        let _ = writeln!(out, "\nAnd {} more.", fleet.groups.len() - MOST_GROUPS);
    }
    out
}

fn difference(out: &mut String, number: usize, one: &Told<'_>, docs: Option<&str>) {
    let name = match (one.page, docs) {
        (Some(page), Some(docs)) => format!("[{}](<{}>)", markdown(one.name), destination(&words::link(docs, page))),
        _ => markdown(one.name),
    };
    let name = if one.question.is_empty() { name } else { format!("{name}<br>{}", markdown(one.question)) };
    let side = |part: fn(&words::Side) -> &String, count: usize| {
        let mut lines: Vec<String> =
            one.sides.iter().take(MOST_SIDES).map(|side| markdown(&format!("{}: {}", side.of, part(side)))).collect();
        if one.sides.len() > MOST_SIDES {
            lines.push(format!("and {} more", one.sides.len() - MOST_SIDES));
        }
        lines.push(format!("({count})"));
        lines.join("<br>")
    };
    let _ = writeln!(
        out,
        "| {number} | {name} | {} | {} | {} | {} | {} |",
        markdown(&one.share()),
        side(|side| &side.usual, one.difference.usual_machines),
        side(|side| &side.these, one.these()),
        markdown(&words::names(&one.machines, MOST_NAMES)),
        markdown(&one.group),
    );
}

/// The destination of a link, in which nothing ends it, the cell or the line.
fn destination(link: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#@!$&*+,;=%".contains(c);
    link.chars().filter(|c| plain(*c)).collect()
}
