//! The section on versions: what the file expects of each, and what each showed.

use std::collections::BTreeSet;

use cuda_pitfalls::releases::{LineReleases, ReleaseSpan};
use cuda_pitfalls::render::{self, versions};
use cuda_pitfalls::scenario::{Case, Expectation, Instance, Scenario};
use cuda_pitfalls::text::counts::group_by_key;
use cuda_pitfalls::text::versions::{format_ranges, number};

use super::measured::{Measurement, libcudart_versions, verdict_in_words};
use super::prose::{
    capitalize_first, code, markdown_link, to_markdown, value, write_bullets, write_paragraph,
};
use super::table::MarkdownTable;

pub(super) fn write_versions(
    out: &mut String,
    scenario: &Scenario,
    own: &[&Measurement],
    asked: &[LineReleases],
) {
    let expect = scenario
        .instances
        .first()
        .map(|instance| instance.expect.as_slice())
        .unwrap_or_default();
    let details = step_details(scenario);
    let asked: Vec<&LineReleases> = asked
        .iter()
        .filter(|line| line.scenarios.contains(&scenario.name))
        .collect();
    let needed = scenario.needs.libcudart.is_some() || scenario.needs.driver.is_some();
    let mut table = MarkdownTable::new(["libcudart", "the pitfall"]);
    let told = if scenario.parameters.is_empty() {
        by_versions(&scenario.instances, own)
    } else {
        Vec::new()
    };
    for (told, versions) in told.iter().filter(|_| told.len() > 1) {
        table.row([to_markdown(versions), told.concat()]);
    }
    if table.len() == 0
        && !needed
        && !versions::has_versioned(expect)
        && details.is_empty()
        && asked.is_empty()
    {
        return;
    }
    out.push_str("\n## Since which version\n");
    let said = if versions::has_versioned(expect) {
        expectation_reasons(expect)
    } else {
        details
    };
    write_bullets(out, said);
    for (what, range) in [
        ("libcudart", &scenario.needs.libcudart),
        ("driver", &scenario.needs.driver),
    ] {
        if let Some(range) = range {
            write_paragraph(
                out,
                &format!(
                    "The question can be asked with {what} {}.",
                    to_markdown(&range.0)
                ),
            );
        }
    }
    table.write(out);
    write_releases(out, scenario, &asked);
}

/// What the lines that decide do in other releases, asked without a GPU: a row for each.
fn write_releases(out: &mut String, scenario: &Scenario, asked: &[&LineReleases]) {
    let up = "../".repeat(scenario.name.matches('/').count() + 1);
    for (place, facts) in asked.iter().enumerate() {
        if place == 0 {
            let matrix = markdown_link(
                "the matrix of releases",
                &format!("{up}surveys/releases.md"),
            );
            write_paragraph(
                out,
                &format!(
                    "Without a GPU it was asked whether the line calls `cuInit`, without which the pitfall cannot show \
                     ({matrix}):"
                ),
            );
        }
        let cells = facts
            .spans
            .iter()
            .flat_map(|ReleaseSpan { state, releases }| {
                releases
                    .iter()
                    .map(|release| (release.as_str(), render::releases::word(*state)))
            });
        let (releases, words): (Vec<&str>, Vec<&str>) = cells.unzip();
        let mut table = MarkdownTable::new([facts.package.as_str()].into_iter().chain(releases));
        table.row(
            [code(&facts.line)]
                .into_iter()
                .chain(words.into_iter().map(str::to_owned)),
        );
        table.write(out);
    }
}

/// Each expectation with its reason, as sentences.
pub(super) fn expectation_reasons(expect: &[Expectation]) -> Vec<String> {
    let lines = versions::lines(expect, value);
    let reasons = lines
        .iter()
        .zip(expect.iter().map(|it| it.because.trim_end_matches('.')));
    reasons
        .map(|(line, because)| format!("{}: {}.", capitalize_first(line), to_markdown(because)))
        .collect()
}

/// Expectations of the file about single steps that differ between versions.
fn step_details(scenario: &Scenario) -> Vec<String> {
    let mut said = Vec::new();
    let cases = scenario
        .instances
        .iter()
        .flat_map(|instance| &instance.cases);
    for (case, check) in
        cases.flat_map(|case: &Case| case.expect.iter().map(move |check| (case, check)))
    {
        let is_told = versions::is_versioned(&check.when)
            && !check.because.is_empty()
            && !check.at.is_empty();
        let Some(condition) = versions::condition_words(&check.when, value).filter(|_| is_told)
        else {
            continue;
        };
        let place = format!(
            "after {} in the {}",
            code(&check.at),
            to_markdown(&case.name)
        );
        let because = to_markdown(check.because.trim_end_matches('.'));
        let sentence = format!("{} {place}: {because}.", capitalize_first(&condition));
        if !said.contains(&sentence) {
            said.push(sentence);
        }
    }
    said
}

/// What each instance showed, and with which versions of libcudart: those that showed the same are together.
pub(super) fn by_versions(
    instances: &[Instance],
    own: &[&Measurement],
) -> Vec<(Vec<String>, String)> {
    let all = libcudart_versions(own);
    let told = all.iter().map(|version| {
        let told = instances.iter().map(|instance| {
            let own = own
                .iter()
                .filter(|it| it.part.name == instance.name && number(it.libcudart()) == *version);
            let different: BTreeSet<String> = own
                .map(|measurement| verdict_in_words(&measurement.part.verdict))
                .collect();
            different.into_iter().collect::<Vec<_>>().join(" / ")
        });
        (told.collect::<Vec<_>>(), version.clone())
    });
    group_by_key(told)
        .into_iter()
        .map(|(told, versions)| (told, format_ranges(&versions, &all)))
        .collect()
}
