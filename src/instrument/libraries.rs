//! The libcuda, libcudart and NVML of a run. The system's loader finds them. Then a private directory of links, which
//! every child searches first, fixes the choice.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use cuda_pitfalls_calls::CallLibrary;

use crate::hook;
use crate::mapped;
use crate::supervisor::{self, SupervisorError};
use crate::traced;
use cuda_pitfalls_core::event::Versions;
use cuda_pitfalls_core::machine::Runtime;
use cuda_pitfalls_core::owner::is_anothers;
use cuda_pitfalls_core::text::versions::{self, Version};

/// Directories that are searched for libcudart if the loader does not find it: it is not part of the driver.
const RUNTIME_PLACES: [&str; 6] = [
    "/usr/local/cuda/lib64/libcudart.so.*",
    "/usr/local/cuda/targets/*/lib/libcudart.so.*",
    "/usr/local/cuda-*/lib64/libcudart.so.*",
    "/opt/cuda/lib64/libcudart.so.*",
    "/usr/lib/python3*/site-packages/nvidia/*/lib/libcudart.so.*",
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcudart.so.*",
];

/// The machine of a run, as in `--on`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum On {
    /// The GPUs of this machine.
    #[default]
    Cuda,
    /// The GPUs of this machine, or the simulated machine if this one has no GPUs.
    Auto,
    /// A simulated machine, by name or file; `None` is the default machine.
    Sim(Option<String>),
}

/// The library with which a libcuda compiles PTX.
const COMPILER_OF_LIBCUDA: &str = "libnvidia-ptxjitcompiler.so*";
/// File names of the libraries that complete a libcuda. Those of its version are in the same directory.
const PARTS_OF_LIBCUDA: &str = "libnvidia-*.so*";

/// The real libraries of this machine.
#[derive(Debug, Default)]
pub struct Libraries {
    /// The libraries that the loader found, or the libcuda that was wanted.
    pub found: Versions,
    /// The folder of the libcuda that was wanted; `None` if the loader chose.
    pub beside: Option<PathBuf>,
    /// The libcudarts to use; empty if none was found.
    pub runtimes: Vec<Runtime>,
}

/// Finds the libraries in separate processes, because the parent loads none of them. `wanted` are paths of libcudarts.
/// `libcuda` is the path of a libcuda, such as the one in a compatibility package.
///
/// # Errors
/// Returns an error if a process could not be started or did not answer, or if a given path is not a library.
pub fn find(
    program: &Path,
    home: &Path,
    wanted: &[PathBuf],
    libcuda: Option<&Path>,
) -> Result<Libraries, SupervisorError> {
    let (found, beside) = match libcuda {
        Some(libcuda) => {
            let (found, beside) = with_libcuda(program, home, libcuda)?;
            (found, Some(beside))
        }
        None => (supervisor::versions(program, None, home, None)?, None),
    };
    let mut runtimes = Vec::new();
    for path in wanted {
        let runtime = look_at(program, home, path)?;
        runtimes.push(runtime.ok_or_else(|| {
            SupervisorError::Missing(vec![format!("a libcudart at {}", path.display())])
        })?);
    }
    if wanted.is_empty() {
        let mapped = found
            .libraries
            .iter()
            .find(|library| library.name == "libcudart");
        if let (Some(library), Some(number)) = (mapped, found.runtime) {
            runtimes.push(runtime(&library.path, Some(number)));
        } else if let Some(path) = find_usual_libcudart(program) {
            runtimes.extend(look_at(program, home, &path)?);
        }
    }
    Ok(Libraries {
        found,
        beside,
        runtimes,
    })
}

/// Returns the libraries with the libcuda at a path in place of the one that the loader finds, and that libcuda's
/// directory.
fn with_libcuda(
    program: &Path,
    home: &Path,
    path: &Path,
) -> Result<(Versions, PathBuf), SupervisorError> {
    let file = path
        .canonicalize()
        .map_err(|error| no_libcuda(path, &error.to_string()))?;
    let links = home.join("libcuda");
    std::fs::create_dir(&links)
        .and_then(|()| link_names(CallLibrary::Driver, &links, &file))
        .map_err(SupervisorError::from_system)?;
    let found = supervisor::versions(program, Some(&links), home, None)?;
    if found.libcuda().is_none_or(|mapped| mapped != file) {
        let why = match found.libcuda() {
            Some(_) => "the loader took another file, or its name is not libcuda.so",
            None => "the loader cannot load this file",
        };
        return Err(no_libcuda(path, why));
    }
    if found.libraries.iter().any(|library| library.simulated) {
        return Err(no_libcuda(
            path,
            "it belongs to the simulated machine; use `--on sim` to run on that",
        ));
    }
    Ok((
        found,
        file.parent().map(Path::to_path_buf).unwrap_or_default(),
    ))
}

fn no_libcuda(path: &Path, why: &str) -> SupervisorError {
    SupervisorError::Missing(vec![format!("a libcuda at {}: {why}", path.display())])
}

/// Links a file under every name that a program may use to open a library.
fn link_names(library: CallLibrary, folder: &Path, target: &Path) -> io::Result<()> {
    library
        .files()
        .iter()
        .try_for_each(|name| symlink(target, folder.join(name)))
}

/// Returns the libcudart at a path; `None` if the file is not a libcudart.
fn look_at(program: &Path, home: &Path, path: &Path) -> Result<Option<Runtime>, SupervisorError> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let versions = supervisor::versions(program, None, home, Some(&path))?;
    Ok(versions
        .runtime
        .map(|number| runtime(&path.to_string_lossy(), Some(number))))
}

/// Returns a libcudart with its version number, such as 12090 for 12.9.
pub fn runtime(path: &str, number: Option<i32>) -> Runtime {
    let version = number.map(|number| format!("{}.{}", number / 1000, number % 1000 / 10));
    Runtime {
        path: path.to_string(),
        version,
        number,
    }
}

/// Returns the newest libcudart in the usual directories. The Python environment of this program comes first, because
/// it need not be activated.
fn find_usual_libcudart(program: &Path) -> Option<PathBuf> {
    let own = program
        .parent()
        .and_then(Path::parent)
        .and_then(|environment| {
            let escaped = glob::Pattern::escape(&environment.to_string_lossy());
            let place = format!("{escaped}/lib/python3*/site-packages/nvidia/*/lib/libcudart.so.*");
            newest_match(&place, |found| {
                is_installed_with(program, environment, found)
            })
        });
    let mut places = Vec::new();
    for (variable, tail) in [
        ("CUDA_HOME", "lib64/libcudart.so.*"),
        ("CUDA_PATH", "lib64/libcudart.so.*"),
        ("CONDA_PREFIX", "lib/libcudart.so.*"),
        (
            "VIRTUAL_ENV",
            "lib/python3*/site-packages/nvidia/*/lib/libcudart.so.*",
        ),
    ] {
        places.extend(
            std::env::var(variable)
                .ok()
                .map(|folder| format!("{folder}/{tail}")),
        );
    }
    places.extend(RUNTIME_PLACES.map(String::from));
    own.or_else(|| {
        places
            .iter()
            .find_map(|place| newest_match(place, |_| true))
    })
}

fn newest_match(place: &str, is_wanted: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    glob::glob(place)
        .ok()?
        .flatten()
        .filter(|found| is_wanted(found))
        .max_by_key(|found| (version_of(found), found.clone()))
}

/// Returns the version in the name of a library such as `libcudart.so.12.4.127`, links resolved.
fn version_of(library: &Path) -> Version {
    let file = library.canonicalize().unwrap_or_default();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let version = name.split_once(".so.").map(|(_, version)| version);
    version.map(versions::number).unwrap_or_default()
}

/// Returns `true` if no other user owns what is below the environment of the program. An environment without an owner,
/// such as `/tmp` for `/tmp/mine/cuda-pitfalls`, may have directories of all users.
fn is_installed_with(program: &Path, environment: &Path, found: &Path) -> bool {
    let owner = program.metadata().map(|data| data.uid()).ok();
    let below = found.ancestors().take_while(|path| *path != environment);
    let mut known = below.map(|path| path.symlink_metadata());
    known.all(|data| data.is_ok_and(|data| Some(data.uid()) == owner || !is_anothers(&data)))
}

/// Creates a directory of links to one libcuda, one NVML and one libcudart, under every name that a program may use to
/// open them. cudarc tries the unversioned names first, so no other directory may provide these.
///
/// # Errors
/// Returns an error if a link cannot be created.
pub fn link_libraries(
    folder: &Path,
    libraries: &Libraries,
    runtime: Option<&Runtime>,
) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    hook::write_hook(folder)?;
    for found in &libraries.found.libraries {
        let mut wanted = [CallLibrary::Driver, CallLibrary::Nvml].into_iter();
        let Some(library) = wanted.find(|library| library.name() == found.name) else {
            continue;
        };
        match traced::libcuda() {
            Some(traced) if library == CallLibrary::Driver => {
                link_names(library, folder, &traced)?;
            }
            _ => link_names(library, folder, Path::new(&found.path))?,
        }
    }
    if let Some(runtime) = runtime {
        link_names(CallLibrary::Runtime, folder, Path::new(&runtime.path))?;
    }
    if let Some(beside) = &libraries.beside {
        link_parts(beside, folder)?;
    }
    Ok(folder.to_path_buf())
}

/// Returns `true` if the PTX compiler that a libcuda opens by name is in the same directory. Otherwise libcuda opens
/// the driver's.
pub fn has_compiler(libcuda: &Path) -> bool {
    let folder = libcuda.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let pattern = format!("{}/{COMPILER_OF_LIBCUDA}", glob::Pattern::escape(&folder));
    glob::glob(&pattern)
        .into_iter()
        .flatten()
        .flatten()
        .next()
        .is_some()
}

/// Links the libraries that a libcuda opens by name, such as its PTX compiler, from its own folder, because those of
/// the driver have another version. NVML belongs to the driver.
fn link_parts(beside: &Path, folder: &Path) -> io::Result<()> {
    let pattern = format!(
        "{}/{PARTS_OF_LIBCUDA}",
        glob::Pattern::escape(&beside.to_string_lossy())
    );
    let parts = glob::glob(&pattern).into_iter().flatten().flatten();
    for part in parts.filter(|part| mapped::library(part.as_os_str().as_bytes()).is_none()) {
        if let Some(name) = part.file_name() {
            symlink(&part, folder.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::event::MappedLibrary;

    #[test]
    fn a_libcuda_brings_its_parts_and_leaves_nvml_to_the_driver() {
        let place = tempfile::tempdir().expect("a folder of our own");
        let (beside, links) = (place.path().join("compat [1]"), place.path().join("links"));
        std::fs::create_dir(&beside).expect("the package");
        for name in [
            "libcuda.so.580.95.05",
            "libnvidia-ptxjitcompiler.so.1",
            "libnvidia-ml.so.1",
            "README",
        ] {
            std::fs::write(beside.join(name), "").expect("a file in it");
        }
        let libcuda = beside.join("libcuda.so.580.95.05");
        let nvml = place.path().join("libnvidia-ml.so.1");
        let libraries =
            [("libcuda", &libcuda), ("libnvidia-ml", &nvml)].map(|(name, path)| MappedLibrary {
                name: name.to_string(),
                path: path.to_string_lossy().into_owned(),
                simulated: false,
            });
        let libraries = libraries.to_vec();
        let found = Versions {
            libraries,
            ..Versions::default()
        };
        let folder = link_libraries(
            &links,
            &Libraries {
                found,
                beside: Some(beside.clone()),
                runtimes: Vec::new(),
            },
            None,
        )
        .expect("a folder of links");
        let compiler = "libnvidia-ptxjitcompiler.so.1";
        let targets = ["libcuda.so.1", compiler, "libnvidia-ml.so.1", "README"]
            .map(|name| std::fs::read_link(folder.join(name)).ok());
        assert_eq!(
            targets,
            [Some(libcuda), Some(beside.join(compiler)), Some(nvml), None]
        );
    }

    #[test]
    fn newest_libcudart_is_that_of_the_highest_version() {
        let place = tempfile::tempdir().expect("a folder of our own");
        for (package, file) in [
            ("cu13", "libcudart.so.13"),
            ("cuda_runtime", "libcudart.so.12"),
            ("cuda-12.4", "libcudart.so.12.4.127"),
            ("cuda-9.2", "libcudart.so.9.2.148"),
        ] {
            let folder = place.path().join(package);
            std::fs::create_dir(&folder).expect("a package");
            std::fs::write(folder.join(file), "").expect("its library");
        }
        let newest_in = |packages: &str| {
            newest_match(&format!("{}/{packages}/*", place.path().display()), |_| {
                true
            })
            .and_then(|found| {
                found
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned())
            })
        };
        assert_eq!(newest_in("cu*"), Some("libcudart.so.13".to_owned()));
        assert_eq!(
            newest_in("cuda-*"),
            Some("libcudart.so.12.4.127".to_owned())
        );
    }

    #[test]
    fn the_libcudart_beside_the_installed_program_is_found() {
        let environment = tempfile::Builder::new()
            .prefix("an [environment] ")
            .tempdir()
            .expect("a folder of our own");
        let folder = environment
            .path()
            .join("lib/python3.12/site-packages/nvidia/cu13/lib");
        std::fs::create_dir_all(&folder).expect("below it");
        let library = folder.join("libcudart.so.13");
        std::fs::write(&library, "").expect("a file in it");
        let program = environment.path().join("bin/cuda-pitfalls");
        assert_eq!(find_usual_libcudart(&program).as_ref(), Some(&library));
        if std::os::unix::fs::chown(environment.path().join("lib"), Some(65_534), None).is_err() {
            return println!("a folder of another user is not tried: only root can make one");
        }
        assert_ne!(find_usual_libcudart(&program), Some(library));
    }
}
