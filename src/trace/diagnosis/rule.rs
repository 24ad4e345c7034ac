//! A rule: what it asks of a clue, and what it says if the answer is yes.

use serde_json::Value;

use super::clue::{Clue, ClueKind};
use super::{Finding, Severity};
use cuda_pitfalls_core::scenario::framework;

/// One file of `scenarios/diagnoses/`.
#[derive(Clone, Debug, PartialEq)]
pub struct DiagnosisRule {
    /// The file's name without `.toml`, by which the command line knows it.
    pub name: String,
    /// A few words, as they stand beside an event.
    pub title: String,
    /// Whether it is counted as a pitfall.
    pub severity: Severity,
    /// The comment at the top of the file: what goes wrong, and why.
    pub why: String,
    /// The scenario that proves it.
    pub scenario: String,
    /// The committed report in which it was measured.
    pub evidence: String,
    /// One of these must hold.
    pub when: Vec<RuleCondition>,
    /// What happened, with `{attribute}` for what the clue knows.
    pub says: String,
    /// The rules that say less about the same events.
    pub instead_of: Vec<String>,
    /// The rules whose answer is unknown if this one finds something.
    pub leaves_open: Vec<String>,
    /// What to write instead, by framework or by function; `any` is among them.
    pub workaround: Vec<(String, String)>,
    /// Where a workaround was run, by the same names.
    pub shown: Vec<(String, Vec<WorkaroundRun>)>,
}

/// Where a workaround was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkaroundRun {
    /// A case of a scenario: `framework/cupy-with-device-3` and `control`.
    Case(String, String),
    /// A program that was traced, by its name below `reports/traces/programs` without the ending.
    Program(String),
}

/// What a rule asks; all of it must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleCondition {
    /// The kind of clue.
    pub clue: &'static ClueKind,
    /// Attributes, each with the values of which it must have one.
    pub is: Vec<(&'static str, Vec<Value>)>,
    /// Functions of which one must be on the stack; nothing is asked if it is empty.
    pub stack_has: Vec<String>,
    /// Packages of which one must have made the call; nothing is asked if it is empty.
    pub package: Vec<String>,
    /// What to write instead where this holds, whoever the caller is; if not given, the rule's workaround.
    pub workaround: Option<String>,
}

/// The key of the workaround for any caller.
pub const ANY: &str = "any";

/// Whether a workaround's key names a function, such as `torch.cuda.is_available`, of a framework.
pub(super) fn is_function(key: &str) -> bool {
    let package = key.split_once('.').map(|(package, _)| package);
    package.and_then(framework::with_package).is_some()
}

impl RuleCondition {
    /// Whether a clue meets the whole condition. An unknown attribute does not.
    pub(super) fn holds(&self, clue: &Clue<'_>) -> bool {
        let stack = clue.stacks.first();
        self.clue == clue.kind
            && self.is.iter().all(|(name, wanted)| match clue.get(name) {
                Some(Value::Array(list)) => list.iter().any(|one| wanted.contains(one)),
                value => value.is_some_and(|value| wanted.contains(value)),
            })
            && (self.stack_has.is_empty()
                || stack
                    .is_some_and(|stack| self.stack_has.iter().any(|function| stack.has(function))))
            && (self.package.is_empty()
                || stack
                    .and_then(|stack| stack.package())
                    .is_some_and(|it| self.package.iter().any(|one| one == it)))
    }
}

impl DiagnosisRule {
    pub(super) fn finding(&self, clue: &Clue<'_>) -> Option<Finding> {
        let when = self.when.iter().find(|when| when.holds(clue))?;
        Some(Finding {
            rule: self.name.clone(),
            severity: self.severity,
            title: self.title.clone(),
            says: clue.fill_template(&self.says),
            scenario: self.scenario.clone(),
            workaround: clue.fill_template(
                when.workaround
                    .as_deref()
                    .unwrap_or_else(|| self.workaround_for(clue)),
            ),
            pid: clue.pid,
            events: clue.events.clone(),
            gpu: clue.gpu.clone(),
            bytes: clue.bytes,
        })
    }

    /// The workaround for a function on the stack; else the one for the framework nearest to the user's line, because a
    /// user of accelerate does not call the PyTorch below it; else the one for any caller.
    fn workaround_for(&self, clue: &Clue<'_>) -> &str {
        let mut functions = self.workaround.iter().filter(|(name, _)| is_function(name));
        if let Some((_, text)) =
            functions.find(|(name, _)| clue.stacks.iter().any(|stack| stack.has(name)))
        {
            return text;
        }
        let packages = clue.stacks.iter().flat_map(|stack| {
            stack
                .frames
                .iter()
                .rev()
                .chain(stack.meanwhile.iter().rev())
        });
        packages
            .filter_map(|frame| framework::with_package(frame.package.as_deref()?))
            .find_map(|framework| self.workaround(&framework.name))
            .or_else(|| self.workaround(ANY))
            .unwrap_or_default()
    }

    /// Whether it asks for an attribute of this kind of clue.
    pub fn asks_for(&self, clue: &str, attribute: &str) -> bool {
        self.when.iter().any(|when| {
            when.clue.name == clue && when.is.iter().any(|(name, _)| *name == attribute)
        })
    }

    /// Where the workaround of a framework or function was run; empty if it was not.
    pub fn shown(&self, key: &str) -> &[WorkaroundRun] {
        self.shown
            .iter()
            .find(|(name, _)| name == key)
            .map_or(&[], |(_, shown)| shown.as_slice())
    }

    /// The workaround of a framework.
    pub fn workaround(&self, framework: &str) -> Option<&str> {
        self.workaround
            .iter()
            .find(|(name, _)| name == framework)
            .map(|(_, text)| text.as_str())
    }
}
