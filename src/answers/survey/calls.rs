//! `survey calls`: the effects of each call as the first call of a process.
//!
//! After the call, the mask is set to an empty string; then `cuInit` and a device count show which GPUs the driver
//! sees. If the driver had already read the mask, the count shows its GPUs, otherwise none. One visible GPU is enough
//! for this, and starting the driver accounts for most of the cost of an attempt.

mod answer;
#[cfg(test)]
pub(crate) mod fixture;
mod recipe;
mod showed;
#[cfg(test)]
mod tests;

pub use answer::CallAnswer;
pub use recipe::{Recipe, Recipes, load_recipes};

use std::cmp::Reverse;
use std::collections::BTreeMap;

use cuda_pitfalls_calls::CallLibrary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::question::{SurveyAnswer, SurveyQuestions, SurveyRequest};
use super::row::{KindRow, RowAttempts};
use super::{SurveyKind, median};
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::observe::FALLBACK_EPSILON_BYTES;
use cuda_pitfalls_core::text::versions::number;

/// Labels of the steps after the call.
const INIT: &str = "init-after";
const COUNT: &str = "count-after";
/// The status of `cuInit` if the mask shows no GPU.
const NO_DEVICE: i64 = 100;

/// Results of a call on one libcudart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallRow {
    /// C symbol, or the recipe's name if a call has several recipes.
    pub call: String,
    /// The library of the call.
    pub library: String,
    /// Version of libcudart, such as `13.0`; null for calls of other libraries.
    pub libcudart_version: Option<String>,
    /// The calls before it, by their C symbols, which make the handles or memory that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Number of GPUs visible to the process.
    pub visible_gpus: u32,
    /// `true` if a mask that is set right after the call has no effect; null if an earlier call had initialized the
    /// driver.
    pub reads_mask: Option<bool>,
    /// CUDA ordinals of the GPUs that have a context after the call.
    pub context_on: Option<Vec<u32>>,
    /// Growth of NVML's `used`, in bytes, for each GPU in NVML order. If attempts differ within the noise, the median.
    pub device_used_bytes: Option<Vec<i64>>,
    /// Status that the call returned, by its C name; null if it returns text.
    pub status: Option<String>,
    /// Median duration of the call, in nanoseconds.
    pub elapsed_ns: Option<u64>,
    /// Number of attempts that count, and the reasons why the others do not.
    #[serde(flatten)]
    pub standing: RowAttempts,
    /// Observations of each attempt that counts, in the order of the attempts.
    pub seen: Vec<CallSeen>,
}

/// Observations of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallSeen {
    /// Same as in the row.
    pub reads_mask: Option<bool>,
    /// `true` if an earlier call had initialized the driver; null if there was no earlier call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialised_before: Option<bool>,
    /// Same as in the row.
    pub context_on: Vec<u32>,
    /// Same as in the row; null if NVML could not be read.
    pub device_used_bytes: Vec<Option<i64>>,
    /// Same as in the row.
    pub status: Option<String>,
    /// Same as in the row.
    pub elapsed_ns: u64,
}

/// Returns the questions of the survey.
pub(super) fn questions(request: &SurveyRequest<'_>) -> Result<SurveyQuestions, Invalid> {
    let recipes = load_recipes(request.visible_gpus)?;
    let left_out = recipes.not_asked((request.exported)());
    Ok(SurveyQuestions::Listed(
        recipes.calls.into_iter().map(Recipe::into_item).collect(),
        left_out,
    ))
}

impl KindRow for CallRow {
    const KIND: SurveyKind = SurveyKind::Calls;

    fn question(&self) -> (String, Option<String>) {
        (self.call.clone(), self.libcudart_version.clone())
    }

    fn standing(&self) -> &RowAttempts {
        &self.standing
    }

    fn derived_facts(&self, _: &Machine) -> Vec<(&'static str, Value)> {
        let mut used = self.device_used_bytes.clone();
        // Start with the GPU that uses most memory: the harness chooses which of several equal GPUs a worker gets.
        used.iter_mut()
            .for_each(|used| used.sort_unstable_by_key(|bytes| Reverse(*bytes)));
        let of_visible = used.as_ref().map(|used| {
            used.iter()
                .take(self.visible_gpus as usize)
                .collect::<Vec<_>>()
        });
        vec![
            ("makes_context", json!(self.makes_context())),
            ("memory_of_visible", json!(of_visible)),
            ("memory", json!(used)),
        ]
    }

    fn asked_as(&self) -> String {
        format!(
            "{} visible, after {}",
            self.visible_gpus,
            self.before.join(" ")
        )
    }

    fn has_facts(&self) -> bool {
        (self.reads_mask.is_some() || self.is_initialised_before()) && self.context_on.is_some()
    }
}

/// Returns one row per call and libcudart. Measured rows take precedence, then those of workers that saw more GPUs,
/// then later ones.
pub fn latest_rows<'a>(rows: impl Iterator<Item = &'a CallRow>) -> Vec<&'a CallRow> {
    best_by(rows, |row| row.libcudart_version.as_deref(), |_| ())
}

/// Returns one row per call: among the rows that [`latest_rows`] would choose, the one on the newest libcudart. Only
/// the worker that saw most GPUs shows which of them had a context.
pub fn newest_rows<'a>(rows: &[&'a CallRow]) -> Vec<&'a CallRow> {
    best_by(
        rows.iter().copied(),
        |_| None,
        |row| row.libcudart_version.as_deref().map(number),
    )
}

fn best_by<'a, T: PartialOrd>(
    rows: impl Iterator<Item = &'a CallRow>,
    version: impl Fn(&'a CallRow) -> Option<&'a str>,
    rank: impl Fn(&CallRow) -> T,
) -> Vec<&'a CallRow> {
    let rank = |row: &CallRow| {
        (
            row.standing.unmeasured.is_none(),
            row.visible_gpus,
            rank(row),
        )
    };
    let mut best: BTreeMap<(&str, &str, Option<&str>), &CallRow> = BTreeMap::new();
    for row in rows {
        let known = best
            .entry((&row.library, &row.call, version(row)))
            .or_insert(row);
        if rank(known) <= rank(row) {
            *known = row;
        }
    }
    best.into_values().collect()
}

impl CallRow {
    /// Returns `true` if the call creates a context; `None` if that is unknown.
    pub fn makes_context(&self) -> Option<bool> {
        self.context_on.as_ref().map(|on| !on.is_empty())
    }

    fn with(mut self, answered: &SurveyAnswer<'_>) -> CallRow {
        self.standing = RowAttempts::from_report(answered.report);
        self.seen = showed::observe_attempts(&self, answered).unwrap_or_else(|unmeasured| {
            self.standing.unmeasured = Some(unmeasured);
            Vec::new()
        });
        if self.library == CallLibrary::Runtime.name() {
            self.libcudart_version = answered.libcudart_version();
        }
        let (seen, standing) = (&self.seen, &mut self.standing);
        let noise = answered
            .scene
            .calibration
            .iter()
            .map(|gpu| gpu.epsilon_bytes)
            .max();
        let noise = noise.unwrap_or(FALLBACK_EPSILON_BYTES) as i64;
        self.reads_mask = standing
            .agreed("reads_mask", seen.iter().map(|seen| seen.reads_mask))
            .flatten();
        self.context_on = standing.agreed(
            "context_on",
            seen.iter().map(|seen| seen.context_on.clone()),
        );
        self.device_used_bytes = used(seen, answered.scene.gpus.len(), noise, standing);
        self.status = standing
            .agreed("status", seen.iter().map(|seen| seen.status.clone()))
            .flatten();
        self.elapsed_ns = median(seen.iter().map(|seen| seen.elapsed_ns).collect());
        self
    }
}

/// Returns the median of each GPU in bytes, unless attempts differ by more than noise.
fn used(
    seen: &[CallSeen],
    gpus: usize,
    noise: i64,
    standing: &mut RowAttempts,
) -> Option<Vec<i64>> {
    let mut medians = Vec::new();
    for gpu in 0..gpus {
        let read = seen
            .iter()
            .map(|seen| seen.device_used_bytes.get(gpu).copied().flatten());
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
