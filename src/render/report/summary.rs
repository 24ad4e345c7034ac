//! The summary: a row per question, what needs attention first, each linked to what was measured.

use std::collections::{BTreeSet, HashMap};

use crate::block::{Block, Span, Table, Text, Tone};
use crate::html::filter::{FilterChoice, ROW, filter};
use crate::impact::Impact;
use crate::tally::Standing;
use crate::{answer, facts, words};
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::scenario::{is_workaround, subject};
use cuda_pitfalls_core::text::counts::{group_by_key, listed, tally_items};
use cuda_pitfalls_core::verdict::Provenance;

/// More instances than this with one answer are folded.
const MOST_INSTANCES: usize = 6;

/// Of more folders there is no filter.
const MOST_FOLDERS: usize = 24;

/// The class of what needs attention.
const ATTENTION: &str = "attention";
const COLUMNS: [&str; 5] = [
    "Here",
    "Question",
    "Memory, trap / control",
    "Expected",
    "Attempts",
];

/// An instance and its index in the report, which its section is linked by.
type Placed<'a, 'r> = (usize, &'a ScenarioView<'r>);

/// The scenarios' folders in their order, each with how many it has. A report that is not ours may have any number.
pub(super) struct Folders<'r> {
    counts: Vec<(&'r str, usize)>,
    indices: HashMap<&'r str, usize>,
}

impl<'r> Folders<'r> {
    pub(super) fn new(report: &ReportView<'r>) -> Folders<'r> {
        let counts = tally_items(
            report
                .scenarios
                .iter()
                .map(|scenario| folder(scenario.scenario)),
        );
        let indices = counts
            .iter()
            .enumerate()
            .map(|(index, (name, _))| (*name, index))
            .collect();
        Folders { counts, indices }
    }

    fn class(&self, scenario: &ScenarioView<'_>) -> String {
        format!(
            "f{}",
            self.indices
                .get(folder(scenario.scenario))
                .copied()
                .unwrap_or_default()
        )
    }

    /// The choices of the filter; none where there are too many to choose from.
    fn filter_choices(&self) -> Vec<FilterChoice> {
        let shown = if self.counts.len() > MOST_FOLDERS {
            &[][..]
        } else {
            &self.counts
        };
        let choices = shown
            .iter()
            .enumerate()
            .map(|(index, (name, count))| FilterChoice {
                class: format!("f{index}"),
                name: (*name).to_owned(),
                count: *count,
            });
        choices.collect()
    }

    /// The classes by which filters select what shows these instances, behind blanks.
    pub(super) fn filter_classes<'a>(
        &self,
        instances: impl Iterator<Item = &'a ScenarioView<'r>>,
    ) -> String
    where
        'r: 'a,
    {
        let mut classes = BTreeSet::from([ROW.to_owned()]);
        for scenario in instances {
            classes.insert(Impact::from_scenario(scenario).class().to_owned());
            classes.insert(self.class(scenario));
            classes.extend(
                Standing::new(scenario.verdict)
                    .needs_attention()
                    .then(|| ATTENTION.to_owned()),
            );
        }
        classes.into_iter().collect::<Vec<_>>().join(" ")
    }
}

/// The folder of a scenario; a file of the user's own is alone in one.
fn folder(name: &str) -> &str {
    Some(subject::folder_of(name))
        .filter(|folder| !folder.is_empty())
        .unwrap_or(name)
}

/// The table: a row per question.
pub(super) fn table(report: &ReportView<'_>, folders: &Folders<'_>) -> Block {
    let all = rows(report);
    Block::Table(Table {
        caption: "What needs attention comes first. Memory is the change since before the process."
            .into(),
        records: Some("answers"),
        classes: all
            .iter()
            .map(|instances| folders.filter_classes(instances.iter().map(|(_, it)| *it)))
            .collect(),
        ..Table::new(COLUMNS, all.iter().map(|instances| row(instances)))
    })
}

pub(super) fn summary_filters(report: &ReportView<'_>, folders: &Folders<'_>) -> String {
    let all = report.scenarios.len();
    let answers = Impact::ALL.map(|impact| FilterChoice {
        class: impact.class().to_owned(),
        name: impact.name().to_owned(),
        count: report
            .scenarios
            .iter()
            .filter(|it| Impact::from_scenario(it) == impact)
            .count(),
    });
    let mut answers = Vec::from(answers);
    let attention = report
        .scenarios
        .iter()
        .filter(|it| Standing::new(it.verdict).needs_attention())
        .count();
    answers.push(FilterChoice {
        class: ATTENTION.to_owned(),
        name: "needs attention".to_owned(),
        count: attention,
    });
    answers.retain(|choice| choice.count > 0);
    filter("answer", "Show", ("all", all), &answers)
        + &filter("folder", "About", ("all", all), &folders.filter_choices())
}

/// The rows: each answer that needs attention by itself, then the instances of each question together.
fn rows<'a, 'r>(report: &'a ReportView<'r>) -> Vec<Vec<Placed<'a, 'r>>> {
    let (mut first, rest): (Vec<_>, Vec<_>) = report
        .scenarios
        .iter()
        .enumerate()
        .partition(|(_, scenario)| Standing::new(scenario.verdict).needs_attention());
    first.sort_by_key(|(_, scenario)| std::cmp::Reverse(Standing::new(scenario.verdict)));
    let rest = group_by_key(rest.into_iter().map(|placed| (placed.1.scenario, placed)));
    first
        .into_iter()
        .map(|placed| vec![placed])
        .chain(rest.into_iter().map(|(_, row)| row))
        .collect()
}

fn row(instances: &[Placed<'_, '_>]) -> Vec<Text> {
    // Of several instances each has its own memory and attempts.
    let alone = instances
        .first()
        .filter(|_| instances.len() == 1)
        .map(|(_, only)| only);
    let memory = Text::lines(
        alone
            .into_iter()
            .flat_map(|only| facts::trap_and_control(only)),
    );
    let cases = ["trap", "control"]
        .into_iter()
        .filter_map(|name| alone?.case(name));
    let attempts =
        Text::lines(cases.map(|case| format!("{} {}", case.name, facts::outcome_frequency(case))));
    vec![
        here(instances),
        question(instances),
        memory,
        expectation_text(instances),
        attempts,
    ]
}

/// The answer in a word, in the colour of what it means.
fn here(instances: &[Placed<'_, '_>]) -> Text {
    let words = tally_items(instances.iter().map(|(_, it)| answer::word(it)));
    let word = match words.as_slice() {
        [(word, _)] => word,
        _ => "some",
    };
    let tone = instances
        .iter()
        .map(|(_, it)| Impact::from_scenario(it))
        .min()
        .map_or(Tone::Dim, Impact::tone);
    let is_simulated = instances
        .iter()
        .any(|(_, it)| it.verdict.provenance == Provenance::Simulated);
    let simulated = is_simulated.then(|| Span::Toned(Tone::Dim, "simulated".to_owned()));
    Text::lines(std::iter::once(Span::Toned(tone, word.to_owned())).chain(simulated))
}

/// The question, its workaround where it is needed, and links to what was measured.
fn question(instances: &[Placed<'_, '_>]) -> Text {
    let Some((index, first)) = instances.first() else {
        return Text::default();
    };
    let mut lines = vec![Text::from(first.question)];
    let showing = instances
        .iter()
        .map(|(_, it)| it)
        .find(|it| Impact::from_scenario(it) == Impact::Shows);
    let workaround = showing
        .map(|it| it.workaround)
        .filter(|workaround| is_workaround(workaround));
    lines.extend(workaround.map(|workaround| format!("→ {workaround}").into()));
    lines.extend(why(first));
    if instances.len() == 1 {
        lines.push(
            Span::Link {
                text: first.name.to_owned(),
                to: format!("#s{index}"),
            }
            .into(),
        );
        return Text::lines(lines);
    }
    lines.push(Span::Toned(Tone::Dim, first.scenario.to_owned()).into());
    let answers = group_by_key(
        instances
            .iter()
            .map(|placed| (answer::word(placed.1), placed)),
    );
    lines.extend(
        answers
            .iter()
            .map(|(word, alike)| instance_links(word, alike)),
    );
    Text::lines(lines)
}

/// The instances with one answer, each a link.
fn instance_links(word: &str, instances: &[&Placed<'_, '_>]) -> Text {
    let several = instances
        .iter()
        .any(|(_, it)| it.libcudart != instances.first().and_then(|(_, it)| it.libcudart));
    let links = instances.iter().map(|(index, it)| {
        let runtime = facts::libcudart(it).filter(|_| several);
        let values = Some(answer::parameter_values(it)).filter(|values| !values.is_empty());
        let text = listed(values.into_iter().chain(runtime), it.name);
        Text::from(Span::Link {
            text,
            to: format!("#s{index}"),
        })
    });
    if instances.len() > MOST_INSTANCES {
        return Span::Fold(
            format!("{word} for {} values", instances.len()),
            links.collect(),
        )
        .into();
    }
    Text::from(format!("{word} for ")).then(Text::join(links, ", "))
}

/// Whether the answers are those that the file expects, with how many of each where there are several.
fn expectation_text(instances: &[Placed<'_, '_>]) -> Text {
    let standings = tally_items(instances.iter().map(|(_, it)| Standing::new(it.verdict)));
    Text::lines(standings.into_iter().map(|(standing, count)| {
        let count = if instances.len() > 1 {
            format!("{count} ")
        } else {
            String::new()
        };
        Span::Toned(
            standing.tone(),
            format!("{} {count}{}", standing.mark(), standing.name()),
        )
    }))
}

/// Why a row needs attention, or was not asked.
fn why(scenario: &ScenarioView<'_>) -> Vec<Text> {
    let verdict = &scenario.verdict;
    let standing = Standing::new(verdict);
    let reasons: Vec<String> = match standing {
        Standing::Unexpected => verdict.unexpected.clone(),
        Standing::HarnessError => vec![verdict.detail.clone()],
        Standing::Inconclusive | Standing::Skipped => verdict
            .reason
            .map(|it| words::reason(it).to_owned())
            .into_iter()
            .collect(),
        Standing::AsExpected | Standing::Answered => Vec::new(),
    };
    reasons
        .into_iter()
        .map(|reason| Span::Toned(standing.tone(), reason).into())
        .collect()
}
