//! `explain`: the answer to words, from what comes with the program.

use std::io::{IsTerminal, Read, Write};

use clap::Args;

use super::output::{fail, is_styled, named, print};
use crate::exit::Exit;
use crate::explain::{Explainer, Query};
use crate::render::explain as page;
use crate::{catalogue, summary, terminal};

/// What stands for standard input.
const STDIN: &str = "-";
/// A log may be long, and what matters is near one of its ends: this much of it is read.
const MOST_BYTES: u64 = 4 << 20;

/// How it ends, for help.
pub(super) const ENDS: &str = "\
Exits 0 if something was found, 4 if nothing was, 2 if there is nothing to look up.

Examples:
  cuda-pitfalls explain torch.cuda.is_available mask
  cuda-pitfalls explain 700
  cuda-pitfalls explain cudaGetErrorString
  python train.py 2>&1 | cuda-pitfalls explain -";

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// A symptom, a call, an error by name or number, an environment variable, a line of a framework, a message;
    /// `-` reads a traceback or a log from standard input.
    #[arg(required = true)]
    words: Vec<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn explain(arguments: &Arguments) -> Exit {
    let Arguments { words, json } = arguments;
    let query = match words.as_slice() {
        [only] if only == STDIN => match pasted() {
            Ok(text) => Query::pasted(&text),
            Err(error) => return fail(&format!("cannot read standard input: {error}"), Exit::Usage, *json),
        },
        words => Query::of(&words.join(" ")),
    };
    let scenarios = match catalogue::select(&[]) {
        Ok(scenarios) => scenarios,
        Err(error) => return fail(&error.render(is_styled()), Exit::Internal, *json),
    };
    let summary = summary::embedded();
    let found = Explainer::new(&scenarios, &summary).explain(query);
    let shown = if *json {
        print(&format!("{:#}\n", page::document(&found)))
    } else {
        print(&page::text(&found, terminal::width(&std::io::stdout())))
    };
    match shown {
        Exit::Ok if found.answers.is_empty() && found.facts.is_empty() => named(Exit::NothingMeasured),
        shown => shown,
    }
}

/// What was pasted. Whoever typed `-` without meaning to is told what is waited for.
fn pasted() -> std::io::Result<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        let _ = writeln!(std::io::stderr(), "cuda-pitfalls: paste the message or the traceback, then press Ctrl-D");
    }
    let mut bytes = Vec::new();
    stdin.lock().take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
