//! Opening the libraries and finding out what was really opened.
//!
//! libcuda and libcudart are opened by cudarc, by name; the private folder of links that the
//! parent put first in `LD_LIBRARY_PATH` decides which files those names mean. cudarc panics when
//! a library is missing and stays usable afterwards, so the panic is caught and said.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, OnceLock};

use super::maps;
use crate::event::MappedLibrary;
use crate::step::Library;

/// What the simulated node exports and no real library does.
const MARKER: &str = "cuda_pitfalls_simulated";

/// The address of a function, or what is missing, in words.
pub(super) fn address(library: Library, name: &str) -> Result<usize, String> {
    let open = match library {
        Library::Driver => driver()?,
        Library::Runtime => runtime()?,
        Library::Nvml => nvml()?,
        Library::Nvrtc | Library::Cublas | Library::Cufft | Library::Nccl => toolkit(library)?,
        Library::Libc => this(),
        Library::Harness => return Err(format!("{name} is not a function of a library")),
    };
    symbol(open, name).ok_or_else(|| format!("{name} ({})", library.name()))
}

/// The address of a function in a library that is open.
pub(super) fn symbol(open: &libloading::Library, name: &str) -> Option<usize> {
    let symbol = CString::new(name).ok()?;
    // SAFETY: only the address is taken; the type it is called with is the step table's.
    let found = unsafe { open.get::<*const ()>(symbol.as_bytes_with_nul()) };
    found.ok().map(|symbol| *symbol as usize)
}

/// Opens a library by its name, or by one of the versions it is installed under.
fn open(file: &str) -> Option<libloading::Library> {
    let numbered = ["13", "12", "11.0", "11"].map(|version| format!("{file}.{version}"));
    // SAFETY: opening a library runs its constructors, as in any program that uses it.
    std::iter::once(file.to_string()).chain(numbered).find_map(|name| unsafe { libloading::Library::new(name) }.ok())
}

/// Opens a library when a step says so. The simulated node stands for the first three; the toolkit
/// has no place on it.
pub(super) fn open_at_run_time(file: &str) -> Result<libloading::Library, i64> {
    if is_any_simulated() && TOOLKIT.iter().any(|(_, of_toolkit)| *of_toolkit == file) {
        return Err(crate::status::SIM_NOT_MODELLED);
    }
    open(file).ok_or(i64::from(libc::ENOENT))
}

/// Opens a private copy of the libcudart in use: an instance of its own, on the same driver.
pub(super) fn open_copy() -> Result<libloading::Library, i64> {
    let errno = |error: std::io::Error| i64::from(error.raw_os_error().unwrap_or(libc::EIO));
    runtime().map_err(|_| i64::from(libc::ENOENT))?;
    let original = mapped().known.into_iter().find(|library| library.name == Library::Runtime.name());
    // The simulated node is driver and runtime in one, so that a copy of it would be another node.
    let Some(original) = original else { return Err(crate::status::SIM_NOT_MODELLED) };
    let file =
        rustix::fs::memfd_create("libcudart", rustix::fs::MemfdFlags::CLOEXEC).map_err(|error| errno(error.into()))?;
    let mut file = std::fs::File::from(file);
    let mut source = std::fs::File::open(&original.path).map_err(errno)?;
    std::io::copy(&mut source, &mut file).map_err(errno)?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    // SAFETY: as any opening; the file in memory is read before it is closed.
    unsafe { libloading::Library::new(path) }.map_err(|_| i64::from(libc::ENOENT))
}

/// A library of the toolkit. The simulated node has none, and the machine's own would take it for
/// a GPU.
fn toolkit(library: Library) -> Result<&'static libloading::Library, String> {
    static OPEN: Mutex<BTreeMap<Library, &'static libloading::Library>> = Mutex::new(BTreeMap::new());
    let mut known = super::lock(&OPEN);
    if let Some(open) = known.get(&library) {
        return Ok(open);
    }
    let _ = driver()?;
    let found = if is_any_simulated() {
        None
    } else {
        open(TOOLKIT.iter().find(|(of, _)| *of == library).map_or("", |it| it.1))
    };
    let found: &'static libloading::Library = Box::leak(Box::new(found.ok_or_else(|| library.name().to_string())?));
    known.insert(library, found);
    Ok(found)
}

/// The files of the toolkit's libraries.
const TOOLKIT: [(Library, &str); 4] = [
    (Library::Nvrtc, "libnvrtc.so"),
    (Library::Cublas, "libcublas.so"),
    (Library::Cufft, "libcufft.so"),
    (Library::Nccl, "libnccl.so.2"),
];

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

/// What this process has mapped of the libraries of interest.
#[derive(Default)]
pub(super) struct Mapped {
    /// Those whose origin is known, with links resolved.
    pub(super) known: Vec<MappedLibrary>,
    /// Files of which it could not be told whether they are the simulated machine's. They are
    /// neither real nor simulated, and nothing may be measured on them.
    pub(super) unknown: Vec<String>,
}

/// The libraries of interest that are mapped, with links resolved.
pub(super) fn mapped() -> Mapped {
    let mut mapped = Mapped::default();
    let Ok(maps) = std::fs::read("/proc/self/maps") else {
        mapped.unknown.push("/proc/self/maps could not be read".to_string());
        return mapped;
    };
    let mut paths: Vec<Vec<u8>> = maps::paths(&maps).collect();
    paths.dedup();
    for path in paths {
        let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(&path);
        let library = match file {
            _ if file.starts_with(b"libcudart") => Library::Runtime,
            _ if file.starts_with(b"libcuda.") => Library::Driver,
            _ if file.starts_with(b"libnvidia-ml") => Library::Nvml,
            _ if file.starts_with(b"libcuda_pitfalls_sim") => Library::Driver,
            _ => continue,
        };
        let unescaped = maps::unescaped(&path);
        let known = [&unescaped, &path].into_iter().find_map(|path| Some((path, is_simulated(path)?)));
        // A report is text: bytes that are none are shown as what stands for them.
        let shown = String::from_utf8_lossy(known.map_or(&unescaped, |(path, _)| path)).into_owned();
        match known {
            Some((_, simulated)) if !mapped.known.iter().any(|known| known.path == shown) => {
                let name = if simulated { "simulated node" } else { library.name() };
                mapped.known.push(MappedLibrary { name: name.to_string(), path: shown, simulated });
            }
            Some(_) => {}
            None => mapped.unknown.push(shown),
        }
    }
    mapped
}

/// Whether this worker runs on the simulated machine. What is unknown counts as simulated here: a
/// step that only a real driver can answer is then not made.
pub(super) fn is_any_simulated() -> bool {
    let mapped = mapped();
    !mapped.unknown.is_empty() || mapped.known.iter().any(|library| library.simulated)
}

/// Whether a library that is already mapped carries the simulated machine's marker; none if the
/// loader does not know it by this path, so that nobody can tell.
fn is_simulated(path: &[u8]) -> Option<bool> {
    use libloading::os::unix::{Library, RTLD_LAZY};
    const RTLD_NOLOAD: i32 = 4;
    // SAFETY: with RTLD_NOLOAD nothing is loaded and no constructor runs.
    let library = unsafe { Library::open(Some(OsStr::from_bytes(path)), RTLD_LAZY | RTLD_NOLOAD) }.ok()?;
    // SAFETY: only the presence of the symbol is asked for.
    Some(unsafe { library.get::<*const ()>(MARKER.as_bytes()) }.is_ok())
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
