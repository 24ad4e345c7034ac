//! A fleet for the terminal: the first screen says how many, who is missing, and what matters most.

use crate::tally;
use cuda_pitfalls_answers::fleet::Fleet;
use cuda_pitfalls_core::text::lines::sentence;

use super::findings::{Finding, findings};
use super::standing::{self, Few};
use super::words::{self, Remark, Told};

/// So many causes are told in full; the others are counted.
const MOST_CAUSES: usize = 6;
/// So many machines are named where there are more.
const MOST_NAMES: usize = 8;
/// So many questions of one cause are named.
const MOST_QUESTIONS: usize = 3;
const MOST_GROUPS: usize = 6;

/// The whole text, in lines of `width` columns. It ends with a newline.
pub(super) fn fleet(fleet: &Fleet, width: usize) -> String {
    let told = words::told(fleet);
    let few = standing::few(fleet);
    let mut out = words::banner(fleet).map(|banner| tally::loud(banner, width)).unwrap_or_default();
    out += &sentence("", &format!("Fleet: {}", words::title(fleet, &told)), width);
    out += &sentence("Read     ", &words::input(fleet), width);
    for Remark { name, text, .. } in words::remarks(fleet, &told, &few, MOST_NAMES) {
        out += &sentence(&format!("{name:<8} "), &text, width);
    }
    out.push('\n');
    if told.is_empty() {
        out += &sentence("", few.no_difference(), width);
    } else {
        out += &sentence("", "What differs from what is usual in the group, the most important first", width);
    }
    let findings = findings(fleet, &told);
    for (place, finding) in findings.iter().enumerate().take(MOST_CAUSES) {
        cause(&mut out, place + 1, finding, width);
    }
    if findings.len() > MOST_CAUSES {
        let more = format!("and {} more; --as html, csv and json have them all", findings.len() - MOST_CAUSES);
        out += &sentence("    ", &more, width);
    }
    groups(&mut out, fleet, &told, &few, width);
    out
}

fn cause(out: &mut String, number: usize, finding: &Finding<'_, '_>, width: usize) {
    let head = format!("{number:>2}. ");
    let one = finding.first;
    let is_of_one = finding.is_of_one_question();
    let title = if is_of_one {
        format!("{}: {}", one.name, finding.share())
    } else {
        format!("{}, in {}", finding.share(), finding.subject())
    };
    *out += &sentence(&head, &title, width);
    let mut line = |text: &str| *out += &sentence("    ", text, width);
    if is_of_one && !one.question.is_empty() {
        line(one.question);
    }
    if !is_of_one {
        let names: Vec<&str> = finding.questions().into_iter().map(|(_, name)| name).collect();
        line(&words::names(&names, MOST_QUESTIONS));
    }
    let [usual, these] = if one.is_split { ["", ""] } else { ["usual ", "these "] };
    let (sides, more) = finding.sides();
    for side in sides {
        let (usually, here) = (one.difference.usual_machines, one.these());
        line(&format!("{}: {usual}{} ({usually}); {these}{} ({here})", side.of, side.usual, side.these));
    }
    more.iter().for_each(|more| line(more));
    line(&format!("{} of {}", words::names(&one.machines, MOST_NAMES), one.group));
    finding.labels().iter().for_each(|labels| line(labels));
    if let Some(page) = one.page.filter(|_| is_of_one) {
        line(page);
    }
}

fn groups(out: &mut String, fleet: &Fleet, told: &[Told<'_>], few: &Few, width: usize) {
    out.push('\n');
    *out += &sentence("", "Groups: machines are compared only within one", width);
    for (place, group) in fleet.groups.iter().enumerate().take(MOST_GROUPS) {
        let words = format!("{}: {}", words::key(&group.key), words::group(group, told, few, place));
        *out += &sentence("    ", &words, width);
    }
    if fleet.groups.len() > MOST_GROUPS {
        *out += &sentence("    ", &format!("and {} more", fleet.groups.len() - MOST_GROUPS), width);
    }
}
