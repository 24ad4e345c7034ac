//! The result of a merge on a few lines, and the changes between two merged documents.

use cuda_pitfalls_answers::fleet::{Fleet, FleetDiff, Rank, Size, outliers};
use cuda_pitfalls_core::text::counts::{counted, group_by_key, listed};
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::verdict::Provenance;

use super::view::{self, FleetView};
use super::words::{self, key};
use crate::block::Block;
use crate::tally::SIMULATED;
use crate::writer::terminal::{Screen, write};

/// Maximum number of listed entries of each sort; the others are counted, and `--json` and the document have all.
const MOST: usize = 20;
/// A text of a report is truncated to this many bytes.
const LONGEST: usize = 200;

/// Returns the summary of a merge, and the machines that differ, each with its number of questions. `end` is the
/// sentence on the output document.
pub fn render_merge(fleet: &Fleet, end: impl Into<String>, screen: Screen) -> String {
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
        screen,
    )
}

/// Returns the number of differences of each kind, of questions, and of sets of machines.
fn differences_sentence(fleet: &Fleet, told: &[words::Deviation<'_>]) -> String {
    let all = counted(fleet.questions.len(), "question");
    if fleet.questions.is_empty() {
        return "no machine was compared".to_owned();
    }
    if told.is_empty() {
        return format!("no machine differs, in {all}");
    }
    let counts = Rank::ALL.map(|rank| {
        (
            told.iter().filter(|one| one.rank == rank).count(),
            words::rank_words(rank),
        )
    });
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts = listed(counts.map(|(count, what)| format!("{what} ({count})")), "");
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

/// Returns the changes, for a person.
pub fn text(diff: &FleetDiff, screen: impl Into<Screen>) -> String {
    let mut blocks = Vec::new();
    if diff.provenance == Provenance::Simulated {
        blocks.push(Block::Banner(SIMULATED.to_owned()));
    }
    for (name, side) in [("old: ", &diff.old), ("new: ", &diff.new)] {
        let span = match (&side.from, &side.to) {
            (Some(from), Some(to)) => format!(", runs of {from} to {to}"),
            _ => String::new(),
        };
        let machines = counted(side.machines, "machine");
        let differences = counted(side.differences, "difference");
        blocks.push(Block::note(
            name,
            format!("{machines}, {differences}{span}"),
        ));
    }
    let mut changes = changed_members(diff);
    changes.extend(changed_outcomes(diff));
    changes.extend(changed_differences(diff));
    if changes.is_empty() {
        changes.push(Block::paragraph("nothing changed"));
    }
    blocks.append(&mut changes);
    write(&blocks, screen)
}

/// Returns the machines and groups that only one side has.
fn changed_members(diff: &FleetDiff) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (what, names) in [("gone", &diff.machines_gone), ("new", &diff.machines_new)] {
        if names.is_empty() {
            continue;
        }
        let shortened: Vec<String> = names
            .iter()
            .map(|name| shorten_text(name, LONGEST))
            .collect();
        let machines = counted(names.len(), "machine");
        let listed = words::names(&shortened, MOST);
        blocks.push(Block::paragraph(format!("{machines} {what}: {listed}")));
    }
    for (what, groups) in [("gone", &diff.groups_gone), ("new", &diff.groups_new)] {
        let mut lines = Vec::new();
        for group in groups {
            let machines = counted(group.machines, "machine");
            lines.push(format!("group {what}: {}, {machines}", key(&group.key)));
        }
        blocks.extend(list_block(lines));
    }
    blocks
}

/// Returns the usual outcomes that changed.
fn changed_outcomes(diff: &FleetDiff) -> Vec<Block> {
    let mut lines = Vec::new();
    for usual in &diff.usual {
        let mut words = Vec::new();
        if let Some([then, now]) = usual.verdicts {
            words.push(format!("{} -> {}", then.name(), now.name()));
        }
        for fact in usual.facts.iter().take(2) {
            let then = words::seen_or(fact.usual.as_ref(), "nothing");
            let now = words::seen_or(fact.these.as_ref(), "nothing");
            let change = format!("{}: {then} -> {now}", words::about(fact));
            words.push(shorten_text(&change, LONGEST));
        }
        lines.push(format!(
            "{} ({} before, {} now{}): {}",
            usual.question,
            counted(usual.old.machines, "machine"),
            usual.new.machines,
            replaced_versions(&usual.old, &usual.new),
            words.join("; ")
        ));
    }
    let head = counted(lines.len(), "majority outcome") + " changed";
    headed_list(head, lines)
}

/// Returns the machines that began or ceased to differ from the others.
fn changed_differences(diff: &FleetDiff) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (what, all) in [
        ("began to differ", &diff.began),
        ("no longer differ", &diff.ceased),
    ] {
        let mut lines = Vec::new();
        for (machine, changes) in
            group_by_key(all.iter().map(|change| (change.machine.as_str(), change)))
        {
            let questions: Vec<String> = changes
                .iter()
                .map(|change| format!("{} ({})", change.question, change.what))
                .collect();
            lines.push(format!("{machine}: {}", words::names(&questions, 3)));
        }
        let head = format!("{} {what}", counted(lines.len(), "machine"));
        blocks.extend(headed_list(head, lines));
    }
    blocks
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

/// Returns a list below a line; empty without entries.
fn headed_list(head: String, lines: Vec<String>) -> Vec<Block> {
    match list_block(lines) {
        Some(list) => vec![Block::paragraph(head), list],
        None => Vec::new(),
    }
}

/// Returns the first of several entries, and the number of others; `None` without entries.
fn list_block(mut lines: Vec<String>) -> Option<Block> {
    let more = lines.len().saturating_sub(MOST);
    if more > 0 {
        lines.truncate(MOST);
        lines.push(format!("and {more} more"));
    }
    (!lines.is_empty()).then(|| Block::list(lines))
}
