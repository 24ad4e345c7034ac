//! `survey python`: the effects of a Python line on CUDA in a fresh process.
//!
//! The line, and the lines before it, run in a traced interpreter. All actions of the process after the line begins are
//! attributed to the line.

mod control;
mod list;
mod returned;
mod seen;

pub use control::{Control, instrument_controls};
pub use list::{List, MOST_BYTES, PythonLine, built_in, read};
pub use returned::Returned;
pub use seen::{ProgramMessages, PythonAttempt, Raised, SideEffects, made, stack_of_init};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::row::{KindRow, RowAttempts, SurveyRow, Unmeasured};
use super::{SurveyKind, median};
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::machine::{Interpreter, Machine};
use cuda_pitfalls_core::verdict::Reason;

/// The group of the instrument's controls.
pub const INSTRUMENT: &str = "instrument";

/// Results of a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PythonRow {
    /// The name of the row, such as `torch.cuda.is_available`.
    pub id: String,
    /// The group of the line, such as `torch`; `instrument` for a control of the instrument.
    pub framework: String,
    /// The versions of the packages that the line needs.
    pub versions: BTreeMap<String, String>,
    /// The code that ran before the line in the same process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The tested code.
    pub ask: String,
    /// Variables that were set before the interpreter started.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Reason why the line is of interest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Facts that all attempts agree on.
    #[serde(flatten)]
    pub facts: PythonFacts,
    /// For a control: `true` if it showed the required facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_expected: Option<bool>,
    /// Number of attempts that count, and the reasons why the others do not.
    #[serde(flatten)]
    pub standing: RowAttempts,
    /// Observations of each attempt.
    pub seen: Vec<PythonSeen>,
}

/// Returns a place without its line number, which differs between versions that behave the same.
pub(crate) fn without_line(at: &str) -> String {
    let Some((file, rest)) = at.split_once(':') else {
        return at.to_string();
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{file}{rest}")
}

/// Behavior of a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PythonFacts {
    /// `true` if the code before it had already initialized the driver.
    pub initialised_before: Option<bool>,
    /// NVML indices of the GPUs where the code before it had created a context that still existed.
    pub context_before: Option<Vec<u32>>,
    /// `true` if it calls `cuInit` in a process whose driver was not initialized; null if the code before it had
    /// initialized the driver, or if libcuda is missing.
    pub calls_cuinit: Option<bool>,
    /// `true` if it reads the mask, so that a mask that is set later has no effect; null if the code before it had
    /// initialized the driver, or if `cuInit` failed before it read the mask.
    pub reads_mask: Option<bool>,
    /// The mask that it read; null if the variable was not set, or was not read.
    pub mask: Option<String>,
    /// Status that `cuInit` returned, by its C name; null if `cuInit` was not called.
    pub init_status: Option<String>,
    /// `true` if a child process called `cuInit`.
    pub in_child: Option<bool>,
    /// The innermost public function of a package in the stack of `cuInit`, and where it was:
    /// `torch/cuda/__init__.py:180 is_available`. `ask.py:1` means the line itself.
    pub at: Option<String>,
    /// The function of a package in that stack that the line called: `accelerate/state.py:180 PartialState.__init__`.
    pub entry: Option<String>,
    /// The packages' functions in that stack, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub way: Vec<String>,
    /// The libcudart call, or call of another CUDA library, that called `cuInit`; null if `cuInit` was called directly.
    pub through: Option<String>,
    /// NVML indices of the GPUs where the line creates a context.
    pub context_on: Option<Vec<u32>>,
    /// Like `at`, for the first of these contexts.
    pub context_at: Option<String>,
    /// Memory cost of these contexts in bytes, in the order of `context_on`; null if no attempt could measure it.
    pub context_bytes: Option<Vec<i64>>,
    /// Maximum growth of NVML's `used` after the line began, in bytes, for each GPU in NVML order; null if no attempt
    /// ran alone.
    pub device_used_bytes: Option<Vec<i64>>,
    /// Exception that the line raised; null if it raised none.
    pub raised: Option<Raised>,
    /// The line's value, if the last statement is an expression: plain values as Python writes them, otherwise the name
    /// of the type. Null if attempts differ.
    pub value: Option<String>,
    /// Median duration, in nanoseconds.
    pub elapsed_ns: Option<u64>,
    /// End of the process, unless it exited with code 0: `SIGSEGV`, `exit code 3`.
    pub left: Option<String>,
}

impl PythonFacts {
    /// Returns `true` if the line is known to create a context.
    pub fn makes_context(&self) -> bool {
        self.context_on.as_ref().is_some_and(|on| !on.is_empty())
    }

    /// Sets the facts that attempts agree on. The others are recorded in `standing`.
    fn set_agreed(&mut self, seen: &[&PythonFacts], standing: &mut RowAttempts) {
        macro_rules! agree {
            ($seen:expr; $($fact:ident)*) => {$(
                let values = $seen.map(|seen| seen.$fact.clone());
                self.$fact = standing.agreed(stringify!($fact), values).flatten();
            )*};
        }
        agree!(seen.iter(); initialised_before context_before calls_cuinit reads_mask mask init_status in_child context_on left);
        // An attempt whose stack could not be read does not count for the fields that come from the stack.
        agree!(seen.iter().filter(|seen| seen.calls_cuinit != Some(true) || seen.at.is_some()); at entry through);
        agree!(seen.iter().filter(|seen| !seen.makes_context() || seen.context_at.is_some()); context_at);
        if let Some(first) = seen.first() {
            self.way = first.way.clone();
        }
    }

    /// Sets the exception of attempts that agree on it, and their value if all have the same.
    fn set_result(&mut self, seen: &[&PythonFacts]) {
        let Some(first) = seen.first() else {
            return;
        };
        self.raised = first.raised.clone();
        if seen.iter().all(|seen| seen.value == first.value) {
            self.value = first.value.clone();
        }
    }

    /// Sets the medians of attempts.
    fn set_figures(&mut self, attempts: &[&PythonAttempt]) {
        // NVML's figure for a single process, which is the only one known while other attempts run, is a few MiB lower.
        let mut measured = attempts.to_vec();
        measured.retain(|made| made.seen.context_bytes.is_some());
        if measured.iter().any(|made| made.alone) {
            measured.retain(|made| made.alone);
        }
        let contexts = measured.iter();
        self.context_bytes = gpu_medians(contexts.map(|made| made.seen.context_bytes.as_ref()));
        let devices = attempts.iter();
        self.device_used_bytes =
            gpu_medians(devices.map(|made| made.seen.device_used_bytes.as_ref()));
        let times = attempts.iter().filter_map(|made| made.seen.elapsed_ns);
        self.elapsed_ns = median(times.collect());
    }
}

/// Observations of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PythonSeen {
    /// The facts of the row as they were in this attempt, without `way`.
    #[serde(flatten)]
    pub facts: PythonFacts,
    /// Reason why the attempt does not count, as a word of [`Reason`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// The first of its warnings, each with its category.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warned: Vec<String>,
    /// `true` if no other attempt ran at the same time.
    pub alone: bool,
}

/// Python lines, and the function that makes their rows.
pub struct LineQuestions {
    /// The lines.
    pub list: List,
    /// Returns the row of a line. The last argument is `true` if an attempt reached the place where libcuda returned
    /// the status by itself.
    pub row: fn(&PythonLine, PythonRow, bool) -> SurveyRow,
    /// `true` if the row contains memory, which takes a separate attempt.
    pub has_memory: bool,
}

/// Returns the questions of the survey.
pub(super) fn questions() -> Result<LineQuestions, Invalid> {
    let row = |_: &PythonLine, row: PythonRow, _| SurveyRow::new(&row.without_more());
    Ok(LineQuestions {
        list: built_in()?,
        row,
        has_memory: true,
    })
}

impl KindRow for PythonRow {
    const KIND: SurveyKind = SurveyKind::Python;

    fn question(&self) -> (String, Option<String>) {
        (self.id.clone(), None)
    }

    fn standing(&self) -> &RowAttempts {
        &self.standing
    }

    fn derived_facts(&self, _: &Machine) -> Vec<(&'static str, Value)> {
        let read = self.facts.mask.as_deref().unwrap_or("(unset)");
        vec![(
            "mask_read",
            json!((self.facts.reads_mask == Some(true)).then_some(read)),
        )]
    }

    fn asked_as(&self) -> String {
        format!("{:?} {:?} {:?}", self.before, self.ask, self.env)
    }

    fn has_facts(&self) -> bool {
        let PythonFacts {
            calls_cuinit,
            initialised_before,
            context_on,
            ..
        } = &self.facts;
        (calls_cuinit.is_some() || *initialised_before == Some(true)) && context_on.is_some()
    }

    fn is_control(&self) -> bool {
        self.framework == INSTRUMENT
    }

    fn is_unexpected(&self) -> bool {
        self.as_expected == Some(false)
    }
}

impl PythonRow {
    /// Returns a row without results for this line.
    pub fn new(line: &PythonLine, interpreter: Option<&Interpreter>) -> PythonRow {
        let mut versions = BTreeMap::new();
        for name in line.packages() {
            if let Some(interpreter) = interpreter
                && let Some(Some(version)) = interpreter.packages.get(&name)
            {
                versions.insert(name, version.clone());
            }
        }
        let PythonLine {
            id,
            framework,
            before,
            ask,
            env,
            note,
            ..
        } = line.clone();
        PythonRow {
            id,
            framework,
            versions,
            before,
            ask,
            env,
            note,
            ..PythonRow::default()
        }
    }

    /// Returns the row without the further lines of exceptions, which only `survey errors` keeps.
    fn without_more(mut self) -> PythonRow {
        let seen = self.seen.iter_mut().map(|seen| &mut seen.facts);
        for facts in seen.chain([&mut self.facts]) {
            if let Some(raised) = &mut facts.raised {
                raised.more = None;
            }
        }
        self
    }

    /// Returns the row, marked as not measured.
    pub fn as_unmeasured(mut self, reason: Reason, detail: String) -> PythonRow {
        self.standing.unmeasured = Some(Unmeasured { reason, detail });
        self
    }

    /// Returns the row with the results of these attempts, in the order in which they were made.
    pub fn with_attempts(mut self, attempts: Vec<PythonAttempt>) -> PythonRow {
        let (mut counting, mut standing) = (Vec::new(), RowAttempts::default());
        for made in &attempts {
            match &made.invalid {
                None => counting.push(made),
                Some(why) => *standing.invalid.entry(why.reason.name()).or_insert(0) += 1,
            }
        }
        standing.attempts = counting.len() as u32;
        let seen: Vec<&PythonFacts> = counting.iter().map(|made| &made.seen).collect();
        self.facts.set_agreed(&seen, &mut standing);
        let kinds = seen
            .iter()
            .map(|seen| seen.raised.as_ref().map(|raised| raised.kind.as_str()));
        let is_agreed = standing.agreed("raised", kinds).is_some();
        if seen.is_empty() {
            // The value of a line is also known from attempts that do not count.
            let all: Vec<&PythonFacts> = attempts.iter().map(|made| &made.seen).collect();
            self.facts.set_result(&all);
        } else if is_agreed {
            self.facts.set_result(&seen);
        }
        self.facts.set_figures(&counting);
        if counting.is_empty() {
            let (reason, detail) = match attempts.iter().find_map(|made| made.invalid.clone()) {
                Some(invalid) => (invalid.reason, invalid.detail),
                None => (Reason::TooFewAttempts, "no attempt was made".to_owned()),
            };
            standing.unmeasured = Some(Unmeasured { reason, detail });
        }
        self.standing = standing;
        self.seen = attempts.into_iter().map(PythonAttempt::into_seen).collect();
        self
    }
}

/// Returns the median of each GPU; `None` if the lists differ in length, or if there are no lists.
fn gpu_medians<'a>(lists: impl Iterator<Item = Option<&'a Vec<i64>>>) -> Option<Vec<i64>> {
    let lists: Vec<&Vec<i64>> = lists.flatten().collect();
    let length = lists.first()?.len();
    if lists.iter().any(|list| list.len() != length) {
        return None;
    }
    let mut medians = Vec::with_capacity(length);
    for gpu in 0..length {
        medians.push(median(lists.iter().map(|list| list[gpu]).collect())?);
    }
    Some(medians)
}

#[cfg(test)]
mod tests;
