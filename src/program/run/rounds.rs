//! The rounds of a run: one attempt of every case of every question, then the second, and so on. A run that is stopped
//! after three rounds has an answer to every question, although from fewer attempts.

use std::time::Duration;

use super::calibrate::Calibrator;
use super::console::Console;
use super::error::RunError;
use super::options::RunOptions;
use super::question::{Asking, OpenQuestion, plan_options, plan_question, repeat, why_host_unsafe};
use super::session::Session;
use super::spool::{Spool, bring_back};
use cuda_pitfalls_core::catalogue::Selection;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::plan::estimate::{self, Pace};
use cuda_pitfalls_core::report::{Report, Store};
use cuda_pitfalls_core::scenario::{Hazard, Instance, Scenario};
use cuda_pitfalls_core::verdict::{ExpectationMet, Provenance};

/// Longest interval between two writes of the report while attempts are made, so that a kill loses no more than this.
const WRITE_EVERY_NS: u64 = 1_000_000_000;
/// The report is also written after every answer, if writing takes no longer than this.
const QUICK_WRITE_NS: u64 = 50_000_000;

/// Plans every instance of a selection on every libcudart, and adds it to the report. The n-th question belongs to the
/// n-th scenario in the report.
pub(super) fn plan_questions(
    options: &RunOptions,
    session: &mut Session,
    report: &mut Report,
    selection: &Selection,
) -> Vec<OpenQuestion> {
    let mut questions = Vec::new();
    for runtime in 0..session.runtimes.len().max(1) {
        let planning = plan_options(session, options, runtime);
        for (scenario, instance) in order_instances(&selection.scenarios) {
            // A framework brings its own libcudart.
            if runtime > 0 && scenario.has_python_lines() {
                continue;
            }
            let (question, mut done) =
                plan_question(session, scenario, instance, &report.run, &planning, runtime);
            done.asked_by_name = selection.is_by_name(instance);
            report.scenarios.push(done);
            questions.push(question);
        }
    }
    questions
}

/// Returns the instances in the order of the run: those that may cause a GPU fault come last.
fn order_instances(scenarios: &[Scenario]) -> Vec<(&Scenario, &Instance)> {
    let mut order = Vec::new();
    for scenario in scenarios {
        for instance in &scenario.instances {
            order.push((scenario, instance));
        }
    }
    order.sort_by_key(|(scenario, _)| scenario.hazards.contains(&Hazard::Fault));
    order
}

/// Returns the expected duration of the planned questions of a report.
pub(super) fn expect_duration(options: &RunOptions, report: &Report) -> Duration {
    let pace = match report.provenance {
        Provenance::Measured => Pace::default(),
        Provenance::Simulated => Pace::SIMULATED,
    };
    let plans = report
        .scenarios
        .iter()
        .filter_map(|done| done.plan.as_ref());
    let expected = estimate::run(plans, report.machine.gpus.len(), pace);
    match options.time_budget() {
        Some(budget) => expected.min(budget),
        None => expected,
    }
}

/// All questions of a run, and the report that gets their results. A question has the same index in both.
pub(super) struct Rounds<'a> {
    pub(super) options: &'a RunOptions,
    pub(super) session: &'a mut Session,
    pub(super) report: &'a mut Report,
    pub(super) console: &'a mut Console,
    pub(super) store: &'a Store,
    /// `None` if NVML does not answer.
    pub(super) calibrator: Option<Calibrator>,
    pub(super) questions: Vec<OpenQuestion>,
    pub(super) spool: Spool,
    /// Expected duration of all questions.
    pub(super) expected: Duration,
    /// Time at which the first question began.
    pub(super) asked_ns: u64,
    /// Time at which the report was written last, and the duration of that.
    pub(super) written_ns: u64,
    pub(super) writing_ns: u64,
}

impl Rounds<'_> {
    /// Runs all questions, or as many rounds as the user, the host and the budget allow.
    pub(super) fn ask_questions(&mut self) -> Result<(), RunError> {
        for (question, done) in self.questions.iter().zip(&self.report.scenarios) {
            if question.is_done() {
                self.console.note_answer(done);
            }
        }
        for may_fault in [false, true] {
            for round in 0..self.count_rounds(may_fault) {
                let began = clock::now_ns();
                self.make_round(may_fault, round)?;
                if round == 0 && !may_fault {
                    self.keep_to_budget(clock::now_ns() - began);
                }
            }
        }
        self.close_questions()
    }

    /// Returns the number of rounds of questions that may cause a GPU fault, or of the others.
    fn count_rounds(&self, may_fault: bool) -> u32 {
        let mut most = 0;
        for (question, done) in self.questions.iter().zip(&self.report.scenarios) {
            if question.may_fault == may_fault {
                most = most.max(repeat(done));
            }
        }
        most
    }

    /// Makes one round of each question that is not done, of those that may cause a GPU fault or of the others.
    fn make_round(&mut self, may_fault: bool, round: u32) -> Result<(), RunError> {
        self.renew_calibration(round > 0);
        for index in 0..self.questions.len() {
            let question = &self.questions[index];
            if question.may_fault != may_fault || question.is_done() {
                continue;
            }
            if self.is_over() {
                return Ok(());
            }
            let name = &self.report.scenarios[index].name;
            self.show_progress(&format!("round {} · {name}", round + 1));
            let is_done = self.ask_question(index, round)?;
            self.write_report(is_done)?;
            self.renew_calibration(false);
        }
        Ok(())
    }

    /// Makes one round of a question, and judges it after its last one. Returns `true` if it is done.
    fn ask_question(&mut self, index: usize, round: u32) -> Result<bool, RunError> {
        let Report { scenarios, run, .. } = &mut *self.report;
        let (question, done) = (&mut self.questions[index], &mut scenarios[index]);
        self.session.use_runtime(question.runtime);
        let is_last = question.is_last_round(done);
        let asking = &mut Asking {
            session: &mut *self.session,
            run,
            done,
            console: self.console,
        };
        question.make_round(asking);
        if is_last {
            bring_back(&mut asking.done.cases)?;
            let is_over = asking.is_over();
            question.conclude(asking, is_over);
        }
        if round == 0
            && let Some(answer) = question.so_far(asking)
        {
            self.console.note_first_round(answer);
        }
        if self.options.fail_fast && done.verdict.expectation == ExpectationMet::Unexpected {
            run.stopped_by.get_or_insert(done.name.clone());
        }
        if let Some(why) = why_host_unsafe(done).or_else(|| self.session.unkillable_process()) {
            run.host_unsafe.get_or_insert(why);
        }
        self.spool.put_away(&mut done.cases)?;
        if question.is_done() {
            self.console.note_answer(done);
        }
        Ok(question.is_done())
    }

    /// Returns `true` if nothing more may be started.
    fn is_over(&mut self) -> bool {
        self.session.supervisor.interrupt.check()
            || self.report.run.stopped_by.is_some()
            || self.report.run.host_unsafe.is_some()
    }

    /// Shows the progress, and the expected remaining time. Questions that this machine cannot answer do not count.
    fn show_progress(&self, what: &str) {
        let (mut made, mut all) = (0, 0);
        for (question, done) in self.questions.iter().zip(&self.report.scenarios) {
            let (done, to_make) = question.round_counts(done);
            made += done;
            all += done + to_make;
        }
        let spent_ns = clock::now_ns() - self.asked_ns;
        self.console
            .show_rounds((made, all), (spent_ns, self.expected), what);
    }

    /// Calibrates again if co-tenants came or left.
    fn renew_calibration(&mut self, unsound_too: bool) {
        if let Some(calibrator) = &mut self.calibrator {
            calibrator.recalibrate_changed(self.session, self.report, unsound_too);
        }
    }

    /// Limits the number of rounds to what fits into the budget, now that the time of a round on this machine is known.
    fn keep_to_budget(&mut self, round_ns: u64) {
        let Some(budget) = self.options.time_budget() else {
            return;
        };
        let spent = Duration::from_nanos(clock::now_ns() - self.report.run.started_ns);
        let more = budget.saturating_sub(spent).as_nanos() / u128::from(round_ns.max(1));
        let rounds = u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1);
        for (question, done) in self.questions.iter_mut().zip(&mut self.report.scenarios) {
            if !question.may_fault {
                question.limit(done, rounds);
            }
        }
    }

    /// Closes the questions when nothing more may be started: judges open questions by their rounds, and moves
    /// questions that never began from the report to its list of questions that were not run.
    fn close_questions(&mut self) -> Result<(), RunError> {
        let is_interrupted = self.session.supervisor.interrupt.check();
        let Report { scenarios, run, .. } = &mut *self.report;
        let mut asked = Vec::new();
        for (question, mut done) in self.questions.iter_mut().zip(std::mem::take(scenarios)) {
            let was_done = question.is_done();
            if question.has_begun() && !was_done {
                bring_back(&mut done.cases)?;
                let asking = &mut Asking {
                    session: &mut *self.session,
                    run,
                    done: &mut done,
                    console: self.console,
                };
                question.conclude(asking, true);
                self.spool.put_away(&mut done.cases)?;
            } else if let Some(why) = &run.host_unsafe
                && !is_interrupted
            {
                question.refuse_unsafe(self.session, &mut done, why);
            }
            if !question.is_done() {
                run.not_run.push(done.name);
                continue;
            }
            if !was_done {
                self.console.note_answer(&done);
            }
            asked.push(done);
        }
        *scenarios = asked;
        // The caller writes the last report of a run, and earlier ones may lack answers.
        self.take_libraries();
        Ok(())
    }

    /// Writes the report, if that is due or there is a new answer.
    fn write_report(&mut self, is_answer: bool) -> Result<(), RunError> {
        let now = clock::now_ns();
        self.report.run.elapsed_ns = now - self.report.run.started_ns;
        let is_due = now - self.written_ns >= WRITE_EVERY_NS;
        if is_due || (is_answer && self.writing_ns <= QUICK_WRITE_NS) {
            self.take_libraries();
            self.store.write(self.report)?;
            self.written_ns = clock::now_ns();
            self.writing_ns = self.written_ns - now;
        }
        Ok(())
    }

    /// Copies into the report the list of libraries that workers have mapped so far.
    fn take_libraries(&mut self) {
        let mapped = &self.session.machine.libraries;
        self.report.machine.libraries.clone_from(mapped);
    }
}
