//! The interpreter for Python lines: finding it, listing its packages once, and preparing it as a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::RunError;
use super::session::Session;
use cuda_pitfalls_answers::survey::python::PythonLine;
use cuda_pitfalls_core::machine::{Interpreter, Unavailable};
use cuda_pitfalls_core::python;
use cuda_pitfalls_core::scenario::{self, Scenario};
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_instrument::forwarding::{ForwardingError, ForwardingOptions};
use cuda_pitfalls_instrument::supervisor::{PythonWorker, SupervisorError, ask_python};
use cuda_pitfalls_instrument::{forwarding, traced};

/// The variable that names the interpreter if the command line does not.
const VARIABLE: &str = "CUDA_PITFALLS_PYTHON";
/// The name that is searched on PATH if no interpreter is named.
const USUAL: &str = "python3";
/// The variable with additional folders of packages.
const PACKAGES: &str = "PYTHONPATH";
const USER_PACKAGES: &str = "PYTHONUSERBASE";

impl Session {
    /// Finds the interpreter for the Python lines of these scenarios, if they have any, and its versions of the
    /// packages that they need. If no interpreter was given and none is found, the machine is recorded as lacking it.
    ///
    /// # Errors
    /// Returns an error if the given file is not an interpreter, or a file could not be accessed.
    pub(super) fn use_python(
        &mut self,
        given: Option<&Path>,
        scenarios: &[Scenario],
    ) -> Result<(), RunError> {
        if !scenarios.iter().any(Scenario::has_python_lines) {
            return Ok(());
        }
        self.find(given, |session, place| session.ask(place, scenarios))
            .map(drop)
    }

    /// Finds the interpreter of programs that run in the caller's own environment, and its versions of the packages
    /// that these lines need. If no interpreter was given and none is found, the machine is recorded as lacking it.
    pub(super) fn callers_python(
        &mut self,
        given: Option<&Path>,
        lines: &[PythonLine],
    ) -> Result<Option<PathBuf>, RunError> {
        let names: BTreeSet<String> = lines.iter().flat_map(PythonLine::packages).collect();
        let names: Vec<String> = names.into_iter().collect();
        self.find(given, |session, place| {
            let worker = session.worker(place.clone())?;
            session.machine.python = Some(ask_python(session.program(), &worker, None, &names)?);
            Ok(place)
        })
    }

    /// Finds an interpreter, and runs a query on it; `None` if no interpreter is found.
    fn find<T>(
        &mut self,
        given: Option<&Path>,
        ask: impl FnOnce(&mut Session, PathBuf) -> Result<T, PythonError>,
    ) -> Result<Option<T>, RunError> {
        let from_environment = full_variable(VARIABLE).map(PathBuf::from);
        let named = match (given, &from_environment) {
            (Some(given), _) => Some(("--python", given)),
            (None, Some(path)) => Some((VARIABLE, path.as_path())),
            (None, None) => None,
        };
        let place = on_path(named.map_or(Path::new(USUAL), |(_, path)| path));
        let found = place.and_then(|place| ask(self, place));
        match (found, named) {
            (Ok(found), _) => Ok(Some(found)),
            (Err(why), Some((how, path))) => Err(RunError::Usage(format!(
                "{how}: `{}`: {why}",
                path.display()
            ))),
            (Err(why), None) => {
                let detail = why.to_string();
                self.machine.unavailable.push(Unavailable {
                    reason: "no_python".to_string(),
                    detail,
                });
                Ok(None)
            }
        }
    }

    /// Queries the packages of the interpreter at this path.
    fn ask(&mut self, place: PathBuf, scenarios: &[Scenario]) -> Result<(), PythonError> {
        let mut worker = self.worker(place)?;
        let itself = ask_python(self.program(), &worker, None, &[])?;
        if !itself.executable.is_empty() {
            worker.executable = PathBuf::from(&itself.executable);
        }
        let mut found = ask_python(
            self.program(),
            &worker,
            Some(&self.home),
            &packages(scenarios),
        )?;
        if self.provenance == Provenance::Measured {
            self.notes.extend(take_out_builds_without_cuda(&mut found));
        }
        self.supervisor.use_python(worker);
        self.machine.python = Some(found);
        Ok(())
    }

    /// Returns the files that start a worker: its program, and the library that counts driver calls.
    fn worker(&self, executable: PathBuf) -> Result<PythonWorker, PythonError> {
        let folder = self.folder().join("python");
        fs::create_dir_all(&folder)?;
        let script = folder.join("worker.py");
        fs::write(&script, python::worker())?;
        // A trace of this run already counts the calls.
        let forwarding = match (traced::libcuda(), &self.libcuda) {
            (Some(traced), _) => Some(traced),
            (None, Some(libcuda)) => {
                let place = folder.join("cuda");
                if !place.exists() {
                    let options = ForwardingOptions {
                        all_calls: true,
                        ..ForwardingOptions::default()
                    };
                    forwarding::lay_out(&place, libcuda, b"", options, "")?;
                }
                Some(place.join(forwarding::NAME))
            }
            (None, None) => None,
        };
        let (libcuda, links) = (self.libcuda.clone(), self.simulated_links.clone());
        Ok(PythonWorker {
            executable,
            script,
            forwarding,
            libcuda,
            links,
            packages: packages_of_caller(),
        })
    }
}

/// Reasons why no interpreter can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum PythonError {
    #[error("there is no such program")]
    NoProgram,
    #[error("no `{0}` was found on PATH")]
    NotOnPath(String),
    #[error("{0}")]
    Path(io::Error),
    #[error("the worker could not be written: {0}")]
    Worker(#[from] io::Error),
    #[error(transparent)]
    Forwarding(#[from] ForwardingError),
    #[error("not a Python interpreter that can run lines: {0}")]
    Unusable(#[from] SupervisorError),
}

/// Returns the names of all packages that scenarios need, or whose versions their expectations mention.
fn packages(scenarios: &[Scenario]) -> Vec<String> {
    let mut needs = Vec::new();
    for instance in scenarios.iter().flat_map(|scenario| &scenario.instances) {
        for expectation in &instance.expect {
            needs.extend(&expectation.when.packages);
        }
        for case in &instance.cases {
            needs.extend(case.python.iter().flat_map(|python| &python.needs));
            for check in &case.expect {
                needs.extend(&check.when.packages);
            }
        }
    }
    let names = scenario::python::packages(needs.into_iter());
    names.into_iter().collect()
}

/// Removes packages that were built without CUDA, because their behavior shows nothing about CUDA. Returns a sentence
/// about each.
fn take_out_builds_without_cuda(found: &mut Interpreter) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, version) in &mut found.packages {
        // The local label of PEP 440, as in `2.9.0+cpu`.
        if let Some(version) = version.take_if(|version| version.contains("+cpu")) {
            notes.push(format!(
                "{name} {version} is built without CUDA, so it counts as not installed"
            ));
        }
    }
    notes
}

/// Returns the variables that let a worker, whose HOME differs from its caller's, find the same packages.
fn packages_of_caller() -> BTreeMap<String, OsString> {
    let mut all = BTreeMap::new();
    if let Some(packages) = full_variable(PACKAGES) {
        all.insert(PACKAGES.to_string(), packages);
    }
    if let Some(packages) = full_variable(USER_PACKAGES) {
        all.insert(USER_PACKAGES.to_string(), packages);
    } else if let Some(home) = full_variable("HOME") {
        let packages = Path::new(&home).join(".local").into_os_string();
        all.insert(USER_PACKAGES.to_string(), packages);
    }
    all
}

/// Returns the value of a variable, if it is set and is not empty.
fn full_variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns `true` if a shell that was given this word would start a program.
pub(crate) fn is_program(word: &Path) -> bool {
    on_path(word).is_ok()
}

/// Returns the path of a command as a shell finds it: on PATH, unless the name has a slash. Links are not resolved,
/// because an interpreter recognizes its virtual environment by the name it was started under.
pub(super) fn on_path(name: &Path) -> Result<PathBuf, PythonError> {
    let is_program = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    if name.components().count() > 1 {
        let path = std::path::absolute(name).map_err(PythonError::Path)?;
        return if is_program(&path) {
            Ok(path)
        } else {
            Err(PythonError::NoProgram)
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&search).map(|folder| folder.join(name));
    let found = places.find(|path| path.is_absolute() && is_program(path));
    found.ok_or_else(|| PythonError::NotOnPath(name.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_cuda_is_none() {
        let versions = [
            ("jax", "0.4.35"),
            ("local", "1.0+cuda.cpu"),
            ("torch", "2.9.0+cpu"),
            ("vision", "0.24+cpu.cxx11"),
        ];
        let packages =
            versions.map(|(name, version)| (name.to_string(), Some(version.to_string())));
        let mut found = Interpreter {
            packages: packages.into(),
            ..Interpreter::default()
        };
        let notes = take_out_builds_without_cuda(&mut found);
        assert_eq!(notes.len(), 2);
        assert_eq!(
            notes[0],
            "torch 2.9.0+cpu is built without CUDA, so it counts as not installed"
        );
        let left: Vec<&str> = found
            .packages
            .iter()
            .filter(|(_, it)| it.is_some())
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(left, ["jax", "local"]);
    }
}
