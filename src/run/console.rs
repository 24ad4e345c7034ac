//! What a person sees while a run goes on: blocks on stdout, progress on a terminal's stderr.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Exit;
use crate::output;
use crate::render::escape;
use crate::render::text::{self, Style};
use crate::report::{Report, ScenarioReport};

/// Narrower terminals than this wrap.
const WIDTH: usize = 100;

/// Where a run speaks. With `--json`, stdout is for one document and people read stderr.
pub(super) struct Console {
    json: bool,
    style: Style,
    bar: ProgressBar,
    finished: bool,
}

impl Console {
    pub(super) fn new(json: bool) -> Console {
        let terminal = if json { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        Console { json, style: if colour { Style::Colour } else { Style::Plain }, bar, finished: false }
    }

    /// Prints for people. A closed pipe is not an error of the run.
    fn say(&self, text: &str) {
        self.bar.suspend(|| {
            let text = format!("{}\n", text.trim_end());
            let _ = if self.json {
                output::write(std::io::stderr(), text.as_bytes())
            } else {
                output::write(std::io::stdout(), text.as_bytes())
            };
        });
    }

    pub(super) fn warn(&self, notes: &[String]) {
        for note in notes {
            let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {}", escape::terminal(note));
        }
    }

    pub(super) fn start(&self, scenarios: u64) {
        self.bar.set_length(scenarios);
    }

    pub(super) fn status(&self, what: &str) {
        self.bar.set_message(escape::terminal(what));
        self.bar.tick();
    }

    pub(super) fn tick(&self) {
        self.bar.tick();
    }

    pub(super) fn header(&self, report: &Report) {
        self.say(&text::header(&report.run, &report.machine, report.provenance));
    }

    pub(super) fn scenario(&self, done: &ScenarioReport) {
        self.say(&text::scenario(done, WIDTH, self.style));
        self.bar.inc(1);
    }

    /// One question of a survey is done; a line for those who see no bar, if there is one.
    pub(super) fn step(&self, line: Option<String>) {
        if let Some(line) = line {
            let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {line}");
        }
        self.bar.inc(1);
    }

    /// The end of a survey: its tables, or its document for a program.
    pub(super) fn surveyed(&mut self, text: &str, document: &str, exit: Exit) -> Exit {
        self.bar.finish_and_clear();
        self.say(text);
        self.hand_over(document, exit)
    }

    /// A run that was not started: what it would do, or its document for a program.
    pub(super) fn previewed(&mut self, text: &str, document: &str, exit: Exit) -> Exit {
        self.bar.finish_and_clear();
        self.say(text);
        self.hand_over(document, exit)
    }

    /// The end of a run. A document that was asked for and could not be handed over is not durable;
    /// a reader that went away is its own affair.
    pub(super) fn finish(&mut self, report: &Report, path: &std::path::Path, exit: Exit) -> Exit {
        self.bar.finish_and_clear();
        self.say(&text::totals(report, &path.to_string_lossy(), (exit.code(), exit.name())));
        self.hand_over(&serde_json::to_string(report).unwrap_or_default(), exit)
    }

    fn hand_over(&mut self, document: &str, exit: Exit) -> Exit {
        self.finished = true;
        let mut exit = exit;
        if self.json {
            match output::write(std::io::stdout(), format!("{document}\n").as_bytes()) {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    let _ = writeln!(std::io::stderr(), "cuda-pitfalls: cannot write to stdout: {error}");
                    exit = exit.worst(Exit::NotDurable);
                }
                _ => {}
            }
        }
        self.name(exit);
        exit
    }

    /// A run that could not begin or not end: with `--json` there is still one document.
    pub(super) fn failed(&mut self, why: &str, exit: Exit) {
        self.bar.finish_and_clear();
        let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {}", why.trim_end());
        if self.json && !self.finished {
            let document = serde_json::json!({
                "error": why,
                "exit": { "code": exit.code(), "name": exit.name() },
            });
            let _ = writeln!(std::io::stdout(), "{document}");
        }
        self.name(exit);
    }

    fn name(&self, exit: Exit) {
        let line = format!("cuda-pitfalls: exit {} ({})\n", exit.code(), exit.name());
        let _ = output::write(std::io::stderr(), line.as_bytes());
    }
}
