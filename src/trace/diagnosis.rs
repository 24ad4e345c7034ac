//! Diagnoses: rules, written as data, that link the facts of a trace to a pitfall, the scenario that proves it, and the
//! workaround in the words of the framework on the stack.
//!
//! [`clue`] computes the facts of a trace; `scenarios/clues.toml` describes the attributes of each type of clue. A rule
//! is a file of `scenarios/diagnoses/` ([`DiagnosisRule`]): it tests one type of clue, and has the text of the finding.
//! A new rule needs no Rust unless it tests a fact that no clue has. Nothing here reads a clock, a file or the
//! environment, or starts a process.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod clue;
mod clues;
mod rule;
#[cfg(test)]
mod tests;

pub(crate) use clues::{gpu_name, line};
pub use rule::{ANY, DiagnosisRule, RuleCondition, WorkaroundRun};

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Trace;

/// The weight of a finding.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The program does not do what its author meant, or uses memory that it does not need.
    Pitfall,
    /// Worth knowing, but not counted.
    Note,
}

impl Severity {
    /// Returns its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Pitfall => "pitfall",
            Severity::Note => "note",
        }
    }
}

/// A match of a rule in a trace.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// The rule that found the match, such as `late-mask`.
    pub rule: String,
    /// The severity; only a `pitfall` is counted.
    pub severity: Severity,
    /// The rule's title, a few words.
    pub title: String,
    /// A sentence without a full stop that describes what happened in this trace. It contains text of the traced
    /// program.
    pub says: String,
    /// The scenario that proves the pitfall, such as `visibility/mask-after-cuinit`.
    pub scenario: String,
    /// The workaround: the code to write instead.
    pub workaround: String,
    /// The process.
    pub pid: u32,
    /// The events that show it, by index in the trace; the program went wrong at the first one.
    pub events: Vec<usize>,
    /// The UUID of the affected GPU.
    pub gpu: Option<String>,
    /// The memory that the pitfall costs, in bytes.
    pub bytes: Option<i64>,
}

impl Finding {
    /// Returns the rules whose answer is unknown because of this finding.
    pub fn leaves_open(&self) -> &'static [String] {
        embedded_rules()
            .iter()
            .find(|rule| rule.name == self.rule)
            .map_or(&[], |rule| rule.leaves_open.as_slice())
    }
}

/// Returns the built-in rules, sorted by name.
pub fn embedded_rules() -> &'static [DiagnosisRule] {
    static RULES: LazyLock<Vec<DiagnosisRule>> = LazyLock::new(|| {
        let mut files: Vec<(&str, &str)> = cuda_pitfalls_scenarios::diagnoses().collect();
        files.sort_unstable();
        let rules = files
            .into_iter()
            .map(|(name, source)| DiagnosisRule::parse(name, source));
        // Without its rules a trace would show no pitfall.
        #[expect(
            clippy::expect_used,
            reason = "the rules are part of the program, and a test reads them"
        )]
        rules
            .collect::<Result<_, _>>()
            .expect("the rules that come with the program are valid")
    });
    &RULES
}

/// Returns the findings of all rules in a trace, sorted by time.
pub fn findings(trace: &Trace) -> Vec<Finding> {
    find(embedded_rules(), trace)
}

fn find(rules: &[DiagnosisRule], trace: &Trace) -> Vec<Finding> {
    let clues = clues::all(trace);
    let mut found = Vec::new();
    // The events that a more specific rule explains.
    let mut covered: HashMap<&str, HashSet<usize>> = HashMap::new();
    for rule in rules {
        let mut said = HashSet::new();
        for clue in &clues {
            let Some(finding) = rule.finding(clue) else {
                continue;
            };
            for name in &rule.instead_of {
                covered.entry(name).or_default().extend(&finding.events);
            }
            // A loop that repeats one line is one mistake.
            if said.insert((clue.pid, clue.gpu.clone(), clue.distinguishing_texts())) {
                found.push((clue.t_ns, rule, finding));
            }
        }
    }
    found.retain(|(_, rule, finding)| match covered.get(rule.name.as_str()) {
        Some(events) if !finding.events.is_empty() => {
            !finding.events.iter().all(|event| events.contains(event))
        }
        _ => true,
    });
    found.sort_by_key(|(t_ns, rule, _)| (*t_ns, rule.severity, rule.name.as_str()));
    found.into_iter().map(|(_, _, finding)| finding).collect()
}
