//! The messages of `sim` before and after a program.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls_calls::status::SIM_NOT_MODELLED;
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_trace::Trace;

use super::entry::line_words;
use super::place;
use crate::block::Block;
use crate::writer::terminal::{Screen, write};

/// Returns the message before the program starts.
pub fn begin_message(machine: &str, screen: Screen) -> String {
    let says = "no GPU that this program sees is real, and no kernel runs.";
    let says = format!("SIMULATED machine {machine}: {says}");
    write(&[Block::heading(1, says)], screen)
}

/// Returns the functions that a program called and that are not modeled, each with the user's own line of the first
/// call, if known. `told` are those that the machine recorded itself.
pub fn unmodeled_functions(trace: Option<&Trace>, told: &BTreeSet<String>) -> Vec<String> {
    let mut found: BTreeMap<String, Option<String>> =
        told.iter().map(|name| (name.clone(), None)).collect();
    for (trace, event) in trace
        .iter()
        .flat_map(|trace| trace.events.iter().map(move |event| (trace, event)))
    {
        if event.status == Some(SIM_NOT_MODELLED) {
            let at = place::place(trace, &event.stack).map(|place| line_words(&place));
            let known = found.entry(event.call.clone()).or_default();
            *known = known.take().or(at);
        }
    }
    let found = found.into_iter().map(|(name, at)| match at {
        Some(at) => format!("{} ({})", escape::terminal(&name), escape::terminal(&at)),
        None => escape::terminal(&name),
    });
    found.collect()
}

/// Returns the message after the program has ended. `absent` are the functions that the program looked up and that do
/// not exist.
pub fn end(machine: &str, unmodelled: &[String], absent: &[String], screen: Screen) -> String {
    let says = format!("That was the SIMULATED machine {machine}.");
    let mut blocks = vec![Block::heading(1, says)];
    if !unmodelled.is_empty() {
        let says = format!(
            "Not modeled, so each returned {SIM_NOT_MODELLED}: {}",
            unmodelled.join(", ")
        );
        blocks.push(Block::paragraph(says));
    }
    if !absent.is_empty() {
        let says = format!("Not in this NVML: {}", absent.join(", "));
        blocks.push(Block::paragraph(says));
    }
    write(&blocks, screen)
}
