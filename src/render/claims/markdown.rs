//! Claims as a page: a table per article, each scenario a link to its own page.

use std::fmt::Write as _;

use super::words;
use crate::tally;
use cuda_pitfalls_answers::claim::{Assessment, Evidence, Ledger, Support, Weighed, scenario_of};
use cuda_pitfalls_core::text::escape::markdown;

/// The whole page. Links lead to `pitfalls/` beside it.
pub(super) fn page(ledger: &Ledger, evidence: &Evidence) -> String {
    let mut out = String::from("# Claims\n\n");
    out.push_str(
        "Sentences that five articles published, in our words, each compared with measurements. `cuda-pitfalls claims` \
         prints this page. A verdict is computed from reports, and is valid only while every answer that it names \
         was measured and agrees with its row. The rows are in `scenarios/claims/`.\n\n",
    );
    if ledger.simulated {
        let _ = writeln!(out, "> **{}**\n", markdown(tally::SIMULATED));
    }
    let _ = writeln!(out, "{}.\n", markdown(&words::counts(ledger)));
    let sources = words::sources(evidence);
    if sources.is_empty() {
        out.push_str("No report was given: nothing here is measured.\n");
    }
    for (article, claims) in &ledger.articles {
        let _ = writeln!(out, "\n## {}\n", markdown(&article.title));
        let _ = writeln!(out, "Source: {}\n", markdown(&article.source));
        if !article.note.is_empty() {
            let _ = writeln!(out, "{}\n", markdown(&article.note));
        }
        out.push_str("| | claim | verdict | scenarios | numbers |\n| --- | --- | --- | --- | --- |\n");
        for claim in claims {
            row(&mut out, claim, ledger.simulated);
        }
    }
    if !sources.is_empty() {
        out.push_str("\n## Measured on\n\n| report | measured on |\n| --- | --- |\n");
    }
    for (name, machine) in sources {
        let _ = writeln!(out, "| {} | {} |", markdown(&name), markdown(&machine));
    }
    out
}

fn row(out: &mut String, weighed: &Weighed, simulated: bool) {
    let claim = weighed.claim;
    let mut verdict = vec![format!("**{}**", markdown(&words::verdict(weighed, simulated)))];
    match &claim.row {
        Assessment::Untestable(why) => verdict.push(markdown(why)),
        Assessment::Tested(tested) => {
            verdict.extend(said("when", &tested.condition));
            verdict.extend(said("cause", &tested.cause));
        }
    }
    verdict.extend(said("note", &claim.note));
    verdict.extend(claim.is_of_calls_only().then(|| format!("*framework*: {}", markdown(words::FRAMEWORK))));
    let mut scenarios: Vec<String> = weighed.shown_by.iter().map(support).collect();
    if !weighed.cause_shown_by.is_empty() {
        scenarios.push("*the cause:*".to_owned());
        scenarios.extend(weighed.cause_shown_by.iter().map(support));
    }
    let figure = |read| markdown(&words::figure(read));
    let mut numbers: Vec<String> = Vec::new();
    let mut scenario = "";
    for read in &weighed.numbers {
        if scenario != read.figure.scenario {
            scenario = &read.figure.scenario;
            numbers.push(link(scenario));
        }
        numbers.push(figure(read));
    }
    let cells = [markdown(&claim.id), markdown(&claim.says), join(&verdict), join(&scenarios), join(&numbers)];
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

/// A word and what it is about, if anything.
fn said(name: &str, value: &str) -> Option<String> {
    (!value.is_empty()).then(|| format!("*{name}*: {}", markdown(value)))
}

fn support(support: &Support) -> String {
    let mut words = format!("{}{}: ", link(&support.expects.scenario), markdown(&words::support(support)));
    words.push_str(&markdown(&words::found(support).join("; ")));
    if !support.expects.shows.is_empty() {
        let _ = write!(words, ". {}", markdown(&support.expects.shows));
    }
    words
}

/// A scenario's name with its page behind it.
fn link(scenario: &str) -> String {
    format!("[{}](pitfalls/{}.md)", markdown(scenario), scenario_of(scenario))
}

fn join(lines: &[String]) -> String {
    lines.join("<br>")
}
