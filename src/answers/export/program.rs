//! A scenario prepared for either language: its trap and its control, step by step, with the arguments of calls.

use std::collections::BTreeMap;

use cuda_pitfalls_calls::{
    self as calls, BUILT_IN_STREAMS, Call, CallLibrary, Output, Param, ParamKind,
};

use super::effect::{self, EffectQuestion, GrowthBound, Since};
use super::error::ExportError;
use super::language::Language;
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::python::{LINE, LINE_VALUE};
use cuda_pitfalls_core::scenario::{Case, Gpus, Instance, Operand, Scalar, Scenario, Step};

/// Cases of a reproducer: the two that a verdict compares.
const COMPARED: [&str; 2] = ["trap", "control"];
/// File name part of this program's library in `CUDA_INJECTION64_PATH`.
const OUR_LIBRARY: &str = "cuda_pitfalls";

/// A scenario's instance, prepared for writing.
#[derive(Debug)]
pub struct Reproducer<'s> {
    pub(super) scenario: &'s Scenario,
    pub(super) instance: &'s Instance,
    pub(super) cases: Vec<Sequence<'s>>,
    /// Checks of a case. The effect occurred if all of them pass.
    pub(super) questions: Vec<EffectQuestion<'s>>,
    /// Checks that a self-contained program cannot make; its header lists them.
    pub(super) left_out: Vec<EffectQuestion<'s>>,
    /// Name of the file, without the suffix.
    pub(super) stem: String,
}

#[derive(Debug)]
pub(super) struct Sequence<'s> {
    pub(super) case: &'s Case,
    pub(super) env: Vec<(&'s str, Vec<TextPiece>)>,
    pub(super) steps: Vec<ExportStep<'s>>,
    /// Handles that steps bind, each with the C type of its first output.
    pub(super) variables: Vec<HandleVariable>,
}

#[derive(Debug)]
pub(super) struct HandleVariable {
    pub(super) name: String,
    pub(super) c_type: String,
}

#[derive(Debug)]
pub(super) struct ExportStep<'s> {
    pub(super) label: &'s str,
    /// Variable that the output is bound to.
    pub(super) bind: Option<&'s str>,
    pub(super) doing: Doing<'s>,
}

#[derive(Debug)]
pub(super) enum Doing<'s> {
    Call {
        call: &'static Call,
        arguments: Vec<Argument>,
    },
    Line {
        text: &'s str,
        value: Option<&'s str>,
        /// `true` if an exception is expected, so that the case continues after it.
        may_raise: bool,
    },
    /// No action, for this reason.
    Nothing(&'static str),
    Getpid,
    Sleep {
        milliseconds: i64,
    },
    /// Starts a thread that runs these steps, and waits for its end.
    Thread(Vec<ExportStep<'s>>),
    /// Forks a child that runs these steps, and waits for its end, which is a step with this label.
    Fork(Vec<ExportStep<'s>>, &'s str),
    Memset {
        variable: String,
        value: i64,
        bytes: i64,
    },
    Open {
        file: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TextPiece {
    Said(String),
    /// UUID of a GPU, known only at run time.
    Uuid(u32),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    /// A name of a C header.
    Named(&'static str, i64),
    /// Number of GPUs of the machine.
    Gpus,
}

#[derive(Clone, Debug)]
pub(super) enum Argument {
    Number(Number),
    Text(Vec<TextPiece>),
    Variable(String),
    /// A built-in stream or a null handle.
    Handle(i64),
    Kernel(String),
    /// `void **` of a launch.
    List(Vec<Argument>),
    /// `dim3`: x and z, y is 1.
    Dim3(i64, i64),
    /// A second word of the previous argument; it is not a C argument.
    Rest,
    Location {
        host: bool,
        device: Number,
    },
    Struct {
        template: &'static calls::InputStruct,
        given: Number,
    },
    Out(Output),
}

impl<'s> Reproducer<'s> {
    /// Prepares the trap and the control of an instance, for a file with this name without its suffix.
    ///
    /// # Errors
    /// Returns an error if a self-contained program cannot show the effect, with the reason.
    pub fn new(
        scenario: &'s Scenario,
        instance: &'s Instance,
        stem: &str,
    ) -> Result<Reproducer<'s>, ExportError> {
        let questions = effect::questions(&instance.effect)?;
        let gpus = effect::gpus_read(&questions, scenario.needs.gpus);
        // Only the GPUs that a case sees are read.
        let (questions, left_out) = questions
            .into_iter()
            .partition(|question| question.is_asked(gpus));
        let cases = COMPARED
            .iter()
            .filter_map(|name| instance.cases.iter().find(|case| case.name == *name));
        let cases = cases.map(Sequence::new).collect::<Result<_, _>>()?;
        let program = Reproducer {
            scenario,
            instance,
            cases,
            questions,
            left_out,
            stem: stem.to_owned(),
        };
        let is_read = program.questions.iter().all(|question| {
            let EffectQuestion::Value { at, .. } = question else {
                return true;
            };
            program.all_steps().iter().all(|action| match action.doing {
                Doing::Nothing(_) => action.label != *at,
                Doing::Fork(_, end) => end != *at,
                _ => true,
            })
        });
        if !is_read {
            return Err(ExportError::new(
                "its effect is a value that the worker reads for itself",
            ));
        }
        Ok(program)
    }

    /// Returns the language of the scenario's steps, which is also the language of the program.
    pub fn language(&self) -> Language {
        let has_lines = self
            .cases
            .iter()
            .any(|sequence| sequence.case.python.is_some());
        if has_lines {
            Language::Python
        } else {
            Language::C
        }
    }

    /// Returns every step of every case, including those of threads and children.
    pub(super) fn all_steps(&self) -> Vec<&ExportStep<'s>> {
        let mut all = Vec::new();
        for sequence in &self.cases {
            add_actions(&sequence.steps, &mut all);
        }
        all
    }

    /// Returns the functions that it calls, without repeats.
    pub(super) fn calls(&self) -> Vec<&'static Call> {
        let mut all: Vec<&'static Call> = self
            .all_steps()
            .into_iter()
            .filter_map(ExportStep::call)
            .map(|(call, _)| call)
            .collect();
        all.sort_by_key(|call| (call.library, call.name));
        all.dedup_by_key(|call| call.name);
        all
    }

    pub(super) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.all_steps()
            .into_iter()
            .filter_map(ExportStep::call)
            .flat_map(|(_, arguments)| arguments)
    }

    /// Returns the kernels that it loads, by name, each with its lines.
    pub(super) fn kernels_by_name(&self) -> BTreeMap<&str, impl Iterator<Item = String>> {
        let names = self.arguments().filter_map(|argument| {
            if let Argument::Kernel(name) = argument {
                Some(name)
            } else {
                None
            }
        });
        let kernels =
            names.map(|name| (name.as_str(), catalogue::kernel(name).unwrap_or_default()));
        kernels
            .map(|(name, text)| (name, text.lines().map(|line| format!("{}\n", line.trim()))))
            .collect()
    }

    /// Returns the libraries that it calls, besides libcuda, with their file names, the likeliest first. The list for
    /// libcudart is empty, because the user may name it.
    pub(super) fn libraries(&self) -> BTreeMap<CallLibrary, &'static [&'static str]> {
        let named = self.calls().into_iter().filter_map(|call| {
            let files: &[&str] = match call.library {
                CallLibrary::Runtime => &[],
                CallLibrary::Nvml => &["libnvidia-ml.so.1"],
                CallLibrary::Nvrtc => &["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"],
                CallLibrary::Cublas => &["libcublas.so", "libcublas.so.13", "libcublas.so.12"],
                CallLibrary::Cufft => &["libcufft.so", "libcufft.so.12", "libcufft.so.11"],
                CallLibrary::Nccl => &["libnccl.so.2", "libnccl.so"],
                CallLibrary::Driver | CallLibrary::Libc | CallLibrary::Harness => return None,
            };
            Some((call.library, files))
        });
        named.collect()
    }

    /// Returns the checks at a step, in order. Checks of memory come last, because reading it takes a moment.
    pub(super) fn questions_at(&self, label: &str) -> Vec<&EffectQuestion<'s>> {
        self.questions
            .iter()
            .filter(|question| question.step() == label)
            .collect()
    }

    pub(super) fn count_asked(&self, steps: &[ExportStep<'s>]) -> usize {
        let mut all = Vec::new();
        add_actions(steps, &mut all);
        all.iter()
            .map(|action| self.questions_at(action.label).len())
            .sum()
    }

    /// Returns `true` if a step's value is needed: for its own checks, or for those of another step.
    pub(super) fn is_wanted(&self, label: &str, name: &str) -> bool {
        self.is_compared(label, name) || self.is_asked_at(label, name)
    }

    /// Returns `true` if a check of a step is about this value of it.
    pub(super) fn is_asked_at(&self, label: &str, name: &str) -> bool {
        self.questions.iter().any(|question| match question {
            EffectQuestion::Value {
                at, name: asked, ..
            } => *at == label && *asked == name,
            _ => false,
        })
    }

    /// Returns `true` if a check is about a value of this step, or compares with one.
    pub(super) fn asks_for_value_of(&self, label: &str) -> bool {
        self.questions.iter().any(|question| match question {
            EffectQuestion::Value { at, operand, .. } => {
                *at == label
                    || matches!(operand, Operand::Value { label: other, .. } if other == label)
            }
            _ => false,
        })
    }

    /// Returns `true` if a check of another step compares with this value of this step.
    pub(super) fn is_compared(&self, label: &str, name: &str) -> bool {
        self.questions.iter().any(|question| {
            matches!(question, EffectQuestion::Value { operand: Operand::Value { label: at, name: of }, .. } if at == label && of == name)
        })
    }

    pub(super) fn gpus_read(&self) -> u32 {
        effect::gpus_read(&self.questions, self.scenario.needs.gpus)
    }

    /// Returns `true` if a check counts memory from this moment on.
    pub(super) fn is_counted_since(&self, moment: Since) -> bool {
        self.questions.iter().any(|question| match question {
            EffectQuestion::Contexts { .. } => moment == Since::Start,
            EffectQuestion::Memory { since, .. } => *since == moment,
            _ => false,
        })
    }

    /// Returns `true` if the effect distinguishes an allocation from a context, so that the cost of a context must be
    /// measured.
    pub(super) fn needs_cost(&self) -> bool {
        self.questions.iter().any(|question| {
            matches!(
                question,
                EffectQuestion::Memory {
                    least: GrowthBound::Allocation,
                    ..
                }
            )
        })
    }

    /// Returns the memory readings of the GPUs, separated by commas.
    pub(super) fn memory_readings(&self) -> String {
        let all: Vec<String> = (0..self.gpus_read())
            .map(|gpu| format!("used({gpu})"))
            .collect();
        all.join(", ")
    }

    /// Returns the number of GPUs that the program must count first, or `None`. If it reads their memory, a missing GPU
    /// already ends the program with 77.
    pub(super) fn gpus_to_count(&self) -> Option<u32> {
        let gpus = self.scenario.needs.gpus;
        (gpus > 1 && self.gpus_read() < gpus).then_some(gpus)
    }
}

fn add_actions<'a, 's>(steps: &'a [ExportStep<'s>], all: &mut Vec<&'a ExportStep<'s>>) {
    for action in steps {
        all.push(action);
        if let Doing::Thread(own) | Doing::Fork(own, _) = &action.doing {
            add_actions(own, all);
        }
    }
}

impl<'s> Sequence<'s> {
    fn new(case: &'s Case) -> Result<Sequence<'s>, ExportError> {
        let given = case
            .steps
            .iter()
            .flat_map(|step| step.args.values())
            .map(ToString::to_string);
        if case
            .env
            .values()
            .cloned()
            .chain(given)
            .any(|value| value.contains(OUR_LIBRARY))
        {
            return Err(ExportError::new(
                "it loads the injection library of cuda-pitfalls",
            ));
        }
        let env = case
            .env
            .iter()
            .map(|(name, value)| Ok((name.as_str(), parse_pieces(value)?)));
        let env = env.collect::<Result<_, ExportError>>()?;
        let mut sequence = Sequence {
            case,
            env,
            steps: Vec::new(),
            variables: Vec::new(),
        };
        let mut rest = case.steps.as_slice();
        sequence.steps = sequence.steps_of(None, &mut rest)?;
        if rest.is_empty() {
            Ok(sequence)
        } else {
            Err(interleaved_error())
        }
    }

    /// Returns the environment that it starts with: the mask if there is one, and then its own variables.
    pub(super) fn environment(&self) -> Vec<(&'s str, Vec<TextPiece>)> {
        let mask = match self.case.gpus {
            Gpus::All => None,
            Gpus::Masked(count) => Some(
                (0..count)
                    .map(|gpu| gpu.to_string())
                    .collect::<Vec<_>>()
                    .join(","),
            ),
        };
        let mask = mask.map(|gpus| ("CUDA_VISIBLE_DEVICES", vec![TextPiece::Said(gpus)]));
        mask.into_iter().chain(self.env.iter().cloned()).collect()
    }

    /// Returns the steps of a thread or process from here on, until the actor changes.
    fn steps_of(
        &mut self,
        actor: Option<&str>,
        rest: &mut &'s [Step],
    ) -> Result<Vec<ExportStep<'s>>, ExportError> {
        let mut all = Vec::new();
        while let Some((step, behind)) = rest
            .split_first()
            .filter(|(step, _)| step.on.as_deref() == actor)
        {
            *rest = behind;
            if step.from.is_some() {
                return Err(ExportError::new(
                    "it calls a private copy of a library, which only the worker can load",
                ));
            }
            let doing = match step.call.as_str() {
                "pthread_create" => {
                    Doing::Thread(self.started(step, "pthread_join", actor, rest)?.0)
                }
                "fork" => {
                    let (own, end) = self.started(step, "waitpid", actor, rest)?;
                    Doing::Fork(own, end)
                }
                _ => self.step_action(step)?,
            };
            all.push(ExportStep {
                label: &step.label,
                bind: step.bind.as_deref(),
                doing,
            });
        }
        Ok(all)
    }

    /// Returns the steps of a started thread or process, and the label of the step that waits for its end.
    fn started(
        &mut self,
        step: &'s Step,
        wait: &str,
        by: Option<&str>,
        rest: &mut &'s [Step],
    ) -> Result<(Vec<ExportStep<'s>>, &'s str), ExportError> {
        let name = step.bind.as_deref();
        let own = self.steps_of(name, rest)?;
        match rest.split_first() {
            Some((end, behind))
                if end.call == wait
                    && end.on.as_deref() == by
                    && end.args.get("actor").map(ToString::to_string).as_deref() == name =>
            {
                *rest = behind;
                Ok((own, &end.label))
            }
            _ => Err(interleaved_error()),
        }
    }

    fn step_action(&mut self, step: &'s Step) -> Result<Doing<'s>, ExportError> {
        if step.call == LINE {
            let value = match step.args.get(LINE_VALUE) {
                Some(Scalar::Text(name)) => Some(name.as_str()),
                _ => None,
            };
            let text = step.python_line().unwrap_or_default();
            if text.contains("${") {
                return Err(ExportError::new("its lines select a GPU by UUID"));
            }
            let may_raise = self.case.expect.iter().any(|check| {
                check.at == step.label
                    && check
                        .facts
                        .status
                        .iter()
                        .any(|status| status != effect::RAISES_NOTHING)
            });
            return Ok(Doing::Line {
                text,
                value,
                may_raise,
            });
        }
        let Some(call) = calls::find(&step.call) else {
            return Err(ExportError(format!(
                "`{}` is not in the call tables",
                step.call
            )));
        };
        if call.library == CallLibrary::Harness {
            return harness_step(step);
        }
        let arguments = (0..call.params.len())
            .map(|at| self.call_argument(call, at, step))
            .collect::<Result<_, _>>()?;
        self.bind_handle(call, step);
        Ok(Doing::Call { call, arguments })
    }

    fn call_argument(
        &self,
        call: &'static Call,
        at: usize,
        step: &Step,
    ) -> Result<Argument, ExportError> {
        let Some(param) = call.params.get(at) else {
            return Ok(Argument::Rest);
        };
        match param.kind {
            ParamKind::Fixed(_) if param.c_type.is_empty() => return Ok(Argument::Rest),
            ParamKind::Fixed(value) => return Ok(Argument::Number(Number::Int(value as i64))),
            ParamKind::Out(output) => return Ok(Argument::Out(output)),
            ParamKind::FatBinary(_) => {
                return Err(ExportError::new(
                    "it loads a binary in a container that the worker creates",
                ));
            }
            _ => {}
        }
        let z = match call.params.get(at + 1) {
            Some(Param {
                kind: ParamKind::Fixed(z),
                c_type: "",
                ..
            }) => *z as i64,
            _ => 1,
        };
        match (step.args.get(param.name), param.default, param.kind) {
            (Some(given), ..) => self.given_argument(param, given, z),
            (None, Some(x), ParamKind::Dim3) => Ok(Argument::Dim3(x, z)),
            (
                None,
                Some(0),
                ParamKind::Handle(_) | ParamKind::Text | ParamKind::Arguments | ParamKind::Ptx,
            ) => Ok(Argument::Handle(0)),
            (None, Some(value), _) => Ok(Argument::Number(Number::Int(value))),
            (None, None, _) => Err(ExportError(format!(
                "`{}` of {} is missing",
                param.name, call.name
            ))),
        }
    }

    /// Returns the argument that a step gives. `z` belongs to a `dim3`.
    fn given_argument(
        &self,
        param: &Param,
        given: &Scalar,
        z: i64,
    ) -> Result<Argument, ExportError> {
        Ok(match (param.kind, given) {
            (ParamKind::Constant(constants), Scalar::Text(name)) => {
                match constants.values.iter().find(|(known, _)| known == name) {
                    Some((name, value)) => Argument::Number(Number::Named(name, *value)),
                    None => Argument::Number(number(given)?),
                }
            }
            (ParamKind::Handle(_) | ParamKind::Block(..), Scalar::Text(name)) => {
                self.handle(name)?
            }
            (ParamKind::Pid, Scalar::Text(_)) => return Err(interleaved_error()),
            (ParamKind::Location, Scalar::Text(name)) if name == "host" => Argument::Location {
                host: true,
                device: Number::Int(0),
            },
            (ParamKind::Location, device) => Argument::Location {
                host: false,
                device: number(device)?,
            },
            (ParamKind::Dim3, Scalar::Int(x)) => Argument::Dim3(*x, z),
            (ParamKind::In(template), given) => Argument::Struct {
                template,
                given: number(given)?,
            },
            (ParamKind::Text, given) => Argument::Text(parse_pieces(&given.to_string())?),
            (ParamKind::Ptx, Scalar::Text(name)) if catalogue::kernel(name).is_some() => {
                Argument::Kernel(name.clone())
            }
            (ParamKind::Arguments, Scalar::List(values)) => {
                let values = values.iter().map(|value| match value {
                    Scalar::Text(name) if !name.contains("${") => self.handle(name),
                    other => Ok(Argument::Number(number(other)?)),
                });
                Argument::List(values.collect::<Result<_, _>>()?)
            }
            (_, given) => Argument::Number(number(given)?),
        })
    }

    fn handle(&self, name: &str) -> Result<Argument, ExportError> {
        if let Some(value) = BUILT_IN_STREAMS.value(name) {
            return Ok(Argument::Handle(value));
        }
        if self.variables.iter().any(|variable| variable.name == name) {
            Ok(Argument::Variable(name.to_string()))
        } else {
            Err(ExportError(format!("no earlier step binds `{name}`")))
        }
    }

    fn bind_handle(&mut self, call: &'static Call, step: &Step) {
        let Some(name) = step
            .bind
            .as_ref()
            .filter(|name| !self.variables.iter().any(|held| held.name == **name))
        else {
            return;
        };
        let bound = call.params.iter().find(|param| {
            matches!(
                param.kind,
                ParamKind::Out(Output::Handle(_) | Output::Word(_) | Output::Blob(..))
            )
        });
        if let Some(param) = bound {
            let c_type = plain_type(param.c_type);
            let c_type = c_type
                .strip_suffix('*')
                .unwrap_or(&c_type)
                .trim()
                .to_string();
            // A `void *` parameter only shows that it takes an address.
            let c_type = if c_type == "void" {
                "void *".to_string()
            } else {
                c_type
            };
            self.variables.push(HandleVariable {
                name: name.clone(),
                c_type,
            });
        }
    }
}

/// Returns the action of a worker's step, if any program can perform it.
fn harness_step(step: &Step) -> Result<Doing<'_>, ExportError> {
    Ok(match step.call.as_str() {
        "mark" => Doing::Nothing("no call"),
        "dl_iterate_phdr" => Doing::Nothing("the list of loaded libraries is not read here"),
        "getenv" | "getrusage" => Doing::Nothing("not read here"),
        "getpid" => Doing::Getpid,
        "nanosleep" => Doing::Sleep {
            milliseconds: step_int(step, "milliseconds", 0),
        },
        "memset" => Doing::Memset {
            variable: text(step, "pointer"),
            value: step_int(step, "value", 1),
            bytes: step_int(step, "bytes", 0),
        },
        "dlopen" if step.bind.is_some() => {
            return Err(ExportError::new(
                "it opens a private copy of libcudart, which only the worker can do",
            ));
        }
        "dlopen" => Doing::Open {
            file: text(step, "file"),
        },
        "environ" => {
            return Err(ExportError::new("it writes to `environ` without setenv"));
        }
        "posix_spawn" | "kill" | "waitpid" | "pthread_join" => return Err(interleaved_error()),
        "atexit" | "exit" | "_exit" => {
            return Err(ExportError::new(
                "its steps run inside exit handlers, which the worker drives",
            ));
        }
        other => {
            return Err(ExportError(format!(
                "it has the step `{other}`, which only the worker can run"
            )));
        }
    })
}

fn text(step: &Step, name: &str) -> String {
    step.args
        .get(name)
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn step_int(step: &Step, name: &str, otherwise: i64) -> i64 {
    match step.args.get(name) {
        Some(Scalar::Int(value)) => *value,
        _ => otherwise,
    }
}

fn interleaved_error() -> ExportError {
    ExportError::new(
        "its steps are run by several processes or threads in an order that only a run guarantees",
    )
}

impl ExportStep<'_> {
    pub(super) fn call(&self) -> Option<(&'static Call, &[Argument])> {
        match &self.doing {
            Doing::Call { call, arguments } => Some((*call, arguments.as_slice())),
            _ => None,
        }
    }

    /// Returns its label, if it contains more information than the call.
    pub(super) fn remark(&self) -> Option<&str> {
        let called = self.call().map_or("", |(call, _)| call.name);
        Some(self.label).filter(|label| label.split('#').next() != Some(called))
    }
}

/// Returns a C type without C++ qualifiers.
fn plain_type(c_type: &str) -> String {
    let words: Vec<&str> = c_type
        .split(' ')
        .filter(|word| !matches!(*word, "enum" | "struct"))
        .collect();
    words.join(" ")
}

/// Returns the type of a parameter; a device ordinal is a plain `int`.
pub(super) fn c_type(param: &Param) -> String {
    match plain_type(param.c_type).as_str() {
        "CUdevice" => "int".to_string(),
        "CUdevice *" => "int *".to_string(),
        other => other.to_string(),
    }
}

/// Returns a name that is valid in C and Python.
pub(super) fn safe_identifier(name: &str, taken: &[&str]) -> String {
    let mut text: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        text.insert(0, '_');
    }
    if taken.contains(&text.as_str()) {
        text.push('_');
    }
    text
}

/// Parses a text into parts. `${gpu0}` stands for a UUID.
fn parse_pieces(text: &str) -> Result<Vec<TextPiece>, ExportError> {
    let (mut all, mut rest) = (Vec::new(), text);
    while let Some((said, behind)) = rest.split_once("${gpu") {
        let named = behind
            .split_once('}')
            .and_then(|(gpu, behind)| Some((gpu.parse().ok()?, behind)));
        let Some((gpu, behind)) = named else {
            return Err(ExportError(format!(
                "it selects a GPU with `{text}`, which is filled in at run time"
            )));
        };
        all.extend([TextPiece::Said(said.to_owned()), TextPiece::Uuid(gpu)]);
        rest = behind;
    }
    all.push(TextPiece::Said(rest.to_owned()));
    all.retain(|piece| *piece != TextPiece::Said(String::new()));
    Ok(all)
}

fn number(given: &Scalar) -> Result<Number, ExportError> {
    match given {
        Scalar::Int(value) => Ok(Number::Int(*value)),
        Scalar::Text(text) if text == "${gpus}" => Ok(Number::Gpus),
        Scalar::Text(text) => text
            .parse()
            .map(Number::Int)
            .map_err(|_| ExportError(format!("it passes `{text}` where C needs a number"))),
        Scalar::List(_) => Err(ExportError::new("it passes a list where C needs a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::fact::FactSet;
    use cuda_pitfalls_core::scenario::Matcher;

    /// Returns the error for the effect of an exportable scenario, with one more fact.
    fn refusal(change: impl Fn(&mut FactSet)) -> Option<String> {
        let scenarios =
            catalogue::select_scenarios(&["context/set-device-is-eager".to_owned()]).unwrap();
        let scenario = scenarios.first().unwrap();
        let mut instance = scenario.instances.first().unwrap().clone();
        instance
            .effect
            .iter_mut()
            .for_each(|check| change(&mut check.facts));
        Reproducer::new(scenario, &instance, "x")
            .err()
            .map(|refusal| refusal.to_string())
    }

    #[test]
    fn what_only_a_run_can_see_is_refused_and_never_left_out() {
        let amount = || BTreeMap::from([("gpu0".to_owned(), Matcher::default())]);
        assert_eq!(refusal(|_| {}), None);
        let words = refusal(|facts| facts.peak_bytes = amount())
            .expect("a peak cannot be seen from a file");
        assert!(words.contains("background polling"), "{words}");
        let words = refusal(|facts| facts.process_bytes = amount()).expect("nor what NVML lists");
        assert!(words.contains("worker's processes"), "{words}");
        let words = refusal(|facts| facts.calls = amount()).expect("nor calls");
        assert!(words.contains("forwarding libcuda"), "{words}");
    }
}
