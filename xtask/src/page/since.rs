//! The section on versions: what the file expects of each, and what each showed.

use std::collections::BTreeSet;

use cuda_pitfalls::releases::{LineReleases, ReleaseSpan};
use cuda_pitfalls::render::{self, versions};
use cuda_pitfalls::scenario::{Expectation, Instance, Scenario};
use cuda_pitfalls::text::counts::group_by_key;
use cuda_pitfalls::text::versions::{format_ranges, number};

use super::measured::{Measurement, libcudart_versions, verdict_in_words};
use super::prose::{
    capitalize_first, code, markdown_link, to_markdown, value, write_bullets, write_paragraph,
};
use crate::table::MarkdownTable;

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
    if told.len() > 1 {
        for (told, versions) in &told {
            table.row([to_markdown(versions), told.concat()]);
        }
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
                &format!("The scenario requires {what} {}.", to_markdown(&range.0)),
            );
        }
    }
    out.push_str(&table.to_text());
    write_releases(out, scenario, &asked);
}

/// Writes the results of the deciding lines in other releases, measured without a GPU: a row for each.
fn write_releases(out: &mut String, scenario: &Scenario, asked: &[&LineReleases]) {
    let up = "../".repeat(scenario.name.matches('/').count() + 1);
    for (place, facts) in asked.iter().enumerate() {
        if place == 0 {
            let matrix = markdown_link("matrix of releases", &format!("{up}surveys/releases.md"));
            write_paragraph(
                out,
                &format!(
                    "Without a GPU, only the line's call of `cuInit` was measured ({matrix}). If the line does not call it, the \
                     pitfall cannot occur:"
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
        out.push_str(&table.to_text());
    }
}

/// Returns each expectation with its reason, as sentences.
pub(super) fn expectation_reasons(expect: &[Expectation]) -> Vec<String> {
    let mut reasons = Vec::new();
    for (line, expectation) in versions::lines(expect, value).iter().zip(expect) {
        let because = to_markdown(expectation.because.trim_end_matches('.'));
        reasons.push(format!("{}: {because}.", capitalize_first(line)));
    }
    reasons
}

/// Expectations of the file about single steps that differ between versions.
fn step_details(scenario: &Scenario) -> Vec<String> {
    let mut said = Vec::new();
    let instances = scenario.instances.iter();
    for case in instances.flat_map(|instance| &instance.cases) {
        for check in &case.expect {
            let is_told = versions::is_versioned(&check.when)
                && !check.because.is_empty()
                && !check.at.is_empty();
            if !is_told {
                continue;
            }
            let Some(condition) = versions::condition_words(&check.when, value) else {
                continue;
            };
            let (at, case) = (code(&check.at), to_markdown(&case.name));
            let because = to_markdown(check.because.trim_end_matches('.'));
            let condition = capitalize_first(&condition);
            let sentence = format!("{condition} after {at} in the {case}: {because}.");
            if !said.contains(&sentence) {
                said.push(sentence);
            }
        }
    }
    said
}

/// Returns the results of each instance, and the versions of libcudart: those with the same results are together.
pub(super) fn by_versions(
    instances: &[Instance],
    own: &[&Measurement],
) -> Vec<(Vec<String>, String)> {
    let all = libcudart_versions(own);
    let told = all.iter().map(|version| {
        let of_instances = instances.iter().map(|instance| {
            let mut different = BTreeSet::new();
            for measurement in own {
                if measurement.part.name == instance.name
                    && number(measurement.libcudart()) == *version
                {
                    different.insert(verdict_in_words(&measurement.part.verdict));
                }
            }
            different.into_iter().collect::<Vec<_>>().join(" / ")
        });
        (of_instances.collect::<Vec<_>>(), version.clone())
    });
    let mut ranges = Vec::new();
    for (told, versions) in group_by_key(told) {
        ranges.push((told, format_ranges(&versions, &all)));
    }
    ranges
}
