//! `survey python --with`: environments that are created, surveyed and removed one after the other.
//!
//! Each has its own document in the directory of the run, which is on disk within seconds. A survey that was stopped is
//! resumed by the directory: an environment with a complete document is not made again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::console::Console;
use super::document::{blank_report, parent_folder};
use super::error::RunError;
use super::lock::lock_gpus;
use super::progress::Progress;
use super::session::{Launcher, Session};
use super::survey::python::attempt::{Attempts, Ground, RowJob};
use super::survey::python::pool;
use super::survey::python::{PythonOptions, RowListError, file};
use super::survey::{SurveyOptions, select};
use super::uv::{self, How, InstallError, Installer, Made};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::{
    self, DriverWitness, EnvironmentDocument, EnvironmentRequest, Matrix, ReleaseEnvironment,
    ReleaseRow, WitnessAsked, WitnessSeen,
};
use cuda_pitfalls_answers::survey::python::{self, PythonLine, PythonRow, SideEffects};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::report::{SchemaId, Store, StoreError, Stored};
use cuda_pitfalls_core::scenario::python::unmet_requirement;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_instrument::simulated;
use cuda_pitfalls_instrument::supervisor::{Interrupt, signal_name};
use cuda_pitfalls_render::releases as render;

/// CUDA version that a driver without GPUs is made to report: a runtime that is newer gives up before it calls
/// `cuInit`.
const TOLD_VERSION: u32 = simulated::NO_DEVICE_VERSION;
/// Number of GPUs of the NVML that accompanies the simulated driver.
const FAKE_GPUS: u32 = 2;
/// The folder of environments, in the folder of the run.
pub(super) const WORK: &str = "environments";

/// Returns the environments of a file, or those of the built-in list.
pub(crate) fn list_environments(
    path: Option<&Path>,
) -> Result<Vec<EnvironmentRequest>, RowListError> {
    match path {
        Some(path) => file("--environments", path, releases::read),
        None => Ok(releases::built_in()?),
    }
}

/// Reads every environment's document in a directory, in the order of their names, or the one at a path. The result may
/// be empty.
pub(crate) fn documents(folder: &Path) -> Result<Vec<EnvironmentDocument>, StoreError> {
    let name = folder.file_name().and_then(|name| name.to_str());
    if name.is_some_and(releases::is_file_name) && folder.is_file() {
        return Ok(vec![document(folder)?]);
    }
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if let Ok(name) = entry.file_name().into_string()
            && releases::is_file_name(&name)
        {
            names.insert(name);
        }
    }
    let mut found = Vec::new();
    for name in names {
        found.push(document(&folder.join(name))?);
    }
    Ok(found)
}

fn document(path: &Path) -> Result<EnvironmentDocument, StoreError> {
    Stored::open(path)?.parse(releases::SCHEMA)
}

/// Runs the survey, prints and writes its results, and returns the exit code.
pub(super) fn survey(
    options: &SurveyOptions,
    launcher: Launcher,
    console: &mut Console,
) -> Result<Exit, RunError> {
    let lines = super::survey::python::list(options.python.rows.as_deref());
    let lines = lines
        .map_err(|error| RunError::Usage(error.to_string()))?
        .lines;
    let lines = select::choose_items(lines, &options.selectors)?;
    let mut session = Session::open_machine(&options.asked, launcher)?;
    let _locks = lock_gpus(&options.asked.locks, &mut session, console)?;
    let folder = match &options.resume {
        Some(folder) => folder.clone(),
        None => {
            let report = blank_report(&options.run(), &session)?;
            parent_folder(&options.asked, &session, true).join(&report.run.id)
        }
    };
    let store = Store::at(&folder)?;
    console.print_warnings(&session.notes);
    let witnesses = list_witnesses(&session);
    console.print_warnings(&[who_answers(&witnesses)]);
    let mut interrupt = std::mem::replace(&mut session.supervisor.interrupt, Interrupt::none());
    let mut survey = ReleaseSurvey {
        options,
        session,
        store,
        lines,
        witnesses,
        console,
        folder,
    };
    // The installer checks for Ctrl-C while nothing else does.
    let asked = survey.ask_environments(&mut interrupt)?;
    survey.end(asked, interrupt.signal().map(signal_name))
}

struct ReleaseSurvey<'a> {
    options: &'a SurveyOptions,
    session: Session,
    store: Store,
    lines: Vec<PythonLine>,
    /// Witnesses, in the order in which they run; the third only where the first two differ.
    witnesses: Vec<(WitnessAsked, Ground)>,
    console: &'a mut Console,
    folder: PathBuf,
}

impl ReleaseSurvey<'_> {
    /// Surveys every environment. Returns the names of those that have a document now.
    fn ask_environments(
        &mut self,
        interrupt: &mut Interrupt,
    ) -> Result<BTreeSet<String>, RunError> {
        let options = self.options;
        let requests = &options.python.requests;
        let program = self.session.program().to_path_buf();
        let installer = Installer::new(&program, &self.folder.join(WORK), options.python.disk)?;
        let mut names = BTreeSet::new();
        for (number, request) in requests.iter().enumerate() {
            if interrupt.check() {
                break;
            }
            let head = format!("{} of {}", number + 1, requests.len());
            match self.ask_environment(request, &head, &installer, interrupt) {
                Ok(name) => names.insert(name),
                Err(RunError::Interrupted(_)) => break,
                Err(error) => return Err(error),
            };
        }
        Ok(names)
    }

    /// Creates an environment, runs its lines, and removes it, unless it has a complete document. Returns its name.
    fn ask_environment(
        &mut self,
        request: &EnvironmentRequest,
        head: &str,
        installer: &Installer<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<String, RunError> {
        let options = self.options;
        let how = |request| How {
            request,
            overrides: Vec::new(),
            pre: false,
            python: options.asked.python.as_deref().map(Path::as_os_str),
            build: !options.python.allow.is_empty(),
        };
        let version = match request.version.as_str() {
            "" => installer.chosen_version(&how(request), interrupt)?,
            version => version.to_string(),
        };
        let request = EnvironmentRequest {
            version,
            ..request.clone()
        };
        let name = request.name();
        let known = document(&self.folder.join(releases::file_name(&name))).ok();
        if let Some(known) = &known
            && known.complete
            && known.environment.failed.is_none()
        {
            self.console
                .print_warnings(&[format!("{head}: {name}: already known")]);
            return Ok(name);
        }
        self.console
            .print_warnings(&[format!("{head}: {name}: installing")]);
        let mut document = self.blank_document(&request);
        match installer.make_environment(&how(&request), interrupt) {
            Ok(made) => {
                let asked = self.ask(&request, &mut document, &made, known, interrupt);
                installer.remove_environment(&made);
                asked?;
            }
            Err(InstallError::Refused(why)) => {
                self.console
                    .print_warnings(&[format!("{name}: cannot be installed: {why}")]);
                document.environment.failed = Some(why);
                document.complete = true;
            }
            Err(error) => return Err(error.into()),
        }
        self.write_document(&document)?;
        Ok(name)
    }

    fn write_document(&self, document: &EnvironmentDocument) -> Result<(), RunError> {
        self.store.write_document(&document.file(), document)?;
        Ok(())
    }

    /// Returns a document without rows.
    fn blank_document(&self, request: &EnvironmentRequest) -> EnvironmentDocument {
        EnvironmentDocument {
            schema: SchemaId::current(releases::SCHEMA),
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: crate::COMMIT.map(str::to_string),
            environment: ReleaseEnvironment {
                name: request.name(),
                package: releases::bare_name(&request.package).to_string(),
                version: request.version.clone(),
                requirements: request.install_requirements(),
                forced: request.forced,
                newest: request.newest.clone(),
                asked_at: clock::utc_now(),
                ..ReleaseEnvironment::default()
            },
            witnesses: self
                .witnesses
                .iter()
                .map(|(asked, _)| asked.clone())
                .collect(),
            rows: Vec::new(),
            complete: false,
        }
    }

    /// Runs the controls and then every line, in an environment that was made.
    fn ask(
        &mut self,
        request: &EnvironmentRequest,
        document: &mut EnvironmentDocument,
        made: &Made,
        known: Option<EnvironmentDocument>,
        interrupt: &mut Interrupt,
    ) -> Result<(), RunError> {
        let environment = &mut document.environment;
        environment.python = Some(made.version.clone());
        environment.packages.clone_from(&made.packages);
        environment.install_ns = Some(made.install_ns);
        environment.disk_bytes = Some(made.disk_bytes);
        let began = clock::now_ns();
        self.session
            .callers_python(Some(&made.python), &self.lines)?;
        let lines = self.choose_lines(request);
        let jobs = self.options.python.job_count();
        let attempts = Attempts::new(&self.session, &made.python, None, 1, jobs)
            .with(uv::variables(&made.folder));
        let options = &self.options.python;
        if let Some(why) = ask_controls(options, &attempts, &self.witnesses, interrupt) {
            self.console
                .print_warnings(&[format!("{}: {why}", document.environment.name)]);
            document.environment.failed = Some(why);
            document.complete = !attempts.stop.load(Ordering::Relaxed);
            return Ok(());
        }
        // Rows of other packages answer another question.
        if let Some(known) = known
            && known.environment.packages == document.environment.packages
        {
            document.rows = known.rows;
        }
        self.ask_lines(&lines, &attempts, made, document, interrupt)?;
        document
            .rows
            .sort_by_key(|row| lines.iter().position(|line| line.id == row.id));
        document.environment.lines_ns = Some(clock::now_ns() - began);
        document.complete = lines
            .iter()
            .all(|line| document.rows.iter().any(|row| row.id == line.id));
        if let Some(why) = attempts.unkillable_process() {
            // The next environment would run at the same time as that process.
            self.write_document(document)?;
            return Err(RunError::HostUnsafe(why));
        }
        Ok(())
    }

    /// Returns the lines to run in an environment: if none are selected, those about its package, as far as its
    /// packages and the GPUs of its witnesses allow.
    fn choose_lines(&self, request: &EnvironmentRequest) -> Vec<PythonLine> {
        let about = self.session.machine.python.clone().unwrap_or_default();
        let has_gpus = |line: &PythonLine| {
            let mut witnesses = self.witnesses.iter().map(|(asked, _)| asked.cuda_gpus);
            witnesses.all(|gpus| gpus == 0 || line.gpus <= gpus)
        };
        let mut chosen = Vec::new();
        for line in &self.lines {
            let is_selected = !self.options.selectors.is_empty();
            let is_wanted = is_selected || (is_about(line, request) && !line.asks_gpu);
            let mut needs = line.needs.iter();
            let has_packages = needs.all(|need| unmet_requirement(need, &about).is_none());
            if is_wanted && has_packages && has_gpus(line) {
                chosen.push(line.clone());
            }
        }
        chosen
    }

    /// Runs the lines that have no row yet, several at once.
    fn ask_lines(
        &self,
        lines: &[PythonLine],
        attempts: &Attempts,
        made: &Made,
        document: &mut EnvironmentDocument,
        interrupt: &mut Interrupt,
    ) -> Result<(), RunError> {
        let mut left = lines.to_vec();
        left.retain(|line| document.rows.iter().all(|row| row.id != line.id));
        self.write_document(document)?;
        self.console.start(left.len() as u64);
        let name = &document.environment.name;
        let (count, jobs) = (counted(left.len(), "line"), attempts.job_count());
        let head = format!("{name}: measuring {count}, {jobs} at once");
        self.console.print_warnings(&[head]);
        let (mut progress, mut failed) = (Progress::new(left.len()), None);
        let began = clock::now_ns();
        let mut tell = |done: Option<ReleaseRow>| {
            let Some(row) = done else {
                return self.console.tick();
            };
            self.console.step(progress.done());
            self.console
                .status(&format!("{} · {}", progress.left(), row.id));
            document.rows.push(row);
            document.environment.lines_ns = Some(clock::now_ns() - began);
            if progress.is_write_due()
                && let Err(error) = self.write_document(document)
            {
                failed = Some(error);
            }
        };
        pool::each(
            jobs,
            left,
            |line: PythonLine| {
                let job = RowJob {
                    limit: self.options.python.limit(&line),
                    line,
                    wants_memory: false,
                };
                answer(attempts, &job, &self.witnesses, &made.folder).map(|(row, _)| row)
            },
            interrupt,
            &attempts.stop,
            &mut tell,
        );
        match failed {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Prints the matrix of the results of this survey, and returns the exit code.
    fn end(&mut self, names: BTreeSet<String>, signal: Option<String>) -> Result<Exit, RunError> {
        let mut asked = documents(&self.folder)?;
        asked.retain(|document| names.contains(&document.environment.name));
        let exit = if let Some(signal) = signal {
            Exit::stopped_by(&signal)
        } else if asked.iter().all(|document| document.rows.is_empty()) {
            Exit::NothingMeasured
        } else if asked.iter().any(|document: &EnvironmentDocument| {
            !document.complete || document.environment.failed.is_some()
        }) {
            Exit::Inconclusive
        } else {
            Exit::Ok
        };
        let matrix = Matrix::new(&asked);
        let place = self.folder.display();
        let text = format!(
            "{}\ndocuments  {place}",
            render::text(&matrix, self.console.screen)
        );
        let json = serde_json::to_string(&matrix);
        Ok(exit.worst(self.console.finish_survey(&text, json)))
    }
}

/// Runs the controls of every witness. Returns the problem, if there is one.
pub(super) fn ask_controls(
    options: &PythonOptions,
    attempts: &Attempts,
    witnesses: &[(WitnessAsked, Ground)],
    interrupt: &mut Interrupt,
) -> Option<String> {
    let mut wrong = None;
    for (asked, ground) in witnesses {
        let visible: Vec<u32> = (0..asked.cuda_gpus).collect();
        for control in python::instrument_controls(&visible) {
            if interrupt.check() {
                attempts.stop.store(true, Ordering::Relaxed);
            }
            let line = control.line.clone();
            let job = RowJob {
                limit: options.limit(&line),
                line,
                wants_memory: false,
            };
            let Some(attempt) = attempts.on(&job, ground) else {
                return Some("interrupted".to_string());
            };
            let held =
                control.held(PythonRow::new(&control.line, None).with_attempts(vec![attempt]));
            if held.as_expected != Some(true) {
                let detail = held
                    .standing
                    .unmeasured
                    .map(|why| format!(": {}", why.detail))
                    .unwrap_or_default();
                let who = render::witness_words(asked.witness);
                wrong.get_or_insert(format!(
                    "the control `{}` failed with {who}{detail}",
                    held.id
                ));
            }
        }
    }
    wrong
}

fn is_about(line: &PythonLine, request: &EnvironmentRequest) -> bool {
    let package = releases::normalize_name(releases::bare_name(&request.package));
    line.packages()
        .iter()
        .any(|name| releases::normalize_name(name) == package)
}

/// Returns what witnesses show of a line in the environment of this directory, and what it did in addition to `cuInit` with an
/// NVML. `None` if the user stopped it.
pub(super) fn answer(
    attempts: &Attempts,
    job: &RowJob,
    witnesses: &[(WitnessAsked, Ground)],
    folder: &Path,
) -> Option<(ReleaseRow, SideEffects)> {
    let mut row = ReleaseRow::new(&job.line, Vec::new());
    let mut side_effects = SideEffects::default();
    for (number, (asked, ground)) in witnesses.iter().enumerate() {
        let settles = number > 1;
        if settles && !row.is_open() {
            break;
        }
        let attempt = attempts.on(job, ground)?;
        if asked.nvml_gpus.is_some() {
            side_effects = attempt.side_effects.clone();
        }
        row.seen
            .push(WitnessSeen::new(asked.witness, attempt, asked.cuda_gpus > 0).below(folder));
    }
    Some((row, side_effects))
}

pub(super) fn list_witnesses(session: &Session) -> Vec<(WitnessAsked, Ground)> {
    if session.provenance != Provenance::Measured || !session.has_libcuda() {
        return vec![
            fake_witness(DriverWitness::Fake),
            fake_witness(DriverWitness::FakeWithNvml),
        ];
    }
    let told = Some(TOLD_VERSION);
    match u32::try_from(session.usable_gpus().len()).unwrap_or(u32::MAX) {
        0 => vec![
            libcuda(session, DriverWitness::Libcuda, told, 0),
            fake_witness(DriverWitness::FakeWithNvml),
            libcuda(session, DriverWitness::LibcudaWithNvml, told, 0),
        ],
        gpus => vec![libcuda(session, DriverWitness::Libcuda, None, gpus)],
    }
}

/// Returns the simulated driver, which finds no GPU, either with an NVML that lists GPUs or without an NVML.
fn fake_witness(witness: DriverWitness) -> (WitnessAsked, Ground) {
    let has_nvml = witness == DriverWitness::FakeWithNvml;
    let nvml_gpus = has_nvml.then_some(FAKE_GPUS);
    let asked = WitnessAsked {
        witness,
        libcuda: None,
        told_version: Some(TOLD_VERSION),
        nvml_gpus,
        cuda_gpus: 0,
    };
    let nvml = (!has_nvml).then_some("nothing");
    (
        asked,
        Ground {
            on: format!("sim:{}", simulated::NO_DEVICE),
            nvml,
            ..Ground::default()
        },
    )
}

/// Returns this machine's libcuda with its own NVML, or with the simulated machine's.
fn libcuda(
    session: &Session,
    witness: DriverWitness,
    told_version: Option<u32>,
    cuda_gpus: u32,
) -> (WitnessAsked, Ground) {
    let nvml = (witness == DriverWitness::LibcudaWithNvml).then_some("simulated");
    let nvml_gpus = if nvml.is_some() { FAKE_GPUS } else { cuda_gpus };
    let libcuda = session.libcuda.as_deref().and_then(version_of);
    let nvml_gpus = (nvml_gpus > 0).then_some(nvml_gpus);
    let returns = told_version
        .map(|version| format!("cuDriverGetVersion={version}"))
        .unwrap_or_default();
    let asked = WitnessAsked {
        witness,
        libcuda,
        told_version,
        nvml_gpus,
        cuda_gpus,
    };
    (
        asked,
        Ground {
            on: session.on.clone(),
            returns,
            nvml,
        },
    )
}

/// Returns the version in the name of a libcuda's file.
fn version_of(libcuda: &Path) -> Option<String> {
    let file = fs::canonicalize(libcuda).ok()?;
    let version = file
        .file_name()?
        .to_str()?
        .strip_prefix("libcuda.so.")?
        .to_string();
    version.contains('.').then_some(version)
}

/// Prints which drivers answer, and what they cannot show.
pub(super) fn who_answers(witnesses: &[(WitnessAsked, Ground)]) -> String {
    match witnesses.first().map(|(asked, _)| asked) {
        Some(WitnessAsked { cuda_gpus, .. }) if *cuda_gpus > 0 => {
            format!("{} answer", counted(*cuda_gpus as usize, "GPU"))
        }
        Some(WitnessAsked { witness: DriverWitness::Libcuda, .. }) => {
            "no GPU, so only calls of cuInit are measured, with this libcuda and with a simulated driver; a GPU is needed to see where contexts are created"
                .to_string()
        }
        _ => "no GPU and no libcuda, so only calls of cuInit are measured, with a simulated driver; a distribution's libcuda (Debian: libcuda1) would be a second source"
            .to_string(),
    }
}
