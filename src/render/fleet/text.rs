//! A fleet for the terminal: the first screen says how many, who is missing, and what matters most.

use crate::tally;
use cuda_pitfalls_answers::fleet::Fleet;
use cuda_pitfalls_core::text::lines::sentence;

use super::words::{self, Told};

/// So many differences are told in full; the others are counted.
const MOST_DIFFERENCES: usize = 6;
/// So many facts of a difference are told.
const MOST_SIDES: usize = 4;
/// So many machines are named where there are more.
const MOST_NAMES: usize = 8;
/// So many of the machines that differ most are named.
const MOST_OUTLIERS: usize = 4;
/// So many groups are listed.
const MOST_GROUPS: usize = 6;

/// The whole text, in lines of `width` columns. It ends with a newline.
pub(super) fn fleet(fleet: &Fleet, width: usize) -> String {
    let told = words::told(fleet);
    let mut out = words::banner(fleet).map(|banner| tally::loud(banner, width)).unwrap_or_default();
    out += &sentence("", &format!("Fleet: {}", words::title(fleet, &told)), width);
    out += &sentence("Read     ", &words::input(fleet), width);
    for (name, names) in words::expected(fleet, MOST_NAMES) {
        out += &sentence(&format!("{name:<8} "), &names, width);
    }
    for (name, doubt) in words::doubts(fleet, MOST_NAMES) {
        out += &sentence(&format!("{name:<8} "), &doubt, width);
    }
    if let Some(alone) = words::lonely(fleet, MOST_NAMES) {
        out += &sentence("Alone    ", &alone, width);
    }
    if let Some(most) = words::most(fleet, &told, MOST_OUTLIERS) {
        out += &sentence("Differ   ", &most, width);
    }
    out.push('\n');
    if told.is_empty() {
        out += &sentence("", "No machine differs from the others of its group.", width);
    } else {
        out += &sentence("", "What differs from what is usual in the group, the most important first", width);
    }
    for (place, one) in told.iter().enumerate().take(MOST_DIFFERENCES) {
        difference(&mut out, place + 1, one, width);
    }
    if told.len() > MOST_DIFFERENCES {
        let more = format!("and {} more; --as html, csv and json have them all", told.len() - MOST_DIFFERENCES);
        out += &sentence("    ", &more, width);
    }
    groups(&mut out, fleet, &told, width);
    out
}

fn difference(out: &mut String, number: usize, one: &Told<'_>, width: usize) {
    let head = format!("{number:>2}. ");
    *out += &sentence(&head, &format!("{}: {}", one.name, one.share()), width);
    let mut line = |text: &str| *out += &sentence("    ", text, width);
    if !one.question.is_empty() {
        line(one.question);
    }
    let [usual, these] = if one.is_split { ["", ""] } else { ["usual ", "these "] };
    for side in one.sides.iter().take(MOST_SIDES) {
        let (usually, here) = (one.difference.usual_machines, one.these());
        line(&format!("{}: {usual}{} ({usually}); {these}{} ({here})", side.of, side.usual, side.these));
    }
    if one.sides.len() > MOST_SIDES {
        line(&format!("and {} more facts", one.sides.len() - MOST_SIDES));
    }
    line(&format!("{} of {}", words::names(&one.machines, MOST_NAMES), one.group));
    if let Some(page) = one.page {
        line(page);
    }
}

fn groups(out: &mut String, fleet: &Fleet, told: &[Told<'_>], width: usize) {
    out.push('\n');
    *out += &sentence("", "Groups: machines are compared only within one", width);
    for (place, group) in fleet.groups.iter().enumerate().take(MOST_GROUPS) {
        *out += &sentence("    ", &format!("{}: {}", words::key(&group.key), words::group(group, told, place)), width);
    }
    if fleet.groups.len() > MOST_GROUPS {
        *out += &sentence("    ", &format!("and {} more", fleet.groups.len() - MOST_GROUPS), width);
    }
}
