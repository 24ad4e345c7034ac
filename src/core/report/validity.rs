//! The invariants of a report, full or compact. A report that violates one is rejected, because nothing shows which of
//! the contradicting parts is wrong.
//!
//! Each table pairs a fault with the function that checks whether a report, a scenario or an attempt has it.

mod attempt;

use std::collections::BTreeSet;

use super::{Attempt, ReportView, ScenarioView};
use crate::calibration::Calibration;
use crate::event::Event;
use crate::machine::{is_simulated_gpu, is_simulated_library};
use crate::sample::STEP_BYTES;
use crate::scenario::Scenario;
use crate::verdict::{ExpectationMet, Provenance};
use crate::{catalogue, clock, plan};

/// A contradiction in a report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// The provenance contradicts the machine; see [`Provenance::find_contradiction`].
    #[error("{0}")]
    Origin(String),
    /// The entire report.
    #[error("it contradicts itself: {0}")]
    Report(&'static str),
    /// A scenario.
    #[error("it contradicts itself: {scenario}: {fault}")]
    Scenario {
        /// The instance's name.
        scenario: String,
        /// The fault.
        fault: &'static str,
    },
    /// An attempt at a scenario or at a calibration.
    #[error("it contradicts itself: {scenario}, `{case}`, attempt {order}: {fault}")]
    Attempt {
        /// The instance's name, or the GPU that was calibrated.
        scenario: String,
        /// The case.
        case: String,
        /// Which attempt.
        order: u32,
        /// The fault.
        fault: &'static str,
    },
}

type ReportCheck = (&'static str, fn(&ReportView<'_>) -> bool);

/// The checks of an entire report.
const REPORT: [ReportCheck; 14] = [
    (
        "`started_at` or `finished_at` is not a UTC time such as 2026-11-20T17:49:29Z",
        |report| run_dates(report).contains(&None),
    ),
    ("the run ends before it starts", |report| {
        run_seconds(report).is_some_and(|seconds| seconds < 0)
    }),
    (
        "the dates of the run and its clock give different durations",
        |report| !report.is_compact && has_other_duration(report),
    ),
    (
        "the time in the name of the run is not that of `started_at`",
        |report| !report.is_compact && has_other_name(report),
    ),
    (
        "`complete` is true, but the run was interrupted or has no end",
        |report| {
            let run = report.run;
            let has_no_end = run.finished_at.is_none() && !report.is_compact;
            report.complete && (has_no_end || run.interrupted.is_some() || run.stopped_by.is_some())
        },
    ),
    ("the machine lists a GPU twice", |report| {
        has_twice(report.machine.gpus.iter().map(|gpu| &gpu.uuid))
    }),
    ("a GPU reserves more memory than it has", |report| {
        let mut gpus = report.machine.gpus.iter();
        gpus.any(|gpu| gpu.total_bytes.is_some() && gpu.reserved_bytes > gpu.total_bytes)
    }),
    (
        "the version and the number of a libcudart disagree",
        |report| {
            for runtime in &report.machine.libcudart {
                if let (Some(version), Some(number)) = (&runtime.version, runtime.number)
                    && *version != format!("{}.{}", number / 1000, number % 1000 / 10)
                {
                    return true;
                }
            }
            false
        },
    ),
    (
        "a GPU that was calibrated or shared is not one of the machine's",
        |report| {
            let calibrated = report.run.calibration.iter().map(|one| &one.figures.uuid);
            let mut named = calibrated.chain(report.run.co_tenants.iter().map(|one| &one.uuid));
            // A compact report keeps only the figures.
            !report.is_compact && named.any(|uuid| !has_gpu(report, uuid))
        },
    ),
    ("a GPU was calibrated before or after the run", |report| {
        for calibrated in &report.run.calibration {
            let at = calibrated.figures.at_ns;
            if at > 0 && !report.run.has_time(at) {
                return true;
            }
        }
        false
    }),
    (
        "a calibration is `sound`, but its figures are impossible",
        |report| {
            let mut calibrated = report.run.calibration.iter().map(|one| &one.figures);
            calibrated.any(|figures| figures.sound && !is_possible(figures, report))
        },
    ),
    (
        "a calibration is `sound` but gives a reason why not, or it is not and gives none",
        |report| {
            report
                .run
                .calibration
                .iter()
                .any(|one| one.figures.sound == one.figures.why_unsound.is_some())
        },
    ),
    (
        "`met` of a requirement contradicts the numbers that were wanted and found",
        |report| {
            for required in &report.run.require {
                if let (Some(found), Some(_)) = (required.found, required.met)
                    && required.with(found).met != required.met
                {
                    return true;
                }
            }
            false
        },
    ),
    (
        "a scenario is listed twice with the same libcudart",
        |report| {
            has_twice(report.scenarios.iter().map(|one| {
                (
                    one.name,
                    one.libcudart.map(|used| (&used.path, &used.version)),
                )
            }))
        },
    ),
];

/// A scenario, and the report that it is in.
struct Asked<'v, 'r> {
    report: &'v ReportView<'r>,
    scenario: &'v ScenarioView<'r>,
    /// The scenario file, if it is built in.
    file: Option<&'static Scenario>,
    /// The attempts of the scenario with their cases, in order.
    made: Vec<(usize, &'r Attempt)>,
}

type ScenarioCheck = (&'static str, fn(&Asked<'_, '_>) -> bool);

/// The checks of a scenario.
const SCENARIO: [ScenarioCheck; 16] = [
    ("`sha256` is not a file hash", |asked| {
        !is_hash(asked.scenario.sha256, asked.report.is_compact)
    }),
    ("it is not an instance of its scenario", |asked| {
        let rest = asked.scenario.name.strip_prefix(asked.scenario.scenario);
        rest.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('['))
    }),
    (
        "`provenance` of the report is `measured`, but that of its verdict is not",
        |asked| {
            let (report, verdict) = (asked.report.provenance, asked.scenario.verdict.provenance);
            report == Provenance::Measured && verdict == Provenance::Simulated
        },
    ),
    ("two of its cases have the same name", |asked| {
        has_twice(asked.scenario.cases.iter().map(|case| case.name))
    }),
    ("`plan.repeat` is 0", |asked| {
        asked.scenario.plan.is_some_and(|plan| plan.repeat == 0)
    }),
    (
        "it has an answer or attempts but no `plan`, so what was run is unknown",
        |asked| {
            let is_known = asked.report.is_compact || asked.scenario.plan.is_some();
            !is_known
                && (asked.scenario.verdict.kind.is_conclusive() || !asked.scenario.cases.is_empty())
        },
    ),
    ("its cases differ from those of its plan", |asked| {
        let made = asked.scenario.cases.iter().map(|case| case.name);
        asked
            .scenario
            .plan
            .is_some_and(|plan| !made.eq(plan.cases.iter().map(|case| case.name.as_str())))
    }),
    ("its parameters differ from those of its plan", |asked| {
        asked
            .scenario
            .plan
            .is_some_and(|plan| plan.parameters != *asked.scenario.parameters)
    }),
    (
        "its plan lists a GPU twice, or a GPU that the machine does not have",
        |asked| {
            asked.scenario.plan.is_some_and(|plan| {
                let is_foreign = plan.gpus.iter().any(|uuid| !has_gpu(asked.report, uuid));
                is_foreign || has_twice(plan.gpus.iter()) || plan.used_gpus > plan.gpus.len()
            })
        },
    ),
    ("its libcudart is not one of the machine's", |asked| {
        let Some(used) = asked.scenario.libcudart else {
            return false;
        };
        !asked.report.is_compact && !asked.report.machine.libcudart.contains(used)
    }),
    (
        "its question, workaround, tags or parameters differ from those of the file with its hash",
        |asked| asked.file.is_some_and(|file| has_other_words(asked, file)),
    ),
    (
        "its plan differs from the plan of the file with its hash on this machine",
        |asked| asked.file.is_some_and(|file| has_other_plan(asked, file)),
    ),
    (
        "the order of its attempts has gaps or repeated numbers",
        |asked| {
            let orders = asked.made.iter().map(|(_, attempt)| attempt.order);
            !orders.eq((0..).take(asked.made.len()))
        },
    ),
    (
        "the order of its attempts contradicts their times",
        |asked| {
            !asked
                .made
                .is_sorted_by_key(|(_, attempt)| attempt.recording.started_ns)
        },
    ),
    (
        "its cases did not alternate as the seed of the run requires",
        has_other_order,
    ),
    (
        "its verdict contradicts its reason, its expectation or its counts",
        |asked| asked.report.is_compact && has_other_verdict(asked.scenario),
    ),
];

/// Checks that the parts of a report do not contradict each other.
pub(super) fn check(report: &ReportView<'_>) -> Result<(), Contradiction> {
    if let Some(why) = report
        .provenance
        .find_contradiction(&report.run.on, is_simulated(report))
    {
        return Err(Contradiction::Origin(why));
    }
    if let Some((fault, _)) = REPORT.iter().find(|(_, has_fault)| has_fault(report)) {
        return Err(Contradiction::Report(fault));
    }
    for scenario in &report.scenarios {
        let asked = Asked::new(report, scenario);
        if let Some((fault, _)) = SCENARIO.iter().find(|(_, has_fault)| has_fault(&asked)) {
            return Err(Contradiction::Scenario {
                scenario: scenario.name.to_owned(),
                fault,
            });
        }
    }
    attempt::check(report)
}

impl<'v, 'r> Asked<'v, 'r> {
    fn new(report: &'v ReportView<'r>, scenario: &'v ScenarioView<'r>) -> Asked<'v, 'r> {
        let mut made = Vec::new();
        for (place, case) in scenario.cases.iter().enumerate() {
            for attempt in case.attempts {
                made.push((place, attempt));
            }
        }
        made.sort_by_key(|(_, attempt)| attempt.order);
        Asked {
            report,
            scenario,
            file: catalogue::find_shipped(scenario.scenario, scenario.sha256),
            made,
        }
    }
}

fn has_twice<T: Ord>(mut all: impl Iterator<Item = T>) -> bool {
    let mut known = BTreeSet::new();
    all.any(|one| !known.insert(one))
}

fn has_gpu(report: &ReportView<'_>, uuid: &str) -> bool {
    report.machine.gpus.iter().any(|gpu| gpu.uuid == uuid)
}

/// Returns `true` if a text can be a SHA-256: a hash of a single repeated digit is made up. A compact report is
/// compared by its content, and its hashes may be shortened.
fn is_hash(text: &str, may_be_short: bool) -> bool {
    let is_hex = text
        .bytes()
        .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let first = text.bytes().next();
    is_hex && text.bytes().any(|digit| Some(digit) != first) && (may_be_short || text.len() == 64)
}

/// Returns `true` if a library or a GPU anywhere in a report belongs to the simulated machine.
fn is_simulated(report: &ReportView<'_>) -> bool {
    for scenario in &report.scenarios {
        if let Some(plan) = scenario.plan
            && plan.gpus.iter().any(|uuid| is_simulated_gpu(uuid))
        {
            return true;
        }
        if let Some(runtime) = scenario.libcudart
            && is_simulated_library(&runtime.path)
        {
            return true;
        }
    }
    for calibrated in &report.run.calibration {
        if is_simulated_gpu(&calibrated.figures.uuid) {
            return true;
        }
    }
    for made in attempt::all_attempts(report) {
        for said in &made.attempt.recording.events {
            if names_simulated(&said.event) {
                return true;
            }
        }
    }
    report.machine.is_simulated()
}

/// Returns `true` if an event has a library or a GPU of the simulated machine.
fn names_simulated(event: &Event) -> bool {
    match event {
        Event::Ready { libraries, .. } | Event::Bye { libraries } => libraries
            .iter()
            .any(|library| library.simulated || is_simulated_library(&library.path)),
        Event::Probe { probe, .. } => {
            let mut visible = probe.visible.iter().flatten();
            visible.any(|uuid| is_simulated_gpu(uuid))
        }
        _ => false,
    }
}

/// Returns the time of each date of the run, in seconds; `None` for an invalid date.
fn run_dates(report: &ReportView<'_>) -> Vec<Option<i64>> {
    let mut dates = vec![clock::parse_utc(&report.run.started_at)];
    dates.extend(report.run.finished_at.as_deref().map(clock::parse_utc));
    dates
}

/// Returns the duration of the run by its dates.
fn run_seconds(report: &ReportView<'_>) -> Option<i64> {
    match run_dates(report).as_slice() {
        [Some(started), Some(finished)] => Some(finished - started),
        _ => None,
    }
}

/// Maximum difference between the dates of a run and its clock, in seconds.
const APART_SECONDS: i64 = 2;

fn has_other_duration(report: &ReportView<'_>) -> bool {
    let elapsed = i64::try_from(report.run.elapsed_ns / 1_000_000_000).unwrap_or(i64::MAX);
    run_seconds(report)
        .is_some_and(|seconds| seconds.abs_diff(elapsed) > APART_SECONDS.unsigned_abs())
}

fn has_other_name(report: &ReportView<'_>) -> bool {
    let mut named = report.run.id.split('-').filter_map(clock::compact_seconds);
    let started = clock::parse_utc(&report.run.started_at);
    named
        .next()
        .zip(started)
        .is_some_and(|(named, started)| named.abs_diff(started) > APART_SECONDS.unsigned_abs())
}

/// Returns `true` if a calibration is possible: a context and an allocation that are more than noise.
fn is_possible(figures: &Calibration, report: &ReportView<'_>) -> bool {
    let gpu = report
        .machine
        .gpus
        .iter()
        .find(|gpu| gpu.uuid == figures.uuid);
    let total = gpu.and_then(|gpu| gpu.total_bytes).unwrap_or(u64::MAX);
    let taken = figures
        .context_bytes
        .saturating_add(figures.allocation_bytes);
    let is_shown = figures.context_bytes > figures.epsilon_bytes
        && (figures.allocated_bytes > 0 || report.is_compact);
    is_shown
        && figures.allocation_bytes >= figures.allocated_bytes
        && (report.is_compact
            || figures.allocation_bytes - figures.allocated_bytes <= figures.epsilon_bytes)
        && figures.epsilon_bytes >= figures.null_bytes.max(STEP_BYTES)
        && figures.init_bytes.unwrap_or(0) <= figures.context_bytes
        && figures.baseline_bytes.unwrap_or(0).saturating_add(taken) <= total
}

fn has_other_words(asked: &Asked<'_, '_>, file: &Scenario) -> bool {
    let scenario = asked.scenario;
    let Some(instance) = file
        .instances
        .iter()
        .find(|instance| instance.name == scenario.name)
    else {
        return true;
    };
    // A compact report leaves out all of them, or the tags.
    let is_worded = !asked.report.is_compact || !scenario.question.is_empty();
    let has_words = scenario.question == file.question && scenario.workaround == file.workaround;
    let has_tags = asked.report.is_compact || scenario.tags == file.tags;
    instance.values != *scenario.parameters || !has_tags || is_worded && !has_words
}

fn has_other_plan(asked: &Asked<'_, '_>, file: &Scenario) -> bool {
    let Some(then) = asked.scenario.plan else {
        return false;
    };
    let today = plan::again(
        file,
        asked.scenario.name,
        asked.report.machine,
        asked.scenario.libcudart,
        Some(then),
    );
    today.is_none_or(|today| today != *then)
}

/// Returns `true` if the order of the cases differs from the seed's. Attempts that were made again, or to confirm an
/// unexpected verdict, follow the first rounds.
fn has_other_order(asked: &Asked<'_, '_>) -> bool {
    let Some(plan) = asked.scenario.plan else {
        return false;
    };
    let planned = plan.planned.unwrap_or(plan.repeat);
    let rounds = if planned <= plan::FEWEST {
        vec![planned, 1]
    } else {
        vec![planned]
    };
    !rounds.into_iter().any(|rounds| {
        let order = plan::order(plan.cases.len(), rounds, asked.report.run.order_seed());
        order
            .iter()
            .zip(&asked.made)
            .all(|(case, (made, _))| case == made)
    })
}

/// Returns `true` if the verdict of a compact report contradicts itself. Such a verdict cannot be judged again.
fn has_other_verdict(scenario: &ScenarioView<'_>) -> bool {
    let verdict = scenario.verdict;
    let is_conclusive = verdict.kind.is_conclusive();
    let mut outcomes = scenario.cases.iter().flat_map(|case| &case.outcomes);
    is_conclusive == verdict.reason.is_some()
        || is_conclusive && !outcomes.any(|outcome| outcome.count > 0)
        || !verdict.unexpected.is_empty() && verdict.expectation != ExpectationMet::Unexpected
}
