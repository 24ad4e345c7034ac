//! What a merge came to in a few lines, and what changed between two merged documents.

use std::fmt::Write as _;

use cuda_pitfalls_answers::fleet::{Fleet, FleetDiff, Rank, Size, causes};
use cuda_pitfalls_answers::survey::word;
use cuda_pitfalls_core::fact;
use cuda_pitfalls_core::text::counts::{counted, grouped, listed};
use cuda_pitfalls_core::text::escape::{shorten, terminal};
use cuda_pitfalls_core::text::lines::{WIDTH, sentence};
use cuda_pitfalls_core::verdict::Provenance;

use super::super::change;
use super::super::tally::SIMULATED;
use super::standing;
use super::words::{self, Remark, key};

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
        out.push_str(&sentence(&format!("  {}: ", word(one.bucket)), &why, WIDTH));
    }
    // The machines that differ stand below.
    for Remark { name, text, .. } in words::remarks(fleet, &[], &standing::few(fleet), MOST) {
        out.push_str(&sentence(&format!("{name}: "), &text, WIDTH));
    }
    out.push_str(&differences(fleet, &told));
    out.push_str(&entries(words::by_machine(&told), |(place, count)| {
        let name = terminal(&shorten(words::name(fleet, place), LONGEST));
        (format!("  {name}: "), format!("in {}", counted(count, "question")))
    }));
    let _ = writeln!(out, "merged into {}", terminal(path));
    out
}

/// How many differences there are, of which kind, in how many questions, and how many causes.
fn differences(fleet: &Fleet, told: &[words::Told<'_>]) -> String {
    if told.is_empty() {
        return format!("no machine differs from its group, in {}\n", counted(fleet.questions.len(), "question"));
    }
    let count = |rank: Rank| told.iter().filter(|one| one.rank == rank).count();
    let counts = Rank::ALL.map(|rank| (count(rank), words::rank_words(rank))).into_iter();
    let counts = listed(counts.filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")), "");
    let questions: std::collections::HashSet<usize> = told.iter().map(|one| one.difference.question).collect();
    let causes = counted(causes(fleet).len(), "cause");
    let all = counted(fleet.questions.len(), "question");
    let differences = counted(told.len(), "difference");
    sentence("", &format!("{differences} of {causes}, in {} of {all}: {counts}", questions.len()), WIDTH)
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
    let head = out.len();
    for (what, names) in [("gone", &diff.machines_gone), ("new", &diff.machines_new)] {
        if !names.is_empty() {
            let shown = listed(names.iter().take(MOST).map(|name| shorten(name, LONGEST)), "");
            out.push_str(&sentence(&format!("{} {what}: ", counted(names.len(), "machine")), &shown, WIDTH));
            out.push_str(&more(names.len()));
        }
    }
    for (what, groups) in [("gone", &diff.groups_gone), ("new", &diff.groups_new)] {
        out.push_str(&entries(groups.iter().collect(), |group| {
            (format!("group {what}: "), format!("{}, {}", key(&group.key), counted(group.machines, "machine")))
        }));
    }
    if !diff.usual.is_empty() {
        let _ = writeln!(out, "{}", counted(diff.usual.len(), "usual outcome") + " changed");
    }
    out.push_str(&entries(diff.usual.iter().collect(), |one| {
        let verdicts = one.verdicts.map(|[then, now]| format!("{} -> {}", then.name(), now.name()));
        let facts = one.facts.iter().take(2);
        let facts = facts.map(|it| format!("{}: {} -> {}", words::about(it), told(&it.usual), told(&it.these)));
        let words: Vec<String> = verdicts.into_iter().chain(facts).map(|it| shorten(&it, LONGEST)).collect();
        let numbers = format!("{} then, {} now", counted(one.old.machines, "machine"), one.new.machines);
        let replaced = replaced(&one.old, &one.new);
        ("  ".to_owned(), format!("{} ({numbers}{replaced}): {}", one.question, words.join("; ")))
    }));
    for (what, all) in [("began to differ", &diff.began), ("no longer differ", &diff.ceased)] {
        let machines = grouped(all.iter().map(|change| (change.machine.as_str(), change)));
        if !machines.is_empty() {
            let _ = writeln!(out, "{} {what}", counted(machines.len(), "machine"));
        }
        out.push_str(&entries(machines, |(machine, changes)| {
            let questions = changes.iter().map(|change| format!("{} ({})", change.question, change.what));
            (format!("  {}: ", terminal(machine)), words::names(&questions.collect::<Vec<_>>(), 3))
        }));
    }
    if out.len() == head {
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

/// The first of several entries, each with what stands before it, and how many more there are.
fn entries<T>(all: Vec<T>, tell: impl Fn(T) -> (String, String)) -> String {
    let more = more(all.len());
    let told = all.into_iter().take(MOST).map(tell);
    told.map(|(head, text)| sentence(&head, &text, WIDTH)).collect::<String>() + &more
}

fn more(count: usize) -> String {
    if count > MOST { format!("  and {} more\n", count - MOST) } else { String::new() }
}
