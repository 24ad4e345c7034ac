//! What a merge came to in a few lines, and what changed between two merged documents.

use cuda_pitfalls_answers::fleet::{Fleet, FleetDiff, Rank, Size, outliers};
use cuda_pitfalls_core::text::counts::{counted, group_by_key, listed};
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::text::lines::WIDTH;
use cuda_pitfalls_core::verdict::Provenance;

use super::view::{self, FleetView};
use super::words::{self, key};
use crate::block::Block;
use crate::tally::SIMULATED;
use crate::writer::terminal::write;

/// More entries of one kind are counted only; `--json` and the document have them all.
const MOST: usize = 20;
/// A text of a report is cut to this many bytes.
const LONGEST: usize = 200;

/// What was merged, and who differs in how many questions. `end` says what became of the document.
pub fn render_merge(fleet: &Fleet, end: impl Into<String>) -> String {
    let view = FleetView::new(fleet, view::MERGED, None);
    let ends = [differences_sentence(fleet, &view.told), end.into()];
    let ends = ends.map(Block::paragraph).to_vec();
    write(
        &[
            view.overview_blocks(),
            view.not_merged(),
            vec![Block::Gap],
            ends,
        ]
        .concat(),
        WIDTH,
    )
}

/// How many differences there are, of which kind, in how many questions, and of how many sets of machines.
fn differences_sentence(fleet: &Fleet, told: &[words::Deviation<'_>]) -> String {
    let all = counted(fleet.questions.len(), "question");
    if told.is_empty() {
        return format!("no machine differs from the others, in {all}");
    }
    let counts = Rank::ALL.map(|rank| {
        (
            told.iter().filter(|one| one.rank == rank).count(),
            words::rank_words(rank),
        )
    });
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts = listed(counts.map(|(count, what)| format!("{count} {what}")), "");
    let questions: std::collections::HashSet<usize> =
        told.iter().map(|one| one.difference.question).collect();
    let sets = outliers(fleet).iter().filter(|one| !one.no_cuda).count();
    let sets = counted(sets, "set") + " of machines";
    let differences = counted(told.len(), "difference");
    format!(
        "{differences} of {sets}, in {} of {all}: {counts}",
        questions.len()
    )
}

/// What changed, for a person.
pub fn text(diff: &FleetDiff) -> String {
    let simulated = diff.provenance == Provenance::Simulated;
    let mut blocks: Vec<Block> = simulated
        .then(|| Block::Banner(SIMULATED.to_owned()))
        .into_iter()
        .collect();
    for (name, side) in [("old", &diff.old), ("new", &diff.new)] {
        let span = match (&side.from, &side.to) {
            (Some(from), Some(to)) => format!(", runs of {from} to {to}"),
            _ => String::new(),
        };
        let (machines, differences) = (
            counted(side.machines, "machine"),
            counted(side.differences, "difference"),
        );
        blocks.push(Block::paragraph(format!(
            "{name}: {machines}, {differences}{span}"
        )));
    }
    let head = blocks.len();
    for (what, names) in [("gone", &diff.machines_gone), ("new", &diff.machines_new)] {
        if !names.is_empty() {
            let names: Vec<String> = names
                .iter()
                .map(|name| shorten_text(name, LONGEST))
                .collect();
            let machines = counted(names.len(), "machine");
            blocks.push(Block::paragraph(format!(
                "{machines} {what}: {}",
                words::names(&names, MOST)
            )));
        }
    }
    for (what, groups) in [("gone", &diff.groups_gone), ("new", &diff.groups_new)] {
        blocks.extend(headed_entries(
            String::new(),
            groups.iter().collect(),
            |group| {
                format!(
                    "group {what}: {}, {}",
                    key(&group.key),
                    counted(group.machines, "machine")
                )
            },
        ));
    }
    let usual = counted(diff.usual.len(), "usual outcome") + " changed";
    blocks.extend(headed_entries(usual, diff.usual.iter().collect(), |one| {
        let mut words = Vec::new();
        if let Some([then, now]) = one.verdicts {
            words.push(format!("{} -> {}", then.name(), now.name()));
        }
        for fact in one.facts.iter().take(2) {
            let then = words::seen_or(fact.usual.as_ref(), "nothing");
            let now = words::seen_or(fact.these.as_ref(), "nothing");
            let change = format!("{}: {then} -> {now}", words::about(fact));
            words.push(shorten_text(&change, LONGEST));
        }
        let numbers = format!(
            "{} then, {} now",
            counted(one.old.machines, "machine"),
            one.new.machines
        );
        format!(
            "{} ({numbers}{}): {}",
            one.question,
            replaced_versions(&one.old, &one.new),
            words.join("; ")
        )
    }));
    for (what, all) in [
        ("began to differ", &diff.began),
        ("no longer differ", &diff.ceased),
    ] {
        let machines = group_by_key(all.iter().map(|change| (change.machine.as_str(), change)));
        let head = format!("{} {what}", counted(machines.len(), "machine"));
        blocks.extend(headed_entries(head, machines, |(machine, changes)| {
            let questions = changes
                .iter()
                .map(|change| format!("{} ({})", change.question, change.what));
            format!(
                "{machine}: {}",
                words::names(&questions.collect::<Vec<_>>(), 3)
            )
        }));
    }
    if blocks.len() == head {
        blocks.push(Block::paragraph("nothing changed"));
    }
    write(&blocks, WIDTH)
}

fn replaced_versions(old: &Size, new: &Size) -> String {
    let all = [
        ("driver", &old.key.driver, &new.key.driver),
        ("libcudart", &old.key.libcudart, &new.key.libcudart),
    ];
    let changed = all.into_iter().filter(|(_, then, now)| then != now);
    changed
        .map(|(what, then, now)| format!(", {what} {then} -> {now}"))
        .collect()
}

/// Entries below a line, if there is one; nothing without entries.
fn headed_entries<T>(head: String, all: Vec<T>, tell: impl Fn(T) -> String) -> Vec<Block> {
    let is_empty = all.is_empty();
    let head = (!head.is_empty()).then(|| Block::paragraph(head));
    if is_empty {
        Vec::new()
    } else {
        head.into_iter().chain([entries(all, tell)]).collect()
    }
}

/// The first of several entries, and how many more there are.
fn entries<T>(all: Vec<T>, tell: impl Fn(T) -> String) -> Block {
    let more = all.len().saturating_sub(MOST);
    let more = (more > 0).then(|| format!("and {more} more").into());
    Block::List(
        all.into_iter()
            .take(MOST)
            .map(|one| tell(one).into())
            .chain(more)
            .collect(),
    )
}
