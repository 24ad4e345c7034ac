//! What a merge came to in a few lines, and what changed between two merged documents.

use std::fmt::Write as _;

use cuda_pitfalls_answers::fleet::{Change, Fleet, FleetDiff, Rank, Size, causes};
use cuda_pitfalls_core::fact;
use cuda_pitfalls_core::text::counts::{counted, tally};
use cuda_pitfalls_core::text::escape::{shorten, terminal};
use cuda_pitfalls_core::text::lines::{WIDTH, sentence};
use cuda_pitfalls_core::verdict::Provenance;

use super::super::change;
use super::super::tally::SIMULATED;
use super::standing;
use super::words::{self, key};

/// More entries of one kind are counted only; `--json` and the document have them all.
const MOST: usize = 20;
/// A text of a report is cut to this many bytes.
const LONGEST: usize = 200;

/// What was merged, where it is, and who differs in how many questions.
pub fn merged(fleet: &Fleet, path: &str) -> String {
    let mut out = head(fleet.provenance);
    let told = words::told(fleet);
    out.push_str(&sentence("", &format!("Fleet: {}", words::title(fleet, &told)), WIDTH));
    out.push_str(&sentence("", &words::input(fleet), WIDTH));
    for one in fleet.input.not_merged.iter().take(MOST) {
        let why = format!("{}: {}", one.path, shorten(&one.why, LONGEST));
        out.push_str(&sentence(&format!("  {}: ", words::bucket_name(one.bucket)), &why, WIDTH));
    }
    if let Some(expected) = &fleet.expected {
        let all = [("missing", &expected.missing), ("not expected", &expected.unexpected)];
        for (what, names) in all.into_iter().filter(|(_, names)| !names.is_empty()) {
            let _ = write!(out, "{}", listed(&format!("{} {what}: ", names.len()), names));
        }
    }
    for (_, doubt) in words::doubts(fleet, MOST) {
        out.push_str(&sentence("", &doubt, WIDTH));
    }
    if let Some(unexpected) = standing::unexpected(fleet, MOST) {
        out.push_str(&sentence("unexpected: ", &unexpected, WIDTH));
    }
    if let Some(few) = standing::few(fleet).words(fleet, MOST) {
        out.push_str(&sentence("few answers: ", &few, WIDTH));
    }
    if let Some(labels) = standing::labelled(fleet, MOST) {
        out.push_str(&sentence("labels: ", &labels, WIDTH));
    }
    out.push_str(&differences(fleet, &told));
    let machines = words::by_machine(&told);
    for (place, count) in machines.iter().take(MOST) {
        let name = terminal(&shorten(words::name(fleet, *place), LONGEST));
        let _ = writeln!(out, "  {name}: in {}", counted(*count, "question"));
    }
    out.push_str(&more(machines.len()));
    let _ = writeln!(out, "merged into {}", terminal(path));
    out
}

/// How many differences there are, of which kind, in how many questions, and how many causes.
fn differences(fleet: &Fleet, told: &[words::Told<'_>]) -> String {
    if told.is_empty() {
        return format!("no machine differs from its group, in {}\n", counted(fleet.questions.len(), "question"));
    }
    let count = |rank: Rank| told.iter().filter(|one| one.rank == rank).count();
    let counts = Rank::ALL.map(|rank| (count(rank), words::rank_words(rank)));
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let questions: std::collections::HashSet<usize> = told.iter().map(|one| one.difference.question).collect();
    let causes = counted(causes(fleet).len(), "cause");
    let all = counted(fleet.questions.len(), "question");
    let text = format!(
        "{} of {causes}, in {} of {all}: {}",
        counted(told.len(), "difference"),
        questions.len(),
        counts.join(", ")
    );
    sentence("", &text, WIDTH)
}

/// What changed, for a person.
pub fn text(diff: &FleetDiff) -> String {
    let mut out = head(diff.provenance);
    for (name, side) in [("old", &diff.old), ("new", &diff.new)] {
        let span = match (&side.from, &side.to) {
            (Some(from), Some(to)) => format!(", runs of {} to {}", terminal(from), terminal(to)),
            _ => String::new(),
        };
        let differences = counted(side.differences, "difference");
        let _ = writeln!(out, "{name}: {}, {differences}{span}", counted(side.machines, "machine"));
    }
    for (what, names) in [("gone", &diff.machines_gone), ("new", &diff.machines_new)] {
        if !names.is_empty() {
            let _ = write!(out, "{}", listed(&format!("{} {what}: ", counted(names.len(), "machine")), names));
        }
    }
    for (what, groups) in [("gone", &diff.groups_gone), ("new", &diff.groups_new)] {
        for group in groups.iter().take(MOST) {
            let text = format!("{}, {}", key(&group.key), counted(group.machines, "machine"));
            out.push_str(&sentence(&format!("group {what}: "), &text, WIDTH));
        }
        out.push_str(&more(groups.len()));
    }
    if !diff.usual.is_empty() {
        let _ = writeln!(out, "{}", counted(diff.usual.len(), "usual outcome") + " changed");
    }
    for one in diff.usual.iter().take(MOST) {
        let verdicts = one.verdicts.map(|[then, now]| format!("{} -> {}", then.name(), now.name()));
        let facts = one
            .facts
            .iter()
            .take(2)
            .map(|it| format!("{}: {} -> {}", words::about(it), told(&it.usual), told(&it.these)));
        let words: Vec<String> = verdicts.into_iter().chain(facts).map(|it| shorten(&it, LONGEST)).collect();
        let numbers = format!("{} then, {} now", counted(one.old.machines, "machine"), one.new.machines);
        let replaced = replaced(&one.old, &one.new);
        let text = format!("{} ({numbers}{replaced}): {}", one.question, words.join("; "));
        out.push_str(&sentence("  ", &text, WIDTH));
    }
    out.push_str(&more(diff.usual.len()));
    for (what, all) in [("began to differ", &diff.began), ("no longer differ", &diff.ceased)] {
        let machines = tally(all.iter().map(|change| change.machine.as_str()));
        if !machines.is_empty() {
            let _ = writeln!(out, "{} {what}", counted(machines.len(), "machine"));
        }
        for (machine, _) in machines.iter().take(MOST) {
            let of_it: Vec<&Change> = all.iter().filter(|change| change.machine == *machine).collect();
            let first: Vec<String> =
                of_it.iter().take(3).map(|change| format!("{} ({})", change.question, change.what)).collect();
            let rest = of_it.len().saturating_sub(first.len());
            let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            out.push_str(&sentence(&format!("  {}: ", terminal(machine)), &(first.join(", ") + &rest), WIDTH));
        }
        out.push_str(&more(machines.len()));
    }
    let nothing = [diff.machines_gone.len(), diff.machines_new.len(), diff.groups_gone.len(), diff.groups_new.len()];
    let lists = [diff.usual.len(), diff.began.len(), diff.ceased.len()];
    if nothing.iter().chain(&lists).all(|count| *count == 0) {
        out.push_str("nothing changed\n");
    }
    out
}

fn head(provenance: Provenance) -> String {
    if provenance == Provenance::Simulated { format!("{SIMULATED}\n") } else { String::new() }
}

fn told(seen: &Option<fact::Change>) -> String {
    seen.as_ref().map_or_else(|| "nothing".to_owned(), change::words)
}

fn replaced(old: &Size, new: &Size) -> String {
    let mut words = String::new();
    for (what, then, now) in
        [("driver", &old.key.driver, &new.key.driver), ("libcudart", &old.key.libcudart, &new.key.libcudart)]
    {
        if then != now {
            let _ = write!(words, ", {what} {then} -> {now}");
        }
    }
    words
}

fn listed(head: &str, names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MOST).map(|name| shorten(name, LONGEST)).collect();
    sentence(head, &shown.join(", "), WIDTH) + &more(names.len())
}

fn more(count: usize) -> String {
    if count > MOST { format!("  and {} more\n", count - MOST) } else { String::new() }
}
