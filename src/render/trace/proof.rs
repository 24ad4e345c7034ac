//! The scenarios that prove findings: their questions, answers and calls.

use std::collections::HashSet;

use crate::block::{Block, Entry};
use crate::listing::show;
use cuda_pitfalls_answers::known::Known;
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_trace::diagnosis::Finding;

const MOST: usize = 20;
/// The width of their text on a page, in columns.
const WIDTH: usize = 90;

/// Returns the scenarios that these findings name, each once, in the order of the findings and at most [`MOST`].
pub(super) fn scenarios<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<Scenario> {
    let mut known: HashSet<&str> = HashSet::new();
    let names = findings
        .map(|finding| finding.scenario.as_str())
        .filter(|name| known.insert(name))
        .take(MOST);
    names
        .filter_map(|name| {
            catalogue::select_scenarios(&[name.to_owned()])
                .ok()?
                .into_iter()
                .next()
        })
        .collect()
}

/// Returns the text of `show` without its sources, because pages have no addresses.
pub(super) fn scenario_section(scenario: &Scenario) -> Block {
    let plain = Scenario {
        sources: Vec::new(),
        ..scenario.clone()
    };
    let lines = show::text(&plain, WIDTH)
        .lines()
        .map(str::to_owned)
        .collect();
    let body = vec![Block::Fold(
        "Question, steps and expected result".to_owned(),
        vec![Block::Code("", lines)],
    )];
    Block::Entry(Entry {
        id: scenario.name.clone(),
        title: (&scenario.name).into(),
        body,
        ..Entry::default()
    })
}

/// Returns a colon, and the question and the answer of the scenario with this name.
pub(super) fn answer(name: &str) -> String {
    let known = Known::embedded().scenario(name);
    known
        .map(|known| {
            format!(": {} {}", known.question, known.answer)
                .trim_end()
                .to_owned()
        })
        .unwrap_or_default()
}
