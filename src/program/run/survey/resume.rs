//! Resuming a survey that was stopped.

use std::path::Path;

use super::super::error::RunError;
use super::super::session::Session;
use super::SurveyOptions;
use super::select::refuse_first;
use cuda_pitfalls_answers::survey::{Header, SurveyDocument, SurveyKind};
use cuda_pitfalls_core::input::document_path;
use cuda_pitfalls_core::report::{StoreError, Stored};
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::verdict::Provenance;

/// Reads the survey in the folder of a run.
pub(super) fn open(folder: &Path) -> Result<SurveyDocument, RunError> {
    let mut files = SurveyKind::all()
        .iter()
        .map(|kind| folder.join(kind.file()));
    let Some(path) = files.find(|path| document_path(path).is_file()) else {
        let folder = terminal(&folder.to_string_lossy());
        return Err(RunError::Usage(format!(
            "--resume: there is no survey in `{folder}`"
        )));
    };
    let stored = Stored::open(&path).map_err(cannot_resume)?;
    let survey = SurveyDocument::from_stored(&stored);
    survey
        .unwrap_or_else(|| Err(stored.unreadable_error("it is no survey".to_string())))
        .map_err(cannot_resume)
}

pub(super) fn cannot_resume(error: StoreError) -> RunError {
    RunError::Usage(format!("--resume: {error}"))
}

/// The document of a survey that goes on.
pub(super) fn document(mut survey: SurveyDocument) -> SurveyDocument {
    let Header {
        resumed,
        exit,
        interrupted,
        finished_at,
        host_unsafe,
        ..
    } = &mut survey.header;
    *resumed += 1;
    (*exit, *interrupted, *finished_at, *host_unsafe) = (None, None, None, None);
    survey
}

/// Refuses to resume a survey with other options: rows that were asked in two ways do not belong in one document, and a
/// partial survey would look complete.
pub(super) fn same_question(
    survey: &SurveyDocument,
    options: &SurveyOptions,
) -> Result<(), RunError> {
    let (header, begun) = (&survey.header, survey.kind.name());
    // One of the two has the default of listed forms, the other has the same number by --repeat.
    let with = if options.asked.repeat.is_some() {
        "without"
    } else {
        "with"
    };
    let selectors = if header.selectors.is_empty() {
        "none".to_string()
    } else {
        header.selectors.join(" ")
    };
    let has_other_repeat =
        header.generate > 0 && options.repeat_generated() != header.repeat_generated;
    refuse_first(
        [
            (
                survey.kind != options.kind,
                format!(
                    "that is a survey of {begun}, not of {}",
                    options.kind.name()
                ),
            ),
            (
                header.version != env!("CARGO_PKG_VERSION"),
                format!(
                    "it was started by version {}; start a new one",
                    header.version
                ),
            ),
            (
                options.asked.seed.is_some_and(|seed| seed != header.seed),
                format!("it was started with --seed {}", header.seed),
            ),
            (
                options.repeat() != header.repeat,
                format!("it was started with --repeat {}", header.repeat),
            ),
            (
                options.generate as u64 != header.generate,
                format!("it was started with --generate {}", header.generate),
            ),
            (
                has_other_repeat,
                format!("it was started {with} --repeat {}", header.repeat),
            ),
            (
                options.visible_gpus != header.visible_gpus,
                format!("it was started with --visible-gpus {}", header.visible_gpus),
            ),
            (
                options.selectors != header.selectors,
                format!(
                    "it was started with other selectors: {}",
                    terminal(&selectors)
                ),
            ),
        ]
        .map(|(applies, why)| (applies, format!("--resume: {why}"))),
    )
}

/// Refuses to mix rows of two machines, or real and simulated ones.
pub(super) fn same_machine(survey: &SurveyDocument, session: &Session) -> Result<(), RunError> {
    let (then, now) = (&survey.machine, &session.machine);
    let is_simulated = [survey.provenance, session.provenance]
        .map(|provenance| provenance == Provenance::Simulated);
    let subject = if is_simulated[0] != is_simulated[1] {
        "where it was started: one is the simulated machine"
    } else if then.driver_version != now.driver_version {
        "the driver it was started on"
    } else if !then
        .gpus
        .iter()
        .map(|gpu| &gpu.uuid)
        .eq(now.gpus.iter().map(|gpu| &gpu.uuid))
    {
        "the GPUs it was started on"
    } else if !then
        .libcudart
        .iter()
        .map(|runtime| &runtime.version)
        .eq(now.libcudart.iter().map(|runtime| &runtime.version))
    {
        "the libcudarts it was started with"
    } else {
        return Ok(());
    };
    Err(RunError::Usage(format!(
        "--resume: this is not {subject}; start a new one"
    )))
}
