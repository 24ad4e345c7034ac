//! What one document answers, as machines are compared by it.
//!
//! A whole report is judged anew and made compact first, so that both have the same facts. A document that
//! contradicts itself is refused.

use std::collections::BTreeSet;

use super::answer::{MachineAnswer, Same, SharedAnswer, UNREAD};
use super::change::CaseChange;
use super::document::{Bucket, FleetMachine, Key};
use super::rows;
use crate::survey::{self, SurveyDocument};
use cuda_pitfalls_core::fact::Change;
use cuda_pitfalls_core::judge;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{self, CompactCase, CompactReport, CompactScenario, Head, Report};
use cuda_pitfalls_core::text::counts::{listed, tally};
use cuda_pitfalls_core::verdict::{ExpectationMet, Provenance, Reason};
use cuda_pitfalls_trace as trace;

/// A label is no longer than a host name may be.
const LONGEST_LABEL: usize = 253;
/// More warnings of one report are left out.
const MOST_WARNINGS: usize = 20;
/// Of so many attempts one may be disturbed on a machine that is otherwise idle. More of them say that other
/// processes came and went during the run, although none was there before it: in the committed reports of such
/// runs it is one of four or more, and none in the others.
const DISTURBED_OF: u128 = 20;
/// A compact report says so near to its beginning, in this way.
const HEAD_BYTES: usize = 256;
const WRITTEN: &[u8] = br#""must_understand":["compact""#;
/// How the time of a run is written: `2026-11-20T17:49:29Z`.
const TIME: &str = "0000-00-00T00:00:00Z";

/// Why a document is not merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Where it belongs.
    pub bucket: Bucket,
    /// Why, in words.
    pub why: String,
}

/// What one document answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Digest {
    /// Who answered.
    pub provenance: Provenance,
    /// What the document says of its machine, without the name and the path.
    pub machine: FleetMachine,
    /// What machines must have in common to be compared, but for the libcudart, which is empty here.
    pub key: Key,
    /// One for each question that was asked, and each libcudart.
    pub answers: Vec<MachineAnswer>,
}

/// How the answers of a document are read.
pub(super) struct DocumentReader {
    /// What it answers.
    ///
    /// # Errors
    /// It is not valid, or it answers nothing.
    pub read: fn(&[u8]) -> Result<Digest, Rejection>,
    /// Whether reading takes many times the size of the document in memory.
    pub is_large: bool,
}

/// How a text is read, by its head.
///
/// # Errors
/// It is none that can be merged.
pub(super) fn reader(text: &[u8]) -> Result<DocumentReader, Rejection> {
    // As this program writes it, so that ten thousand of them are not read twice. [`compact`] checks it all the same.
    let begins = text.get(..text.len().min(HEAD_BYTES)).unwrap_or_default();
    if begins.windows(WRITTEN.len()).any(|window| window == WRITTEN) {
        return Ok(DocumentReader { read: compact, is_large: false });
    }
    let head = Head::read(text).map_err(|error| refused(&error))?;
    Ok(match (is_survey(&head)?, head.is_compact()) {
        (true, _) => DocumentReader { read: surveyed, is_large: true },
        (false, true) => DocumentReader { read: compact, is_large: false },
        (false, false) => DocumentReader { read: judged, is_large: true },
    })
}

fn is_survey(head: &Head) -> Result<bool, Rejection> {
    let name = head.name.as_str();
    let is_survey = name == survey::SCHEMA;
    let why = match head.unsupported() {
        Some(what) => format!("it requires `{what}`, which this program does not support"),
        None if name == trace::SCHEMA => "traces are not merged: `compare` compares two".to_owned(),
        None if name != report::SCHEMA && !is_survey => {
            return Err(invalid("it is no report and no survey of this program"));
        }
        None if head.major == Some(1) => return Ok(is_survey),
        None => {
            let major = head.major.map_or_else(|| "none".to_owned(), |major| major.to_string());
            format!("its major version is {major}, this program reads 1")
        }
    };
    Err(Rejection { bucket: Bucket::Unsupported, why })
}

/// What a whole report answers, judged as today.
fn judged(text: &[u8]) -> Result<Digest, Rejection> {
    let mut whole: Report = serde_json::from_slice(text).map_err(|error| refused(&error))?;
    judge::rejudge(&mut whole);
    let compact = CompactReport::new(&whole, |_| false);
    drop(whole);
    reported(compact)
}

fn compact(text: &[u8]) -> Result<Digest, Rejection> {
    let read: CompactReport = serde_json::from_slice(text).map_err(|error| refused(&error))?;
    if is_survey(&Head::of_compact(&read.schema, &read.must_understand))? {
        return Err(invalid("it says that it is compact, and is no compact report"));
    }
    reported(read)
}

fn reported(report: CompactReport) -> Result<Digest, Rejection> {
    let CompactReport { provenance, run, machine, scenarios, complete, .. } = report;
    if run.labels.iter().any(|(name, value)| name.len().max(value.len()) > LONGEST_LABEL) {
        return Err(invalid(&format!("a label is longer than {LONGEST_LABEL} bytes")));
    }
    let mut warnings = run.warnings;
    warnings.extend(run.host_unsafe.map(|why| format!("host unsafe: {why}")));
    warnings.truncate(MOST_WARNINGS);
    let sound = run.calibration.iter().map(|it| &it.figures).filter(|it| it.sound);
    let unexpected = scenarios.iter().filter(|one| one.verdict.expectation == ExpectationMet::Unexpected);
    let known = FleetMachine {
        labels: run.labels,
        started_at: run.started_at,
        partial: !complete,
        verdicts: tally(scenarios.iter().map(|scenario| scenario.verdict.kind)).into_iter().collect(),
        unexpected: unexpected.count(),
        context_bytes: sound.map(|it| it.context_bytes).max(),
        warnings,
        ..FleetMachine::default()
    };
    let key = Key { shared: !run.co_tenants.is_empty() || is_disturbed(&scenarios), ..key(&machine) };
    let answers = scenarios.into_iter().filter_map(answered).collect();
    Digest { provenance, machine: known.on(&machine), key, answers }.checked("no question was answered")
}

impl FleetMachine {
    /// The same with the GPUs of a host.
    fn on(self, host: &Machine) -> FleetMachine {
        let mut gpus: Vec<String> = host.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        gpus.sort();
        FleetMachine { gpus, ..self }
    }
}

impl Digest {
    /// The digest, unless its time is none or it has no answer, of which `nothing` is said.
    fn checked(self, nothing: &str) -> Result<Digest, Rejection> {
        let time = &self.machine.started_at;
        let digits_as_0: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        if digits_as_0 != TIME {
            return Err(invalid("`started_at` is no time in UTC, such as 2026-11-20T17:49:29Z"));
        }
        if self.answers.iter().all(|one| one.answer.shown.is_err()) {
            return Err(Rejection { bucket: Bucket::Empty, why: nothing.to_owned() });
        }
        Ok(self)
    }
}

/// What a survey answers: its rows are questions.
fn surveyed(text: &[u8]) -> Result<Digest, Rejection> {
    let survey = SurveyDocument::parse(text).map_err(|error| refused(&error))?;
    let answers = rows::answers(&survey);
    let SurveyDocument { machine: host, header, complete, provenance, .. } = survey;
    let known = FleetMachine { started_at: header.started_at, partial: !complete, ..FleetMachine::default() };
    Digest { provenance, machine: known.on(&host), key: key(&host), answers }.checked("no row was measured")
}

/// One question, if the report says anything of it that is the machine's.
fn answered(scenario: CompactScenario) -> Option<MachineAnswer> {
    let CompactScenario { name, scenario, question, asked, nondeterministic, libcudart, verdict, cases, .. } = scenario;
    let (mut facts, mut figures, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let shown = match verdict.reason {
        _ if verdict.kind.is_conclusive() => {
            // Which of several outcomes is the most frequent one, and with it the figures, may be a matter of chance.
            for case in cases.into_iter().filter(|_| !nondeterministic) {
                let used = case.outcomes.first().into_iter().flat_map(|top| &top.used_bytes);
                for (gpu, used) in used {
                    figures.push(format!("{}/{gpu}", case.name));
                    bytes.push(used.unwrap_or(UNREAD));
                }
                facts.extend(case_facts(case));
            }
            Ok(Same { kind: verdict.kind, facts })
        }
        Some(reason) if is_of_the_run(reason) => return None,
        Some(reason) => Err(reason.name()),
        None => Err(verdict.kind.name().to_owned()),
    };
    let answer = SharedAnswer {
        name: name.clone(),
        asked: asked.unwrap_or_default(),
        libcudart: libcudart.and_then(|library| library.version).unwrap_or_default(),
        is_unexpected: verdict.expectation == ExpectationMet::Unexpected,
        shown,
        figures,
    };
    Some(MachineAnswer { scenario: scenario.unwrap_or(name), words: question, answer, bytes })
}

/// What every distinct outcome of a case showed, sorted: how often each was seen is a matter of chance, and another program
/// may write facts in another order.
fn case_facts(CompactCase { name, outcomes, .. }: CompactCase) -> impl Iterator<Item = CaseChange> {
    let outcomes: BTreeSet<Vec<Change>> = outcomes.into_iter().map(|outcome| sorted(outcome.facts)).collect();
    (1..).zip(outcomes).flat_map(move |(outcome, changes)| {
        let case = name.clone();
        changes.into_iter().map(move |change| CaseChange { case: case.clone(), outcome, change })
    })
}

fn sorted(mut changes: Vec<Change>) -> Vec<Change> {
    changes.sort_by_key(|change| (change.label.is_empty(), change.step));
    changes.iter_mut().for_each(|change| change.facts.sort());
    changes
}

/// Whether so many attempts do not count because of other processes that a machine was not idle.
fn is_disturbed(scenarios: &[CompactScenario]) -> bool {
    // No sum of so many numbers of 32 bits is too large for these.
    let (mut made, mut disturbed) = (0_u128, 0_u128);
    for case in scenarios.iter().flat_map(|scenario| &scenario.cases) {
        made += case.outcomes.iter().map(|outcome| u128::from(outcome.count)).sum::<u128>();
        for (reason, count) in &case.not_counted {
            made += u128::from(*count);
            disturbed += u128::from(*count) * u128::from(matches!(reason, Reason::Contaminated | Reason::Residue));
        }
    }
    disturbed * DISTURBED_OF > made
}

/// Whether a question was left out by those who ran it, and not by what the machine is.
fn is_of_the_run(reason: Reason) -> bool {
    matches!(reason, Reason::HazardNotAllowed | Reason::Restricted | Reason::NotRoot | Reason::Interrupted)
}

/// What machines must have in common. Whether others were on the GPUs only a report says: a survey needs idle ones.
fn key(machine: &Machine) -> Key {
    let mut models = tally(machine.gpus.iter().map(|gpu| gpu.name.as_deref().unwrap_or("GPU of unknown name")));
    models.sort();
    Key {
        gpus: listed(models.into_iter().map(|(name, count)| format!("{count}x {name}")), "no GPU"),
        driver: machine.driver_version.clone().unwrap_or_default(),
        mig: machine.gpus.iter().any(|gpu| gpu.mig == Some(true)),
        ..Key::default()
    }
}

fn invalid(why: &str) -> Rejection {
    Rejection { bucket: Bucket::Invalid, why: why.to_owned() }
}

fn refused(error: &serde_json::Error) -> Rejection {
    let bucket = if error.is_eof() { Bucket::Truncated } else { Bucket::Invalid };
    Rejection { bucket, why: error.to_string() }
}
