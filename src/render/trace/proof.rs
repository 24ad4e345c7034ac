//! The scenarios that prove findings: their questions, answers and calls.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::listing::show;
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_core::text::escape::html;
use cuda_pitfalls_trace::diagnosis::Finding;

const MOST: usize = 20;
/// The width of their text on a page, in columns.
const WIDTH: usize = 90;

/// The scenarios that these findings name, each once, in the order of the findings and at most [`MOST`].
pub(super) fn scenarios<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<Scenario> {
    let mut known: HashSet<&str> = HashSet::new();
    let names = findings.map(|finding| finding.scenario.as_str()).filter(|name| known.insert(name)).take(MOST);
    names.filter_map(|name| catalogue::select(&[name.to_owned()]).ok()?.into_iter().next()).collect()
}

pub(super) struct Proofs(Vec<Scenario>);

impl Proofs {
    pub(super) fn of(findings: &[Finding]) -> Proofs {
        Proofs(scenarios(findings.iter()))
    }

    /// The question and the answer of a scenario, behind a colon; empty for one that the page does not have.
    pub(super) fn answer(&self, name: &str) -> String {
        self.0.iter().find(|scenario| scenario.name == name).map(answer).unwrap_or_default()
    }

    /// The name of a scenario, as a link to its section if the page has one.
    pub(super) fn link(&self, name: &str) -> String {
        match self.0.iter().position(|scenario| scenario.name == name) {
            Some(place) => format!("<a href=\"#p{place}\">{}</a>", html(name)),
            None => html(name),
        }
    }

    pub(super) fn sections(&self, out: &mut String) {
        if !self.0.is_empty() {
            out.push_str("<h2>The scenarios that prove it</h2>\n");
        }
        for (place, scenario) in self.0.iter().enumerate() {
            let _ = writeln!(
                out,
                "<details id=\"p{place}\"><summary>{}{}</summary>\n<pre>{}</pre></details>",
                html(&scenario.name),
                html(&answer(scenario)),
                text(scenario),
            );
        }
    }
}

fn answer(scenario: &Scenario) -> String {
    format!(": {} {}", scenario.question, scenario.answer).trim_end().to_owned()
}

/// The text of `show` without its sources, because pages have no addresses. Escaped line by line to keep the breaks.
fn text(scenario: &Scenario) -> String {
    let scenario = Scenario { sources: Vec::new(), ..scenario.clone() };
    show::text(&scenario, WIDTH).lines().map(|line| html(line) + "\n").collect()
}
