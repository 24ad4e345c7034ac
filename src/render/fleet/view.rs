//! A fleet as blocks: how many machines there are, who is missing, what differs, and the groups. Each form shows as much
//! of it as it has room for.

use std::collections::HashSet;

use super::standing::{self, Few};
use super::words::{self, Deviation};
use crate::block::{Block, Span, Table, Text, Tone};
use crate::html::page::percent_encoded;
use crate::tally::SIMULATED;
use cuda_pitfalls_answers::fleet::{Fleet, Outliers, Rank, outliers};
use cuda_pitfalls_answers::survey::word;
use cuda_pitfalls_core::text::escape::{shorten_text, visible};
use cuda_pitfalls_core::verdict::Provenance;

/// How many entries of each list of a fleet a form shows.
pub(super) struct ListLimits {
    /// Sets of machines with a row of their own.
    pub(super) rows: usize,
    /// Sets beside them that a page shows when it is asked to.
    pub(super) folded: usize,
    /// Machines and questions that are named where there are more.
    pub(super) names: usize,
    /// Differences that are named of one set of machines.
    pub(super) questions: usize,
    pub(super) groups: usize,
    /// Documents that were not merged.
    pub(super) not_merged: usize,
}

pub(super) const TEXT: ListLimits = ListLimits {
    rows: 6,
    folded: 0,
    names: 8,
    questions: 3,
    groups: 6,
    not_merged: 0,
};
/// A page of an issue tracker is at most 65,536 characters.
pub(super) const MARKDOWN: ListLimits = ListLimits {
    rows: 50,
    folded: 0,
    names: 8,
    questions: 8,
    groups: 50,
    not_merged: 0,
};
/// After a merge nothing but that and what was not merged is told.
pub(super) const MERGED: ListLimits = ListLimits {
    rows: 0,
    folded: 0,
    names: 20,
    questions: 0,
    groups: 0,
    not_merged: 20,
};
pub(super) const HTML: ListLimits = ListLimits {
    rows: 25,
    folded: 500,
    names: 20,
    questions: usize::MAX,
    groups: usize::MAX,
    not_merged: 200,
};

/// A text of a document in a table, in bytes: laying out a long word takes long.
const LONGEST: usize = 600;
/// A row names this many differences before it folds the rest, and shows this many with both sides.
const MOST_DIFFERENCES: usize = 3;
const MOST_CONTRASTS: usize = 4;

/// The title of every form.
pub(super) const TITLE: &str = "cuda-pitfalls fleet";

/// What a form says of a fleet. `docs` is where the documentation is.
pub(super) struct FleetView<'f> {
    pub(super) fleet: &'f Fleet,
    pub(super) told: Vec<Deviation<'f>>,
    pub(super) few: Few,
    limits: ListLimits,
    docs: Option<&'f str>,
}

impl<'f> FleetView<'f> {
    pub(super) fn new(
        fleet: &'f Fleet,
        limits: ListLimits,
        docs: Option<&'f str>,
    ) -> FleetView<'f> {
        FleetView {
            fleet,
            told: words::in_words(fleet),
            few: standing::few_answers(fleet),
            limits,
            docs,
        }
    }

    /// All of it, for forms that only show blocks.
    pub(super) fn blocks(&self) -> Vec<Block> {
        [
            self.overview_blocks(),
            self.difference_blocks(),
            self.groups(),
        ]
        .concat()
    }

    /// How many machines there are, what was read, and what is said of all of them.
    pub(super) fn overview_blocks(&self) -> Vec<Block> {
        let fleet = self.fleet;
        // No real driver answered: that comes before everything else.
        let simulated = fleet.provenance == Provenance::Simulated;
        let banner = simulated.then(|| Block::Banner(SIMULATED.to_owned()));
        let mut blocks: Vec<Block> = banner.into_iter().collect();
        let no_cuda = standing::without_cuda(fleet, self.limits.names);
        blocks.extend(no_cuda.map(|words| Block::paragraph(Span::Toned(Tone::Bad, words))));
        blocks.extend([
            Block::heading(1, TITLE),
            Block::Badges(standing::counts(fleet, &self.told)),
        ]);
        let read = format!(
            "{}; merged by cuda-pitfalls {}",
            standing::input_line(fleet),
            fleet.version
        );
        blocks.push(Block::fact("Read", read));
        blocks.extend(standing::fleet_remarks(
            fleet,
            &self.told,
            &self.few,
            self.limits.names,
        ));
        let missing = fleet.expected.iter().flat_map(|expected| &expected.missing);
        let missing: Vec<Text> = missing
            .filter(|_| self.limits.folded > 0)
            .map(Text::from)
            .collect();
        if missing.len() > self.limits.names {
            let summary = format!("All {} that are missing", missing.len());
            blocks.push(Block::Fold(
                summary,
                vec![Block::paragraph(Text::join(missing, ", "))],
            ));
        }
        blocks
    }

    pub(super) fn difference_blocks(&self) -> Vec<Block> {
        let mut blocks = vec![Block::heading(2, "What differs")];
        let rows = self.rows();
        if rows.is_empty() {
            blocks.push(Block::paragraph(self.few.no_difference()));
            return blocks;
        }
        let (first, rest) = rows.split_at(rows.len().min(self.limits.rows));
        let (folded, rest) = rest.split_at(rest.len().min(self.limits.folded));
        let caption = "From what is usual, the most important first. A machine that differs is not wrong for that.";
        blocks.push(self.table(caption, first));
        if !folded.is_empty() {
            let summary = format!("{} more of {}", folded.len(), rows.len());
            blocks.push(Block::Fold(
                summary,
                vec![self.table("Less important ones, in the same order.", folded)],
            ));
        }
        if !rest.is_empty() {
            blocks.push(Block::paragraph(format!(
                "And {} more: --as html and json have them all.",
                rest.len()
            )));
        }
        blocks
    }

    /// The machines that differ from a majority, and what has no majority. CUDA does not start on those that are left out
    /// here: they stand before everything else, unless only they have a label.
    fn rows(&self) -> Vec<Outliers> {
        let split = self.told.iter().enumerate().filter(|(_, one)| one.is_split);
        let split = split.map(|(index, one)| Outliers {
            machines: one.difference.machines.clone(),
            differences: vec![index],
            ..Outliers::default()
        });
        outliers(self.fleet)
            .into_iter()
            .filter(|one| !one.no_cuda || !one.labels.is_empty())
            .chain(split)
            .collect()
    }

    /// A row for each set of machines.
    fn table(&self, caption: &'static str, rows: &[Outliers]) -> Block {
        let columns = ["Machines", "Differ in", "How", "Labels", "Group"];
        let rows = rows.iter().map(|row| self.row(row));
        Block::Table(Table {
            caption: caption.into(),
            records: Some("differences"),
            ..Table::new(columns, rows)
        })
    }

    fn row(&self, row: &Outliers) -> Vec<Text> {
        let first = row.differences.first().copied().unwrap_or_default();
        let names = row
            .machines
            .iter()
            .map(|machine| words::name(self.fleet, *machine));
        let machines = names.take(self.limits.names).map(|name| Span::Link {
            text: name.to_owned(),
            to: format!("#machine={}", percent_encoded(&visible(name), "")),
        });
        let more = row.machines.len().saturating_sub(self.limits.names);
        let more = (more > 0).then(|| to_difference(format!(" and {more} more"), first));
        let mut all: Vec<(usize, &Deviation<'_>)> = row
            .differences
            .iter()
            .filter_map(|index| Some((*index, self.told.get(*index)?)))
            .collect();
        // What the machine is explains what it answers.
        all.sort_by_key(|(_, one)| {
            (
                one.rank != Rank::Verdict,
                !one.name.starts_with("machine: "),
            )
        });
        let mut known = HashSet::new();
        let questions: Vec<_> = all
            .iter()
            .filter(|(_, one)| known.insert((one.difference.question, one.rank)))
            .copied()
            .collect();
        let group = all
            .iter()
            .map(|(_, one)| &one.group)
            .find(|group| !group.is_empty())
            .cloned();
        let no_cuda = row.no_cuda.then(|| Text::from("CUDA does not start"));
        vec![
            Text(
                Text::join(machines, ", ")
                    .0
                    .into_iter()
                    .chain(more)
                    .collect(),
            ),
            no_cuda.unwrap_or_else(|| self.questions(&questions)),
            contrast_lines(&all),
            standing::label_words(row)
                .map(Text::from)
                .unwrap_or_default(),
            group.map(Text::from).unwrap_or_default(),
        ]
    }

    /// What differs: each question with how it differs, and a link to its view. The first says what it asks.
    fn questions(&self, all: &[(usize, &Deviation<'_>)]) -> Text {
        let (shown, rest) = all.split_at(all.len().min(MOST_DIFFERENCES));
        let mut lines = links_to(shown);
        if let [(_, one)] = all {
            lines.extend(
                (!one.question.is_empty())
                    .then(|| Span::Toned(Tone::Dim, one.question.to_owned()).into()),
            );
            lines.extend(one.page.map(|page| Text::from(self.page(page))));
        }
        if !rest.is_empty() {
            let (shown, hidden) = rest.split_at(rest.len().min(self.limits.questions));
            let more = (!hidden.is_empty()).then(|| format!("and {} more", hidden.len()).into());
            let items = links_to(shown).into_iter().chain(more).collect();
            lines.push(Span::Fold(format!("{} more", rest.len()), items).into());
        }
        Text::lines(lines)
    }

    fn page(&self, page: &str) -> Span {
        match self.docs {
            Some(docs) => Span::Link {
                text: page.to_owned(),
                to: format!("{}/{page}", docs.trim_end_matches('/')),
            },
            None => Span::Toned(Tone::Dim, page.to_owned()),
        }
    }

    pub(super) fn groups(&self) -> Vec<Block> {
        let rows = self
            .fleet
            .groups
            .iter()
            .enumerate()
            .take(self.limits.groups)
            .map(|(index, group)| {
                vec![
                    shorten_text(&words::key(&group.key), LONGEST),
                    standing::group(group, &self.told, &self.few, index),
                ]
            });
        let caption = "Machines are compared only within a group.";
        let table = Table {
            caption: caption.into(),
            ..Table::new(["Group", "Machines"], rows)
        };
        section_blocks("Groups", table, self.fleet.groups.len())
    }

    /// What was not merged, and why.
    pub(super) fn not_merged(&self) -> Vec<Block> {
        let all = &self.fleet.input.not_merged;
        if all.is_empty() {
            return Vec::new();
        }
        let shown = all.iter().take(self.limits.not_merged);
        let rows = shown.map(|one| {
            vec![
                shorten_text(&one.path, LONGEST),
                word(one.bucket),
                shorten_text(&one.why, LONGEST),
            ]
        });
        let caption = "Examples of documents that were not merged, with the reason.";
        let table = Table {
            caption: caption.into(),
            ..Table::new(["Document", "Bucket", "Why"], rows)
        };
        section_blocks("Not merged", table, all.len())
    }
}

/// A table below its heading, and how many of `all` rows it leaves out.
fn section_blocks(heading: &str, table: Table, all: usize) -> Vec<Block> {
    let more = all.saturating_sub(table.rows.len());
    let more = (more > 0).then(|| Block::paragraph(format!("And {more} more.")));
    [Block::heading(2, heading), Block::Table(table)]
        .into_iter()
        .chain(more)
        .collect()
}

/// A link to the view of a difference.
fn to_difference(text: String, index: usize) -> Span {
    Span::Link {
        text,
        to: format!("#difference={}", index + 1),
    }
}

/// What is usual and what these machines show, each with how many machines show it. Without a majority nothing is usual.
fn contrast_lines(all: &[(usize, &Deviation<'_>)]) -> Text {
    let mut lines = Vec::new();
    for (_, one) in all {
        let [usual, these] = if one.is_split {
            ["", ""]
        } else {
            ["usual ", "these "]
        };
        let counts = (one.difference.usual_machines, one.these());
        for contrast in &one.contrasts {
            let both = format!(
                ": {usual}{} ({}); {these}{} ({})",
                contrast.usual, counts.0, contrast.these, counts.1
            );
            lines.push(Text::from(Span::Toned(Tone::Dim, contrast.about.clone())).then(both));
        }
    }
    let more = lines.len().saturating_sub(MOST_CONTRASTS);
    lines.truncate(MOST_CONTRASTS);
    lines.extend((more > 0).then(|| Text::from(format!("and {more} more"))));
    Text::lines(lines)
}

/// A link to each difference.
fn links_to(all: &[(usize, &Deviation<'_>)]) -> Vec<Text> {
    let links = all.iter().map(|(index, one)| {
        to_difference(format!("{}: {}", one.name, one.outlier_share()), *index).into()
    });
    links.collect()
}
