//! One scenario on a page: the question, the answer, and what each case showed step by step.

use super::attempt;
use super::summary::Folders;
use crate::block::{Block, Span, Table, Text, Tone};
use crate::listing::show;
use crate::tally::Standing;
use crate::{answer, facts, lines, steps};
use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::report::{CaseView, OutcomeView, ReportView, ScenarioView};
use cuda_pitfalls_core::scenario::Step;
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::Kind;

/// The most outcomes of a case that are shown step by step; all of them are counted.
const OUTCOMES: usize = 4;

/// The scenario's section; `index` is what the summary links to.
pub(super) fn scenario_section(
    report: &ReportView<'_>,
    scenario: &ScenarioView<'_>,
    index: usize,
    folders: &Folders<'_>,
) -> Block {
    let verdict = &scenario.verdict;
    let standing = Standing::new(verdict);
    let asked = match answer::word(scenario) {
        word @ ("yes" | "no") => {
            Text::from(Span::Strong(word.to_owned())).then(format!(" {}", scenario.question))
        }
        _ => scenario.question.into(),
    };
    let badge = (
        standing.tone(),
        format!("{} {}", standing.mark(), facts::verdict(verdict)),
    );
    let mut blocks = vec![
        Block::heading(3, scenario.name),
        Block::Paragraph(asked),
        Block::Badges(vec![
            badge,
            (standing.tone(), facts::expectation_words(verdict)),
        ]),
    ];
    let failed = verdict
        .unexpected
        .iter()
        .map(|failed| Span::Toned(Tone::Bad, format!("Unexpected: {failed}")).into());
    let detail = Some(&verdict.detail)
        .filter(|detail| !detail.is_empty())
        .map(Text::from);
    let workaround =
        Some(scenario.workaround).filter(|it| !it.is_empty() && verdict.kind == Kind::Reproduced);
    let workaround = workaround.map(|workaround| Text::from(format!("Workaround: {workaround}")));
    blocks.extend(
        detail
            .into_iter()
            .chain(failed)
            .chain(workaround)
            .map(Block::Paragraph),
    );
    let cases: Vec<Block> = scenario
        .cases
        .iter()
        .flat_map(|one| case(report, scenario, one))
        .collect();
    // What needs attention is open; the rest is one click away, also without scripts.
    if standing.needs_attention() {
        blocks.extend(cases);
    } else if !cases.is_empty() {
        let frequencies = scenario
            .cases
            .iter()
            .map(|case| format!("{} {}", case.name, facts::outcome_frequency(case)));
        blocks.push(Block::Fold(
            format!("Cases: {}", listed(frequencies, "")),
            cases,
        ));
    }
    blocks.push(dim_paragraph(origin_words(scenario)));
    Block::Section {
        class: folders.filter_classes(std::iter::once(scenario)),
        id: format!("s{index}"),
        blocks,
    }
}

fn dim_paragraph(text: String) -> Block {
    Block::paragraph(Span::Toned(Tone::Dim, text))
}

/// Where the section comes from: the library, the parameters, the file's hash.
fn origin_words(scenario: &ScenarioView<'_>) -> String {
    let mut words = Vec::new();
    words.extend(facts::libcudart(scenario));
    words.extend(
        scenario
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    if !scenario.tags.is_empty() {
        words.push(format!("tags {}", scenario.tags.join(" ")));
    }
    words.push(format!("SHA-256 {}", scenario.sha256));
    words.join(" · ")
}

fn case(report: &ReportView<'_>, scenario: &ScenarioView<'_>, case: &CaseView<'_>) -> Vec<Block> {
    let plan = scenario.plan.as_ref().and_then(|plan| plan.case(case.name));
    let does = plan
        .map(|plan| format!(": {}", plan.does))
        .unwrap_or_default();
    let facts = facts::case_line(scenario, case).join(" · ");
    let mut blocks = vec![
        Block::heading(4, format!("{}{does}", case.name)),
        Block::paragraph(format!("{} — {facts}", facts::outcome_frequency(case))),
    ];
    let start = plan.map(steps::start).filter(|start| !start.is_empty());
    blocks.extend(start.map(|start| dim_paragraph(format!("Started with {start}"))));
    blocks.extend(lines::of_case(plan, case).map(|lines| Block::Code("python", lines)));
    for (outcome, number) in case.outcomes.iter().take(OUTCOMES).zip(1..) {
        if case.outcomes.len() > 1 {
            let ended = facts::shown(scenario, outcome).join(" · ");
            let (of, count) = (case.outcomes.len(), outcome.count);
            let words = format!("Outcome {number} of {of}, seen {count} times: {ended}");
            blocks.push(Block::paragraph(words));
        }
        blocks.extend(made(plan, outcome));
    }
    blocks.extend(
        case.attempts
            .iter()
            .flat_map(|attempt| &attempt.judged.invalid)
            .map(|invalid| {
                let words = format!("Not counted, {}: {}", invalid.reason.name(), invalid.detail);
                Block::paragraph(Span::Toned(Tone::Doubt, words))
            }),
    );
    let example = facts::example_attempt(case);
    blocks.extend(
        example
            .into_iter()
            .flat_map(|example| attempt::blocks(report, scenario, case, example)),
    );
    blocks
}

/// What each step of an outcome gave, and how its process ended; nothing if no step is known.
pub(crate) fn made(plan: Option<&CasePlan>, outcome: &OutcomeView<'_>) -> Vec<Block> {
    let Some(observation) = outcome.observation().filter(|it| !it.steps.is_empty()) else {
        return Vec::new();
    };
    let rows = observation.steps.iter().zip(0..).map(|(step, index)| {
        let made = plan.and_then(|plan| plan.steps.get(index));
        let call = made.map_or_else(
            || (&step.label).into(),
            |made| call(made, plan.is_some_and(|it| it.python.is_some())),
        );
        let calls = step
            .calls
            .as_ref()
            .map(lines::calls)
            .filter(|calls| !calls.is_empty());
        let calls =
            calls.map(|calls| Span::Toned(Tone::Dim, format!("driver calls: {calls}")).into());
        let call = Text::from(format!("{}. ", index + 1)).then(call);
        vec![
            Text::lines(std::iter::once(call).chain(calls)),
            Text::lines(steps::result_words(step)),
            steps::gpus(step.visible.as_deref()).into(),
            steps::gpus(step.contexts.as_deref()).into(),
            step.current.as_deref().unwrap_or("?").into(),
            Text::lines(facts::memory_lines(step)),
            units::format_duration(step.elapsed_ns).into(),
        ]
    });
    let columns = [
        "Step", "Result", "Sees", "Contexts", "Current", "Memory", "Took",
    ];
    let caption = "After each step: what it returned, which GPUs the process sees, where it has contexts, and memory \
                   since before the process.";
    vec![
        Block::Table(Table {
            caption: caption.into(),
            ..Table::new(columns, rows)
        }),
        dim_paragraph(format!("Ended: {}", observation.end)),
    ]
}

/// A step of a case of calls, or of Python lines, which keep their breaks.
fn call(step: &Step, in_python: bool) -> Text {
    if !in_python {
        return show::call(step).into();
    }
    let actor = step
        .on
        .as_ref()
        .map(|actor| Text::from(Span::Toned(Tone::Dim, format!(" in {actor}"))));
    Text::lines(step.in_python().trim().lines().map(Text::code)).then(actor.unwrap_or_default())
}
