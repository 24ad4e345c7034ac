//! What a report says of some scenarios, as the text of an issue, ready to paste: what was asked, what
//! was expected, what happened, the table, the steps, the versions, and how to run the reproducer.
//!
//! An issue tracker takes a text of limited length. What does not fit is left out, the least important
//! first, and the text says so.

use super::report::scenario::made;
use super::{answer, facts, lines, listing, words, writer};
use crate::block::{Block, Span, Table};
use cuda_pitfalls_core::judge::{Facts, matches};
use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::text::escape::escape_markdown;
use cuda_pitfalls_core::verdict::Kind;

/// The most characters of the text: GitHub takes 65,536.
pub const MOST: usize = 60_000;
/// What is kept for the words about what was left out.
const RESERVED: usize = 1_000;

/// A reproducer in the archive.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The instance that it is of.
    pub instance: String,
    /// Its file in the archive.
    pub file: String,
    /// How it is run, a command a line.
    pub commands: Vec<String>,
    /// The language in Markdown's word.
    pub language: &'static str,
    /// Its text.
    pub text: String,
}

/// Parts of the text.
pub(crate) struct IssueSections {
    /// Without the mark of a heading, as it is written.
    pub(crate) title: String,
    pub(crate) synopsis: Vec<Block>,
    pub(crate) expected: Vec<Block>,
    pub(crate) happened: Vec<Block>,
    pub(crate) reproducer: Vec<Block>,
    pub(crate) versions: Vec<(&'static str, String)>,
    pub(crate) attached: Vec<Block>,
}

/// The text, of at most [`MOST`] characters. The report has the scenarios that it is about, and no others.
pub fn render_issue(report: &ReportView<'_>, attached: &[Attached]) -> String {
    let mut shown = report.scenarios.len();
    let mut sources: Vec<&Attached> = attached.iter().collect();
    loop {
        let mut left_out = Vec::new();
        if sources.len() < attached.len() {
            let missing = attached.get(sources.len()..).unwrap_or_default();
            let missing: Vec<&str> = missing.iter().map(|one| one.file.as_str()).collect();
            left_out.push(format!(
                "the source of {} (it is in the archive)",
                missing.join(", ")
            ));
        }
        if shown < report.scenarios.len() {
            let count = report.scenarios.len() - shown;
            left_out.push(format!(
                "{count} of {} questions (the report in the archive has them)",
                report.scenarios.len()
            ));
        }
        let scenarios = report.scenarios.get(..shown).unwrap_or_default();
        let text = arrange_sections(IssueSections::new(report, scenarios, attached, &sources));
        let text = if left_out.is_empty() {
            text
        } else {
            let all = cut_text(&left_out.join("; "), RESERVED - 200);
            let note = format!("Left out here, because an issue takes {MOST} characters: {all}.");
            format!("{text}\n{}\n", escape_markdown(&note))
        };
        if text.chars().count() <= MOST {
            return text;
        }
        if sources.pop().is_none() && shown > 1 {
            shown -= 1;
        } else if sources.is_empty() && shown <= 1 {
            // One question alone is too long: its end goes.
            let kept: String = text.chars().take(MOST - RESERVED).collect();
            let fence = if kept.matches("```").count() % 2 == 1 {
                "\n```"
            } else {
                ""
            };
            return format!(
                "{kept}{fence}\n\nThe text was cut here; the report in the archive has the rest.\n"
            );
        }
    }
}

pub(crate) fn cut_text(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        text.to_owned()
    } else {
        text.chars().take(most - 1).chain(['…']).collect()
    }
}

/// The parts under their headings.
pub(crate) fn arrange_sections(parts: IssueSections) -> String {
    let mut blocks = parts.synopsis;
    for (heading, part) in [
        ("Expected", parts.expected),
        ("What happened", parts.happened),
        ("Reproducer", parts.reproducer),
        (
            "Versions",
            vec![Block::Table(Table::named("", parts.versions))],
        ),
        ("Attached: steps and the other programs", parts.attached),
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
        sources: &[&Attached],
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
                format!("{} answers were not expected", several.len()),
                Block::List(several.iter().map(|one| one.name.into()).collect()),
            ),
        };
        IssueSections {
            title,
            synopsis: vec![synopsis],
            expected: each(scenarios, |one| {
                vec![Block::paragraph(expected(report, one))]
            }),
            happened: each(scenarios, happened_blocks),
            reproducer: first_sources(sources),
            versions: versions(report, scenarios),
            attached: [Block::Fold(
                "Steps of each case".to_owned(),
                each(scenarios, steps),
            )]
            .into_iter()
            .chain(others(attached, sources))
            .collect(),
        }
    }
}

/// The blocks of each scenario, below its name if there are several.
fn each(
    scenarios: &[ScenarioView<'_>],
    blocks: impl Fn(&ScenarioView<'_>) -> Vec<Block>,
) -> Vec<Block> {
    let parts = scenarios.iter().flat_map(|one| {
        let head =
            (scenarios.len() > 1).then(|| Block::paragraph(Span::Strong(one.name.to_owned())));
        head.into_iter().chain(blocks(one))
    });
    parts.collect()
}

fn expected(report: &ReportView<'_>, scenario: &ScenarioView<'_>) -> String {
    let Some(plan) = scenario.plan else {
        return "This report does not hold what was expected.".to_owned();
    };
    let facts = Facts::new(report.machine, scenario.libcudart, plan, report.provenance);
    match plan
        .expect
        .iter()
        .find(|one| matches(&one.when, &facts, &plan.parameters))
    {
        Some(one) => format!(
            "{}, because {}",
            answer::word_of(one.verdict.kind(), scenario.question),
            one.because
        ),
        None => "Nothing was expected on this machine: the question is open.".to_owned(),
    }
}

fn happened_blocks(scenario: &ScenarioView<'_>) -> Vec<Block> {
    let (word, verdict) = (answer::word(scenario), facts::verdict(scenario.verdict));
    // What is no yes and no no is the verdict itself.
    let answer = if verdict.starts_with(word) {
        verdict
    } else {
        format!("{word}: {verdict}")
    };
    // How unlikely chance is comes behind the counts; a maintainer needs the counts alone.
    let is_yes_or_no = matches!(
        scenario.verdict.kind,
        Kind::Reproduced | Kind::NotReproduced
    );
    let counts = scenario
        .verdict
        .detail
        .split("; ")
        .next()
        .filter(|_| is_yes_or_no);
    let detail = counts.unwrap_or(&scenario.verdict.detail);
    let failed = scenario
        .verdict
        .unexpected
        .iter()
        .map(|failed| format!("not as expected: {failed}").into());
    let mut blocks = vec![
        Block::paragraph(format!("{answer}. {detail}")),
        Block::List(failed.collect()),
    ];
    for case in &scenario.cases {
        blocks.push(Block::paragraph(format!(
            "{} ({}):",
            case.name,
            facts::outcome_frequency(case)
        )));
        match case.outcomes.first() {
            Some(outcome) => blocks.extend(made(
                scenario.plan.as_ref().and_then(|plan| plan.case(case.name)),
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
        let Some(plan) = scenario.plan.as_ref().and_then(|plan| plan.case(case.name)) else {
            continue;
        };
        let lines = lines::of_case(Some(plan), case).unwrap_or_else(|| calls(plan));
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

/// The steps of a case of C calls, a line each.
fn calls(plan: &CasePlan) -> Vec<String> {
    let start = Some(super::steps::start(plan)).filter(|start| !start.is_empty());
    let start = start.map(|start| format!("# started with {start}"));
    start
        .into_iter()
        .chain(plan.steps.iter().map(listing::show::call))
        .collect()
}

/// A text for the title, which people paste into a field that is no Markdown: what can make no link, image or markup is
/// not escaped.
pub(crate) fn title(text: &str) -> String {
    let plain = if text.contains("](") { "" } else { "_`[]" };
    plain.chars().fold(escape_markdown(text), |title, mark| {
        title.replace(&format!("\\{mark}"), &mark.to_string())
    })
}

pub(crate) fn capitalize_word(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// The source of each question's reproducer, in the first language that it has.
pub(crate) fn first_sources(sources: &[&Attached]) -> Vec<Block> {
    let blocks: Vec<Block> = sources
        .iter()
        .filter(|one| is_first(sources, one))
        .map(|one| source(one))
        .collect();
    match blocks.is_empty() {
        true => vec![Block::Prose(
            "The scenario of the archive: `cuda-pitfalls run scenario.toml` measures it.",
        )],
        false => blocks,
    }
}

fn source(one: &Attached) -> Block {
    Block::Code(one.language, one.text.lines().map(str::to_owned).collect())
}

/// Whether no program of the same question stands before this one.
fn is_first(sources: &[&Attached], one: &Attached) -> bool {
    sources
        .iter()
        .find(|other| other.instance == one.instance)
        .is_some_and(|first| first.file == one.file)
}

/// How the programs of the archive are started, and the sources that do not stand above.
fn others(attached: &[Attached], sources: &[&Attached]) -> Vec<Block> {
    let mut blocks = vec![Block::Prose(
        "`cuda-pitfalls run scenario.toml` measures the scenario of the archive: every step, background polling, several \
         attempts.",
    )];
    if !attached.is_empty() {
        blocks.push(Block::Prose(
            "The programs of the archive need no cuda-pitfalls. They exit with 0 if it shows in the trap and not in the \
             control, with 1 if it does not show in the trap, and with 77 if that cannot be told.",
        ));
    }
    blocks.extend(
        attached
            .iter()
            .map(|one| Block::Code("sh", one.commands.clone())),
    );
    let others = sources.iter().filter(|one| !is_first(sources, one));
    blocks.extend(others.map(|one| Block::Fold(one.file.clone(), vec![source(one)])));
    blocks
}

fn versions(
    report: &ReportView<'_>,
    scenarios: &[ScenarioView<'_>],
) -> Vec<(&'static str, String)> {
    let machine = &report.machine;
    let mut rows = vec![("driver", words::driver(machine))];
    let mut runtimes: Vec<String> = scenarios.iter().filter_map(facts::libcudart).collect();
    runtimes.sort();
    runtimes.dedup();
    rows.extend(runtimes.into_iter().map(|runtime| ("runtime", runtime)));
    rows.extend(
        machine
            .python
            .iter()
            .map(|python| ("Python", words::python(python))),
    );
    rows.extend(machine.gpus.iter().map(|gpu| ("GPU", words::gpu(gpu))));
    rows.extend(
        machine
            .kernel
            .iter()
            .map(|kernel| ("kernel", format!("{kernel} {}", machine.architecture))),
    );
    rows.extend(
        machine
            .isolation
            .container
            .iter()
            .map(|container| ("container", container.clone())),
    );
    let commit = report
        .run
        .commit
        .as_ref()
        .map(|commit| format!(" ({commit})"))
        .unwrap_or_default();
    rows.push((
        "cuda-pitfalls",
        format!(
            "{}{commit}, run {}, on {}",
            report.run.version, report.run.id, report.run.on
        ),
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
            instance: "a/b".into(),
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
        let short = Attached {
            text: "the calls\n".into(),
            ..attached(0)
        };
        let text = render_issue(
            &report.view(),
            &[
                short,
                Attached {
                    file: "b.c".into(),
                    ..attached(9_000)
                },
            ],
        );
        assert!(text.starts_with("# "), "{text}");
        let at = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("no {part}:\n{text}"))
        };
        assert!(at("### What happened") < at("the calls") && at("the calls") < at("### Versions"));
        assert!(
            at("### Versions") < at("<summary>b.c"),
            "the same in another language is an attachment"
        );
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
            text.contains("Left out here") && text.contains("b.c (it is in the archive)"),
            "{}",
            text.get(text.len() - 400..).unwrap()
        );
        assert!(text.contains("```python\n#"), "the shorter one stays");
        let one = report.scenarios[0].clone();
        report.scenarios = vec![one; 150];
        let text = render_issue(&report.view(), &[]);
        assert!(text.chars().count() <= MOST && text.contains("of 150 questions"));
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
