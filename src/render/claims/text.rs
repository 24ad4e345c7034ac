//! Claims on a terminal: article by article, a block per claim.

use std::fmt::Write as _;

use super::words;
use crate::tally;
use cuda_pitfalls_answers::claim::{Article, Assessment, Evidence, Ledger, Support, Weighed};
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::{WIDTH, sentence};

/// The whole page.
pub(super) fn page(ledger: &Ledger, evidence: &Evidence) -> String {
    let mut out = String::new();
    for (article, claims) in &ledger.articles {
        head(&mut out, article);
        for claim in claims {
            out.push('\n');
            block(&mut out, claim, ledger.simulated);
        }
        out.push('\n');
    }
    let sources = words::sources(evidence);
    for (name, of) in &sources {
        out.push_str(&sentence("report  ", &format!("{name}: {of}"), WIDTH));
    }
    if sources.is_empty() {
        out.push_str("report  none\n");
    }
    if ledger.simulated {
        out.push_str(&sentence("*** ", tally::SIMULATED, WIDTH));
    }
    out.push_str(&sentence("", &words::counts(ledger), WIDTH));
    out
}

fn head(out: &mut String, article: &Article) {
    out.push_str(&sentence("", &article.title, WIDTH));
    let _ = writeln!(out, "source  {}", terminal(&article.source));
    if !article.note.is_empty() {
        out.push_str(&sentence("note    ", &article.note, WIDTH));
    }
}

fn block(out: &mut String, weighed: &Weighed, simulated: bool) {
    let claim = weighed.claim;
    let head = format!("{} {:<6}", words::mark(weighed, simulated), terminal(&claim.id));
    out.push_str(&sentence(&head, &words::verdict(weighed, simulated), WIDTH));
    field(out, "says", &claim.says);
    match &claim.row {
        Assessment::Untestable(why) => field(out, "because", why),
        Assessment::Tested(tested) => {
            field(out, "when", &tested.condition);
            field(out, "cause", &tested.cause);
        }
    }
    field(out, "note", &claim.note);
    if claim.is_of_calls_only() {
        field(out, "framework", words::FRAMEWORK);
    }
    supports(out, "shown by", &weighed.shown_by);
    supports(out, "cause by", &weighed.cause_shown_by);
    let mut scenario = "";
    for (place, read) in weighed.numbers.iter().enumerate() {
        if scenario != read.figure.scenario {
            scenario = &read.figure.scenario;
            field(out, if place == 0 { "numbers" } else { "" }, scenario);
        }
        out.push_str(&sentence(&format!("{:20}", ""), &words::figure(read), WIDTH));
    }
}

fn supports(out: &mut String, name: &str, supports: &[Support]) {
    for (place, support) in supports.iter().enumerate() {
        let scenario = format!("{}{}", support.expects.scenario, words::support(support));
        field(out, if place == 0 { name } else { "" }, &scenario);
        let inner = format!("{:20}", "");
        for found in words::found(support) {
            out.push_str(&sentence(&inner, &found, WIDTH));
        }
        if !support.expects.shows.is_empty() {
            out.push_str(&sentence(&inner, &support.expects.shows, WIDTH));
        }
    }
}

/// A word and what it is about; nothing where there is nothing to say.
fn field(out: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        out.push_str(&sentence(&format!("        {name:<10}"), value, WIDTH));
    }
}
