//! The scenarios that prove what was found: what they ask and what was measured.

use std::fmt::Write as _;

use super::Seen;
use crate::listing::show;
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_core::text::escape::html;

/// The most scenarios that a page has.
const MOST: usize = 20;
/// How wide they are laid out.
const WIDTH: usize = 90;

/// A scenario that comes with the program.
pub(super) fn find(name: &str) -> Option<Scenario> {
    let all = catalogue::select(&[name.to_owned()]).ok()?;
    all.into_iter().find(|scenario| scenario.name == name)
}

/// Its question and its answer, behind a colon.
pub(super) fn answer(scenario: &Scenario) -> String {
    format!(": {} {}", scenario.question, scenario.answer).trim_end().to_owned()
}

/// The names of the scenarios that findings name, each once.
fn names<'a>(seen: &Seen<'a>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for finding in seen.findings {
        if !names.contains(&finding.scenario.as_str()) && names.len() < MOST {
            names.push(&finding.scenario);
        }
    }
    names
}

/// The name of a scenario, as a link to its section where the page has one.
pub(super) fn link(seen: &Seen, name: &str) -> String {
    match names(seen).iter().position(|other| *other == name).filter(|_| find(name).is_some()) {
        Some(place) => format!("<a href=\"#p{place}\">{}</a>", html(name)),
        None => html(name),
    }
}

/// What `show` says of it, without addresses, which a page has none of. Escaped by line, to keep the breaks.
fn text(scenario: &Scenario) -> String {
    let scenario = Scenario { sources: Vec::new(), ..scenario.clone() };
    show::text(&scenario, WIDTH).lines().map(|line| html(line) + "\n").collect()
}

/// A folded section for each scenario.
pub(super) fn sections(out: &mut String, seen: &Seen) {
    let known = names(seen).into_iter().enumerate().filter_map(|(place, name)| Some((place, find(name)?)));
    let known: Vec<(usize, Scenario)> = known.collect();
    if !known.is_empty() {
        out.push_str("<h2>The scenarios that prove it</h2>\n");
    }
    for (place, scenario) in known {
        let _ = writeln!(
            out,
            "<details id=\"p{place}\"><summary>{}{}</summary>\n<pre>{}</pre></details>",
            html(&scenario.name),
            html(&answer(&scenario)),
            text(&scenario),
        );
    }
}
