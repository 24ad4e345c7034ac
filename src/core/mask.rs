//! The grammar of `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER`: which GPUs a process will see.
//!
//! [`parse`] predicts the result of `cuInit` for any two values on any list of GPUs. It is a model, taken from driver
//! 580.159.04 on 1, 2 and 4 H200; the scenarios that support it are named below. It also predicts cases that were not
//! measured; the last list here names them.
//!
//! ```text
//! mask    = entry { "," entry }                   read from the left, up to the first bad entry
//! entry   = ordinal | uuid                        the first entry decides which; the others must be alike
//! ordinal = { space } [ "+" | "-" ] digit { digit } { any }
//! uuid    = ( "GPU-" | "MIG-" ) ( beginning | complete { any } )
//! beginning = hex digits, fewer than 32, with hyphens anywhere; those of exactly one GPU
//! complete = 32 hex digits, with hyphens anywhere
//! space   = " " | "\t" | "\n" | "\v" | "\f" | "\r"
//! any     = any character except ","
//! order   = "FASTEST_FIRST" | "PCI_BUS_ID"
//! ```
//!
//! The rules, in the order in which they are applied:
//!
//! 1. If the order is set to anything else, the result is `CUDA_ERROR_INVALID_DEVICE`. That includes other words, lower
//!    case and the empty value (`visibility/order-misspelt`, `visibility/default-order`).
//! 2. Without a mask all GPUs are visible (`visibility/empty-mask-hides-all`, its control).
//! 3. The list ends, without an error, at the first entry that is not a valid GPU: an index that is out of range or
//!    negative, a word, an empty entry (`visibility/invalid-index-truncates`), an entry of the other kind, an unknown
//!    UUID (`visibility/uuid-twice`), a MIG token with MIG disabled (`visibility/mig-token-without-mig`).
//! 4. If a GPU is selected a second time before that end, the result is `CUDA_ERROR_INVALID_DEVICE`, however it is
//!    written (`visibility/duplicate-index-hides-all`, `visibility/uuid-twice`, `visibility/uuid-abbreviated`).
//! 5. If no GPU was selected by then, the result is `CUDA_ERROR_NO_DEVICE` (`visibility/empty-mask-hides-all`,
//!    `visibility/first-invalid-hides-all`, `visibility/container-words-hide-all`).
//!
//! Surprising results:
//!
//! - `1gpu,0cpu` is `1,0`, and so are `01,00`, `+1,-0` and `1,0,` (`visibility/numbers-are-read-loosely`).
//! - `0x1` is 0, and `1;0` and `1:0` are only 1 (`visibility/numbers-are-read-loosely`); so are a 1 and a 0 with a
//!   space or a newline between them (`visibility/numbers-on-lines`).
//! - Numbers are parsed as by `strtoull`, and only the lower 32 of the 64 bits count: `4294967296`, `-4294967296` and
//!   `9223372036854775808` are 0, `-18446744073709551615` is 1. From 2^64 on, with either sign, a number is not a valid
//!   GPU (`visibility/number-too-large`, and the survey).
//! - In `0,99,0` the list ends before the repeat, so one GPU is visible (`visibility/duplicate-index-hides-all`).
//! - `all` hides every GPU, as any word does (`visibility/container-words-hide-all`).
//! - Whitespace before a number is skipped; before a UUID it makes the entry invalid
//!   (`visibility/numbers-are-read-loosely`, `visibility/blank-after-uuid-comma`).
//! - After the 32nd digit of a UUID any characters may follow: `<uuid>x`, `<uuid>;<uuid>` and `<uuid>/1/0` select the
//!   first GPU. After fewer digits nothing may follow, not even a space (the survey).
//! - Hyphens are ignored everywhere, and may be missing (the survey). Upper-case digits are accepted; lower-case `gpu-`
//!   and a missing `GPU-` are not (`visibility/uuid-abbreviated`, the survey).
//! - One digit is enough if it fits one GPU; `GPU-` alone is not a valid GPU, even if there is only one
//!   (`visibility/uuid-prefix-alone`).
//! - `MIG-` with the digits of a GPU's own UUID, or the first of them, selects that GPU if MIG is disabled, also in a
//!   list with others; `MIG-GPU-…/1/0` is not a valid GPU (the survey, `visibility/mig-token-without-mig`).
//!
//! **Unknown** cases, with the likeliest or simplest rule as the prediction:
//!
//! - A UUID whose digits fit several GPUs: no two available GPUs had the same first digits. Predicted: it is not a
//!   valid GPU.
//! - A limit on the length of the value or of the list: none was found up to 2074 bytes and 64 entries.
//! - MIG tokens with MIG enabled. [`parse`] does not handle instances; [`read_divided`] follows the documentation.
//! - GPUs of different speed, which were never available: [`parse`] expects them in CUDA's order, which the caller has
//!   to know.
//!
//! "The survey" is `reports/survey-mask-*`, with the page `docs/surveys/mask.md`.

mod forms;
mod generate;
mod template;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use forms::{Form, mask_forms};
pub use generate::generate_masks;
pub use template::{MissingGpus, Template, TemplateError};

/// The result of `cuInit`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum InitStatus {
    /// 0: at least one GPU is visible.
    #[serde(rename = "CUDA_SUCCESS")]
    Success,
    /// 100: no GPU is visible, or the machine has no GPU.
    #[serde(rename = "CUDA_ERROR_NO_DEVICE")]
    NoDevice,
    /// 101: the mask lists a GPU twice, or `CUDA_DEVICE_ORDER` has an unknown value.
    #[serde(rename = "CUDA_ERROR_INVALID_DEVICE")]
    InvalidDevice,
}

impl InitStatus {
    /// Returns the C name.
    pub fn name(self) -> &'static str {
        match self {
            InitStatus::Success => "CUDA_SUCCESS",
            InitStatus::NoDevice => "CUDA_ERROR_NO_DEVICE",
            InitStatus::InvalidDevice => "CUDA_ERROR_INVALID_DEVICE",
        }
    }

    /// Returns the status code.
    pub fn code(self) -> i64 {
        match self {
            InitStatus::Success => 0,
            InitStatus::NoDevice => 100,
            InitStatus::InvalidDevice => 101,
        }
    }
}

/// The GPUs that a process sees after `cuInit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parsed {
    /// The result of `cuInit`.
    pub status: InitStatus,
    /// The visible GPUs in CUDA's order, as indices into the list that was given; empty unless `cuInit` succeeds.
    pub gpus: Vec<usize>,
}

impl Parsed {
    fn from_gpus(gpus: Vec<usize>) -> Parsed {
        if gpus.is_empty() {
            return Parsed::failed(InitStatus::NoDevice);
        }
        Parsed {
            status: InitStatus::Success,
            gpus,
        }
    }

    fn failed(status: InitStatus) -> Parsed {
        Parsed {
            status,
            gpus: Vec::new(),
        }
    }
}

/// The visible GPUs of a mask, and the result for each of its entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Reading")]
pub struct MaskReading {
    /// The result for the process.
    pub parsed: Parsed,
    /// The entries as written, each with its effect, in order; empty without a mask, or if the order is not valid.
    pub entries: Vec<MaskEntry>,
    /// `true` if `CUDA_DEVICE_ORDER` has an unknown value. Then the mask is not read.
    pub bad_order: bool,
}

/// The text between two commas of a mask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Entry")]
pub struct MaskEntry {
    /// The text as written.
    pub text: String,
    /// The effect of the entry.
    #[serde(flatten)]
    pub fate: Fate,
}

impl MaskEntry {
    /// Returns `true` if the entry is written as a UUID.
    pub fn is_uuid(&self) -> bool {
        digits_of(&self.text).is_some()
    }

    /// Returns the text after the number or the complete UUID, which the driver ignores.
    pub fn ignored_text(&self) -> Option<&str> {
        let rest = match digits_of(&self.text) {
            Some(digits) => {
                let hexadecimal = digits
                    .char_indices()
                    .filter(|(_, letter)| letter.is_ascii_hexdigit());
                let (last, _) = hexadecimal.take(WHOLE).last()?;
                digits.get(last + 1..)?
            }
            None => self
                .text
                .trim_start_matches(BLANKS)
                .trim_start_matches(['+', '-'])
                .trim_start_matches(|letter: char| letter.is_ascii_digit()),
        };
        Some(rest.trim_matches(BLANKS)).filter(|rest| !rest.is_empty())
    }

    /// Returns the effect of the entry as text, on a machine with this many GPUs. Pass 0 if the number of GPUs is
    /// unknown.
    pub fn words(&self, gpus: usize) -> String {
        let why = match self.fate {
            Fate::Names { gpu } => {
                let ignored = self
                    .ignored_text()
                    .map(|rest| format!("; the rest, `{rest}`, is ignored"));
                return format!("selects GPU {gpu}{}", ignored.unwrap_or_default());
            }
            Fate::Instance { gpu, instance } => {
                return format!("selects MIG instance {instance} of GPU {gpu}");
            }
            Fate::BesideAnInstance => {
                return "is hidden: CUDA shows only one MIG instance".to_owned();
            }
            Fate::Repeats { gpu } => return format!("selects GPU {gpu} again: cuInit fails"),
            Fate::Unread => return "is ignored".to_owned(),
            Fate::Ends { why } => why,
        };
        let why = match why {
            EntryEnd::Empty => "is empty".to_owned(),
            EntryEnd::NoNumber if self.is_uuid() => "is a UUID in a list of numbers".to_owned(),
            EntryEnd::NoNumber => "does not begin with a number or a UUID".to_owned(),
            EntryEnd::OutOfRange if gpus == 0 => "is not a GPU of this machine".to_owned(),
            EntryEnd::OutOfRange => format!("is not a GPU of this machine (valid: 0-{})", gpus - 1),
            EntryEnd::NoUuid => {
                "does not begin with GPU- or MIG-, in a list that began with a UUID".to_owned()
            }
            EntryEnd::NoDigits => "is not a UUID or UUID prefix".to_owned(),
            EntryEnd::UnknownUuid => "is not the UUID of one of these GPUs".to_owned(),
            EntryEnd::SeveralGpus => "is a prefix of several UUIDs".to_owned(),
        };
        format!("{why}; it and later entries are ignored")
    }
}

/// The effect of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum Fate {
    /// The entry selects this GPU, an index into the list that was passed.
    Names {
        /// The index.
        gpu: usize,
    },
    /// The entry selects a MIG instance, and CUDA shows only this one. Taken from NVIDIA's documentation; not measured.
    Instance {
        /// The index of the GPU.
        gpu: usize,
        /// The index of the instance on the GPU, from 0.
        instance: usize,
    },
    /// The entry follows a MIG instance or a GPU that is divided. Taken from NVIDIA's documentation; not measured.
    BesideAnInstance,
    /// The entry selects a GPU that an earlier entry selected: `cuInit` fails.
    Repeats {
        /// The index.
        gpu: usize,
    },
    /// The entry is not a valid GPU: the list ends before it.
    Ends {
        /// Why.
        why: EntryEnd,
    },
    /// The entry follows the end of the list, or a repeated GPU.
    Unread,
}

/// The reason why an entry is not a valid GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Ending")]
#[serde(rename_all = "snake_case")]
pub enum EntryEnd {
    /// The entry is empty.
    Empty,
    /// The entry does not begin with a number although the list began with one, or it begins with neither a number nor
    /// a UUID.
    NoNumber,
    /// The number is out of range; a negative number counts as a large one.
    OutOfRange,
    /// The entry does not begin with `GPU-` or `MIG-`, in a list that began with a UUID.
    NoUuid,
    /// A character other than a hexadecimal digit follows fewer than 32 of them.
    NoDigits,
    /// No GPU has this UUID, or a UUID with this prefix.
    UnknownUuid,
    /// The UUIDs of several GPUs begin with this text.
    SeveralGpus,
}

/// Predicts the driver's answer to the values of `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER`; `None` is a variable
/// that is not set.
///
/// `gpus` are the UUIDs (`GPU-xxxxxxxx-xxxx-…`) of all GPUs, in the order in which CUDA would number them without a
/// mask and with this `order`. On equal GPUs that is PCI order, regardless of `order`.
pub fn parse(mask: Option<&str>, order: Option<&str>, gpus: &[String]) -> Parsed {
    read(mask, order, gpus).parsed
}

/// Evaluates a mask like [`parse`], and returns the result for each entry too.
pub fn read(mask: Option<&str>, order: Option<&str>, gpus: &[String]) -> MaskReading {
    let mut entries: Vec<MaskEntry> = Vec::new();
    if !matches!(order, None | Some("FASTEST_FIRST" | "PCI_BUS_ID")) {
        return MaskReading {
            parsed: Parsed::failed(InitStatus::InvalidDevice),
            entries,
            bad_order: true,
        };
    }
    let Some(mask) = mask else {
        return MaskReading {
            parsed: Parsed::from_gpus((0..gpus.len()).collect()),
            entries,
            bad_order: false,
        };
    };
    let find = if digits_of(mask).is_some() {
        by_uuid
    } else {
        by_ordinal
    };
    let mut named: Vec<usize> = Vec::new();
    let mut is_over = false;
    for text in mask.split(',') {
        let fate = if is_over {
            Fate::Unread
        } else {
            match find(text, gpus) {
                Err(why) => Fate::Ends { why },
                Ok(gpu) if named.contains(&gpu) => Fate::Repeats { gpu },
                Ok(gpu) => Fate::Names { gpu },
            }
        };
        match fate {
            Fate::Names { gpu } => named.push(gpu),
            _ => is_over = true,
        }
        entries.push(MaskEntry {
            text: text.to_owned(),
            fate,
        });
    }
    let repeats = entries
        .iter()
        .any(|entry| matches!(entry.fate, Fate::Repeats { .. }));
    let parsed = if repeats {
        Parsed::failed(InitStatus::InvalidDevice)
    } else {
        Parsed::from_gpus(named)
    };
    MaskReading {
        parsed,
        entries,
        bad_order: false,
    }
}

/// Evaluates a mask like [`read`], on GPUs that MIG may divide. `instances` has the instances of each GPU, by the text
/// that follows `MIG-`; it is empty for a GPU that is not divided.
///
/// The rule was not measured. It comes from NVIDIA's documentation (the MIG user guide and the environment variables of
/// the CUDA programming guide, read on 2026-11-28). `MIG-<UUID>` or `MIG-<GPU-UUID>/<GPU instance>/<compute instance>`
/// selects an instance. The number or UUID of a divided GPU selects its first instance. A process sees only one
/// instance.
pub fn read_divided(
    mask: Option<&str>,
    order: Option<&str>,
    gpus: &[String],
    instances: &[Vec<String>],
) -> MaskReading {
    let whole = read(mask, order, gpus);
    if whole.bad_order {
        return whole;
    }
    let Some((gpu, instance)) = shown_instance(mask, &whole, instances) else {
        return whole;
    };
    let mut entries = Vec::new();
    for text in mask.into_iter().flat_map(|mask| mask.split(',')) {
        let fate = if entries.is_empty() {
            Fate::Instance { gpu, instance }
        } else {
            Fate::BesideAnInstance
        };
        entries.push(MaskEntry {
            text: text.to_owned(),
            fate,
        });
    }
    MaskReading {
        parsed: Parsed::from_gpus(vec![gpu]),
        entries,
        bad_order: false,
    }
}

/// Returns the GPU and the position of the only instance that a process sees; `None` if it sees none.
fn shown_instance(
    mask: Option<&str>,
    whole: &MaskReading,
    instances: &[Vec<String>],
) -> Option<(usize, usize)> {
    let Some(mask) = mask else {
        let gpu = instances.iter().position(|known| !known.is_empty())?;
        return Some((gpu, 0));
    };
    if let Some(named) = named_instance(mask, instances) {
        return Some(named);
    }
    let gpu = *whole.parsed.gpus.first()?;
    let is_divided = instances.get(gpu).is_some_and(|known| !known.is_empty());
    is_divided.then_some((gpu, 0))
}

/// Returns the only instance whose name begins with the first entry of the mask.
fn named_instance(mask: &str, instances: &[Vec<String>]) -> Option<(usize, usize)> {
    let wanted = mask.split(',').next()?.strip_prefix("MIG-")?;
    if wanted.is_empty() {
        return None;
    }
    let mut found = None;
    for (gpu, known) in instances.iter().enumerate() {
        for (place, uuid) in known.iter().enumerate() {
            if !uuid.starts_with(wanted) {
                continue;
            }
            if found.is_some() {
                return None;
            }
            found = Some((gpu, place));
        }
    }
    found
}

/// Returns the text after the prefix of a UUID; `None` if the entry has no such prefix.
fn digits_of(entry: &str) -> Option<&str> {
    entry
        .strip_prefix("GPU-")
        .or_else(|| entry.strip_prefix("MIG-"))
}

/// The number of digits of a complete UUID.
const WHOLE: usize = 32;

/// The whitespace of C's `isspace`.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];

/// Returns the index of the GPU that an entry selects by a decimal number. The number is parsed as by `strtoull`; only
/// the lower 32 of its 64 bits count.
fn by_ordinal(entry: &str, gpus: &[String]) -> Result<usize, EntryEnd> {
    let number = entry.trim_start_matches(BLANKS);
    let unsigned = number.strip_prefix(['+', '-']).unwrap_or(number);
    let end = unsigned
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(unsigned.len());
    let Some(digits) = unsigned.get(..end).filter(|digits| !digits.is_empty()) else {
        return Err(if number.is_empty() {
            EntryEnd::Empty
        } else {
            EntryEnd::NoNumber
        });
    };
    let value = match digits.parse::<u64>() {
        Ok(size) if number.starts_with('-') => size.wrapping_neg(),
        Ok(size) => size,
        // An overflow gives ULONG_MAX, whatever the sign.
        Err(_) => u64::MAX,
    };
    let place = usize::try_from(value & u64::from(u32::MAX)).map_err(|_| EntryEnd::OutOfRange)?;
    if place < gpus.len() {
        Ok(place)
    } else {
        Err(EntryEnd::OutOfRange)
    }
}

/// Returns the index of the only GPU whose UUID begins with an entry's digits.
fn by_uuid(entry: &str, gpus: &[String]) -> Result<usize, EntryEnd> {
    let mut wanted = String::new();
    for letter in digits_of(entry)
        .ok_or(if entry.is_empty() {
            EntryEnd::Empty
        } else {
            EntryEnd::NoUuid
        })?
        .chars()
    {
        match letter {
            _ if wanted.len() == WHOLE => break,
            '-' => {}
            digit if digit.is_ascii_hexdigit() => wanted.push(digit.to_ascii_lowercase()),
            _ => return Err(EntryEnd::NoDigits),
        }
    }
    // `GPU-` alone is not a valid GPU, even if there is only one.
    if wanted.is_empty() {
        return Err(EntryEnd::NoDigits);
    }
    let mut fitting = gpus.iter().enumerate().filter(|(_, uuid)| {
        uuid.trim_start_matches("GPU-")
            .replace('-', "")
            .to_ascii_lowercase()
            .starts_with(&wanted)
    });
    match (fitting.next(), fitting.next()) {
        (Some((gpu, _)), None) => Ok(gpu),
        (Some(_), Some(_)) => Err(EntryEnd::SeveralGpus),
        (None, _) => Err(EntryEnd::UnknownUuid),
    }
}
