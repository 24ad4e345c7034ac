//! The session of a run: the real or simulated machine, its libraries, and the sampler.

use std::path::{Path, PathBuf};

use super::error::RunError;
use super::options::WorkerOptions;
use crate::host;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::event::{MappedLibrary, Versions};
use cuda_pitfalls_core::experiment::Experiment;
use cuda_pitfalls_core::machine::{Machine, Runtime, Unavailable};
use cuda_pitfalls_core::mask;
use cuda_pitfalls_core::recording::Recording;
use cuda_pitfalls_core::scenario::sha256_hex;
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_instrument::folder::Folder;
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_instrument::supervisor::{self, Interrupt, Supervisor, SupervisorError};
use cuda_pitfalls_instrument::{libraries, simulated, traced};

/// Everything that lasts while scenarios run.
pub(super) struct Session {
    pub(super) supervisor: Supervisor,
    pub(super) machine: Machine,
    pub(super) provenance: Provenance,
    /// `cuda` or `sim:<machine>`.
    pub(super) on: String,
    /// Notes for the user, printed before the first scenario and stored in the report.
    pub(super) notes: Vec<String>,
    /// The libcudarts, each with its folder of links.
    pub(super) runtimes: Vec<(Runtime, PathBuf)>,
    /// UUIDs of the GPUs that may be used; `None` for all.
    pub(super) restrict: Option<Vec<String>>,
    /// The libcuda that workers use, if one was found.
    pub(super) libcuda: Option<PathBuf>,
    /// The folder of the simulated machine's libraries.
    pub(super) simulated_links: Option<PathBuf>,
    /// A private folder for files that processes write.
    pub(super) home: PathBuf,
    /// The private folder of the run, which is removed when the run ends.
    folder: Folder,
}

/// Starts processes of this program, and receives Ctrl-C.
pub(super) struct Launcher {
    program: PathBuf,
    interrupt: Interrupt,
}

impl Launcher {
    /// Returns a launcher with the path of this binary, which workers run too, and installs handlers for the signals
    /// that end a run early.
    pub(super) fn install() -> Result<Launcher, RunError> {
        let installed =
            std::env::current_exe().and_then(|program| Ok((program, Interrupt::install()?)));
        let (program, interrupt) =
            installed.map_err(|error| RunError::Internal(error.to_string()))?;
        Ok(Launcher { program, interrupt })
    }
}

impl Session {
    /// Finds the machine that the options name, lays out its libraries, and starts the sampler.
    pub(super) fn open_machine(
        options: &WorkerOptions,
        launcher: Launcher,
    ) -> Result<Session, RunError> {
        let Launcher {
            program,
            mut interrupt,
        } = launcher;
        refuse_other_libraries(options)?;
        let place = Workplace::make_for(program)?;
        let found = match &options.on {
            On::Sim(machine) => place.lay_out_simulated(machine.as_deref()),
            On::Cuda | On::Auto => place.find_real(options),
        };
        let mut libraries = match found {
            Err(_) if interrupt.check() => return Err(RunError::stopped_by(&interrupt)),
            found => found?,
        };
        let mut supervisor = place.start_supervisor(&libraries, interrupt)?;
        let mut notes = Vec::new();
        if traced::folder().is_some() {
            let note =
                "this run and its workers are traced, so its memory figures are not reliable";
            notes.push(note.to_string());
        }
        if options.on == On::Auto
            && let Some(why) = libraries.why_unusable(&supervisor)
        {
            notes.push(format!(
                "no usable GPU here ({why}): running on the SIMULATED machine; nothing is measured"
            ));
            libraries = place.lay_out_simulated(None)?;
            let interrupt = std::mem::replace(&mut supervisor.interrupt, Interrupt::none());
            supervisor = place.start_supervisor(&libraries, interrupt)?;
        }
        let is_simulated = libraries.are_simulated(&supervisor)?;
        let mut machine = describe_machine(&supervisor, &libraries);
        if options.libcuda.is_some() && libraries.on == "cuda" {
            notes.extend(libraries.notes_on_libcuda());
            machine.libcuda_sha256 = libraries.libcuda_sha256();
        }
        let mut session = Session {
            supervisor,
            machine,
            provenance: Provenance::from_simulated(is_simulated),
            notes,
            restrict: None,
            libcuda: libraries.found.libcuda(),
            on: libraries.on,
            runtimes: libraries.runtimes,
            simulated_links: is_simulated.then_some(libraries.links),
            home: place.home,
            folder: place.folder,
        };
        session.supervisor.expect(session.provenance);
        session.restrict_gpus(options)?;
        Ok(session)
    }

    /// Restricts the run to the GPUs that the command line or an inherited mask names.
    fn restrict_gpus(&mut self, options: &WorkerOptions) -> Result<(), RunError> {
        if let Some(wanted) = &options.gpus {
            self.restrict_to(wanted)?;
        } else if self.provenance == Provenance::Measured {
            self.obey_inherited_mask();
        }
        self.supervisor.watch_gpus(self.restrict.clone());
        Ok(())
    }

    /// Makes one attempt of an experiment. The libraries that it maps are added to the machine's.
    ///
    /// # Errors
    /// Returns an error if the worker could not be started, or lacks something that its steps need.
    pub(super) fn record_attempt(
        &mut self,
        experiment: &Experiment,
    ) -> Result<Recording, SupervisorError> {
        let recording = self.supervisor.record_attempt(experiment)?;
        MappedLibrary::add_missing(
            &mut self.machine.libraries,
            recording.libraries.iter().cloned(),
        );
        Ok(recording)
    }

    pub(super) fn program(&self) -> &Path {
        self.supervisor.program()
    }

    pub(super) fn has_libcuda(&self) -> bool {
        self.machine.cuda_driver_version.is_some()
    }

    /// Returns `true` if there is a GPU and a driver to run on, real or simulated.
    pub(super) fn can_ask(&self) -> bool {
        self.supervisor.sampler.inventory.is_ok() && self.has_libcuda()
    }

    /// Returns `true` if the machine to run on is the requested one: not the simulated machine as a replacement for a
    /// GPU that cannot be used.
    pub(super) fn answers_as_wanted(&self, options: &WorkerOptions) -> bool {
        let fell_back = options.on == On::Auto && self.provenance == Provenance::Simulated;
        self.can_ask() && !fell_back
    }

    /// Returns a sentence about a process that could not be ended, if there is one.
    pub(super) fn unkillable_process(&self) -> Option<String> {
        self.supervisor
            .unkillable_pid()
            .map(|pid| format!("process {pid} could not be killed"))
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn use_runtime(&mut self, place: usize) {
        if let Some((_, links)) = self.runtimes.get(place) {
            self.supervisor.use_links(links);
        }
    }

    pub(super) fn runtime(&self, place: usize) -> Option<Runtime> {
        self.runtimes.get(place).map(|(runtime, _)| runtime.clone())
    }

    /// Returns the UUIDs of the GPUs that this run may use.
    pub(super) fn usable_gpus(&self) -> Vec<String> {
        if let Some(lent) = &self.restrict {
            return lent.clone();
        }
        let gpus = self.machine.gpus.iter();
        gpus.map(|gpu| gpu.uuid.clone()).collect()
    }

    /// Restricts the run to GPUs of this machine. A mask that lists a GPU twice hides all, so each is listed once.
    ///
    /// # Errors
    /// Returns an error if the machine has no such GPU.
    fn restrict_to(&mut self, wanted: &[String]) -> Result<(), RunError> {
        let gpus = self.machine.gpus.iter();
        let known: Vec<&str> = gpus.map(|gpu| gpu.uuid.as_str()).collect();
        let mut lent: Vec<String> = Vec::new();
        for uuid in wanted {
            if uuid.is_empty() {
                return Err(RunError::Usage("--gpus: a UUID is empty".to_string()));
            }
            if !known.contains(&uuid.as_str()) {
                let (uuid, known) = (escape::terminal(uuid), known.join(", "));
                return Err(RunError::Usage(format!(
                    "--gpus: no GPU here has the UUID `{uuid}`; this machine has: {known}"
                )));
            }
            if !lent.contains(uuid) {
                lent.push(uuid.clone());
            }
        }
        self.restrict = Some(lent);
        Ok(())
    }

    /// Restricts the run to the GPUs of an inherited CUDA_VISIBLE_DEVICES, which a scheduler may have set.
    fn obey_inherited_mask(&mut self) {
        let Some(mask) = self.machine.environment.get("CUDA_VISIBLE_DEVICES") else {
            return;
        };
        let order = self.machine.environment.get("CUDA_DEVICE_ORDER");
        let gpus = self.machine.gpus.iter();
        let uuids: Vec<String> = gpus.map(|gpu| gpu.uuid.clone()).collect();
        let lent = gpus_in_mask(mask, order.map(String::as_str), &uuids);
        self.notes.push(format!(
            "CUDA_VISIBLE_DEVICES is set, so only the {} GPU(s) that it selects are used, and questions that need a worker without a mask are skipped; unset it to run them",
            lent.len()
        ));
        self.restrict = Some(lent);
    }
}

/// Returns the UUIDs of the GPUs that a mask shows, by the driver's rule: prefixes count, and a GPU that is listed
/// twice hides all.
fn gpus_in_mask(mask: &str, order: Option<&str>, uuids: &[String]) -> Vec<String> {
    let visible = mask::parse(Some(mask), order, uuids).gpus;
    let named = visible.into_iter().map(|index| uuids.get(index).cloned());
    named.flatten().collect()
}

fn internal_error(trouble: SupervisorError) -> RunError {
    RunError::Internal(trouble.to_string())
}

/// Rejects libraries that do not belong to the machine.
fn refuse_other_libraries(options: &WorkerOptions) -> Result<(), RunError> {
    let is_simulated = matches!(options.on, On::Sim(_));
    let why = if options.libcuda.is_some() && traced::folder().is_some() {
        "--libcuda: this run is traced, and the trace has chosen the libcuda"
    } else if options.libcuda.is_some() && is_simulated {
        "--libcuda: the simulated machine has its own libcuda"
    } else if !options.libcudart.is_empty() && is_simulated {
        "--libcudart: the simulated machine has its own libcudart"
    } else {
        return Ok(());
    };
    Err(RunError::Usage(why.to_string()))
}

/// Directories where processes of a run find and write files.
struct Workplace {
    program: PathBuf,
    folder: Folder,
    home: PathBuf,
}

impl Workplace {
    fn make_for(program: PathBuf) -> Result<Workplace, RunError> {
        let folder = Folder::create().map_err(|error| RunError::Usage(error.to_string()))?;
        let home = folder.path().join("home");
        if let Err(error) = std::fs::create_dir(&home) {
            let home = home.display();
            return Err(RunError::Usage(format!(
                "cannot make `{home}` (TMPDIR): {error}"
            )));
        }
        Ok(Workplace {
            program,
            folder,
            home,
        })
    }

    fn lay_out_simulated(&self, named: Option<&str>) -> Result<FoundLibraries, RunError> {
        let machine = named.unwrap_or(defaults::MACHINE);
        let links = simulated::lay_out(machine, &self.folder.path().join("node"))
            .map_err(|error| RunError::Usage(format!("--on: {error}")))?;
        let found = supervisor::versions(&self.program, Some(&links), &self.home, None)
            .map_err(internal_error)?;
        let libcudart = links.join("libcudart.so");
        let path = libcudart.canonicalize().unwrap_or_default();
        let runtime = libraries::runtime(&path.to_string_lossy(), found.runtime);
        Ok(FoundLibraries {
            runtimes: vec![(runtime, links.clone())],
            links,
            found,
            on: format!("sim:{machine}"),
        })
    }

    fn find_real(&self, options: &WorkerOptions) -> Result<FoundLibraries, RunError> {
        let (wanted, libcuda) = (&options.libcudart, options.libcuda.as_deref());
        let libraries = libraries::find(&self.program, &self.home, wanted, libcuda).map_err(
            |error| match error {
                SupervisorError::Missing(what) => {
                    RunError::Usage(format!("cannot load {}", what.join(", ")))
                }
                other => internal_error(other),
            },
        )?;
        let link = |name: &str, runtime| {
            let folder = self.folder.path().join(name);
            libraries::link_libraries(&folder, &libraries, runtime)
                .map_err(|error| RunError::Internal(format!("cannot link the libraries: {error}")))
        };
        let mut runtimes = Vec::new();
        for (place, runtime) in libraries.runtimes.iter().enumerate() {
            let links = link(&format!("links-{place}"), Some(runtime))?;
            runtimes.push((runtime.clone(), links));
        }
        let links = match runtimes.first() {
            Some((_, links)) => links.clone(),
            None => link("links", None)?,
        };
        Ok(FoundLibraries {
            links,
            found: libraries.found,
            runtimes,
            on: "cuda".to_string(),
        })
    }

    fn start_supervisor(
        &self,
        libraries: &FoundLibraries,
        interrupt: Interrupt,
    ) -> Result<Supervisor, RunError> {
        Supervisor::start(&self.program, &libraries.links, &self.home, interrupt)
            .map_err(internal_error)
    }
}

/// The libraries of a machine, with the directories of links that lead processes to them.
struct FoundLibraries {
    links: PathBuf,
    found: Versions,
    /// The libcudarts, each with its folder of links.
    runtimes: Vec<(Runtime, PathBuf)>,
    /// `cuda` or `sim:<machine>`.
    on: String,
}

impl FoundLibraries {
    /// Returns the reason why no GPU can be used with them; `None` if one can.
    fn why_unusable(&self, supervisor: &Supervisor) -> Option<String> {
        match &supervisor.sampler.inventory {
            Err(Unavailable { reason, detail }) => Some(format!("{reason}: {detail}")),
            Ok(_) if self.found.cuda_driver.is_none() => {
                Some(format!("missing: {}", self.found.missing.join(", ")))
            }
            Ok(_) => None,
        }
    }

    /// Returns notes for the reader about a libcuda that the command line gives.
    fn notes_on_libcuda(&self) -> Vec<String> {
        let Some(libcuda) = self.found.libcuda() else {
            return Vec::new();
        };
        let path = libcuda.display();
        let mut notes = vec![format!(
            "using libcuda {path} (--libcuda) instead of the loader's"
        )];
        if !libraries::has_compiler(&libcuda) {
            let why = "there is no libnvidia-ptxjitcompiler.so next to that libcuda, so it loads the driver's; if the versions differ, it may crash, as libcuda 595.99.02 did";
            notes.push(why.to_string());
        }
        notes
    }

    /// Returns the hash of libcuda's file: the name of a library in a package does not say from which package it is.
    fn libcuda_sha256(&self) -> Option<String> {
        let bytes = std::fs::read(self.found.libcuda()?).ok()?;
        Some(sha256_hex(bytes))
    }

    /// Returns `true` if the loaded libraries are simulated. These libraries decide what results are, not the command
    /// line. It is an error if real and simulated libraries are mixed, if it is unknown which they are, or if a library
    /// is real although the machine is a simulated one.
    fn are_simulated(&self, supervisor: &Supervisor) -> Result<bool, RunError> {
        let (found, on) = (&self.found, &self.on);
        let inventory = supervisor.sampler.inventory.as_ref().ok();
        let answers = found.cuda_driver.is_some() || found.runtime.is_some() || inventory.is_some();
        let is_simulated = found
            .is_simulated(inventory.map(|inventory| inventory.simulated))
            .map_err(not_measurable)?;
        if answers && found.libraries.is_empty() {
            return Err(not_measurable(
                "an answer came from a library that is not mapped",
            ));
        }
        if !is_simulated && on.starts_with("sim:") {
            return Err(not_measurable(format!(
                "`--on {on}`, but no simulated library is mapped"
            )));
        }
        Ok(is_simulated)
    }
}

fn not_measurable(why: impl std::fmt::Display) -> RunError {
    RunError::Internal(format!("{why}: refusing to measure"))
}

fn describe_machine(supervisor: &Supervisor, libraries: &FoundLibraries) -> Machine {
    let found = &libraries.found;
    let mut machine = Machine {
        cuda_driver_version: found.cuda_driver,
        kernel: host::kernel(),
        architecture: std::env::consts::ARCH.to_string(),
        isolation: host::detect_isolation(),
        environment: host::environment(),
        mps: host::mps_folder().is_some(),
        pci_gpus: host::pci_gpus(),
        ..Machine::default()
    };
    match &supervisor.sampler.inventory {
        Ok(inventory) => {
            machine.driver_version.clone_from(&inventory.driver_version);
            machine.nvml_version.clone_from(&inventory.nvml_version);
            machine.gpus.clone_from(&inventory.gpus);
        }
        Err(unavailable) => machine.unavailable.push(unavailable.clone()),
    }
    let mut lack = |reason: &str, detail: String| {
        machine.unavailable.push(Unavailable {
            reason: reason.to_string(),
            detail,
        });
    };
    match found.libcuda() {
        _ if found.cuda_driver.is_some() => {}
        Some(path) => lack(
            "no_libcuda",
            format!(
                "{} did not report its version; is it a toolkit's stub?",
                path.display()
            ),
        ),
        None => lack("no_libcuda", "libcuda.so.1 was not found".to_string()),
    }
    if libraries.runtimes.is_empty() {
        let why = "no libcudart was found; specify one with --libcudart";
        lack("no_libcudart", why.to_string());
    }
    for (runtime, _) in &libraries.runtimes {
        machine.libcudart.push(runtime.clone());
    }
    MappedLibrary::add_missing(&mut machine.libraries, found.libraries.iter().cloned());
    machine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherited_mask_is_read_as_the_driver_reads_it() {
        let uuids =
            ["5a", "6b"].map(|head| format!("GPU-{head}000000-0000-0000-0000-000000000000"));
        let lent = |mask| gpus_in_mask(mask, None, &uuids);
        assert_eq!(lent("GPU-6b,GPU-5a"), [uuids[1].clone(), uuids[0].clone()]);
        assert_eq!(lent("1,7,0"), [uuids[1].clone()]);
        assert_eq!(lent("0,0"), [""; 0]);
        assert_eq!(lent(""), [""; 0]);
    }
    #[test]
    fn given_libcuda_is_recorded_by_hash() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(&file, "abc").expect("the file can be written");
        let library = MappedLibrary {
            name: "libcuda".to_owned(),
            path: file.path().to_string_lossy().into_owned(),
            simulated: false,
        };
        let libraries = FoundLibraries {
            links: PathBuf::new(),
            found: Versions {
                libraries: vec![library],
                ..Versions::default()
            },
            runtimes: Vec::new(),
            on: "cuda".to_owned(),
        };
        let hash = libraries.libcuda_sha256().expect("the file can be read");
        assert!(hash.starts_with("ba7816bf8f01cfea"), "{hash}");
    }
}
