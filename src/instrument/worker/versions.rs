//! The versions of the libraries, read in a separate process with calls that initialize nothing.

use std::ffi::OsString;

use super::call;
use super::library::{self, LookupError};
use crate::mapped::mapped_libraries;
use cuda_pitfalls_calls::CallLibrary;
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::Versions;

/// Opens the libraries by name (or a libcudart by path), queries their versions, and sends them. Before each call it
/// sends the call as an error, so that the parent can identify a call that does not return.
///
/// # Safety
/// `fd` must be this process's end of a channel, inherited and without another owner.
pub unsafe fn run(fd: i32, libcudart: Option<OsString>) -> ! {
    // SAFETY: the caller guarantees the descriptor.
    let channel = unsafe { Channel::from_inherited(fd) };
    let found = read(libcudart.as_ref(), |call| {
        let _ = channel.send(&Err::<Versions, String>(call));
    });
    let _ = channel.send(&Ok::<Versions, String>(found));
    std::process::exit(0)
}

/// Returns the versions. `before` is called with the name of each call before it is made.
fn read(libcudart: Option<&OsString>, before: impl Fn(String)) -> Versions {
    let mut found = Versions::default();
    before("dlopen of libcuda".to_string());
    let driver = library::address(CallLibrary::Driver, "cuDriverGetVersion");
    before("cuDriverGetVersion".to_string());
    found.cuda_driver = version(driver, &mut found.missing);
    let runtime = match libcudart {
        Some(path) => {
            before(format!("dlopen of {}", path.to_string_lossy()));
            by_path(path)
        }
        None => {
            before("dlopen of libcudart".to_string());
            library::address(CallLibrary::Runtime, "cudaRuntimeGetVersion")
        }
    };
    before("cudaRuntimeGetVersion".to_string());
    found.runtime = version(runtime, &mut found.missing);
    before("dlopen of libnvidia-ml".to_string());
    if let Err(what) = library::address(CallLibrary::Nvml, "nvmlInit_v2") {
        found.missing.push(what.to_string());
    }
    let mapped = mapped_libraries();
    (found.libraries, found.unknown) = (mapped.known, mapped.unknown);
    found
}

fn by_path(path: &OsString) -> Result<usize, LookupError> {
    // SAFETY: opening libcudart runs its constructors, as in any program that links it.
    let library = unsafe { libloading::Library::new(path) }?;
    // SAFETY: only the address is taken.
    let address = unsafe { library.get::<*const ()>(b"cudaRuntimeGetVersion\0") }
        .map(|symbol| *symbol as usize);
    // The process ends soon, and the address must stay valid until then.
    std::mem::forget(library);
    Ok(address?)
}

fn version(address: Result<usize, LookupError>, missing: &mut Vec<String>) -> Option<i32> {
    let address = match address {
        Ok(address) => address,
        Err(what) => {
            missing.push(what.to_string());
            return None;
        }
    };
    let mut number = 0i32;
    // SAFETY: both functions take a pointer to an int.
    let result = unsafe { call::call_raw(address, &[(&raw mut number).addr() as u64]) } as u32;
    (result == 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn each_call_is_told_before_it_is_made() {
        let told = RefCell::new(Vec::new());
        let absent = tempfile::tempdir()
            .unwrap()
            .path()
            .join("libcudart.so")
            .into_os_string();
        let found = read(Some(&absent), |call| told.borrow_mut().push(call));
        assert!(
            found.runtime.is_none() && !found.missing.is_empty(),
            "{found:?}"
        );
        let opened = format!("dlopen of {}", absent.to_string_lossy());
        let calls = ["dlopen of libcuda", "cuDriverGetVersion", &opened];
        assert_eq!(
            told.into_inner(),
            [
                &calls[..],
                &["cudaRuntimeGetVersion", "dlopen of libnvidia-ml"]
            ]
            .concat()
        );
    }
}
