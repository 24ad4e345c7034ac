//! The picture: memory of each GPU over time, and a lane per process with a mark for each event, all on one axis.
//!
//! Lanes and marks are elements whose offset is in percent, not a drawing that is scaled: their text
//! and their size stay readable on a phone.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use super::entry::{EntryKind, TraceEntry};
use super::place;
use crate::block::Block;
use crate::html::page::paragraph;
use crate::svg::{Axis, part_ratio, steps};
use crate::writer;
use cuda_pitfalls_core::text::counts::{counted, listed};
use cuda_pitfalls_core::text::escape::{escape_html, shorten_text};
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::{EventKind, Trace};

const MOST_LANES: usize = 48;
const OPEN_LANES: usize = 12;
const MOST_GPUS: usize = 16;
/// Marks nearer than this many percent of the axis are one.
const NEAR: f64 = 1.6;
/// The same where there are many lanes.
const NEAR_OF_MANY: f64 = 4.0;
/// What a character of a label takes of a track, in percent: on a phone, and on a page as people read it.
const NARROW_CHARACTER: f64 = 2.1;
const WIDE_CHARACTER: f64 = 1.0;
/// Pixel columns of a curve, and its height.
const COLUMNS: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

/// The picture; nothing where there is nothing to draw.
pub(super) fn draw_timeline(
    trace: &Trace,
    entries: &[TraceEntry],
    listed: &HashSet<usize>,
) -> String {
    if entries.is_empty() && trace.memory.is_empty() {
        return String::new();
    }
    let from = trace.start.t_ns;
    let times = trace
        .events
        .iter()
        .map(|event| event.t_ns)
        .chain(trace.memory.iter().map(|memory| memory.t_ns));
    let to = times
        .chain(trace.end.iter().map(|end| end.t_ns))
        .max()
        .unwrap_or(from)
        .max(from);
    let stamps = trace
        .events
        .iter()
        .map(|event| event.t_ns)
        .chain(trace.memory.iter().map(|memory| memory.t_ns));
    let axis = Axis::new((from, to), stamps);
    let mut out = "<h2>Timeline</h2>\n<div class=\"timeline\">\n".to_owned();
    let late = entries
        .iter()
        .filter(|entry| !entry.late.is_empty())
        .map(|_| EntryKind::Variable);
    let kinds: BTreeSet<EntryKind> = entries.iter().map(|entry| entry.kind).chain(late).collect();
    let legend: String = kinds
        .iter()
        .map(|kind| {
            format!(
                "<span class=\"name\"><span class=\"dot {}\"></span>{}</span> ",
                kind.class(),
                kind.name()
            )
        })
        .collect();
    let _ = writeln!(out, "<p class=\"legend\">{legend}</p>");
    if let Some(left_out) = axis.left_out() {
        out += &paragraph(
            "dim",
            &format!("Hatched and left out, because nothing is listed there: {left_out}."),
        );
    }
    memory(&mut out, trace, (from, to), &axis);
    draw_lanes(&mut out, trace, entries, listed, &axis);
    let end = place::since_start(trace, to);
    let _ = writeln!(
        out,
        "<div class=\"axis\"><span>0 s</span><span>{end}</span></div>\n</div>"
    );
    out
}

/// The bands of what is left out of the axis, on one track.
fn draw_cuts(axis: &Axis) -> String {
    let bands = axis.cuts.iter().map(|(start, end)| {
        let (at, to) = (
            100.0 * axis.axis_position(*start),
            100.0 * axis.axis_position(*end),
        );
        format!(
            "<span class=\"cut\" style=\"left:{at:.2}%;width:{:.2}%\"></span>",
            to - at
        )
    });
    bands.collect()
}

/// The curve of each GPU, all with the same scale and colour: a colour is a kind of event.
fn memory(out: &mut String, trace: &Trace, span: (u64, u64), axis: &Axis) {
    let mut curves: BTreeMap<usize, Vec<(u64, i64)>> = BTreeMap::new();
    for memory in &trace.memory {
        let before = trace.start.used_bytes.get(memory.index).copied().flatten();
        let bytes = i128::from(memory.used_bytes) - i128::from(before.unwrap_or(0));
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let curve = curves
            .entry(memory.index)
            .or_insert_with(|| before.map(|_| (span.0, 0)).into_iter().collect());
        curve.push((memory.t_ns, bytes));
    }
    if curves.is_empty() {
        out.push_str("<p class=\"dim\">Memory of GPUs was not read, or did not change.</p>\n");
        return;
    }
    let values = curves
        .values()
        .take(MOST_GPUS)
        .flatten()
        .map(|(_, bytes)| *bytes);
    let (low, high) = values.fold((0, 0), |(low, high), bytes| {
        (low.min(bytes), high.max(bytes))
    });
    let x = |t: u64| COLUMNS * axis.axis_position(t);
    let y = |bytes: i64| {
        HEIGHT - HEIGHT * part_ratio(bytes as f64 - low as f64, high as f64 - low as f64)
    };
    *out += &paragraph(
        "dim",
        &format!(
            "Memory of every GPU is on one scale, up to {}.",
            units::format_delta(high)
        ),
    );
    for (index, points) in curves.iter_mut().take(MOST_GPUS) {
        points.sort_by_key(|(t, _)| *t);
        let path = steps(points, span, x, y);
        let first = points.first().map_or(0.0, |(t, _)| x(*t).round());
        let base = y(0);
        let most = points
            .iter()
            .map(|(_, bytes)| *bytes)
            .max()
            .unwrap_or(0)
            .max(0);
        let name = trace
            .start
            .gpus
            .get(*index)
            .and_then(|gpu| gpu.name.as_deref())
            .unwrap_or("unknown");
        let is_known = trace
            .start
            .used_bytes
            .get(*index)
            .copied()
            .flatten()
            .is_some();
        let peak = if is_known {
            units::format_delta(most)
        } else {
            units::bytes(most.unsigned_abs())
        };
        let last = points.last().map_or(0, |(_, bytes)| *bytes);
        let title = format!(
            "GPU {index}, {name}: at most {peak}, at the end {}",
            units::format_delta(last)
        );
        let _ = writeln!(
            out,
            "<div class=\"lane\"><div class=\"who\"><strong>GPU {index}</strong> <span class=\"dim\">{}, at most {peak}</span></div>\
             <div class=\"track memory\">{}<svg viewBox=\"0 0 {COLUMNS} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{2}\"><title>{2}</title><path class=\"area\" d=\"{path}V{base:.1}H{first}Z\"/>\
             <path d=\"{path}\"/></svg></div></div>",
            escape_html(&place::shorten_place(name)),
            draw_cuts(axis),
            escape_html(&place::shorten_place(&title)),
        );
    }
    *out += &writer::html::write(Block::more(curves.len(), MOST_GPUS, "GPUs").as_slice());
    let still = (0..trace.start.gpus.len()).filter(|index| !curves.contains_key(index));
    let still: Vec<String> = still
        .take(MOST_GPUS)
        .map(|index| index.to_string())
        .collect();
    if !still.is_empty() {
        *out += &paragraph(
            "dim",
            &format!("Memory did not change on GPU {}.", still.join(", ")),
        );
    }
}

/// Events of one process that stand so close together that they are one mark.
struct Mark {
    at: f64,
    /// Of several events the most important kind comes first, and gives the colour.
    kinds: BTreeSet<EntryKind>,
    /// The GPU of the first event.
    gpu: Option<String>,
    count: usize,
    is_told: bool,
    /// An entry that the page has.
    link: Option<usize>,
    title: String,
}

fn draw_lanes(
    out: &mut String,
    trace: &Trace,
    entries: &[TraceEntry],
    listed: &HashSet<usize>,
    axis: &Axis,
) {
    let mut marked = marked_events(trace, entries);
    let mut names: HashMap<u32, (u64, String)> = HashMap::new();
    for process in &trace.processes {
        names
            .entry(process.pid)
            .or_insert_with(|| (process.t_ns, process.name()));
    }
    let mut pids: Vec<u32> = trace.processes.iter().map(|process| process.pid).collect();
    pids.extend(marked.keys());
    let mut known = HashSet::new();
    pids.retain(|pid| known.insert(*pid));
    let (busy, idle): (Vec<u32>, Vec<u32>) =
        pids.into_iter().partition(|pid| marked.contains_key(pid));
    let near = if busy.len() > 12 { NEAR_OF_MANY } else { NEAR };
    for (number, pid) in busy.iter().take(MOST_LANES).enumerate() {
        if number == OPEN_LANES {
            let more = busy.len().min(MOST_LANES) - OPEN_LANES;
            let _ = writeln!(
                out,
                "<details><summary>{more} more processes with events</summary>"
            );
        }
        let events = marked.entry(*pid).or_default();
        events.sort_unstable();
        let marks = lane_marks(trace, entries, listed, events, near, axis);
        let began = names
            .get(pid)
            .map_or(0.0, |(t, _)| 100.0 * axis.axis_position(*t));
        let last = events
            .last()
            .map_or(began, |(t, ..)| 100.0 * axis.axis_position(*t));
        let name = names.get(pid).map_or("", |(_, name)| name.as_str());
        let _ = writeln!(
            out,
            "<div class=\"lane\"><div class=\"who\"><strong>pid {pid}</strong> <span class=\"dim\">{}, {}</span></div>\
             <div class=\"track\">{}<span class=\"life\" style=\"left:{began:.2}%;width:{:.2}%\"></span>",
            escape_html(&place::shorten_place(name)),
            counted(events.len() as u64, "event"),
            draw_cuts(axis),
            (last - began).max(0.0)
        );
        for (index, mark) in marks.iter().enumerate() {
            draw_mark(
                out,
                mark,
                marks.get(index + 1).map_or(100.0, |next| next.at),
            );
        }
        out.push_str("</div></div>\n");
    }
    if busy.len() > OPEN_LANES {
        out.push_str("</details>\n");
    }
    *out += &writer::html::write(
        Block::more(busy.len(), MOST_LANES, "processes with events").as_slice(),
    );
    if !idle.is_empty() {
        let processes = if idle.len() == 1 {
            "One more process".to_owned()
        } else {
            format!("{} more processes", idle.len())
        };
        *out += &paragraph(
            "dim",
            &format!("{processes} without an event that is listed."),
        );
    }
}

/// Every event of every entry that gets a mark, by process: when, of which entry, and of what kind.
fn marked_events(
    trace: &Trace,
    entries: &[TraceEntry],
) -> BTreeMap<u32, Vec<(u64, usize, EntryKind)>> {
    let mut marked: BTreeMap<u32, Vec<(u64, usize, EntryKind)>> = BTreeMap::new();
    for (place, entry) in entries.iter().enumerate() {
        let late: HashSet<usize> = entry.late.iter().map(|late| late.event).collect();
        for (index, event) in entry
            .events
            .iter()
            .filter_map(|index| Some((index, trace.events.get(*index)?)))
        {
            let is_late = late.contains(index);
            let is_another = entry.times > 1 && matches!(event.what, EventKind::Init { .. });
            // A cuInit has three events, and one mark.
            if entry.kind != EntryKind::Init || is_late || *index == entry.first || is_another {
                let kind = if is_late {
                    EntryKind::Variable
                } else {
                    entry.kind
                };
                marked
                    .entry(event.pid)
                    .or_default()
                    .push((event.t_ns, place, kind));
            }
        }
    }
    marked
}

fn draw_mark(out: &mut String, mark: &Mark, after: f64) {
    let told = if mark.is_told { " told" } else { "" };
    let text = if mark.count > 1 {
        mark.count.to_string()
    } else {
        String::new()
    };
    let (tag, link) = match mark.link {
        Some(place) => ("a", format!(" href=\"#e{place}\"")),
        None => ("span", String::new()),
    };
    let (at, colour) = (mark.at, mark.kinds.first().map_or("", |kind| kind.class()));
    let title = escape_html(&shorten_text(&mark.title, 90));
    let _ = writeln!(
        out,
        "<{tag}{link} class=\"mark {colour}{told}\" style=\"left:{at:.2}%\" title=\"{title}\">{text}</{tag}>"
    );
    let kinds = mark.kinds.iter().map(|kind| kind.name());
    let label = listed(
        kinds.chain(mark.gpu.as_deref().filter(|_| mark.count == 1)),
        "",
    );
    // A label must end before the next mark.
    let length = label.chars().count() as f64 + 2.0;
    let class = match after - at {
        room if length * NARROW_CHARACTER <= room => "label",
        room if length * WIDE_CHARACTER <= room => "label if-wide",
        _ => return,
    };
    let _ = writeln!(
        out,
        "<span class=\"{class}\" style=\"left:{at:.2}%\">{}</span>",
        escape_html(&label)
    );
}

fn lane_marks(
    trace: &Trace,
    entries: &[TraceEntry],
    listed: &HashSet<usize>,
    events: &[(u64, usize, EntryKind)],
    near: f64,
    axis: &Axis,
) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for (t, place, kind) in events {
        let Some(entry) = entries.get(*place) else {
            continue;
        };
        let (at, link) = (
            100.0 * axis.axis_position(*t),
            Some(*place).filter(|place| listed.contains(place)),
        );
        match marks.last_mut() {
            Some(mark) if at - mark.at < near => {
                mark.count += 1;
                if entry.is_told() && !mark.is_told {
                    (mark.is_told, mark.link) = (true, link.or(mark.link));
                }
                mark.kinds.insert(*kind);
                mark.link = mark.link.or(link);
            }
            _ => {
                let is_late = *kind == EntryKind::Variable && entry.kind == EntryKind::Init;
                let title = if is_late {
                    "a write that came too late".to_owned()
                } else {
                    entry.title()
                };
                let title = format!("{}: {title}", place::since_start(trace, *t));
                let (kinds, gpu) = (BTreeSet::from([*kind]), entry.gpu.clone());
                marks.push(Mark {
                    at,
                    kinds,
                    gpu,
                    count: 1,
                    is_told: entry.is_told(),
                    link,
                    title,
                });
            }
        }
    }
    for mark in marks.iter_mut().filter(|mark| mark.count > 1) {
        mark.title = format!("{} events, the first at {}", mark.count, mark.title);
    }
    marks
}
