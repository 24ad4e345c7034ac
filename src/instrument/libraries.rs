//! Which libcuda, libcudart and NVML a run uses. The system's loader finds them; then a private folder of links, which
//! every child searches first, fixes the choice.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cuda_pitfalls_calls::CallLibrary;

use crate::hook;
use crate::supervisor::{self, SupervisorError};
use crate::traced;
use cuda_pitfalls_core::event::Versions;
use cuda_pitfalls_core::machine::Runtime;

/// Where to look for libcudart if the loader does not find it: it is not part of the driver.
const RUNTIME_PLACES: [&str; 6] = [
    "/usr/local/cuda/lib64/libcudart.so.*",
    "/usr/local/cuda/targets/*/lib/libcudart.so.*",
    "/usr/local/cuda-*/lib64/libcudart.so.*",
    "/opt/cuda/lib64/libcudart.so.*",
    "/usr/lib/python3*/site-packages/nvidia/*/lib/libcudart.so.*",
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcudart.so.*",
];

/// Where a run takes place, as in `--on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// On the GPUs of this machine.
    Cuda,
    /// On the GPUs of this machine, or on the simulated machine if there are none.
    Auto,
    /// On a simulated machine, by name or file; the default machine without either.
    Sim(Option<String>),
}

/// The real libraries of this machine.
#[derive(Debug, Default)]
pub struct Libraries {
    /// The libraries that the loader found.
    pub found: Versions,
    /// The libcudarts to use; empty if there is none.
    pub runtimes: Vec<Runtime>,
}

/// Finds the libraries in separate processes, because the parent loads none of them. `wanted` are paths of libcudarts.
///
/// # Errors
/// A process could not be started or did not answer.
pub fn find(program: &Path, home: &Path, wanted: &[PathBuf]) -> Result<Libraries, SupervisorError> {
    let found = supervisor::versions(program, None, home, None)?;
    let mut runtimes = Vec::new();
    for path in wanted {
        let runtime = look_at(program, home, path)?;
        runtimes
            .push(runtime.ok_or_else(|| SupervisorError::Missing(vec![format!("a libcudart at {}", path.display())]))?);
    }
    if wanted.is_empty() {
        let mapped = found.libraries.iter().find(|library| library.name == "libcudart");
        if let (Some(library), Some(number)) = (mapped, found.runtime) {
            runtimes.push(runtime(&library.path, Some(number)));
        } else if let Some(path) = elsewhere(program) {
            runtimes.extend(look_at(program, home, &path)?);
        }
    }
    Ok(Libraries { found, runtimes })
}

/// The libcudart at a path; `None` if the file is no libcudart.
fn look_at(program: &Path, home: &Path, path: &Path) -> Result<Option<Runtime>, SupervisorError> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let versions = supervisor::versions(program, None, home, Some(&path))?;
    Ok(versions.runtime.map(|number| runtime(&path.to_string_lossy(), Some(number))))
}

/// A libcudart with its version number, such as 12090 for 12.9.
pub fn runtime(path: &str, number: Option<i32>) -> Runtime {
    let version = number.map(|number| format!("{}.{}", number / 1000, number % 1000 / 10));
    Runtime { path: path.to_string(), version, number }
}

/// The newest libcudart in the usual places. The Python environment into which this program was installed comes first,
/// because it need not be activated.
fn elsewhere(program: &Path) -> Option<PathBuf> {
    let own = program.parent().and_then(Path::parent).map(|environment| {
        let environment = glob::Pattern::escape(&environment.to_string_lossy());
        format!("{environment}/lib/python3*/site-packages/nvidia/*/lib/libcudart.so.*")
    });
    let mut places: Vec<String> = own.into_iter().collect();
    for (variable, tail) in [
        ("CUDA_HOME", "lib64/libcudart.so.*"),
        ("CUDA_PATH", "lib64/libcudart.so.*"),
        ("CONDA_PREFIX", "lib/libcudart.so.*"),
        ("VIRTUAL_ENV", "lib/python3*/site-packages/nvidia/*/lib/libcudart.so.*"),
    ] {
        places.extend(std::env::var(variable).ok().map(|folder| format!("{folder}/{tail}")));
    }
    places.extend(RUNTIME_PLACES.map(String::from));
    places.iter().find_map(|place| {
        let mut found: Vec<PathBuf> = glob::glob(place).ok()?.flatten().collect();
        found.sort();
        found.pop()
    })
}

/// Makes a folder of links to one libcuda, one NVML and one libcudart, under every name by which a program may open
/// them. cudarc tries the unversioned names first, so no other folder may provide these.
///
/// # Errors
/// A link cannot be made.
pub fn link(folder: &Path, libraries: &Libraries, runtime: Option<&Runtime>) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    hook::put(folder)?;
    let place = |library: CallLibrary, target: &Path| -> io::Result<()> {
        library.files().iter().try_for_each(|name| symlink(target, folder.join(name)))
    };
    for found in &libraries.found.libraries {
        if let Some(library) =
            [CallLibrary::Driver, CallLibrary::Nvml].into_iter().find(|library| library.name() == found.name)
        {
            let traced = traced::libcuda().filter(|_| library == CallLibrary::Driver);
            place(library, traced.as_ref().map_or(Path::new(&found.path), |path| path.as_path()))?;
        }
    }
    if let Some(runtime) = runtime {
        place(CallLibrary::Runtime, Path::new(&runtime.path))?;
    }
    Ok(folder.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libcudart_beside_the_installed_program_is_found() {
        let environment = tempfile::Builder::new().prefix("an [environment] ").tempdir().expect("a folder of our own");
        let folder = environment.path().join("lib/python3.12/site-packages/nvidia/cu13/lib");
        std::fs::create_dir_all(&folder).expect("below it");
        let library = folder.join("libcudart.so.13");
        std::fs::write(&library, "").expect("a file in it");
        assert_eq!(elsewhere(&environment.path().join("bin/cuda-pitfalls")), Some(library));
    }
}
