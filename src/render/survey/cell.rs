//! What stands in the cells of a row of `survey calls`.

use cuda_pitfalls_calls::Library;

use crate::render::units;
use crate::survey::calls::{Answer, CallRow};

/// A version as numbers, so that 12.10 comes after 12.9.
pub(super) type Version = Vec<u32>;

/// Reads a version.
pub(super) fn number(version: &str) -> Version {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// Writes it again.
pub(super) fn name(version: &[u32]) -> String {
    version.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

pub(super) fn library(CallRow { library, libcudart_version, .. }: &CallRow) -> String {
    libcudart_version.as_ref().map_or_else(|| library.clone(), |version| format!("{library} {version}"))
}

pub(super) fn frozen(row: &CallRow) -> String {
    match row.freezes_visibility {
        Some(true) => "yes",
        Some(false) => "no",
        None if row.is_initialised_before() => "–",
        None => "?",
    }
    .to_string()
}

/// What the call returned.
pub(super) fn returned(row: &CallRow) -> String {
    match (&row.status, row.answer()) {
        (Some(status), _) => status.clone(),
        (None, Some(_)) if row.library == Library::Runtime.name() => "text".to_string(),
        (None, Some(_)) => String::new(),
        (None, None) => "?".to_string(),
    }
}

/// What became of the arguments; nothing where they worked.
pub(super) fn arguments(row: &CallRow) -> &'static str {
    match row.answer() {
        Some(Answer::Refused) => "refused",
        Some(Answer::NotInitialised) => "not looked at",
        Some(Answer::NotSupported) => "not supported",
        Some(Answer::Succeeded) | None => "",
    }
}

pub(super) fn context(row: &CallRow) -> String {
    let Some(on) = &row.context_on else { return "?".to_string() };
    match on.as_slice() {
        [] => "–".to_string(),
        on => {
            let on: Vec<String> = on.iter().map(u32::to_string).collect();
            format!("{} of {}", on.join(", "), row.visible_gpus)
        }
    }
}

pub(super) fn memory(row: &CallRow) -> String {
    let Some(used) = &row.device_used_bytes else { return "?".to_string() };
    let used: Vec<String> = used.iter().map(|bytes| units::delta(*bytes)).collect();
    used.join(", ")
}

/// Rows to try pages on.
#[cfg(test)]
pub(crate) mod sample {
    use crate::survey::calls::CallRow;
    use crate::survey::{Standing, Unmeasured};
    use crate::verdict::Reason;

    /// A measured row of `cudaSetDevice`.
    pub(crate) fn row(version: &str, freezes: bool, context: bool) -> CallRow {
        CallRow {
            call: "cudaSetDevice".into(),
            library: "libcudart".into(),
            libcudart_version: Some(version.into()),
            before: Vec::new(),
            visible_gpus: 1,
            freezes_visibility: Some(freezes),
            context_on: Some(if context { vec![0] } else { Vec::new() }),
            device_used_bytes: Some(vec![0]),
            status: Some("cudaSuccess".into()),
            elapsed_ns: Some(1),
            standing: Standing { attempts: 3, ..Standing::default() },
            seen: Vec::new(),
        }
    }

    /// One that has no facts.
    pub(crate) fn absent(version: &str, reason: Reason) -> CallRow {
        let unmeasured = Unmeasured { reason, detail: String::new() };
        let standing = Standing { unmeasured: Some(unmeasured), ..Standing::default() };
        CallRow { standing, ..row(version, false, false) }
    }
}
