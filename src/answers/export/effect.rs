//! The checks of a case: the facts of a scenario's effect that a program can check, and the texts about them.

use std::collections::BTreeMap;

use cuda_pitfalls_calls::{self as calls, CallLibrary};

use super::error::ExportError;
use cuda_pitfalls_core::fact::FactSet;
use cuda_pitfalls_core::observation::Class;
use cuda_pitfalls_core::scenario::{Check, GpuList, Matcher, Operand};

/// The status of a Python line that raises no exception.
pub(super) const RAISES_NOTHING: &str = "OK";

/// A check of a case. The effect occurred if all checks pass.
#[derive(Debug, PartialEq)]
pub(super) enum EffectQuestion<'s> {
    Status {
        at: &'s str,
        names: &'s [String],
    },
    Value {
        at: &'s str,
        name: &'s str,
        sign: &'static str,
        word: &'static str,
        operand: &'s Operand,
    },
    Visible {
        at: &'s str,
        gpus: GpuSet,
    },
    Contexts {
        at: &'s str,
        gpus: GpuSet,
    },
    Current {
        at: &'s str,
        gpu: Option<u32>,
    },
    Initialised {
        at: &'s str,
        yes: bool,
    },
    /// Growth of memory in use between these bounds, since the start or by the step itself.
    Memory {
        at: &'s str,
        since: Since,
        gpus: GpuSet,
        least: GrowthBound,
        most: GrowthBound,
        says: String,
    },
}

pub(super) type Questions<'a> = &'a [&'a EffectQuestion<'a>];

/// GPUs by their NVML indices.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum GpuSet {
    All,
    These(Vec<u32>),
    /// Every GPU except these.
    Others(Vec<u32>),
}

/// Start of the period that growth is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    Start,
    Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrowthBound {
    Any,
    These(i64),
    /// Variation that a driver may cause on its own.
    Noise,
    BelowNoise,
    AboveNoise,
    /// Minimum growth that counts as a context; less is only `cuInit`.
    Context,
    /// Any growth below that.
    BelowContext,
    /// Minimum growth for a context and an allocation, based on the cost of a context on this machine.
    Allocation,
}

/// Expected growth of the memory of one GPU.
#[derive(Debug, PartialEq)]
pub(super) struct Growth {
    pub(super) gpu: u32,
    pub(super) since: Since,
    pub(super) least: GrowthBound,
    pub(super) most: GrowthBound,
}

impl EffectQuestion<'_> {
    pub(super) fn step(&self) -> &str {
        match self {
            EffectQuestion::Status { at, .. }
            | EffectQuestion::Value { at, .. }
            | EffectQuestion::Visible { at, .. }
            | EffectQuestion::Contexts { at, .. }
            | EffectQuestion::Current { at, .. }
            | EffectQuestion::Initialised { at, .. }
            | EffectQuestion::Memory { at, .. } => at,
        }
    }

    /// Returns `true` if there is something to check when the memory of this many GPUs is read.
    pub(super) fn is_asked(&self, gpus: u32) -> bool {
        !matches!(
            self,
            EffectQuestion::Contexts { .. } | EffectQuestion::Memory { .. }
        ) || !self.memory_growth(gpus).is_empty()
    }

    /// Returns the expected memory growth of each GPU, if the memory of `count` GPUs is read.
    pub(super) fn memory_growth(&self, count: u32) -> Vec<Growth> {
        let (since, gpus, on_these, on_others) = match self {
            EffectQuestion::Memory {
                since,
                gpus,
                least,
                most,
                ..
            } => (*since, gpus, (*least, *most), None),
            EffectQuestion::Contexts { gpus, .. } => {
                let without = Some((GrowthBound::Any, GrowthBound::BelowContext));
                (
                    Since::Start,
                    gpus,
                    (GrowthBound::Context, GrowthBound::Any),
                    without,
                )
            }
            _ => return Vec::new(),
        };
        let (these, others): (Vec<u32>, Vec<u32>) = (0..count).partition(|gpu| gpus.has(*gpu));
        let these = these.into_iter().map(|gpu| (gpu, on_these));
        let all = these.chain(
            on_others
                .into_iter()
                .flat_map(|bounds| others.iter().map(move |gpu| (*gpu, bounds))),
        );
        all.map(|(gpu, (least, most))| Growth {
            gpu,
            since,
            least,
            most,
        })
        .collect()
    }

    pub(super) fn words(&self) -> String {
        match self {
            EffectQuestion::Status { at, names } => {
                let names: Vec<String> = names.iter().map(|name| status_words(name)).collect();
                format!("{at} {}", names.join(" or "))
            }
            EffectQuestion::Value {
                at,
                name,
                word,
                operand,
                ..
            } => format!("in step {at}, {name} is {word}{}", operand_words(operand)),
            EffectQuestion::Visible { at, gpus } => {
                format!("after {at}, CUDA shows {}", gpus.words())
            }
            EffectQuestion::Contexts { at, gpus } => {
                format!("after {at}, there is a context on {}", gpus.words())
            }
            EffectQuestion::Current { at, gpu: Some(gpu) } => {
                format!("after {at}, the current context is on GPU {gpu}")
            }
            EffectQuestion::Current { at, gpu: None } => {
                format!("after {at}, no context is current")
            }
            EffectQuestion::Initialised { at, yes } => {
                let not = if *yes { "" } else { "not " };
                format!("after {at}, the driver is {not}initialized")
            }
            EffectQuestion::Memory {
                at,
                since,
                gpus,
                says,
                ..
            } => {
                let names = gpus.words();
                let since = match since {
                    Since::Start => "",
                    Since::Step => " by this step",
                };
                format!("after {at}, memory of {names} has grown{since} by {says}")
            }
        }
    }
}

fn operand_words(operand: &Operand) -> String {
    match operand {
        Operand::Int(value) => value.to_string(),
        Operand::Text(text) if text == "${gpus}" => "the number of GPUs".to_string(),
        Operand::Text(text) => match gpu_named(text) {
            Some(gpu) => format!("the UUID of GPU {gpu}"),
            None => format!("'{text}'"),
        },
        Operand::Value { label, name } => format!("the {name} of step {label}"),
    }
}

impl GpuSet {
    fn new(list: &GpuList) -> GpuSet {
        match list {
            GpuList::All => GpuSet::All,
            GpuList::None => GpuSet::These(Vec::new()),
            GpuList::Named(names) => {
                GpuSet::These(names.iter().filter_map(|name| index(name)).collect())
            }
        }
    }

    fn has(&self, gpu: u32) -> bool {
        match self {
            GpuSet::All => true,
            GpuSet::These(gpus) => gpus.contains(&gpu),
            GpuSet::Others(gpus) => !gpus.contains(&gpu),
        }
    }

    pub(super) fn named(&self) -> &[u32] {
        match self {
            GpuSet::All => &[],
            GpuSet::These(gpus) | GpuSet::Others(gpus) => gpus,
        }
    }

    fn words(&self) -> String {
        let (GpuSet::These(named) | GpuSet::Others(named)) = self else {
            return "every GPU".to_string();
        };
        let names = named
            .iter()
            .map(|gpu| format!("GPU {gpu}"))
            .collect::<Vec<_>>()
            .join(" and ");
        match (self, named.is_empty()) {
            (GpuSet::These(_), true) => "no GPU".to_string(),
            (GpuSet::These(_), false) => names,
            (_, true) => "every GPU".to_string(),
            (_, false) => format!("every GPU but {names}"),
        }
    }
}

/// Returns the GPU whose UUID a text stands for: `${gpu0}`.
pub(super) fn gpu_named(text: &str) -> Option<u32> {
    text.strip_prefix("${gpu")?.strip_suffix('}')?.parse().ok()
}

pub(super) fn status(name: &str) -> Option<(CallLibrary, u32)> {
    CallLibrary::ALL.into_iter().find_map(|library| {
        let known = calls::status::table(library)
            .iter()
            .find(|(_, known)| known.to_str() == Ok(name));
        known.map(|(code, _)| (library, *code))
    })
}

/// Returns the checks of an effect, in the order of the file.
///
/// # Errors
/// Returns an error if a reproducer cannot make one of the checks.
pub(super) fn questions(effect: &[Check]) -> Result<Vec<EffectQuestion<'_>>, ExportError> {
    let mut all = Vec::new();
    for check in effect {
        add_questions(&mut all, check)?;
    }
    Ok(all)
}

fn add_questions<'s>(
    all: &mut Vec<EffectQuestion<'s>>,
    check: &'s Check,
) -> Result<(), ExportError> {
    let Check { at, facts, .. } = check;
    refuse_unseen(check)?;
    if !facts.status.is_empty() {
        all.push(EffectQuestion::Status {
            at,
            names: &facts.status,
        });
    }
    add_values(all, at, &facts.value)?;
    if let Some(gpus) = &facts.visible {
        let gpus = GpuSet::new(gpus);
        all.push(EffectQuestion::Visible { at, gpus });
    }
    if let Some(gpu) = &facts.current {
        let gpu = index(gpu);
        all.push(EffectQuestion::Current { at, gpu });
    }
    if let Some(yes) = facts.initialised {
        all.push(EffectQuestion::Initialised { at, yes });
    }
    if let Some(gpus) = &facts.contexts {
        let gpus = GpuSet::new(gpus);
        all.push(EffectQuestion::Contexts { at, gpus });
    }
    add_classes(all, at, facts)?;
    add_growth(all, at, Since::Start, &facts.used_bytes)?;
    add_growth(all, at, Since::Step, &facts.grown_bytes)
}

/// Returns an error if a self-contained program cannot observe the facts.
fn refuse_unseen(check: &Check) -> Result<(), ExportError> {
    // Every field is listed by name, so that a new kind of fact is either checked or rejected here.
    let FactSet {
        status: _,
        value: _,
        visible: _,
        contexts: _,
        current: _,
        initialised: _,
        memory: _,
        used_bytes: _,
        grown_bytes: _,
        peak_bytes,
        process_bytes,
        calls,
        exit,
    } = &check.facts;
    let why = if !calls.is_empty() {
        "its effect counts driver calls, which requires a forwarding libcuda"
    } else if !peak_bytes.is_empty() {
        "its effect is a memory peak during a call, which only background polling measures"
    } else if !process_bytes.is_empty() {
        "its effect is memory that NVML lists for the worker's processes"
    } else if !check.when.is_empty() {
        "its effect depends on the driver or the machine"
    } else if exit.is_some() {
        "its effect is how the process ends, which can only be observed from outside"
    } else {
        return Ok(());
    };
    Err(ExportError::new(why))
}

fn add_values<'s>(
    all: &mut Vec<EffectQuestion<'s>>,
    at: &'s str,
    values: &'s BTreeMap<String, Matcher>,
) -> Result<(), ExportError> {
    for (name, matcher) in values {
        for (bound, operand) in matcher.bounds() {
            if let Operand::Text(text) = operand {
                if text.contains("${") && text != "${gpus}" && gpu_named(text).is_none() {
                    let why =
                        "its effect compares a value with part of a UUID or another form of it";
                    return Err(ExportError::new(why));
                }
                if index(text).is_some() {
                    return Err(ExportError::new(
                        "its effect refers to a GPU by its PCI address",
                    ));
                }
            }
            all.push(EffectQuestion::Value {
                at,
                name,
                sign: bound.sign,
                word: bound.word,
                operand,
            });
        }
    }
    Ok(())
}

/// Adds the questions about the class of memory of each GPU.
fn add_classes<'s>(
    all: &mut Vec<EffectQuestion<'s>>,
    at: &'s str,
    facts: &FactSet,
) -> Result<(), ExportError> {
    for (gpu, classes) in &facts.memory {
        let gpus = gpu_set(gpu, &facts.memory);
        // The existence of a context implies it.
        let is_told = matches!((&gpus, &facts.contexts), (GpuSet::These(one), Some(GpuList::Named(names)))
            if one.iter().all(|gpu| names.iter().any(|name| index(name) == Some(*gpu))));
        if is_told && classes.as_slice() == [Class::Context] {
            continue;
        }
        let (least, most, says) = class_bounds(classes)?;
        all.push(EffectQuestion::Memory {
            at,
            since: Since::Start,
            gpus,
            least,
            most,
            says,
        });
    }
    Ok(())
}

/// Adds the questions about the growth of memory in bytes.
fn add_growth<'s>(
    all: &mut Vec<EffectQuestion<'s>>,
    at: &'s str,
    since: Since,
    amounts: &BTreeMap<String, Matcher>,
) -> Result<(), ExportError> {
    for (gpu, matcher) in amounts {
        for (bound, operand) in matcher.bounds() {
            let Operand::Int(bytes) = operand else {
                let why = "its effect compares memory with a value of another step";
                return Err(ExportError::new(why));
            };
            let (least, most) = match bound.sign {
                "==" => (GrowthBound::These(*bytes), GrowthBound::These(*bytes)),
                ">=" => (GrowthBound::These(*bytes), GrowthBound::Any),
                ">" => (GrowthBound::These(*bytes + 1), GrowthBound::Any),
                "<=" => (GrowthBound::Any, GrowthBound::These(*bytes)),
                "<" => (GrowthBound::Any, GrowthBound::These(*bytes - 1)),
                _ => {
                    let why = "its effect is that memory has not grown by that much";
                    return Err(ExportError::new(why));
                }
            };
            all.push(EffectQuestion::Memory {
                at,
                since,
                gpus: gpu_set(gpu, amounts),
                least,
                most,
                says: format!("{}{bytes} bytes", bound.word),
            });
        }
    }
    Ok(())
}

/// Returns the bounds of memory growth for these classes.
fn class_bounds(classes: &[Class]) -> Result<(GrowthBound, GrowthBound, String), ExportError> {
    let order = [Class::None, Class::Init, Class::Context, Class::Allocation];
    let has = order.map(|class| classes.contains(&class));
    let first = has.iter().position(|held| *held).unwrap_or(0);
    let last = has.iter().rposition(|held| *held).unwrap_or(0);
    if has.iter().take(last).skip(first).any(|held| !held) {
        return Err(ExportError::new(
            "its effect accepts two memory classes but not a class between them",
        ));
    }
    let least = [
        GrowthBound::BelowNoise,
        GrowthBound::AboveNoise,
        GrowthBound::Context,
        GrowthBound::Allocation,
    ];
    // The cost of a context is measured only if the effect distinguishes an allocation from a context.
    let most = [
        GrowthBound::Noise,
        GrowthBound::BelowContext,
        GrowthBound::Any,
        GrowthBound::Any,
    ];
    let words = [
        "nothing",
        "the memory of cuInit",
        "a context",
        "a context and an allocation",
    ];
    let says: Vec<&str> = words
        .into_iter()
        .zip(has)
        .filter_map(|(word, has)| has.then_some(word))
        .collect();
    Ok((least[first], most[last], says.join(" or ")))
}

fn gpu_set<T>(gpu: &str, amounts: &BTreeMap<String, T>) -> GpuSet {
    match index(gpu) {
        Some(gpu) => GpuSet::These(vec![gpu]),
        None => GpuSet::Others(amounts.keys().filter_map(|gpu| index(gpu)).collect()),
    }
}

/// Returns the index of a GPU: 3 for `gpu3`. `others` and `none` do not have an index.
fn index(gpu: &str) -> Option<u32> {
    gpu.strip_prefix("gpu")?.parse().ok()
}

fn status_words(name: &str) -> String {
    match (name, status(name)) {
        (RAISES_NOTHING, _) => "raises nothing".to_string(),
        (name, Some((_, code))) => format!("returns {code} ({name})"),
        (name, None) => format!("raises {name}"),
    }
}

/// Returns the number of GPUs whose memory is read: those that a check names or a case needs; 0 if no check is about
/// memory.
pub(super) fn gpus_read(questions: &[EffectQuestion<'_>], needed: u32) -> u32 {
    let about = questions.iter().filter_map(|question| match question {
        EffectQuestion::Contexts { gpus, .. } | EffectQuestion::Memory { gpus, .. } => Some(gpus),
        _ => None,
    });
    let named = about
        .map(|gpus| gpus.named().iter().map(|gpu| gpu + 1).max().unwrap_or(1))
        .max();
    named.map_or(0, |named| named.max(needed))
}
