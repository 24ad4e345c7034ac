//! The state of a supervisor: its sampler, its directories, and its information about the run.

use std::path::{Path, PathBuf};

use super::end;
use super::error::SupervisorError;
use super::interpreter::PythonWorker;
use super::sampling::SamplerClient;
use crate::interrupt::Interrupt;
use cuda_pitfalls_core::verdict::Provenance;

/// Starts and watches every process of a run. There must be only one in a process: new children count as left behind by
/// the attempt, and those of another supervisor would look the same.
pub struct Supervisor {
    pub(super) program: PathBuf,
    /// The folder of links that decides which libraries are used.
    pub(super) links: PathBuf,
    /// A private folder for files that processes write.
    pub(super) home: PathBuf,
    /// The sampler.
    pub sampler: SamplerClient,
    /// Ctrl-C and other termination signals.
    pub interrupt: Interrupt,
    /// A worker that could not be ended. No worker is started after it.
    pub(super) lost: Option<u32>,
    /// The required provenance of workers' libraries; `None` until it is known.
    pub(super) provenance: Option<Provenance>,
    /// UUIDs of the GPUs whose used memory must stabilize; `None` for all.
    pub(super) watched: Option<Vec<String>>,
    /// The way to run Python lines; `None` if no interpreter is available or needed.
    pub(super) python: Option<PythonWorker>,
}

impl Supervisor {
    /// Starts the sampler with the libraries in `links`. If it cannot be started, its inventory has the reason.
    ///
    /// # Errors
    /// Returns an error if orphans of workers cannot be adopted.
    pub fn start(
        program: &Path,
        links: &Path,
        home: &Path,
        interrupt: Interrupt,
    ) -> Result<Supervisor, SupervisorError> {
        end::adopt_orphans()?;
        let sampler = SamplerClient::start(program, links, home);
        Ok(Supervisor {
            program: program.to_path_buf(),
            links: links.to_path_buf(),
            home: home.to_path_buf(),
            sampler,
            interrupt,
            lost: None,
            provenance: None,
            watched: None,
            python: None,
        })
    }

    /// Returns the path of this program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the PID of a worker or a sampler that could not be ended, if any.
    pub fn unkillable_pid(&self) -> Option<u32> {
        self.lost.or(self.sampler.unkillable.map(i32::unsigned_abs))
    }

    /// Sets the provenance of the run. A worker that maps libraries of another provenance gets an incident.
    pub fn expect(&mut self, provenance: Provenance) {
        self.provenance = Some(provenance);
    }

    /// Sets the GPUs of the run, by UUID, if it may not use all.
    pub fn watch_gpus(&mut self, gpus: Option<Vec<String>>) {
        self.watched = gpus;
    }

    /// Sets how to run Python lines.
    pub fn use_python(&mut self, python: PythonWorker) {
        self.python = Some(python);
    }

    /// Sets another folder of links, for another libcudart.
    pub fn use_links(&mut self, links: &Path) {
        self.links = links.to_path_buf();
    }
}
