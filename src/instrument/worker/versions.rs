//! The versions of the libraries, read in a separate process with calls that initialise nothing.

use std::ffi::OsString;

use super::call;
use super::library;
use crate::mapped::mapped;
use cuda_pitfalls_calls::CallLibrary;
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::Versions;

/// Opens the libraries by name (or a libcudart by path), asks for their versions, and sends them.
///
/// # Safety
/// `fd` must be this process's end of a channel, inherited and without another owner.
pub unsafe fn run(fd: i32, libcudart: Option<OsString>) -> ! {
    // SAFETY: the caller guarantees the descriptor.
    let channel = unsafe { Channel::inherited(fd) };
    let mut found = Versions::default();
    found.cuda_driver = version(library::address(CallLibrary::Driver, "cuDriverGetVersion"), &mut found.missing);
    let runtime = match &libcudart {
        Some(path) => by_path(path),
        None => library::address(CallLibrary::Runtime, "cudaRuntimeGetVersion"),
    };
    found.runtime = version(runtime, &mut found.missing);
    if let Err(what) = library::address(CallLibrary::Nvml, "nvmlInit_v2") {
        found.missing.push(what);
    }
    let mapped = mapped();
    (found.libraries, found.unknown) = (mapped.known, mapped.unknown);
    let _ = channel.send(&found);
    std::process::exit(0)
}

fn by_path(path: &OsString) -> Result<usize, String> {
    // SAFETY: opening libcudart runs its constructors, as in any program that links it.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
    // SAFETY: only the address is taken.
    let address = unsafe { library.get::<*const ()>(b"cudaRuntimeGetVersion\0") }.map(|symbol| *symbol as usize);
    // The process ends soon, and the address must stay valid until then.
    std::mem::forget(library);
    address.map_err(|error| error.to_string())
}

fn version(address: Result<usize, String>, missing: &mut Vec<String>) -> Option<i32> {
    let address = match address {
        Ok(address) => address,
        Err(what) => {
            missing.push(what);
            return None;
        }
    };
    let mut number = 0i32;
    // SAFETY: both functions take a pointer to an int.
    let result = unsafe { call::raw(address, &[(&raw mut number).addr() as u64]) } as u32;
    (result == 0).then_some(number)
}
