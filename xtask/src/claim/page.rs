//! docs/claims.md: a table for each article, with links to the pages of the scenarios.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cuda_pitfalls::render::facts;
use cuda_pitfalls::report::Report;
use cuda_pitfalls::text::counts::grouped;
use cuda_pitfalls::text::escape::markdown;

use super::weigh::{ClaimHeld, Ledger, Origin, Readings, ReportAnswer, Support, Weighed};
use super::{Expects, Figure};

/// What is said of a claim that CUDA calls alone decide.
const FRAMEWORK: &str = "not run: CUDA calls alone decide this";
/// The same in the table and in totals.
const CALLS_ONLY: &str = "CUDA calls only";

/// The words for how a claim stands, in the order in which they are counted.
const WORDS: [&str; 8] = [
    "confirmed",
    "refuted",
    "qualified",
    "not seen",
    "contradicted",
    "open",
    "not measured",
    "untestable",
];

/// The page. Links lead to `pitfalls/` beside it.
pub fn page(ledger: &Ledger<'_>, reports: &[(String, Report)]) -> String {
    let mut out = format!("# Claims\n\n{OPENING}\n\n{}.\n\n", counts(ledger));
    for (article, claims) in ledger {
        let author = article.author.as_deref().unwrap_or("no author named");
        let source = format!("“{}”, {author}, {}", article.title, article.published);
        let _ = writeln!(
            out,
            "\n## {}\n\nSource: {}\n",
            markdown(&article.article),
            markdown(&source)
        );
        if !article.note.is_empty() {
            let _ = writeln!(out, "{}\n", markdown(&article.note));
        }
        out.push_str(
            "| | claim | verdict | scenarios | numbers |\n| --- | --- | --- | --- | --- |\n",
        );
        claims.iter().for_each(|claim| row(&mut out, claim));
    }
    out.push_str("\n## Measured on\n\n| report | measured on |\n| --- | --- |\n");
    for (name, report) in reports {
        let _ = writeln!(
            out,
            "| {} | {} |",
            markdown(name),
            markdown(&measured_on(report))
        );
    }
    out
}

const OPENING: &str = "\
Sentences that five articles published, in our words, each compared with measurements. A verdict is computed from \
reports, and is valid only while every answer that it names was measured and agrees with its row. The rows are in \
`scenarios/claims/`.";

/// How many claims there are of each word, and how many verdicts CUDA calls alone decide.
fn counts(ledger: &Ledger<'_>) -> String {
    let all: Vec<&Weighed<'_>> = ledger.iter().flat_map(|(_, claims)| claims).collect();
    let mut counts = Vec::new();
    for word in WORDS {
        let own: Vec<_> = all.iter().filter(|claim| claim.word() == word).collect();
        let of_these = match own
            .iter()
            .filter(|claim| claim.is_decided_by_calls())
            .count()
        {
            0 => String::new(),
            count => format!(" ({count} of them {CALLS_ONLY})"),
        };
        counts.extend((!own.is_empty()).then(|| format!("{} {word}{of_these}", own.len())));
    }
    format!(
        "{} claims: {}. {} of the {} verdicts rest on {CALLS_ONLY}; lines of the frameworks that the articles are \
         about decide the others",
        all.len(),
        counts.join(", "),
        all.iter()
            .filter(|claim| claim.is_decided_by_calls())
            .count(),
        all.iter().filter(|claim| claim.has_verdict()).count(),
    )
}

fn row(out: &mut String, weighed: &Weighed<'_>) {
    let claim = weighed.claim;
    let mut about = vec![format!("**{}**", markdown(&verdict(weighed)))];
    about.extend(
        [&claim.untestable, &claim.unmeasured]
            .into_iter()
            .filter(|why| !why.is_empty())
            .map(|why| markdown(why)),
    );
    for (name, text) in [
        ("when", &claim.condition),
        ("cause", &claim.cause),
        ("note", &claim.note),
    ] {
        about.extend((!text.is_empty()).then(|| format!("*{name}*: {}", markdown(text))));
    }
    about.extend(
        claim
            .is_of_calls_only()
            .then(|| format!("*framework*: {}", markdown(FRAMEWORK))),
    );
    let mut scenarios: Vec<String> = weighed.shown_by.iter().map(support).collect();
    if !weighed.cause_shown_by.is_empty() {
        scenarios.push("*the cause:*".to_owned());
        scenarios.extend(weighed.cause_shown_by.iter().map(support));
    }
    let mut numbers: Vec<String> = Vec::new();
    let mut scenario = "";
    for (figure, readings) in &weighed.numbers {
        if scenario != figure.scenario {
            scenario = &figure.scenario;
            numbers.push(link(scenario));
        }
        numbers.push(markdown(&self::figure(figure, readings)));
    }
    let cells = [about, scenarios, numbers].map(|lines| lines.join("<br>"));
    let _ = writeln!(
        out,
        "| {} | {} | {} |",
        markdown(&claim.id),
        markdown(&claim.says),
        cells.join(" | ")
    );
}

/// The verdict, or why there is none.
fn verdict(weighed: &Weighed<'_>) -> String {
    let Some(stated) = weighed.claim.verdict else {
        let is_testable = !weighed.claim.unmeasured.is_empty();
        return if is_testable {
            "not measured"
        } else {
            "cannot be tested here"
        }
        .to_owned();
    };
    let stated = stated.name();
    match weighed.held {
        ClaimHeld::Stands if weighed.claim.is_of_calls_only() => format!("{stated} ({CALLS_ONLY})"),
        ClaimHeld::Stands => stated.to_owned(),
        ClaimHeld::Contradicted => {
            format!("contradicted: the measurement does not support the row's “{stated}”")
        }
        ClaimHeld::Open => format!("open: the row says “{stated}”, and not all of it was measured"),
        ClaimHeld::NotMeasured => "not measured".to_owned(),
    }
}

/// A scenario with a link to its page, and what was found.
fn support(support: &Support<'_>) -> String {
    let range = support.expects.libcudart.as_ref();
    let range = range
        .map(|range| format!(" with libcudart {range}"))
        .unwrap_or_default();
    let mut words = format!("{}{}: ", link(&support.expects.scenario), markdown(&range));
    words.push_str(&markdown(&found(support)));
    if !support.expects.shows.is_empty() {
        let _ = write!(words, ". {}", markdown(&support.expects.shows));
    }
    words
}

fn link(scenario: &str) -> String {
    let (page, _) = scenario.split_once('[').unwrap_or((scenario, ""));
    format!("[{}](pitfalls/{page}.md)", markdown(scenario))
}

/// A phrase for each answer that was given, with where.
fn found(support: &Support<'_>) -> String {
    let groups = grouped(
        support
            .answers
            .iter()
            .map(|answer| (said(answer, support.expects), answer)),
    );
    let names_values = groups.len() > 1 && support.expects.instances.len() > 1;
    let phrases = groups.into_iter().map(|(mut phrase, answers)| {
        if names_values {
            let mut values: Vec<&str> = answers
                .iter()
                .map(|answer| parameters(answer.instance))
                .collect();
            values.dedup();
            phrase.push_str(&format!(" [{}]", values.join("; ")));
        }
        let origins: Vec<&Origin<'_>> = answers
            .iter()
            .filter_map(|answer| answer.origin.as_ref())
            .collect();
        if !origins.is_empty() {
            phrase.push_str(&format!(", {}", places(&origins)));
        }
        phrase
    });
    phrases.collect::<Vec<_>>().join("; ")
}

/// What stands between the brackets of an instance's name.
fn parameters(instance: &str) -> &str {
    instance
        .split_once('[')
        .map_or(instance, |(_, rest)| rest.trim_end_matches(']'))
}

fn said(answer: &ReportAnswer<'_>, expects: &Expects) -> String {
    let Some(verdict) = answer.verdict else {
        return "not measured".to_owned();
    };
    let mut said = facts::verdict(verdict);
    let wanted = expects.verdict.kind();
    if verdict.kind.is_conclusive() && verdict.kind != wanted {
        said.push_str(&format!(", where the row needs {}", wanted.name()));
    }
    if let Some(is) = &expects.is {
        said.push_str(match answer.fact {
            Some(true) => ", with ",
            Some(false) => ", WITHOUT ",
            None => ", and not read was ",
        });
        let is = match is {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Array(all) if all.is_empty() => "none".to_owned(),
            serde_json::Value::Array(all) => all
                .iter()
                .filter_map(serde_json::Value::as_str)
                .collect::<Vec<_>>()
                .join(","),
            other => other.to_string(),
        };
        let gpu = expects
            .gpu
            .as_ref()
            .map(|gpu| format!(" of {gpu}"))
            .unwrap_or_default();
        said.push_str(&format!(
            "{}{gpu} {is} ({}, at {})",
            expects.fact, expects.case, expects.at
        ));
    }
    said
}

/// Reports and versions, each once: `libcudart 12.0, 13.0 in h200-x2, h200-x4`, or `Python 3.12.3, torch 2.11.0 in …`.
fn places(origins: &[&Origin<'_>]) -> String {
    let reports: BTreeSet<&str> = origins.iter().map(|origin| origin.report).collect();
    let versions: BTreeSet<&str> = origins
        .iter()
        .filter_map(|origin| origin.libcudart)
        .collect();
    let interpreters: BTreeSet<&str> = origins
        .iter()
        .filter_map(|origin| origin.python.as_deref())
        .collect();
    let software = if !interpreters.is_empty() {
        format!("{} ", joined(interpreters, "; "))
    } else if !versions.is_empty() {
        format!("libcudart {} ", joined(versions, ", "))
    } else {
        String::new()
    };
    format!("{software}in {}", joined(reports, ", "))
}

fn joined(words: BTreeSet<&str>, between: &str) -> String {
    words.into_iter().collect::<Vec<_>>().join(between)
}

/// A figure with its place in the scenario: `gpu0 +527 MiB (trap, at restore)`.
fn figure(figure: &Figure, readings: &Readings<'_>) -> String {
    let found: Vec<String> = match &readings[..] {
        [] => vec!["not measured".to_owned()],
        [(text, _)] => vec![text.clone()],
        several => several
            .iter()
            .map(|(text, origins)| {
                format!("{text} ({})", places(&origins.iter().collect::<Vec<_>>()))
            })
            .collect(),
    };
    let says = if figure.says.is_empty() {
        String::new()
    } else {
        format!("{}: ", figure.says)
    };
    format!(
        "{says}{} ({}, at {})",
        found.join("; "),
        figure.case,
        figure.at
    )
}

/// The machine of a report, with its libcudarts.
fn measured_on(report: &Report) -> String {
    let mut versions: Vec<&str> = report
        .machine
        .libcudart
        .iter()
        .filter_map(|runtime| runtime.version.as_deref())
        .collect();
    versions.dedup();
    let mut words = report.machine.summary();
    if !versions.is_empty() {
        words.push_str(&format!(", libcudart {}", versions.join(", ")));
    }
    if !report.complete {
        words.push_str(", partial");
    }
    words
}
