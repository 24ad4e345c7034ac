//! The answers of a document, in the form in which machines are compared.
//!
//! A full report is judged again and compacted first, so that both have the same facts. A document that contradicts
//! itself is rejected.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{MachineAnswer, Same, SharedAnswer, Shown, UNREAD};
use super::change::CaseChange;
use super::document::{Bucket, FleetMachine, Key};
use super::facts::MachineFacts;
use super::rows;
use super::starts::{self, StartEvidence};
use crate::survey::{self, SurveyDocument};
use cuda_pitfalls_core::fact::{Change, Fact, Token};
use cuda_pitfalls_core::judge;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{
    self, Calibrated, CompactCase, CompactReport, CompactScenario, Head, Report,
};
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Provenance, Reason};
use cuda_pitfalls_trace as trace;

/// Maximum length of a label, which is that of a host name.
pub(super) const LONGEST_LABEL: usize = 253;
/// Maximum size of the scenarios whose text is kept, in bytes.
const MOST_KNOWN_BYTES: usize = 24 << 20;
const LONGEST_NAME: usize = 500;
/// Maximum number of warnings of a report; the others are left out.
const MOST_WARNINGS: usize = 20;
/// Maximum share of disturbed attempts on a machine that is otherwise idle: one in this number. A larger share means that
/// other processes came and went during the run, even if none was running before it: in the committed reports of such
/// runs it is one of four or more, and none in the others.
const DISTURBED_OF: u128 = 20;
/// Number of bytes at the start of a compact report that contain [`WRITTEN`].
const HEAD_BYTES: usize = 256;
const WRITTEN: &[u8] = br#""must_understand":["compact""#;
/// Format of the start time of a run: `2026-11-20T17:49:29Z`.
const TIME: &str = "0000-00-00T00:00:00Z";

/// Maximum length of a text from a document, in characters; longer ones are truncated. Documents come from other
/// people, and their texts are printed in tables.
const LONGEST_TEXT: usize = 200;

/// Reason why a document is not merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Bucket of the document.
    pub bucket: Bucket,
    /// Reason, as text.
    pub why: String,
}

/// Answers of a document.
#[derive(Clone, Debug, Default)]
pub(super) struct Digest {
    /// Source of the answers: real drivers or the simulated machine.
    pub provenance: Provenance,
    /// The document's facts about its machine, without the name and the path.
    pub machine: FleetMachine,
    /// Properties that machines must have in common to be compared, except for the libcudart, which is empty here.
    pub key: Key,
    /// Facts about the machine.
    pub facts: MachineFacts,
    /// Answers, one for each question and each libcudart.
    pub answers: Vec<Arc<MachineAnswer>>,
}

/// Reader of a document.
pub(super) struct DocumentReader {
    /// Reads the answers.
    ///
    /// # Errors
    /// Returns an error if the document is not valid.
    pub read: fn(&[u8], &KnownScenarios) -> Result<Digest, Rejection>,
    /// `true` if reading takes many times the size of the document in memory.
    pub is_large: bool,
}

/// Scenarios of compact reports that were read before, by their text, because most machines of a fleet have the same
/// ones.
#[derive(Default)]
pub(super) struct KnownScenarios(RwLock<ScenarioTexts>);

#[derive(Default)]
struct ScenarioTexts {
    known: HashMap<Box<str>, Arc<AskedDigest>>,
    bytes: usize,
}

/// The parts of a compact report that are read one by one.
#[derive(Deserialize)]
struct DocumentOutline<'a> {
    #[serde(borrow)]
    scenarios: Vec<&'a RawValue>,
}

/// Digest of one scenario of a document.
#[derive(Debug)]
struct AskedDigest {
    /// Key of the scenario, which is unique in a document.
    asked: (String, Option<String>),
    kind: Kind,
    is_unexpected: bool,
    /// Number of attempts, and number of those that do not count because of other processes.
    made: u128,
    disturbed: u128,
    start: StartEvidence,
    answer: Option<Arc<MachineAnswer>>,
}

impl KnownScenarios {
    fn find(&self, text: &str) -> Option<Arc<AskedDigest>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .known
            .get(text)
            .cloned()
    }

    fn insert(&self, text: &str, digest: &Arc<AskedDigest>) {
        let mut texts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if texts.bytes + text.len() <= MOST_KNOWN_BYTES {
            texts.bytes += text.len();
            texts.known.insert(text.into(), Arc::clone(digest));
        }
    }
}

/// Returns the reader of a text, by its head.
///
/// # Errors
/// Returns an error if the text is not a document that can be merged.
pub(super) fn reader(text: &[u8]) -> Result<DocumentReader, Rejection> {
    // The marker as this program writes it, so that ten thousand reports are not parsed twice. [`compact`] still checks
    // it.
    let compact = DocumentReader {
        read: read_compact_report,
        is_large: false,
    };
    let begins = text.get(..text.len().min(HEAD_BYTES)).unwrap_or_default();
    let mut windows = begins.windows(WRITTEN.len());
    if windows.any(|window| window == WRITTEN) {
        return Ok(compact);
    }
    let head = Head::read(text).map_err(|error| refused(&error))?;
    let read = match (is_survey(&head)?, head.is_compact()) {
        (true, _) => read_survey,
        (false, true) => return Ok(compact),
        (false, false) => read_whole_report,
    };
    Ok(DocumentReader {
        read,
        is_large: true,
    })
}

fn is_survey(head: &Head) -> Result<bool, Rejection> {
    let name = head.name.as_str();
    let is_survey = name == survey::SCHEMA;
    let why = match head.unsupported_word() {
        Some(what) => format!("it requires `{what}`, which this version does not support"),
        None if name == trace::SCHEMA => "traces are not merged: `compare` compares two".to_owned(),
        None if name != report::SCHEMA && !is_survey => {
            return Err(invalid("not a report or survey of cuda-pitfalls"));
        }
        None if head.major == Some(1) => return Ok(is_survey),
        None => {
            let major = head
                .major
                .map_or_else(|| "none".to_owned(), |major| major.to_string());
            format!("its major version is {major}, but this program reads only version 1")
        }
    };
    Err(Rejection {
        bucket: Bucket::Unsupported,
        why,
    })
}

/// Returns the answers of a full report, judged by the current rules.
fn read_whole_report(text: &[u8], _: &KnownScenarios) -> Result<Digest, Rejection> {
    let mut whole: Report = serde_json::from_slice(text).map_err(|error| refused(&error))?;
    judge::rejudge(&mut whole);
    let mut compact = CompactReport::new(&whole, |_| false);
    drop(whole);
    let mut asked = Vec::new();
    for scenario in std::mem::take(&mut compact.scenarios) {
        asked.push(Arc::new(AskedDigest::new(scenario)));
    }
    digest_report(compact, &asked)
}

/// Reads a compact report. Only scenarios that no earlier document contained are parsed; the others have been checked
/// before.
fn read_compact_report(text: &[u8], known: &KnownScenarios) -> Result<Digest, Rejection> {
    let DocumentOutline { scenarios } =
        serde_json::from_slice(text).map_err(|error| refused(&error))?;
    let texts: Vec<&str> = scenarios.iter().map(|scenario| scenario.get()).collect();
    let found: Vec<Option<Arc<AskedDigest>>> = texts.iter().map(|text| known.find(text)).collect();
    let mut rest = read_compact(&without_known(text, &texts, &found))?;
    let mut new = std::mem::take(&mut rest.scenarios).into_iter();
    let mut asked = Vec::with_capacity(texts.len());
    for (text, found) in texts.iter().zip(found) {
        if let Some(found) = found {
            asked.push(found);
        } else if let Some(new) = new.next() {
            let digest = Arc::new(AskedDigest::new(new));
            known.insert(text, &digest);
            asked.push(digest);
        }
    }
    // These checks need the complete document.
    let names: HashSet<&(String, Option<String>)> = asked.iter().map(|one| &one.asked).collect();
    if names.len() < asked.len() {
        read_compact(text)?;
    }
    digest_report(rest, &asked)
}

fn read_compact(text: &[u8]) -> Result<CompactReport, Rejection> {
    let read: CompactReport = serde_json::from_slice(text).map_err(|error| refused(&error))?;
    if is_survey(&Head::from_compact(&read.schema, &read.must_understand))? {
        return Err(invalid(
            "it is marked as compact but is not a valid compact report",
        ));
    }
    Ok(read)
}

/// Returns the offset of a part of a text.
fn place_in(text: &[u8], part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

/// Returns the document with only its unknown scenarios.
fn without_known(text: &[u8], texts: &[&str], found: &[Option<Arc<AskedDigest>>]) -> Vec<u8> {
    let (Some(first), Some(last)) = (texts.first(), texts.last()) else {
        return text.to_vec();
    };
    let (start, end) = (place_in(text, first), place_in(text, last) + last.len());
    let mut new = Vec::new();
    for (text, found) in texts.iter().zip(found) {
        if found.is_none() {
            new.push(*text);
        }
    }
    let (before, after) = (text.get(..start), text.get(end..));
    [
        before.unwrap_or_default(),
        new.join(",").as_bytes(),
        after.unwrap_or_default(),
    ]
    .concat()
}

fn digest_report(report: CompactReport, asked: &[Arc<AskedDigest>]) -> Result<Digest, Rejection> {
    let CompactReport {
        provenance,
        run,
        machine,
        complete,
        ..
    } = report;
    for (name, value) in &run.labels {
        if name.len().max(value.len()) > LONGEST_LABEL {
            let why = format!("a label is longer than {LONGEST_LABEL} bytes");
            return Err(invalid(&why));
        }
    }
    let mut warnings = run.warnings;
    warnings.truncate(MOST_WARNINGS);
    warnings.extend(run.host_unsafe.map(|why| format!("host unsafe: {why}")));
    let warnings = warnings.iter().map(|warning| cut_text(warning)).collect();
    let (mut calibrations, mut contexts) = (Vec::new(), Vec::new());
    for Calibrated { figures, .. } in run.calibration {
        if figures.sound {
            contexts.push(figures.context_bytes);
        }
        calibrations.push(figures);
    }
    let start: Vec<&StartEvidence> = asked.iter().map(|one| &one.start).collect();
    let mut known = FleetMachine {
        labels: run.labels,
        started_at: run.started_at,
        partial: !complete,
        no_cuda: starts::why_not(&machine, &calibrations, &start).map(|why| cut_text(&why)),
        warnings,
        ..FleetMachine::default()
    };
    let (mut made, mut disturbed) = (0, 0);
    let mut answers = Vec::new();
    for one in asked {
        *known.verdicts.entry(one.kind).or_default() += 1;
        known.unexpected += usize::from(one.is_unexpected);
        made += one.made;
        disturbed += one.disturbed;
        answers.extend(one.answer.clone());
    }
    // This many attempts do not count because of other processes: the machine was not idle.
    let mut shared = disturbed * DISTURBED_OF > made;
    for there in &run.co_tenants {
        // A process on a GPU that was not calibrated does not disturb the run.
        let mut known = calibrations.iter();
        shared |= calibrations.is_empty() || known.any(|figures| figures.uuid == there.uuid);
    }
    let key = Key {
        shared,
        ..key(&machine)
    };
    let facts = MachineFacts::new(&machine, &contexts);
    Digest {
        provenance,
        machine: known.on(&machine),
        key,
        facts,
        answers,
    }
    .check_limits()
}

impl AskedDigest {
    fn new(scenario: CompactScenario) -> AskedDigest {
        // The sum of this many 32-bit numbers always fits.
        let (mut made, mut disturbed) = (0_u128, 0_u128);
        for case in &scenario.cases {
            for outcome in &case.outcomes {
                made += u128::from(outcome.count);
            }
            for (reason, count) in &case.not_counted {
                made += u128::from(*count);
                if matches!(reason, Reason::Contaminated | Reason::Residue) {
                    disturbed += u128::from(*count);
                }
            }
        }
        let runtime = scenario.libcudart.as_ref();
        let version = runtime.and_then(|runtime| runtime.version.clone());
        AskedDigest {
            asked: (scenario.name.clone(), version),
            kind: scenario.verdict.kind,
            is_unexpected: scenario.verdict.expectation == ExpectationMet::Unexpected,
            made,
            disturbed,
            start: StartEvidence::new(&scenario),
            answer: machine_answer(scenario).map(Arc::new),
        }
    }
}

impl FleetMachine {
    /// Adds the GPUs of a host.
    fn on(self, host: &Machine) -> FleetMachine {
        let mut gpus: Vec<String> = host.gpus.iter().map(|gpu| cut_text(&gpu.uuid)).collect();
        gpus.sort();
        FleetMachine { gpus, ..self }
    }
}

impl Digest {
    /// Returns the digest, or an error if its time cannot be parsed or the name of a question is too long.
    fn check_limits(mut self) -> Result<Digest, Rejection> {
        let time = &self.machine.started_at;
        if time.replace(|c: char| c.is_ascii_digit(), "0") != TIME {
            let why = "`started_at` is not a UTC time such as 2026-11-20T17:49:29Z";
            return Err(invalid(why));
        }
        for one in &self.answers {
            if one.answer.name.len() > LONGEST_NAME {
                let why = format!("the name of a question is longer than {LONGEST_NAME} bytes");
                return Err(invalid(&why));
            }
        }
        // A machine where CUDA does not start answers no question, or only questions about that.
        if self.machine.no_cuda.is_some() {
            self.answers = Vec::new();
        }
        Ok(self)
    }

    /// Returns `true` if no question ran, although CUDA may start.
    pub(super) fn is_empty(&self) -> bool {
        self.machine.no_cuda.is_none() && self.answers.is_empty()
    }
}

/// Returns the answers of a survey: its rows are questions.
fn read_survey(text: &[u8], _: &KnownScenarios) -> Result<Digest, Rejection> {
    let survey = SurveyDocument::parse(text).map_err(|error| refused(&error))?;
    let answers = rows::answers(&survey).into_iter().map(Arc::new).collect();
    let SurveyDocument {
        machine: host,
        header,
        complete,
        provenance,
        ..
    } = survey;
    let no_cuda = starts::why_not(&host, &[], &[]).map(|why| cut_text(&why));
    let started_at = header.started_at;
    let known = FleetMachine {
        started_at,
        partial: !complete,
        no_cuda,
        ..FleetMachine::default()
    };
    let facts = MachineFacts::new(&host, &[]);
    Digest {
        provenance,
        machine: known.on(&host),
        key: key(&host),
        facts,
        answers,
    }
    .check_limits()
}

/// Returns the answer of a scenario, if the result depends on the machine.
fn machine_answer(scenario: CompactScenario) -> Option<MachineAnswer> {
    let CompactScenario {
        name,
        scenario,
        question,
        asked,
        nondeterministic,
        libcudart,
        verdict,
        cases,
        ..
    } = scenario;
    let (mut facts, mut figures, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let shown = match verdict.reason {
        _ if verdict.kind.is_conclusive() => {
            // If there are several outcomes, the most frequent one may be a matter of chance, and so may its figures.
            let compared = if nondeterministic { Vec::new() } else { cases };
            for case in compared {
                if let Some(top) = case.outcomes.first() {
                    for (gpu, used) in &top.used_bytes {
                        figures.push(format!("{}/{gpu}", case.name));
                        bytes.push(used.unwrap_or(UNREAD));
                    }
                }
                add_case_facts(case, &mut facts);
            }
            Shown::Outcome(Same {
                kind: verdict.kind,
                facts,
            })
        }
        Some(reason) if is_of_the_run(reason) => return None,
        Some(reason) => Shown::Nothing(reason.name()),
        None => Shown::Nothing(verdict.kind.name().to_owned()),
    };
    let answer = SharedAnswer {
        name: name.clone(),
        asked: asked.unwrap_or_default(),
        libcudart: libcudart
            .and_then(|library| library.version)
            .unwrap_or_default(),
        is_unexpected: verdict.expectation == ExpectationMet::Unexpected,
        shown,
        figures,
    };
    Some(MachineAnswer {
        scenario: scenario.unwrap_or(name),
        words: question,
        answer,
        bytes,
        place: OnceLock::new(),
    })
}

/// Adds what every distinct outcome of a case showed, sorted, because how often each was seen is a matter of chance,
/// and another program may write facts in another order.
fn add_case_facts(case: CompactCase, facts: &mut Vec<CaseChange>) {
    let mut outcomes: BTreeSet<Vec<Change>> = BTreeSet::new();
    for outcome in case.outcomes {
        outcomes.insert(sort_changes(outcome.facts));
    }
    for (outcome, changes) in (1..).zip(outcomes) {
        for change in changes {
            let case = case.name.clone();
            facts.push(CaseChange {
                case,
                outcome,
                change,
            });
        }
    }
}

fn sort_changes(mut changes: Vec<Change>) -> Vec<Change> {
    changes.sort_by_key(|change| (change.label.is_empty(), change.step));
    for change in &mut changes {
        change.label = cut_text(&change.label);
        change.facts.iter_mut().for_each(cut_fact);
        change.facts.sort();
    }
    changes
}

fn cut_fact(fact: &mut Fact) {
    match fact {
        Fact::Status(Token::Text(text))
        | Fact::End(text)
        | Fact::Current(Some(text))
        | Fact::Memory(text, _) => {
            *text = cut_text(text);
        }
        Fact::Value(name, value) => {
            *name = cut_text(name);
            if let Token::Text(text) = value {
                *text = cut_text(text);
            }
        }
        Fact::Visible(Some(gpus)) | Fact::Contexts(Some(gpus)) => {
            gpus.iter_mut().for_each(|gpu| *gpu = cut_text(gpu))
        }
        _ => {}
    }
}

/// Returns `true` if a question was skipped because of how the run was started, not because of a property of the
/// machine.
fn is_of_the_run(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::HazardNotAllowed | Reason::Restricted | Reason::NotRoot | Reason::Interrupted
    )
}

/// Returns the properties that machines must have in common. Only a report shows whether other processes used the GPUs:
/// a survey needs idle ones.
fn key(machine: &Machine) -> Key {
    let mut models: BTreeMap<&str, usize> = BTreeMap::new();
    for gpu in &machine.gpus {
        let name = gpu.name.as_deref().unwrap_or("GPU of unknown name");
        *models.entry(name).or_default() += 1;
    }
    let counted = models
        .into_iter()
        .map(|(name, count)| format!("{count}x {name}"));
    Key {
        gpus: cut_text(&listed(counted, "no GPU")),
        driver: cut_text(machine.driver_version.as_deref().unwrap_or_default()),
        mig: machine.gpus.iter().any(|gpu| gpu.mig == Some(true)),
        ..Key::default()
    }
}

fn invalid(why: &str) -> Rejection {
    Rejection {
        bucket: Bucket::Invalid,
        why: why.to_owned(),
    }
}

/// Returns a text, truncated if it is too long. Truncated texts still differ if the originals do.
pub(super) fn cut_text(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT) else {
        return text.to_owned();
    };
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let mark = format!("… ({:08x})", hasher.finish() >> 32);
    let kept = text.get(..end).unwrap_or_default().chars();
    let mut cut: String = kept.take(LONGEST_TEXT - mark.chars().count()).collect();
    cut.push_str(&mark);
    cut
}

fn refused(error: &serde_json::Error) -> Rejection {
    let bucket = if error.is_eof() {
        Bucket::Truncated
    } else {
        Bucket::Invalid
    };
    Rejection {
        bucket,
        why: error.to_string(),
    }
}
