//! A fleet as blocks: how many machines there are, who is missing, what differs, and the groups. Each form shows as much
//! of it as it has room for.

use super::findings::{FleetFinding, findings};
use super::standing::{self, Few};
use super::words::{self, Deviation};
use crate::block::{Block, Span, Table, Text, Tone};
use crate::html::page::percent_encoded;
use crate::tally::SIMULATED;
use cuda_pitfalls_answers::fleet::Fleet;
use cuda_pitfalls_answers::survey::word;
use cuda_pitfalls_core::text::escape::visible;
use cuda_pitfalls_core::verdict::Provenance;

/// How many entries of each list of a fleet a form shows.
pub(super) struct ListLimits {
    /// Causes with a row of their own.
    pub(super) causes: usize,
    /// Causes beside them that a page shows when it is asked to.
    pub(super) folded: usize,
    /// Machines and questions that are named where there are more.
    pub(super) names: usize,
    /// Questions that are named of one cause.
    pub(super) questions: usize,
    pub(super) groups: usize,
    /// Documents that were not merged.
    pub(super) not_merged: usize,
}

pub(super) const TEXT: ListLimits =
    ListLimits { causes: 6, folded: 0, names: 8, questions: 3, groups: 6, not_merged: 0 };
/// A page of an issue tracker is at most 65,536 characters.
pub(super) const MARKDOWN: ListLimits =
    ListLimits { causes: 50, folded: 0, names: 8, questions: 8, groups: 50, not_merged: 0 };
/// After a merge nothing but that and what was not merged is told.
pub(super) const MERGED: ListLimits =
    ListLimits { causes: 0, folded: 0, names: 20, questions: 0, groups: 0, not_merged: 20 };
pub(super) const HTML: ListLimits =
    ListLimits { causes: 25, folded: 500, names: 20, questions: usize::MAX, groups: usize::MAX, not_merged: 200 };

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
    pub(super) fn new(fleet: &'f Fleet, limits: ListLimits, docs: Option<&'f str>) -> FleetView<'f> {
        FleetView { fleet, told: words::in_words(fleet), few: standing::few(fleet), limits, docs }
    }

    /// All of it, for forms that only show blocks.
    pub(super) fn blocks(&self) -> Vec<Block> {
        [self.overview(), self.differences(), self.groups()].concat()
    }

    /// How many machines there are, what was read, and what is said of all of them.
    pub(super) fn overview(&self) -> Vec<Block> {
        let fleet = self.fleet;
        // No real driver answered: that comes before everything else.
        let simulated = fleet.provenance == Provenance::Simulated;
        let banner = simulated.then(|| Block::Banner(SIMULATED.to_owned()));
        let mut blocks: Vec<Block> = banner.into_iter().collect();
        blocks.extend([Block::heading(1, TITLE), Block::Badges(standing::counts(fleet, &self.told))]);
        let read = format!("{}; merged by cuda-pitfalls {}", standing::input(fleet), fleet.version);
        blocks.push(Block::fact("Read", read));
        blocks.extend(standing::remarks(fleet, &self.told, &self.few, self.limits.names));
        let missing = fleet.expected.iter().flat_map(|expected| &expected.missing);
        let missing: Vec<Text> = missing.filter(|_| self.limits.folded > 0).map(Text::from).collect();
        if missing.len() > self.limits.names {
            let summary = format!("All {} that are missing", missing.len());
            blocks.push(Block::Fold(summary, vec![Block::paragraph(Text::join(missing, ", "))]));
        }
        blocks
    }

    pub(super) fn differences(&self) -> Vec<Block> {
        let mut blocks = vec![Block::heading(2, "What differs")];
        let findings = findings(self.fleet, &self.told);
        if findings.is_empty() {
            blocks.push(Block::paragraph(self.few.no_difference()));
            return blocks;
        }
        let (first, rest) = findings.split_at(findings.len().min(self.limits.causes));
        let (folded, rest) = rest.split_at(rest.len().min(self.limits.folded));
        let caption =
            "From what is usual in the group, the most important first. A machine that differs is not wrong for that.";
        blocks.push(self.table(caption, first));
        if !folded.is_empty() {
            let summary = format!("{} more of {}", folded.len(), findings.len());
            blocks.push(Block::Fold(summary, vec![self.table("Less important ones, in the same order.", folded)]));
        }
        if !rest.is_empty() {
            let more = format!("And {} more: --as html, csv and json have them all.", rest.len());
            blocks.push(Block::paragraph(more));
        }
        blocks
    }

    /// A row for each cause.
    fn table(&self, caption: &'static str, findings: &[FleetFinding<'_, '_>]) -> Block {
        let columns = ["Question", "Differs in", "How", "Machines", "Group"];
        let rows = findings.iter().map(|finding| {
            let one = finding.first;
            let index = finding.cause.differences.first().copied().unwrap_or_default();
            let machines = one.machines.iter().take(self.limits.names).map(|name| Span::Link {
                text: (*name).to_owned(),
                to: format!("#machine={}", percent_encoded(&visible(name), "")),
            });
            let more = one.machines.len().saturating_sub(self.limits.names);
            let more = (more > 0).then(|| to_difference(format!(" and {more} more"), index));
            let labels = finding.labels().into_iter().map(Text::from);
            vec![
                if finding.is_of_one_question() { self.question(one) } else { self.questions(finding) },
                to_difference(finding.share(), index).into(),
                contrasts(finding),
                Text::lines(
                    [Text(Text::join(machines, ", ").0.into_iter().chain(more).collect())].into_iter().chain(labels),
                ),
                one.group.clone().into(),
            ]
        });
        Block::Table(Table { caption: caption.into(), records: Some("differences"), ..Table::new(columns, rows) })
    }

    /// A question: its name, what it asks, and its page.
    fn question(&self, one: &Deviation<'_>) -> Text {
        let asks = Some(one.question).filter(|question| !question.is_empty());
        let page = one.page.map(|page| match self.docs {
            Some(docs) => Span::Link { text: page.to_owned(), to: format!("{}/{page}", docs.trim_end_matches('/')) },
            None => Span::Toned(Tone::Dim, page.to_owned()),
        });
        let asks = asks.map(|asks| Span::Toned(Tone::Dim, asks.to_owned()));
        Text::lines([Span::Plain(one.name.to_owned())].into_iter().chain(asks).chain(page))
    }

    /// The questions of a cause: how many, and each with a link to its view.
    fn questions(&self, finding: &FleetFinding<'_, '_>) -> Text {
        let all = finding.questions();
        let more = all.len().saturating_sub(self.limits.questions);
        let shown = all.iter().take(self.limits.questions);
        let links = shown.map(|(index, name)| to_difference((*name).to_owned(), *index).into());
        let more = (more > 0).then(|| format!("and {more} more").into());
        Span::Fold(finding.subject(), links.chain(more).collect()).into()
    }

    pub(super) fn groups(&self) -> Vec<Block> {
        let rows =
            self.fleet.groups.iter().enumerate().take(self.limits.groups).map(|(index, group)| {
                vec![words::key(&group.key), standing::group(group, &self.told, &self.few, index)]
            });
        let caption = "Machines are compared only within a group.";
        let table = Table { caption: caption.into(), ..Table::new(["Group", "Machines"], rows) };
        section("Groups", table, self.fleet.groups.len())
    }

    /// What was not merged, and why.
    pub(super) fn not_merged(&self) -> Vec<Block> {
        let all = &self.fleet.input.not_merged;
        if all.is_empty() {
            return Vec::new();
        }
        let shown = all.iter().take(self.limits.not_merged);
        let rows = shown.map(|one| vec![one.path.clone(), word(one.bucket), one.why.clone()]);
        let caption = "Examples of documents that were not merged, with the reason.";
        let table = Table { caption: caption.into(), ..Table::new(["Document", "Bucket", "Why"], rows) };
        section("Not merged", table, all.len())
    }
}

/// A table below its heading, and how many of `all` rows it leaves out.
fn section(heading: &str, table: Table, all: usize) -> Vec<Block> {
    let more = all.saturating_sub(table.rows.len());
    let more = (more > 0).then(|| Block::paragraph(format!("And {more} more.")));
    [Block::heading(2, heading), Block::Table(table)].into_iter().chain(more).collect()
}

/// A link to the view of a difference.
fn to_difference(text: String, index: usize) -> Span {
    Span::Link { text, to: format!("#difference={}", index + 1) }
}

/// What is usual and what these machines show, each with how many machines show it. In a group that is split nothing is
/// usual.
fn contrasts(finding: &FleetFinding<'_, '_>) -> Text {
    let one = finding.first;
    let [usual, these] = if one.is_split { ["", ""] } else { ["usual ", "these "] };
    let counts = (one.difference.usual_machines, one.these());
    let (contrasts, more) = finding.contrasts();
    let lines = contrasts.iter().map(|it| {
        let both = format!(": {usual}{} ({}); {these}{} ({})", it.usual, counts.0, it.these, counts.1);
        Text::from(Span::Toned(Tone::Dim, it.about.clone())).then(both)
    });
    Text::lines(lines.chain(more.map(Text::from)))
}
