//! The pages in `docs/pitfalls/` agree with the reports.

use std::collections::BTreeMap;

use cuda_pitfalls::diagnosis::{ANY, embedded_rules};
use xtask::diagnoses;
use xtask::documents::{self, MadeDocuments};
use xtask::page::{self, Measurement};

use crate::made;

/// Returns the rows of the scenario's page that link the report of a measurement.
fn rows<'p>(pages: &'p BTreeMap<String, String>, measurement: &Measurement) -> Vec<&'p str> {
    let page = &pages[&format!("{}/{}.md", page::FOLDER, measurement.part.scenario)];
    let link = format!("/reports/{}) |", measurement.report);
    page.lines().filter(|line| line.contains(&link)).collect()
}

#[test]
fn no_page_contradicts_the_report_that_it_links() {
    let MadeDocuments {
        measured,
        documents: pages,
        ..
    } = made();
    let otherwise: Vec<&Measurement> = measured
        .iter()
        .filter(|measurement| measurement.is_asked_otherwise())
        .collect();
    let silent: Vec<String> = otherwise
        .iter()
        .filter(|measurement| {
            let told = measurement.verdict_words();
            let (_, then) = told
                .split_once(" (original verdict: ")
                .expect("the verdict then is told");
            !rows(pages, measurement)
                .iter()
                .any(|row| row.contains(then.trim_end_matches(')')))
        })
        .map(|measurement| {
            format!(
                "{} in {}: {}",
                measurement.part.name,
                measurement.report,
                measurement.verdict_words()
            )
        })
        .collect();
    assert!(silent.is_empty(), "{silent:#?}");
    // At least this many rows have to say so; otherwise the test would check nothing.
    assert!(otherwise.len() >= 8, "only {}", otherwise.len());
    let of_others = measured
        .iter()
        .filter(|measurement| !measurement.is_asked_otherwise())
        .all(|measurement| !measurement.verdict_words().contains("original verdict"));
    assert!(of_others);
}

#[test]
fn what_was_interrupted_says_so_in_its_row() {
    let MadeDocuments {
        measured,
        documents: pages,
        ..
    } = made();
    let of_interrupted: Vec<&Measurement> = measured
        .iter()
        .filter(|measurement| measurement.interrupted)
        .collect();
    assert!(of_interrupted.len() > 100, "only {}", of_interrupted.len());
    for measurement in of_interrupted {
        let rows = rows(pages, measurement);
        assert!(
            rows.iter().any(|row| row.contains("run interrupted")),
            "{}: {rows:#?}",
            measurement.part.name
        );
    }
}

#[test]
fn a_page_names_the_versions_that_were_measured_and_no_newer_ones() {
    let MadeDocuments {
        scenarios,
        measured,
        documents: pages,
        ..
    } = made();
    let has_newer = |text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        text.match_indices(" or newer")
            .any(|(at, _)| text[..at].ends_with(|last: char| last.is_ascii_digit()))
    };
    let of_scenarios = pages
        .iter()
        .filter(|(path, _)| path.starts_with(page::FOLDER));
    let wrong: Vec<&String> = of_scenarios
        .filter(|(_, text)| has_newer(text))
        .map(|(path, _)| path)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    // "With torch 2.11" is written because the file expects it of 2.11 and newer, so 2.11 must have been measured.
    let mut seen = 0;
    let mut unmeasured = Vec::new();
    for scenario in scenarios {
        let packages = scenario
            .instances
            .iter()
            .flat_map(|it| &it.expect)
            .flat_map(|it| &it.when.packages);
        for (name, version) in packages.filter_map(|package| package.split_once(" >= ")) {
            seen += 1;
            if !measured.iter().any(|measurement| {
                let found = measurement
                    .machine
                    .python
                    .iter()
                    .flat_map(|python| &python.packages);
                let of_it = found.filter(|(found, _)| {
                    *found == name || found.starts_with(&format!("{name}-cuda"))
                });
                measurement.part.scenario == scenario.name
                    && of_it
                        .flat_map(|(_, version)| version)
                        .any(|found| found.starts_with(version))
            }) {
                unmeasured.push(format!("{}: {name} {version}", scenario.name));
            }
        }
    }
    assert!(unmeasured.is_empty(), "{unmeasured:#?}");
    assert!(seen > 80, "only {seen}");
}

fn traces() -> Vec<diagnoses::TracedRun> {
    documents::traced_runs().expect("the traces can be read")
}

/// The page lists, for each rule, where it was found, and for each workaround, where it was run, or that neither was
/// the case, according to the committed traces and reports.
#[test]
fn every_rule_says_where_it_was_found_and_every_workaround_where_it_was_run() {
    let traces = traces();
    let page = &made().documents[diagnoses::PAGE];
    for rule in embedded_rules() {
        let heading = format!("\n## {}\n", rule.name);
        let section = page
            .split(&heading)
            .nth(1)
            .unwrap_or_else(|| panic!("{} has no section", rule.name));
        let section = section.split("\n## ").next().unwrap_or_default();
        let found = traces.iter().filter(|trace| {
            trace
                .findings
                .iter()
                .any(|finding| finding.rule == rule.name)
        });
        let found: Vec<&str> = found.map(|trace| trace.name.as_str()).collect();
        assert_eq!(
            found.is_empty(),
            section.contains(diagnoses::NEVER_FOUND),
            "{}: {found:?}",
            rule.name
        );
        assert!(
            found
                .iter()
                .all(|name| section.contains(&format!("[`{name}`]"))),
            "{}: {found:?}",
            rule.name
        );
        for (framework, _) in &rule.workaround {
            let name = if framework == ANY {
                "any program".to_owned()
            } else {
                format!("`{framework}`")
            };
            let row = section
                .lines()
                .find(|line| line.starts_with(&format!("| {name} |")))
                .expect("a row");
            let run = row
                .trim_end_matches(" |")
                .rsplit(" | ")
                .next()
                .unwrap_or_default();
            let names_where = run.starts_with("case `") || run.starts_with("traced: ");
            assert!(
                run == diagnoses::NOT_RUN || names_where,
                "{} in {framework}: {run}",
                rule.name
            );
            assert!(
                run == diagnoses::NOT_RUN || !rule.shown(framework).is_empty(),
                "{} in {framework}",
                rule.name
            );
        }
    }
}
