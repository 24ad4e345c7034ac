//! The parent's side: starts processes, waits for them with deadlines, and ends them. The only user of duct.
//!
//! The parent never loads CUDA or NVML, so a hung driver can block a worker or the sampler but never the harness. It
//! runs one loop on one thread: every wait is a `poll` with a deadline on every possible event (a line on a channel, an
//! exit, output, Ctrl-C). Only filters are answered beside it (`watch`).

mod attempt;
mod conversation;
mod end;
mod errand;
mod examine;
mod interpreter;
mod interrupt;
mod launch;
mod libraries;
mod output;
mod reading;
mod receive;
mod sampling;
mod spawn;
mod watch;

pub use attempt::{SupervisorError, signal_name};
pub use end::{adopt_orphans, children_of, is_alive, reap_all, reap_orphans, stat, strangers, timespec};
pub use errand::{Errand, ErrandEnd};
pub use examine::{Examined, examine};
pub use interpreter::{PythonWorker, ask_python};
pub use interrupt::is_ignored;
pub use interrupt::{Interrupt, is_overdue};
pub use sampling::SamplerClient;
pub use spawn::{begin, begin_fresh, can_watch, handle_on};

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::traced;
use cuda_pitfalls_core::event::Versions;
use cuda_pitfalls_core::verdict::Provenance;

/// Names of the hidden subcommands, in one place.
pub mod role {
    /// The worker.
    pub const WORKER: &str = "__worker";
    /// The sampler.
    pub const SAMPLER: &str = "__sampler";
    /// A command that a run starts.
    pub const COMMAND: &str = "__command";
    /// The tracer of one row of `survey python`.
    pub const TRACER: &str = "__tracer";
    /// A process of `doctor`.
    pub const EXAMINER: &str = "__examiner";
    /// The layout of a stand-in for libcuda.
    pub const STAND_IN: &str = "__stand-in";
    /// The process that reads the versions of libraries.
    pub const VERSIONS: &str = "__versions";
}

/// How long processes adopted from a worker have to leave by themselves.
const ORPHAN_GRACE_MS: u64 = 300;
const TERM_GRACE_MS: u64 = 2_000;
/// The same for a helper, and after a second Ctrl-C.
const SHORT_GRACE_MS: u64 = 100;
/// The time from SIGKILL until a process counts as unkillable.
const KILL_GRACE_MS: u64 = 5_000;
/// The time from a process's end until its exit status must be available.
const REAP_MS: u64 = 2_000;
/// How often the library check and the sampler's start are tried: they may have been ended by a signal that was not
/// meant for them.
const STARTS: u32 = 3;

/// Starts and watches every process of a run. There must be only one in a process: new children count as left behind by
/// the attempt, and those of another supervisor would look the same.
pub struct Supervisor {
    program: PathBuf,
    /// The folder of links that decides which libraries are used.
    links: PathBuf,
    /// A private folder for files that processes write.
    home: PathBuf,
    /// The sampler.
    pub sampler: SamplerClient,
    /// Ctrl-C and other termination signals.
    pub interrupt: Interrupt,
    /// A worker that could not be ended. No worker is started after it.
    lost: Option<u32>,
    /// The required provenance of workers' libraries; `None` until it is known.
    provenance: Option<Provenance>,
    /// How to run Python lines; `None` if no interpreter is available or needed.
    python: Option<PythonWorker>,
}

impl Supervisor {
    /// Starts the sampler with the libraries that `links` names. If it cannot be started, its inventory has the reason.
    ///
    /// # Errors
    /// Orphans of workers cannot be adopted.
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
            python: None,
        })
    }

    /// The path of this program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The PID of a worker or a sampler that could not be ended, if there is one.
    pub fn unkillable(&self) -> Option<u32> {
        self.lost.or(self.sampler.unkillable.map(i32::unsigned_abs))
    }

    /// Sets the provenance of the run. A worker that maps libraries of another provenance gets an incident.
    pub fn expect(&mut self, provenance: Provenance) {
        self.provenance = Some(provenance);
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

/// Asks a separate process for the versions of the libraries. Without `links`, these are the libraries that the
/// system's loader finds.
///
/// # Errors
/// The process could not be asked in several attempts.
pub fn versions(
    program: &Path,
    links: Option<&Path>,
    home: &Path,
    libcudart: Option<&Path>,
) -> Result<Versions, SupervisorError> {
    let mut found = ask_versions(program, links, home, libcudart);
    for _ in 1..STARTS {
        if found.is_ok() || is_overdue() {
            break;
        }
        found = ask_versions(program, links, home, libcudart);
    }
    found
}

fn ask_versions(
    program: &Path,
    links: Option<&Path>,
    home: &Path,
    libcudart: Option<&Path>,
) -> Result<Versions, SupervisorError> {
    let (mut channel, theirs) = cuda_pitfalls_core::channel::Channel::pair().map_err(SupervisorError::system)?;
    let mut arguments = vec![spawn::descriptor(&theirs)];
    arguments.extend(libcudart.map(OsString::from));
    let own = spawn::Spawn::new(program, role::VERSIONS, arguments, environment(links, home, &BTreeMap::new()));
    let mut child = spawn::start(spawn::Spawn { inherit: vec![theirs], ..own })?;
    let found = receive::receive_within(&mut channel, 30_000);
    drop(channel);
    end::finish(&mut child, 1_000);
    found.map_err(|error| SupervisorError::Protocol(format!("checking the libraries failed: {error}")))
}

/// The environment of every child, built from nothing: an injected library or a profiler's setting in the caller's
/// environment must not reach a worker unnoticed.
fn environment(links: Option<&Path>, home: &Path, extra: &BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
    let mut search = OsString::new();
    if let Some(links) = links {
        search.push(links);
    }
    // The inherited folders come after ours: libcuda loads its PTX compiler by name.
    if let Some(inherited) = std::env::var_os("LD_LIBRARY_PATH").filter(|value| !value.is_empty()) {
        if !search.is_empty() {
            search.push(":");
        }
        search.push(inherited);
    }
    let mut environment = BTreeMap::from([
        (OsString::from("HOME"), home.as_os_str().to_os_string()),
        (OsString::from("TMPDIR"), home.as_os_str().to_os_string()),
        (OsString::from("PATH"), OsString::from("/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")),
        (OsString::from("LANG"), OsString::from("C.UTF-8")),
        (OsString::from("TZ"), OsString::from("UTC")),
    ]);
    if !search.is_empty() {
        environment.insert(OsString::from("LD_LIBRARY_PATH"), search);
    }
    if let Some(folder) = traced::folder() {
        environment.insert(OsString::from(traced::VARIABLE), folder.into_os_string());
    }
    for (name, value) in extra {
        environment.insert(OsString::from(name), OsString::from(value));
    }
    environment
}
