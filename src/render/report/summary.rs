//! The summary: a row per question, those that need attention first, each linked to its measurements.

use std::collections::{BTreeSet, HashMap};

use crate::block::{Block, Span, Table, Text, Tone};
use crate::html::filter::{FilterChoice, ROW, filter};
use crate::impact::Impact;
use crate::tally::Standing;
use crate::{answer, facts, words};
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::scenario::{is_workaround, subject};
use cuda_pitfalls_core::text::counts::{group_by_key, listed, tally_items};
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::Provenance;

/// Instances with the same answer are folded if there are more than this.
const MOST_INSTANCES: usize = 6;

/// The most contexts that the longest bar stands for.
const MOST_CONTEXTS: u64 = 4;

/// The folder filter is hidden above this many folders.
const MOST_FOLDERS: usize = 24;

/// The class of rows that need attention.
const ATTENTION: &str = "attention";
const COLUMNS: [&str; 5] = [
    "Here",
    "Question",
    "Memory, trap / control",
    "Attempts",
    "Expected",
];

/// An instance and its index in the report, which links to its section.
type Placed<'a, 'r> = (usize, &'a ScenarioView<'r>);

/// The scenarios' folders in their order, each with its number of scenarios. A foreign report may have any number.
pub(super) struct Folders<'r> {
    counts: Vec<(&'r str, usize)>,
    indices: HashMap<&'r str, usize>,
}

impl<'r> Folders<'r> {
    pub(super) fn new(report: &ReportView<'r>) -> Folders<'r> {
        let scenarios = report.scenarios.iter();
        let counts = tally_items(scenarios.map(|scenario| folder(scenario.scenario)));
        let mut indices = HashMap::new();
        for (index, (name, _)) in counts.iter().enumerate() {
            indices.insert(*name, index);
        }
        Folders { counts, indices }
    }

    fn class(&self, scenario: &ScenarioView<'_>) -> String {
        let index = self.indices.get(folder(scenario.scenario));
        format!("f{}", index.copied().unwrap_or_default())
    }

    /// Returns the choices of the filter; empty if there are too many to choose from.
    fn filter_choices(&self) -> Vec<FilterChoice> {
        let mut choices = Vec::new();
        if self.counts.len() > MOST_FOLDERS {
            return choices;
        }
        for (index, (name, count)) in self.counts.iter().enumerate() {
            choices.push(FilterChoice {
                class: format!("f{index}"),
                name: (*name).to_owned(),
                count: *count,
            });
        }
        choices
    }

    /// Returns the classes that filters select these instances by, each after a space.
    pub(super) fn filter_classes<'a>(
        &self,
        instances: impl IntoIterator<Item = &'a ScenarioView<'r>>,
    ) -> String
    where
        'r: 'a,
    {
        let mut classes = BTreeSet::from([ROW.to_owned()]);
        for scenario in instances {
            classes.insert(Impact::from_scenario(scenario).class().to_owned());
            classes.insert(self.class(scenario));
            if Standing::new(scenario.verdict).needs_attention() {
                classes.insert(ATTENTION.to_owned());
            }
        }
        Vec::from_iter(classes).join(" ")
    }
}

/// Returns the directory of a scenario; a user's own file is alone in one.
fn folder(name: &str) -> &str {
    match subject::folder_of(name) {
        "" => name,
        folder => folder,
    }
}

/// Returns the table: a row per question.
pub(super) fn table(report: &ReportView<'_>, folders: &Folders<'_>) -> Block {
    let (mut rows, mut classes) = (Vec::new(), Vec::new());
    let scenarios = report.scenarios.iter();
    let changes = scenarios.flat_map(facts::trap_and_control);
    let most = changes.flat_map(|(_, both)| both).max().unwrap_or(0);
    let largest = most.max(1).unsigned_abs();
    let contexts = report.run.calibration.iter();
    let context = contexts.map(|gpu| gpu.figures.context_bytes).max();
    // One change of many GiB would make all other bars invisible.
    let whole = match context.unwrap_or(0).saturating_mul(MOST_CONTEXTS) {
        0 => largest,
        bytes => bytes.min(largest),
    };
    for instances in grouped_instances(report) {
        rows.push(row(&instances, whole));
        classes.push(folders.filter_classes(instances.iter().map(|(_, scenario)| *scenario)));
    }
    let mut caption = "Problems come first. Memory is the change since before the process. \
        The upper bar is the trap, the lower one the control."
        .to_owned();
    if whole < largest {
        caption += &format!(" A bar with a gap is longer than {}.", units::bytes(whole));
    }
    let mut columns = COLUMNS.as_slice();
    let has_exceptions = rows
        .iter()
        .any(|row| row.last().is_some_and(|cell| !cell.0.is_empty()));
    if !has_exceptions {
        columns = columns.get(..4).unwrap_or_default();
        rows.iter_mut().for_each(|row| row.truncate(4));
    }
    Block::Table(Table {
        caption,
        records: Some("answers"),
        classes,
        ..Table::new(columns.iter().copied(), rows)
    })
}

pub(super) fn summary_filters(report: &ReportView<'_>, folders: &Folders<'_>) -> String {
    let all = report.scenarios.len();
    let mut counts: HashMap<Impact, usize> = HashMap::new();
    let mut attention = 0;
    for scenario in &report.scenarios {
        *counts.entry(Impact::from_scenario(scenario)).or_default() += 1;
        attention += usize::from(Standing::new(scenario.verdict).needs_attention());
    }
    let mut answers = Vec::new();
    for impact in Impact::ALL {
        if let Some(count) = counts.get(&impact) {
            answers.push(FilterChoice {
                class: impact.class().to_owned(),
                name: impact.name().to_owned(),
                count: *count,
            });
        }
    }
    if attention > 0 {
        answers.push(FilterChoice {
            class: ATTENTION.to_owned(),
            name: "needs attention".to_owned(),
            count: attention,
        });
    }
    filter("answer", "Show", ("all", all), &answers)
        + &filter("folder", "About", ("all", all), &folders.filter_choices())
}

/// Returns the instances of each row: an answer that needs attention alone, then the instances of each question
/// together.
fn grouped_instances<'a, 'r>(report: &'a ReportView<'r>) -> Vec<Vec<Placed<'a, 'r>>> {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for (index, scenario) in report.scenarios.iter().enumerate() {
        if Standing::new(scenario.verdict).needs_attention() {
            first.push((index, scenario));
        } else {
            rest.push((scenario.scenario, (index, scenario)));
        }
    }
    first.sort_by_key(|(_, scenario)| std::cmp::Reverse(Standing::new(scenario.verdict)));
    let mut groups = Vec::new();
    for placed in first {
        groups.push(vec![placed]);
    }
    for (_, instances) in group_by_key(rest) {
        groups.push(instances);
    }
    groups
}

/// Returns the cells of some instances; `whole` is the memory of the longest bar.
fn row(instances: &[Placed<'_, '_>], whole: u64) -> Vec<Text> {
    let (mut memory, mut attempts) = (Vec::new(), Vec::new());
    // Each of several instances has its own memory and attempts.
    if let [(_, only)] = instances {
        for (words, both) in facts::trap_and_control(only) {
            let bars = both.map(|bytes| {
                let hundredfold = bytes.max(0).unsigned_abs().saturating_mul(100);
                hundredfold.div_ceil(whole)
            });
            memory.push(Text::from(words).then(Span::Bars(bars)));
        }
        for case in ["trap", "control"]
            .iter()
            .filter_map(|name| only.case(name))
        {
            attempts.push(format!("{} {}", case.name, facts::outcome_frequency(case)));
        }
    }
    vec![
        here(instances),
        question(instances),
        Text::lines(memory),
        Text::lines(attempts),
        expectation_text(instances),
    ]
}

/// Returns the one-word answer, in the color of its meaning.
fn here(instances: &[Placed<'_, '_>]) -> Text {
    let mut words = BTreeSet::new();
    let mut impact = None;
    let mut is_simulated = false;
    for (_, scenario) in instances {
        words.insert(answer::word(scenario));
        let this = Impact::from_scenario(scenario);
        impact = Some(impact.map_or(this, |worst: Impact| worst.min(this)));
        is_simulated |= scenario.verdict.provenance == Provenance::Simulated;
    }
    let word = match words.len() {
        1 => words.pop_first().unwrap_or_default(),
        _ => "some",
    };
    let tone = impact.map_or(Tone::Dim, Impact::tone);
    let mut lines = vec![Span::Toned(tone, word.to_owned())];
    if is_simulated {
        lines.push(Span::Toned(Tone::Dim, "simulated".to_owned()));
    }
    Text::lines(lines)
}

/// Returns the question, its workaround if needed, and links to the measurements.
fn question(instances: &[Placed<'_, '_>]) -> Text {
    let Some((index, first)) = instances.first() else {
        return Text::default();
    };
    let mut lines = vec![Text::from(first.question)];
    let mut showing = instances.iter().map(|(_, scenario)| scenario);
    let showing = showing.find(|scenario| Impact::from_scenario(scenario) == Impact::Shows);
    if let Some(scenario) = showing
        && is_workaround(scenario.workaround)
    {
        lines.push(format!("→ {}", scenario.workaround).into());
    }
    lines.extend(why(first));
    if instances.len() == 1 {
        let link = Span::Link {
            text: first.name.to_owned(),
            to: format!("#s{index}"),
        };
        lines.push(link.into());
        return Text::lines(lines);
    }
    lines.push(Span::Toned(Tone::Dim, first.scenario.to_owned()).into());
    let answers = instances
        .iter()
        .map(|placed| (answer::word(placed.1), placed));
    for (word, alike) in group_by_key(answers) {
        lines.push(instance_links(word, &alike));
    }
    Text::lines(lines)
}

/// Returns the instances with one answer, each a link.
fn instance_links(word: &str, instances: &[&Placed<'_, '_>]) -> Text {
    let libcudart = instances.first().map(|(_, first)| first.libcudart);
    let several = instances
        .iter()
        .any(|(_, scenario)| Some(scenario.libcudart) != libcudart);
    let mut links: Vec<Text> = Vec::new();
    for (index, scenario) in instances {
        let mut words = Vec::new();
        let values = answer::parameter_values(scenario);
        if !values.is_empty() {
            words.push(values);
        }
        if several {
            words.extend(facts::libcudart(scenario));
        }
        let link = Span::Link {
            text: listed(words, scenario.name),
            to: format!("#s{index}"),
        };
        links.push(link.into());
    }
    if instances.len() > MOST_INSTANCES {
        let summary = format!("{word} for {} values", instances.len());
        return Span::Fold(summary, links).into();
    }
    Text::from(format!("{word} for ")).then(Text::join(links, ", "))
}

/// Returns how the answers differ from what the file expects, with the number of each if there are several.
fn expectation_text(instances: &[Placed<'_, '_>]) -> Text {
    let standings = instances
        .iter()
        .map(|(_, scenario)| Standing::new(scenario.verdict));
    let mut lines = Vec::new();
    for (standing, count) in tally_items(standings) {
        if standing == Standing::AsExpected {
            continue;
        }
        let (mark, name) = (standing.mark(), standing.name());
        let words = if instances.len() > 1 {
            format!("{mark} {count} {name}")
        } else {
            format!("{mark} {name}")
        };
        lines.push(Span::Toned(standing.tone(), words));
    }
    Text::lines(lines)
}

/// Returns the reason why a row needs attention, or did not run.
fn why(scenario: &ScenarioView<'_>) -> Vec<Text> {
    let verdict = scenario.verdict;
    let standing = Standing::new(verdict);
    let reasons: Vec<String> = match standing {
        Standing::Unexpected => verdict.unexpected.clone(),
        Standing::HarnessError => vec![verdict.detail.clone()],
        Standing::Inconclusive | Standing::Skipped => {
            let reason = verdict.reason.map(words::reason);
            reason.into_iter().map(str::to_owned).collect()
        }
        Standing::AsExpected | Standing::Answered => Vec::new(),
    };
    let mut texts = Vec::new();
    for reason in reasons {
        texts.push(Span::Toned(standing.tone(), reason).into());
    }
    texts
}
