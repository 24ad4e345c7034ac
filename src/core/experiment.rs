//! The task of one fresh process: the program, its environment, its GPUs and, if the program is the worker, its calls.

use std::collections::BTreeMap;

use cuda_pitfalls_calls::{self as calls, Call, Effect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::python::{LINE, LINE_TEXT, Python};
use crate::refusal;

/// One experiment. Every attempt runs it in a fresh process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// The program to start.
    pub program: Program,
    /// Environment variables at exec, in addition to those of every process of a run.
    pub environment: BTreeMap<String, String>,
    /// `CUDA_VISIBLE_DEVICES` at exec, as UUIDs; `None` starts the process without a mask.
    pub gpus: Option<Vec<String>>,
    /// The calls that the worker makes, in order.
    pub steps: Vec<Step>,
    /// `true` if the worker reads its own state after each step.
    pub probes: bool,
    /// Deadlines.
    pub timeouts: Timeouts,
}

/// The program of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// This program's worker, which makes the listed steps and no other calls.
    Worker,
    /// A Python interpreter that runs the listed lines, one after the other, as a worker does.
    Python(Python),
}

/// Deadlines of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum duration of one step, in milliseconds.
    pub step_ms: u64,
    /// Maximum duration of one attempt, in milliseconds.
    pub attempt_ms: u64,
}

/// A call with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The exact C name; one of [`cuda_pitfalls_calls`], or `py` for a Python line.
    pub call: String,
    /// The inputs that the file gives, by parameter name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Scalar>,
    /// The name that the call's handle is bound to.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub bind: Option<String>,
    /// The thread or process that makes the call; the worker's main thread if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The private copy of libcudart that makes the call; the worker's libcudart if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The name of the step in checks: its label, or its C name if that is unique in the case.
    pub label: String,
    /// The line number in the file.
    pub line: u32,
}

impl Step {
    /// Returns `true` if the call of this step has an effect. A Python line is only known to possibly
    /// set the mask.
    pub fn has(&self, effect: Effect) -> bool {
        if self.call == LINE {
            // A line may set the mask, or start a child with another mask.
            return effect == Effect::MayUnmask;
        }
        calls::find(&self.call).is_some_and(|call| call.has(effect))
    }

    /// Returns the Python code of the step; none for a call.
    pub fn python_line(&self) -> Option<&str> {
        match self.args.get(LINE_TEXT) {
            Some(Scalar::Text(text)) if self.call == LINE => Some(text),
            _ => None,
        }
    }

    /// Returns the step as Python code: its line, or code or a comment in place of another kind of step.
    pub fn in_python(&self) -> String {
        if let Some(line) = self.python_line() {
            return line.to_string();
        }
        let bound = self.bind.as_deref().unwrap_or_default();
        match self.call.as_str() {
            "mark" => "# (look)".to_string(),
            "setenv" => format!(
                "os.environ[{:?}] = {:?}",
                self.argument_text("name"),
                self.argument_text("value")
            ),
            "unsetenv" => format!("del os.environ[{:?}]", self.argument_text("name")),
            "getenv" => format!("os.environ.get({:?})", self.argument_text("name")),
            "getpid" => "os.getpid()".to_string(),
            "nanosleep" => format!("time.sleep({} / 1000)", self.argument_text("milliseconds")),
            "pthread_create" => format!("# thread {bound} starts"),
            "pthread_join" => format!("# thread {} ends", self.argument_text("actor")),
            "fork" => format!("# os.fork(): process {bound} starts"),
            "waitpid" => format!(
                "# os.waitpid(): process {} ends",
                self.argument_text("actor")
            ),
            "seccomp" => {
                let [what, error] =
                    [refusal::WHAT, refusal::ERROR].map(|name| self.argument_text(name));
                format!("# from here on, {what} fails with {error}")
            }
            other => format!("# {other}"),
        }
    }

    /// Returns the text of an argument; empty if the argument is missing.
    fn argument_text(&self, name: &str) -> String {
        self.args
            .get(name)
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// Returns `true` if the step denies a file or a system call. It returns `false` for a filter that denies nothing.
    pub fn refuses_something(&self) -> bool {
        let refused = self.args.get(refusal::WHAT).map(ToString::to_string);
        self.has(Effect::Refuses) && refused.as_deref() != Some(refusal::NOTHING)
    }

    /// Returns `true` if the call starts a process, forked or fresh.
    pub fn starts_process(&self) -> bool {
        calls::find(&self.call).is_some_and(Call::starts_process)
    }

    /// Returns a call without arguments, with its own label.
    pub fn call(name: &str, label: &str) -> Step {
        Step {
            call: name.to_string(),
            label: label.to_string(),
            ..Step::default()
        }
    }

    /// Returns the step with one more argument.
    pub fn with(mut self, parameter: &str, value: impl Into<Scalar>) -> Step {
        self.args.insert(parameter.to_string(), value.into());
        self
    }

    /// Returns the step with a name for the handle that its call returns.
    pub fn bound_to(mut self, name: &str) -> Step {
        self.bind = Some(name.to_string());
        self
    }
}

/// A value in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected text or an integer")]
pub enum Scalar {
    /// An integer.
    Int(i64),
    /// Text; `${gpus}` and `${gpu0}` in it are filled in by the plan.
    Text(String),
    /// A list, for kernel arguments.
    List(Vec<Scalar>),
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Int(value) => write!(f, "{value}"),
            Scalar::Text(value) => f.write_str(value),
            Scalar::List(values) => {
                let values: Vec<String> = values.iter().map(Scalar::to_string).collect();
                write!(f, "[{}]", values.join(", "))
            }
        }
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Scalar {
        Scalar::Int(value)
    }
}

impl From<&str> for Scalar {
    fn from(text: &str) -> Scalar {
        Scalar::Text(text.to_string())
    }
}
