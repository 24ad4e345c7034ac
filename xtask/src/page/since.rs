//! Since which version: what the file expects where, and what each version showed.

use std::collections::BTreeSet;

use cuda_pitfalls::render::versions;
use cuda_pitfalls::scenario::{Case, Expectation, Scenario};

use super::measured::{Measurement, happened};
use super::prose::{bullet, capitalised, code, paragraph, prose, value};
use super::table::Table;

/// The section of a page.
pub(super) fn section(out: &mut String, scenario: &Scenario, own: &[&Measurement]) {
    let expect = scenario.instances.first().map(|instance| instance.expect.as_slice()).unwrap_or_default();
    let details = details(scenario);
    let needed = scenario.needs.libcudart.is_some() || scenario.needs.driver.is_some();
    if own.is_empty() && !needed && !versions::matter(expect) && details.is_empty() {
        return;
    }
    out.push_str("\n## Since which version\n");
    let said = if versions::matter(expect) { reasons(expect) } else { details };
    if !said.is_empty() {
        out.push('\n');
    }
    said.iter().for_each(|sentence| bullet(out, sentence));
    for (what, range) in [("libcudart", &scenario.needs.libcudart), ("driver", &scenario.needs.driver)] {
        if let Some(range) = range {
            paragraph(out, &format!("The question can be asked with {what} {}.", prose(&range.0)));
        }
    }
    if !own.is_empty() {
        paragraph(out, &tried(own));
    }
    if scenario.parameters.is_empty() && !scenario.has_python_lines() {
        table(own).write(out);
    }
}

/// Each expectation with its reason, as sentences.
pub(super) fn reasons(expect: &[Expectation]) -> Vec<String> {
    let lines = versions::lines(expect, value);
    let sentence = |(line, expectation): (&String, &Expectation)| {
        format!("{}: {}.", capitalised(line), prose(expectation.because.trim_end_matches('.')))
    };
    lines.iter().zip(expect).map(sentence).collect()
}

/// What the file says about single steps that differs from version to version.
fn details(scenario: &Scenario) -> Vec<String> {
    let mut said = Vec::new();
    let cases = scenario.instances.iter().flat_map(|instance| &instance.cases);
    for (case, check) in cases.flat_map(|case: &Case| case.expect.iter().map(move |check| (case, check))) {
        let is_told = versions::is_versioned(&check.when) && !check.because.is_empty() && !check.at.is_empty();
        let Some(condition) = versions::condition(&check.when, value).filter(|_| is_told) else { continue };
        let place = format!("after {} in the {}", code(&check.at), prose(&case.name));
        let because = prose(check.because.trim_end_matches('.'));
        let sentence = format!("{} {place}: {because}.", capitalised(&condition));
        if !said.contains(&sentence) {
            said.push(sentence);
        }
    }
    said
}

/// Which versions were tried, and that others were not.
fn tried(own: &[&Measurement]) -> String {
    let drivers: BTreeSet<&str> = own.iter().map(|one| one.driver()).collect();
    let drivers = drivers.into_iter().collect::<Vec<_>>().join(" and ");
    let software = if own.iter().any(|one| one.is_of_lines()) {
        let all: BTreeSet<String> = own.iter().map(|one| one.software()).collect();
        all.into_iter().collect::<Vec<_>>().join("; ")
    } else {
        let versions: Vec<String> = in_order(own).into_iter().map(|(_, version)| version).collect();
        format!("libcudart {}", versions.join(", "))
    };
    let (software, drivers) = (prose(&software), prose(&drivers));
    format!("Measured with {software} on driver {drivers}. Other versions, newer ones too: not measured.")
}

/// The versions of libcudart that were measured, oldest first.
pub(super) fn in_order(own: &[&Measurement]) -> Vec<(Option<i32>, String)> {
    let version =
        |one: &&Measurement| (one.part.libcudart.as_ref().and_then(|it| it.number), one.libcudart().to_owned());
    let all: BTreeSet<_> = own.iter().map(version).collect();
    all.into_iter().collect()
}

/// What measurements of one thing showed: once if all say the same.
pub(super) fn shown(of: impl Iterator<Item = String>) -> String {
    let different: BTreeSet<String> = of.collect();
    different.into_iter().collect::<Vec<_>>().join(" / ")
}

/// A row for each version, where there are several.
fn table(own: &[&Measurement]) -> Table {
    let mut table = Table::new(["libcudart", "the pitfall"]);
    let versions = in_order(own);
    if versions.len() > 1 {
        for (_, version) in versions {
            let of = own.iter().filter(|one| one.libcudart() == version);
            table.row([prose(&version), shown(of.map(|one| happened(&one.part.verdict)))]);
        }
    }
    table
}
