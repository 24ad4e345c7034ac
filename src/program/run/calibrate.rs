//! Calibration: before the first question, the instrument is measured with three workers, while other processes may use
//! the GPUs. A worker that makes no CUDA call must show no change; a worker that calls `cuInit` shows what that costs;
//! a worker that creates a context and an allocation of known size must show both.
//!
//! Without the first, a change may be noise. Without the last, no change may mean that we cannot see it. The first
//! client of a GPU pays for `cuInit`, so that figure depends on co-tenants. All workers are ordinary attempts, each
//! made twice and kept in the report. If two attempts differ, or another process was active, the GPU's calibration is
//! not sound, and its memory is not judged.

mod controls;
mod reading;

use std::collections::BTreeSet;
use std::time::Duration;

use super::console::Console;
use super::session::Session;
use controls::{
    ALLOCATED_BYTES, INIT, NULL, POSITIVE, TIMEOUTS, init_case, null_case, plan_of, positive_case,
};
use cuda_pitfalls_core::calibration::Calibration;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::judge;
use cuda_pitfalls_core::observe::Scene;
use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::recording::Recording;
use cuda_pitfalls_core::report::{Attempt, Calibrated, CaseReport, CoTenancy, Report};
use cuda_pitfalls_core::sample::{Gpu, Polling, Snapshot};
use cuda_pitfalls_instrument::supervisor::SupervisorError;
use reading::{change, is_listed, largest_change, used_before, why_unread};

/// The smallest noise level: the driver allocates memory in blocks of 2 MiB.
const SMALLEST_EPSILON: u64 = 2 << 20;
/// Time for which memory must not change before calibration. A process that calls `cuInit` again and again does not use
/// the GPU for a fraction of a second in between.
const QUIET: Duration = Duration::from_millis(400);
/// Number of tries of a calibration that is disturbed.
const TRIES: u32 = 3;
/// Maximum number of recalibrations in a run because co-tenants came or left.
const MOST_AGAIN: u32 = 5;

/// The calibration of a run: which GPUs may be used, and how often to calibrate.
pub(super) struct Calibrator {
    usable: Vec<String>,
    again: u32,
}

impl Calibrator {
    /// Records co-tenants, calibrates every GPU that may be used, and adds warnings about figures that could not be
    /// measured. `None` if NVML does not answer.
    pub(super) fn calibrate_all(
        session: &mut Session,
        report: &mut Report,
        console: &Console,
    ) -> Option<Calibrator> {
        if session.supervisor.sampler.inventory.is_err() {
            return None;
        }
        console.status("calibrating the instrument");
        if let Ok(snapshot) = session.supervisor.sampler.snapshot() {
            report.run.co_tenants = find_co_tenants(&session.machine.gpus, &snapshot);
        }
        let usable = session.usable_gpus();
        let mut calibrator = Calibrator { usable, again: 0 };
        calibrator.calibrate_gpus(session, report, &calibrator.usable.clone());
        calibrator.add_warnings(session, report);
        Some(calibrator)
    }

    /// Calibrates again the GPUs whose memory differs from that at their calibration and, if `unsound_too`, those
    /// without a sound calibration. The number of times per run is limited, so that a busy machine does not keep a run
    /// from measuring. Returns `true` if it calibrated.
    pub(super) fn recalibrate_changed(
        &mut self,
        session: &mut Session,
        report: &mut Report,
        unsound_too: bool,
    ) -> bool {
        if self.again >= MOST_AGAIN || session.supervisor.interrupt.check() {
            return false;
        }
        let Ok(snapshot) = session.supervisor.sampler.snapshot() else {
            return false;
        };
        let mut stale = self.usable.clone();
        stale.retain(|uuid| {
            let mut newest_first = report.run.calibration.iter().rev();
            match newest_first.find(|calibrated| calibrated.figures.uuid == *uuid) {
                Some(last) if last.figures.sound => {
                    has_changed(&last.figures, &session.machine.gpus, &snapshot)
                }
                _ => unsound_too,
            }
        });
        if stale.is_empty() {
            return false;
        }
        self.again += 1;
        self.calibrate_gpus(session, report, &stale);
        true
    }

    /// Calibrates these GPUs, each until its calibration is sound or its tries are used up.
    fn calibrate_gpus(&mut self, session: &mut Session, report: &mut Report, gpus: &[String]) {
        let mut left = gpus.to_vec();
        for turn in 1..=TRIES {
            let quiet = watch_quiet(session, &self.usable);
            let null = made(session, null_case());
            let mut taken = Vec::new();
            for uuid in &left {
                if session.supervisor.interrupt.check() {
                    return;
                }
                taken.push(gpu(session, uuid, &quiet, &null));
            }
            left.clear();
            for found in taken {
                if !found.figures.sound {
                    left.push(found.figures.uuid.clone());
                }
                // If no try is sound, the last one is kept.
                if found.figures.sound || turn == TRIES {
                    report.run.calibration.push(found);
                }
            }
            if left.is_empty() {
                return;
            }
        }
    }

    /// Adds warnings about the consequences of the first calibration for the entire run.
    fn add_warnings(&self, session: &mut Session, report: &mut Report) {
        let mut own = None;
        for found in report.run.calibrations() {
            if let Some(why) = &found.why_unsound {
                report.run.warnings.push(format!(
                    "the instrument is not sound on {}: {why}; its memory is not judged",
                    found.uuid
                ));
            }
            if let Some(is_listed) = found.lists_pids() {
                own = Some(is_listed && own != Some(false));
            }
        }
        report.machine.isolation.own_pid_listed = own;
        session.machine.isolation.own_pid_listed = own;
        if own == Some(false) {
            report.run.warnings.push(
                "NVML does not list the worker's own PID (a PID namespace, or a GPU without such a list): memory per process is unknown, and other processes are noticed only by their memory"
                    .to_string(),
            );
        }
    }
}

/// Returns `true` if the memory of a GPU differs from that at its calibration.
fn has_changed(figures: &Calibration, gpus: &[Gpu], snapshot: &Snapshot) -> bool {
    let place = gpus.iter().position(|gpu| gpu.uuid == figures.uuid);
    let now = place.and_then(|place| snapshot.gpus.get(place)?.used_bytes);
    match (now, figures.baseline_bytes) {
        (Some(now), Some(then)) => now.abs_diff(then) > figures.epsilon_bytes,
        _ => false,
    }
}

fn find_co_tenants(gpus: &[Gpu], snapshot: &Snapshot) -> Vec<CoTenancy> {
    let mut found = Vec::new();
    for (gpu, reading) in gpus.iter().zip(&snapshot.gpus) {
        let listed = reading.processes.as_ref();
        let has_processes = listed.is_some_and(|processes| !processes.is_empty());
        let used = reading.used_bytes.unwrap_or(0);
        if has_processes || used > SMALLEST_EPSILON {
            found.push(CoTenancy {
                uuid: gpu.uuid.clone(),
                used_bytes: reading.used_bytes,
                processes: reading.processes.clone(),
            });
        }
    }
    found
}

/// Watches memory while there is no worker. A process that is active on one GPU may use any other, so a change on one
/// of our GPUs disturbs the calibration of all.
fn watch_quiet(session: &mut Session, usable: &[String]) -> Result<(), Unsound> {
    // Each run has its own simulated machine, so no other process can disturb it.
    if session.on != "cuda" {
        return Ok(());
    }
    let sampler = &mut session.supervisor.sampler;
    let watched = sampler.start_polling().and_then(|()| {
        std::thread::sleep(QUIET);
        sampler.stop_polling()
    });
    let run: Polling = watched?;
    let mut seen = BTreeSet::new();
    for change in &run.changes {
        let Some(gpu) = session.machine.gpus.get(change.gpu) else {
            continue;
        };
        // The first entry of a GPU is its initial memory.
        if usable.contains(&gpu.uuid) && !seen.insert(&gpu.uuid) {
            return Err(Unsound::Disturbed);
        }
    }
    Ok(())
}

/// Calibrates one GPU, with two attempts of each kind.
fn gpu(
    session: &mut Session,
    uuid: &str,
    quiet: &Result<(), Unsound>,
    null: &Result<(CasePlan, Recording), Unsound>,
) -> Calibrated {
    let mut found = Calibration {
        uuid: uuid.to_string(),
        at_ns: clock::now_ns(),
        allocated_bytes: ALLOCATED_BYTES,
        epsilon_bytes: SMALLEST_EPSILON,
        ..Calibration::default()
    };
    let place = session
        .machine
        .gpus
        .iter()
        .position(|gpu| gpu.uuid == uuid)
        .unwrap_or(usize::MAX);
    let mut tries: Vec<(CasePlan, Recording)> = Vec::new();
    let mut why = quiet.as_ref().err().map(Unsound::to_string);
    match null {
        Ok(null) => tries.push(null.clone()),
        Err(error) => why = why.or(Some(error.to_string())),
    }
    // Twice, the second time in reverse order.
    for case in [
        init_case(uuid),
        positive_case(uuid),
        positive_case(uuid),
        init_case(uuid),
    ] {
        if why.is_some() {
            break;
        }
        match made(session, case) {
            Ok(made) => tries.push(made),
            Err(error) => why = Some(error.to_string()),
        }
    }
    read(&mut found, &tries, place);
    why = why
        .or_else(|| why_disturbed(session, &found, &tries))
        .or_else(|| find_difference(&found, &tries, place));
    found.sound = why.is_none();
    found.why_unsound = why;
    let mut attempts = Vec::new();
    for (case, recording) in tries {
        attempts.push(CaseReport::new(case.name, vec![Attempt::new(0, recording)]));
    }
    Calibrated {
        figures: found,
        attempts,
    }
}

/// Returns the first attempt of a kind.
fn first<'t>(tries: &'t [(CasePlan, Recording)], name: &str) -> Option<&'t Recording> {
    tries
        .iter()
        .find(|(case, _)| case.name == name)
        .map(|(_, recording)| recording)
}

/// Takes the figures from the first attempt of each kind.
fn read(found: &mut Calibration, tries: &[(CasePlan, Recording)], gpu: usize) {
    if let Some(null) = first(tries, NULL) {
        found.null_bytes = largest_change(null, gpu);
        found.epsilon_bytes = SMALLEST_EPSILON.max(3 * found.null_bytes);
    }
    if let Some(init) = first(tries, INIT) {
        found.init_bytes = change(init, None, 0, gpu);
    }
    if let Some(positive) = first(tries, POSITIVE) {
        found.baseline_bytes = used_before(positive, gpu);
        found.context_bytes = change(positive, None, 1, gpu).unwrap_or(0);
        found.allocation_bytes = change(positive, Some(2), 3, gpu).unwrap_or(0);
        found.pid_listed = is_listed(positive, gpu);
    }
}

/// Returns the reason why an attempt does not count, by the rules for all attempts.
fn why_disturbed(
    session: &Session,
    found: &Calibration,
    tries: &[(CasePlan, Recording)],
) -> Option<String> {
    let provisional = [found.clone()];
    let scene = Scene {
        calibration: &provisional,
        gpus: &session.machine.gpus,
    };
    for (case, recording) in tries {
        let reasons = judge::invalidations(&plan_of(case), case, recording, &scene);
        if let Some(invalid) = reasons.first() {
            return Some(format!("{}: {}", invalid.reason.name(), invalid.detail));
        }
    }
    None
}

fn is_near(a: Option<u64>, b: Option<u64>, found: &Calibration) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.abs_diff(b) <= found.epsilon_bytes / 2,
        _ => false,
    }
}

/// Returns the reason why the calibration is not sound: a control did not show what it must, or two attempts of one
/// control differ.
fn find_difference(
    found: &Calibration,
    tries: &[(CasePlan, Recording)],
    gpu: usize,
) -> Option<String> {
    for (case, recording) in tries {
        if let Some(why) = why_unread(recording, gpu) {
            return Some(why);
        }
        let baseline = used_before(recording, gpu);
        if !is_near(baseline, found.baseline_bytes, found) {
            return Some(format!(
                "the memory in use before its workers started differed: {baseline:?} and {:?} bytes",
                found.baseline_bytes
            ));
        }
        let (again, first) = match case.name.as_str() {
            INIT => (change(recording, None, 0, gpu), found.init_bytes),
            POSITIVE => (change(recording, None, 1, gpu), Some(found.context_bytes)),
            _ => continue,
        };
        if !is_near(again, first, found) {
            return Some(format!(
                "`{}` used {first:?} bytes and then {again:?}",
                case.name
            ));
        }
    }
    let (context, allocation) = (found.context_bytes, found.allocation_bytes);
    if context <= 4 * found.epsilon_bytes
        || allocation.abs_diff(ALLOCATED_BYTES) > found.epsilon_bytes
    {
        return Some(format!(
            "the positive control was not seen (context {context} B; {ALLOCATED_BYTES} B allocated, {allocation} B seen)"
        ));
    }
    None
}

#[derive(Debug, thiserror::Error)]
enum Unsound {
    #[error(transparent)]
    Sampler(#[from] SupervisorError),
    #[error("another process allocated or freed memory during the idle period")]
    Disturbed,
    #[error("`{case}` could not be run: {source}")]
    NotRun {
        case: String,
        source: SupervisorError,
    },
}

fn made(session: &mut Session, case: CasePlan) -> Result<(CasePlan, Recording), Unsound> {
    match session.record_attempt(&case.experiment(TIMEOUTS)) {
        Ok(recording) => Ok((case, recording)),
        Err(source) => Err(Unsound::NotRun {
            case: case.name,
            source,
        }),
    }
}
