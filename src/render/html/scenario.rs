//! One scenario on the page: the question, the answer, and what each case showed step by step.

use std::fmt::Write as _;

use crate::impact::Impact;
use crate::listing::show;
use crate::tally::Standing;
use crate::{answer, facts, lines, steps};
use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::report::{CaseView, OutcomeView, ReportView, ScenarioView};
use cuda_pitfalls_core::scenario::Step;
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::escape::html;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::Kind;

use super::attempt;
use super::page::{self, element, paragraph};
use super::summary::Folders;

/// The most outcomes of a case that are shown step by step; all of them are counted.
const OUTCOMES: usize = 4;

/// The scenario's section; `place` is what the summary links to.
pub(super) fn section(
    out: &mut String,
    report: &ReportView<'_>,
    scenario: &ScenarioView<'_>,
    place: usize,
    folders: &Folders<'_>,
) {
    let verdict = &scenario.verdict;
    let standing = Standing::of(verdict);
    let impact = Impact::of_scenario(scenario).class();
    let answer = match answer::word(scenario) {
        word @ ("yes" | "no") => format!("<strong class=\"here {impact}\">{word}</strong> "),
        _ => String::new(),
    };
    let _ = writeln!(
        out,
        "<section id=\"s{place}\" class=\"{}\">\n<h3>{}</h3>\n<p>{answer}{}</p>\n<p><span class=\"badge {}\">{} {}</span> {}</p>",
        folders.classes(std::iter::once(scenario)),
        html(scenario.name),
        html(scenario.question),
        standing.class(),
        standing.mark(),
        html(&facts::verdict(verdict)),
        html(&facts::expectation(verdict)),
    );
    if !verdict.detail.is_empty() {
        *out += &paragraph("", &verdict.detail);
    }
    for failed in &verdict.unexpected {
        *out += &paragraph("failed", &format!("Unexpected: {failed}"));
    }
    if verdict.kind == Kind::Reproduced && !scenario.workaround.is_empty() {
        *out += &paragraph("", &format!("Workaround: {}", scenario.workaround));
    }
    if !scenario.cases.is_empty() {
        // What needs attention is open; the rest is one click away, also without scripts.
        let open = if standing >= Standing::Inconclusive { " open" } else { "" };
        let frequencies = scenario.cases.iter().map(|case| format!("{} {}", case.name, facts::frequency(case)));
        let _ = writeln!(out, "<details{open}><summary>Cases: {}</summary>", html(&listed(frequencies, "")));
        for case in &scenario.cases {
            self::case(out, report, scenario, case);
        }
        out.push_str("</details>\n");
    }
    *out += &(paragraph("dim", &origin(scenario)) + "</section>\n");
}

/// Where the section comes from: the library, the parameters, the file's hash.
fn origin(scenario: &ScenarioView<'_>) -> String {
    let mut words = Vec::new();
    words.extend(facts::libcudart(scenario));
    words.extend(scenario.parameters.iter().map(|(name, value)| format!("{name}={value}")));
    if !scenario.tags.is_empty() {
        words.push(format!("tags {}", scenario.tags.join(" ")));
    }
    words.push(format!("SHA-256 {}", scenario.sha256));
    words.join(" · ")
}

fn case(out: &mut String, report: &ReportView<'_>, scenario: &ScenarioView<'_>, case: &CaseView<'_>) {
    let plan = scenario.plan.as_ref().and_then(|plan| plan.case(case.name));
    let does = plan.map(|plan| format!(": {}", plan.does)).unwrap_or_default();
    *out += &(element("h4", "", &html(&format!("{}{does}", case.name))) + "\n");
    let facts = facts::case_line(scenario, case).join(" · ");
    *out += &paragraph("", &format!("{} — {facts}", facts::frequency(case)));
    if let Some(start) = plan.map(steps::start).filter(|start| !start.is_empty()) {
        *out += &paragraph("dim", &format!("Started with {start}"));
    }
    for (place, outcome) in case.outcomes.iter().take(OUTCOMES).enumerate() {
        if case.outcomes.len() > 1 {
            let ended = facts::shown(scenario, outcome).join(" · ");
            let (number, of, count) = (place + 1, case.outcomes.len(), outcome.count);
            *out += &paragraph("", &format!("Outcome {number} of {of}, seen {count} times: {ended}"));
        }
        table(out, plan, outcome);
    }
    for invalid in case.attempts.iter().flat_map(|attempt| &attempt.judged.invalid) {
        *out += &paragraph("warning", &format!("Not counted, {}: {}", invalid.reason.name(), invalid.detail));
    }
    if let Some(example) = facts::example(case) {
        attempt::show(out, report, scenario, case, example);
    }
}

fn table(out: &mut String, plan: Option<&CasePlan>, outcome: &OutcomeView<'_>) {
    let Some(observation) = outcome.observation().filter(|it| !it.steps.is_empty()) else { return };
    let broken = |lines: Vec<String>| lines.iter().map(|line| html(line)).collect::<Vec<_>>().join("<br>");
    let rows = observation.steps.iter().enumerate().map(|(place, step)| {
        let made = plan.and_then(|plan| plan.steps.get(place));
        let call =
            made.map_or_else(|| html(&step.label), |made| shown(made, plan.is_some_and(|plan| plan.python.is_some())));
        let calls = step.calls.as_ref().filter(|made| !made.is_empty()).map(lines::calls);
        let calls = calls
            .filter(|calls| !calls.is_empty())
            .map_or_else(String::new, |calls| format!("<br><span class=\"dim\">driver calls: {}</span>", html(&calls)));
        let cells = vec![
            format!("{}. {call}{calls}", place + 1),
            broken(steps::result(step)),
            html(&steps::gpus(step.visible.as_deref())),
            html(&steps::gpus(step.contexts.as_deref())),
            html(step.current.as_deref().unwrap_or("?")),
            broken(facts::memory_lines(step)),
            html(&units::duration(step.elapsed_ns)),
        ];
        (String::new(), cells)
    });
    let columns = ["Step", "Result", "Sees", "Contexts", "Current", "Memory", "Took"];
    let caption = "After each step: what it returned, which GPUs the process sees, where it has contexts, and memory \
                   since before the process.";
    out.push_str(&page::table("steps", caption, &columns, rows));
    *out += &paragraph("dim", &format!("Ended: {}", observation.end));
}

/// A step of a case of calls, or of Python lines, which keep their breaks.
fn shown(step: &Step, in_python: bool) -> String {
    if !in_python {
        return html(&show::call(step));
    }
    let actor = step.on.as_ref().map(|actor| format!(" <span class=\"dim\">in {}</span>", html(actor)));
    let rows: Vec<String> = step.in_python().trim().lines().map(html).collect();
    format!("<span class=\"py\">{}</span>{}", rows.join("<br>"), actor.unwrap_or_default())
}
