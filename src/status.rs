//! Status codes and their C names, from tables of our own.
//!
//! Asking the libraries for a name is itself a call (libcudart's `cudaGetErrorName` runs `cuInit`
//! when it comes first), and the bindings' closed enums are undefined behaviour for a code that is
//! newer than they are. So codes stay integers, and a code that no table knows has no name.

mod driver;
mod nvml;
mod runtime;
mod toolkit;

use crate::event::Status;
use crate::step::Library;

/// What the simulated node answers where it models nothing.
pub const SIM_NOT_MODELLED: i64 = 60000;

/// What the C library's calls return, reduced to what a check can ask for.
const ERRNO: &[(i64, &str)] =
    &[(0, "OK"), (1, "EPERM"), (2, "ENOENT"), (3, "ESRCH"), (11, "EAGAIN"), (12, "ENOMEM"), (22, "EINVAL")];

fn table(library: Library) -> &'static [(i64, &'static str)] {
    match library {
        Library::Driver => driver::NAMES,
        Library::Runtime => runtime::NAMES,
        Library::Nvml => nvml::NAMES,
        Library::Nvrtc => toolkit::NVRTC,
        Library::Cublas => toolkit::CUBLAS,
        Library::Cufft => toolkit::CUFFT,
        Library::Nccl => toolkit::NCCL,
        Library::Libc | Library::Harness => ERRNO,
    }
}

/// A code with its name in the library that returned it.
pub fn named(library: Library, code: i64) -> Status {
    let name = table(library).iter().find(|(known, _)| *known == code).map(|(_, name)| (*name).to_string());
    Status { code, name }
}

/// Every status name of every library.
pub fn names() -> impl Iterator<Item = &'static str> {
    Library::ALL.into_iter().flat_map(table).map(|(_, name)| *name)
}

/// Whether some library has a status of this name.
pub fn known(name: &str) -> bool {
    names().any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_newer_than_the_tables_keeps_its_number() {
        assert_eq!(named(Library::Driver, 4242), Status { code: 4242, name: None });
    }

    #[test]
    fn the_codes_this_project_lives_by() {
        assert_eq!(named(Library::Driver, 3).name.as_deref(), Some("CUDA_ERROR_NOT_INITIALIZED"));
        assert_eq!(named(Library::Driver, 201).name.as_deref(), Some("CUDA_ERROR_INVALID_CONTEXT"));
        assert_eq!(named(Library::Runtime, 35).name.as_deref(), Some("cudaErrorInsufficientDriver"));
        assert_eq!(named(Library::Nvml, 6).name.as_deref(), Some("NVML_ERROR_NOT_FOUND"));
    }

    #[test]
    fn codes_are_sorted_and_unique() {
        for library in Library::ALL {
            assert!(table(library).windows(2).all(|pair| pair[0].0 < pair[1].0), "{library:?}");
        }
    }
}
