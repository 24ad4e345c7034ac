//! `doctor`: tests how CUDA starts here, each time in a fresh process, and examines running processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cuda_pitfalls_answers::known::NeedFacts;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::examination::{
    Examination, ExaminerMessage, FileTry, HostState, LibraryStart, StartChange, StartEnd, Started,
    Want,
};
use cuda_pitfalls_core::holding::UnreadProcess;
use cuda_pitfalls_instrument::examiner::{self, place};
use cuda_pitfalls_instrument::folder::Folder;
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_instrument::simulated::{self, MachineError};
use cuda_pitfalls_instrument::supervisor::{self, Examined, Interrupt, SupervisorError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::host;

/// Variable with the directories that the loader searches first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// The folder of MPS.
const MPS: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// Name that programs open libcuda by.
const LIBCUDA: &str = "libcuda.so.1";

/// Reasons why nothing could be examined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoctorError {
    /// The simulated machine could not be created.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// There is no place for the simulated machine.
    #[error("{0}")]
    Folder(std::io::Error),
    /// A process could not be created.
    #[error("{0}")]
    System(String),
    /// There is no such process.
    #[error("there is no process {0} here (in a container, only its own processes are visible)")]
    NoProcess(u32),
    /// A process could not be killed.
    #[error(
        "a process that starts a library could not be killed, because the driver of this machine is stuck"
    )]
    Unkillable,
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted(i32),
}

impl From<std::io::Error> for DoctorError {
    fn from(error: std::io::Error) -> DoctorError {
        DoctorError::System(error.to_string())
    }
}

/// Starts the processes of an examination.
pub(crate) struct Doctor {
    program: PathBuf,
    /// Time limit of each call, in milliseconds.
    pub(crate) deadline_ms: u64,
    /// An empty folder of this examination, where one can be made.
    home: Option<Folder>,
    /// The folder of the simulated machine's libraries, if it is one.
    pub(crate) simulated: Option<PathBuf>,
    pub(crate) interrupt: Interrupt,
    /// Processes that no further process of ours reads: one could not be killed while it read them.
    pub(crate) stuck: Vec<UnreadProcess>,
}

pub(crate) type Environment = BTreeMap<OsString, OsString>;

impl Doctor {
    /// Prepares an examination with the libraries of a simulated machine that another program uses, or with the real
    /// ones.
    ///
    /// # Errors
    /// Returns an error if signals cannot be handled.
    pub(crate) fn beside(
        simulated: Option<PathBuf>,
        deadline_ms: u64,
    ) -> Result<Doctor, DoctorError> {
        Ok(Doctor {
            program: std::env::current_exe()?,
            deadline_ms,
            home: None,
            simulated,
            interrupt: Interrupt::install()?,
            stuck: Vec::new(),
        })
    }

    /// Prepares an examination.
    ///
    /// # Errors
    /// Returns an error if there is no directory for private files, or the simulated machine does not exist.
    pub(crate) fn new(on: &On, deadline_ms: u64) -> Result<Doctor, DoctorError> {
        let program = std::env::current_exe()?;
        let interrupt = Interrupt::install()?;
        let (home, simulated) = match on {
            // If nothing can be written, one test is left out.
            On::Cuda | On::Auto => (Folder::create().ok(), None),
            On::Sim(machine) => {
                let home = Folder::create().map_err(DoctorError::Folder)?;
                let machine = machine
                    .as_deref()
                    .unwrap_or(cuda_pitfalls_core::defaults::MACHINE);
                let simulated = simulated::lay_out(machine, &home.path().join("node"))?;
                (Some(home), Some(simulated))
            }
        };
        Ok(Doctor {
            program,
            deadline_ms,
            home,
            simulated,
            interrupt,
            stuck: Vec::new(),
        })
    }

    /// Tests how CUDA starts here. If it does not start, tries again without each part of the environment.
    ///
    /// # Errors
    /// Returns an error if a process could not be killed, or the user stopped the examination.
    pub(crate) fn examine_machine(
        &mut self,
        needs: &[NeedFacts],
    ) -> Result<Examination, DoctorError> {
        let mut examination = Examination {
            place: self.describe_host(),
            ..Examination::default()
        };
        let as_it_is = self.environment();
        let driver = self.start(Started::Driver, as_it_is.clone(), None, true)?;
        let nvml = self.start(Started::Nvml, as_it_is.clone(), None, false)?;
        let there = examination.place.gpus.len().max(nvml.seen.len());
        if self.simulated.is_none() && !driver.is_simulated() {
            self.attempt(&mut examination, as_it_is, needs)?;
        }
        // A process of ours that does not start shows nothing about CUDA, unless what prevents its start is found.
        let mut system_calls = examination.system_calls.iter();
        let is_refused = system_calls.any(|tried| tried.error.is_some());
        if let Some(end) = &driver.ended
            && end.is_not_started()
            && !is_refused
        {
            return Err(DoctorError::System(format!("a process was {}", end.by)));
        }
        let shows_all = driver.is_good() && driver.seen.len() >= there;
        examination.starts.extend([driver, nvml]);
        if !shows_all {
            self.start_without(&mut examination)?;
        }
        Ok(examination)
    }

    /// Waits.
    ///
    /// # Errors
    /// Returns an error if the user stops it.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<(), DoctorError> {
        let until_ns = clock::now_ns() + time.as_nanos() as u64;
        while clock::now_ns() < until_ns {
            std::thread::sleep(Duration::from_nanos(clock::SLICE_NS).min(time));
            self.interrupt.check();
            if let Some(signal) = self.interrupt.signal() {
                return Err(DoctorError::Interrupted(signal));
            }
        }
        Ok(())
    }

    fn describe_host(&self) -> HostState {
        let mut environment = place::environment();
        if self.simulated.is_some() {
            environment.remove(LIBRARY_PATH);
        }
        let groups = rustix::process::getgroups().unwrap_or_default();
        let host = HostState {
            uid: rustix::process::getuid().as_raw(),
            groups: groups.iter().map(|group| group.as_raw()).collect(),
            container: host::detect_container(),
            is_filtered: place::is_filtered(),
            environment,
            limits: place::low_limits(),
            ..HostState::default()
        };
        if self.simulated.is_some() {
            return host;
        }
        HostState {
            module_version: place::module_version(),
            gpus: place::gpus(),
            pci_gpus: host::pci_gpus(),
            majors: place::device_majors(),
            ..host
        }
    }

    pub(crate) fn environment(&self) -> Environment {
        let mut environment: Environment = std::env::vars_os().collect();
        if let Some(folder) = &self.simulated {
            environment.insert(LIBRARY_PATH.into(), folder.into());
        }
        environment
    }

    pub(crate) fn ask(
        &mut self,
        environment: &Environment,
        want: &Want,
        deadline_ms: u64,
    ) -> Result<Examined, DoctorError> {
        let answer =
            supervisor::ask_examiner(&self.program, environment.clone(), want, deadline_ms);
        self.interrupt.check();
        if let Some(signal) = self.interrupt.signal() {
            return Err(DoctorError::Interrupted(signal));
        }
        // Any user can make a reader of his processes wait for a file system that never answers.
        let is_reader = matches!(want, Want::Scan { .. } | Want::Stack { .. });
        match answer {
            Ok(examined) if is_reader || !examined.is_unkillable => Ok(examined),
            Ok(_) | Err(SupervisorError::Unkillable(_)) => Err(DoctorError::Unkillable),
            // This is about our own process, and shows nothing about CUDA.
            Err(error @ SupervisorError::Unwatched(_)) => {
                Err(DoctorError::System(error.to_string()))
            }
            // If no process can be started, that is the finding.
            Err(error) => Ok(Examined {
                ended: Some(StartEnd::not_started(&error.to_string())),
                ..Examined::default()
            }),
        }
    }

    fn start(
        &mut self,
        library: Started,
        environment: Environment,
        changed: Option<StartChange>,
        uses_gpus: bool,
    ) -> Result<LibraryStart, DoctorError> {
        let want = Want::Start {
            library,
            uses_gpus,
            watch_ms: 0,
        };
        Ok(new_start(
            library,
            changed,
            self.ask(&environment, &want, self.deadline_ms)?,
        ))
    }

    /// Opens the files and makes the system calls that CUDA and NVML need.
    fn attempt(
        &mut self,
        examination: &mut Examination,
        environment: Environment,
        needs: &[NeedFacts],
    ) -> Result<(), DoctorError> {
        let (files, calls) = list_tries(needs, &examination.place);
        let want = Want::Try {
            files: files.clone(),
            calls: calls.clone(),
        };
        let examined = self.ask(&environment, &want, self.deadline_ms)?;
        let mut keep = |said: ExaminerMessage| match said {
            ExaminerMessage::File(tried) => examination.files.push(tried),
            ExaminerMessage::Call(tried) => examination.system_calls.push(tried),
            _ => {}
        };
        let answered = examined.said.len();
        examined.said.into_iter().for_each(&mut keep);
        let Some(end) = examined.ended else {
            return Ok(());
        };
        if answered == 0 {
            // The restriction that prevents starting processes applies to this one too, so it can
            // try the accesses itself.
            let mut harmless = files;
            harmless.retain(|(file, _)| !file.starts_with("/dev/"));
            examiner::attempt_here(&harmless, &calls, &mut keep);
        } else if let Some((file, _)) = files.get(answered) {
            examination.files.push(FileTry {
                file: file.clone(),
                error: Some(end.by),
                mode: None,
                owner: None,
                device: None,
            });
        }
        Ok(())
    }

    /// Starts the driver again, each time with one change of the environment.
    fn start_without(&mut self, examination: &mut Examination) -> Result<(), DoctorError> {
        let as_it_is = self.environment();
        let mut bare = as_it_is.clone();
        let mut left_out = 0;
        // If it works unchanged, the only question is what hides GPUs. Those may belong to others, and are not used.
        let uses_gpus = !has_good_start(examination);
        for (change, environment) in self.list_changes(&examination.place, &as_it_is)? {
            if let StartChange::Without { variable } = &change {
                bare.remove(&OsString::from(variable));
                left_out += 1;
            }
            let raised = match &change {
                StartChange::Raised { limit, .. } => RaisedLimit::new(limit),
                _ => None,
            };
            let start = self.start(Started::Driver, environment, Some(change), uses_gpus)?;
            drop(raised);
            examination.starts.push(start);
        }
        if left_out > 1 && !has_good_start(examination) {
            let change = Some(StartChange::Bare);
            let start = self.start(Started::Driver, bare, change, uses_gpus)?;
            examination.starts.push(start);
        }
        Ok(())
    }

    /// Returns the changes to try, each with its environment.
    fn list_changes(
        &self,
        host: &HostState,
        as_it_is: &Environment,
    ) -> Result<Vec<(StartChange, Environment)>, DoctorError> {
        let mut changes = Vec::new();
        for variable in host.environment.keys() {
            // NVIDIA_ variables are for container runtimes, and the loader's path has several parts.
            if variable.starts_with("NVIDIA_") || [LIBRARY_PATH, MPS].contains(&variable.as_str()) {
                continue;
            }
            let mut environment = as_it_is.clone();
            environment.remove(&OsString::from(variable));
            let variable = variable.clone();
            changes.push((StartChange::Without { variable }, environment));
        }
        if let (Some(folder), Some(home)) = (host::mps_folder(), &self.home) {
            let empty = home.path().join("no-mps");
            fs::create_dir_all(&empty)?;
            let mut environment = as_it_is.clone();
            environment.insert(MPS.into(), empty.into());
            changes.push((StartChange::WithoutMps { folder }, environment));
        }
        if self.simulated.is_none() {
            changes.extend(list_folder_changes(as_it_is));
        }
        for (limit, was) in &host.limits {
            let raised = StartChange::Raised {
                limit: limit.clone(),
                was: *was,
            };
            changes.push((raised, as_it_is.clone()));
        }
        Ok(changes)
    }
}

/// Returns `true` if the driver was initialized without an error, unchanged or with a change.
fn has_good_start(examination: &Examination) -> bool {
    let mut starts = examination.starts.iter();
    starts.any(|start| start.library == Started::Driver && start.is_good())
}

/// Returns the changes of the loader's path: without each of its directories that contains a libcuda.
fn list_folder_changes(as_it_is: &Environment) -> Vec<(StartChange, Environment)> {
    let mut changes = Vec::new();
    let Some(path) = as_it_is.get(&OsString::from(LIBRARY_PATH)) else {
        return changes;
    };
    let folders: Vec<PathBuf> = std::env::split_paths(path).collect();
    for folder in &folders {
        if !folder.join(LIBCUDA).exists() {
            continue;
        }
        let others = folders.iter().filter(|other| *other != folder);
        let rest = std::env::join_paths(others).unwrap_or_default();
        let mut environment = as_it_is.clone();
        environment.insert(LIBRARY_PATH.into(), rest);
        let without = StartChange::WithoutFolder {
            folder: folder.to_string_lossy().into_owned(),
        };
        changes.push((without, environment));
    }
    changes
}

/// Returns the files (with `true` if they are written) and the system calls to try: those of the table, and the device
/// file of each GPU.
fn list_tries(needs: &[NeedFacts], host: &HostState) -> (Vec<(String, bool)>, Vec<String>) {
    let (mut files, mut calls) = (BTreeMap::new(), Vec::new());
    for need in needs {
        let refused = &need.refused;
        let minor = refused.strip_prefix("/dev/nvidia");
        if minor.is_some_and(|minor| minor.parse::<u32>().is_ok()) {
            continue;
        }
        if refused.starts_with('/') {
            let is_written = need.is_written || refused.starts_with("/dev/");
            *files.entry(refused.clone()).or_default() |= is_written;
        } else if !calls.contains(refused) {
            calls.push(refused.clone());
        }
    }
    if host.gpus.is_empty() {
        files.insert("/dev/nvidia0".to_string(), true);
    }
    for gpu in &host.gpus {
        files.insert(format!("/dev/nvidia{}", gpu.device_minor), true);
    }
    (files.into_iter().collect(), calls)
}

/// Collects the messages of a fresh process about a start.
pub(crate) fn new_start(
    library: Started,
    changed: Option<StartChange>,
    examined: Examined,
) -> LibraryStart {
    let mut start = LibraryStart {
        library,
        changed,
        calls: Vec::new(),
        seen: Vec::new(),
        gpus: Vec::new(),
        libraries: examined.libraries,
        missing: None,
        ended: examined.ended,
    };
    for said in examined.said {
        match said {
            ExaminerMessage::End(call) => start.calls.push(call),
            ExaminerMessage::Seen { uuid } => start.seen.push(uuid),
            ExaminerMessage::Gpu(gpu) => start.gpus.push(*gpu),
            ExaminerMessage::Missing { message } => start.missing = Some(message),
            _ => {}
        }
    }
    start
}

/// A limit of this process, raised for the processes that it starts until this is dropped.
struct RaisedLimit {
    resource: Resource,
    was: Rlimit,
}

impl RaisedLimit {
    fn new(limit: &str) -> Option<RaisedLimit> {
        let (_, resource) = place::LIMITS.into_iter().find(|(name, _)| *name == limit)?;
        let was = getrlimit(resource);
        let raised = Rlimit {
            current: was.maximum,
            maximum: was.maximum,
        };
        setrlimit(resource, raised).ok()?;
        Some(RaisedLimit { resource, was })
    }
}

impl Drop for RaisedLimit {
    fn drop(&mut self) {
        let _ = setrlimit(self.resource, self.was);
    }
}
