//! Meaning of the status of a call for its row: after an error, the row only contains what the call did before the
//! error.

use cuda_pitfalls_calls::status;

use super::CallRow;

/// Meaning of the status of a call for the rest of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallAnswer {
    /// The call succeeded.
    Succeeded,
    /// The library was not initialized, and the call did not check its arguments.
    NotInitialised,
    /// The library, driver or GPU does not support the call.
    NotSupported,
    /// Another error: the call may do more with other arguments.
    Refused,
}

impl CallRow {
    /// Returns the C function: the row's name without the suffix that distinguishes several rows of one function.
    pub fn function(&self) -> &str {
        self.call
            .split_once('-')
            .map_or(self.call.as_str(), |(function, _)| function)
    }

    /// Returns the meaning of the status of the call; `None` if nothing was measured or if attempts differ.
    pub fn answer(&self) -> Option<CallAnswer> {
        if self.standing.unmeasured.is_some()
            || self
                .standing
                .disagreement
                .iter()
                .any(|fact| fact == "status")
        {
            return None;
        }
        Some(match self.status.as_deref() {
            // Calls that return text, or open a library, have no status.
            None => CallAnswer::Succeeded,
            Some(name) if status::is_success(name) => CallAnswer::Succeeded,
            Some(name) if NOT_INITIALISED.contains(&name) => CallAnswer::NotInitialised,
            Some(name) if NOT_SUPPORTED.contains(&name) => CallAnswer::NotSupported,
            Some(_) => CallAnswer::Refused,
        })
    }

    /// Returns `true` if earlier calls had initialized the driver, in every attempt.
    pub fn is_initialised_before(&self) -> bool {
        !self.before.is_empty()
            && !self.seen.is_empty()
            && self
                .seen
                .iter()
                .all(|attempt| attempt.initialised_before == Some(true))
    }
}

/// Statuses of calls whose library is not initialized.
const NOT_INITIALISED: [&str; 2] = ["CUDA_ERROR_NOT_INITIALIZED", "NVML_ERROR_UNINITIALIZED"];
/// Statuses of calls that the library, driver or GPU does not support, whatever the arguments.
const NOT_SUPPORTED: [&str; 4] = [
    "CUDA_ERROR_NOT_SUPPORTED",
    "cudaErrorNotSupported",
    "cudaErrorCallRequiresNewerDriver",
    "NVML_ERROR_NOT_SUPPORTED",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::calls::fixture::row;

    #[test]
    fn an_error_is_told_from_success_and_from_a_library_that_is_not_initialised() {
        let of = |status: Option<&str>| {
            CallRow {
                status: status.map(str::to_string),
                ..row("13.0", true, false)
            }
            .answer()
        };
        assert_eq!(of(Some("cudaSuccess")), Some(CallAnswer::Succeeded));
        assert_eq!(of(Some("cudaErrorInvalidValue")), Some(CallAnswer::Refused));
        assert_eq!(
            of(Some("60001")),
            Some(CallAnswer::Refused),
            "a code without a name is no success"
        );
        assert_eq!(
            of(Some("CUDA_ERROR_NOT_INITIALIZED")),
            Some(CallAnswer::NotInitialised)
        );
        assert_eq!(
            of(Some("cudaErrorCallRequiresNewerDriver")),
            Some(CallAnswer::NotSupported)
        );
        assert_eq!(
            of(None),
            Some(CallAnswer::Succeeded),
            "a text comes without a status"
        );
        let mut differs = row("13.0", true, false);
        (differs.status, differs.standing.disagreement) = (None, vec!["status".to_string()]);
        assert_eq!(differs.answer(), None);
    }

    #[test]
    fn every_library_has_its_success_and_a_row_its_function() {
        for library in cuda_pitfalls_calls::CallLibrary::ALL {
            let name = cuda_pitfalls_calls::status::name(library, 0).expect("a name");
            assert!(status::is_success(name), "{name}");
        }
        let row = CallRow {
            call: "cudaFree-nothing".into(),
            ..row("13.0", true, false)
        };
        assert_eq!(row.function(), "cudaFree");
    }
}
