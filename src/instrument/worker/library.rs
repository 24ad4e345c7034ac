//! Opening libraries and finding functions in them.
//!
//! cudarc opens libcuda and libcudart by name. Which files these names mean is decided by the private folder of links
//! that the parent put first in `LD_LIBRARY_PATH`. cudarc panics if a library is missing, but stays usable, so the
//! panic is caught and reported.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::mapped::{is_any_simulated, mapped_libraries};
use cuda_pitfalls_calls::{CallLibrary, status::SIM_NOT_MODELLED};

/// The reason why a function cannot be called.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookupError {
    #[error("{}", .0.name())]
    Library(CallLibrary),
    #[error("{0} ({library})", library = .1.name())]
    Function(String, CallLibrary),
    #[error("{0} is not a function of a library")]
    NoLibrary(String),
    #[error(transparent)]
    File(#[from] libloading::Error),
}

/// Returns the address of a function.
///
/// # Errors
/// Returns an error if the library or the function is missing.
pub(super) fn address(library: CallLibrary, name: &str) -> Result<usize, LookupError> {
    let open = match library {
        CallLibrary::Driver => driver()?,
        CallLibrary::Runtime => runtime()?,
        CallLibrary::Nvml => nvml_library()?,
        CallLibrary::Nvrtc | CallLibrary::Cublas | CallLibrary::Cufft | CallLibrary::Nccl => {
            toolkit_library(library)?
        }
        CallLibrary::Libc => this(),
        CallLibrary::Harness => return Err(LookupError::NoLibrary(name.to_owned())),
    };
    find_symbol(open, name).ok_or_else(|| LookupError::Function(name.to_owned(), library))
}

pub(crate) fn find_symbol(open: &libloading::Library, name: &str) -> Option<usize> {
    let symbol = CString::new(name).ok()?;
    // SAFETY: only the address is taken; its type comes from the tables.
    let found = unsafe { open.get::<*const ()>(symbol.as_bytes_with_nul()) };
    found.ok().map(|symbol| *symbol as usize)
}

/// Opens a library by its name, or with one of the version numbers that installations add.
fn open(file: &str) -> Option<libloading::Library> {
    let numbered = ["13", "12", "11.0", "11"].map(|version| format!("{file}.{version}"));
    // SAFETY: opening a library runs its constructors, as in any program that uses it.
    std::iter::once(file.to_string())
        .chain(numbered)
        .find_map(|name| unsafe { libloading::Library::new(name) }.ok())
}

/// Opens a library for a step. On the simulated machine, libraries of the toolkit cannot be opened.
pub(super) fn open_at_run_time(file: &str) -> Result<libloading::Library, i64> {
    if is_any_simulated()
        && CallLibrary::TOOLKIT
            .iter()
            .any(|library| library.files().contains(&file))
    {
        return Err(SIM_NOT_MODELLED);
    }
    open(file).ok_or(i64::from(libc::ENOENT))
}

/// Opens a private copy of the current libcuda or libcudart: a separate instance on the same driver.
pub(super) fn open_copy(library: CallLibrary) -> Result<libloading::Library, i64> {
    let open = if library == CallLibrary::Driver {
        driver()
    } else {
        runtime()
    };
    open.map_err(|_| i64::from(libc::ENOENT))?;
    let original = mapped_libraries()
        .known
        .into_iter()
        .find(|mapped| mapped.name == library.name());
    // The simulated machine is driver and runtime in one library, so a copy of it would be another machine.
    let Some(original) = original else {
        return Err(SIM_NOT_MODELLED);
    };
    let file = in_memory(library.name(), &original.path)
        .map_err(|error| i64::from(error.raw_os_error().unwrap_or(libc::EIO)))?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    // SAFETY: like opening any library; the file in memory is read before it is closed.
    unsafe { libloading::Library::new(path) }.map_err(|_| i64::from(libc::ENOENT))
}

/// Copies a file into memory that only this process has.
fn in_memory(name: &str, path: &str) -> std::io::Result<std::fs::File> {
    let mut file = std::fs::File::from(rustix::fs::memfd_create(
        name,
        rustix::fs::MemfdFlags::CLOEXEC,
    )?);
    std::io::copy(&mut std::fs::File::open(path)?, &mut file)?;
    Ok(file)
}

/// Returns a library of the toolkit. The simulated machine does not provide these, and the host's own would expect a
/// real GPU.
fn toolkit_library(library: CallLibrary) -> Result<&'static libloading::Library, LookupError> {
    static OPEN: Mutex<BTreeMap<CallLibrary, &'static libloading::Library>> =
        Mutex::new(BTreeMap::new());
    let mut known = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(open) = known.get(&library) {
        return Ok(open);
    }
    let _ = driver()?;
    let found = if is_any_simulated() {
        None
    } else {
        library.files().first().and_then(|file| open(file))
    };
    let found = found.ok_or(LookupError::Library(library))?;
    let found: &'static libloading::Library = Box::leak(Box::new(found));
    known.insert(library, found);
    Ok(found)
}

/// Calls a function of cudarc that panics if a library is missing.
fn catch_panic<T>(
    library: CallLibrary,
    open: impl FnOnce() -> T + std::panic::UnwindSafe,
) -> Result<T, LookupError> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let opened = std::panic::catch_unwind(open);
    std::panic::set_hook(hook);
    opened.map_err(|_| LookupError::Library(library))
}

fn driver() -> Result<&'static libloading::Library, LookupError> {
    // SAFETY: opening libcuda runs its constructors, as in any program that links it.
    catch_panic(CallLibrary::Driver, || unsafe {
        cudarc::driver::sys::culib()
    })
}

fn runtime() -> Result<&'static libloading::Library, LookupError> {
    // SAFETY: as above, for libcudart.
    catch_panic(CallLibrary::Runtime, || unsafe {
        cudarc::runtime::sys::culib()
    })
}

fn nvml_library() -> Result<&'static libloading::Library, LookupError> {
    static NVML: OnceLock<Option<libloading::Library>> = OnceLock::new();
    // SAFETY: as above, for NVML.
    NVML.get_or_init(|| unsafe { libloading::Library::new("libnvidia-ml.so.1") }.ok())
        .as_ref()
        .ok_or(LookupError::Library(CallLibrary::Nvml))
}

fn this() -> &'static libloading::Library {
    static THIS: OnceLock<libloading::Library> = OnceLock::new();
    THIS.get_or_init(|| libloading::os::unix::Library::this().into())
}
