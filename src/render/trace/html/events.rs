//! The events of a trace, each with its stack.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::{is_told, more, source};
use crate::trace::cards::FindingCards;
use crate::trace::entry::{Entries, TraceEntry, late_write};
use crate::trace::{Seen, place, text};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::escape::html;
use cuda_pitfalls_trace::{FrameOwner, TraceEvent};

/// Stacks are left out once the page has this many bytes.
const STACKS_BYTES: usize = 900_000;
/// Entries are left out once the page has this many bytes.
const ENTRIES_BYTES: usize = 1_300_000;
/// The most frames of a stack.
const MOST_FRAMES: usize = 80;
/// The most links from an event to the cards about it.
const MOST_LINKS: usize = 5;

pub(super) fn draw<'a>(
    out: &mut String,
    seen: &Seen<'a>,
    found: &FindingCards<'a>,
    made: &Entries,
    listed: &HashSet<usize>,
) {
    if made.all.is_empty() && made.summed.is_empty() {
        return;
    }
    out.push_str("<h2>Events</h2>\n");
    let mut left = 0;
    for (place, entry) in made.all.iter().enumerate() {
        if listed.contains(&place) && out.len() < ENTRIES_BYTES {
            event(out, seen, found, entry, place);
        } else {
            left += 1;
        }
    }
    more(out, left, 0, "events");
    if let Some(sorts) = made.not_listed() {
        let _ = writeln!(out, "<p class=\"dim\">Not listed: {}.</p>", html(&sorts));
    }
}

fn event<'a>(out: &mut String, seen: &Seen<'a>, found: &FindingCards<'a>, entry: &TraceEntry, place: usize) {
    let Some(event) = seen.trace.events.get(entry.first) else { return };
    let who = match entry.pids.as_slice() {
        [pid] => place::who(seen.trace, *pid),
        several => format!("{} processes", several.len()),
    };
    let class = if is_told(entry) { " told" } else { "" };
    let chain: Vec<String> = place::chain(event).iter().map(|part| html(part)).collect();
    let _ = writeln!(
        out,
        "<article class=\"event{class}\" id=\"e{place}\">\n<p><span class=\"dot {}\"></span><span class=\"title\">{}</span> \
         <span class=\"when\">{} · {who}</span></p>\n<p class=\"chain\">{}</p>",
        entry.kind.class(),
        html(&entry.title()),
        place::since_start(seen.trace, event.t_ns),
        chain.join(" → "),
    );
    out.push_str(&source(event.stack.source.as_deref()));
    for detail in &entry.details {
        let _ = writeln!(out, "<p>{}</p>", html(detail));
    }
    // A card has said what is wrong here.
    let mut cards: Vec<usize> = Vec::new();
    for finding in entry.findings.iter().filter_map(|index| seen.findings.get(*index)) {
        let card = found.number(finding);
        if !cards.contains(&card) && cards.len() < MOST_LINKS {
            cards.push(card);
            let _ = writeln!(out, "<p class=\"warning\"><a href=\"#f{card}\">{}</a></p>", html(&finding.title));
        }
    }
    for late in entry.late.iter().take(10) {
        if !found.has_event(late.event) {
            let _ = writeln!(out, "<p class=\"warning\">{}</p>", html(&late_write(seen.trace, late)));
        }
        if let Some(event) = seen.trace.events.get(late.event) {
            stack(out, event, "Stack of this write");
        }
    }
    more(out, entry.late.len(), 10, "late writes");
    for violation in entry.violations.iter().filter_map(|index| seen.violations.get(*index)).take(5) {
        let _ =
            writeln!(out, "<p class=\"failed\">{}</p>", html(&text::forbidden(&violation.forbidden, &violation.says)));
    }
    stack(out, event, "Stack");
    out.push_str("</article>\n");
}

/// A whole stack, folded.
fn stack(out: &mut String, event: &TraceEvent, name: &str) {
    let stack = &event.stack;
    if let Some(missing) = &stack.missing {
        let _ = writeln!(out, "<p class=\"dim\">{name}: {}</p>", html(&place::short(missing)));
    }
    if stack.frames.is_empty() {
        return;
    }
    let many = stack.frames.len();
    if out.len() > STACKS_BYTES {
        let _ = writeln!(out, "<p class=\"dim\">{name}: {}, in the document</p>", counted(many as u64, "frame"));
        return;
    }
    let _ = writeln!(
        out,
        "<details><summary>{name}, {}, innermost first</summary>\n<ol class=\"frames\">",
        counted(many as u64, "frame")
    );
    for frame in stack.frames.iter().take(MOST_FRAMES) {
        let class = if frame.owner == FrameOwner::Program { " class=\"own\"" } else { "" };
        let (function, at) = place::frame(frame);
        let _ =
            writeln!(out, "<li{class}><code>{}</code> <span class=\"dim\">{}</span></li>", html(&function), html(&at));
    }
    out.push_str("</ol>\n");
    more(out, many, MOST_FRAMES, "frames");
    out.push_str("</details>\n");
}
