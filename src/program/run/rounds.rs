//! Asking the questions of a run in rounds: one attempt of every case of every question, then the second, and so on. A
//! run that is stopped after three rounds has an answer to every question, although from fewer attempts.

use std::time::Duration;

use super::calibrate::Calibrator;
use super::console::Console;
use super::dry;
use super::error::RunError;
use super::open::host_unsafe;
use super::options::RunOptions;
use super::progress;
use super::question::{self, Asking, OpenQuestion, repeat};
use super::session::Session;
use super::spool::{self, Spool};
use cuda_pitfalls_core::catalogue::Selection;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::report::{Report, ScenarioReport, Store, StoreError};
use cuda_pitfalls_core::scenario::{Hazard, Instance, Scenario};
use cuda_pitfalls_core::verdict::ExpectationMet;

/// How often the report is written at least while attempts are made, so that a kill loses no more than this.
const WRITE_EVERY_NS: u64 = 1_000_000_000;
/// The report is also written after every answer, if writing takes no longer than this.
const QUICK_WRITE_NS: u64 = 50_000_000;

/// All questions of a run, and the report that gets their results. A question has the same index in both.
struct Rounds<'a> {
    session: &'a mut Session,
    report: &'a mut Report,
    console: &'a mut Console,
    store: &'a Store,
    /// `None` if NVML does not answer.
    calibrator: Option<Calibrator>,
    options: &'a RunOptions,
    questions: Vec<OpenQuestion>,
    spool: Spool,
    /// When the first question was asked, and how long all of them were expected to take.
    asked_ns: u64,
    expected: Duration,
    /// When the report was written last, and how long that took.
    written_ns: u64,
    writing_ns: u64,
}

/// Measures the instrument, and asks every question of a selection.
pub(super) fn ask(
    options: &RunOptions,
    session: &mut Session,
    report: &mut Report,
    store: &Store,
    selection: Selection,
    console: &mut Console,
) -> Result<(), RunError> {
    let calibrator = session.supervisor.sampler.inventory.is_ok().then(|| {
        console.status("measuring the instrument");
        Calibrator::calibrate_all(session, report)
    });
    let ahead = dry::look_ahead(options, session, &selection);
    let expected = Duration::from_millis(ahead.expected_ms)
        .min(options.time_budget().unwrap_or(Duration::MAX));
    let repeat = if options.asked.quick {
        Some(1)
    } else {
        options.asked.repeat
    };
    console.expect_scenarios(&selection.scenarios, session.runtimes.len(), repeat);
    let spool = Spool::create_in(session.folder())
        .map_err(|error| RunError::Internal(format!("no room for attempts in TMPDIR: {error}")))?;
    let questions = plan(session, report, options, &selection);
    // The plans have everything that is needed, and the files are a third of this process's memory.
    drop(selection);
    console.print_header(report, Some(expected));
    let asked_ns = clock::now_ns();
    let mut rounds = Rounds {
        session,
        report,
        console,
        store,
        calibrator,
        options,
        questions,
        spool,
        asked_ns,
        expected,
        written_ns: asked_ns,
        writing_ns: 0,
    };
    rounds.ask()
}

/// Plans every instance of a selection on every libcudart, and adds it to the report.
fn plan(
    session: &mut Session,
    report: &mut Report,
    options: &RunOptions,
    selection: &Selection,
) -> Vec<OpenQuestion> {
    let mut questions = Vec::new();
    for runtime in 0..session.runtimes.len().max(1) {
        // A framework brings its own libcudart.
        let asked = in_order(&selection.scenarios).into_iter();
        for (scenario, instance) in
            asked.filter(|(scenario, _)| runtime == 0 || !scenario.has_python_lines())
        {
            let (question, mut done) =
                question::plan(session, scenario, instance, &report.run, options, runtime);
            done.asked_by_name = selection.is_by_name(instance);
            report.scenarios.push(done);
            questions.push(question);
        }
    }
    questions
}

impl Rounds<'_> {
    /// Shows how much was asked, and how long the rest will take. What this machine cannot answer counts for nothing.
    fn show_progress(&self, what: &str) {
        let each = self
            .questions
            .iter()
            .zip(&self.report.scenarios)
            .map(|(question, done)| question.round_counts(done));
        let (made, to_make) = each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        self.console.set_progress(made, made + to_make);
        let left = match made {
            0 => progress::about(self.expected),
            _ => progress::left(clock::now_ns() - self.asked_ns, made, made + to_make),
        };
        self.console.status(&format!("{left} · {what}"));
    }

    /// Asks all questions, or as many rounds as the user, the host and the budget allow.
    fn ask(&mut self) -> Result<(), RunError> {
        for (_, done) in self
            .questions
            .iter()
            .zip(&self.report.scenarios)
            .filter(|(question, _)| question.is_done())
        {
            self.console.scenario(done);
        }
        for may_fault in [false, true] {
            let all = self.questions.iter().zip(&self.report.scenarios);
            let most = all
                .filter(|(question, _)| question.may_fault == may_fault)
                .map(|(_, done)| repeat(done))
                .max();
            for round in 0..most.unwrap_or(0) {
                let began = clock::now_ns();
                self.make_round(may_fault, round)?;
                if round == 0 && !may_fault {
                    self.keep_to_budget(clock::now_ns() - began);
                }
            }
        }
        self.close_questions()
    }

    /// Whether nothing more may be started.
    fn is_over(&mut self) -> bool {
        self.session.supervisor.interrupt.check()
            || self.report.run.stopped_by.is_some()
            || self.report.run.host_unsafe.is_some()
    }

    /// Makes one round of each question that is not done, of those that may cause a GPU fault or of the others.
    fn make_round(&mut self, may_fault: bool, round: u32) -> Result<(), RunError> {
        self.renew_calibration(round > 0);
        for index in 0..self.questions.len() {
            if self
                .questions
                .get(index)
                .is_none_or(|question| question.may_fault != may_fault || question.is_done())
            {
                continue;
            }
            if self.is_over() {
                return Ok(());
            }
            if let Some(done) = self.report.scenarios.get(index) {
                self.show_progress(&format!("round {} · {}", round + 1, done.name));
            }
            let Report { scenarios, run, .. } = &mut *self.report;
            let (Some(question), Some(done)) =
                (self.questions.get_mut(index), scenarios.get_mut(index))
            else {
                continue;
            };
            self.session.use_runtime(question.runtime);
            let (is_last, console) = (question.is_last_round(done), &*self.console);
            let asking = &mut Asking {
                session: &mut *self.session,
                run,
                done,
                tick: &|| console.tick(),
            };
            question.make_round(asking);
            if is_last {
                spool::bring_back(&mut asking.done.cases)?;
                let is_over = asking.is_over();
                question.conclude(asking, is_over);
            }
            let first = if round == 0 {
                question.so_far(asking)
            } else {
                None
            };
            first
                .into_iter()
                .for_each(|answer| self.console.note_first_round(answer));
            let unsafe_host = host_unsafe(done);
            if self.options.fail_fast && done.verdict.expectation == ExpectationMet::Unexpected {
                run.stopped_by.get_or_insert(done.name.clone());
            }
            put_away(&mut self.spool, done)?;
            if let Some(why) = unsafe_host.or_else(|| self.session.unkillable_process()) {
                run.host_unsafe.get_or_insert(why);
            }
            let is_done = question.is_done();
            if is_done {
                self.console.scenario(done);
            }
            self.write(is_done)?;
            self.renew_calibration(false);
        }
        Ok(())
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
        let all = self.questions.iter_mut().zip(&mut self.report.scenarios);
        all.filter(|(question, _)| !question.may_fault)
            .for_each(|(question, done)| question.limit(done, rounds));
    }

    /// When nothing more may be started: judges open questions by their rounds, and moves questions that never began
    /// from the report to its list of questions that were not run.
    fn close_questions(&mut self) -> Result<(), RunError> {
        let is_interrupted = self.session.supervisor.interrupt.check();
        let Report {
            scenarios,
            run,
            machine,
            ..
        } = &mut *self.report;
        for (question, done) in self
            .questions
            .iter_mut()
            .zip(&mut *scenarios)
            .filter(|(open, _)| !open.is_done())
        {
            match &run.host_unsafe {
                _ if question.has_begun() => {
                    spool::bring_back(&mut done.cases)?;
                    let asking = &mut Asking {
                        session: &mut *self.session,
                        run,
                        done,
                        tick: &|| {},
                    };
                    question.conclude(asking, true);
                    put_away(&mut self.spool, done)?;
                }
                Some(why) if !is_interrupted => question.refuse_unsafe(self.session, done, why),
                _ => continue,
            }
            self.console.scenario(done);
        }
        // The caller writes the last report of a run, and earlier ones may lack answers.
        machine
            .libraries
            .clone_from(&self.session.machine.libraries);
        let mut answered = self.questions.iter().map(OpenQuestion::is_done);
        let not_run = scenarios.extract_if(.., |_| !answered.next().unwrap_or(true));
        run.not_run.extend(not_run.map(|done| done.name));
        Ok(())
    }

    /// Writes the report, if that is due or there is a new answer.
    fn write(&mut self, is_answer: bool) -> Result<(), RunError> {
        let now = clock::now_ns();
        self.report.run.elapsed_ns = now - self.report.run.started_ns;
        let is_due = now - self.written_ns >= WRITE_EVERY_NS;
        if is_due || (is_answer && self.writing_ns <= QUICK_WRITE_NS) {
            self.report
                .machine
                .libraries
                .clone_from(&self.session.machine.libraries);
            self.store.write(self.report)?;
            self.written_ns = clock::now_ns();
            self.writing_ns = self.written_ns - now;
        }
        Ok(())
    }
}

fn put_away(spool: &mut Spool, done: &mut ScenarioReport) -> Result<(), RunError> {
    let put_away = spool.put_away(&mut done.cases);
    put_away.map_err(|source| {
        StoreError::Io {
            what: "keep attempts in",
            path: std::env::temp_dir(),
            source,
        }
        .into()
    })
}

/// The instances in the order in which they run: those that may cause a GPU fault come last.
fn in_order(scenarios: &[Scenario]) -> Vec<(&Scenario, &Instance)> {
    let mut order: Vec<_> = scenarios
        .iter()
        .flat_map(|scenario| {
            scenario
                .instances
                .iter()
                .map(move |instance| (scenario, instance))
        })
        .collect();
    order.sort_by_key(|(scenario, _)| scenario.hazards.contains(&Hazard::Fault));
    order
}
