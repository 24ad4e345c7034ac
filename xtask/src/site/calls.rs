//! The calls that were asked: a page for each library, with a place for each call.

use std::fmt::Write as _;

use cuda_pitfalls::explain::Explainer;
use cuda_pitfalls::summary::{CallFacts, CallRun};
use cuda_pitfalls::text::units;

use super::lines::{answers, mask};
use super::{Draft, Sources, write};

/// What no library is: loads of one, and other actions of the worker.
const HARNESS: &str = "harness";

/// The index, and a page for each library.
pub(super) fn pages(sources: &Sources, explainer: &Explainer<'_>) -> Vec<Draft> {
    let mut libraries: Vec<(&str, Vec<&CallFacts>)> = Vec::new();
    for facts in &sources.summary.calls {
        match libraries.iter_mut().find(|(name, _)| *name == facts.library) {
            Some((_, calls)) => calls.push(facts),
            None => libraries.push((&facts.library, vec![facts])),
        }
    }
    if libraries.is_empty() {
        return Vec::new();
    }
    let rests: Vec<String> = sources.evidence.keys().filter(|name| name.starts_with("survey-calls")).cloned().collect();
    let mut index = "# Calls\n\nEach call was made as the first of a process. Its page says whether it reads \
                     `CUDA_VISIBLE_DEVICES`, whether it makes a context and takes memory, and which questions it \
                     answers. [The survey](/surveys/calls.md) says how they were asked.\n"
        .to_owned();
    let mut pages = Vec::new();
    for (library, calls) in libraries {
        let words = if library == HARNESS { "Loading a library" } else { library };
        let path = format!("calls/{}.md", write::slug(library));
        let anchors = write::slugs(calls.iter().map(|facts| facts.call.as_str()));
        let mut text = format!("# {}\n", write::plain(words));
        let _ = writeln!(index, "\n## {} {{#{}}}\n", write::plain(words), write::slug(library));
        let mut links = Vec::new();
        for (facts, anchor) in calls.iter().zip(anchors) {
            links.push(format!("[{}](/{path}#{anchor})", write::plain(&facts.call)));
            call(&mut text, facts, &anchor);
            // The ways to make one call have the same questions.
            if facts.call == facts.function() {
                answers(&mut text, facts.function(), explainer);
            }
        }
        let _ = writeln!(index, "{}", links.join(" · "));
        pages.push(Draft {
            path,
            title: words.into(),
            text,
            rests: rests.iter().cloned().collect(),
            ..Draft::default()
        });
    }
    let rests = rests.into_iter().collect();
    let index = Draft { path: "calls/index.md".into(), title: "Calls".into(), text: index, rests, ..Draft::default() };
    [vec![index], pages].concat()
}

fn call(out: &mut String, facts: &CallFacts, anchor: &str) {
    write::heading(out, 2, &facts.call, anchor);
    out.push_str("| version | reads the mask | makes a context | memory of each GPU | returned |\n");
    out.push_str("| --- | --- | --- | --- | --- |\n");
    for run in &facts.runs {
        let version = if run.versions.is_empty() { "–" } else { &run.versions };
        let status = run.status.as_ref().map(|status| write::code(status)).unwrap_or_default();
        let reads = mask(run.reads_mask);
        let _ =
            writeln!(out, "| {} | {reads} | {} | {} | {status} |", write::plain(version), context(run), memory(run));
    }
    let _ = writeln!(out, "\nMeasured on {}.\n", write::plain(&facts.on));
}

fn context(run: &CallRun) -> &'static str {
    match run.makes_context {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not known",
    }
}

fn memory(run: &CallRun) -> String {
    let used = run.used_bytes.iter().flatten().map(|bytes| units::delta(*bytes));
    used.collect::<Vec<_>>().join(", ")
}
