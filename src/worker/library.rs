//! Opening the libraries and finding out what was really opened.
//!
//! libcuda and libcudart are opened by cudarc, by name; the private folder of links that the
//! parent put first in `LD_LIBRARY_PATH` decides which files those names mean. cudarc panics when
//! a library is missing and stays usable afterwards, so the panic is caught and said.

use std::ffi::CString;
use std::sync::OnceLock;

use crate::event::MappedLibrary;
use crate::step::Library;

/// What the simulated node exports and no real library does.
const MARKER: &str = "cuda_pitfalls_simulated";

/// The address of a function, or what is missing, in words.
pub(super) fn address(library: Library, name: &str) -> Result<usize, String> {
    let symbol = CString::new(name).map_err(|_| format!("{name:?} is no symbol"))?;
    let open = match library {
        Library::Driver => driver()?,
        Library::Runtime => runtime()?,
        Library::Nvml => nvml()?,
        Library::Libc => this(),
        Library::Harness => return Err(format!("{name} is not a function of a library")),
    };
    // SAFETY: only the address is taken; the type it is called with is the step table's.
    let found = unsafe { open.get::<*const ()>(symbol.as_bytes_with_nul()) };
    match found {
        Ok(symbol) => Ok(*symbol as usize),
        Err(_) => Err(format!("{name} ({})", library.name())),
    }
}

/// Runs something of cudarc that panics when a library is missing.
fn quietly<T>(what: Library, open: impl FnOnce() -> T + std::panic::UnwindSafe) -> Result<T, String> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let opened = std::panic::catch_unwind(open);
    std::panic::set_hook(hook);
    opened.map_err(|_| what.name().to_string())
}

fn driver() -> Result<&'static libloading::Library, String> {
    // SAFETY: opening libcuda runs its constructors, as in any program that links it.
    quietly(Library::Driver, || unsafe { cudarc::driver::sys::culib() })
}

fn runtime() -> Result<&'static libloading::Library, String> {
    // SAFETY: as above, for libcudart.
    quietly(Library::Runtime, || unsafe { cudarc::runtime::sys::culib() })
}

fn nvml() -> Result<&'static libloading::Library, String> {
    static NVML: OnceLock<Option<libloading::Library>> = OnceLock::new();
    // SAFETY: as above, for NVML.
    NVML.get_or_init(|| unsafe { libloading::Library::new("libnvidia-ml.so.1") }.ok())
        .as_ref()
        .ok_or_else(|| Library::Nvml.name().to_string())
}

fn this() -> &'static libloading::Library {
    static THIS: OnceLock<libloading::Library> = OnceLock::new();
    THIS.get_or_init(|| libloading::os::unix::Library::this().into())
}

/// The libraries of interest that are mapped, with links resolved.
pub(super) fn mapped() -> Vec<MappedLibrary> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut found: Vec<MappedLibrary> = Vec::new();
    for path in maps.lines().filter_map(|line| line.split_whitespace().nth(5)) {
        let file = path.rsplit('/').next().unwrap_or(path);
        let library = match file {
            _ if file.starts_with("libcudart") => Library::Runtime,
            _ if file.starts_with("libcuda.") => Library::Driver,
            _ if file.starts_with("libnvidia-ml") => Library::Nvml,
            _ if file.starts_with("libcuda_pitfalls_node") => Library::Driver,
            _ => continue,
        };
        if !found.iter().any(|known| known.path == path) {
            let simulated = is_simulated(path);
            let library = if simulated { "simulated node" } else { library.name() };
            found.push(MappedLibrary { library: library.to_string(), path: path.to_string(), simulated });
        }
    }
    found
}

/// Whether a library that is already mapped carries the simulated node's marker.
pub(crate) fn is_simulated(path: &str) -> bool {
    use libloading::os::unix::{Library, RTLD_LAZY};
    const RTLD_NOLOAD: i32 = 4;
    // SAFETY: with RTLD_NOLOAD nothing is loaded and no constructor runs.
    let Ok(library) = (unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_NOLOAD) }) else {
        return false;
    };
    // SAFETY: only the presence of the symbol is asked for.
    unsafe { library.get::<*const ()>(MARKER.as_bytes()) }.is_ok()
}

/// Libraries that something outside put into this process.
pub(super) fn injected() -> Vec<String> {
    let mut found = Vec::new();
    for name in ["LD_PRELOAD", "LD_AUDIT", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"] {
        if std::env::var_os(name).is_some_and(|value| !value.is_empty()) {
            found.push(name.to_string());
        }
    }
    if std::fs::read_to_string("/etc/ld.so.preload").is_ok_and(|text| !text.trim().is_empty()) {
        found.push("/etc/ld.so.preload".to_string());
    }
    found
}
