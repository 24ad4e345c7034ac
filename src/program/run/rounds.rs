//! Asking the questions of a run in rounds: one attempt of every case of every question, then the second, and so on. A
//! run that is stopped early has an answer to every question, although from fewer attempts.

use std::time::Duration;

use super::calibrate::Calibrator;
use super::console::Console;
use super::open::host_unsafe;
use super::options::RunOptions;
use super::progress;
use super::question::{self, OpenQuestion};
use super::session::Session;
use super::spool::{self, Spool};
use super::{Failure, unkillable};
use cuda_pitfalls_core::catalogue::Selection;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::report::{Report, Store, StoreError};
use cuda_pitfalls_core::scenario::{Hazard, Instance, Scenario};
use cuda_pitfalls_core::verdict::ExpectationMet;

/// How often the report is written at least while attempts are made, so that a kill loses no more than this.
const WRITE_EVERY_NS: u64 = 1_000_000_000;
/// The report is also written after every answer, if writing takes no longer than this.
const QUICK_WRITE_NS: u64 = 50_000_000;

/// All questions of a run, and the report that gets their results. A question has the same index in both.
pub(super) struct Rounds<'a> {
    session: &'a mut Session,
    report: &'a mut Report,
    console: &'a mut Console,
    store: &'a Store,
    /// `None` if NVML does not answer.
    pub(super) calibrator: Option<Calibrator>,
    options: &'a RunOptions,
    questions: Vec<OpenQuestion>,
    /// Whether a question may cause a GPU fault. Such questions are asked last.
    faulting: Vec<bool>,
    spool: Spool,
    /// When the first question was asked, and how long all of them were expected to take.
    asked_ns: u64,
    expected: Duration,
    /// When the report was written last, and how long that took.
    written_ns: u64,
    writing_ns: u64,
}

impl<'a> Rounds<'a> {
    /// Plans every instance of a selection on every libcudart.
    pub(super) fn plan(
        session: &'a mut Session,
        report: &'a mut Report,
        console: &'a mut Console,
        store: &'a Store,
        options: &'a RunOptions,
        selection: &Selection,
    ) -> Result<Rounds<'a>, Failure> {
        let spool = Spool::create(session.folder())
            .map_err(|error| Failure::Internal(format!("no room for attempts in TMPDIR: {error}")))?;
        let (mut questions, mut faulting) = (Vec::new(), Vec::new());
        for runtime in 0..session.runtimes.len().max(1) {
            for (scenario, instance) in in_order(&selection.scenarios) {
                // A framework brings its own libcudart.
                if runtime > 0 && scenario.has_python_lines() {
                    continue;
                }
                let (question, mut done) = question::plan(session, scenario, instance, &report.run, options, runtime);
                done.asked_by_name = selection.is_by_name(instance);
                report.scenarios.push(done);
                questions.push(question);
                faulting.push(may_fault(scenario));
            }
        }
        let written_ns = clock::now_ns();
        Ok(Rounds {
            session,
            report,
            console,
            store,
            calibrator: None,
            options,
            questions,
            faulting,
            spool,
            asked_ns: written_ns,
            expected: Duration::ZERO,
            written_ns,
            writing_ns: 0,
        })
    }

    /// Prints what will be asked, and how long it will take.
    pub(super) fn announce(&mut self, expected: Duration) {
        self.console.header(self.report, Some(expected));
        (self.asked_ns, self.expected) = (clock::now_ns(), expected);
    }

    /// Shows how much was asked, and how long the rest will take. What this machine cannot answer counts for nothing.
    fn show_progress(&self, what: &str) {
        let each = self.questions.iter().zip(&self.report.scenarios).map(|(question, done)| question.progress(done));
        let (made, to_make) = each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        self.console.progress(made, made + to_make);
        let left = match made {
            0 => progress::about(self.expected),
            _ => progress::left(clock::now_ns() - self.asked_ns, made, made + to_make),
        };
        self.console.status(&format!("{left} · {what}"));
    }

    /// Asks all questions, or as many rounds as the user, the host and the budget allow.
    pub(super) fn ask(&mut self) -> Result<(), Failure> {
        for place in 0..self.questions.len() {
            if self.is_done(place) {
                self.tell(place);
            }
        }
        for faulting in [false, true] {
            let mine: Vec<usize> =
                (0..self.questions.len()).filter(|place| self.faulting.get(*place) == Some(&faulting)).collect();
            let most = mine.iter().map(|place| self.report.scenarios.get(*place).map_or(0, question::repeat)).max();
            for round in 0..most.unwrap_or(0) {
                let began = clock::now_ns();
                self.round(&mine, round)?;
                if round == 0 && !faulting {
                    self.keep_to_budget(&mine, clock::now_ns() - began);
                }
            }
        }
        self.close()
    }

    fn is_done(&self, place: usize) -> bool {
        self.questions.get(place).is_some_and(OpenQuestion::is_done)
    }

    /// Whether nothing more may be started.
    fn is_over(&mut self) -> bool {
        self.session.supervisor.interrupt.check()
            || self.report.run.stopped_by.is_some()
            || self.report.run.host_unsafe.is_some()
    }

    /// Makes one round of each of these questions that is not done.
    fn round(&mut self, places: &[usize], round: u32) -> Result<(), Failure> {
        self.renew(round > 0);
        for &place in places {
            if self.is_over() {
                return Ok(());
            }
            if let Some(done) = self.report.scenarios.get(place).filter(|_| !self.is_done(place)) {
                self.show_progress(&format!("round {} · {}", round + 1, done.name));
            }
            let (Some(question), Some(done)) = (self.questions.get_mut(place), self.report.scenarios.get_mut(place))
            else {
                continue;
            };
            if question.is_done() {
                continue;
            }
            self.session.use_runtime(question.runtime);
            let is_last = question.is_last_round(done);
            let console = &*self.console;
            question.round(self.session, &self.report.run, done, &|| console.tick());
            if is_last {
                spool::bring_back(&mut done.cases)?;
                question.conclude(self.session, &self.report.run, done, false, &|| console.tick());
            }
            let (is_done, unsafe_host) = (question.is_done(), host_unsafe(done));
            if self.options.fail_fast && done.verdict.expectation == ExpectationMet::Unexpected {
                self.report.run.stopped_by.get_or_insert(done.name.clone());
            }
            self.put_away(place)?;
            if let Some(why) = unsafe_host.or_else(|| unkillable(self.session)) {
                self.report.run.host_unsafe.get_or_insert(why);
            }
            if is_done {
                self.tell(place);
            }
            self.write(is_done)?;
            self.renew(false);
        }
        Ok(())
    }

    /// Calibrates again if co-tenants came or left.
    fn renew(&mut self, unsound_too: bool) {
        if let Some(calibrator) = &mut self.calibrator {
            calibrator.renew(self.session, self.report, unsound_too);
        }
    }

    /// Limits the number of rounds to what fits into the budget, now that the time of a round on this machine is known.
    fn keep_to_budget(&mut self, places: &[usize], round_ns: u64) {
        let Some(budget) = self.options.budget() else { return };
        let spent = Duration::from_nanos(clock::now_ns() - self.report.run.started_ns);
        let more = budget.saturating_sub(spent).as_nanos() / u128::from(round_ns.max(1));
        let rounds = u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1);
        for &place in places {
            if let (Some(question), Some(done)) = (self.questions.get_mut(place), self.report.scenarios.get_mut(place))
            {
                question.limit(done, rounds);
            }
        }
    }

    /// When nothing more may be started: judges open questions by their rounds, and moves questions that never began
    /// from the report to its list of questions that were not run.
    fn close(&mut self) -> Result<(), Failure> {
        let is_interrupted = self.session.supervisor.interrupt.check();
        let host_unsafe = self.report.run.host_unsafe.clone();
        for place in 0..self.questions.len() {
            let (Some(question), Some(done)) = (self.questions.get_mut(place), self.report.scenarios.get_mut(place))
            else {
                continue;
            };
            if question.is_done() {
                continue;
            }
            if !question.has_begun()
                && !is_interrupted
                && let Some(why) = &host_unsafe
            {
                question.refuse(self.session, done, why);
            } else if question.has_begun() {
                spool::bring_back(&mut done.cases)?;
                question.conclude(self.session, &self.report.run, done, true, &|| {});
                self.put_away(place)?;
            } else {
                continue;
            }
            self.tell(place);
        }
        // The caller writes the last report of a run, and earlier ones may lack answers.
        self.report.machine.libraries.clone_from(&self.session.machine.libraries);
        let questions = &self.questions;
        let mut answered = questions.iter().map(OpenQuestion::is_done);
        let not_run = &mut self.report.run.not_run;
        self.report.scenarios.retain(|done| {
            let keep = answered.next().unwrap_or(true);
            if !keep {
                not_run.push(done.name.clone());
            }
            keep
        });
        Ok(())
    }

    fn put_away(&mut self, place: usize) -> Result<(), Failure> {
        let Some(done) = self.report.scenarios.get_mut(place) else { return Ok(()) };
        let full = |source| StoreError::Io { what: "keep attempts in", path: std::env::temp_dir(), source }.into();
        self.spool.put_away(&mut done.cases).map_err(full)
    }

    fn tell(&mut self, place: usize) {
        if let Some(done) = self.report.scenarios.get(place) {
            self.console.scenario(done);
        }
    }

    /// Writes the report, if that is due or there is a new answer.
    fn write(&mut self, is_answer: bool) -> Result<(), Failure> {
        let now = clock::now_ns();
        self.report.run.elapsed_ns = now - self.report.run.started_ns;
        let is_due = now - self.written_ns >= WRITE_EVERY_NS;
        if is_due || (is_answer && self.writing_ns <= QUICK_WRITE_NS) {
            self.report.machine.libraries.clone_from(&self.session.machine.libraries);
            self.store.write(self.report)?;
            self.written_ns = clock::now_ns();
            self.writing_ns = self.written_ns - now;
        }
        Ok(())
    }
}

fn may_fault(scenario: &Scenario) -> bool {
    scenario.hazards.contains(&Hazard::Fault)
}

/// The instances in the order in which they run: those that may cause a GPU fault come last.
fn in_order(scenarios: &[Scenario]) -> Vec<(&Scenario, &Instance)> {
    let mut order: Vec<_> = scenarios
        .iter()
        .flat_map(|scenario| scenario.instances.iter().map(move |instance| (scenario, instance)))
        .collect();
    order.sort_by_key(|(scenario, _)| may_fault(scenario));
    order
}
