//! What one document answers, as machines are compared by it.
//!
//! A whole report is judged anew and made compact first, so that both have the same facts. A document that
//! contradicts itself is refused.

use std::collections::BTreeMap;

use super::rows;
use super::{Bucket, Key};
use crate::survey::{Survey, SurveyKind};
use cuda_pitfalls_core::fact::Change;
use cuda_pitfalls_core::judge;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{self, CompactCase, CompactReport, CompactScenario, Head, Report};
use cuda_pitfalls_core::text::counts::tally;
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Provenance, Reason};
use cuda_pitfalls_trace as trace;

/// A label is no longer than a host name may be.
const LONGEST_LABEL: usize = 253;
/// More warnings of one report are left out.
const MOST_WARNINGS: usize = 20;
/// Of so many attempts one may be disturbed on a machine that is otherwise idle. More of them say that other
/// processes came and went during the run, although none was there before it: in the committed reports of such
/// runs it is one of four or more, and none in the others.
const DISTURBED_OF: u64 = 20;
/// A compact report says so near to its beginning, in this way.
const HEAD_BYTES: usize = 256;
const WRITTEN: &[u8] = br#""must_understand":["compact""#;
/// How the time of a run is written: `2026-11-20T17:49:29Z`.
const TIME: &str = "0000-00-00T00:00:00Z";

/// Why a document is not merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where it belongs.
    pub bucket: Bucket,
    /// Why, in words.
    pub why: String,
}

/// What one document answers.
#[derive(Clone, Debug)]
pub(super) struct Digest {
    /// Who answered.
    pub provenance: Provenance,
    /// When its run began, RFC 3339, UTC.
    pub started_at: String,
    /// Whether its run did not finish.
    pub is_partial: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The UUIDs of the machine's GPUs, sorted.
    pub gpus: Vec<String>,
    /// What machines must have in common to be compared, but for the libcudart, which is empty here.
    pub key: Key,
    /// How many verdicts there are of each kind.
    pub verdicts: BTreeMap<Kind, usize>,
    /// How many of them were unexpected.
    pub unexpected: usize,
    /// What a context took on its GPUs before the first question: the largest figure of a sound calibration.
    pub context_bytes: Option<u64>,
    /// Doubts about the measurement, in words.
    pub warnings: Vec<String>,
    /// One for each question that was asked, and each libcudart.
    pub answers: Vec<MachineAnswer>,
}

/// What one question showed on one libcudart.
#[derive(Clone, Debug)]
pub(super) struct MachineAnswer {
    /// The instance, or the survey and its row.
    pub name: String,
    /// The scenario that the instance is of; empty for rows.
    pub scenario: String,
    /// The question in words, where the document has them.
    pub words: String,
    /// What was asked, if that is known: another value is another question.
    pub asked: String,
    /// The version of libcudart; empty where none is needed.
    pub libcudart: String,
    /// Whether the report itself says that the verdict is unexpected.
    pub is_unexpected: bool,
    /// What it showed.
    pub shown: Shown,
}

/// What a question showed.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    /// An answer.
    Answer {
        /// The verdict.
        kind: Kind,
        /// Whether a mixture of outcomes is an answer, so that its facts are a matter of chance.
        by_chance: bool,
        /// What each case showed.
        cases: Vec<CaseAnswer>,
    },
    /// It was asked, and has no answer, for this reason.
    Nothing(String),
}

/// What the attempts of one case showed.
#[derive(Clone, Debug)]
pub(super) struct CaseAnswer {
    /// The case's name; empty for rows.
    pub name: String,
    /// What every distinct outcome showed, sorted: how often each was seen is a matter of chance.
    pub outcomes: Vec<Vec<Change>>,
    /// The largest change of memory by GPU in the most frequent outcome; none if it could not be read.
    pub figures: Vec<(String, Option<i64>)>,
}

/// What kind of document a text is.
pub(super) enum Document {
    /// A compact report: [`compact`] reads it.
    Compact,
    /// A report with everything in it: [`judged`] reads it.
    Whole,
    /// A survey: [`surveyed`] reads it.
    Survey,
}

/// What kind of document a text is, by its head.
///
/// # Errors
/// It is none that can be merged.
pub(super) fn document(text: &[u8]) -> Result<Document, Refused> {
    // As this program writes it, so that ten thousand of them are not read twice. [`compact`] checks it all the same.
    let begins = text.get(..text.len().min(HEAD_BYTES)).unwrap_or_default();
    if begins.windows(WRITTEN.len()).any(|window| window == WRITTEN) {
        return Ok(Document::Compact);
    }
    let head = Head::read(text).map_err(|error| refused(&error))?;
    Ok(match (is_survey(&head)?, head.is_compact()) {
        (true, _) => Document::Survey,
        (false, true) => Document::Compact,
        (false, false) => Document::Whole,
    })
}

/// Whether a document is a survey, and not a report.
fn is_survey(head: &Head) -> Result<bool, Refused> {
    let name = head.name.as_str();
    let unsupported = |why: String| Err(Refused { bucket: Bucket::Unsupported, why });
    if let Some(what) = head.unsupported() {
        return unsupported(format!("it requires `{what}`, which this program does not support"));
    }
    let is_survey = SurveyKind::ALL.iter().any(|kind| kind.schema() == name);
    if name == trace::SCHEMA {
        return unsupported("traces are not merged: `compare` compares two".to_owned());
    }
    if name != report::SCHEMA && !is_survey {
        return Err(invalid("it is no report and no survey of this program"));
    }
    if head.major != Some(1) {
        let major = head.major.map_or_else(|| "none".to_owned(), |major| major.to_string());
        return unsupported(format!("its major version is {major}, this program reads 1"));
    }
    Ok(is_survey)
}

/// What a whole report answers, judged as today.
///
/// # Errors
/// It is not valid, or it answers nothing.
pub(super) fn judged(text: &[u8]) -> Result<Digest, Refused> {
    let mut whole: Report = serde_json::from_slice(text).map_err(|error| refused(&error))?;
    judge::rejudge(&mut whole);
    let compact = CompactReport::new(&whole, |_| false);
    drop(whole);
    reported(compact)
}

/// What a compact report answers.
///
/// # Errors
/// It is not valid, or it answers nothing.
pub(super) fn compact(text: &[u8]) -> Result<Digest, Refused> {
    let read: CompactReport = serde_json::from_slice(text).map_err(|error| refused(&error))?;
    if is_survey(&Head::of(&read.schema, &read.must_understand))? {
        return Err(invalid("it says that it is compact, and is no compact report"));
    }
    reported(read)
}

fn reported(report: CompactReport) -> Result<Digest, Refused> {
    let CompactReport { provenance, run, machine, scenarios, complete, .. } = report;
    if run.labels.iter().any(|(name, value)| name.len().max(value.len()) > LONGEST_LABEL) {
        return Err(invalid(&format!("a label is longer than {LONGEST_LABEL} bytes")));
    }
    let mut warnings = run.warnings;
    warnings.extend(run.host_unsafe.map(|why| format!("host unsafe: {why}")));
    warnings.truncate(MOST_WARNINGS);
    let sound = run.calibration.iter().map(|it| &it.figures).filter(|it| it.sound);
    let context_bytes = sound.map(|it| it.context_bytes).max();
    let shared = !run.co_tenants.is_empty() || is_disturbed(&scenarios);
    let mut verdicts = BTreeMap::new();
    for scenario in &scenarios {
        *verdicts.entry(scenario.verdict.kind).or_insert(0) += 1;
    }
    let is_unexpected = |one: &&CompactScenario| one.verdict.expectation == ExpectationMet::Unexpected;
    let unexpected = scenarios.iter().filter(is_unexpected).count();
    let answers = scenarios.into_iter().filter_map(answered).collect();
    let digest = digest(provenance, run.started_at, &machine, answers, "no question was answered")?;
    let (key, labels) = (Key { shared, ..digest.key }, run.labels);
    Ok(Digest { is_partial: !complete, labels, key, verdicts, unexpected, context_bytes, warnings, ..digest })
}

/// What a document of a machine answers; `nothing` is said of one without an answer.
fn digest(
    provenance: Provenance,
    started_at: String,
    machine: &Machine,
    answers: Vec<MachineAnswer>,
    nothing: &str,
) -> Result<Digest, Refused> {
    let same = |(own, known): (char, char)| if known == '0' { own.is_ascii_digit() } else { own == known };
    if started_at.len() != TIME.len() || !started_at.chars().zip(TIME.chars()).all(same) {
        return Err(invalid("`started_at` is no time in UTC, such as 2026-11-20T17:49:29Z"));
    }
    if !answers.iter().any(|one| matches!(one.shown, Shown::Answer { .. })) {
        return Err(Refused { bucket: Bucket::Empty, why: nothing.to_owned() });
    }
    let mut gpus: Vec<String> = machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
    gpus.sort();
    Ok(Digest {
        provenance,
        started_at,
        is_partial: false,
        labels: BTreeMap::new(),
        gpus,
        key: key(machine),
        verdicts: BTreeMap::new(),
        unexpected: 0,
        context_bytes: None,
        warnings: Vec::new(),
        answers,
    })
}

/// What a survey answers: its rows are questions.
///
/// # Errors
/// It is not valid, or it answers nothing.
pub(super) fn surveyed(text: &[u8]) -> Result<Digest, Refused> {
    let head = Head::read(text).map_err(|error| refused(&error))?;
    let kind = SurveyKind::ALL.into_iter().find(|kind| kind.schema() == head.name);
    let read = |kind| match kind {
        SurveyKind::Calls => serde_json::from_slice(text).map(Survey::Calls),
        SurveyKind::Mask => serde_json::from_slice(text).map(Survey::Mask),
        SurveyKind::Env => serde_json::from_slice(text).map(Survey::Env),
        SurveyKind::Needs => serde_json::from_slice(text).map(Survey::Needs),
        SurveyKind::Python => serde_json::from_slice(text).map(Survey::Python),
        SurveyKind::Errors => serde_json::from_slice(text).map(Survey::Errors),
        SurveyKind::Startup => serde_json::from_slice(text).map(Survey::Startup),
    };
    let survey = kind.map(read).ok_or_else(|| invalid("it is no survey"))?.map_err(|error| refused(&error))?;
    let (answers, started_at) = (rows::answers(&survey), survey.header().started_at.clone());
    let digest = digest(survey.provenance(), started_at, survey.machine(), answers, "no row was measured")?;
    Ok(Digest { is_partial: !survey.is_complete(), ..digest })
}

/// One question, if the report says anything of it that is the machine's.
fn answered(scenario: CompactScenario) -> Option<MachineAnswer> {
    let CompactScenario { name, scenario, question, asked, nondeterministic, libcudart, verdict, cases, .. } = scenario;
    let shown = if verdict.kind.is_conclusive() {
        let cases = cases.into_iter().filter(|case| !case.outcomes.is_empty());
        let cases = cases.map(|it| case(it, nondeterministic)).collect();
        Shown::Answer { kind: verdict.kind, by_chance: nondeterministic, cases }
    } else {
        match verdict.reason {
            Some(reason) if is_of_the_run(reason) => return None,
            Some(reason) => Shown::Nothing(reason.name()),
            None => Shown::Nothing(verdict.kind.name().to_owned()),
        }
    };
    Some(MachineAnswer {
        scenario: scenario.unwrap_or_else(|| name.clone()),
        name,
        words: question,
        asked: asked.unwrap_or_default(),
        libcudart: libcudart.and_then(|library| library.version).unwrap_or_default(),
        is_unexpected: verdict.expectation == ExpectationMet::Unexpected,
        shown,
    })
}

/// Whether so many attempts do not count because of other processes that a machine was not idle.
fn is_disturbed(scenarios: &[CompactScenario]) -> bool {
    let (mut made, mut disturbed) = (0_u64, 0_u64);
    for case in scenarios.iter().flat_map(|scenario| &scenario.cases) {
        let counted: u64 = case.outcomes.iter().map(|outcome| u64::from(outcome.count)).sum();
        let others: u64 = case.not_counted.values().map(|count| u64::from(*count)).sum();
        made = made.saturating_add(counted).saturating_add(others);
        let by_others =
            case.not_counted.iter().filter(|(reason, _)| matches!(reason, Reason::Contaminated | Reason::Residue));
        disturbed = by_others.fold(disturbed, |sum, (_, count)| sum.saturating_add(u64::from(*count)));
    }
    disturbed.saturating_mul(DISTURBED_OF) > made
}

/// Whether a question was left out by those who ran it, and not by what the machine is.
fn is_of_the_run(reason: Reason) -> bool {
    matches!(reason, Reason::HazardNotAllowed | Reason::Restricted | Reason::NotRoot | Reason::Interrupted)
}

/// Which of several outcomes is the most frequent one, and with it the figures, may be a matter of chance.
fn case(case: CompactCase, by_chance: bool) -> CaseAnswer {
    let mut outcomes = case.outcomes;
    let used = outcomes.first_mut().map(|top| std::mem::take(&mut top.used_bytes)).unwrap_or_default();
    let mut shown: Vec<Vec<Change>> = outcomes.into_iter().map(|outcome| outcome.facts).collect();
    shown.sort();
    shown.dedup();
    CaseAnswer { name: case.name, outcomes: shown, figures: used.into_iter().filter(|_| !by_chance).collect() }
}

/// What machines must have in common. Whether others were on the GPUs only a report says: a survey needs idle ones.
fn key(machine: &Machine) -> Key {
    let mut models = tally(machine.gpus.iter().map(|gpu| gpu.name.as_deref().unwrap_or("GPU of unknown name")));
    models.sort();
    let models: Vec<String> = models.into_iter().map(|(name, count)| format!("{count}x {name}")).collect();
    Key {
        gpus: if models.is_empty() { "no GPU".to_owned() } else { models.join(", ") },
        driver: machine.driver_version.clone().unwrap_or_default(),
        libcudart: String::new(),
        mig: machine.gpus.iter().any(|gpu| gpu.mig == Some(true)),
        shared: false,
    }
}

fn invalid(why: &str) -> Refused {
    Refused { bucket: Bucket::Invalid, why: why.to_owned() }
}

fn refused(error: &serde_json::Error) -> Refused {
    let bucket = if error.is_eof() { Bucket::Truncated } else { Bucket::Invalid };
    Refused { bucket, why: error.to_string() }
}
