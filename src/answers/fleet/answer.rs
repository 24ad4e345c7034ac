//! What one document answers, as machines are compared by it.
//!
//! A compact report is read where it lies, without copies. A whole one is judged anew and made compact first, so
//! that both are told in the same words. Nothing is believed of a document: what contradicts itself is refused.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::rows;
use super::{Bucket, Key};
use crate::survey::{Survey, SurveyKind};
use cuda_pitfalls_core::fact::Change;
use cuda_pitfalls_core::judge;
use cuda_pitfalls_core::report::{self, Report, UNDERSTOOD};
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
pub(super) struct Digest<'t> {
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
    /// Doubts about the measurement, in words.
    pub warnings: Vec<String>,
    /// One for each question that was asked, and each libcudart.
    pub answers: Vec<Answered<'t>>,
}

/// What one question showed on one libcudart.
#[derive(Clone, Debug)]
pub(super) struct Answered<'t> {
    /// The instance, or the survey and its row.
    pub name: Cow<'t, str>,
    /// The scenario that the instance is of; empty for rows.
    pub scenario: Cow<'t, str>,
    /// The question in words, where the document has them.
    pub words: Cow<'t, str>,
    /// What was asked, if that is known: another value is another question.
    pub asked: Cow<'t, str>,
    /// The version of libcudart; empty where none is needed.
    pub libcudart: Cow<'t, str>,
    /// What it showed.
    pub shown: Shown<'t>,
}

/// What a question showed.
#[derive(Clone, Debug)]
pub(super) enum Shown<'t> {
    /// An answer.
    Answer {
        /// The verdict.
        kind: Kind,
        /// Whether a mixture of outcomes is an answer, so that its facts are a matter of chance.
        by_chance: bool,
        /// What each case showed.
        cases: Vec<Case<'t>>,
    },
    /// It was asked, and has no answer, for this reason.
    Nothing(String),
}

/// What the attempts of one case showed.
#[derive(Clone, Debug)]
pub(super) struct Case<'t> {
    /// The case's name; empty for rows.
    pub name: Cow<'t, str>,
    /// What every distinct outcome showed, sorted: how often each was seen is a matter of chance.
    pub outcomes: Vec<Vec<Change>>,
    /// The largest change of memory by GPU in the most frequent outcome; none where it could not be read.
    pub figures: Vec<(Text<'t>, Option<i64>)>,
}

/// Text of a document, in its own place where it has no escapes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Text<'t>(#[serde(borrow)] pub Cow<'t, str>);

#[derive(Deserialize)]
struct Head<'t> {
    #[serde(default, borrow)]
    schema: HeadSchema<'t>,
    #[serde(default, borrow)]
    must_understand: Vec<Text<'t>>,
    #[serde(default)]
    run: HeadRun,
}

#[derive(Default, Deserialize)]
struct HeadSchema<'t> {
    #[serde(default, borrow)]
    name: Option<Text<'t>>,
    major: Option<u64>,
    #[serde(default, borrow)]
    must_understand: Vec<Text<'t>>,
}

#[derive(Default, Deserialize)]
struct HeadRun {
    #[serde(default)]
    compact: bool,
}

#[derive(Deserialize)]
struct Compact<'t> {
    #[serde(default, borrow)]
    schema: HeadSchema<'t>,
    #[serde(default, borrow)]
    must_understand: Vec<Text<'t>>,
    provenance: Provenance,
    run: CompactRun,
    machine: CompactMachine,
    #[serde(borrow)]
    scenarios: Vec<Scenario<'t>>,
    complete: bool,
}

#[derive(Deserialize)]
struct CompactRun {
    #[serde(default)]
    compact: bool,
    #[serde(default)]
    on: String,
    started_at: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    co_tenants: Vec<report::CoTenancy>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    host_unsafe: Option<String>,
}

#[derive(Deserialize)]
struct CompactMachine {
    driver_version: Option<String>,
    #[serde(default)]
    gpus: Vec<Gpu>,
    #[serde(default)]
    libraries: Vec<Mapped>,
}

#[derive(Deserialize)]
struct Mapped {
    #[serde(default)]
    simulated: bool,
}

#[derive(Deserialize)]
struct Gpu {
    uuid: String,
    name: Option<String>,
    mig: Option<bool>,
}

#[derive(Deserialize)]
struct Scenario<'t> {
    #[serde(borrow)]
    name: Text<'t>,
    #[serde(borrow)]
    scenario: Option<Text<'t>>,
    #[serde(borrow)]
    question: Option<Text<'t>>,
    #[serde(borrow)]
    asked: Option<Text<'t>>,
    #[serde(default)]
    nondeterministic: bool,
    #[serde(borrow)]
    libcudart: Option<Library<'t>>,
    verdict: Verdict,
    #[serde(default, borrow)]
    cases: Vec<CompactCase<'t>>,
}

#[derive(Deserialize)]
struct Library<'t> {
    #[serde(borrow)]
    version: Option<Text<'t>>,
}

#[derive(Deserialize)]
struct Verdict {
    kind: Kind,
    reason: Option<Reason>,
    expectation: ExpectationMet,
}

#[derive(Deserialize)]
struct CompactCase<'t> {
    #[serde(borrow)]
    name: Text<'t>,
    #[serde(default, borrow)]
    outcomes: Vec<CompactOutcome<'t>>,
    #[serde(default)]
    not_counted: BTreeMap<Reason, u32>,
}

#[derive(Deserialize)]
struct CompactOutcome<'t> {
    #[serde(default)]
    count: u32,
    #[serde(default)]
    facts: Vec<Change>,
    #[serde(default, borrow)]
    used_bytes: BTreeMap<Text<'t>, Option<i64>>,
}

/// What kind of document a text is.
pub(super) enum Document {
    /// A compact report: [`digest`] reads it as it is.
    Compact,
    /// A report with everything in it: [`compacted`] makes a compact one.
    Whole,
    /// A survey: [`surveyed`] reads it.
    Survey,
}

/// What kind of document a text is, by its head.
///
/// # Errors
/// It is none that can be merged.
pub(super) fn document(text: &[u8]) -> Result<Document, Refused> {
    // As this program writes it, so that ten thousand of them are not read twice. `digest` checks it all the same.
    let begins = text.get(..text.len().min(HEAD_BYTES)).unwrap_or_default();
    if begins.windows(WRITTEN.len()).any(|window| window == WRITTEN) {
        return Ok(Document::Compact);
    }
    let head: Head = serde_json::from_slice(text).map_err(|error| refused(&error))?;
    let is_survey = check_head(&head.schema, &head.must_understand)?;
    Ok(match (is_survey, head.run.compact) {
        (true, _) => Document::Survey,
        (false, true) => Document::Compact,
        (false, false) => Document::Whole,
    })
}

/// Whether a document is a survey, and not a report.
fn check_head(schema: &HeadSchema<'_>, must_understand: &[Text<'_>]) -> Result<bool, Refused> {
    let name = schema.name.as_ref().map(|name| &*name.0).unwrap_or_default();
    let unsupported = |why: String| Err(Refused { bucket: Bucket::Unsupported, why });
    if let Some(what) = must_understand.iter().chain(&schema.must_understand).find(|it| !UNDERSTOOD.contains(&&*it.0)) {
        return unsupported(format!("it requires `{}`, which this program does not support", what.0));
    }
    let is_survey = SurveyKind::ALL.iter().any(|kind| kind.schema() == name);
    if name == trace::SCHEMA {
        return unsupported("traces are not merged: `compare` compares two".to_owned());
    }
    if name != report::SCHEMA && !is_survey {
        return Err(invalid("it is no report and no survey of this program"));
    }
    if schema.major != Some(1) {
        let major = schema.major.map_or_else(|| "none".to_owned(), |major| major.to_string());
        return unsupported(format!("its major version is {major}, this program reads 1"));
    }
    Ok(is_survey)
}

/// A compact report of a whole one, judged as today, as text.
///
/// # Errors
/// It is not valid.
pub(super) fn compacted(text: &[u8]) -> Result<String, Refused> {
    let mut whole: Report = serde_json::from_slice(text).map_err(|error| refused(&error))?;
    judge::rejudge(&mut whole);
    let compact = report::compact(&whole, |_| false);
    serde_json::to_string(&report::document(&compact)).map_err(|error| refused(&error))
}

/// What a compact report answers.
///
/// # Errors
/// It is not valid, or it answers nothing.
pub(super) fn digest(text: &[u8]) -> Result<Digest<'_>, Refused> {
    let read: Compact = serde_json::from_slice(text).map_err(|error| refused(&error))?;
    let Compact { schema, must_understand, provenance, run, machine, scenarios, complete } = read;
    if check_head(&schema, &must_understand)? || !run.compact {
        return Err(invalid("it says that it is compact, and is no compact report"));
    }
    if let Some(why) = provenance.contradiction(&run.on, machine.libraries.iter().any(|library| library.simulated)) {
        return Err(invalid(&why));
    }
    check_run(&run.started_at, &run.labels)?;
    let mut warnings = run.warnings;
    warnings.extend(run.host_unsafe.map(|why| format!("host unsafe: {why}")));
    warnings.truncate(MOST_WARNINGS);
    let shared = !run.co_tenants.is_empty() || is_disturbed(&scenarios);
    let mut verdicts = BTreeMap::new();
    for scenario in &scenarios {
        *verdicts.entry(scenario.verdict.kind).or_insert(0) += 1;
    }
    let is_unexpected = |one: &&Scenario| one.verdict.expectation == ExpectationMet::Unexpected;
    let unexpected = scenarios.iter().filter(is_unexpected).count();
    let answers: Vec<Answered> = scenarios.into_iter().filter_map(answered).collect();
    if !answers.iter().any(|one| matches!(one.shown, Shown::Answer { .. })) {
        return Err(Refused { bucket: Bucket::Empty, why: "no question was answered".to_owned() });
    }
    let gpus = machine.gpus.iter();
    let key = key(gpus.map(|gpu| (gpu.name.as_deref(), gpu.mig)), machine.driver_version, shared);
    let mut gpus: Vec<String> = machine.gpus.into_iter().map(|gpu| gpu.uuid).collect();
    gpus.sort();
    Ok(Digest {
        provenance,
        started_at: run.started_at,
        is_partial: !complete,
        labels: run.labels,
        gpus,
        key,
        verdicts,
        unexpected,
        warnings,
        answers,
    })
}

/// What a survey answers: its rows are questions.
///
/// # Errors
/// It is not valid, or it answers nothing.
pub(super) fn surveyed(text: &[u8]) -> Result<Digest<'static>, Refused> {
    let head: Head = serde_json::from_slice(text).map_err(|error| refused(&error))?;
    let name = head.schema.name.map(|name| name.0).unwrap_or_default();
    let kind = SurveyKind::ALL.into_iter().find(|kind| kind.schema() == name);
    let read = |kind| match kind {
        SurveyKind::Calls => serde_json::from_slice(text).map(Survey::Calls),
        SurveyKind::Mask => serde_json::from_slice(text).map(Survey::Mask),
        SurveyKind::Env => serde_json::from_slice(text).map(Survey::Env),
        SurveyKind::Python => serde_json::from_slice(text).map(Survey::Python),
    };
    let survey = kind.map(read).ok_or_else(|| invalid("it is no survey"))?.map_err(|error| refused(&error))?;
    check_run(&survey.header().started_at, &BTreeMap::new())?;
    let answers = rows::answers(&survey);
    if !answers.iter().any(|one| matches!(one.shown, Shown::Answer { .. })) {
        return Err(Refused { bucket: Bucket::Empty, why: "no row was measured".to_owned() });
    }
    let machine = survey.machine();
    let gpus = machine.gpus.iter();
    // A survey needs idle GPUs, and says nothing of others on them.
    let key = key(gpus.map(|gpu| (gpu.name.as_deref(), gpu.mig)), machine.driver_version.clone(), false);
    let mut gpus: Vec<String> = machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
    gpus.sort();
    Ok(Digest {
        provenance: survey.provenance(),
        started_at: survey.header().started_at.clone(),
        is_partial: !survey.is_complete(),
        labels: BTreeMap::new(),
        gpus,
        key,
        verdicts: BTreeMap::new(),
        unexpected: 0,
        warnings: Vec::new(),
        answers,
    })
}

/// One question, if the report says anything of it that is the machine's.
fn answered(scenario: Scenario<'_>) -> Option<Answered<'_>> {
    let Scenario { name, scenario, question, asked, nondeterministic, libcudart, verdict, cases } = scenario;
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
    Some(Answered {
        scenario: scenario.map_or_else(|| name.0.clone(), |scenario| scenario.0),
        name: name.0,
        words: question.map(|question| question.0).unwrap_or_default(),
        asked: asked.map(|asked| asked.0).unwrap_or_default(),
        libcudart: libcudart.map(|library| library.version.map(|it| it.0).unwrap_or_default()).unwrap_or_default(),
        shown,
    })
}

/// Whether so many attempts do not count because of other processes that a machine was not idle.
fn is_disturbed(scenarios: &[Scenario<'_>]) -> bool {
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
fn case(case: CompactCase<'_>, by_chance: bool) -> Case<'_> {
    let mut outcomes = case.outcomes;
    let used = outcomes.first_mut().map(|top| std::mem::take(&mut top.used_bytes)).unwrap_or_default();
    let mut shown: Vec<Vec<Change>> = outcomes.into_iter().map(|outcome| outcome.facts).collect();
    shown.sort();
    shown.dedup();
    Case { name: case.name.0, outcomes: shown, figures: used.into_iter().filter(|_| !by_chance).collect() }
}

/// What machines must have in common.
fn key<'g>(gpus: impl Iterator<Item = (Option<&'g str>, Option<bool>)>, driver: Option<String>, shared: bool) -> Key {
    let gpus: Vec<(&str, Option<bool>)> =
        gpus.map(|(name, mig)| (name.unwrap_or("GPU of unknown name"), mig)).collect();
    let mut models = tally(gpus.iter().map(|(name, _)| *name));
    models.sort();
    let models: Vec<String> = models.into_iter().map(|(name, count)| format!("{count}x {name}")).collect();
    Key {
        gpus: if models.is_empty() { "no GPU".to_owned() } else { models.join(", ") },
        driver: driver.unwrap_or_default(),
        libcudart: String::new(),
        mig: gpus.iter().any(|(_, mig)| *mig == Some(true)),
        shared,
    }
}

fn check_run(started_at: &str, labels: &BTreeMap<String, String>) -> Result<(), Refused> {
    let same = |(own, known): (char, char)| if known == '0' { own.is_ascii_digit() } else { own == known };
    if started_at.len() != TIME.len() || !started_at.chars().zip(TIME.chars()).all(same) {
        return Err(invalid("`started_at` is no time in UTC, such as 2026-11-20T17:49:29Z"));
    }
    if labels.iter().any(|(name, value)| name.len().max(value.len()) > LONGEST_LABEL) {
        return Err(invalid(&format!("a label is longer than {LONGEST_LABEL} bytes")));
    }
    Ok(())
}

fn invalid(why: &str) -> Refused {
    Refused { bucket: Bucket::Invalid, why: why.to_owned() }
}

fn refused(error: &serde_json::Error) -> Refused {
    let bucket = if error.is_eof() { Bucket::Truncated } else { Bucket::Invalid };
    Refused { bucket, why: error.to_string() }
}
