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
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_instrument::folder::Folder;
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_instrument::supervisor::{
    self, Interrupt, Supervisor, SupervisorError, signal_name,
};
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
    /// The libcuda that workers use, if there is one.
    pub(super) libcuda: Option<PathBuf>,
    /// The folder of the simulated machine's libraries.
    pub(super) simulated_links: Option<PathBuf>,
    /// A private folder for files that processes write.
    pub(super) home: PathBuf,
    /// The private folder of the run, which is removed at its end.
    folder: Folder,
}

impl Session {
    pub(super) fn set(
        options: &WorkerOptions,
        program: &Path,
        mut interrupt: Interrupt,
    ) -> Result<Session, RunError> {
        let folder = Folder::create().map_err(|error| RunError::Usage(error.to_string()))?;
        let home = folder.path().join("home");
        std::fs::create_dir(&home).map_err(|error| {
            RunError::Usage(format!(
                "cannot make `{}` (TMPDIR): {error}",
                home.display()
            ))
        })?;
        let mut notes = Vec::new();
        if traced::folder().is_some() {
            notes.push(
                "this run is traced, and so are its workers: its memory figures are no evidence"
                    .to_string(),
            );
        }
        if options.libcuda.is_some() && traced::folder().is_some() {
            let why = "--libcuda: this run is traced, and the trace has chosen the libcuda";
            return Err(RunError::Usage(why.to_string()));
        }
        let (mut links, found, runtimes, mut on) = match &options.on {
            On::Sim(_) if options.libcuda.is_some() => {
                return Err(RunError::Usage(
                    "--libcuda: the simulated machine has its own libcuda".to_string(),
                ));
            }
            On::Sim(_) if !options.libcudart.is_empty() => {
                return Err(RunError::Usage(
                    "--libcudart: the simulated machine has its own libcudart".to_string(),
                ));
            }
            On::Sim(machine) => simulated(machine.as_deref(), folder.path(), program, &home),
            On::Cuda | On::Auto => real(options, folder.path(), program, &home),
        }
        .map_err(|error| {
            if interrupt.check() {
                RunError::Interrupted(interrupt.signal().map(signal_name).unwrap_or_default())
            } else {
                error
            }
        })?;
        let mut supervisor =
            Supervisor::start(program, &links, &home, interrupt).map_err(internal_error)?;
        let (mut found, mut runtimes) = (found, runtimes);
        let usable = supervisor.sampler.inventory.is_ok() && found.cuda_driver.is_some();
        if options.on == On::Auto && !usable {
            let why = why_not(&supervisor, &found);
            notes.push(format!(
                "no usable GPU here ({why}): running on the SIMULATED machine; nothing is measured"
            ));
            (links, found, runtimes, on) = simulated(None, folder.path(), program, &home)?;
            let interrupt = std::mem::replace(&mut supervisor.interrupt, Interrupt::none());
            supervisor =
                Supervisor::start(program, &links, &home, interrupt).map_err(internal_error)?;
        }
        if options.libcuda.is_some()
            && on == "cuda"
            && let Some(libcuda) = found.libcuda()
        {
            let path = libcuda.display();
            notes.push(format!(
                "the libcuda is {path} (--libcuda); without it, the loader chooses"
            ));
            if !libraries::has_compiler(&libcuda) {
                let why = "no libnvidia-ptxjitcompiler.so lies beside that libcuda, so it takes the driver's: with that \
                           of another version, libcuda 595.99.02 crashed";
                notes.push(why.to_string());
            }
        }
        let simulated = is_simulated(&supervisor, &found, &on)?;
        let machine = machine(&supervisor, &found, &runtimes);
        let mut session = Session {
            supervisor,
            machine,
            provenance: Provenance::from_simulated(simulated),
            on,
            notes,
            runtimes,
            restrict: options.gpus.clone(),
            libcuda: found.libcuda(),
            simulated_links: simulated.then_some(links),
            home,
            folder,
        };
        session.supervisor.expect(session.provenance);
        if !simulated && session.restrict.is_none() {
            session.obey_inherited_mask();
        }
        session.supervisor.watch_gpus(session.restrict.clone());
        Ok(session)
    }

    /// Makes one attempt of an experiment. The libraries that it maps are added to the machine's.
    ///
    /// # Errors
    /// The worker could not be started, or lacks what its steps need.
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

    /// The NVML that the sampler uses; `None` if there is none.
    pub(super) fn nvml_path(&self) -> Option<PathBuf> {
        self.supervisor
            .sampler
            .inventory
            .as_ref()
            .ok()?
            .nvml_path
            .as_ref()
            .map(PathBuf::from)
    }

    pub(super) fn has_libcuda(&self) -> bool {
        self.machine.cuda_driver_version.is_some()
    }

    /// Whether there is a GPU and a driver to ask, real or simulated.
    pub(super) fn can_ask(&self) -> bool {
        self.supervisor.sampler.inventory.is_ok() && self.has_libcuda()
    }

    /// Whether the simulated machine answers because no GPU can, and not because somebody wanted it.
    pub(super) fn fell_back(&self, options: &WorkerOptions) -> bool {
        options.on == On::Auto && self.provenance == Provenance::Simulated
    }

    /// A sentence about a process that could not be ended, if there is one.
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

    /// Refuses UUIDs that the machine does not have.
    pub(super) fn check_gpus(&self, wanted: &[String]) -> Result<(), RunError> {
        let known: Vec<&str> = self
            .machine
            .gpus
            .iter()
            .map(|gpu| gpu.uuid.as_str())
            .collect();
        match wanted.iter().find(|uuid| !known.contains(&uuid.as_str())) {
            None => Ok(()),
            Some(uuid) if uuid.is_empty() => {
                Err(RunError::Usage("--gpus: a UUID is empty".to_string()))
            }
            Some(uuid) => {
                let (uuid, known) = (escape::terminal(uuid), known.join(", "));
                Err(RunError::Usage(format!(
                    "--gpus: no GPU here has the UUID `{uuid}`; this machine has: {known}"
                )))
            }
        }
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
            "CUDA_VISIBLE_DEVICES is set here: only the {} GPU(s) it names are used, and questions that need a worker \
             without a mask are skipped; unset it to ask them",
            lent.len()
        ));
        self.restrict = Some(lent);
    }
}

/// The UUIDs of the GPUs that a mask shows, by the rule of the driver: prefixes count, and a GPU that is named twice hides
/// all.
fn gpus_in_mask(mask: &str, order: Option<&str>, uuids: &[String]) -> Vec<String> {
    let visible = mask::parse(Some(mask), order, uuids).gpus;
    let named = visible.into_iter().map(|index| uuids.get(index).cloned());
    named.flatten().collect()
}

fn internal_error(trouble: SupervisorError) -> RunError {
    RunError::Internal(trouble.to_string())
}

/// The libraries of a session: the folder of links, their versions, the libcudarts with their folders of links, and
/// `cuda` or `sim:<machine>`.
type Environment = (PathBuf, Versions, Vec<(Runtime, PathBuf)>, String);

fn simulated(
    machine: Option<&str>,
    folder: &Path,
    program: &Path,
    home: &Path,
) -> Result<Environment, RunError> {
    let machine = machine.unwrap_or(defaults::MACHINE);
    let links = simulated::lay_out(machine, &folder.join("node"))
        .map_err(|error| RunError::Usage(format!("--on: {error}")))?;
    let found = supervisor::versions(program, Some(&links), home, None).map_err(internal_error)?;
    let path = links
        .join("libcudart.so")
        .canonicalize()
        .unwrap_or_default();
    let runtimes = vec![(
        libraries::runtime(&path.to_string_lossy(), found.runtime),
        links.clone(),
    )];
    Ok((links, found, runtimes, format!("sim:{machine}")))
}

fn real(
    options: &WorkerOptions,
    folder: &Path,
    program: &Path,
    home: &Path,
) -> Result<Environment, RunError> {
    let (wanted, libcuda) = (&options.libcudart, options.libcuda.as_deref());
    let libraries =
        libraries::find(program, home, wanted, libcuda).map_err(|error| match error {
            SupervisorError::Missing(what) => {
                RunError::Usage(format!("cannot load {}", what.join(", ")))
            }
            other => internal_error(other),
        })?;
    let mut runtimes = Vec::new();
    for (place, runtime) in libraries.runtimes.iter().enumerate() {
        let links = libraries::link_libraries(
            &folder.join(format!("links-{place}")),
            &libraries,
            Some(runtime),
        )
        .map_err(not_linked)?;
        runtimes.push((runtime.clone(), links));
    }
    let links = match runtimes.first() {
        Some((_, links)) => links.clone(),
        None => libraries::link_libraries(&folder.join("links"), &libraries, None)
            .map_err(not_linked)?,
    };
    Ok((links, libraries.found, runtimes, "cuda".to_string()))
}

/// Whether the loaded libraries are simulated. They decide what results are, rather than the command line. It is an
/// error if real and simulated libraries are mixed, if it is unknown which they are, or if a library is real although
/// `on` is a simulated machine.
fn is_simulated(supervisor: &Supervisor, found: &Versions, on: &str) -> Result<bool, RunError> {
    let inventory = supervisor.sampler.inventory.as_ref().ok();
    let answers = found.cuda_driver.is_some() || found.runtime.is_some() || inventory.is_some();
    let is_simulated = found
        .is_simulated(inventory.map(|inventory| inventory.simulated))
        .map_err(not_measurable)?;
    if answers && found.libraries.is_empty() {
        return Err(not_measurable(
            "a library answers that is not among those that are mapped",
        ));
    }
    if !is_simulated && on.starts_with("sim:") {
        return Err(not_measurable(format!(
            "`--on {on}`, and no simulated library is mapped"
        )));
    }
    Ok(is_simulated)
}

fn not_linked(error: std::io::Error) -> RunError {
    RunError::Internal(format!("cannot link the libraries: {error}"))
}

fn not_measurable(why: impl std::fmt::Display) -> RunError {
    RunError::Internal(format!("{why}: refusing to measure"))
}

fn why_not(supervisor: &Supervisor, found: &Versions) -> String {
    match &supervisor.sampler.inventory {
        Err(Unavailable { reason, detail }) => format!("{reason}: {detail}"),
        Ok(_) => format!("missing: {}", found.missing.join(", ")),
    }
}

fn machine(supervisor: &Supervisor, found: &Versions, runtimes: &[(Runtime, PathBuf)]) -> Machine {
    let inventory = supervisor.sampler.inventory.clone();
    let mut unavailable: Vec<Unavailable> = inventory.as_ref().err().cloned().into_iter().collect();
    let inventory = inventory.ok();
    if found.cuda_driver.is_none() {
        let detail = match found.libcuda() {
            Some(path) => format!(
                "{} did not say its version; is it the stub of a toolkit?",
                path.display()
            ),
            None => "libcuda.so.1 was not found".to_string(),
        };
        unavailable.push(Unavailable {
            reason: "no_libcuda".to_string(),
            detail,
        });
    }
    if runtimes.is_empty() {
        let detail = "no libcudart was found; name one with --libcudart".to_string();
        unavailable.push(Unavailable {
            reason: "no_libcudart".to_string(),
            detail,
        });
    }
    let mut libraries = Vec::new();
    MappedLibrary::add_missing(&mut libraries, found.libraries.iter().cloned());
    Machine {
        driver_version: inventory
            .as_ref()
            .and_then(|inventory| inventory.driver_version.clone()),
        cuda_driver_version: found.cuda_driver,
        nvml_version: inventory
            .as_ref()
            .and_then(|inventory| inventory.nvml_version.clone()),
        gpus: inventory
            .map(|inventory| inventory.gpus)
            .unwrap_or_default(),
        libraries,
        libcudart: runtimes
            .iter()
            .map(|(runtime, _)| runtime.clone())
            .collect(),
        kernel: host::kernel(),
        architecture: std::env::consts::ARCH.to_string(),
        isolation: host::detect_isolation(),
        environment: host::environment(),
        mps: host::mps_folder().is_some(),
        pci_gpus: host::pci_gpus(),
        python: None,
        unavailable,
    }
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
}
