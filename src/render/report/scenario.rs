//! A scenario on a page: the question, the answer, and the results of each case step by step.

use super::attempt;
use super::summary::Folders;
use crate::block::{Block, Span, Table, Text, Tone};
use crate::listing::show;
use crate::tally::Standing;
use crate::{answer, facts, lines, steps};
use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::report::{CaseView, OutcomeView, ReportView, ScenarioView};
use cuda_pitfalls_core::scenario::Step;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::Kind;

/// Maximum number of outcomes of a case that are shown step by step; all of them are counted.
const OUTCOMES: usize = 4;

/// Returns the scenario's section; `index` is the target of the summary's link.
pub(super) fn scenario_section(
    report: &ReportView<'_>,
    scenario: &ScenarioView<'_>,
    index: usize,
    folders: &Folders<'_>,
) -> Block {
    let verdict = scenario.verdict;
    let standing = Standing::new(verdict);
    let question = match answer::word(scenario) {
        word @ ("yes" | "no") => {
            Text::from(Span::Strong(word.to_owned())).then(format!(" {}", scenario.question))
        }
        _ => scenario.question.into(),
    };
    let badge = format!("{} {}", standing.mark(), facts::verdict(verdict));
    let mut badges = vec![(standing.tone(), badge)];
    if standing != Standing::AsExpected {
        badges.push((standing.tone(), facts::expectation_words(verdict)));
    }
    let mut blocks = vec![
        Block::heading(3, scenario.name),
        Block::Paragraph(question),
        Block::Badges(badges),
    ];
    if !verdict.detail.is_empty() {
        blocks.push(Block::paragraph(&verdict.detail));
    }
    for failed in &verdict.unexpected {
        let words = format!("Unexpected: {failed}");
        blocks.push(Block::paragraph(Span::Toned(Tone::Bad, words)));
    }
    if verdict.kind == Kind::Reproduced && !scenario.workaround.is_empty() {
        blocks.push(Block::paragraph(format!(
            "Workaround: {}",
            scenario.workaround
        )));
    }
    let (mut cases, mut frequencies) = (Vec::new(), Vec::new());
    for one in &scenario.cases {
        cases.extend(case(report, scenario, one));
        frequencies.push(format!("{} {}", one.name, facts::outcome_frequency(one)));
    }
    // Sections that need attention are open; the others are one click away, even without scripts.
    if standing.needs_attention() {
        blocks.extend(cases);
    } else if !cases.is_empty() {
        let summary = format!("Cases: {}", frequencies.join(", "));
        blocks.push(Block::Fold(summary, cases));
    }
    blocks.push(dim_paragraph(origin_words(scenario)));
    Block::Section {
        class: folders.filter_classes([scenario]),
        id: format!("s{index}"),
        blocks,
    }
}

fn dim_paragraph(text: String) -> Block {
    Block::paragraph(Span::Toned(Tone::Dim, text))
}

/// Returns the origin of the section: the library, the parameters, the file's hash.
fn origin_words(scenario: &ScenarioView<'_>) -> String {
    let mut words = Vec::new();
    words.extend(facts::libcudart(scenario));
    for (name, value) in scenario.parameters {
        words.push(format!("{name}={value}"));
    }
    if !scenario.tags.is_empty() {
        words.push(format!("tags {}", scenario.tags.join(" ")));
    }
    words.push(format!("SHA-256 {}", scenario.sha256));
    words.join(" · ")
}

fn case(report: &ReportView<'_>, scenario: &ScenarioView<'_>, case: &CaseView<'_>) -> Vec<Block> {
    let plan = scenario.plan.and_then(|plan| plan.case(case.name));
    let heading = match plan {
        Some(plan) => format!("{}: {}", case.name, plan.does),
        None => case.name.to_owned(),
    };
    let facts = facts::case_line(scenario, case).join(" · ");
    let mut blocks = vec![
        Block::heading(4, heading),
        Block::paragraph(format!("{} — {facts}", facts::outcome_frequency(case))),
    ];
    let start = plan.map(steps::start).unwrap_or_default();
    if !start.is_empty() {
        blocks.push(dim_paragraph(format!("Started with {start}")));
    }
    if let Some(program) = lines::case_program(plan, case) {
        blocks.push(Block::Code("python", program));
    }
    for (outcome, number) in case.outcomes.iter().take(OUTCOMES).zip(1..) {
        if case.outcomes.len() > 1 {
            let ended = facts::shown(scenario, outcome).join(" · ");
            let (of, count) = (case.outcomes.len(), outcome.count);
            let words = format!("Outcome {number} of {of}, seen {count} times: {ended}");
            blocks.push(Block::paragraph(words));
        }
        blocks.extend(made(plan, outcome));
    }
    for attempt in case.attempts {
        for invalid in &attempt.judged.invalid {
            let words = format!("Not counted, {}: {}", invalid.reason.name(), invalid.detail);
            blocks.push(Block::paragraph(Span::Toned(Tone::Doubt, words)));
        }
    }
    if let Some(example) = facts::example_attempt(case) {
        blocks.extend(attempt::blocks(report, scenario, case, example));
    }
    blocks
}

/// Returns the result of each step of an outcome, and the end of its process; empty if no step is known.
pub(crate) fn made(plan: Option<&CasePlan>, outcome: &OutcomeView<'_>) -> Vec<Block> {
    let Some(observation) = outcome.observation() else {
        return Vec::new();
    };
    if observation.steps.is_empty() {
        return Vec::new();
    }
    let in_python = plan.is_some_and(|plan| plan.python.is_some());
    let mut rows: Vec<Vec<Text>> = Vec::new();
    for (index, step) in observation.steps.iter().enumerate() {
        let call = match plan.and_then(|plan| plan.steps.get(index)) {
            Some(made) => call(made, in_python),
            None => (&step.label).into(),
        };
        let mut lines = vec![Text::from(format!("{}. ", index + 1)).then(call)];
        let calls = step.calls.as_ref().map(lines::calls).unwrap_or_default();
        if !calls.is_empty() {
            lines.push(Span::Toned(Tone::Dim, format!("driver calls: {calls}")).into());
        }
        rows.push(vec![
            Text::lines(lines),
            Text::lines(steps::result_words(step)),
            steps::gpus(step.visible.as_deref()).into(),
            steps::gpus(step.contexts.as_deref()).into(),
            step.current.as_deref().unwrap_or("?").into(),
            Text::lines(facts::memory_lines(step)),
            units::format_duration(step.elapsed_ns).into(),
        ]);
    }
    let columns = [
        "Step", "Result", "Sees", "Contexts", "Current", "Memory", "Took",
    ];
    let caption = "After each step: what it returned, which GPUs the process sees, where it has contexts, and memory \
                   since before the process.";
    let table = Table {
        caption: caption.into(),
        ..Table::new(columns, rows)
    };
    let ended = dim_paragraph(format!("Ended: {}", observation.end));
    vec![Block::Table(table), ended]
}

/// Returns a step of a case of calls, or of Python lines, which keep their breaks.
fn call(step: &Step, in_python: bool) -> Text {
    if !in_python {
        return show::call(step).into();
    }
    let lines = Text::lines(step.in_python().trim().lines().map(Text::code));
    match &step.on {
        Some(actor) => lines.then(Span::Toned(Tone::Dim, format!(" in {actor}"))),
        None => lines,
    }
}
