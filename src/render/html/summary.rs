//! The summary: a row per question, what needs attention first, each linked to what was measured.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use super::filter::{Choice, ROW, filter};
use super::page::{element, fold, table};
use crate::impact::Impact;
use crate::tally::Standing;
use crate::{answer, facts, words};
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::scenario::{is_workaround, subject};
use cuda_pitfalls_core::text::counts::{grouped, listed, tally};
use cuda_pitfalls_core::text::escape::html;
use cuda_pitfalls_core::verdict::Provenance;

/// More instances than this with one answer are folded.
const MOST_INSTANCES: usize = 6;

/// Of more folders there is no filter.
const MOST_FOLDERS: usize = 24;

/// The class of what needs attention.
const ATTENTION: &str = "attention";
const COLUMNS: [&str; 5] = ["Here", "Question", "Memory, trap / control", "Expected", "Attempts"];

/// An instance and its place in the report, which its section is linked by.
type Placed<'a, 'r> = (usize, &'a ScenarioView<'r>);

/// The scenarios' folders in their order, each with how many it has. A report that is not ours may have any number.
pub(super) struct Folders<'r> {
    counts: Vec<(&'r str, usize)>,
    places: HashMap<&'r str, usize>,
}

impl<'r> Folders<'r> {
    pub(super) fn of(report: &ReportView<'r>) -> Folders<'r> {
        let counts = tally(report.scenarios.iter().map(|scenario| folder(scenario.scenario)));
        let places = counts.iter().enumerate().map(|(place, (name, _))| (*name, place)).collect();
        Folders { counts, places }
    }

    fn class(&self, scenario: &ScenarioView<'_>) -> String {
        format!("f{}", self.places.get(folder(scenario.scenario)).copied().unwrap_or_default())
    }

    /// The choices of the filter; none where there are too many to choose from.
    fn choices(&self) -> Vec<Choice> {
        let choice = |(place, (name, count)): (usize, &(&str, usize))| Choice {
            class: format!("f{place}"),
            name: (*name).to_owned(),
            count: *count,
        };
        if self.counts.len() > MOST_FOLDERS { Vec::new() } else { self.counts.iter().enumerate().map(choice).collect() }
    }

    /// The classes by which filters select what shows these instances, behind blanks.
    pub(super) fn classes<'a>(&self, instances: impl Iterator<Item = &'a ScenarioView<'r>>) -> String
    where
        'r: 'a,
    {
        let mut classes = BTreeSet::from([ROW.to_owned()]);
        for scenario in instances {
            classes.insert(Impact::of_scenario(scenario).class().to_owned());
            classes.insert(self.class(scenario));
            classes.extend(needs_attention(scenario).then(|| ATTENTION.to_owned()));
        }
        classes.into_iter().collect::<Vec<_>>().join(" ")
    }
}

/// The folder of a scenario; a file of the user's own is alone in one.
fn folder(name: &str) -> &str {
    Some(subject::folder_of(name)).filter(|folder| !folder.is_empty()).unwrap_or(name)
}

fn needs_attention(scenario: &ScenarioView<'_>) -> bool {
    Standing::of(scenario.verdict) >= Standing::Inconclusive
}

/// The filters and the table.
pub(super) fn section(out: &mut String, report: &ReportView<'_>, folders: &Folders<'_>) {
    out.push_str("<h2>Answers</h2>\n");
    filters(out, report, folders);
    let caption = "What needs attention comes first. Memory is the change since before the process.";
    let all = rows(report);
    out.push_str(&table("summary answers", caption, &COLUMNS, all.iter().map(|instances| row(instances, folders))));
}

fn filters(out: &mut String, report: &ReportView<'_>, folders: &Folders<'_>) {
    let all = report.scenarios.len();
    let impact = |impact: Impact| Choice {
        class: impact.class().to_owned(),
        name: impact.name().to_owned(),
        count: report.scenarios.iter().filter(|it| Impact::of_scenario(it) == impact).count(),
    };
    let mut answers: Vec<Choice> = Impact::ALL.into_iter().map(impact).collect();
    let attention = report.scenarios.iter().filter(|it| needs_attention(it)).count();
    answers.push(Choice { class: ATTENTION.to_owned(), name: "needs attention".to_owned(), count: attention });
    answers.retain(|choice| choice.count > 0);
    out.push_str(&filter("answer", "Show", ("all", all), &answers));
    out.push_str(&filter("folder", "About", ("all", all), &folders.choices()));
}

/// The rows: each answer that needs attention by itself, then the instances of each question together.
fn rows<'a, 'r>(report: &'a ReportView<'r>) -> Vec<Vec<Placed<'a, 'r>>> {
    let (mut first, rest): (Vec<_>, Vec<_>) =
        report.scenarios.iter().enumerate().partition(|(_, scenario)| needs_attention(scenario));
    first.sort_by_key(|(_, scenario)| std::cmp::Reverse(Standing::of(scenario.verdict)));
    let rest = grouped(rest.into_iter().map(|placed| (placed.1.scenario, placed)));
    first.into_iter().map(|placed| vec![placed]).chain(rest.into_iter().map(|(_, row)| row)).collect()
}

/// The classes of a row, and its cells.
fn row(instances: &[Placed<'_, '_>], folders: &Folders<'_>) -> (String, Vec<String>) {
    // Of several instances each has its own memory and attempts.
    let alone = instances.first().filter(|_| instances.len() == 1).map(|(_, only)| only);
    let memory = alone.into_iter().flat_map(|only| facts::trap_and_control(only));
    let memory: Vec<String> = memory.map(|line| html(&line)).collect();
    let attempts = |name| Some(format!("{name} {}", facts::frequency(alone?.case(name)?)));
    let attempts: Vec<String> = ["trap", "control"].into_iter().filter_map(attempts).collect();
    let cells =
        vec![here(instances), question(instances), memory.join("<br>"), expectation(instances), attempts.join("<br>")];
    (folders.classes(instances.iter().map(|(_, it)| *it)), cells)
}

/// The answer in a word, in the colour of what it means.
fn here(instances: &[Placed<'_, '_>]) -> String {
    let words = tally(instances.iter().map(|(_, it)| answer::word(it)));
    let word = match words.as_slice() {
        [(word, _)] => word,
        _ => "some",
    };
    let Some(impact) = instances.iter().map(|(_, it)| Impact::of_scenario(it)).min() else { return String::new() };
    let simulated = instances.iter().any(|(_, it)| it.verdict.provenance == Provenance::Simulated);
    let simulated = if simulated { "<div class=\"dim\">simulated</div>" } else { "" };
    format!("<strong class=\"here {}\">{}</strong>{simulated}", impact.class(), html(word))
}

/// The question, its workaround where it is needed, and links to what was measured.
fn question(instances: &[Placed<'_, '_>]) -> String {
    let Some((place, first)) = instances.first() else { return String::new() };
    let mut cell = format!("<div class=\"question\">{}</div>", html(first.question));
    let showing = instances.iter().map(|(_, it)| it).find(|it| Impact::of_scenario(it) == Impact::Shows);
    if let Some(workaround) = showing.map(|it| it.workaround).filter(|workaround| is_workaround(workaround)) {
        let _ = write!(cell, "<div class=\"workaround\">→ {}</div>", html(workaround));
    }
    for reason in why(first) {
        cell.push_str(&reason);
    }
    if instances.len() == 1 {
        let _ = write!(cell, "<a class=\"name\" href=\"#s{place}\">{}</a>", html(first.name));
        return cell;
    }
    let _ = write!(cell, "<div class=\"name\">{}</div>", html(first.scenario));
    for (word, alike) in grouped(instances.iter().map(|placed| (answer::word(placed.1), placed))) {
        cell.push_str(&links(word, &alike));
    }
    cell
}

/// The instances with one answer, each a link.
fn links(word: &str, instances: &[&Placed<'_, '_>]) -> String {
    let several = instances.iter().any(|(_, it)| it.libcudart != instances.first().and_then(|(_, it)| it.libcudart));
    let link = |(place, it): &&Placed<'_, '_>| {
        let runtime = facts::libcudart(it).filter(|_| several);
        let values = Some(answer::values(it)).filter(|values| !values.is_empty());
        format!("<a href=\"#s{place}\">{}</a>", html(&listed(values.into_iter().chain(runtime), it.name)))
    };
    let list = listed(instances.iter().map(link), "");
    if instances.len() > MOST_INSTANCES {
        return fold(&format!("{word} for {} values", instances.len()), &element("div", "name", &list));
    }
    element("div", "name", &format!("{} for {list}", html(word)))
}

/// Whether the answers are those that the file expects, with how many of each where there are several.
fn expectation(instances: &[Placed<'_, '_>]) -> String {
    let standings = tally(instances.iter().map(|(_, it)| Standing::of(it.verdict)));
    let badge = |(standing, count): (Standing, usize)| {
        let count = if instances.len() > 1 { format!("{count} ") } else { String::new() };
        let name = standing.name();
        format!("<span class=\"badge {}\">{} {count}{name}</span>", standing.class(), standing.mark())
    };
    standings.into_iter().map(badge).collect::<Vec<_>>().join("<br>")
}

/// Why a row needs attention, or was not asked.
fn why(scenario: &ScenarioView<'_>) -> Vec<String> {
    let verdict = &scenario.verdict;
    let reason = || verdict.reason.map(|it| words::reason(it).to_owned()).into_iter().collect();
    let (class, reasons): (&str, Vec<String>) = match Standing::of(verdict) {
        Standing::Unexpected => ("failed", verdict.unexpected.clone()),
        Standing::HarnessError => ("failed", vec![verdict.detail.clone()]),
        Standing::Inconclusive => ("warning", reason()),
        Standing::Skipped => ("dim", reason()),
        Standing::AsExpected | Standing::Answered => ("dim", Vec::new()),
    };
    reasons.iter().map(|reason| format!("<div class=\"{class}\">{}</div>", html(reason))).collect()
}
