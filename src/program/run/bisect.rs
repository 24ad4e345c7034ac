//! `bisect`: tries a command with one release after another, until the first bad one is known.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::console::Console;
use super::error::RunError;
use super::lock::lock_gpus;
use super::options::{ASKED, HOW_OFTEN, LockOptions, RunOptions, WHERE, WorkerOptions};
use super::releases::list_witnesses;
use super::session::{Launcher, Session};
use super::survey::python::attempt::Ground;
use super::uv::{self, How, InstallError, Installer, Made};
use crate::argument;
use cuda_pitfalls_answers::bisect::{
    Bisection, NoAnswer, ReleaseAxis, ReleaseOutcome, SCHEMA, Trial,
};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::{EnvironmentRequest, WitnessAsked};
use cuda_pitfalls_answers::survey::python::stack_of_init;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_instrument::supervisor::{Errand, ErrandEnd, Interrupt, role};
use cuda_pitfalls_render::{bisect as render, releases as words};
use cuda_pitfalls_trace::policy::{Policy, PolicyWord};
use cuda_pitfalls_trace::{End, Trace, diagnosis};

/// Additional time for a tracer to start and to end.
const GRACE: Duration = Duration::from_secs(90);
/// Bytes read from the end of a command's stderr, and the longest line of it.
const TAIL_BYTES: u64 = 4096;
const LONGEST: usize = 300;
const PATIENCE: Duration = Duration::from_secs(5);
/// Number of releases on each side of a wrong end that are inspected.
const MOST_NEIGHBORS: usize = 20;

/// The NVML that a command finds on a machine without a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NvmlChoice {
    /// An NVML that lists GPUs.
    With,
    /// No NVML.
    Without,
    /// Both, one after the other.
    Either,
}

/// Options of `bisect`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BisectOptions {
    /// Package to bisect. Give several to find the one responsible (repeatable).
    #[arg(long, value_name = "PACKAGE", required = true, help_heading = ASKED)]
    pub(crate) package: Vec<String>,
    /// A version without the forbidden call; one for each --package.
    #[arg(long, value_name = "VERSION", required = true, help_heading = ASKED)]
    pub(crate) good: Vec<String>,
    /// A version with the forbidden call; one for each --package.
    #[arg(long, value_name = "VERSION", required = true, help_heading = ASKED)]
    pub(crate) bad: Vec<String>,
    /// What makes a release bad, as in `trace --forbid`; without a GPU only cuinit or late-mask.
    #[arg(long, value_name = "WHAT", required = true, help_heading = ASKED)]
    pub(crate) forbid: Vec<String>,
    /// Also install these packages, e.g. "vllm==0.11.0 numpy<2".
    #[arg(long, value_name = "PACKAGES", help_heading = ASKED)]
    pub(crate) with: Vec<String>,
    /// Also test pre-releases.
    #[arg(long, help_heading = ASKED)]
    pub(crate) pre: bool,
    /// Ignore packages published after this day, e.g. 2025-11-20.
    #[arg(long, value_name = "DATE", help_heading = ASKED)]
    pub(crate) newest: Option<String>,
    /// Allow packages to be built from source, which runs their code.
    #[arg(long, value_name = "HAZARD", value_parser = ["code"], help_heading = ASKED)]
    pub(crate) allow: Vec<String>,
    /// Python version or path [default: chosen by uv].
    #[arg(long, value_name = "PYTHON", help_heading = WHERE)]
    pub(crate) python: Option<PathBuf>,
    /// Target: `cuda` (this machine's driver) or `sim[:MACHINE]` (simulated driver only).
    #[arg(long, default_value = defaults::ON, value_parser = argument::on, help_heading = WHERE)]
    pub(crate) on: On,
    /// Whether the command finds NVML on a machine without a GPU. With `either`, a forbidden call
    /// in one of the two is enough.
    #[arg(long, value_enum, default_value_t = NvmlChoice::With, help_heading = WHERE)]
    pub(crate) nvml: NvmlChoice,
    /// Directory for the environments; each takes up to several GiB.
    #[arg(long, value_name = "DIR", default_value = ".", help_heading = WHERE)]
    pub(crate) work: PathBuf,
    /// Time limit of the command.
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = argument::parse_timeout, help_heading = HOW_OFTEN)]
    pub(crate) timeout: Duration,
    /// Maximum disk space of environments and downloads between two trials.
    #[arg(long, value_name = "SIZE", default_value = defaults::ENVIRONMENTS_SIZE, value_parser = argument::size, help_heading = HOW_OFTEN)]
    pub(crate) disk: u64,
    #[command(flatten)]
    pub(crate) locks: LockOptions,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// Command and arguments. Its `python` is the environment's.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl BisectOptions {
    /// Returns the options of a run on the same machine.
    pub(super) fn run(&self) -> RunOptions {
        let (on, python, json, locks) = (
            self.on.clone(),
            self.python.clone(),
            self.json,
            self.locks.clone(),
        );
        let asked = WorkerOptions {
            on,
            python,
            json,
            locks,
            ..WorkerOptions::default()
        };
        RunOptions {
            asked,
            ..RunOptions::default()
        }
    }

    /// Returns `true` if packages may be built from source.
    fn allows_builds(&self) -> bool {
        !self.allow.is_empty()
    }

    /// Returns the other packages to install, word by word.
    fn others(&self) -> impl Iterator<Item = String> {
        self.with
            .iter()
            .flat_map(|words| words.split_whitespace())
            .map(str::to_string)
    }
}

/// Searches, prints, and returns the exit code.
pub(super) fn search_releases(
    options: &BisectOptions,
    launcher: Launcher,
    console: &mut Console,
) -> Result<Exit, RunError> {
    let policy = Policy::parse(&options.forbid, &[])
        .map_err(|error| RunError::Usage(format!("--forbid: {error}")))?;
    let mut session = Session::open_machine(&options.run().asked, launcher)?;
    console.print_warnings(&session.notes);
    let _locks = lock_gpus(&options.locks, &mut session, console)?;
    let witnesses = choose_witnesses(list_witnesses(&session), options.nvml);
    if !has_gpu(&witnesses)
        && let Some(word) = policy.forbid.iter().find(|word| needs_gpu(word))
    {
        let why = format!(
            "--forbid {word}: without a GPU cuInit fails, and only cuinit and late-mask can be seen"
        );
        return Err(RunError::Usage(why));
    }
    let mut interrupt = std::mem::replace(&mut session.supervisor.interrupt, Interrupt::none());
    let folder = options
        .work
        .join(format!("cuda-pitfalls-bisect-{}", std::process::id()));
    let installer = Installer::new(session.program(), &folder, options.disk)?;
    let began = clock::now_ns();
    check_ends(options, &installer, &mut interrupt)?;
    let axes = list_axes(options, &installer, &mut interrupt, console)?;
    let mut bisection = blank_bisection(options, axes);
    let trials = Trials {
        options,
        session: &session,
        installer,
        witnesses,
        policy,
    };
    bisection.find_first_bad(|versions| trials.tell_attempt(versions, &mut interrupt, console))?;
    bisection.elapsed_ns = clock::now_ns() - began;
    let exit = match &bisection.no_answer {
        Some(NoAnswer::Interrupted) => RunError::stopped_by(&interrupt).exit(),
        None if bisection.is_exact() => Exit::Ok,
        Some(_) | None => Exit::Inconclusive,
    };
    let text = render::text(&bisection, console.screen);
    let printed = console.finish_survey(&text, serde_json::to_string(&bisection));
    Ok(exit.worst(printed))
}

/// Returns the releases between the ends of each package.
fn list_axes(
    options: &BisectOptions,
    installer: &Installer<'_>,
    interrupt: &mut Interrupt,
    console: &Console,
) -> Result<Vec<ReleaseAxis>, RunError> {
    let python = options.python.as_deref().map(Path::as_os_str);
    let (pre, build) = (options.pre, options.allows_builds());
    let mut axes = Vec::new();
    for ((package, good), bad) in options.package.iter().zip(&options.good).zip(&options.bad) {
        let listed = installer.versions(package, python, pre, build, interrupt)?;
        let axis = ReleaseAxis::between(package, &listed, good, bad);
        console.print_warnings(&[format!(
            "{package}: {} releases from {good} to {bad}",
            axis.releases.len()
        )]);
        axes.push(axis);
    }
    Ok(axes)
}

/// Returns a bisection that has not begun.
fn blank_bisection(options: &BisectOptions, axes: Vec<ReleaseAxis>) -> Bisection {
    let command = options.command.iter();
    let python = options.python.as_ref();
    Bisection {
        schema: SchemaId::current(SCHEMA),
        version: env!("CARGO_PKG_VERSION").to_string(),
        started_at: clock::utc_now(),
        forbid: options.forbid.clone(),
        command: command
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        with: options.others().collect(),
        python: python.map(|python| python.to_string_lossy().into_owned()),
        axes,
        trials: Vec::new(),
        found: Vec::new(),
        together: false,
        no_answer: None,
        elapsed_ns: 0,
    }
}

/// Rejects an end that cannot be installed, with the nearest releases that can, before anything is installed.
fn check_ends(
    options: &BisectOptions,
    installer: &Installer<'_>,
    interrupt: &mut Interrupt,
) -> Result<(), RunError> {
    let request = EnvironmentRequest {
        newest: options.newest.clone(),
        ..EnvironmentRequest::default()
    };
    let python = options.python.as_deref().map(Path::as_os_str);
    let how = How {
        request: &request,
        overrides: Vec::new(),
        pre: options.pre,
        python,
        build: options.allows_builds(),
    };
    let mut refused = Vec::new();
    for ((package, good), bad) in options.package.iter().zip(&options.good).zip(&options.bad) {
        for version in [good, bad] {
            let release = (package.as_str(), version.as_str());
            let Some(why) = installer.why_unusable(release, &how, interrupt)? else {
                continue;
            };
            let mut words = format!("{package} {version} {}.", why.trim_end_matches('.'));
            let nearest = nearest_releases(package, version, &how, installer, interrupt)?;
            if !nearest.is_empty() {
                words += &format!(" Nearest: {nearest}.");
            }
            refused.push(words);
        }
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(RunError::Usage(refused.join(" ")))
    }
}

/// Returns the nearest release on each side of one that can be installed; empty where the index lists none.
fn nearest_releases(
    package: &str,
    version: &str,
    how: &How<'_>,
    installer: &Installer<'_>,
    interrupt: &mut Interrupt,
) -> Result<String, RunError> {
    let listed = match installer.versions(package, how.python, how.pre, how.build, interrupt) {
        Ok(listed) => listed,
        Err(InstallError::Refused(_)) => return Ok(String::new()),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for side in ReleaseAxis::releases_around(&listed, version) {
        for other in side.into_iter().take(MOST_NEIGHBORS) {
            let refused = installer.why_unusable((package, other), how, interrupt)?;
            if refused.is_none() {
                found.push(other);
                break;
            }
        }
    }
    Ok(found.join(", "))
}

/// Returns the last line that a command wrote to its stderr.
fn last_line(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?;
    let bytes = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))
        .ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(|line| escape::shorten_text(line, LONGEST))
}

/// Returns `true` if a policy word decides nothing where `cuInit` cannot succeed.
fn needs_gpu(word: &PolicyWord) -> bool {
    !matches!(word, PolicyWord::Init) && *word != PolicyWord::Rule("late-mask")
}

fn has_gpu(witnesses: &[(WitnessAsked, Ground)]) -> bool {
    witnesses.iter().any(|(asked, _)| asked.cuda_gpus > 0)
}

/// Returns the witnesses that the command runs on: one with an NVML, one without, or one of each.
fn choose_witnesses(
    all: Vec<(WitnessAsked, Ground)>,
    nvml: NvmlChoice,
) -> Vec<(WitnessAsked, Ground)> {
    let (with, without): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|(asked, _)| asked.nvml_gpus.is_some());
    // On a machine with a GPU its own driver answers.
    if has_gpu(&with) {
        return with;
    }
    let asked = match nvml {
        NvmlChoice::With => vec![with],
        NvmlChoice::Without => vec![without],
        NvmlChoice::Either => vec![with, without],
    };
    let mut chosen = Vec::new();
    for witnesses in asked {
        // A libcuda shows more than a fake driver.
        let best = witnesses.into_iter();
        chosen.extend(best.min_by_key(|(asked, _)| asked.libcuda.is_none()));
    }
    chosen
}

struct Trials<'a> {
    options: &'a BisectOptions,
    session: &'a Session,
    installer: Installer<'a>,
    witnesses: Vec<(WitnessAsked, Ground)>,
    policy: Policy,
}

impl Trials<'_> {
    /// Runs the command with these versions, and prints the outcome and its duration on the console.
    fn tell_attempt(
        &self,
        versions: &BTreeMap<String, String>,
        interrupt: &mut Interrupt,
        console: &Console,
    ) -> Result<Option<(ReleaseOutcome, u64)>, RunError> {
        let names: Vec<String> = versions
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        console.status(&names.join(", "));
        let began = clock::now_ns();
        let Some(outcome) = self.attempt(versions, interrupt)? else {
            return Ok(None);
        };
        let elapsed_ns = clock::now_ns() - began;
        let trial = Trial {
            versions: versions.clone(),
            outcome: outcome.clone(),
            elapsed_ns,
        };
        console.print_warnings(&[render::trial_line(&trial)]);
        Ok(Some((outcome, elapsed_ns)))
    }

    /// Runs the command with these versions. `None` if the user stopped it.
    fn attempt(
        &self,
        versions: &BTreeMap<String, String>,
        interrupt: &mut Interrupt,
    ) -> Result<Option<ReleaseOutcome>, RunError> {
        let mut exact = Vec::new();
        for (name, version) in versions {
            exact.push(format!("{name}=={version}"));
        }
        let mut words = exact.clone();
        words.extend(self.options.others());
        let mut request = EnvironmentRequest::parse(&words.join(" "))
            .map_err(|error| RunError::Usage(error.to_string()))?;
        request.newest.clone_from(&self.options.newest);
        let how = How {
            request: &request,
            overrides: exact,
            pre: self.options.pre,
            python: self.options.python.as_deref().map(Path::as_os_str),
            build: self.options.allows_builds(),
        };
        let made = match self.installer.make_environment(&how, interrupt) {
            Ok(made) => made,
            Err(InstallError::Stopped(_)) => return Ok(None),
            Err(InstallError::Refused(why)) => {
                return Ok(Some(ReleaseOutcome::Unknown {
                    why: format!("cannot be installed: {why}"),
                }));
            }
            Err(error) => return Err(error.into()),
        };
        let outcome = self.outcome(&made, interrupt);
        self.installer.remove_environment(&made);
        outcome
    }

    /// Tries the command with each driver, until one shows that it is bad.
    fn outcome(
        &self,
        made: &Made,
        interrupt: &mut Interrupt,
    ) -> Result<Option<ReleaseOutcome>, RunError> {
        for (asked, ground) in &self.witnesses {
            match self.trace_command(made, asked, ground, interrupt)? {
                Some(ReleaseOutcome::Good) => {}
                other => return Ok(other),
            }
        }
        Ok(Some(ReleaseOutcome::Good))
    }

    fn trace_command(
        &self,
        made: &Made,
        asked: &WitnessAsked,
        ground: &Ground,
        interrupt: &mut Interrupt,
    ) -> Result<Option<ReleaseOutcome>, RunError> {
        let folder = self.session.folder().join("bisect");
        let _ = std::fs::remove_dir_all(&folder);
        let said = self.session.folder().join("bisect-stderr");
        let mut arguments = ground.arguments(self.options.timeout, "", &folder);
        arguments.extend([OsString::from("--stderr"), said.clone().into(), "--".into()]);
        arguments.extend(self.options.command.iter().cloned());
        let stopped = std::cell::RefCell::new(interrupt);
        let place = std::env::current_dir().map_err(|error| RunError::Usage(error.to_string()))?;
        let tracer = Errand {
            program: self.session.program(),
            role: role::TRACER,
            arguments,
            environment: command_environment(made),
            folder: &place,
            limit: self.options.timeout + GRACE,
            grace: PATIENCE,
            stdout: None,
        };
        let ended = tracer
            .run(|| stopped.borrow_mut().check())
            .map_err(|error| RunError::Internal(error.to_string()))?;
        match ended {
            ErrandEnd::Stopped => return Ok(None),
            ErrandEnd::Unkillable(pid) => {
                return Err(RunError::HostUnsafe(format!(
                    "process {pid} could not be killed"
                )));
            }
            ErrandEnd::Exited { status, stderr } => {
                let why = stderr.trim().to_string();
                if !status.success() && !why.is_empty() {
                    return Ok(Some(ReleaseOutcome::Unknown { why }));
                }
            }
        }
        Ok(Some(match Trace::open(&folder) {
            Ok(trace) => self.judge_trace(&trace, asked, &said),
            Err(error) => ReleaseOutcome::Unknown {
                why: error.to_string(),
            },
        }))
    }

    /// Returns whether a trace shows what is forbidden. `said` is the file with the command's stderr.
    fn judge_trace(&self, trace: &Trace, asked: &WitnessAsked, said: &Path) -> ReleaseOutcome {
        let outcome = self.policy.check(trace, &diagnosis::findings(trace));
        if let Some(violation) = outcome.violations.first() {
            let (at, way, child) = stack_of_init(trace);
            return ReleaseOutcome::Bad {
                with: words::witness_words(asked.witness).to_string(),
                says: violation.says.clone(),
                at,
                way,
                child,
            };
        }
        if let Some(why) = outcome.undecided.first() {
            return ReleaseOutcome::Unknown { why: why.clone() };
        }
        let Some(left) = trace.end.as_ref().and_then(End::failure_reason) else {
            return ReleaseOutcome::Good;
        };
        let last = last_line(said)
            .map(|line| format!(": {line}"))
            .unwrap_or_default();
        let why =
            format!("the command fails ({left}) and does nothing that is forbidden before{last}");
        ReleaseOutcome::Unknown { why }
    }
}

/// Returns the variables of a command: the caller's, with those of an environment, and without a mask.
fn command_environment(made: &Made) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for (name, value) in uv::variables(&made.folder) {
        match value {
            Some(value) => environment.insert(name, value),
            None => environment.remove(&name),
        };
    }
    environment.remove(OsStr::new("CUDA_VISIBLE_DEVICES"));
    environment
}
