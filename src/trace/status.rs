//! Names of the driver's status codes, and of the limits that it can set.

use cuda_pitfalls_calls::{CallLibrary, Constants, status};

use super::{ContextChange, EventKind, TraceEvent};

/// `CUDA_ERROR_NOT_READY`: work is still running. This is a status, not an error.
pub const NOT_READY: i64 = 600;

/// Returns the name of a driver status, or its number if it has no name.
pub fn status_name(code: i64) -> String {
    status::name(CallLibrary::Driver, code).map_or_else(|| code.to_string(), str::to_owned)
}

/// Returns the name of a limit in `CUlimit`, such as `CU_LIMIT_STACK_SIZE`, if it has one.
pub fn limit_name(limit: i32) -> Option<&'static str> {
    let mut all = Constants::all().iter();
    let limits = all.find(|constants| constants.name == "CUlimit")?;
    let mut values = limits.values.iter();
    let (name, _) = values.find(|(_, value)| *value == i64::from(limit))?;
    Some(name)
}

/// Returns `true` if a status is an error.
pub fn is_error(status: i64) -> bool {
    status != 0 && status != NOT_READY
}

impl TraceEvent {
    /// Returns `true` if the call returned an error.
    pub fn has_failed(&self) -> bool {
        match self.what {
            EventKind::Error => self.status.is_none_or(is_error),
            EventKind::InitDone { visible, .. } => visible.is_none(),
            EventKind::Context { change, .. } => change == ContextChange::Failed,
            _ => self.status.is_some_and(is_error),
        }
    }
}
