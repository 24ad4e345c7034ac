//! What both languages need of a scenario: its trap and its control, step by step, each with the
//! thread or process that makes it and with what is passed.

use std::collections::BTreeMap;

use cuda_pitfalls_calls::{self as calls, BUILT_IN_STREAMS, Call, CallLibrary, Output, Param, ParamKind, SIGNALS};

use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::fact::FactSet;
use cuda_pitfalls_core::python::LINE;
use cuda_pitfalls_core::scenario::{
    Case, Check, ExitCheck, GpuList, Gpus, Hazard, Instance, Matcher, Operand, Scalar, Scenario, Step,
};

/// Why a scenario cannot be handed on as one file, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    fn new(why: impl Into<String>) -> Refusal {
        Refusal(why.into())
    }
}

/// The main thread of a case's first process.
pub(super) const MAIN: usize = 0;
/// Cases that a reproducer has: the two that a verdict compares.
const COMPARED: [&str; 2] = ["trap", "control"];
/// What `CUDA_INJECTION64_PATH` names is a library of this program.
const OUR_LIBRARY: &str = "cuda_pitfalls";

/// A scenario's instance, ready to be written down.
#[derive(Debug)]
pub struct Reproducer<'s> {
    /// The scenario.
    pub scenario: &'s Scenario,
    /// The instance of it.
    pub instance: &'s Instance,
    pub(super) cases: Vec<Sequence<'s>>,
    /// What its file is called, without the suffix; each form has a name of its own if none.
    stem: Option<String>,
}

/// A case.
#[derive(Debug)]
pub(super) struct Sequence<'s> {
    pub(super) case: &'s Case,
    /// Names of threads and processes; the first is the main thread.
    pub(super) actors: Vec<String>,
    pub(super) steps: Vec<Action<'s>>,
    /// Handles that steps bind, each with the C type that the first of them writes.
    pub(super) variables: Vec<HandleVariable>,
    /// Names of bytes that one process binds and another may use, such as an IPC handle.
    pub(super) blocks: Vec<String>,
}

/// A handle.
#[derive(Debug)]
pub(super) struct HandleVariable {
    pub(super) name: String,
    pub(super) c_type: String,
}

/// One step.
#[derive(Debug)]
pub(super) struct Action<'s> {
    pub(super) step: &'s Step,
    /// The index of who makes it.
    pub(super) actor: usize,
    pub(super) doing: Doing<'s>,
}

/// What a step does.
#[derive(Debug)]
pub(super) enum Doing<'s> {
    /// A call of a library.
    Call {
        call: &'static Call,
        arguments: Vec<Argument>,
    },
    /// A Python line.
    Line {
        text: &'s str,
        value: Option<&'s str>,
    },
    /// Nothing: everything is read.
    Mark,
    /// Writes to `environ` directly.
    Environ {
        name: String,
        value: String,
    },
    Getenv {
        name: String,
    },
    Getpid,
    Sleep {
        milliseconds: i64,
    },
    StartThread {
        actor: usize,
    },
    Join {
        actor: usize,
    },
    Fork {
        actor: usize,
    },
    Spawn {
        actor: usize,
    },
    Wait {
        actor: usize,
    },
    Kill {
        actor: usize,
        signal: Number,
    },
    Memset {
        variable: String,
        value: i64,
        bytes: i64,
    },
    Open {
        file: String,
    },
    MaxRss,
}

/// An integer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    /// A name of a C header.
    Named(&'static str, i64),
    /// How many GPUs the machine has.
    Gpus,
}

impl Number {
    /// Whether a signal is the one that ends any process.
    pub(super) fn is_sigkill(&self) -> bool {
        matches!(self, Number::Int(9) | Number::Named(_, 9))
    }
}

/// What is passed for a parameter.
#[derive(Clone, Debug)]
pub(super) enum Argument {
    Number(Number),
    /// Text, in which `${gpu0}` is filled in at run time.
    Text(String),
    Variable(String),
    Process(usize),
    /// A built-in stream or a null handle.
    Handle(i64),
    Kernel(String),
    /// `void **` of a launch.
    List(Vec<Argument>),
    /// `dim3`: x and z, y is 1.
    Dim3(i64, i64),
    /// A second word of the one before; it is no C argument.
    Rest,
    Location {
        host: bool,
        device: Number,
    },
    Struct {
        template: &'static calls::InputStruct,
        given: Number,
    },
    Block(String),
    Out(Output),
}

impl<'s> Reproducer<'s> {
    /// Of a whole scenario, or of one of its cases.
    ///
    /// # Errors
    /// Why it cannot be handed on.
    pub fn of(scenario: &'s Scenario, instance: &'s Instance, only: Option<&str>) -> Result<Reproducer<'s>, Refusal> {
        let wanted: Vec<&Case> = match only {
            Some(name) => instance.cases.iter().filter(|case| case.name == name).collect(),
            None => COMPARED.iter().filter_map(|name| instance.cases.iter().find(|case| case.name == *name)).collect(),
        };
        if wanted.is_empty() {
            let known: Vec<&str> = instance.cases.iter().map(|case| case.name.as_str()).collect();
            return Err(Refusal(format!("it has no such case; it has {}", known.join(", "))));
        }
        questions(&instance.effect)?;
        let cases = wanted.into_iter().map(Sequence::of).collect::<Result<_, _>>()?;
        Ok(Reproducer { scenario, instance, cases, stem: None })
    }

    /// The same for a file of this name, without its suffix: its text says how to compile and start it.
    pub fn in_file(self, stem: &str) -> Reproducer<'s> {
        Reproducer { stem: Some(stem.to_owned()), ..self }
    }

    /// What its file is called.
    pub(super) fn stem_or<'a>(&'a self, otherwise: &'a str) -> &'a str {
        self.stem.as_deref().unwrap_or(otherwise)
    }

    /// Whether its cases are Python lines.
    pub fn is_of_lines(&self) -> bool {
        self.cases.iter().any(|sequence| sequence.case.python.is_some())
    }

    /// How its file in C is compiled.
    pub fn compile_line(&self, file: &str, stem: &str) -> String {
        super::c::compile_line(self, file, stem)
    }

    /// Every action of every case.
    pub(super) fn actions(&self) -> impl Iterator<Item = &Action<'s>> {
        self.cases.iter().flat_map(|sequence| &sequence.steps)
    }

    /// The functions that it calls, without repeats.
    pub(super) fn calls(&self) -> Vec<&'static Call> {
        let mut all: Vec<&'static Call> = self.actions().filter_map(|action| action.call()).collect();
        all.sort_by_key(|call| (call.library, call.name));
        all.dedup_by_key(|call| call.name);
        all
    }

    /// Whether a class of memory is asked for, so that the cost of a context must be known.
    pub(super) fn measures_context(&self) -> bool {
        self.instance.effect.iter().any(|check| !check.facts.memory.is_empty())
    }
}

impl<'s> Sequence<'s> {
    fn of(case: &'s Case) -> Result<Sequence<'s>, Refusal> {
        let given = case.steps.iter().flat_map(|step| step.args.values()).map(ToString::to_string);
        if case.env.values().cloned().chain(given).any(|value| value.contains(OUR_LIBRARY)) {
            return Err(Refusal::new("it loads the injection library of this program"));
        }
        let mut sequence = Sequence {
            case,
            actors: vec!["MAIN".into()],
            steps: Vec::new(),
            variables: Vec::new(),
            blocks: Vec::new(),
        };
        for step in &case.steps {
            let action = sequence.action(step)?;
            sequence.steps.push(action);
        }
        Ok(sequence)
    }

    /// How many GPUs its mask names; none if it starts without a mask.
    pub(super) fn masked(&self) -> Option<u32> {
        match self.case.gpus {
            Gpus::All => None,
            Gpus::Masked(count) => Some(count),
        }
    }

    fn actor(&self, name: &str) -> Result<usize, Refusal> {
        let found = self.actors.iter().position(|known| known == name);
        found.ok_or_else(|| Refusal(format!("`{name}` is no thread or process of it")))
    }

    fn new_actor(&mut self, step: &Step) -> usize {
        self.actors.push(step.bind.clone().unwrap_or_default());
        self.actors.len() - 1
    }

    fn action(&mut self, step: &'s Step) -> Result<Action<'s>, Refusal> {
        if step.from.is_some() {
            return Err(Refusal::new("it calls a private copy of a library, which takes the worker"));
        }
        let actor = step.on.as_deref().map_or(Ok(MAIN), |name| self.actor(name))?;
        Ok(Action { step, actor, doing: self.doing(step)? })
    }

    fn doing(&mut self, step: &'s Step) -> Result<Doing<'s>, Refusal> {
        if step.call == LINE {
            let value = match step.args.get(cuda_pitfalls_core::python::LINE_VALUE) {
                Some(Scalar::Text(name)) => Some(name.as_str()),
                _ => None,
            };
            return Ok(Doing::Line { text: step.python_line().unwrap_or_default(), value });
        }
        let Some(call) = calls::find(&step.call) else {
            return Err(Refusal(format!("`{}` is no call of the tables", step.call)));
        };
        if call.library == CallLibrary::Harness {
            return self.own(step);
        }
        let arguments = (0..call.params.len()).map(|at| self.argument(call, at, step)).collect::<Result<_, _>>()?;
        self.bind(call, step)?;
        Ok(Doing::Call { call, arguments })
    }

    /// What our worker does itself and any program can do.
    fn own(&mut self, step: &'s Step) -> Result<Doing<'s>, Refusal> {
        let text = |name: &str| step.args.get(name).map(ToString::to_string).unwrap_or_default();
        let int = |name: &str, otherwise: i64| match step.args.get(name) {
            Some(Scalar::Int(value)) => *value,
            _ => otherwise,
        };
        Ok(match step.call.as_str() {
            "mark" => Doing::Mark,
            "environ" => Doing::Environ { name: text("name"), value: text("value") },
            "getenv" => Doing::Getenv { name: text("name") },
            "getpid" => Doing::Getpid,
            "nanosleep" => Doing::Sleep { milliseconds: int("milliseconds", 0) },
            "pthread_create" => Doing::StartThread { actor: self.new_actor(step) },
            "pthread_join" => Doing::Join { actor: self.actor(&text("actor"))? },
            "fork" => Doing::Fork { actor: self.new_actor(step) },
            "posix_spawn" => Doing::Spawn { actor: self.new_actor(step) },
            "waitpid" => Doing::Wait { actor: self.actor(&text("actor"))? },
            "kill" => Doing::Kill { actor: self.actor(&text("actor"))?, signal: signal(step)? },
            "memset" => {
                let variable = text("pointer");
                Doing::Memset { variable, value: int("value", 1), bytes: int("bytes", 0) }
            }
            "dlopen" if step.bind.is_some() => {
                return Err(Refusal::new("it opens a private copy of libcudart, which takes the worker"));
            }
            "dlopen" => Doing::Open { file: text("file") },
            "getrusage" => Doing::MaxRss,
            "atexit" | "exit" | "_exit" => {
                return Err(Refusal::new("its steps run inside exit handlers, which the worker drives"));
            }
            other => {
                return Err(Refusal(format!("it has the step `{other}`, which only the worker can make")));
            }
        })
    }

    fn argument(&self, call: &'static Call, at: usize, step: &Step) -> Result<Argument, Refusal> {
        let Some(param) = call.params.get(at) else { return Ok(Argument::Rest) };
        let given = step.args.get(param.name);
        match param.kind {
            ParamKind::Fixed(_) if param.c_type.is_empty() => return Ok(Argument::Rest),
            ParamKind::Fixed(value) => return Ok(Argument::Number(Number::Int(value as i64))),
            ParamKind::Out(output) => return Ok(Argument::Out(output)),
            ParamKind::FatBinary(_) => {
                return Err(Refusal::new("it loads a binary in a container that the worker makes"));
            }
            _ => {}
        }
        let z = || match call.params.get(at + 1) {
            Some(Param { kind: ParamKind::Fixed(z), c_type: "", .. }) => *z as i64,
            _ => 1,
        };
        let Some(given) = given else {
            return match (param.default, param.kind) {
                (Some(x), ParamKind::Dim3) => Ok(Argument::Dim3(x, z())),
                (Some(0), ParamKind::Handle(_) | ParamKind::Text | ParamKind::Arguments | ParamKind::Ptx) => {
                    Ok(Argument::Handle(0))
                }
                (Some(value), _) => Ok(Argument::Number(Number::Int(value))),
                (None, _) => Err(Refusal(format!("`{}` of {} is missing", param.name, call.name))),
            };
        };
        Ok(match (param.kind, given) {
            (ParamKind::Constant(of), Scalar::Text(name)) => {
                let known = of.values.iter().find(|(known, _)| known == name);
                match known {
                    Some((name, value)) => Argument::Number(Number::Named(name, *value)),
                    None => Argument::Number(number(given)?),
                }
            }
            (ParamKind::Handle(_), Scalar::Text(name)) => self.handle(name)?,
            (ParamKind::Pid, Scalar::Text(name)) => Argument::Process(self.actor(name)?),
            (ParamKind::Location, Scalar::Text(name)) if name == "host" => {
                Argument::Location { host: true, device: Number::Int(0) }
            }
            (ParamKind::Location, device) => Argument::Location { host: false, device: number(device)? },
            (ParamKind::Dim3, Scalar::Int(x)) => Argument::Dim3(*x, z()),
            (ParamKind::In(template), given) => Argument::Struct { template, given: number(given)? },
            (ParamKind::Block(..), Scalar::Text(name)) if self.blocks.contains(name) => Argument::Block(name.clone()),
            (ParamKind::Block(..), Scalar::Text(name)) => return Err(unbound(name)),
            (ParamKind::Text, given) => Argument::Text(given.to_string()),
            (ParamKind::Ptx, Scalar::Text(name)) if catalogue::kernel(name).is_some() => Argument::Kernel(name.clone()),
            (ParamKind::Arguments, Scalar::List(values)) => {
                let each = |value: &Scalar| match value {
                    Scalar::Text(name) if !name.contains("${") => self.handle(name),
                    other => Ok(Argument::Number(number(other)?)),
                };
                Argument::List(values.iter().map(each).collect::<Result<_, _>>()?)
            }
            (_, given) => Argument::Number(number(given)?),
        })
    }

    fn handle(&self, name: &str) -> Result<Argument, Refusal> {
        if let Some(value) = BUILT_IN_STREAMS.value(name) {
            return Ok(Argument::Handle(value));
        }
        let known = self.variables.iter().any(|variable| variable.name == name);
        known.then(|| Argument::Variable(name.to_string())).ok_or_else(|| unbound(name))
    }

    fn bind(&mut self, call: &'static Call, step: &Step) -> Result<(), Refusal> {
        let Some(name) = &step.bind else { return Ok(()) };
        for param in &call.params {
            match param.kind {
                ParamKind::Out(Output::Blob(..)) if !self.blocks.contains(name) => {
                    self.blocks.push(name.clone());
                }
                ParamKind::Out(Output::Handle(_) | Output::Word(_))
                    if !self.variables.iter().any(|variable| variable.name == *name) =>
                {
                    let c_type = plain_type(param.c_type);
                    let c_type = c_type.strip_suffix('*').unwrap_or(&c_type).trim().to_string();
                    // Of `void *` is only known that it takes an address.
                    let c_type = if c_type == "void" { "void *".to_string() } else { c_type };
                    self.variables.push(HandleVariable { name: name.clone(), c_type });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Action<'_> {
    /// The function that it calls.
    pub(super) fn call(&self) -> Option<&'static Call> {
        match &self.doing {
            Doing::Call { call, .. } => Some(call),
            _ => None,
        }
    }
}

/// A C type without what C++ alone needs.
pub(super) fn plain_type(c_type: &str) -> String {
    let words: Vec<&str> = c_type.split(' ').filter(|word| !matches!(*word, "enum" | "struct")).collect();
    words.join(" ")
}

fn unbound(name: &str) -> Refusal {
    Refusal(format!("`{name}` is bound by no step before"))
}

fn signal(step: &Step) -> Result<Number, Refusal> {
    match step.args.get("signal") {
        Some(Scalar::Text(name)) => {
            let known = SIGNALS.values.iter().find(|(known, _)| known == name);
            known
                .map(|(name, value)| Number::Named(name, *value))
                .ok_or_else(|| Refusal(format!("`{name}` is no signal")))
        }
        Some(Scalar::Int(value)) => Ok(Number::Int(*value)),
        _ => Err(Refusal::new("it sends no signal that has a number")),
    }
}

fn number(given: &Scalar) -> Result<Number, Refusal> {
    match given {
        Scalar::Int(value) => Ok(Number::Int(*value)),
        Scalar::Text(text) if text == "${gpus}" => Ok(Number::Gpus),
        Scalar::Text(text) => {
            text.parse().map(Number::Int).map_err(|_| Refusal(format!("it passes `{text}` where C wants a number")))
        }
        Scalar::List(_) => Err(Refusal::new("it passes a list where C wants a number")),
    }
}

/// A question about a case: whether the effect shows is that all of these hold.
#[derive(Debug, PartialEq)]
pub(super) enum EffectQuestion<'s> {
    Status {
        at: &'s str,
        names: &'s [String],
    },
    Value {
        at: &'s str,
        name: &'s str,
        order: &'static str,
        operand: &'s Operand,
    },
    Visible {
        at: &'s str,
        gpus: String,
    },
    Contexts {
        at: &'s str,
        gpus: String,
    },
    Current {
        at: &'s str,
        gpu: &'s str,
    },
    Initialised {
        at: &'s str,
        yes: bool,
    },
    /// The classes as the names of constants. `gpu` is none for every GPU that is not `named`.
    Memory {
        at: &'s str,
        gpu: Option<u32>,
        named: Vec<u32>,
        classes: Vec<&'static str>,
    },
    /// Of all memory, or of what the step added.
    Bytes {
        at: &'s str,
        grown: bool,
        gpu: Option<u32>,
        named: Vec<u32>,
        order: &'static str,
        bytes: i64,
    },
    /// The exit code, or the number of a signal.
    End {
        how: String,
    },
}

/// The questions of an effect, in the order of the file.
///
/// # Errors
/// What no reproducer can ask.
pub(super) fn questions(effect: &[Check]) -> Result<Vec<EffectQuestion<'_>>, Refusal> {
    let questions: Vec<_> = effect.iter().map(questions_of_check).collect::<Result<_, _>>()?;
    Ok(questions.into_iter().flatten().collect())
}

fn questions_of_check(Check { at, facts, when, .. }: &Check) -> Result<Vec<EffectQuestion<'_>>, Refusal> {
    // By name, so that a new kind of fact is either asked here or refused.
    let FactSet {
        status,
        value,
        visible,
        contexts,
        current,
        initialised,
        memory,
        used_bytes,
        grown_bytes,
        peak_bytes,
        process_bytes,
        calls,
        exit,
    } = facts;
    if !calls.is_empty() {
        return Err(Refusal::new("its effect counts driver calls, which takes a forwarding libcuda"));
    }
    if !peak_bytes.is_empty() {
        return Err(Refusal::new("its effect is a peak of memory inside a call, which takes background polling"));
    }
    if !process_bytes.is_empty() {
        return Err(Refusal::new("its effect is memory that NVML lists for the worker's processes"));
    }
    if !when.is_empty() {
        return Err(Refusal::new("its effect depends on the driver or the machine"));
    }
    let mut all = Vec::new();
    if !status.is_empty() {
        all.push(EffectQuestion::Status { at, names: status });
    }
    for (name, matcher) in value {
        all.extend(bounds(matcher).map(|(order, operand)| EffectQuestion::Value { at, name, order, operand }));
    }
    all.extend(visible.iter().map(|gpus| EffectQuestion::Visible { at, gpus: listed(gpus, false) }));
    all.extend(contexts.iter().map(|gpus| EffectQuestion::Contexts { at, gpus: listed(gpus, true) }));
    all.extend(current.iter().map(|gpu| EffectQuestion::Current { at, gpu }));
    all.extend(initialised.iter().map(|yes| EffectQuestion::Initialised { at, yes: *yes }));
    for (gpu, classes) in memory {
        let classes = classes.iter().map(|class| class.name()).collect();
        all.push(EffectQuestion::Memory { at, gpu: index(gpu), named: named(memory), classes });
    }
    for (grown, amounts) in [(false, used_bytes), (true, grown_bytes)] {
        add_bytes(&mut all, at, grown, amounts)?;
    }
    if let Some(exit) = exit {
        all.push(EffectQuestion::End { how: end(exit)? });
    }
    Ok(all)
}

fn add_bytes<'s>(
    all: &mut Vec<EffectQuestion<'s>>,
    at: &'s str,
    grown: bool,
    amounts: &BTreeMap<String, Matcher>,
) -> Result<(), Refusal> {
    for (gpu, matcher) in amounts {
        for (order, operand) in bounds(matcher) {
            let Operand::Int(bytes) = operand else {
                return Err(Refusal::new("its effect compares memory with a value of another step"));
            };
            let named = named(amounts);
            all.push(EffectQuestion::Bytes { at, grown, gpu: index(gpu), named, order, bytes: *bytes });
        }
    }
    Ok(())
}

/// As the runtimes write it.
fn end(exit: &ExitCheck) -> Result<String, Refusal> {
    Ok(match exit {
        ExitCheck::Code(code) => code.to_string(),
        ExitCheck::Deadline => "deadline".to_string(),
        ExitCheck::OneOf(_) => return Err(Refusal("its effect is one of several ends".to_string())),
        ExitCheck::Signal(name) => {
            let number = SIGNALS.value(name).ok_or_else(|| Refusal(format!("its effect is the end `{name}`")))?;
            format!("signal {number}")
        }
    })
}

fn bounds(matcher: &Matcher) -> impl Iterator<Item = (&'static str, &Operand)> {
    let Matcher { eq, ne, ge, le, gt, lt } = matcher;
    let all = [("eq", eq), ("ne", ne), ("ge", ge), ("le", le), ("gt", gt), ("lt", lt)];
    all.into_iter().filter_map(|(name, operand)| Some((name, operand.as_ref()?)))
}

/// `gpu3` is 3; `others` is none.
fn index(gpu: &str) -> Option<u32> {
    gpu.strip_prefix("gpu")?.parse().ok()
}

fn named<T>(by_gpu: &BTreeMap<String, T>) -> Vec<u32> {
    by_gpu.keys().filter_map(|gpu| index(gpu)).collect()
}

/// As the runtimes compare it: names with commas, in order if any order will do.
fn listed(gpus: &GpuList, sorted: bool) -> String {
    match gpus {
        GpuList::All => "all".to_string(),
        GpuList::None => String::new(),
        GpuList::Named(names) => {
            let mut names = names.clone();
            if sorted {
                names.sort_by_key(|name| index(name));
            }
            names.join(",")
        }
    }
}

/// What the header of a file says of a hazard.
pub(super) fn warning(hazard: Hazard) -> &'static str {
    match hazard {
        Hazard::Fault => "it causes a GPU fault, which the kernel logs as an Xid",
        Hazard::Oversubscribe => "it allocates more managed memory than the GPU has",
        Hazard::Bigmem => "it takes most of a GPU's memory",
        Hazard::Root => "it needs root",
        Hazard::Settings => "it changes a setting of the machine",
        Hazard::Mps => "it starts an MPS daemon",
        Hazard::Code => "it runs lines of Python that did not come with cuda-pitfalls",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The effect of a scenario that can be handed on, with one more fact.
    fn refusal(change: impl Fn(&mut FactSet)) -> Option<String> {
        let scenarios = catalogue::select(&["context/set-device-is-eager".to_owned()]).unwrap();
        let scenario = scenarios.first().unwrap();
        let mut instance = scenario.instances.first().unwrap().clone();
        instance.effect.iter_mut().for_each(|check| change(&mut check.facts));
        Reproducer::of(scenario, &instance, None).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn what_only_this_program_can_see_is_refused_and_never_left_out() {
        let amount = || BTreeMap::from([("gpu0".to_owned(), Matcher::default())]);
        assert_eq!(refusal(|_| {}), None);
        let words = refusal(|facts| facts.peak_bytes = amount()).expect("a peak cannot be seen from a file");
        assert!(words.contains("background polling"), "{words}");
        let words = refusal(|facts| facts.process_bytes = amount()).expect("nor what NVML lists");
        assert!(words.contains("worker's processes"), "{words}");
        let words = refusal(|facts| facts.calls = amount()).expect("nor calls");
        assert!(words.contains("forwarding libcuda"), "{words}");
    }
}
