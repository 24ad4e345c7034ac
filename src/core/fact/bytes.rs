//! Amounts of device memory in bytes, by GPU: `used_bytes`, `grown_bytes`, `peak_bytes` and
//! `process_bytes`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::gpus::{by_gpu, by_gpu_schema};
use super::matcher::{self, Datum, OperandKind};
use super::memory::unobservable;
use super::{FactColumn, FactKind, GpuNames, Look, Matcher, Operand, Sight, Truth, words};
use crate::observation::{Hidden, MOST_INIT_BYTES, MemoryObservation};
use crate::source::schema::{BYTES, or_parameter, reference};
use crate::text::units;
use crate::verdict::Reason;

/// Makes the [`FactKind`] of an [`Amount`].
macro_rules! kind {
    ($key:ident, $amount:ident) => {
        FactKind {
            key: stringify!($key),
            read: |facts, file, node| {
                facts.$key = by_gpu(file, node, |file, node| {
                    Matcher::read(file, node, OperandKind::Bytes)
                });
            },
            schema: || by_gpu_schema(reference("bytes_matcher"), $amount.description),
            matchers: |facts| facts.$key.values_mut().collect(),
            sentences: |facts| $amount.sentences(&facts.$key),
            held: |facts, look, gpus| $amount.held(stringify!($key), &facts.$key, look, gpus),
            needs_polling: $amount.needs_polling,
            told: FactColumn::WithMemory,
            seen: |look, gpu| $amount.seen(look, gpu),
        }
    };
}

pub(super) const USED_BYTES: FactKind = kind!(used_bytes, USED);
pub(super) const GROWN_BYTES: FactKind = kind!(grown_bytes, GROWN);
pub(super) const PEAK_BYTES: FactKind = kind!(peak_bytes, PEAK);
pub(super) const PROCESS_BYTES: FactKind = kind!(process_bytes, PROCESS);

/// A kind of amount of device memory, by GPU.
struct Amount {
    description: &'static str,
    /// The words before the name of the GPU in a sentence.
    words: &'static str,
    needs_polling: bool,
    /// The amount on a GPU, in bytes; `None` if it could not be read.
    bytes: fn(&Look<'_>, &str) -> Option<i128>,
    /// The answer if the amount could not be read.
    unread: fn(&str) -> Truth,
    /// The reason why other processes on the GPU may hide a part of the amount.
    hidden: fn(&Look<'_>, &str) -> Option<Hidden>,
    /// `true` if the amount is a sum of all processes on the GPU.
    is_sum: bool,
    written: fn(i64) -> String,
}

const USED: Amount = Amount {
    description: "The change in device memory since the baseline.",
    words: "memory in use on",
    needs_polling: false,
    bytes: |look, gpu| used(look.step.memory.get(gpu)?),
    unread: |subject| Truth::Unknown(format!("{subject} could not be observed")),
    hidden: |look, gpu| look.step.memory.get(gpu)?.hidden,
    is_sum: true,
    written: units::format_delta,
};

const GROWN: Amount = Amount {
    description: "The change in device memory since the step before.",
    words: "the growth of memory on",
    bytes: |look, gpu| Some((USED.bytes)(look, gpu)? - start(look, gpu)?),
    // The footprint is allocated when the driver is initialized, so nothing that a later step allocates is hidden.
    hidden: |look, gpu| {
        let was_initialised = look
            .before()
            .is_some_and(|before| before.initialised == Some(true));
        (USED.hidden)(look, gpu).filter(|hidden| !(was_initialised && *hidden == Hidden::Prepaid))
    },
    ..USED
};

const PEAK: Amount = Amount {
    description: "The largest change seen since the step before.",
    words: "the peak of memory on",
    needs_polling: true,
    // Without a separate peak, the larger reading of the two ends was the largest.
    bytes: |look, gpu| {
        let memory = look.step.memory.get(gpu)?;
        memory
            .peak_bytes
            .map(i128::from)
            .or_else(|| Some(used(memory)?.max(start(look, gpu)?)))
    },
    ..USED
};

const PROCESS: Amount = Amount {
    description: "What NVML reports as used by the worker itself.",
    words: "memory of the worker on",
    bytes: |look, gpu| look.step.memory.get(gpu)?.process_bytes.map(i128::from),
    unread: |subject| {
        let words = format!("{subject}: NVML does not report what the worker uses");
        Truth::Unobservable(Reason::Unobservable, words)
    },
    // NVML counts the worker's memory apart from that of others.
    hidden: |_, _| None,
    is_sum: false,
    written: |bytes| units::bytes(bytes.unsigned_abs()),
    ..USED
};

fn used(memory: &MemoryObservation) -> Option<i128> {
    memory.used_bytes.map(i128::from)
}

/// Returns the change in bytes after the previous step; 0 before the first step.
fn start(look: &Look<'_>, gpu: &str) -> Option<i128> {
    look.before()
        .map_or(Some(0), |before| used(before.memory.get(gpu)?))
}

impl Amount {
    fn sentences(&self, stated: &BTreeMap<String, Matcher>) -> Vec<String> {
        stated
            .iter()
            .map(|(gpu, matcher)| format!("{} {gpu} is {}", self.words, matcher.words(true)))
            .collect()
    }

    fn held(
        &self,
        key: &str,
        stated: &BTreeMap<String, Matcher>,
        look: &Look<'_>,
        gpus: &GpuNames<'_>,
    ) -> Vec<Truth> {
        let mut held = Vec::new();
        for (gpu, matcher) in gpus.each(stated) {
            let subject = format!("{key} of {gpu}");
            let at = |bytes| {
                matcher
                    .compare(&subject, &Datum::Int(bytes), look, gpus)
                    .about_memory()
            };
            let bytes = (self.bytes)(look, &gpu);
            let bytes = bytes.map(|bytes| {
                if self.is_sum {
                    matcher.snap_to_expected(bytes)
                } else {
                    bytes
                }
            });
            held.push(match (bytes, (self.hidden)(look, &gpu)) {
                (_, Some(Hidden::Uncalibrated)) => unobservable(Hidden::Uncalibrated, &subject),
                (None, _) => (self.unread)(&subject),
                (Some(bytes), None) => at(bytes),
                (Some(bytes), Some(hidden)) => compare_uncertain(bytes, hidden, matcher, at)
                    .unwrap_or_else(|| unobservable(hidden, &subject)),
            });
        }
        held
    }

    /// Returns the observation on one GPU, or on every GPU without `gpu`.
    fn seen(&self, look: &Look<'_>, gpu: Option<&str>) -> Option<Sight> {
        let memory = &look.step.memory;
        let (words, exact) = match gpu {
            Some(gpu) => memory
                .contains_key(gpu)
                .then(|| self.words_and_bytes(look, gpu))?,
            None => {
                let words = words::in_order(memory)
                    .into_iter()
                    .map(|(gpu, _)| self.words_and_bytes(look, gpu).0);
                let words: Vec<String> = words.collect();
                let exact = memory
                    .keys()
                    .map(|gpu| (gpu.clone(), self.words_and_bytes(look, gpu).1));
                let exact: Map<String, Value> = exact.collect();
                (!memory.is_empty()).then(|| (words.join(", "), exact.into()))?
            }
        };
        Some(Sight {
            cell: words.clone(),
            words,
            exact,
        })
    }

    fn words_and_bytes(&self, look: &Look<'_>, gpu: &str) -> (String, Value) {
        let bytes = (self.bytes)(look, gpu).and_then(|bytes| i64::try_from(bytes).ok());
        (
            format!(
                "{gpu} {}",
                bytes.map_or_else(|| "not read".to_owned(), self.written)
            ),
            json!(bytes),
        )
    }
}

/// Compares a matcher with an amount that other processes may partly hide. `None` if the hidden part could change the
/// answer. `at` compares an exact amount.
fn compare_uncertain(
    bytes: i128,
    hidden: Hidden,
    matcher: &Matcher,
    at: impl Fn(i128) -> Truth,
) -> Option<Truth> {
    let most = i128::from(MOST_INIT_BYTES);
    let low = if hidden == Hidden::Wavering {
        bytes - most
    } else {
        bytes
    };
    let high = bytes + most;
    // The answer changes only at a bound of the matcher, so it is enough to evaluate it at the bounds and one byte away
    // from them.
    let bounds = matcher.operands().filter_map(|operand| match operand {
        Operand::Int(bound) => Some(i128::from(*bound)),
        _ => None,
    });
    let points = bounds
        .flat_map(|bound| [bound - 1, bound, bound + 1])
        .chain([low, high]);
    let mut answers = points
        .filter(|point| (low..=high).contains(point))
        .map(|point| at(point) == Truth::Yes);
    let holds = answers.next()?;
    answers.all(|other| other == holds).then(|| at(bytes))
}

pub(super) fn amount_schema() -> Value {
    matcher::schema(or_parameter(json!([
        { "type": "integer" }, { "type": "string", "pattern": BYTES }, { "type": "string", "pattern": "^@.+\\..+$" },
    ])))
}
