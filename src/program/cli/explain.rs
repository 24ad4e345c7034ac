//! `explain`: the answer to a query, from the built-in knowledge.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use clap::Args;

use super::doctor::examine_here;
use super::output::{Outcome, ended, fail, print_document, print_text};
use super::trace::{end_as, not_started};
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::explain::{Certainty, Explainer, Explanation, Query};
use cuda_pitfalls_core::input;
use cuda_pitfalls_instrument::output;
use cuda_pitfalls_render::explain::{self as page, ShownCauses};
use cuda_pitfalls_trace::tracer::{self, Ended, TracerError};

/// Maximum size read from the end of a log: an error is near its end.
const MOST_BYTES: usize = 1 << 20;

pub(super) const ENDS: &str = "\
Exits 0 if something was found, 4 if the words are not about CUDA initialization, 2 if there is nothing to look up.

`explain -` copies its input to stdout as it arrives and prints the explanation on stderr at the end. Input typed at a \
terminal is not copied, and --json prints only its document; both print the explanation on stdout.

`explain -- COMMAND…` runs the command with your input, output and signals, explains its stderr on stderr, and keeps \
its exit code or signal; 126 or 127 if it cannot be started. If the command failed to initialize CUDA, it also runs the \
checks of `doctor` and names the cause on this machine.

Examples:
  cuda-pitfalls explain torch.cuda.is_available mask
  cuda-pitfalls explain 700
  cuda-pitfalls explain stray-memory-gpu0
  cuda-pitfalls explain cudaGetErrorString
  cuda-pitfalls explain -- python train.py
  python train.py 2>&1 | cuda-pitfalls explain -";

#[derive(Args, Debug)]
pub(super) struct ExplainArguments {
    /// A symptom, call, error name or number, variable, source line or message; `-` reads a
    /// traceback or log from stdin and passes it through.
    #[arg(required_unless_present = "command")]
    words: Vec<String>,
    /// Command and arguments. Explains the command's stderr after it exits.
    #[arg(last = true, conflicts_with_all = ["words", "json"], value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Show all possible causes of an error, not only the first three.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run_explain(arguments: &ExplainArguments) -> Outcome {
    let ExplainArguments {
        words,
        command,
        all,
        json,
    } = arguments;
    let heard = match words.as_slice() {
        [] => run_program(command).map_err(|error| not_started(&error, *json))?,
        [only] if only == input::STDIN => read_pasted(*json).map_err(|error| {
            fail(
                format!("cannot read standard input: {error}"),
                Exit::Usage,
                *json,
            )
        })?,
        words => Heard {
            is_blank: words.iter().all(|word| word.trim().is_empty()),
            query: Query::parse(&words.join(" ")),
            passed: None,
            ran: None,
        },
    };
    if heard.is_blank && heard.ran.is_none() {
        let why = "there is nothing to look up: the words are empty";
        return Err(fail(why.to_string(), Exit::Usage, *json));
    }
    let found = Explainer::embedded().explain(heard.query);
    let shown = match heard.passed {
        _ if *json => print_document(serde_json::to_string_pretty(&page::document(&found))),
        None => print_text(&page::text(
            &found,
            ShownCauses {
                all: *all,
                here: None,
            },
            terminal::screen(&io::stdout()),
        )),
        Some(passed) => {
            answer_on_stderr(&found, heard.ran, *all);
            passed
        }
    };
    if let Some(ran) = heard.ran {
        end_as(ran)
    }
    let exit = if found.certainty == Certainty::Nothing {
        Exit::NothingMeasured
    } else {
        Exit::Ok
    };
    Ok(ended(exit.worst(shown)))
}

/// Prints the answer to the text that was passed through. If the program failed to start CUDA, the answer includes the
/// cause on this machine.
fn answer_on_stderr(found: &Explanation<'_>, ran: Option<Ended>, all: bool) {
    let has_failed = ran.is_some_and(|ran| ran.code != Some(0));
    let is_of_start = found.first_advice().is_some_and(|advice| advice.doctor);
    let examined = if has_failed && is_of_start {
        examine_here()
    } else {
        None
    };
    let here = examined
        .as_ref()
        .map(|(examination, diagnosed)| (examination, diagnosed));
    let screen = terminal::screen(&io::stderr());
    let text = page::text(found, ShownCauses { all, here }, screen);
    let about = if ran.is_some() {
        "what it wrote on stderr"
    } else {
        "the end of this input"
    };
    // A program that succeeded may print anything on stderr, and one that prints nothing gets no answer.
    let is_found = found.certainty != Certainty::Nothing;
    let is_told =
        ran.is_none_or(|ran| is_found || ran.code != Some(0) && !found.query.words.is_empty());
    if is_told {
        let answer = text.trim_end();
        let _ = writeln!(io::stderr(), "\ncuda-pitfalls: about {about}\n\n{answer}");
    }
}

/// The text to explain, and where it came from.
struct Heard {
    /// `true` if the text contains no words.
    is_blank: bool,
    query: Query,
    /// The exit code of passing it through; `None` if it was not passed.
    passed: Option<Exit>,
    /// Exit of the command, if one was run.
    ran: Option<Ended>,
}

/// Runs a command, passes its stderr through, and returns the text to explain.
fn run_program(command: &[OsString]) -> Result<Heard, TracerError> {
    let (ended, kept) = tracer::pass_through(command, MOST_BYTES)?;
    let query = Query::parse_pasted(&String::from_utf8_lossy(&kept));
    Ok(Heard {
        is_blank: false,
        query,
        passed: Some(Exit::Ok),
        ran: Some(ended),
    })
}

/// Reads standard input to its end even if stdout is closed, so that the program that writes it is not killed by
/// SIGPIPE. At a terminal, first prints a line that asks for a message.
fn read_pasted(json: bool) -> io::Result<Heard> {
    let stdin = io::stdin();
    let is_typed = stdin.is_terminal();
    if is_typed {
        let _ = writeln!(
            io::stderr(),
            "cuda-pitfalls: paste the message or the traceback, then press Ctrl-D"
        );
    }
    let is_passed = !is_typed && !json;
    let (mut bytes, mut written) = (0, Ok(()));
    let kept = input::read_tail(stdin.lock(), MOST_BYTES, |piece| {
        bytes += piece.len();
        if is_passed && written.is_ok() {
            written = output::write(io::stdout(), piece);
        }
    })?;
    let text = String::from_utf8_lossy(&kept);
    let whole_lines = match text.split_once('\n') {
        Some((_, rest)) if bytes > MOST_BYTES => rest,
        _ => &text,
    };
    let passed = match written {
        // A reader that has gone away (`| head`) needs no message.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(
                io::stderr(),
                "cuda-pitfalls: cannot write to stdout: {error}"
            );
            Exit::NotDurable
        }
        _ => Exit::Ok,
    };
    Ok(Heard {
        is_blank: whole_lines.trim().is_empty(),
        query: Query::parse_pasted(whole_lines),
        passed: is_passed.then_some(passed),
        ran: None,
    })
}
