//! Environments of Python packages, created by `uv` and removed again. Nothing here resolves versions by itself.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use serde_json::Value;

use super::error::RunError;
use cuda_pitfalls_answers::releases::{
    EnvironmentRequest, bare_name, is_prerelease, normalize_name,
};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_instrument::supervisor::{
    Errand, ErrandEnd, Interrupt, SupervisorError, role, signal_name,
};

/// Time limit of an installation.
const LIMIT: Duration = Duration::from_secs(3600);
/// Time limit of a query of an interpreter.
const SHORT: Duration = Duration::from_secs(120);
/// The time from SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Free space required to make an environment: the largest of those measured took 9 GiB.
const LEAST_FREE_BYTES: u64 = 10 << 30;
/// Number of last lines of an installer's error output that are kept.
const LINES: usize = 12;

/// The variable with the folder of the installer's downloads.
const CACHE: &str = "UV_CACHE_DIR";

/// Variables that would lead to packages outside an environment.
const OUTSIDE: [&str; 5] = [
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CUDA_PITFALLS_PYTHON",
];

/// Prints the version of an interpreter, and its packages by their names.
const PACKAGES: &str = "import importlib.metadata as m, json, platform\n\
    print(json.dumps([platform.python_version(), {d.metadata['Name'].lower().replace('_', '-')\
    .replace('.', '-'): d.version for d in m.distributions() if d.metadata['Name']}]))";

/// Creates environments, one at a time.
pub(super) struct Installer<'a> {
    program: &'a Path,
    uv: PathBuf,
    /// The folder of environments.
    folder: PathBuf,
    /// The folder of downloads: the caller's, or one that is removed at the end.
    cache: Cache,
    /// Maximum size of the folder between two environments, in bytes.
    disk_bytes: u64,
    /// The folder itself, which is locked while this installer works in it.
    _lock: File,
}

/// Downloads of the installer.
#[derive(Clone, Debug)]
enum Cache {
    /// `UV_CACHE_DIR` of the caller, which is never cleared.
    Callers(OsString),
    Own(PathBuf),
}

#[derive(Debug)]
pub(super) struct Made {
    pub(super) folder: PathBuf,
    pub(super) python: PathBuf,
    pub(super) version: String,
    /// Every package, by name.
    pub(super) packages: BTreeMap<String, String>,
    /// Duration of the installation.
    pub(super) install_ns: u64,
    /// Size on disk.
    pub(super) disk_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum InstallError {
    /// The installer is not installed.
    #[error("`uv` was not found on PATH; install it with `pip install uv` to create environments")]
    NoUv,
    /// The packages cannot be installed together, or not on this interpreter.
    #[error("{0}")]
    Refused(String),
    /// The disk is too small.
    #[error(
        "only {} GiB are free in `{}`; a PyTorch environment takes up to {} GiB; choose another directory with --out",
        free >> 30, escape::terminal(&folder.to_string_lossy()), LEAST_FREE_BYTES >> 30
    )]
    NoSpace {
        folder: PathBuf,
        /// Free space, in bytes.
        free: u64,
    },
    /// Another process works there.
    #[error("another survey is creating environments in `{}`; wait for it, or choose another directory with --out", escape::terminal(&.0.to_string_lossy()))]
    Busy(PathBuf),
    /// Others can write there.
    #[error("`{}` is not a directory that only you can enter; remove it, or choose another directory", escape::terminal(&.0.to_string_lossy()))]
    NotOwn(PathBuf),
    /// The user stopped it, by this signal.
    #[error("stopped by {0}")]
    Stopped(String),
    /// A file could not be accessed.
    #[error(transparent)]
    File(#[from] io::Error),
    /// A process could not be started or supervised.
    #[error(transparent)]
    Process(#[from] SupervisorError),
    /// An interpreter printed something other than the expected JSON.
    #[error("the interpreter's output cannot be read: {0}")]
    Output(#[from] serde_json::Error),
    /// A process does not end.
    #[error("process {0} could not be killed")]
    Unkillable(u32),
}

impl From<InstallError> for RunError {
    fn from(error: InstallError) -> RunError {
        use InstallError::{Busy, NoSpace, NoUv, NotOwn, Refused, Stopped, Unkillable};
        match error {
            NotOwn(_) | NoUv | Refused(_) | NoSpace { .. } | Busy(_) => {
                RunError::Usage(error.to_string())
            }
            Stopped(signal) => RunError::Interrupted(signal),
            Unkillable(_) => RunError::HostUnsafe(error.to_string()),
            _ => RunError::Internal(error.to_string()),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct How<'r> {
    /// The packages, the interpreter and the date.
    pub(super) request: &'r EnvironmentRequest,
    /// Versions that apply whatever other packages require.
    pub(super) overrides: Vec<String>,
    /// `true` if versions may be pre-releases.
    pub(super) pre: bool,
    /// The interpreter to use if the request gives none.
    pub(super) python: Option<&'r OsStr>,
    /// `true` if packages may be built from source.
    pub(super) build: bool,
}

impl How<'_> {
    /// Returns the arguments that select the interpreter.
    fn interpreter_arguments(&self) -> Vec<OsString> {
        let wanted = self.request.python.as_deref().map(OsStr::new);
        match wanted.or(self.python) {
            Some(python) => vec!["--python".into(), python.to_os_string()],
            None => Vec::new(),
        }
    }
}

impl<'a> Installer<'a> {
    /// Returns an installer that works in this directory, which is created and, at the end, removed.
    ///
    /// # Errors
    /// Returns an error if `uv` is not installed, or the directory cannot be created.
    pub(super) fn new(
        program: &'a Path,
        folder: &Path,
        disk_bytes: u64,
    ) -> Result<Installer<'a>, InstallError> {
        let uv = super::python::on_path(Path::new("uv")).map_err(|_| InstallError::NoUv)?;
        claim_folder(folder)?;
        let lock = File::open(folder)?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(InstallError::Busy(folder.to_path_buf()));
        }
        let folder = fs::canonicalize(folder)?;
        let cache = match std::env::var_os(CACHE) {
            Some(cache) if !cache.is_empty() => Cache::Callers(cache),
            _ => Cache::Own(folder.join("cache")),
        };
        // What an earlier run left behind.
        for entry in fs::read_dir(&folder)?.flatten() {
            let path = entry.path();
            let _ = if path.is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
        }
        // uv takes the first of each that it finds on the way up, which another user may have put there. The settings in
        // the user's home still apply.
        ["uv.toml", ".python-version"]
            .into_iter()
            .try_for_each(|name| fs::write(folder.join(name), ""))?;
        Ok(Installer {
            program,
            uv,
            folder,
            cache,
            disk_bytes,
            _lock: lock,
        })
    }

    /// Returns the folder of the environment: each one has the same place.
    pub(super) fn environment_folder(&self) -> PathBuf {
        self.folder.join("environment")
    }

    /// Returns the versions that the installer would choose for a request, by package, without installing anything.
    pub(super) fn chosen_packages(
        &self,
        how: &How<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<BTreeMap<String, String>, InstallError> {
        let requirements = how.request.install_requirements().join("\n");
        let (text, _) = self.resolve_requirements(&requirements, &[], how, interrupt)?;
        let mut chosen = BTreeMap::new();
        for line in text.lines() {
            if let Some((name, version)) = line.split_once("==") {
                chosen.insert(normalize_name(bare_name(name)), version.trim().to_string());
            }
        }
        Ok(chosen)
    }

    /// Makes an environment.
    pub(super) fn make_environment(
        &self,
        how: &How<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<Made, InstallError> {
        self.make_room()?;
        let began = clock::now_ns();
        let folder = self.environment_folder();
        let _ = fs::remove_dir_all(&folder);
        let mut arguments = words(&["venv", "--no-project"]);
        arguments.extend(how.interpreter_arguments());
        arguments.push(folder.clone().into());
        self.run_uv(arguments, interrupt)?;
        let python = folder.join("bin/python");
        let mut arguments = words(&["pip", "install", "--python"]);
        arguments.push(python.clone().into());
        arguments.extend(self.rule_arguments(how)?);
        arguments.push("--".into());
        arguments.extend(
            how.request
                .install_requirements()
                .into_iter()
                .map(OsString::from),
        );
        self.run_uv(arguments, interrupt)?;
        let install_ns = clock::now_ns() - began;
        let (version, packages) =
            serde_json::from_value(self.json(&python, &["-c", PACKAGES], interrupt)?)?;
        Ok(Made {
            version,
            packages,
            install_ns,
            disk_bytes: size(&folder),
            folder,
            python,
        })
    }

    /// Returns the version of a package that the installer would choose, without installing anything.
    pub(super) fn chosen_version(
        &self,
        how: &How<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<String, InstallError> {
        let (text, _) = self.resolve_requirement(&how.request.package, how, interrupt)?;
        let chosen = text
            .lines()
            .find_map(|line| Some(line.split_once("==")?.1.trim().to_string()));
        chosen.ok_or_else(|| {
            InstallError::Refused(format!("no version of {} was found", how.request.package))
        })
    }

    /// Returns the reason why this interpreter cannot use a release of a package; `None` if it can. Nothing is
    /// installed.
    pub(super) fn why_unusable(
        &self,
        release: (&str, &str),
        how: &How<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<Option<String>, InstallError> {
        let (package, version) = release;
        if !how.pre && is_prerelease(version) {
            return Ok(Some("is a pre-release; --pre includes these".to_string()));
        }
        match self.resolve_requirement(&format!("{package}=={version}"), how, interrupt) {
            Ok((_, warnings)) if warnings.contains("is yanked") => {
                Ok(Some("was yanked from the index".to_string()))
            }
            Ok(_) => Ok(None),
            Err(InstallError::Refused(why)) => Ok(Some(reason(&why))),
            Err(error) => Err(error),
        }
    }

    /// Returns the installer's answer to one requirement, without its dependencies, and its warnings.
    fn resolve_requirement(
        &self,
        requirement: &str,
        how: &How<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<(String, String), InstallError> {
        self.resolve_requirements(requirement, &["--no-deps"], how, interrupt)
    }

    /// Returns the installer's answer to requirements, one per line, and its warnings.
    fn resolve_requirements(
        &self,
        requirements: &str,
        options: &[&str],
        how: &How<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<(String, String), InstallError> {
        let (input, output) = (
            self.folder.join("requirements.in"),
            self.folder.join("requirements.txt"),
        );
        fs::write(&input, format!("{requirements}\n"))?;
        // An existing answer would be preferred to others.
        let _ = fs::remove_file(&output);
        let mut arguments = words(&["pip", "compile", "--no-annotate", "--no-header"]);
        arguments.extend(words(options));
        arguments.extend(how.interpreter_arguments());
        arguments.extend(self.rule_arguments(how)?);
        arguments.extend([
            OsString::from("--output-file"),
            output.clone().into(),
            input.into(),
        ]);
        let warnings = self.run_uv(arguments, interrupt)?;
        Ok((fs::read_to_string(&output)?, warnings))
    }

    /// Returns all versions of a package that have a file for this interpreter, in pip's order.
    pub(super) fn versions(
        &self,
        package: &str,
        python: Option<&OsStr>,
        pre: bool,
        build: bool,
        interrupt: &mut Interrupt,
    ) -> Result<Vec<String>, InstallError> {
        // uv has no list of versions; pip has.
        let pip = EnvironmentRequest {
            package: "pip".to_string(),
            ..EnvironmentRequest::default()
        };
        let how = How {
            request: &pip,
            overrides: Vec::new(),
            pre: false,
            python,
            build: false,
        };
        let made = self.make_environment(&how, interrupt)?;
        let mut arguments = vec![
            "-m",
            "pip",
            "index",
            "versions",
            "--json",
            "--disable-pip-version-check",
            package,
        ];
        if pre {
            arguments.push("--pre");
        }
        if !build {
            arguments.extend(["--only-binary", ":all:"]);
        }
        let found = self.json(&made.python, &arguments, interrupt);
        let _ = fs::remove_dir_all(&made.folder);
        let versions = found?
            .get_mut("versions")
            .map_or_else(|| Value::Array(Vec::new()), Value::take);
        Ok(serde_json::from_value(versions)?)
    }

    /// Removes an environment and, where it has become too large, the cache.
    pub(super) fn remove_environment(&self, made: &Made) {
        let _ = fs::remove_dir_all(&made.folder);
        if let Cache::Own(cache) = &self.cache
            && size(cache) > self.disk_bytes / 2
        {
            let _ = fs::remove_dir_all(cache);
        }
    }

    /// Returns the installer's rules for choosing versions, as arguments.
    fn rule_arguments(&self, how: &How<'_>) -> Result<Vec<OsString>, InstallError> {
        let request = how.request;
        let mut arguments = Vec::new();
        if let Some(newest) = &request.newest {
            arguments.extend(words(&["--exclude-newer", newest]));
        }
        if !how.build && !request.build {
            arguments.extend(words(&["--only-binary", ":all:"]));
        }
        if how.pre {
            arguments.extend(words(&["--prerelease", "allow"]));
        }
        let mut overrides = how.overrides.clone();
        if request.forced && !request.version.is_empty() {
            overrides.extend(request.install_requirements().into_iter().next());
        }
        if !overrides.is_empty() {
            let file = self.folder.join("overrides.txt");
            fs::write(&file, overrides.join("\n") + "\n")?;
            arguments.extend([OsString::from("--override"), file.into()]);
        }
        Ok(arguments)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let about = rustix::fs::statvfs(&self.folder)?;
        Ok(about.f_bavail.saturating_mul(about.f_frsize))
    }

    fn make_room(&self) -> Result<(), InstallError> {
        if self.free_bytes()? >= LEAST_FREE_BYTES {
            return Ok(());
        }
        if let Cache::Own(cache) = &self.cache {
            let _ = fs::remove_dir_all(cache);
        }
        match self.free_bytes()? {
            free if free >= LEAST_FREE_BYTES => Ok(()),
            free => Err(InstallError::NoSpace {
                folder: self.folder.clone(),
                free,
            }),
        }
    }

    /// Runs the installer, and returns what it wrote to its stderr.
    fn run_uv(
        &self,
        arguments: Vec<OsString>,
        interrupt: &mut Interrupt,
    ) -> Result<String, InstallError> {
        self.run(&self.uv, arguments, LIMIT, None, interrupt)
    }

    /// Returns the output of a command of an environment's interpreter: one JSON document.
    fn json(
        &self,
        python: &Path,
        arguments: &[&str],
        interrupt: &mut Interrupt,
    ) -> Result<Value, InstallError> {
        let output = self.folder.join("output.json");
        self.run(
            python,
            words(arguments),
            SHORT,
            Some(File::create(&output)?),
            interrupt,
        )?;
        Ok(serde_json::from_str(&fs::read_to_string(&output)?)?)
    }

    fn run(
        &self,
        command: &Path,
        mut arguments: Vec<OsString>,
        limit: Duration,
        stdout: Option<File>,
        interrupt: &mut Interrupt,
    ) -> Result<String, InstallError> {
        let interrupt = RefCell::new(interrupt);
        let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        environment.retain(|name, _| OUTSIDE.iter().all(|outside| name != outside));
        environment.insert(
            CACHE.into(),
            match &self.cache {
                Cache::Callers(cache) => cache.clone(),
                Cache::Own(cache) => cache.clone().into(),
            },
        );
        environment.insert("UV_NO_PROGRESS".into(), "1".into());
        arguments.splice(0..0, [OsString::from("--"), command.into()]);
        let errand = Errand {
            program: self.program,
            role: role::COMMAND,
            arguments,
            environment,
            folder: &self.folder,
            limit,
            grace: GRACE,
            stdout,
        };
        match errand.run(|| interrupt.borrow_mut().check())? {
            ErrandEnd::Exited { status, stderr } if status.success() => Ok(stderr),
            ErrandEnd::Exited { stderr, status } => Err(InstallError::Refused(last_lines(
                &stderr,
                &status.to_string(),
            ))),
            ErrandEnd::Stopped => {
                let signal = interrupt.into_inner().signal().map(signal_name);
                Err(InstallError::Stopped(signal.unwrap_or_default()))
            }
            ErrandEnd::Unkillable(pid) => Err(InstallError::Unkillable(pid)),
        }
    }
}

impl Drop for Installer<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// Creates a directory that only this user can enter, or accepts an existing one with that property. Any user who can
/// write there decides which code runs.
fn claim_folder(folder: &Path) -> Result<(), InstallError> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return Ok(made?),
    }
    let about = fs::symlink_metadata(folder)?;
    let is_own = about.is_dir()
        && about.uid() == rustix::process::geteuid().as_raw()
        && about.mode() & 0o077 == 0;
    if is_own {
        Ok(())
    } else {
        Err(InstallError::NotOwn(folder.to_path_buf()))
    }
}

/// Returns the variables that let a program use an environment: to set, or to unset if there is no value.
pub(super) fn variables(folder: &Path) -> BTreeMap<OsString, Option<OsString>> {
    let mut all: BTreeMap<OsString, Option<OsString>> = OUTSIDE
        .into_iter()
        .map(|name| (OsString::from(name), None))
        .collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [folder.join("bin")]
        .into_iter()
        .chain(std::env::split_paths(&path));
    if let Ok(path) = std::env::join_paths(folders) {
        all.insert("PATH".into(), Some(path));
    }
    all.insert("VIRTUAL_ENV".into(), Some(folder.into()));
    all
}

/// Returns the reason why the installer rejects a release, from its error output.
fn reason(complaint: &str) -> String {
    if complaint.contains("not found in the package registry") {
        return "is not in the index, which has no package of this name".to_string();
    }
    if complaint.contains("was published at") {
        return "was published after the date given with --newest".to_string();
    }
    if complaint.contains("there is no version of") {
        return "does not exist".to_string();
    }
    let says = if complaint.contains("wheels") {
        "has no wheel that can be used here"
    } else {
        "cannot be installed"
    };
    format!("{says}: {complaint}")
}

/// Returns the last lines of an installer's output.
fn last_lines(stderr: &str, status: &str) -> String {
    let lines: Vec<&str> = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let kept: Vec<&str> = lines.iter().rev().take(LINES).rev().copied().collect();
    if kept.is_empty() {
        status.to_string()
    } else {
        kept.join(" ")
    }
}

/// Returns the size of a directory on disk, in bytes. A file with several names counts once.
fn size(folder: &Path) -> u64 {
    let (mut bytes, mut known, mut left) = (
        0,
        std::collections::HashSet::new(),
        vec![folder.to_path_buf()],
    );
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else {
                continue;
            };
            if about.is_dir() {
                left.push(entry.path());
            }
            if about.nlink() == 1 || about.is_dir() || known.insert((about.dev(), about.ino())) {
                bytes += about.blocks() * 512;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_answers::exit::Exit;

    #[test]
    fn stopped_installation_is_no_internal_failure() {
        let exit = |error| RunError::from(error).exit();
        assert_eq!(
            exit(InstallError::Stopped("SIGINT".into())),
            Exit::Interrupted
        );
        assert_eq!(exit(InstallError::Unkillable(7)), Exit::HostUnsafe);
        assert_eq!(exit(InstallError::NoUv), Exit::Usage);
    }

    #[test]
    fn a_complaint_is_the_last_lines() {
        assert_eq!(last_lines("", "exit status: 2"), "exit status: 2");
        let long: Vec<String> = (0..20).map(|line| format!("line {line}")).collect();
        let kept = last_lines(&long.join("\n"), "");
        assert!(
            kept.starts_with("line 8 ") && kept.ends_with("line 19"),
            "{kept}"
        );
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("environments");
        assert!(
            claim_folder(&place).is_ok() && claim_folder(&place).is_ok(),
            "a folder of our own is used again"
        );
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).expect("permissions");
        assert!(matches!(claim_folder(&place), Err(InstallError::NotOwn(_))));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).expect("a link");
        assert!(matches!(claim_folder(&link), Err(InstallError::NotOwn(_))));
    }

    #[test]
    fn a_file_with_two_names_counts_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let one = folder.path().join("one");
        fs::write(&one, vec![1; 1 << 16]).expect("a file");
        let before = size(folder.path());
        fs::hard_link(&one, folder.path().join("two")).expect("a link");
        assert!(before >= 1 << 16);
        assert!(size(folder.path()) < before + (1 << 16));
    }
}
