//! A fleet for issue trackers and job summaries.

use std::fmt::Write as _;

use cuda_pitfalls_answers::fleet::Fleet;
use cuda_pitfalls_core::text::escape::markdown;

use super::findings::{Finding, findings};
use super::standing;
use super::words::{self, Remark};
use crate::markdown::table;

/// So many causes have a row; a page of an issue tracker is at most 65,536 characters.
const MOST_CAUSES: usize = 50;
/// So many machines are named where there are more.
const MOST_NAMES: usize = 8;
const MOST_GROUPS: usize = 50;

pub(super) fn fleet(fleet: &Fleet, docs: Option<&str>) -> String {
    let told = words::told(fleet);
    let mut out = format!("# cuda-pitfalls fleet: {}\n\n", markdown(&words::title(fleet, &told)));
    if let Some(banner) = words::banner(fleet) {
        let _ = writeln!(out, "> **{}**\n", markdown(banner));
    }
    let _ = writeln!(out, "- Read: {}", markdown(&words::input(fleet)));
    let few = standing::few(fleet);
    for Remark { name, text, .. } in words::remarks(fleet, &told, &few, MOST_NAMES) {
        let _ = writeln!(out, "- {name}: {}", markdown(&text));
    }
    out.push_str("\n## What differs\n\n");
    let findings = findings(fleet, &told);
    if told.is_empty() {
        let _ = writeln!(out, "{}", few.no_difference());
    } else {
        out.push_str("From what is usual in the group, the most important first.\n\n");
        let columns = ["", "question", "differs in", "usual", "these", "machines", "group"];
        let rows = findings.iter().zip(1..).take(MOST_CAUSES).map(|(finding, number)| cause(number, finding, docs));
        out.push_str(&table(&columns, rows));
    }
    if findings.len() > MOST_CAUSES {
        let more = findings.len() - MOST_CAUSES;
        let _ = writeln!(out, "\nAnd {more} more; `--as html`, `csv` and `json` have them all.");
    }
    out.push_str("\n## Groups\n\nMachines are compared only within a group.\n\n");
    let rows = fleet.groups.iter().enumerate().take(MOST_GROUPS);
    let rows =
        rows.map(|(place, group)| vec![markdown(&words::key(&group.key)), words::group(group, &told, &few, place)]);
    out.push_str(&table(&["group", "machines"], rows));
    if fleet.groups.len() > MOST_GROUPS {
        let _ = writeln!(out, "\nAnd {} more.", fleet.groups.len() - MOST_GROUPS);
    }
    out
}

fn cause(number: usize, finding: &Finding<'_, '_>, docs: Option<&str>) -> Vec<String> {
    let one = finding.first;
    let link = |one: &words::Told<'_>| match (one.page, docs) {
        (Some(page), Some(docs)) => format!("[{}](<{}>)", markdown(one.name), destination(&words::link(docs, page))),
        _ => markdown(one.name),
    };
    let name = if finding.is_of_one_question() {
        let asks = if one.question.is_empty() { String::new() } else { format!("<br>{}", markdown(one.question)) };
        link(one) + &asks
    } else {
        let names: Vec<&str> = finding.questions().into_iter().map(|(_, name)| name).collect();
        format!("{}<br>{}", finding.subject(), markdown(&words::names(&names, MOST_NAMES)))
    };
    let (sides, more) = finding.sides();
    let side = |part: fn(&words::Side) -> &String, count: usize| {
        let lines = sides.iter().map(|side| markdown(&format!("{}: {}", side.of, part(side))));
        lines.chain(more.clone()).chain([format!("({count})")]).collect::<Vec<_>>().join("<br>")
    };
    let labels = finding.labels().map(|labels| format!("<br>{}", markdown(&labels))).unwrap_or_default();
    vec![
        number.to_string(),
        name,
        markdown(&finding.share()),
        side(|side| &side.usual, one.difference.usual_machines),
        side(|side| &side.these, one.these()),
        markdown(&words::names(&one.machines, MOST_NAMES)) + &labels,
        markdown(&one.group),
    ]
}

/// The destination of a link, in which nothing ends it, the cell or the line.
fn destination(link: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#@!$&*+,;=%".contains(c);
    link.chars().filter(|c| plain(*c)).collect()
}
