//! Workers that go wrong in every way we could think of, each run through the program on the
//! simulated machine: the step at fault is named, nothing is concluded, nothing survives, and the next
//! scenario starts clean.

use crate::common;

use std::time::{Duration, Instant};

use cuda_pitfalls::event::Event;
use cuda_pitfalls::report::{Attempt, Report, ScenarioReport};
use cuda_pitfalls::verdict::{Kind, Reason};

use common::{Ran, Scratch, names_in, part};

/// A machine with one GPU, the minimum for sampling.
const MACHINE: &str = "sim:h200-x1";

/// Result of a worker that went wrong.
struct Outcome {
    ran: Ran,
    report: Report,
    elapsed: Duration,
    name: String,
}

impl Outcome {
    fn scenario(&self) -> &ScenarioReport {
        part(&self.report, &self.name)
    }

    fn attempt(&self) -> &Attempt {
        match self.scenario().cases[0].attempts.as_slice() {
            [attempt] => attempt,
            all => panic!("{} attempts of {}", all.len(), self.name),
        }
    }

    /// Returns the label of a step by its index.
    fn label(&self, step: Option<usize>) -> &str {
        let plan = self.scenario().plan.as_ref().expect("it was planned");
        step.map_or("no step", |step| plan.cases[0].steps[step].label.as_str())
    }

    /// Fails unless the result is inconclusive for this reason, and the program reports the reason.
    fn inconclusive(&self, reason: Reason) {
        let verdict = &self.scenario().verdict;
        assert_eq!(
            (verdict.kind, verdict.reason),
            (Kind::Inconclusive, Some(reason)),
            "{}",
            verdict.detail
        );
        let first = self
            .attempt()
            .judged
            .invalid
            .first()
            .map(|invalid| invalid.reason);
        assert_eq!(first, Some(reason), "{:?}", self.attempt().judged.invalid);
        self.ran.clone().ended(3, "inconclusive");
    }
}

/// Runs a file of `tests/selftest`, then a scenario that only a clean GPU and a whole harness can answer. The second
/// must succeed, whatever the first did.
fn run(stem: &str) -> Outcome {
    let scratch = Scratch::new();
    let file = format!("tests/selftest/{stem}.toml");
    let started = Instant::now();
    let (ran, report) = scratch.simulate(
        MACHINE,
        &[&file, "tests/selftest/clean.toml"],
        &["--repeat", "1"],
    );
    let elapsed = started.elapsed();
    scratch.assert_no_process_left();
    let left = names_in(scratch.path());
    assert!(
        !left.iter().any(|name| name.starts_with("cuda-pitfalls-")),
        "left behind: {left:?}"
    );
    assert!(report.complete && ran.code.is_some(), "{}", ran.stderr);
    let clean = part(&report, "selftest/clean");
    assert_eq!(
        clean.verdict.kind,
        Kind::Reproduced,
        "the next scenario did not start clean: {}",
        clean.verdict.detail
    );
    assert!(
        clean
            .cases
            .iter()
            .flat_map(|case| &case.attempts)
            .all(|attempt| attempt.judged.invalid.is_empty())
    );
    Outcome {
        ran,
        report,
        elapsed,
        name: format!("selftest/{stem}"),
    }
}

/// Checks a hang: the deadline is reported and kept, and ends in the signals that were needed and no others. A deadline
/// that is not enforced never ends the run.
fn hangs(stem: &str, sent: &[&str]) {
    let outcome = run(stem);
    let exit = &outcome.attempt().recording.exit;
    assert_eq!(outcome.label(exit.deadline_at), "fault");
    assert_eq!(exit.sent, sent);
    assert_eq!(exit.signal.as_deref(), sent.last().copied());
    assert!(!exit.said_bye && !exit.unkillable);
    assert!(
        outcome.elapsed >= Duration::from_secs(2),
        "{:?} is before the deadline",
        outcome.elapsed
    );
    outcome.inconclusive(Reason::Hang);
}

/// Each step of `too-long` may take longer than it does, and the attempt may not; a child is named and ended; a stopped
/// worker can still be ended; and lines on stdout that look like the wire are not believed.
#[test]
fn a_hang_ends_at_its_deadline_by_the_signals_that_it_takes() {
    let by_sigterm = ["hang", "too-long", "stopped", "child-hangs", "fake-bye"];
    // At the same time, because each waits for its deadline.
    std::thread::scope(|scope| {
        for stem in by_sigterm {
            scope.spawn(move || hangs(stem, &["SIGTERM"]));
        }
        hangs("hang-deaf", &["SIGTERM", "SIGKILL"]);
    });
}

/// Checks a crash: the signal and the step that raised it, without a signal of ours.
fn crashes(stem: &str, signal: &str) {
    let outcome = run(stem);
    let exit = &outcome.attempt().recording.exit;
    assert_eq!(exit.signal.as_deref(), Some(signal));
    assert_eq!(outcome.label(exit.died_at), "fault");
    assert!(exit.sent.is_empty() && exit.code.is_none() && !exit.said_bye);
    assert!(
        outcome
            .scenario()
            .verdict
            .detail
            .contains(&format!("{signal} at fault"))
    );
    outcome.inconclusive(Reason::Crashed);
}

#[test]
fn a_fault_and_an_abort_name_their_steps() {
    crashes("segv", "SIGSEGV");
    crashes("abort", "SIGABRT");
}

#[test]
fn a_forked_child_that_crashes_is_noticed_at_once() {
    let outcome = run("child-crashes");
    let exit = &outcome.attempt().recording.exit;
    assert_eq!(outcome.label(exit.died_at), "fault");
    assert_eq!(
        (exit.code, exit.deadline_at),
        (Some(0), None),
        "its parent was well"
    );
    outcome.inconclusive(Reason::Crashed);
}

#[test]
fn a_fork_that_fails_is_not_waited_for() {
    let outcome = run("fork-fails");
    let exit = &outcome.attempt().recording.exit;
    assert_eq!(
        (exit.code, exit.deadline_at),
        (Some(0), None),
        "the worker was well, and no deadline passed"
    );
    outcome.inconclusive(Reason::ExitedEarly);
}

/// Checks an early exit: whatever the exit code, steps that were not made do not count as an answer.
fn leaves_early(stem: &str, code: i32) {
    let outcome = run(stem);
    let exit = &outcome.attempt().recording.exit;
    assert_eq!(exit.code, Some(code));
    assert!(!exit.said_bye && exit.sent.is_empty() && exit.signal.is_none());
    assert!(
        outcome.scenario().verdict.detail.contains("at fault"),
        "{}",
        outcome.scenario().verdict.detail
    );
    outcome.inconclusive(Reason::ExitedEarly);
}

#[test]
fn any_exit_code_before_the_last_step_concludes_nothing() {
    leaves_early("exit-0", 0);
    leaves_early("exit-3", 3);
}

#[test]
fn a_gibibyte_of_noise_fills_neither_memory_nor_time() {
    let outcome = run("flood");
    let attempt = outcome.attempt();
    assert_eq!(
        attempt.recording.stdout_bytes,
        1 << 30,
        "all of it was taken"
    );
    assert!(
        attempt.recording.stdout_tail.len() <= 16 << 10,
        "{} bytes were kept",
        attempt.recording.stdout_tail.len()
    );
    assert!(
        attempt.judged.invalid.is_empty() && attempt.recording.exit.said_bye,
        "noise is no reason to doubt: {:?}",
        attempt.judged.invalid
    );
    let peak = outcome
        .report
        .run
        .parent_peak_rss_bytes
        .expect("the parent knows its own size");
    assert!(peak <= 64 << 20, "the parent grew to {peak} bytes");
    outcome.ran.ended(0, "ok");
}

#[test]
fn a_grandchild_in_a_session_of_its_own_is_reported_and_killed() {
    let outcome = run("leak");
    assert_eq!(outcome.attempt().recording.exit.leaked_children, 1);
    outcome.inconclusive(Reason::LeakedChildren);
}

#[test]
fn a_deadline_is_an_answer_where_the_question_asks_for_it() {
    let outcome = run("asked");
    assert_eq!(
        outcome.scenario().verdict.kind,
        Kind::Reproduced,
        "{}",
        outcome.scenario().verdict.detail
    );
    outcome.ran.ended(0, "ok");
}

#[test]
fn fresh_processes_start_from_nothing_and_are_waited_for() {
    let outcome = run("processes");
    let scenario = outcome.scenario();
    assert_eq!(
        scenario.verdict.kind,
        Kind::Reproduced,
        "{}",
        scenario.verdict.detail
    );
    assert!(
        scenario.verdict.unexpected.is_empty(),
        "{:?}",
        scenario.verdict.unexpected
    );
    for case in &scenario.cases {
        let attempt = &case.attempts[0];
        let child = attempt
            .recording
            .events
            .iter()
            .filter(|said| said.process.as_deref() == Some("child"));
        let ready = child
            .filter(|said| matches!(said.event, Event::Ready { .. }))
            .count();
        assert_eq!(
            (ready, attempt.recording.exit.leaked_children),
            (1, 0),
            "{}",
            case.name
        );
    }
}

#[test]
fn steps_on_exit_handlers_are_made_inside_them() {
    let outcome = run("handlers");
    let scenario = outcome.scenario();
    assert!(
        scenario.verdict.unexpected.is_empty(),
        "{:?}",
        scenario.verdict.unexpected
    );
    assert!(
        outcome.attempt().recording.exit.said_bye
            && outcome.attempt().recording.exit.code == Some(0)
    );
}
