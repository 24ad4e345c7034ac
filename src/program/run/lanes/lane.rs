//! The process of one lane: it asks its questions on its GPUs, and says each answer on stdout.

use std::borrow::Cow;
use std::path::Path;

use crate::run::calibrate::Calibrator;
use crate::run::console::Console;
use crate::run::rounds::Rounds;
use crate::run::session::Session;
use crate::run::{Failure, RunOptions, blank, ending};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::catalogue::{self, Selection};
use cuda_pitfalls_core::report::{Calibrated, LaneMessage, ScenarioReport};
use cuda_pitfalls_instrument::output;
use cuda_pitfalls_instrument::supervisor::Interrupt;

/// Asks the questions of a lane: those of [`RunOptions::only`], on the GPUs of [`RunOptions::gpus`]. The run that
/// started it holds the locks and writes the report.
pub fn lane(options: &RunOptions, program: &Path, interrupt: Interrupt) -> Exit {
    let mut console = Console::new(options);
    ending::catching(|| ask(options, program, interrupt, &mut console).map(|()| Exit::Ok))
        .unwrap_or_else(|failure| ending::fail(&mut console, &failure))
}

fn ask(options: &RunOptions, program: &Path, interrupt: Interrupt, console: &mut Console) -> Result<(), Failure> {
    let selection = Selection::of(&options.selectors, &options.exclude, catalogue::Unselected::Essential)
        .map_err(|error| Failure::Usage(error.render(false)))?
        .only(&options.only);
    let mut session = Session::set(options, program, interrupt)?;
    session.watch_own()?;
    session.use_python(options.python.as_deref(), &selection.scenarios, program)?;
    let mut report = blank(options, &session);
    let mut calibrator = Calibrator::new(&mut session, &mut report);
    calibrator.calibrate(&mut session, &mut report);
    let mut rounds = Rounds::plan(&mut session, &mut report, console, None, options, &selection)?;
    drop(selection);
    rounds.calibrator = Some(calibrator);
    rounds.voice = Some(Voice::default());
    rounds.ask()?;
    say(&LaneMessage::Ended { libraries: session.machine.libraries, host_unsafe: report.run.host_unsafe });
    Ok(())
}

/// How a lane says its answers.
#[derive(Debug, Default)]
pub(in crate::run) struct Voice {
    /// How many calibrations were said.
    calibrated: usize,
}

impl Voice {
    /// Says an answer, and the calibrations since the last one. What the machine cannot answer is not said: the run
    /// finds that out by itself.
    pub(in crate::run) fn answered(&mut self, done: &ScenarioReport, runtime: usize, calibrations: &[Calibrated]) {
        if done.plan.is_none() {
            return;
        }
        if let Some(new) = calibrations.get(self.calibrated..).filter(|new| !new.is_empty()) {
            say(&LaneMessage::Calibrated(Cow::Borrowed(new)));
            self.calibrated = calibrations.len();
        }
        say(&LaneMessage::Answered { runtime, answer: Cow::Borrowed(done) });
    }
}

/// Says one line. If nobody hears it any more, this process is about to be killed.
fn say(said: &LaneMessage) {
    if let Ok(mut line) = serde_json::to_vec(said) {
        line.push(b'\n');
        let _ = output::write(std::io::stdout(), &line);
    }
}
