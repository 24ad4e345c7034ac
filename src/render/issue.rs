//! Some scenarios of a report as the text of an issue, ready to paste: the question, what was expected, what happened,
//! the table, the steps, the versions, and how to run the reproducer.
//!
//! An issue tracker limits the length of a text. Parts that do not fit are left out, the least important first, and the
//! text lists them.

use super::report::scenario::made;
use super::tally::SIMULATED;
use super::{answer, facts, lines, listing, words, writer};
use crate::block::{Block, Span, Table};
use cuda_pitfalls_core::judge::{Facts, matches};
use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::text::escape::escape_markdown;
use cuda_pitfalls_core::verdict::{Kind, Provenance};

/// Maximum length of the text, in characters: GitHub accepts 65,536.
pub const MOST: usize = 60_000;
/// Characters kept for the sentence about the parts that were left out.
const RESERVED: usize = 1_000;

/// A reproducer in the archive.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The reproducer's file in the archive.
    pub file: String,
    /// Commands that run the reproducer, in order.
    pub commands: Vec<String>,
    /// The name of the language in Markdown.
    pub language: &'static str,
    /// The text of the reproducer.
    pub text: String,
}

/// Parts of the text.
struct IssueSections {
    /// Without the mark of a heading, as it is written.
    title: String,
    synopsis: Vec<Block>,
    expected: Vec<Block>,
    happened: Vec<Block>,
    reproducer: Vec<Block>,
    versions: Vec<(&'static str, String)>,
    attached: Vec<Block>,
}

/// Returns the text, of at most [`MOST`] characters. The report has only the scenarios that it is about.
pub fn render_issue(report: &ReportView<'_>, attached: &[Attached]) -> String {
    let most_left_out = attached.len() + report.scenarios.len().saturating_sub(1);
    let left_out: Vec<usize> = (0..=most_left_out).collect();
    let needed = left_out.partition_point(|left_out: &usize| {
        let text = issue_text(report, attached, *left_out);
        text.chars().count() > MOST
    });
    if needed <= most_left_out {
        return issue_text(report, attached, needed);
    }
    // A single question is too long: its end is cut.
    let text = issue_text(report, attached, most_left_out);
    let kept: String = text.chars().take(MOST - RESERVED).collect();
    let fence = if kept.matches("```").count() % 2 == 1 {
        "\n```"
    } else {
        ""
    };
    format!("{kept}{fence}\n\nThe text was cut here. The report in the archive has the rest.\n")
}

/// Returns the text without this many sources and questions: the last source goes first, and the last question after
/// all sources.
fn issue_text(report: &ReportView<'_>, attached: &[Attached], left_out: usize) -> String {
    let (sources, missing) = attached.split_at(attached.len().saturating_sub(left_out));
    let questions = left_out - missing.len();
    let all = report.scenarios.len();
    let scenarios = report.scenarios.get(..all - questions).unwrap_or_default();
    let text = arrange_sections(IssueSections::new(report, scenarios, attached, sources));
    let mut notes = Vec::new();
    if !missing.is_empty() {
        let files: Vec<&str> = missing.iter().map(|one| one.file.as_str()).collect();
        notes.push(format!(
            "the source of {} (it is in the archive)",
            files.join(", ")
        ));
    }
    if questions > 0 {
        notes.push(format!(
            "{questions} of {all} scenarios (the report in the archive has them)"
        ));
    }
    if notes.is_empty() {
        return text;
    }
    let notes = cut_text(&notes.join("; "), RESERVED - 200);
    let note = format!("Omitted, because an issue is limited to {MOST} characters: {notes}.");
    format!("{text}\n{}\n", escape_markdown(&note))
}

fn cut_text(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        text.to_owned()
    } else {
        text.chars().take(most - 1).chain(['…']).collect()
    }
}

/// Returns the parts under their headings.
fn arrange_sections(parts: IssueSections) -> String {
    let mut blocks = parts.synopsis;
    for (heading, part) in [
        ("Expected", parts.expected),
        ("What happened", parts.happened),
        ("Reproducer", parts.reproducer),
        (
            "Versions",
            vec![Block::Table(Table::named("", parts.versions))],
        ),
        ("Attached: steps and commands", parts.attached),
    ] {
        blocks.push(Block::heading(3, heading));
        blocks.extend(part);
    }
    format!("# {}\n\n{}", parts.title, writer::markdown::write(&blocks))
}

impl IssueSections {
    fn new(
        report: &ReportView<'_>,
        scenarios: &[ScenarioView<'_>],
        attached: &[Attached],
        sources: &[Attached],
    ) -> IssueSections {
        let (title, synopsis) = match scenarios {
            [one] => (
                format!(
                    "{} {}",
                    title(one.question),
                    capitalize_word(answer::word(one))
                ),
                Block::paragraph(format!("Scenario {} of cuda-pitfalls.", one.name)),
            ),
            several => (
                format!("{} unexpected verdicts", several.len()),
                Block::list(several.iter().map(|one| one.name)),
            ),
        };
        let steps = Block::Fold("Steps of each case".to_owned(), each(scenarios, steps));
        let banner = (report.provenance == Provenance::Simulated)
            .then(|| Block::Banner(SIMULATED.to_owned()));
        let mut below = vec![steps];
        below.extend(commands(attached));
        IssueSections {
            title,
            synopsis: banner.into_iter().chain([synopsis]).collect(),
            expected: each(scenarios, |one| {
                vec![Block::paragraph(expected(report, one))]
            }),
            happened: each(scenarios, happened_blocks),
            reproducer: source_blocks(sources),
            versions: versions(report, scenarios),
            attached: below,
        }
    }
}

/// Returns the blocks of each scenario, below its name if there are several.
fn each(
    scenarios: &[ScenarioView<'_>],
    blocks: impl Fn(&ScenarioView<'_>) -> Vec<Block>,
) -> Vec<Block> {
    let mut all = Vec::new();
    for one in scenarios {
        if scenarios.len() > 1 {
            all.push(Block::paragraph(Span::Strong(one.name.to_owned())));
        }
        all.extend(blocks(one));
    }
    all
}

fn expected(report: &ReportView<'_>, scenario: &ScenarioView<'_>) -> String {
    let Some(plan) = scenario.plan else {
        return "This report does not contain the expected result.".to_owned();
    };
    let facts = Facts::new(report.machine, scenario.libcudart, plan, report.provenance);
    for one in &plan.expect {
        if matches(&one.when, &facts, &plan.parameters) {
            let word = answer::word_of(one.verdict.kind(), scenario.question);
            return format!("{word}, because {}", one.because);
        }
    }
    "No result is expected on this machine.".to_owned()
}

fn happened_blocks(scenario: &ScenarioView<'_>) -> Vec<Block> {
    let verdict = scenario.verdict;
    let (word, words) = (answer::word(scenario), facts::verdict(verdict));
    // An answer other than yes and no is the verdict itself.
    let answer = if words.starts_with(word) {
        words
    } else {
        format!("{word}: {words}")
    };
    // The probability of chance follows the counts; a maintainer needs only the counts.
    let detail = match (verdict.kind, verdict.detail.split_once("; ")) {
        (Kind::Reproduced | Kind::NotReproduced, Some((counts, _))) => counts,
        _ => &verdict.detail,
    };
    let mut failed = Vec::new();
    for why in &verdict.unexpected {
        failed.push(format!("not as expected: {why}"));
    }
    let mut blocks = vec![
        Block::paragraph(format!("{answer}. {detail}")),
        Block::list(failed),
    ];
    for case in &scenario.cases {
        let frequency = facts::outcome_frequency(case);
        blocks.push(Block::paragraph(format!("{} ({frequency}):", case.name)));
        match case.outcomes.first() {
            Some(outcome) => blocks.extend(made(
                scenario.plan.and_then(|plan| plan.case(case.name)),
                outcome,
            )),
            None => blocks.push(Block::paragraph("No attempt counts.")),
        }
    }
    blocks
}

fn steps(scenario: &ScenarioView<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for case in &scenario.cases {
        let Some(plan) = scenario.plan.and_then(|plan| plan.case(case.name)) else {
            continue;
        };
        let lines = lines::case_program(Some(plan), case).unwrap_or_else(|| calls(plan));
        let language = if plan.python.is_some() {
            "python"
        } else {
            "text"
        };
        blocks.push(Block::paragraph(format!("{}: {}", case.name, plan.does)));
        blocks.push(Block::Code(language, lines));
    }
    blocks
}

/// Returns the steps of a case of C calls, a line each.
fn calls(plan: &CasePlan) -> Vec<String> {
    let mut lines = Vec::new();
    let start = super::steps::start(plan);
    if !start.is_empty() {
        lines.push(format!("# started with {start}"));
    }
    lines.extend(plan.steps.iter().map(listing::show::call));
    lines
}

/// Returns a text for the title, which people paste into a field that does not render Markdown. Characters that cannot
/// form a link, an image or markup are not escaped.
fn title(text: &str) -> String {
    let mut title = escape_markdown(text);
    if text.contains("](") {
        return title;
    }
    for mark in ["_", "`", "[", "]"] {
        title = title.replace(&format!("\\{mark}"), mark);
    }
    title
}

fn capitalize_word(word: &str) -> String {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().collect::<String>() + letters.as_str(),
        None => String::new(),
    }
}

/// Returns the source of each reproducer.
fn source_blocks(sources: &[Attached]) -> Vec<Block> {
    if sources.is_empty() {
        return vec![Block::Prose(
            "Run the scenario in the archive: `cuda-pitfalls run *.toml`.",
        )];
    }
    let mut blocks = Vec::new();
    for one in sources {
        let lines = one.text.lines().map(str::to_owned).collect();
        blocks.push(Block::Code(one.language, lines));
    }
    blocks
}

/// Returns the commands that start the scenarios and the programs of the archive.
fn commands(attached: &[Attached]) -> Vec<Block> {
    let mut blocks = vec![Block::Prose(
        "`cuda-pitfalls run *.toml` runs the complete scenario in the archive: all steps, background polling and several attempts.",
    )];
    if !attached.is_empty() {
        blocks.push(Block::Prose(
            "The programs in the archive do not need cuda-pitfalls. Exit code: 0 reproduced, 1 not reproduced, 77 inconclusive.",
        ));
    }
    for one in attached {
        blocks.push(Block::Code("sh", one.commands.clone()));
    }
    blocks
}

fn versions(
    report: &ReportView<'_>,
    scenarios: &[ScenarioView<'_>],
) -> Vec<(&'static str, String)> {
    let (machine, run) = (report.machine, report.run);
    let mut rows = vec![("driver", words::driver(machine))];
    let mut runtimes: Vec<String> = scenarios.iter().filter_map(facts::libcudart).collect();
    runtimes.sort();
    runtimes.dedup();
    for runtime in runtimes {
        rows.push(("runtime", runtime));
    }
    if let Some(python) = &machine.python {
        rows.push(("Python", words::python(python)));
    }
    for gpu in &machine.gpus {
        rows.push(("GPU", words::gpu(gpu)));
    }
    if let Some(kernel) = &machine.kernel {
        rows.push(("kernel", format!("{kernel} {}", machine.architecture)));
    }
    if let Some(container) = &machine.isolation.container {
        rows.push(("container", container.clone()));
    }
    let version = match &run.commit {
        Some(commit) => format!("{} ({commit})", run.version),
        None => run.version.clone(),
    };
    rows.push((
        "cuda-pitfalls",
        format!("{version}, run {}, on {}", run.id, run.on),
    ));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use cuda_pitfalls_core::scenario::{Expectation, Expected, When};

    fn attached(bytes: usize) -> Attached {
        Attached {
            file: "b.py".into(),
            commands: vec!["python3 b.py".into()],
            language: "python",
            text: "#\n".repeat(bytes / 2),
        }
    }

    #[test]
    fn a_text_has_everything_that_a_reader_asks_for() {
        let mut report = fixture::report();
        report.scenarios.truncate(1);
        let text = render_issue(&report.view(), &[attached(100)]);
        for part in [
            "### Expected",
            "### What happened",
            "Steps of each case",
            "### Reproducer",
            "### Versions",
            "python3 b.py",
            "| driver |",
            "<details>",
        ] {
            assert!(text.contains(part), "no {part}:\n{text}");
        }
        assert!(!text.contains("Left out"), "{text}");
    }

    #[test]
    fn what_is_expected_is_said_of_this_machine_and_the_title_is_no_markdown() {
        let mut report = fixture::report();
        report.scenarios.truncate(1);
        report.scenarios[0].question = "Does a_b (`x[0]`) <show>?".into();
        let plan = report.scenarios[0].plan.as_mut().unwrap();
        let expected = |because: &str, when| Expectation {
            verdict: Expected::Reproduced,
            when,
            because: because.into(),
            evidence: String::new(),
        };
        let elsewhere = When {
            parameters: [("no".to_owned(), Vec::new())].into(),
            ..When::default()
        };
        plan.expect = vec![
            expected("elsewhere", elsewhere),
            expected("here", When::default()),
        ];
        let text = render_issue(&report.view(), &[]);
        assert!(
            text.contains("### Expected\n\nyes, because here\n"),
            "{text}"
        );
        assert!(
            text.starts_with("# Does a_b (`x[0]`) &lt;show&gt;? "),
            "{text}"
        );
        assert_eq!(title("[x](http://y_z)"), "\\[x\\](http://y\\_z)");
    }

    #[test]
    fn a_maintainer_reads_one_reproducer_before_the_versions() {
        let mut report = fixture::report();
        report.scenarios.truncate(1);
        let calls = Attached {
            text: "the calls\n".into(),
            ..attached(0)
        };
        let text = render_issue(&report.view(), &[calls]);
        assert!(text.starts_with("# "), "{text}");
        let at = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("no {part}:\n{text}"))
        };
        assert!(at("### What happened") < at("the calls") && at("the calls") < at("### Versions"));
        assert!(at("### Versions") < at("python3 b.py"), "{text}");
        assert_eq!(text.matches("the calls\n").count(), 1, "{text}");
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_named() {
        let mut report = fixture::report();
        report.scenarios.truncate(1);
        let text = render_issue(
            &report.view(),
            &[
                attached(100),
                Attached {
                    file: "b.c".into(),
                    ..attached(MOST)
                },
            ],
        );
        assert!(text.chars().count() <= MOST);
        assert!(
            text.contains("Omitted, because") && text.contains("b.c (it is in the archive)"),
            "{}",
            text.get(text.len() - 400..).unwrap()
        );
        assert!(text.contains("```python\n#"), "the shorter one stays");
        let one = report.scenarios[0].clone();
        report.scenarios = vec![one; 150];
        let text = render_issue(&report.view(), &[]);
        assert!(text.chars().count() <= MOST && text.contains("of 150 scenarios"));
    }

    #[test]
    fn hostile_text_stays_text() {
        let text = render_issue(&fixture::hostile().view(), &[]);
        // Between fences it is shown as it is.
        let outside: String = text.split("```").step_by(2).collect();
        assert!(
            !outside.contains("<img") && !outside.contains("<script"),
            "{outside}"
        );
        assert!(text.contains("&lt;img"), "{text}");
    }
}
