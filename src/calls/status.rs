//! Status codes and their C names, from our own tables.
//!
//! Querying a library for a name is itself a call: libcudart's `cudaGetErrorName` runs `cuInit` if it comes first. With
//! the closed enums of the bindings, newer codes are undefined behavior. So codes stay integers, and a code that no
//! table lists has no name.

pub mod cuda;
mod others;

use std::ffi::CStr;

use crate::library::CallLibrary;

/// The status of the simulated driver for calls that it does not model.
pub const SIM_NOT_MODELLED: i64 = 60000;

/// Returns the codes of a library, sorted, with their names.
pub fn table(library: CallLibrary) -> &'static [(u32, &'static CStr)] {
    match library {
        CallLibrary::Driver => cuda::DRIVER,
        CallLibrary::Runtime => cuda::RUNTIME,
        CallLibrary::Nvml => others::NVML,
        CallLibrary::Nvrtc => others::NVRTC,
        CallLibrary::Cublas => others::CUBLAS,
        CallLibrary::Cufft => others::CUFFT,
        CallLibrary::Nccl => others::NCCL,
        CallLibrary::Libc | CallLibrary::Harness => others::ERRNO,
    }
}

/// Returns the name of a status code of this library.
pub fn name(library: CallLibrary, code: i64) -> Option<&'static str> {
    cuda::name(table(library), u32::try_from(code).ok()?).map(text)
}

/// Returns the message of libcuda and libcudart for an error.
pub fn message(code: u32) -> Option<&'static str> {
    cuda::name(cuda::MESSAGES, code).map(text)
}

/// Returns `true` if a library has a status with this name.
pub fn has(library: CallLibrary, name: &str) -> bool {
    table(library).iter().any(|(_, known)| text(known) == name)
}

/// Returns `true` if a name means success, in any library.
pub fn is_success(name: &str) -> bool {
    CallLibrary::ALL
        .into_iter()
        .any(|library| self::name(library, 0) == Some(name))
}

/// Returns every status name of every library.
pub fn names() -> impl Iterator<Item = &'static str> {
    CallLibrary::ALL
        .into_iter()
        .flat_map(table)
        .map(|(_, name)| text(name))
}

/// Returns `true` if some library has a status with this name.
pub fn is_known(name: &str) -> bool {
    CallLibrary::ALL
        .into_iter()
        .any(|library| has(library, name))
}

/// Returns a name as text; the tables are ASCII.
fn text(name: &'static CStr) -> &'static str {
    name.to_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_newer_than_the_tables_has_no_name() {
        assert_eq!(
            (name(CallLibrary::Driver, 4242), name(CallLibrary::Libc, -1)),
            (None, None)
        );
    }

    #[test]
    fn the_codes_this_project_lives_by() {
        assert_eq!(
            name(CallLibrary::Driver, 3),
            Some("CUDA_ERROR_NOT_INITIALIZED")
        );
        assert_eq!(
            name(CallLibrary::Driver, 201),
            Some("CUDA_ERROR_INVALID_CONTEXT")
        );
        assert_eq!(
            name(CallLibrary::Runtime, 35),
            Some("cudaErrorInsufficientDriver")
        );
        assert_eq!(name(CallLibrary::Nvml, 6), Some("NVML_ERROR_NOT_FOUND"));
        assert_eq!(
            name(CallLibrary::Driver, SIM_NOT_MODELLED),
            Some("SIM_NOT_MODELLED")
        );
    }

    #[test]
    fn codes_are_sorted_and_unique_and_names_are_ascii() {
        for library in CallLibrary::ALL {
            assert!(
                table(library).is_sorted_by(|(a, _), (b, _)| a < b),
                "{library:?}"
            );
        }
        assert!(cuda::MESSAGES.is_sorted_by(|(a, _), (b, _)| a < b));
        assert!(names().all(|name| !name.is_empty() && name.is_ascii()));
    }
}
