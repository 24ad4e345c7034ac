//! `survey calls`: what each call does as the first of a process.
//!
//! The call is made, then the mask is set to nothing, then `cuInit` and a count ask what the driver
//! still sees. A driver that had read its mask by then shows its GPUs, another one shows none: one
//! visible GPU is enough to tell, and a start of the driver is the price of an attempt.

mod recipe;
#[cfg(test)]
mod tests;

pub use recipe::{Recipe, Recipes, recipes};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Kind;
use super::document::Row;
use super::question::Item;
use super::row::{Standing, keyed};
use crate::catalogue::Invalid;
use crate::observe::{Observation, Scene, observe};
use crate::plan::Plan;
use crate::report::ScenarioReport;
use crate::scenario::Class;
use crate::step::Library;

/// Labels of the steps that follow the call.
const INIT: &str = "init-after";
const COUNT: &str = "count-after";
/// What `cuInit` returns if the mask that it reads shows no GPU.
const NO_DEVICE: i64 = 100;

/// One call on one libcudart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallRow {
    /// The exact C symbol, or the recipe's name where a call is asked in several ways.
    pub call: String,
    /// The library that has it.
    pub library: String,
    /// The version of libcudart, such as `13.0`; null for calls of other libraries.
    pub libcudart_version: Option<String>,
    /// How many GPUs the process could see.
    pub visible_gpus: u32,
    /// Whether a mask that is set right after the call has no effect any more.
    pub freezes_visibility: Option<bool>,
    /// CUDA ordinals of the GPUs on which there is a context after the call.
    pub context_on: Option<Vec<u32>>,
    /// Bytes by which NVML's `used` had grown after the call, GPU by GPU in NVML order; of attempts
    /// that differ within the noise, the median.
    pub device_used_bytes: Option<Vec<i64>>,
    /// What the call returned, by its C name.
    pub status: Option<String>,
    /// How long the call took; the median.
    pub elapsed_ns: Option<u64>,
    /// How the attempts went.
    #[serde(flatten)]
    pub standing: Standing,
    /// What each attempt that counts showed, in the order they were made.
    pub seen: Vec<CallSeen>,
}

/// What one attempt showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallSeen {
    /// As in the row.
    pub freezes_visibility: Option<bool>,
    /// As in the row.
    pub context_on: Vec<u32>,
    /// As in the row; null where NVML could not be read.
    pub device_used_bytes: Vec<Option<i64>>,
    /// As in the row.
    pub status: Option<String>,
    /// As in the row.
    pub elapsed_ns: u64,
}

impl Row for CallRow {
    const KIND: Kind = Kind::Calls;

    fn key(&self) -> String {
        keyed(&self.call, self.libcudart_version.as_deref())
    }

    fn standing(&self) -> &Standing {
        &self.standing
    }

    fn has_facts(&self) -> bool {
        self.freezes_visibility.is_some() && self.context_on.is_some()
    }
}

/// The questions, one for each recipe; a worker sees so many GPUs.
///
/// # Errors
/// What is wrong with a recipe.
pub fn items(visible_gpus: u32) -> Result<Vec<Item<CallRow>>, Invalid> {
    let item = |recipe: Recipe| -> Result<Item<CallRow>, Invalid> {
        let question = recipe.question()?;
        Ok(Item {
            question,
            repeat: None,
            reduce: Box::new(move |answered| row(&recipe, answered.report, answered.scene)),
        })
    };
    recipes(visible_gpus)?.calls.into_iter().map(item).collect()
}

/// Reduces what was asked with a recipe to its row.
fn row(recipe: &Recipe, done: &ScenarioReport, scene: &Scene) -> CallRow {
    let seen = seen(recipe, done, scene);
    let runtime = done.libcudart.as_ref().filter(|_| recipe.origin == Library::Runtime);
    let mut standing = Standing::of(done);
    let noise = scene.calibration.iter().map(|gpu| gpu.epsilon_bytes).max();
    let noise = noise.unwrap_or(crate::observe::FALLBACK_EPSILON_BYTES) as i64;
    CallRow {
        call: recipe.name.clone(),
        library: recipe.origin.name().to_string(),
        libcudart_version: runtime.and_then(|runtime| runtime.version.clone()),
        visible_gpus: recipe.visible_gpus,
        freezes_visibility: standing
            .agreed("freezes_visibility", seen.iter().map(|seen| seen.freezes_visibility))
            .flatten(),
        context_on: standing.agreed("context_on", seen.iter().map(|seen| seen.context_on.clone())),
        device_used_bytes: used(&seen, scene.gpus.len(), noise, &mut standing),
        status: standing.agreed("status", seen.iter().map(|seen| seen.status.clone())).flatten(),
        elapsed_ns: median(seen.iter().map(|seen| seen.elapsed_ns).collect()),
        standing,
        seen,
    }
}

fn seen(recipe: &Recipe, done: &ScenarioReport, scene: &Scene) -> Vec<CallSeen> {
    let (Some(plan), Some(case)) = (&done.plan, done.cases.first()) else { return Vec::new() };
    let Some(planned) = plan.case(&case.name) else { return Vec::new() };
    let counting = case.attempts.iter().filter(|attempt| attempt.invalid.is_empty());
    counting.filter_map(|attempt| of(recipe, plan, &observe(plan, planned, attempt, scene), scene)).collect()
}

fn of(recipe: &Recipe, plan: &Plan, shown: &Observation, scene: &Scene) -> Option<CallSeen> {
    let call = shown.step(&recipe.label)?;
    let code = |label: &str| shown.step(label)?.status.as_ref().map(|status| status.code);
    let freezes_visibility = match (code(INIT), code(COUNT)) {
        (Some(NO_DEVICE), _) => Some(false),
        (Some(0), Some(0)) => Some(true),
        _ => None,
    };
    let memory = |uuid: &str| plan.gpu_name(uuid).and_then(|name| call.memory.get(&name));
    let masked = plan.gpus.iter().take(plan.used_gpus).enumerate();
    let has_context = |uuid: &String| {
        let name = plan.gpu_name(uuid);
        let active = call.contexts.as_ref().is_some_and(|list| name.as_ref().is_some_and(|name| list.contains(name)));
        // A context that is neither primary nor current is known by its memory alone. One that is
        // current and takes none is no more than a handle: libcudart 11's cudaSetDevice makes the
        // primary context current and leaves it inactive.
        match memory(uuid).and_then(|it| it.class) {
            Some(class) => active || matches!(class, Class::Context | Class::Allocation),
            None => active || name.is_some() && call.current == name,
        }
    };
    let context_on = masked.filter(|(_, uuid)| has_context(uuid));
    Some(CallSeen {
        freezes_visibility,
        context_on: context_on.filter_map(|(ordinal, _)| u32::try_from(ordinal).ok()).collect(),
        device_used_bytes: scene.gpus.iter().map(|gpu| memory(&gpu.uuid).and_then(|it| it.used_bytes)).collect(),
        status: call.status.as_ref().map(|status| status.name.clone().unwrap_or_else(|| status.code.to_string())),
        elapsed_ns: call.elapsed_ns,
    })
}

/// The median of each GPU, unless attempts differ by more than noise.
fn used(seen: &[CallSeen], gpus: usize, noise: i64, standing: &mut Standing) -> Option<Vec<i64>> {
    let mut medians = Vec::new();
    for gpu in 0..gpus {
        let read = seen.iter().map(|seen| seen.device_used_bytes.get(gpu).copied().flatten());
        let read: Vec<i64> = read.collect::<Option<_>>()?;
        let (least, most) = (read.iter().min()?, read.iter().max()?);
        if most.saturating_sub(*least) > noise {
            standing.disagreement.push("device_used_bytes".to_string());
            return None;
        }
        medians.push(median(read)?);
    }
    Some(medians)
}

/// The middle one; of two, the smaller.
fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied()
}
