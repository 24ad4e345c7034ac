//! The words for what is forbidden, and for GPUs.

use std::fmt;

use crate::diagnosis::embedded_rules;
use crate::ledger::owner_keys;
use crate::{Trace, TraceEvent};
use cuda_pitfalls_core::source::diagnostic::{did_you_mean, nearest_name};
use cuda_pitfalls_core::source::size;
use cuda_pitfalls_core::text::counts::parse_digits;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::words as lines;

/// What is forbidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyWord {
    /// Initialising CUDA.
    Init,
    /// Any context.
    Context,
    /// A context on a GPU.
    ContextOn(GpuWord),
    /// A context on the device of this ordinal, as the process counts.
    ContextOnOrdinal(u32),
    /// A context without work, of a process that has a context on another GPU too.
    Stray,
    /// An error of a driver call.
    Error,
    /// The findings of a rule, such as `late-mask`. `fork` is short for `fork-after-init`.
    Rule(&'static str),
    /// More bytes that are not attributed, at the peak of a process on a GPU.
    Unattributed(u64),
    /// More bytes of an owner, by its key, at the peak of a process on a GPU.
    Owner(&'static str, u64),
}

/// A GPU by index or UUID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuWord {
    /// By its index in NVML order: `gpu0`.
    Index(usize),
    /// By its UUID, or the first characters of it: `GPU-…`.
    Uuid(String),
}

/// The words that are not names of rules.
const PLAIN: [(&str, PolicyWord); 5] = [
    ("cuinit", PolicyWord::Init),
    ("context", PolicyWord::Context),
    ("stray", PolicyWord::Stray),
    ("fork", PolicyWord::Rule("fork-after-init")),
    ("error", PolicyWord::Error),
];
/// The forms that name a device or a size.
const FORMS: [&str; 5] = [
    "context:gpuN",
    "context:GPU-UUID",
    "context:cuda:N",
    "unattributed>SIZE",
    "owner=NAME>SIZE",
];
/// What begins the word for an owner's memory, and the word for what is nobody's.
const OWNER: &str = "owner=";
const UNATTRIBUTED: &str = "unattributed";

/// How many columns a list of words takes in a message.
const WIDTH: usize = 80;

/// Every word that can be forbidden, for messages and help.
pub fn words() -> Vec<&'static str> {
    PLAIN
        .into_iter()
        .map(|(name, _)| name)
        .chain(FORMS)
        .chain(embedded_rules().iter().map(|rule| rule.name.as_str()))
        .collect()
}

/// Why a text is not a word of a policy, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WordError(String);

impl PolicyWord {
    /// The word in a text.
    ///
    /// # Errors
    /// There is no such word. The error names the nearest, or the known ones.
    pub fn parse(text: &str) -> Result<PolicyWord, WordError> {
        if let Some((_, word)) = PLAIN.into_iter().find(|(name, _)| *name == text) {
            return Ok(word);
        }
        if let Some(device) = text.strip_prefix("context:") {
            if let Some(number) = device.strip_prefix("cuda:") {
                let ordinal = number
                    .parse()
                    .map_err(|_| WordError(format!("`{}` has no number", terminal(text))))?;
                return Ok(PolicyWord::ContextOnOrdinal(ordinal));
            }
            let gpu = GpuWord::parse(device);
            return gpu
                .map(PolicyWord::ContextOn)
                .ok_or_else(|| unknown_gpu(device, ", or cuda:N by CUDA's ordinal"));
        }
        if let Some((what, size)) = text.split_once('>') {
            return memory(text, what.trim(), size);
        }
        let rule = embedded_rules().iter().find(|rule| rule.name == text);
        rule.map(|rule| PolicyWord::Rule(&rule.name))
            .ok_or_else(|| unknown(text))
    }
}

/// The word for more memory than a size.
fn memory(text: &str, what: &str, size: &str) -> Result<PolicyWord, WordError> {
    let Some(owner) = what.strip_prefix(OWNER) else {
        return match what {
            UNATTRIBUTED => Ok(PolicyWord::Unattributed(bytes(size)?)),
            _ => Err(match nearest_name(what, [UNATTRIBUTED]) {
                Some(meant) => unknown_name("unknown word", what, &[], Some(meant)),
                None => {
                    let known = format!("write {UNATTRIBUTED}>64MiB or {OWNER}nccl>1GiB");
                    WordError(format!(
                        "`{}` is no limit of memory: {known}",
                        terminal(text)
                    ))
                }
            }),
        };
    };
    match owner_keys().find(|key| *key == owner) {
        Some(key) => Ok(PolicyWord::Owner(key, bytes(size)?)),
        None => Err(unknown_name(
            "unknown owner",
            owner,
            &owner_keys().collect::<Vec<_>>(),
            nearest_name(owner, owner_keys()),
        )),
    }
}

fn bytes(size: &str) -> Result<u64, WordError> {
    let bytes = size::bytes(size.trim());
    let bytes = bytes
        .map_err(|wrong| WordError(format!("{}: {}", terminal(&wrong.message), wrong.help)))?;
    u64::try_from(bytes)
        .map_err(|_| WordError(format!("`{}` is less than nothing", terminal(size))))
}

fn unknown(text: &str) -> WordError {
    let words = words();
    let meant = nearest_name(
        text,
        words.iter().copied().filter(|word| !FORMS.contains(word)),
    );
    unknown_name("unknown word", text, &words, meant)
}

/// The error for a name that is not known: the one that was meant, or all.
fn unknown_name(what: &str, text: &str, known: &[&str], meant: Option<&str>) -> WordError {
    let text = terminal(text);
    match meant {
        Some(meant) => WordError(format!("{what} `{text}`; {}", did_you_mean(meant))),
        None => WordError(format!(
            "{what} `{text}`; known:\n{}",
            lines(&known.join(", "), WIDTH).join("\n")
        )),
    }
}

/// The error for what names no GPU; `or` is what else can be written here.
fn unknown_gpu(text: &str, or: &str) -> WordError {
    WordError(format!(
        "`{}` is no GPU: write gpuN by NVML index, GPU-… by UUID{or}",
        terminal(text)
    ))
}

impl GpuWord {
    /// The GPU that a text names.
    pub fn parse(text: &str) -> Option<GpuWord> {
        match text.strip_prefix("gpu") {
            Some(number) => parse_digits(number).map(GpuWord::Index),
            None => text
                .strip_prefix("GPU-")
                .filter(|rest| !rest.is_empty())
                .map(|_| GpuWord::Uuid(text.to_owned())),
        }
    }

    /// The index of this GPU in NVML order. None if no GPU or several match.
    pub(super) fn index(&self, trace: &Trace) -> Option<usize> {
        match self {
            GpuWord::Index(index) => trace.start.gpus.get(*index).map(|_| *index),
            GpuWord::Uuid(start) => {
                let mut fitting = (0..)
                    .zip(&trace.start.gpus)
                    .filter(|(_, gpu)| gpu.uuid.starts_with(start));
                fitting
                    .next()
                    .filter(|_| fitting.next().is_none())
                    .map(|(index, _)| index)
            }
        }
    }

    /// Whether an event is about this GPU. None if the trace does not say.
    pub(super) fn is_of(&self, trace: &Trace, event: &TraceEvent) -> Option<bool> {
        let uuid = event.gpu.as_deref()?;
        match self {
            // A UUID can be compared without NVML.
            GpuWord::Uuid(start) => Some(uuid.starts_with(start)),
            GpuWord::Index(index) => trace.gpu_index(Some(uuid)).map(|of| of == *index),
        }
    }
}

/// A GPU and a size, as in `gpu1=2GiB`.
pub(super) fn parse_bound(text: &str) -> Result<(GpuWord, u64), WordError> {
    let (gpu, bytes) = text.split_once('=').ok_or_else(|| not_a_bound(text))?;
    let gpu = GpuWord::parse(gpu.trim()).ok_or_else(|| unknown_gpu(gpu, ""))?;
    Ok((gpu, self::bytes(bytes)?))
}

fn not_a_bound(text: &str) -> WordError {
    WordError(format!("`{}` is not of the form gpu1=2GiB", terminal(text)))
}

impl fmt::Display for GpuWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GpuWord::Index(index) => write!(f, "gpu{index}"),
            GpuWord::Uuid(uuid) => f.write_str(uuid),
        }
    }
}

impl fmt::Display for PolicyWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = PLAIN
            .into_iter()
            .find(|(_, word)| word == self)
            .map(|(name, _)| name);
        match self {
            PolicyWord::ContextOn(gpu) => write!(f, "context:{gpu}"),
            PolicyWord::ContextOnOrdinal(ordinal) => write!(f, "context:cuda:{ordinal}"),
            PolicyWord::Rule(name) => f.write_str(plain.unwrap_or(name)),
            PolicyWord::Unattributed(bytes) => write!(f, "{UNATTRIBUTED}>{}", size_text(*bytes)),
            PolicyWord::Owner(key, bytes) => write!(f, "{OWNER}{key}>{}", size_text(*bytes)),
            _ => f.write_str(plain.unwrap_or_default()),
        }
    }
}

/// A bound as a user writes it.
pub(super) fn bound_text(gpu: &GpuWord, bytes: u64) -> String {
    format!("max-bytes {gpu}={}", size_text(bytes))
}

/// A size as a user writes it, in the largest unit that divides it.
fn size_text(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS
        .into_iter()
        .find(|(size, _)| bytes > 0 && bytes.is_multiple_of(*size));
    let (size, unit) = unit.unwrap_or((1, "B"));
    format!("{}{unit}", bytes / size)
}
