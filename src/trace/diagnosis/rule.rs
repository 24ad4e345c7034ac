//! Rules: the conditions on a clue, and the texts of the finding if a clue meets them.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::clue::{Clue, ClueKind, clue_kinds};
use super::{Finding, Severity};
use cuda_pitfalls_core::scenario::framework;
use cuda_pitfalls_core::source::reader::opening_comment;

/// A rule: one file of `scenarios/diagnoses/`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiagnosisRule {
    /// The file's name without `.toml`; the rule's name on the command line.
    #[serde(skip)]
    pub name: String,
    /// A few words, shown next to an event.
    pub title: String,
    /// The severity; only a `pitfall` is counted.
    pub severity: Severity,
    /// The comment at the top of the file: what goes wrong, and why.
    #[serde(skip)]
    pub why: String,
    /// The scenario that proves the pitfall.
    pub scenario: String,
    /// The committed report that contains the measurement.
    pub evidence: String,
    /// The alternatives; at least one must hold.
    pub when: Vec<RuleCondition>,
    /// The sentence that describes what happened, with `{attribute}` for the values of the clue.
    pub says: String,
    /// Less specific rules about the same events.
    #[serde(default)]
    pub instead_of: Vec<String>,
    /// The rules whose answer is unknown if this one finds something.
    #[serde(default)]
    pub leaves_open: Vec<String>,
    /// The code to write instead, by framework or by function, in the order of the file; `any` is among them.
    #[serde(deserialize_with = "read_in_order")]
    pub workaround: Vec<(String, String)>,
    /// The runs of each workaround, by the same names.
    #[serde(default)]
    pub shown: BTreeMap<String, Vec<WorkaroundRun>>,
}

/// A place where a workaround was run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum WorkaroundRun {
    /// A case of a scenario: `framework/cupy-with-device-3` and `control`.
    Case(String, String),
    /// A traced program, by its name below `reports/traces/programs` without the suffix.
    Program(String),
}

/// The text is neither a case nor a program.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is neither a case of a scenario nor a traced program; write `<subject>/<what-happens> <case>`, or \
     `{PROGRAMS}<name>.py`"
)]
pub struct NoWorkaroundRun(String);

/// The folder of traced programs.
const PROGRAMS: &str = "reports/traces/programs/";

impl TryFrom<String> for WorkaroundRun {
    type Error = NoWorkaroundRun;

    fn try_from(text: String) -> Result<WorkaroundRun, NoWorkaroundRun> {
        if let Some(file) = text.strip_prefix(PROGRAMS)
            && let Some(program) = file.strip_suffix(".py")
        {
            return Ok(WorkaroundRun::Program(program.to_owned()));
        }
        match text.split_once(' ') {
            Some((scenario, case)) if scenario.contains('/') => {
                Ok(WorkaroundRun::Case(scenario.to_owned(), case.to_owned()))
            }
            _ => Err(NoWorkaroundRun(text)),
        }
    }
}

/// A condition of a rule; all parts must hold.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RuleCondition {
    /// The type of clue.
    #[serde(deserialize_with = "find_kind")]
    pub clue: &'static ClueKind,
    /// At least one of these functions must be on the stack. No condition if empty.
    #[serde(default)]
    pub stack_has: Vec<String>,
    /// The call must come from one of these packages. No condition if empty.
    #[serde(default)]
    pub package: Vec<String>,
    /// The code to write instead if this condition holds, for any caller; if omitted, the rule's workaround.
    pub workaround: Option<String>,
    /// Attributes, each with the required value, or with a list of accepted values.
    #[serde(flatten)]
    pub is: BTreeMap<String, Value>,
}

fn read_in_order<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, String)>, D::Error> {
    let table = BTreeMap::<String, toml::Spanned<String>>::deserialize(deserializer)?;
    let mut pairs: Vec<(String, toml::Spanned<String>)> = table.into_iter().collect();
    pairs.sort_by_key(|(_, text)| text.span().start);
    Ok(pairs
        .into_iter()
        .map(|(name, text)| (name, text.into_inner()))
        .collect())
}

fn find_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static ClueKind, D::Error> {
    let name = String::deserialize(deserializer)?;
    let kind = clue_kinds().iter().find(|kind| kind.name == name);
    kind.ok_or_else(|| D::Error::custom(format!("unknown kind of clue `{name}`")))
}

/// The key of the workaround for any caller.
pub const ANY: &str = "any";

/// Returns `true` if a workaround's key is a framework's function, such as `torch.cuda.is_available`.
pub(super) fn is_function(key: &str) -> bool {
    let package = key.split_once('.').map(|(package, _)| package);
    package.and_then(framework::with_package).is_some()
}

impl RuleCondition {
    /// Returns the accepted values of an attribute.
    pub fn wanted_values(wanted: &Value) -> &[Value] {
        match wanted {
            Value::Array(several) => several,
            one => std::slice::from_ref(one),
        }
    }

    /// Returns `true` if a clue meets the entire condition. A clue with an unknown attribute does not.
    pub(super) fn holds(&self, clue: &Clue<'_>) -> bool {
        if self.clue != clue.kind {
            return false;
        }
        for (name, wanted) in &self.is {
            let Some(value) = clue.get(name) else {
                return false;
            };
            let known = RuleCondition::wanted_values(value);
            let wanted = RuleCondition::wanted_values(wanted);
            if !known.iter().any(|value| wanted.contains(value)) {
                return false;
            }
        }
        let Some(stack) = clue.stacks.first() else {
            return self.stack_has.is_empty() && self.package.is_empty();
        };
        if !self.stack_has.is_empty() && !self.stack_has.iter().any(|name| stack.has(name)) {
            return false;
        }
        self.package.is_empty()
            || self
                .package
                .iter()
                .any(|name| stack.package() == Some(name))
    }
}

impl DiagnosisRule {
    /// Parses the text of a file. `name` is the file's name without `.toml`.
    ///
    /// # Errors
    /// Returns an error with the position if the text is not TOML or not a rule. A test checks the names in a rule:
    /// attributes, frameworks, scenarios and reports.
    pub fn parse(name: &str, source: &str) -> Result<DiagnosisRule, toml::de::Error> {
        let mut rule: DiagnosisRule = toml::from_str(source)?;
        name.clone_into(&mut rule.name);
        rule.why = opening_comment(source);
        Ok(rule)
    }

    pub(super) fn finding(&self, clue: &Clue<'_>) -> Option<Finding> {
        let when = self.when.iter().find(|when| when.holds(clue))?;
        let workaround = match &when.workaround {
            Some(workaround) => workaround,
            None => self.workaround_for(clue),
        };
        Some(Finding {
            rule: self.name.clone(),
            severity: self.severity,
            title: self.title.clone(),
            says: clue.fill_template(&self.says),
            scenario: self.scenario.clone(),
            workaround: clue.fill_template(workaround),
            pid: clue.pid,
            events: clue.events.clone(),
            gpu: clue.gpu.clone(),
            bytes: clue.bytes,
        })
    }

    /// Returns the workaround for a function on the stack; else the one for the framework nearest to the user's line,
    /// because a user of accelerate does not call the PyTorch below it; else the one for any caller.
    fn workaround_for(&self, clue: &Clue<'_>) -> &str {
        for (name, text) in &self.workaround {
            if is_function(name) && clue.stacks.iter().any(|stack| stack.has(name)) {
                return text;
            }
        }
        for stack in &clue.stacks {
            let frames = stack.frames.iter().rev();
            for frame in frames.chain(stack.meanwhile.iter().rev()) {
                let package = frame.package.as_deref();
                if let Some(framework) = package.and_then(framework::with_package)
                    && let Some(text) = self.workaround(&framework.name)
                {
                    return text;
                }
            }
        }
        self.workaround(ANY).unwrap_or_default()
    }

    /// Returns `true` if a condition on this type of clue tests the attribute.
    pub fn asks_for(&self, clue: &str, attribute: &str) -> bool {
        self.when
            .iter()
            .any(|when| when.clue.name == clue && when.is.contains_key(attribute))
    }

    /// Returns the runs of the workaround for a framework or function; empty if it was not run.
    pub fn shown(&self, key: &str) -> &[WorkaroundRun] {
        self.shown.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the workaround of a framework.
    pub fn workaround(&self, framework: &str) -> Option<&str> {
        let (_, text) = self.workaround.iter().find(|(name, _)| name == framework)?;
        Some(text)
    }
}
