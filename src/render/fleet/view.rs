//! A fleet as blocks: the number of machines, the missing ones, the differences, and the groups. Each format shows as
//! many of these as it has room for.

use std::collections::HashSet;

use super::standing::{self, FewAnswers};
use super::words::{self, Deviation};
use crate::block::{Block, Span, Table, Text, Tone};
use crate::html::page::percent_encoded;
use crate::tally::SIMULATED;
use cuda_pitfalls_answers::fleet::{Fleet, Outliers, Rank, outliers};
use cuda_pitfalls_answers::survey::word;
use cuda_pitfalls_core::text::escape::{shorten_text, visible};
use cuda_pitfalls_core::verdict::Provenance;

/// Limits of the lists of a fleet in a format.
pub(super) struct ListLimits {
    /// Sets of machines with a separate row.
    pub(super) rows: usize,
    /// Additional sets, which a page shows on request.
    pub(super) folded: usize,
    /// Maximum number of machines and questions that are named.
    pub(super) names: usize,
    /// Maximum number of differences that are named for one set of machines.
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
/// A page of an issue tracker has at most 65,536 characters.
pub(super) const MARKDOWN: ListLimits = ListLimits {
    rows: 50,
    folded: 0,
    names: 8,
    questions: 8,
    groups: 50,
    not_merged: 0,
};
/// Limits after a merge: only the merge, and what was not merged, is reported.
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

/// Maximum length of a document's text in a table, in bytes, because laying out a long word takes long.
const LONGEST: usize = 600;
/// A row names this many differences before it folds the rest, and shows this many with both sides.
const MOST_DIFFERENCES: usize = 3;
const MOST_CONTRASTS: usize = 4;

/// The title of every form.
pub(super) const TITLE: &str = "cuda-pitfalls fleet";

/// View of a fleet for one format. `docs` is the location of the documentation.
pub(super) struct FleetView<'f> {
    pub(super) fleet: &'f Fleet,
    pub(super) told: Vec<Deviation<'f>>,
    pub(super) few: FewAnswers,
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

    /// Returns all blocks, for formats that only show blocks.
    pub(super) fn blocks(&self) -> Vec<Block> {
        [
            self.overview_blocks(),
            self.difference_blocks(),
            self.groups(),
        ]
        .concat()
    }

    /// Returns the number of machines, the documents that were read, and the remarks on all machines.
    pub(super) fn overview_blocks(&self) -> Vec<Block> {
        let (fleet, limits) = (self.fleet, &self.limits);
        let mut blocks = Vec::new();
        // No real driver answered; this warning comes before everything else.
        if fleet.provenance == Provenance::Simulated {
            blocks.push(Block::Banner(SIMULATED.to_owned()));
        }
        if let Some(words) = standing::without_cuda(fleet, limits.names) {
            blocks.push(Block::paragraph(Span::Toned(Tone::Bad, words)));
        }
        let (input, version) = (standing::input_line(fleet), &fleet.version);
        blocks.extend([
            Block::heading(1, TITLE),
            if limits.folded > 0 {
                Block::OnPages(super::html::key_numbers(fleet, &self.told))
            } else {
                Block::Badges(standing::counts(fleet, &self.told))
            },
            Block::fact(
                "Read",
                format!("{input}; merged by cuda-pitfalls {version}"),
            ),
        ]);
        let remarks = standing::fleet_remarks(fleet, &self.told, &self.few, limits.names);
        blocks.extend(remarks);
        if let Some(expected) = &fleet.expected
            && limits.folded > 0
            && expected.missing.len() > limits.names
        {
            let summary = format!("All {} missing", expected.missing.len());
            let names = Block::paragraph(Text::join(&expected.missing, ", "));
            blocks.push(Block::Fold(summary, vec![names]));
        }
        blocks
    }

    pub(super) fn difference_blocks(&self) -> Vec<Block> {
        let mut blocks = vec![Block::heading(2, "What differs")];
        let rows = self.rows();
        if rows.is_empty() {
            blocks.push(Block::paragraph(standing::no_difference(&self.few)));
            return blocks;
        }
        let (first, rest) = rows.split_at(rows.len().min(self.limits.rows));
        let (folded, rest) = rest.split_at(rest.len().min(self.limits.folded));
        let caption = "Compared with the majority of each group, largest impact first. A difference is not necessarily a fault.";
        blocks.push(self.table(caption, first));
        if !folded.is_empty() {
            let summary = format!("{} more of {}", folded.len(), rows.len());
            blocks.push(Block::Fold(
                summary,
                vec![self.table("Lower impact, in the same order.", folded)],
            ));
        }
        if !rest.is_empty() {
            blocks.push(Block::paragraph(format!(
                "{} more: use --as html or --as json.",
                rest.len()
            )));
        }
        blocks
    }

    /// Returns the machines that differ from a majority, and the answers without a majority. Machines where CUDA does
    /// not start are left out: they come before everything else, unless only they have a label.
    fn rows(&self) -> Vec<Outliers> {
        let mut rows = outliers(self.fleet);
        rows.retain(|one| !one.no_cuda || !one.labels.is_empty());
        for (index, one) in self.told.iter().enumerate() {
            if one.is_split {
                rows.push(Outliers {
                    machines: one.difference.machines.clone(),
                    differences: vec![index],
                    ..Outliers::default()
                });
            }
        }
        rows
    }

    /// Returns a row for each set of machines.
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
        let mut all: Vec<(usize, &Deviation<'_>)> = Vec::new();
        for index in &row.differences {
            all.extend(self.told.get(*index).map(|one| (*index, one)));
        }
        // The properties of a machine explain its answers.
        all.sort_by_key(|(_, one)| {
            (
                one.rank != Rank::Verdict,
                !one.name.starts_with("machine: "),
            )
        });
        let what = if row.no_cuda {
            "CUDA does not start".into()
        } else {
            let mut known = HashSet::new();
            let mut questions = all.clone();
            questions.retain(|(_, one)| known.insert((one.difference.question, one.rank)));
            self.questions(&questions)
        };
        let groups = all.iter().map(|(_, one)| &one.group);
        let group = groups.into_iter().find(|group| !group.is_empty());
        vec![
            self.machines(row),
            what,
            contrast_lines(&all),
            standing::label_words(row)
                .map(Text::from)
                .unwrap_or_default(),
            group.map(Text::from).unwrap_or_default(),
        ]
    }

    /// Returns the first machines of a row, each a link to its view.
    fn machines(&self, row: &Outliers) -> Text {
        let most = self.limits.names;
        let mut links = Vec::new();
        for machine in row.machines.iter().take(most) {
            let name = words::name(self.fleet, *machine);
            links.push(Span::Link {
                text: name.to_owned(),
                to: format!("#machine={}", percent_encoded(&visible(name), "")),
            });
        }
        let names = Text::join(links, ", ");
        let more = row.machines.len().saturating_sub(most);
        if more == 0 {
            return names;
        }
        let first = row.differences.first().copied().unwrap_or_default();
        names.then(to_difference(format!(" and {more} more"), first))
    }

    /// Returns the differences: each question with its difference, and a link to its view. The first one includes the
    /// text of the question.
    fn questions(&self, all: &[(usize, &Deviation<'_>)]) -> Text {
        let (shown, rest) = all.split_at(all.len().min(MOST_DIFFERENCES));
        let mut lines = links_to(shown);
        if let [(_, one)] = all {
            if !one.question.is_empty() {
                lines.push(Span::Toned(Tone::Dim, one.question.to_owned()).into());
            }
            if let Some(page) = one.page {
                lines.push(self.page(page).into());
            }
        }
        if !rest.is_empty() {
            let (shown, hidden) = rest.split_at(rest.len().min(self.limits.questions));
            let mut items = links_to(shown);
            if !hidden.is_empty() {
                items.push(format!("and {} more", hidden.len()).into());
            }
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
        let groups = &self.fleet.groups;
        let mut rows = Vec::new();
        for (index, group) in groups.iter().enumerate().take(self.limits.groups) {
            rows.push(vec![
                shorten_text(&words::key(&group.key), LONGEST),
                standing::group(group, &self.told, &self.few, index),
            ]);
        }
        let caption = "Machines are compared only within a group.";
        let table = Table {
            caption: caption.into(),
            ..Table::new(["Group", "Machines"], rows)
        };
        section_blocks("Groups", table, groups.len())
    }

    /// Returns the documents that were not merged, with the reasons.
    pub(super) fn not_merged(&self) -> Vec<Block> {
        let all = &self.fleet.input.not_merged;
        if all.is_empty() {
            return Vec::new();
        }
        let mut rows = Vec::new();
        for one in all.iter().take(self.limits.not_merged) {
            rows.push(vec![
                shorten_text(&one.path, LONGEST),
                word(one.bucket),
                shorten_text(&one.why, LONGEST),
            ]);
        }
        let caption = "Examples of documents that were not merged, with reasons.";
        let table = Table {
            caption: caption.into(),
            ..Table::new(["Document", "Bucket", "Why"], rows)
        };
        section_blocks("Not merged", table, all.len())
    }
}

/// Returns a table below its heading, and the number of `all` rows that it leaves out.
fn section_blocks(heading: &str, table: Table, all: usize) -> Vec<Block> {
    let more = all.saturating_sub(table.rows.len());
    let mut blocks = vec![Block::heading(2, heading), Block::Table(table)];
    if more > 0 {
        blocks.push(Block::paragraph(format!("And {more} more.")));
    }
    blocks
}

/// Returns a link to the view of a difference.
fn to_difference(text: String, index: usize) -> Span {
    Span::Link {
        text,
        to: format!("#difference={}", index + 1),
    }
}

/// Returns the majority answer and that of these machines, each with the number of machines. If there is no majority,
/// none is listed as usual.
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
            let about = Text::from(Span::Toned(Tone::Dim, contrast.about.clone()));
            let usual = format!(": {usual}{} ({}); ", contrast.usual, counts.0);
            // The unusual answer must be seen before the usual one.
            let these = Span::Strong(format!("{these}{} ({})", contrast.these, counts.1));
            lines.push(about.then(usual).then(these));
        }
    }
    let more = lines.len().saturating_sub(MOST_CONTRASTS);
    lines.truncate(MOST_CONTRASTS);
    if more > 0 {
        lines.push(format!("and {more} more").into());
    }
    Text::lines(lines)
}

/// Returns a link to each difference.
fn links_to(all: &[(usize, &Deviation<'_>)]) -> Vec<Text> {
    let mut links = Vec::new();
    for (index, one) in all {
        let words = format!("{}: {}", one.name, one.outlier_share());
        links.push(to_difference(words, *index).into());
    }
    links
}
