//! The grammar of `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER`: which GPUs a process will see.
//!
//! [`parse`] predicts what `cuInit` makes of any two values on any list of GPUs. It is a model, taken
//! from driver 580.159.04 on 1, 2 and 4 H200; the scenarios that it stands on are named below. Where
//! nothing was measured it still predicts, and the last list here says where that is.
//!
//! ```text
//! mask    = entry { "," entry }                   read from the left, up to the first bad entry
//! entry   = ordinal | uuid                        the first entry decides which; the others must be alike
//! ordinal = { blank } [ "+" | "-" ] digit { digit } { any }
//! uuid    = "GPU-" hex { hex | "-" } { " " }      the beginning of exactly one GPU's UUID, or the whole
//! blank   = " " | "\t" | "\n" | "\v" | "\f" | "\r"
//! any     = any character but ","
//! order   = "FASTEST_FIRST" | "PCI_BUS_ID"
//! ```
//!
//! The answer, in the order in which it is decided:
//!
//! 1. An order that is set to anything else gives `CUDA_ERROR_INVALID_DEVICE`: other words, small
//!    letters and the empty value alike (`visibility/order-misspelt`, `visibility/default-order`).
//! 2. Without a mask all GPUs are visible (`visibility/empty-mask-hides-all`, its control).
//! 3. The list ends, without an error, at the first entry that names no GPU: out of range or below
//!    zero, a word, an empty one (`visibility/invalid-index-truncates`), an entry of the other kind, an
//!    unknown UUID (`visibility/uuid-twice`), a MIG token where MIG is off
//!    (`visibility/mig-token-without-mig`).
//! 4. A GPU that is named a second time before that end gives `CUDA_ERROR_INVALID_DEVICE`, however it
//!    is written (`visibility/duplicate-index-hides-all`, `visibility/uuid-twice`,
//!    `visibility/uuid-abbreviated`).
//! 5. If nothing was named by then, `CUDA_ERROR_NO_DEVICE` (`visibility/empty-mask-hides-all`,
//!    `visibility/first-invalid-hides-all`, `visibility/container-words-hide-all`).
//!
//! What surprises:
//!
//! - `1gpu,0cpu` is `1,0`, and so are `01,00`, `+1,-0` and `1,0,` (`visibility/numbers-are-read-loosely`).
//! - `0x1` is 0, and `1;0` and `1:0` are 1 alone (`visibility/numbers-are-read-loosely`); so are a 1
//!   and a 0 with a blank or a newline between them (`visibility/numbers-on-lines`).
//! - `4294967296` and `-4294967296` are 0: of a number's 64 bits the lower 32 count. From 2^64 on it
//!   does not wrap and names none (`visibility/number-too-large`).
//! - In `0,99,0` the list ends before the repeat, so one GPU is visible
//!   (`visibility/duplicate-index-hides-all`).
//! - `all` hides every GPU, as any word does (`visibility/container-words-hide-all`).
//! - A blank in front of a number does no harm, one in front of a UUID makes it none; behind a UUID it
//!   does no harm (`visibility/numbers-are-read-loosely`, `visibility/blank-after-uuid-comma`).
//! - A UUID may be cut short and be in capitals, but not without its `GPU-`
//!   (`visibility/uuid-abbreviated`). `GPU-` alone names none, not even the only GPU
//!   (`visibility/uuid-prefix-alone`).
//!
//! What is **not known**, and predicted by what is likeliest or simplest:
//!
//! - Whether numbers are read as by `strtol` or by `strtoull`, which differ from 2^63 to 2^64 - 1 and
//!   below -2^63. Predicted: `strtol`, which stops at the ends of 64 bits with a sign.
//! - `\n`, `\v`, `\f` and `\r` in front of a number. Predicted: skipped, as a blank and a tab are.
//! - How few digits of a UUID will do; eight were tried. Predicted: one, if it fits one GPU.
//! - What fits several GPUs by its digits; no two GPUs at hand have begun alike. Predicted: it names none.
//! - What may follow a UUID: a blank may. Predicted: blanks alone, so a tab, a newline, a letter or a
//!   digit too many ends the list.
//! - Hyphens left out or misplaced, and `gpu-` before digits. Predicted: no UUID.
//! - A limit on the length of the value, or of the list. Predicted: none.
//! - A bad order together with a bad mask, which fail differently. Predicted: the order's error.
//! - MIG tokens where MIG is on. [`parse`] knows no instances.
//! - GPUs of unlike speed, which were never at hand: [`parse`] is given them in CUDA's order, and a
//!   caller has to know it.

mod forms;
mod generate;
mod template;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use forms::{Form, forms};
pub use generate::generate;
pub use template::{Needs, Template, TemplateError};

/// What `cuInit` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Status {
    /// 0: at least one GPU is visible.
    #[serde(rename = "CUDA_SUCCESS")]
    Success,
    /// 100: the mask shows none, or there is none.
    #[serde(rename = "CUDA_ERROR_NO_DEVICE")]
    NoDevice,
    /// 101: the mask names a GPU twice, or the order is none that there is.
    #[serde(rename = "CUDA_ERROR_INVALID_DEVICE")]
    InvalidDevice,
}

impl Status {
    /// The C name.
    pub fn name(self) -> &'static str {
        match self {
            Status::Success => "CUDA_SUCCESS",
            Status::NoDevice => "CUDA_ERROR_NO_DEVICE",
            Status::InvalidDevice => "CUDA_ERROR_INVALID_DEVICE",
        }
    }

    /// The number.
    pub fn code(self) -> i64 {
        match self {
            Status::Success => 0,
            Status::NoDevice => 100,
            Status::InvalidDevice => 101,
        }
    }
}

/// What a process sees after `cuInit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// What `cuInit` returns.
    pub status: Status,
    /// The visible GPUs in the order in which CUDA numbers them, as places in the list that was given;
    /// empty unless `cuInit` succeeds.
    pub gpus: Vec<usize>,
}

impl Answer {
    fn failed(status: Status) -> Answer {
        Answer { status, gpus: Vec::new() }
    }
}

/// Predicts the driver's answer to a value of `CUDA_VISIBLE_DEVICES` and one of `CUDA_DEVICE_ORDER`,
/// none where the variable is not set.
///
/// `gpus` are the UUIDs (`GPU-xxxxxxxx-xxxx-…`) of all GPUs, in the order in which CUDA would number
/// them without a mask and with this `order`. On equal GPUs that is PCI order, whatever `order` says.
pub fn parse(mask: Option<&str>, order: Option<&str>, gpus: &[String]) -> Answer {
    if !matches!(order, None | Some("FASTEST_FIRST" | "PCI_BUS_ID")) {
        return Answer::failed(Status::InvalidDevice);
    }
    let mut named: Vec<usize> = Vec::new();
    match mask {
        None => named.extend(0..gpus.len()),
        Some(mask) => {
            let read = if mask.starts_with(PREFIX) { by_uuid } else { by_ordinal };
            for gpu in mask.split(',').map_while(|entry| read(entry, gpus)) {
                if named.contains(&gpu) {
                    return Answer::failed(Status::InvalidDevice);
                }
                named.push(gpu);
            }
        }
    }
    let status = if named.is_empty() { Status::NoDevice } else { Status::Success };
    Answer { status, gpus: named }
}

/// What makes an entry a UUID.
const PREFIX: &str = "GPU-";

/// What C's `isspace` calls blank.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];

/// More digits than a number of 64 bits can have.
const TOO_MANY_DIGITS: usize = 20;

/// The GPU whose place an entry begins with, in base ten.
fn by_ordinal(entry: &str, gpus: &[String]) -> Option<usize> {
    let number = entry.trim_start_matches(BLANKS);
    let unsigned = number.strip_prefix(['+', '-']).unwrap_or(number);
    let end = unsigned.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(unsigned.len());
    let digits = unsigned.get(..end).filter(|digits| !digits.is_empty())?;
    // Zeros in front do not make a number large, however many they are.
    let digits = digits.trim_start_matches('0');
    let size = match digits.len() {
        0 => 0,
        TOO_MANY_DIGITS.. => i128::MAX,
        _ => digits.parse::<i128>().ok()?,
    };
    let value = if number.starts_with('-') { -size } else { size };
    let value = value.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    let place = usize::try_from(value.rem_euclid(1 << 32)).ok()?;
    (place < gpus.len()).then_some(place)
}

/// The one GPU whose UUID begins with an entry.
fn by_uuid(entry: &str, gpus: &[String]) -> Option<usize> {
    let beginning = entry.trim_end_matches(' ');
    // `GPU-` alone names no GPU, not even where it fits only one.
    beginning.strip_prefix(PREFIX).filter(|digits| !digits.is_empty())?;
    let fits = |uuid: &str| uuid.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning));
    let mut fitting = gpus.iter().enumerate().filter(|(_, uuid)| fits(uuid)).map(|(place, _)| place);
    match (fitting.next(), fitting.next()) {
        (Some(gpu), None) => Some(gpu),
        _ => None,
    }
}
