//! What is said of a claim, in the same words in every format. Nothing is escaped here.

use std::collections::BTreeSet;

use crate::facts;
use crate::words::packages;
use cuda_pitfalls_answers::claim::{
    Assessment, ClaimAnswer, Evidence, EvidenceSource, FigureReadings, Held, Ledger, Support, Wanted, Weighed, wanted,
};
use cuda_pitfalls_core::machine::Interpreter;
use cuda_pitfalls_core::text::counts::grouped;

/// What a row says of itself that CUDA calls alone decide.
pub(super) const FRAMEWORK: &str = "not run: CUDA calls alone decide this";
/// The same in the table and in totals.
pub(super) const CALLS_ONLY: &str = "CUDA calls only";

/// The verdict, or why there is none.
pub(super) fn verdict(weighed: &Weighed, simulated: bool) -> String {
    let (Assessment::Tested(tested), Some(held)) = (&weighed.claim.row, weighed.held) else {
        return "cannot be tested here".to_owned();
    };
    let stated = tested.stated.name();
    match (held, simulated) {
        // A simulated machine confirms nothing: it was made to agree.
        (Held::Stands, true) => "simulated: agrees with the row".to_owned(),
        (Held::Contradicted, true) => "simulated: does not agree with the row".to_owned(),
        (Held::Open, true) => "simulated: open".to_owned(),
        (Held::NotMeasured, true) => "simulated: not run".to_owned(),
        (Held::Stands, false) if weighed.claim.is_of_calls_only() => format!("{} ({CALLS_ONLY})", spoken(stated)),
        (Held::Stands, false) => spoken(stated),
        (Held::Contradicted, false) => format!("contradicted: the measurement does not support the row's “{stated}”"),
        (Held::Open, false) => format!("open: the row says “{stated}”, and not all of it was measured"),
        (Held::NotMeasured, false) => format!("not measured here: the row says “{stated}”"),
    }
}

/// A word as people write it.
fn spoken(word: &str) -> String {
    word.replace('_', " ")
}

/// One word for the verdict, for machines.
pub(super) fn word(weighed: &Weighed, simulated: bool) -> &'static str {
    match (&weighed.claim.row, weighed.held) {
        (Assessment::Untestable(_), _) | (_, None) => "untestable",
        (Assessment::Tested(_), Some(_)) if simulated => "simulated",
        (Assessment::Tested(tested), Some(Held::Stands)) => tested.stated.name(),
        (Assessment::Tested(_), Some(held)) => self::held(held),
    }
}

/// The word for how a row stands.
pub(super) fn held(held: Held) -> &'static str {
    match held {
        Held::Stands => "stands",
        Held::NotMeasured => "not_measured",
        Held::Open => "open",
        Held::Contradicted => "contradicted",
    }
}

/// A mark of one column. Words always stand beside it.
pub(super) fn mark(weighed: &Weighed, simulated: bool) -> &'static str {
    match weighed.held {
        None => "–",
        Some(Held::Contradicted) => "✗",
        Some(Held::Stands) if !simulated => "✓",
        Some(_) => "?",
    }
}

/// What was found for a support: a phrase for each answer that was given, with where.
pub(super) fn found(support: &Support) -> Vec<String> {
    let groups = grouped(support.answers.iter().map(|answer| (said(answer, support), answer)));
    let several = groups.len() > 1;
    let phrase = |(said, answers): (String, Vec<&ClaimAnswer>)| {
        let mut phrase = said;
        if several && support.expects.instances.len() > 1 {
            let mut instances: Vec<&str> = answers.iter().map(|answer| parameters(&answer.instance)).collect();
            instances.dedup();
            phrase.push_str(&format!(" [{}]", instances.join("; ")));
        }
        let places: Vec<&EvidenceSource> = answers.iter().filter_map(|answer| answer.place.as_ref()).collect();
        if !places.is_empty() {
            phrase.push_str(&format!(", {}", self::places(&places)));
        }
        phrase
    };
    groups.into_iter().map(phrase).collect()
}

/// One answer in words.
fn said(answer: &ClaimAnswer, support: &Support) -> String {
    let Some(verdict) = &answer.verdict else { return "not measured".to_owned() };
    let mut said = facts::verdict(verdict);
    if verdict.kind.is_conclusive() && verdict.kind != wanted(support.expects.verdict) {
        said.push_str(&format!(", where the row needs {}", needed(support)));
    }
    if let Some(fact) = &support.expects.fact {
        said.push_str(match answer.fact {
            Some(true) => ", with ",
            Some(false) => ", WITHOUT ",
            None => ", and not read was ",
        });
        said.push_str(&needed_fact(fact));
    }
    said
}

/// A fact that a row needs: `contexts gpu0,gpu1 (monitor, at ask)`.
fn needed_fact(wanted: &Wanted) -> String {
    let figure = &wanted.figure;
    let is = match &wanted.is {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(all) => {
            let words: Vec<&str> = all.iter().filter_map(serde_json::Value::as_str).collect();
            if words.is_empty() { "none".to_owned() } else { words.join(",") }
        }
        other => other.to_string(),
    };
    let gpu = figure.gpu.as_ref().map(|gpu| format!(" of {gpu}")).unwrap_or_default();
    let at = if figure.at.is_empty() { "at the end".to_owned() } else { format!("at {}", figure.at) };
    format!("{}{gpu} {is} ({}, {at})", figure.fact.name(), figure.case)
}

/// The answer that a row needs.
pub(super) fn needed(support: &Support) -> &'static str {
    wanted(support.expects.verdict).name()
}

/// What stands between the brackets of an instance's name.
fn parameters(instance: &str) -> &str {
    instance.split_once('[').map_or(instance, |(_, rest)| rest.trim_end_matches(']'))
}

/// Reports and versions, each once: `libcudart 12.0, 13.0 in h200-x2, h200-x4`, or `Python 3.12.3, torch 2.11.0 in …`.
fn places(places: &[&EvidenceSource]) -> String {
    let mut versions: Vec<&str> = places.iter().filter_map(|place| place.libcudart.as_deref()).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut reports: Vec<&str> = places.iter().map(|place| place.report.as_str()).collect();
    reports.sort_unstable();
    reports.dedup();
    let interpreter = |python: &Interpreter| format!("Python {}{}", python.version, packages(python));
    let interpreters: BTreeSet<String> = places.iter().filter_map(|it| it.python.as_ref().map(interpreter)).collect();
    let mut software: Vec<String> = interpreters.into_iter().collect();
    if software.is_empty() && !versions.is_empty() {
        software.push(format!("libcudart {}", versions.join(", ")));
    }
    format!("{} in {}", software.join("; "), reports.join(", ")).trim_start().to_owned()
}

/// A figure with its place in the scenario: `trap, at restore: gpu0 +527 MiB`.
pub(super) fn figure(read: &FigureReadings) -> String {
    let figure = read.figure;
    let at = if figure.at.is_empty() { "at the end".to_owned() } else { format!("at {}", figure.at) };
    let distinct = read.distinct();
    let found: Vec<String> = match &distinct[..] {
        [] => vec!["not measured".to_owned()],
        [(text, _)] => vec![(*text).to_owned()],
        several => several.iter().map(|(text, places)| format!("{text} ({})", self::places(places))).collect(),
    };
    let says = if figure.says.is_empty() { String::new() } else { format!("{}: ", figure.says) };
    format!("{says}{} ({}, {at})", found.join("; "), figure.case)
}

/// What a support is called: the scenario, and the versions of libcudart that are meant.
pub(super) fn support(support: &Support) -> String {
    let range = support.expects.libcudart.as_ref();
    range.map(|range| format!(" with libcudart {range}")).unwrap_or_default()
}

/// How many claims there are of each word, and of how many the verdict is about CUDA calls alone:
/// `59 claims: 11 confirmed (3 of them CUDA calls only), …`.
pub(super) fn counts(ledger: &Ledger) -> String {
    let order = [
        "confirmed",
        "refuted",
        "qualified",
        "not_seen",
        "contradicted",
        "open",
        "not_measured",
        "simulated",
        "untestable",
    ];
    let all: Vec<(&str, bool)> = ledger
        .claims()
        .map(|(_, claim)| (word(claim, ledger.simulated), claim.verdict().is_some() && claim.claim.is_of_calls_only()))
        .collect();
    let counts = order.into_iter().filter_map(|word| {
        let own = || all.iter().filter(move |(own, _)| *own == word);
        let calls_only = own().filter(|(_, calls_only)| *calls_only).count();
        let of_these = if calls_only > 0 { format!(" ({calls_only} of them {CALLS_ONLY})") } else { String::new() };
        match own().count() {
            0 => None,
            count => Some(format!("{count} {}{of_these}", spoken(word))),
        }
    });
    let counts = format!("{} claims: {}", all.len(), counts.collect::<Vec<_>>().join(", "));
    let calls_only = all.iter().filter(|(_, calls_only)| *calls_only).count();
    if calls_only == 0 || ledger.simulated {
        return counts;
    }
    let verdicts = ledger.claims().filter(|(_, claim)| claim.verdict().is_some()).count();
    format!(
        "{counts}. {calls_only} of the {verdicts} verdicts rest on {CALLS_ONLY}; lines of the frameworks that the \
         articles are about decide the others"
    )
}

/// A report and what it is of.
pub(super) fn sources(evidence: &Evidence) -> Vec<(String, String)> {
    let source = |source: &cuda_pitfalls_answers::claim::NamedReport| {
        let mut versions: Vec<&str> =
            source.report.machine.libcudart.iter().filter_map(|runtime| runtime.version.as_deref()).collect();
        versions.dedup();
        let mut of = source.report.machine.summary();
        if !versions.is_empty() {
            of.push_str(&format!(", libcudart {}", versions.join(", ")));
        }
        if source.report.provenance == cuda_pitfalls_core::verdict::Provenance::Simulated {
            of.push_str(", SIMULATED");
        }
        if !source.report.complete {
            of.push_str(", partial");
        }
        (source.name.clone(), of)
    };
    evidence.sources().iter().map(source).collect()
}
