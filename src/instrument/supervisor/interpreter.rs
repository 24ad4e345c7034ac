//! The Python interpreter for the lines of cases, and the query for its version and packages.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::environment::environment;
use super::error::SupervisorError;
use super::spawn::{self, Spawn};
use super::{end, receive, role};
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::PROTOCOL;
use cuda_pitfalls_core::machine::Interpreter;

/// The time for an answer, in milliseconds: on a slow disk, finding the versions of packages takes seconds.
const ANSWER_MS: u64 = 60_000;

/// The way to start a Python worker.
#[derive(Clone, Debug, Default)]
pub struct PythonWorker {
    /// The interpreter.
    pub executable: PathBuf,
    /// The path of the worker program.
    pub script: PathBuf,
    /// The library that counts libcuda calls; `None` without a libcuda.
    pub forwarding: Option<PathBuf>,
    /// The libcuda that this library forwards to.
    pub libcuda: Option<PathBuf>,
    /// Another folder that the loader searches first: that of the simulated machine. A framework brings its own
    /// libraries.
    pub links: Option<PathBuf>,
    /// Variables of the caller's environment that an interpreter needs to find packages.
    pub packages: BTreeMap<String, OsString>,
}

impl PythonWorker {
    pub(super) fn environment(
        &self,
        home: &Path,
        extra: &BTreeMap<String, String>,
    ) -> BTreeMap<OsString, OsString> {
        let mut all = environment(self.links.as_deref(), home, extra);
        if let Some(folder) = self.forwarding.as_deref().and_then(Path::parent) {
            let search = all.entry(OsString::from("LD_LIBRARY_PATH")).or_default();
            let behind = std::mem::replace(search, folder.as_os_str().to_os_string());
            if !behind.is_empty() {
                search.push(":");
                search.push(behind);
            }
        }
        all.extend(
            self.packages
                .iter()
                .map(|(name, value)| (OsString::from(name), value.clone())),
        );
        all
    }

    /// Returns the command line of a worker on an inherited channel.
    pub(super) fn command(&self, channel: &[OsString], home: &Path) -> Vec<OsString> {
        let mut command = vec![
            self.executable.clone().into(),
            self.script.clone().into(),
            OsString::from("run"),
        ];
        command.extend(channel.iter().cloned());
        command.push(OsString::from(PROTOCOL.to_string()));
        let libraries =
            [&self.forwarding, &self.libcuda].map(|path| path.clone().unwrap_or_default());
        command.extend(libraries.map(PathBuf::into_os_string));
        command.push(home.as_os_str().to_os_string());
        command
    }
}

/// Queries an interpreter for its version and for the versions of some packages. With `own`, it is started in the
/// environment of a worker. Otherwise it is started in the caller's environment, where the name may belong to a script
/// that finds the interpreter.
///
/// # Errors
/// Returns an error if it could not be started, or if it is not a Python interpreter that can run the worker.
pub fn ask_python(
    program: &Path,
    worker: &PythonWorker,
    home: Option<&Path>,
    names: &[String],
) -> Result<Interpreter, SupervisorError> {
    let (mut channel, theirs) = Channel::pair().map_err(SupervisorError::from_system)?;
    let ask = [
        worker.executable.clone().into(),
        worker.script.clone().into(),
        OsString::from("ask"),
    ];
    let mut arguments = vec![OsString::from("--")];
    arguments.extend(ask);
    arguments.push(spawn::descriptor_argument(&theirs));
    arguments.extend(names.iter().map(OsString::from));
    let environment = match home {
        Some(home) => worker.environment(home, &BTreeMap::new()),
        None => std::env::vars_os().collect(),
    };
    let own = Spawn::new(program, role::COMMAND, arguments, environment);
    let mut child = spawn::start(Spawn {
        inherit: vec![theirs],
        capture: true,
        ..own
    })?;
    let found = receive::receive_within(&mut channel, ANSWER_MS);
    drop(channel);
    end::finish_child(&mut child, 1_000);
    let said = child
        .stderr
        .take()
        .map(|tail| tail.finish().1)
        .unwrap_or_default();
    found.map_err(|error| {
        let words = said
            .lines()
            .last()
            .map_or_else(|| error.to_string(), str::to_string);
        SupervisorError::Protocol(words)
    })
}
