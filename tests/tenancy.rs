//! A machine that other processes use too: verdicts are the same as on an idle one, or open, and never unexpected.
//!
//! The machine is simulated and shared: the program finds the simulated libraries where it would find real ones, and so
//! do co-tenants and a second run at the same time. These tests show how the harness treats co-tenants, not how a
//! driver does; the reports of real machines show that.

use crate::common;
#[path = "examples/co_tenant/play.rs"]
mod play;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cuda_pitfalls::catalogue;
use cuda_pitfalls::event::{Event, Value};
use cuda_pitfalls::judge::{plan_as_today, rejudge};
use cuda_pitfalls::report::{CompactReport, Report};
use cuda_pitfalls::sample::Process;
use cuda_pitfalls::simulated;
use cuda_pitfalls::verdict::Provenance;
use cuda_pitfalls::verdict::{ExpectationMet, Kind, Reason};

use common::{LONGEST, Running, Scratch, eventually, read_reports};

/// Role of this test program during a run, if it is started for that.
const PART: &str = "CUDA_PITFALLS_CO_TENANT";
const LIBRARY: &str = "CUDA_PITFALLS_CO_TENANT_LIBRARY";

/// Questions whose verdicts depend on contexts, on visibility and on memory; all by libcuda, which the shared machine
/// has.
const ASKED: [&str; 8] = [
    "context/retain-is-counted",
    "context/second-context-costs-again",
    "context/release-after-reset-is-lost",
    "instrument/probes-make-no-context",
    "visibility/mask-after-cuinit",
    "visibility/mask-after-nvml",
    "visibility/unset-before-cuinit",
    "memory/vmm-is-taken-at-create",
];

/// A simulated machine that several processes share, as they would share a real one.
struct Shared {
    scratch: Scratch,
    libraries: PathBuf,
}

impl Shared {
    fn new() -> Shared {
        let scratch = Scratch::new();
        let libraries = simulated::lay_out("h200-x2", &scratch.path().join("machine"))
            .expect("a simulated machine");
        Shared { scratch, libraries }
    }

    /// Starts a co-tenant on the machine. It runs until the returned value is dropped.
    fn co_tenant(&self, part: &str) -> CoTenant {
        let mut child = played(part, &self.libraries.join("libcuda.so").to_string_lossy())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its stdout")).lines();
        assert!(
            lines.any(|line| line.is_ok_and(|line| line.contains("ready"))),
            "the co-tenant did not get ready"
        );
        CoTenant(child)
    }

    fn command(&self, out: &str, more: &[&str]) -> Command {
        let out = self.scratch.path().join(out);
        let locks = self.scratch.path().join("locks");
        let mut arguments = vec![
            "run",
            "--on",
            "cuda",
            "--json",
            "--out",
            out.to_str().expect("UTF-8"),
        ];
        if !more.contains(&"--no-lock") {
            arguments.extend(["--lock-dir", locks.to_str().expect("UTF-8")]);
        }
        arguments.extend(more);
        let mut command = self.scratch.command(&arguments);
        command.env("LD_LIBRARY_PATH", &self.libraries);
        command
    }

    /// Runs questions to their end; each run has a separate directory for its output.
    fn run(&self, more: &[&str]) -> Report {
        report(Scratch::new().start(self.command("reports", more)))
    }
}

struct CoTenant(Child);

impl Drop for CoTenant {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns this test program, playing a part.
fn played(part: &str, library: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    // The name of a test begins with its module, without that of the program.
    let own = module_path!()
        .split_once("::")
        .map_or(String::new(), |(_, own)| format!("{own}::"));
    let part_of_this = format!("{own}a_part_that_is_played_beside_a_run");
    command.args(["--ignored", "--exact", &part_of_this, "--nocapture"]);
    command
        .env(PART, part)
        .env(LIBRARY, library)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Starts [`played`] in a child process; not a test by itself.
#[test]
#[ignore = "started by the other tests"]
fn a_part_that_is_played_beside_a_run() {
    let (Ok(part), Ok(library)) = (std::env::var(PART), std::env::var(LIBRARY)) else {
        return;
    };
    let end = Instant::now() + 2 * LONGEST;
    play::play(&part, end, &library, &|part| played(part, &library)).expect("the part is played");
}

fn report(running: Running) -> Report {
    let ran = running.wait(Duration::from_secs(120));
    serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}:\n{}\n{}", ran.stdout, ran.stderr))
}

fn no_surprise(report: &Report) {
    assert_eq!(report.provenance, Provenance::Simulated);
    for scenario in &report.scenarios {
        let verdict = &scenario.verdict;
        let words = format!(
            "{}: {} {:?}",
            scenario.name, verdict.detail, verdict.unexpected
        );
        assert_ne!(verdict.expectation, ExpectationMet::Unexpected, "{words}");
    }
}

fn verdicts(report: &Report) -> BTreeMap<&str, (Kind, Option<Reason>)> {
    report
        .scenarios
        .iter()
        .map(|done| (done.name.as_str(), (done.verdict.kind, done.verdict.reason)))
        .collect()
}

#[test]
fn an_idle_co_tenant_changes_no_verdict_that_it_does_not_hide() {
    let asked: Vec<&str> = ASKED.into_iter().chain(["--repeat", "2"]).collect();
    for part in ["hold-context", "hold-init"] {
        let machine = Shared::new();
        let alone = machine.run(&asked);
        let co_tenant = machine.co_tenant(part);
        let beside = machine.run(&asked);
        drop(co_tenant);
        no_surprise(&alone);
        no_surprise(&beside);
        assert!(alone.run.co_tenants.is_empty());
        assert_eq!(beside.run.co_tenants.len(), 2, "{part}");
        let (alone, beside) = (verdicts(&alone), verdicts(&beside));
        assert!(
            alone.values().all(|(kind, _)| kind.is_conclusive()),
            "{alone:?}"
        );
        assert_eq!(alone, beside, "{part}");
    }
}

#[test]
fn co_tenants_that_come_and_go_are_no_surprise() {
    // At the same time, because each calibration waits for a quiet time.
    std::thread::scope(|scope| {
        for part in ["churn-init", "churn-context", "churn-memory"] {
            scope.spawn(move || run_beside(part));
        }
    });
}

/// Runs questions next to a co-tenant, on a machine of their own, and fails if a verdict is unexpected.
fn run_beside(part: &str) {
    let machine = Shared::new();
    let co_tenant = machine.co_tenant(part);
    let asked: Vec<&str> = ASKED.into_iter().chain(["--quick"]).collect();
    let report = machine.run(&asked);
    drop(co_tenant);
    no_surprise(&report);
    assert_eq!(report.scenarios.len(), ASKED.len());
}

#[test]
fn memory_is_not_judged_where_somebody_disturbed_the_calibration() {
    let machine = Shared::new();
    let co_tenant = machine.co_tenant("churn-memory");
    // On a busy machine the co-tenant may have no turn while the instrument is measured. That shows nothing.
    let report = eventually("the calibration is disturbed", LONGEST, || {
        let report = machine.run(&[
            "memory/vmm-is-taken-at-create",
            "visibility/mask-after-cuinit",
            "--quick",
        ]);
        no_surprise(&report);
        report
            .run
            .calibration
            .iter()
            .any(|found| !found.figures.sound)
            .then_some(report)
    });
    drop(co_tenant);
    assert!(
        report
            .run
            .calibration
            .iter()
            .all(|found| found.figures.sound == found.figures.why_unsound.is_none())
    );
    assert!(
        report
            .run
            .warnings
            .iter()
            .any(|words| words.contains("is not judged")),
        "{:?}",
        report.run.warnings
    );
    let taken = &report.scenarios[0].verdict;
    assert!(!taken.kind.is_conclusive(), "{taken:?}");
    // A verdict that does not depend on memory is reached anyway, if the attempts count.
    let mask = &report.scenarios[1].verdict;
    assert!(
        mask.kind == Kind::Reproduced || mask.reason == Some(Reason::Contaminated),
        "{mask:?}"
    );
}

/// Two runs had one GPU each at the same time (`--gpus`).
#[test]
fn memory_of_another_runs_gpu_is_not_compared() {
    let mut reports = read_reports().iter();
    let both = reports.find(|(name, _)| name == "h200-x2-attempts/calls-9");
    let compact = CompactReport::new(&both.expect("a report").1, |_| false);
    let cases = compact.scenarios.iter().flat_map(|part| &part.cases);
    let outcomes: Vec<_> = cases.flat_map(|case| &case.outcomes).collect();
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.used_bytes.get("gpu1") == Some(&None))
    );
    let mut own = outcomes.iter().filter_map(|one| one.used_bytes.get("gpu0"));
    assert!(own.any(Option::is_some));
}

/// A co-tenant that has called `cuInit` on the GPU keeps the memory that managed memory leaves there, and is in no
/// list.
#[test]
fn what_somebody_else_keeps_is_no_surprise() {
    let measured = read_reports()
        .iter()
        .find(|(name, _)| name == "h100-x2-added")
        .expect("a report");
    for (more_bytes, company, sound, expectation) in [
        (20 << 20, None, true, ExpectationMet::Unexpected),
        (
            20 << 20,
            Some(Process {
                pid: 1,
                used_bytes: None,
            }),
            true,
            ExpectationMet::AsExpected,
        ),
        (20 << 20, None, false, ExpectationMet::NoExpectation),
        (192 << 10, None, true, ExpectationMet::AsExpected),
    ] {
        let mut report = measured.1.clone();
        plan_as_today(
            &mut report,
            &catalogue::select_scenarios(&[]).expect("scenarios"),
        );
        report
            .scenarios
            .retain(|part| part.name == "memory/managed-leaves-a-rest");
        report
            .run
            .calibration
            .iter_mut()
            .for_each(|known| known.figures.sound &= sound);
        let part = &mut report.scenarios[0];
        for case in part
            .cases
            .iter_mut()
            .filter(|case| ["alone", "until-the-last-ends"].contains(&case.name.as_str()))
        {
            for recording in case
                .attempts
                .iter_mut()
                .map(|attempt| &mut attempt.recording)
            {
                for gpu in recording
                    .snapshots
                    .iter_mut()
                    .flat_map(|seen| &mut seen.snapshot.gpus)
                {
                    gpu.processes.iter_mut().for_each(|it| it.extend(company));
                }
                let used =
                    recording
                        .events
                        .iter_mut()
                        .rev()
                        .find_map(|said| match &mut said.event {
                            Event::End { values, .. } => values.get_mut("used"),
                            _ => None,
                        });
                let Some(Value::Int(used)) = used else {
                    panic!("{} reads it", case.name)
                };
                *used += more_bytes;
            }
        }
        rejudge(&mut report);
        assert_eq!(
            report.scenarios[0].verdict.expectation, expectation,
            "{:?}",
            report.scenarios[0].verdict
        );
    }
}

#[test]
fn locked_runs_wait_and_unlocked_runs_stay_correct() {
    let asked: Vec<&str> = ASKED.into_iter().chain(["--repeat", "2"]).collect();
    for lock in [&[][..], &["--no-lock"]] {
        let machine = Shared::new();
        let more = [&asked, lock].concat();
        let scratches: Vec<Scratch> = (0..3).map(|_| Scratch::new()).collect();
        let runs: Vec<Running> = scratches
            .iter()
            .map(|scratch| scratch.start(machine.command("reports", &more)))
            .collect();
        let reports: Vec<Report> = runs.into_iter().map(report).collect();
        reports.iter().for_each(no_surprise);
        if lock.is_empty() {
            for report in &reports {
                assert!(
                    verdicts(report)
                        .values()
                        .all(|(kind, _)| kind.is_conclusive()),
                    "{:?}",
                    verdicts(report)
                );
            }
        }
    }
}

#[test]
fn run_without_waiting_measures_nothing_and_names_holder() {
    let machine = Shared::new();
    let first = Scratch::new();
    let asked: Vec<&str> = ASKED.into_iter().chain(["--repeat", "20"]).collect();
    let long = first.start(machine.command("reports", &asked));
    let held = machine.scratch.path().join("locks");
    // A holder signs the file once it has locked it.
    let is_signed = |file: &std::fs::DirEntry| file.metadata().is_ok_and(|file| file.len() > 0);
    eventually("the locks are held", LONGEST, || {
        let signed = std::fs::read_dir(&held).ok()?.flatten().filter(is_signed);
        (signed.count() == 2).then_some(())
    });
    let second = Scratch::new();
    let refused = second
        .ran(machine.command(
            "reports",
            &["memory/vmm-is-taken-at-create", "--wait", "0s"],
        ))
        .ended(4, "nothing_measured")
        .says("in use by the run of process");
    assert!(
        refused.json()["error"]
            .as_str()
            .is_some_and(|why| why.contains("--wait"))
    );
    drop(long);
}
