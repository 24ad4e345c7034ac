//! Resuming a survey that was stopped.

use std::path::Path;

use super::super::error::RunError;
use super::super::session::Session;
use super::SurveyOptions;
use cuda_pitfalls_answers::survey::{Header, SurveyDocument, SurveyKind};
use cuda_pitfalls_core::input::document_path;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{StoreError, Stored};
use cuda_pitfalls_core::text::escape::terminal;

/// Reads the survey in the folder of a run.
pub(super) fn open(folder: &Path) -> Result<SurveyDocument, RunError> {
    let mut files = SurveyKind::all()
        .iter()
        .map(|kind| folder.join(kind.file()));
    let Some(path) = files.find(|path| document_path(path).is_file()) else {
        let folder = terminal(&folder.to_string_lossy());
        return Err(refuse(format!("there is no survey in `{folder}`")));
    };
    let stored = Stored::open(&path).map_err(cannot_resume)?;
    let survey = SurveyDocument::from_stored(&stored);
    survey
        .unwrap_or_else(|| Err(stored.unreadable_error("not a survey".to_string())))
        .map_err(cannot_resume)
}

pub(super) fn cannot_resume(error: StoreError) -> RunError {
    refuse(error.to_string())
}

/// Returns the document of a resumed survey.
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

/// Rejects resuming a survey with other options: rows with different options do not belong in one document, and a
/// partial survey would look complete.
pub(super) fn same_question(
    survey: &SurveyDocument,
    options: &SurveyOptions,
) -> Result<(), RunError> {
    let header = &survey.header;
    let (then, now) = (survey.kind.name(), options.kind.kind().name());
    if then != now {
        return Err(refuse(format!("it is a survey of {then}, not of {now}")));
    }
    if header.version != env!("CARGO_PKG_VERSION") {
        let version = &header.version;
        return Err(refuse(format!(
            "it was started by version {version}; start a new one"
        )));
    }
    let numbers = [
        (
            "seed",
            header.seed,
            options.asked.seed.unwrap_or(header.seed),
        ),
        ("repeat", header.repeat.into(), options.repeat().into()),
        ("generate", header.generate, options.generate as u64),
        (
            "visible-gpus",
            header.visible_gpus.into(),
            options.visible_gpus.into(),
        ),
    ];
    for (option, then, now) in numbers {
        if then != now {
            return Err(refuse(format!("it was started with --{option} {then}")));
        }
    }
    if header.generate > 0 && options.repeat_generated() != header.repeat_generated {
        // One survey has the default number of attempts, the other the same number by --repeat.
        let with = match options.asked.repeat {
            Some(_) => "without",
            None => "with",
        };
        let repeat = header.repeat;
        return Err(refuse(format!("it was started {with} --repeat {repeat}")));
    }
    if options.selectors != header.selectors {
        let selectors = match header.selectors.join(" ") {
            none if none.is_empty() => "none".to_string(),
            selectors => terminal(&selectors),
        };
        return Err(refuse(format!(
            "it was started with other selectors: {selectors}"
        )));
    }
    Ok(())
}

fn refuse(why: String) -> RunError {
    RunError::Usage(format!("--resume: {why}"))
}

/// Rejects mixing rows of two machines, or real and simulated ones.
pub(super) fn same_machine(survey: &SurveyDocument, session: &Session) -> Result<(), RunError> {
    let (then, now) = (&survey.machine, &session.machine);
    let uuids = |machine: &Machine| -> Vec<String> {
        machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect()
    };
    let versions = |machine: &Machine| -> Vec<Option<String>> {
        let libcudarts = machine.libcudart.iter();
        libcudarts.map(|runtime| runtime.version.clone()).collect()
    };
    let subject = if survey.provenance != session.provenance {
        "where it was started: one is the simulated machine"
    } else if then.driver_version != now.driver_version {
        "the driver it was started on"
    } else if uuids(then) != uuids(now) {
        "the GPUs it was started on"
    } else if versions(then) != versions(now) {
        "the libcudarts it was started with"
    } else {
        return Ok(());
    };
    Err(refuse(format!("this is not {subject}; start a new one")))
}
