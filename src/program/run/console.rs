//! Output during a run: answers on stdout, progress on stderr if it is a terminal.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use super::options::RunOptions;
use super::progress;
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::report::{Report, ScenarioReport};
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_instrument::output;
use cuda_pitfalls_render::answer::{self, InstanceAnswer, ReportPlace, RunEnding, Workload};
use cuda_pitfalls_render::{Screen, full};

/// The output of a run. With `--json`, stdout gets one document and text for people goes to stderr.
pub(super) struct Console {
    json: bool,
    verbose: bool,
    /// `true` if only failures and the end are printed.
    quiet: bool,
    pub(super) screen: Screen,
    bar: ProgressBar,
    asked: Workload,
    /// Number of instances of each scenario that are not done yet.
    coming: BTreeMap<String, usize>,
    /// The answers of scenarios with an instance that is not done yet.
    known: BTreeMap<String, Vec<InstanceAnswer>>,
    /// First-round answers of the instances that are not done yet.
    first: BTreeMap<String, Vec<InstanceAnswer>>,
    spoken: bool,
}

impl Console {
    pub(super) fn new(options: &RunOptions) -> Console {
        let (json, verbose, quiet) = (options.asked.json, options.verbose, options.asked.quiet);
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let screen = if json {
            terminal::screen(&stderr)
        } else {
            terminal::screen(&stdout)
        };
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(None, target).with_finish(ProgressFinish::AndClear);
        if let Ok(style) =
            ProgressStyle::with_template("{spinner} {pos}/{len} {elapsed} {wide_msg}")
        {
            bar.set_style(style);
        }
        Console {
            json,
            verbose,
            quiet,
            screen,
            bar,
            asked: Workload::default(),
            coming: BTreeMap::new(),
            known: BTreeMap::new(),
            first: BTreeMap::new(),
            spoken: false,
        }
    }

    /// Sets the planned scenarios of the report. The instances of one scenario are printed together when the last one
    /// is done. `repeat` is the number of attempts, if the files do not decide it.
    pub(super) fn expect_scenarios(
        &mut self,
        report: &Report,
        scenarios: &[Scenario],
        repeat: Option<u32>,
    ) {
        for planned in &report.scenarios {
            *self.coming.entry(planned.scenario.clone()).or_default() += 1;
        }
        self.asked.questions = self.coming.len();
        self.asked.variants = report.scenarios.len();
        let most = scenarios.iter().map(|scenario| scenario.repeat).max();
        self.asked.attempts = repeat.or(most).unwrap_or(0);
    }

    /// Prints text for people. A closed pipe is not an error of the run.
    fn print_text(&self, text: &str) {
        self.bar.suspend(|| {
            let text = format!("{}\n", text.trim_end());
            let _ = if self.json {
                output::write(io::stderr(), text.as_bytes())
            } else {
                output::write(io::stdout(), text.as_bytes())
            };
        });
    }

    pub(super) fn print_warnings(&self, notes: &[String]) {
        for note in notes {
            terminal::print_message("cuda-pitfalls: ", &escape::terminal(note));
        }
    }

    pub(super) fn start(&self, scenarios: u64) {
        self.bar.set_length(scenarios);
    }

    pub(super) fn status(&self, activity: &str) {
        self.bar.set_message(escape::terminal(activity));
        self.bar.tick();
    }

    /// Shows the number of rounds that were made and of all rounds, and the remaining time: the expected time, until
    /// the time since the first round shows more.
    pub(super) fn show_rounds(
        &self,
        (made, all): (usize, usize),
        (spent_ns, expected): (u64, Duration),
        what: &str,
    ) {
        self.bar.set_length(all as u64);
        self.bar.set_position(made as u64);
        let left = if made == 0 {
            progress::about(expected)
        } else {
            progress::left(spent_ns, made, all)
        };
        self.status(&format!("{left} · {what}"));
    }

    pub(super) fn tick(&self) {
        self.bar.tick();
    }

    /// Prints the head of the run. `expected` is the expected duration of its questions; `None` if the report has no
    /// questions, or only the controls of a survey, which are answered.
    pub(super) fn print_header(&mut self, report: &Report, expected: Option<Duration>) {
        self.asked.expected = expected;
        // The head lists the questions that this machine can answer, rather than all selected ones.
        let planned = report
            .scenarios
            .iter()
            .filter(|scenario| scenario.plan.is_some());
        let planned: Vec<&str> = planned.map(|scenario| scenario.scenario.as_str()).collect();
        if expected.is_some() && !planned.is_empty() {
            self.asked.questions = planned.iter().collect::<HashSet<_>>().len();
            self.asked.variants = planned.len();
        }
        if self.quiet {
            return;
        }
        self.print_text(&answer::render_head(
            &report.view(),
            Some(&self.asked),
            self.screen,
        ));
    }

    /// Records that an instance is done. Its scenario is printed when all of its instances are.
    pub(super) fn note_answer(&mut self, done: &ScenarioReport) {
        let coming = self.coming.entry(done.scenario.clone()).or_insert(1);
        *coming = coming.saturating_sub(1);
        let is_last = *coming == 0;
        if self.verbose {
            return self.print_block(&full::scenario(&done.view(), self.screen));
        }
        self.known
            .entry(done.scenario.clone())
            .or_default()
            .push(InstanceAnswer::new(&done.view()));
        if is_last && let Some(answers) = self.known.remove(&done.scenario) {
            self.print_answers(&answers);
        }
    }

    /// Records the answer of an instance's first round. The line of its scenario is printed when all of its instances
    /// have had that round, and only on a terminal: a log gets each answer once, when it is final.
    pub(super) fn note_first_round(&mut self, first: InstanceAnswer) {
        if self.bar.is_hidden() {
            return;
        }
        let scenario = first.scenario.clone();
        let known = self.first.entry(scenario.clone()).or_default();
        known.push(first);
        let is_told = self.coming.get(&scenario) == Some(&known.len());
        // In one line, without its details and its workaround.
        let block = answer::question(known, usize::MAX);
        if is_told && let Some(line) = block.lines().next() {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            self.bar
                .suspend(|| output::print_line(&format!("preliminary: {line}")));
        }
    }

    fn print_answers(&mut self, answers: &[InstanceAnswer]) {
        let failures: Vec<InstanceAnswer>;
        let answers = if self.quiet {
            failures = answers
                .iter()
                .filter(|answer| answer.is_failure())
                .cloned()
                .collect();
            &failures
        } else {
            answers
        };
        self.print_block(&answer::question(answers, self.screen));
    }

    /// Prints a block, with an empty line between the head and the first.
    fn print_block(&mut self, block: &str) {
        if !block.is_empty() {
            let blank = if self.spoken { "" } else { "\n" };
            self.print_text(&format!("{blank}{block}"));
            self.spoken = true;
        }
    }

    /// Prints progress after a question of a survey, if there is a line and no progress bar.
    pub(super) fn step(&self, line: Option<String>) {
        if !self.quiet
            && let Some(line) = line
        {
            output::print_line(&format!("cuda-pitfalls: {line}"));
        }
        self.bar.inc(1);
    }

    /// Prints the end of a survey or of a preview: its tables or, for a program, its document. Returns the exit code of
    /// printing it.
    pub(super) fn finish_survey(
        &mut self,
        text: &str,
        document: serde_json::Result<String>,
    ) -> Exit {
        self.bar.finish_and_clear();
        self.print_text(text);
        terminal::printed_exit(match document {
            Ok(text) if self.json => write_document(&text),
            document => document.map(drop).map_err(io::Error::from),
        })
    }

    /// Prints the end of a run. Returns the exit code of printing it.
    pub(super) fn finish_run(&mut self, report: &Report, file: &Path, is_kept: bool) -> Exit {
        self.bar.finish_and_clear();
        let place = if is_kept {
            ReportPlace::At(file.to_string_lossy().into_owned())
        } else {
            ReportPlace::NotKept
        };
        // An interrupted run has instances that are not done; the known answers are printed nevertheless.
        for answers in std::mem::take(&mut self.known).values() {
            self.print_answers(answers);
        }
        let ending = RunEnding {
            place,
            names: true,
            exit: None,
        };
        let blank = if self.spoken { "\n" } else { "" };
        self.print_text(&format!(
            "{blank}{}",
            answer::render_ending(&report.view(), &ending, self.screen)
        ));
        if !self.json {
            return Exit::Ok;
        }
        // From disk, because the report may be larger than this process may be.
        terminal::printed_exit(copy_to_stdout(file))
    }
}

/// Prints a document on stdout.
fn write_document(text: &str) -> io::Result<()> {
    let text = escape::escape_printed(text).into_owned() + "\n";
    output::write(io::stdout(), text.as_bytes())
}

/// Copies a document to stdout unchanged, a piece at a time.
fn copy_to_stdout(path: &Path) -> io::Result<()> {
    let mut file = std::fs::File::open(path)?;
    let mut piece = vec![0; 1 << 16];
    let mut held = Vec::new();
    loop {
        let read = file.read(&mut piece)?;
        held.extend_from_slice(piece.get(..read).unwrap_or_default());
        // A character may lie across two pieces.
        let whole = match std::str::from_utf8(&held) {
            Err(error) if error.error_len().is_none() && read > 0 => error.valid_up_to(),
            _ => held.len(),
        };
        let text = String::from_utf8_lossy(held.get(..whole).unwrap_or_default());
        output::write(io::stdout(), escape::escape_printed(&text).as_bytes())?;
        held.drain(..whole);
        if read == 0 {
            return Ok(());
        }
    }
}
