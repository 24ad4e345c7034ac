//! Resuming a survey that was stopped.

use std::path::Path;

use super::super::Failure;
use super::super::session::Session;
use super::SurveyOptions;
use cuda_pitfalls_answers::survey::document::{Row, SurveyDocument};
use cuda_pitfalls_answers::survey::{Survey, SurveyKind};
use cuda_pitfalls_core::report::{StoreError, Stored};
use cuda_pitfalls_core::verdict::Provenance;

/// Reads the survey in the folder of a run.
pub(super) fn open(folder: &Path) -> Result<Survey, Failure> {
    let files = SurveyKind::ALL.map(|kind| folder.join(kind.file()));
    let Some(path) = files.iter().find(|path| path.is_file()) else {
        let folder = cuda_pitfalls_core::text::escape::terminal(&folder.to_string_lossy());
        return Err(Failure::Usage(format!("--resume: there is no survey in `{folder}`")));
    };
    let refused = |error: StoreError| Failure::Usage(format!("--resume: {error}"));
    let stored = Stored::open(path).map_err(refused)?;
    let survey = Survey::of(&stored).unwrap_or_else(|| Err(stored.unreadable("it is no survey".to_string())));
    survey.map_err(refused)
}

/// Reads the survey with rows of a known type.
pub(super) fn document<R: Row>(folder: &Path) -> Result<SurveyDocument<R>, Failure> {
    let stored = Stored::open(&folder.join(R::KIND.file()))?;
    let mut document: SurveyDocument<R> = stored.parse(&R::KIND.schema())?;
    document.survey.resumed += 1;
    document.survey.exit = None;
    document.survey.interrupted = None;
    document.survey.finished_at = None;
    document.survey.host_unsafe = None;
    Ok(document)
}

/// Refuses to resume a survey with other options: rows that were asked in two ways do not belong in one document, and a
/// partial survey would look complete.
pub(super) fn same_question(survey: &Survey, options: &SurveyOptions) -> Result<(), Failure> {
    let header = survey.header();
    let refused = |why: String| Err(Failure::Usage(format!("--resume: {why}")));
    if survey.kind() != options.kind {
        return refused(format!("that is a survey of {}, not of {}", survey.kind().name(), options.kind.name()));
    }
    if header.version != env!("CARGO_PKG_VERSION") {
        return refused(format!("it was started by version {}; start a new one", header.version));
    }
    if options.asked.seed.is_some_and(|seed| seed != header.seed) {
        return refused(format!("it was started with --seed {}", header.seed));
    }
    if options.repeat() != header.repeat {
        return refused(format!("it was started with --repeat {}", header.repeat));
    }
    if options.generate as u64 != header.generate {
        return refused(format!("it was started with --generate {}", header.generate));
    }
    if header.generate > 0 && options.repeat_generated() != header.repeat_generated {
        // One of the two has the default of listed forms, the other has the same number by --repeat.
        let begun = if options.asked.repeat.is_some() { "without" } else { "with" };
        return refused(format!("it was started {begun} --repeat {}", header.repeat));
    }
    if options.visible_gpus != header.visible_gpus {
        return refused(format!("it was started with --visible-gpus {}", header.visible_gpus));
    }
    if options.selectors != header.selectors {
        let begun = if header.selectors.is_empty() { "none".to_string() } else { header.selectors.join(" ") };
        return refused(format!(
            "it was started with other selectors: {}",
            cuda_pitfalls_core::text::escape::terminal(&begun)
        ));
    }
    Ok(())
}

/// Refuses to mix rows of two machines, or real and simulated ones.
pub(super) fn same_machine(survey: &Survey, session: &Session) -> Result<(), Failure> {
    let (then, now) = (survey.machine(), &session.machine);
    let uuids = |machine: &cuda_pitfalls_core::machine::Machine| -> Vec<String> {
        machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect()
    };
    let versions = |machine: &cuda_pitfalls_core::machine::Machine| -> Vec<Option<String>> {
        machine.libcudart.iter().map(|runtime| runtime.version.clone()).collect()
    };
    let simulated = |provenance: Provenance| provenance == Provenance::Simulated;
    let subject = if simulated(survey.provenance()) != simulated(session.provenance) {
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
    Err(Failure::Usage(format!("--resume: this is not {subject}; start a new one")))
}
