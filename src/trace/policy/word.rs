//! The words of a policy, and of its GPUs.

use std::fmt;

use crate::diagnosis::embedded_rules;
use crate::ledger::owner_keys;
use crate::{Trace, TraceEvent};
use cuda_pitfalls_core::source::diagnostic::{did_you_mean, nearest_name};
use cuda_pitfalls_core::source::size;
use cuda_pitfalls_core::text::counts::parse_digits;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::words as lines;

/// A forbidden action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyWord {
    /// Initializing CUDA.
    Init,
    /// Any context.
    Context,
    /// A context on a GPU.
    ContextOn(GpuWord),
    /// A context on the device with this ordinal in the process.
    ContextOnOrdinal(u32),
    /// A context without work, in a process that has a context on another GPU too.
    Stray,
    /// An error of a driver call.
    Error,
    /// The findings of a rule, such as `late-mask`. `fork` is short for `fork-after-init`.
    Rule(&'static str),
    /// More unattributed bytes than this at the peak of a process on a GPU.
    Unattributed(u64),
    /// More bytes of an owner, by its key, than this at the peak of a process on a GPU.
    Owner(&'static str, u64),
}

/// A GPU by index or UUID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuWord {
    /// An index in NVML order: `gpu0`.
    Index(usize),
    /// A UUID, or its first characters: `GPU-…`.
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
/// The word forms that contain a device or a size.
const FORMS: [&str; 5] = [
    "context:gpuN",
    "context:GPU-UUID",
    "context:cuda:N",
    "unattributed>SIZE",
    "owner=NAME>SIZE",
];
/// The start of the word for an owner's memory, and the word for memory without an owner.
const OWNER: &str = "owner=";
const UNATTRIBUTED: &str = "unattributed";

/// The width of a list of words in a message, in columns.
const WIDTH: usize = 80;

/// Returns every word that can be forbidden, for messages and help.
pub fn words() -> Vec<&'static str> {
    let mut words = PLAIN.map(|(name, _)| name).to_vec();
    words.extend(FORMS);
    words.extend(embedded_rules().iter().map(|rule| rule.name.as_str()));
    words
}

/// A sentence that explains why a text is not a word of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WordError(String);

impl PolicyWord {
    /// Parses a word.
    ///
    /// # Errors
    /// Returns an error for an unknown word, with the most similar word or a list of the known ones.
    pub fn parse(text: &str) -> Result<PolicyWord, WordError> {
        for (name, word) in PLAIN {
            if name == text {
                return Ok(word);
            }
        }
        if let Some(device) = text.strip_prefix("context:") {
            return context_word(text, device);
        }
        if let Some((what, size)) = text.split_once('>') {
            return memory_word(text, what.trim(), size);
        }
        match embedded_rules().iter().find(|rule| rule.name == text) {
            Some(rule) => Ok(PolicyWord::Rule(&rule.name)),
            None => Err(unknown_word(text)),
        }
    }
}

/// Returns the policy word for a context on a device.
fn context_word(text: &str, device: &str) -> Result<PolicyWord, WordError> {
    if let Some(number) = device.strip_prefix("cuda:") {
        return match number.parse() {
            Ok(ordinal) => Ok(PolicyWord::ContextOnOrdinal(ordinal)),
            Err(_) => Err(WordError(format!("`{}` has no number", terminal(text)))),
        };
    }
    match GpuWord::parse(device) {
        Some(gpu) => Ok(PolicyWord::ContextOn(gpu)),
        None => Err(unknown_gpu(device, ", or cuda:N by CUDA's ordinal")),
    }
}

/// Returns the policy word for more memory than `size`.
fn memory_word(text: &str, what: &str, size: &str) -> Result<PolicyWord, WordError> {
    if let Some(owner) = what.strip_prefix(OWNER) {
        let known: Vec<&str> = owner_keys().collect();
        let meant = nearest_name(owner, owner_keys());
        return match owner_keys().find(|key| *key == owner) {
            Some(key) => Ok(PolicyWord::Owner(key, parse_bytes(size)?)),
            None => Err(unknown_name("unknown owner", owner, &known, meant)),
        };
    }
    if what == UNATTRIBUTED {
        return Ok(PolicyWord::Unattributed(parse_bytes(size)?));
    }
    let meant = nearest_name(what, [UNATTRIBUTED]);
    if meant.is_some() {
        return Err(unknown_name("unknown word", what, &[], meant));
    }
    let text = terminal(text);
    Err(WordError(format!(
        "`{text}` is not a memory limit: write {UNATTRIBUTED}>64MiB or {OWNER}nccl>1GiB"
    )))
}

fn parse_bytes(size: &str) -> Result<u64, WordError> {
    match size::bytes(size.trim()) {
        Ok(bytes) => u64::try_from(bytes)
            .map_err(|_| WordError(format!("`{}` is less than zero", terminal(size)))),
        Err(wrong) => {
            let message = terminal(&wrong.message);
            Err(WordError(format!("{message}: {}", wrong.help)))
        }
    }
}

fn unknown_word(text: &str) -> WordError {
    let known = words();
    let mut names = known.clone();
    names.retain(|word| !FORMS.contains(word));
    unknown_name("unknown word", text, &known, nearest_name(text, names))
}

/// Returns the error for an unknown name, with the name that was probably meant, or with all.
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

/// Returns the error for a text that is not a valid GPU; `or` lists what else can be written here.
fn unknown_gpu(text: &str, or: &str) -> WordError {
    WordError(format!(
        "`{}` is not a GPU: write gpuN by NVML index, GPU-… by UUID{or}",
        terminal(text)
    ))
}

impl GpuWord {
    /// Parses a GPU.
    pub fn parse(text: &str) -> Option<GpuWord> {
        if let Some(number) = text.strip_prefix("gpu") {
            return parse_digits(number).map(GpuWord::Index);
        }
        match text.strip_prefix("GPU-") {
            None | Some("") => None,
            Some(_) => Some(GpuWord::Uuid(text.to_owned())),
        }
    }

    /// Returns the index of this GPU in NVML order. None if no GPU or several match.
    pub(super) fn index(&self, trace: &Trace) -> Option<usize> {
        match self {
            GpuWord::Index(index) => (*index < trace.start.gpus.len()).then_some(*index),
            GpuWord::Uuid(start) => {
                let mut found = None;
                for (index, gpu) in trace.start.gpus.iter().enumerate() {
                    if gpu.uuid.starts_with(start) {
                        if found.is_some() {
                            return None;
                        }
                        found = Some(index);
                    }
                }
                found
            }
        }
    }

    /// Returns `true` if an event is about this GPU. None if the trace does not show it.
    pub(super) fn is_of(&self, trace: &Trace, event: &TraceEvent) -> Option<bool> {
        let uuid = event.gpu.as_deref()?;
        match self {
            // A UUID can be compared without NVML.
            GpuWord::Uuid(start) => Some(uuid.starts_with(start)),
            GpuWord::Index(index) => trace.gpu_index(Some(uuid)).map(|of| of == *index),
        }
    }
}

/// Parses a GPU and a size, as in `gpu1=2GiB`.
pub(super) fn parse_bound(text: &str) -> Result<(GpuWord, u64), WordError> {
    let Some((gpu, bytes)) = text.split_once('=') else {
        let text = terminal(text);
        return Err(WordError(format!("`{text}` is not of the form gpu1=2GiB")));
    };
    match GpuWord::parse(gpu.trim()) {
        Some(gpu) => Ok((gpu, parse_bytes(bytes)?)),
        None => Err(unknown_gpu(gpu, "")),
    }
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
        for (name, word) in PLAIN {
            if word == *self {
                return f.write_str(name);
            }
        }
        match self {
            PolicyWord::ContextOn(gpu) => write!(f, "context:{gpu}"),
            PolicyWord::ContextOnOrdinal(ordinal) => write!(f, "context:cuda:{ordinal}"),
            PolicyWord::Rule(name) => f.write_str(name),
            PolicyWord::Unattributed(bytes) => write!(f, "{UNATTRIBUTED}>{}", size_text(*bytes)),
            PolicyWord::Owner(key, bytes) => write!(f, "{OWNER}{key}>{}", size_text(*bytes)),
            // The list contains the other variants.
            PolicyWord::Init | PolicyWord::Context | PolicyWord::Stray | PolicyWord::Error => {
                Ok(())
            }
        }
    }
}

/// Returns a bound as a user writes it.
pub(super) fn bound_text(gpu: &GpuWord, bytes: u64) -> String {
    format!("max-bytes {gpu}={}", size_text(bytes))
}

/// Returns a size as a user writes it, in the largest unit that divides it.
fn size_text(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (size, unit) in UNITS {
        if bytes > 0 && bytes.is_multiple_of(size) {
            return format!("{}{unit}", bytes / size);
        }
    }
    format!("{bytes}B")
}
