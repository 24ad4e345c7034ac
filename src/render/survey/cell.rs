//! The cells of a row of `survey calls`.

use crate::words;
use cuda_pitfalls_answers::survey::calls::{CallAnswer, CallRow};
use cuda_pitfalls_calls::CallLibrary;
use cuda_pitfalls_core::text::units;

pub(super) fn library(CallRow { library, libcudart_version, .. }: &CallRow) -> String {
    libcudart_version.as_ref().map_or_else(|| library.clone(), |version| format!("{library} {version}"))
}

pub(super) fn frozen(row: &CallRow) -> String {
    match row.reads_mask {
        None if row.is_initialised_before() => "–".to_string(),
        known => yes(known),
    }
}

pub(super) fn returned(row: &CallRow) -> String {
    match (&row.status, row.answer()) {
        (Some(status), _) => status.clone(),
        (None, Some(_)) if row.library == CallLibrary::Runtime.name() => "text".to_string(),
        (None, Some(_)) => String::new(),
        (None, None) => "?".to_string(),
    }
}

/// What became of the arguments; nothing where they worked.
pub(super) fn arguments(row: &CallRow) -> &'static str {
    match row.answer() {
        Some(CallAnswer::Refused) => "refused",
        Some(CallAnswer::NotInitialised) => "not checked",
        Some(CallAnswer::NotSupported) => "not supported",
        Some(CallAnswer::Succeeded) | None => "",
    }
}

pub(super) fn context(row: &CallRow) -> String {
    match row.context_on.as_deref() {
        None | Some([]) => gpus(row.context_on.as_deref(), "–"),
        on => format!("{} of {}", gpus(on, "–"), row.visible_gpus),
    }
}

pub(super) fn memory(row: &CallRow) -> String {
    let Some(used) = &row.device_used_bytes else { return "?".to_string() };
    let used: Vec<String> = used.iter().map(|bytes| units::delta(*bytes)).collect();
    used.join(", ")
}

/// `?` where it is not known.
pub(super) fn yes(fact: Option<bool>) -> String {
    match fact {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
    .to_string()
}

/// The GPUs in a list; `none` where it is empty, and `?` where it is not known.
pub(super) fn gpus(on: Option<&[u32]>, none: &str) -> String {
    on.map_or_else(|| "?".to_string(), |on| words::gpus(on, none))
}
