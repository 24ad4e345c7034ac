//! The chart: memory of each GPU over time, and a lane per process with a mark for each event, all on one axis.
//!
//! Lanes and marks are elements whose offset is in percent, not a drawing that is scaled: their text and their size
//! stay readable on a phone.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use super::entry::{EntryKind, TraceEntry, late_write};
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
/// Marks that are closer than this, in percent of the axis, are drawn as one.
const NEAR: f64 = 1.6;
/// The same for a chart with many lanes.
const NEAR_OF_MANY: f64 = 4.0;
/// Width of a label's character in percent of a track: on a phone, and on a desktop page.
const NARROW_CHARACTER: f64 = 2.1;
const WIDE_CHARACTER: f64 = 1.0;
/// Pixel columns of a curve, and its height.
const COLUMNS: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

/// Returns the chart; empty without events.
pub(super) fn draw_timeline(
    trace: &Trace,
    entries: &[TraceEntry],
    listed: &HashSet<usize>,
) -> String {
    if entries.is_empty() && trace.memory.is_empty() {
        return String::new();
    }
    let from = trace.start.t_ns;
    let end_ns = trace.end.as_ref().map_or(from, |end| end.t_ns);
    let to = trace.stamps().fold(from.max(end_ns), u64::max);
    let axis = Axis::new((from, to), trace.stamps());
    let mut out = "<h2>Timeline</h2>\n<div class=\"timeline\">\n".to_owned();
    let mut kinds = BTreeSet::new();
    for entry in entries {
        kinds.insert(entry.kind);
        if !entry.late.is_empty() {
            kinds.insert(EntryKind::Variable);
        }
    }
    out.push_str("<p class=\"legend\">");
    for kind in kinds {
        let _ = write!(
            out,
            "<span class=\"name\"><span class=\"dot {}\"></span>{}</span> ",
            kind.class(),
            kind.name()
        );
    }
    out.push_str("</p>\n");
    if let Some(left_out) = axis.left_out() {
        out += &paragraph("dim", &format!("Axis break: {left_out} without events."));
    }
    draw_memory(&mut out, trace, (from, to), &axis);
    draw_lanes(&mut out, trace, entries, listed, &axis);
    axis.write_ticks(&mut out);
    out.push_str("</div>\n");
    out
}

/// Returns the bands of the periods that are cut out of the axis, on one track.
fn draw_cuts(axis: &Axis) -> String {
    let mut bands = String::new();
    for (start, end) in &axis.cuts {
        let (at, to) = (axis.axis_position(*start), axis.axis_position(*end));
        let _ = write!(
            bands,
            "<span class=\"cut\" style=\"left:{:.2}%;width:{:.2}%\"></span>",
            100.0 * at,
            100.0 * to - 100.0 * at
        );
    }
    bands
}

/// Returns the memory of each GPU over time, as a change if it was read before the program began.
fn memory_curves(trace: &Trace) -> BTreeMap<usize, Vec<(u64, i64)>> {
    let mut curves: BTreeMap<usize, Vec<(u64, i64)>> = BTreeMap::new();
    for memory in &trace.memory {
        let before = trace.used_before(memory.index);
        let bytes = i128::from(memory.used_bytes) - i128::from(before.unwrap_or(0));
        let curve = curves.entry(memory.index).or_default();
        if curve.is_empty() && before.is_some() {
            curve.push((trace.start.t_ns, 0));
        }
        curve.push((memory.t_ns, i64::try_from(bytes).unwrap_or(i64::MAX)));
    }
    for curve in curves.values_mut() {
        curve.sort_by_key(|(t, _)| *t);
    }
    curves
}

/// Draws the curve of each GPU, all with the same scale and color, because a color stands for a kind of event.
fn draw_memory(out: &mut String, trace: &Trace, span: (u64, u64), axis: &Axis) {
    let curves = memory_curves(trace);
    if curves.is_empty() {
        out.push_str("<p class=\"dim\">GPU memory was not read or did not change.</p>\n");
        return;
    }
    let (mut low, mut high) = (0, 0);
    for (_, bytes) in curves.values().take(MOST_GPUS).flatten() {
        low = low.min(*bytes);
        high = high.max(*bytes);
    }
    let scale = units::format_delta(high);
    let says = format!("All GPUs share one scale, up to {scale}.");
    *out += &paragraph("dim", &says);
    for (index, points) in curves.iter().take(MOST_GPUS) {
        draw_curve(out, trace, *index, points, (span, low, high), axis);
    }
    *out += &writer::html::write(Block::more(curves.len(), MOST_GPUS, "GPUs").as_slice());
    let still = (0..trace.start.gpus.len()).filter(|index| !curves.contains_key(index));
    let still = listed(still.take(MOST_GPUS), "");
    if !still.is_empty() {
        let says = format!("Memory did not change on GPU {still}.");
        *out += &paragraph("dim", &says);
    }
}

/// Draws a curve; `scale` is the time and the memory that all curves cover.
fn draw_curve(
    out: &mut String,
    trace: &Trace,
    index: usize,
    points: &[(u64, i64)],
    scale: ((u64, u64), i64, i64),
    axis: &Axis,
) {
    let (span, low, high) = scale;
    let x = |t: u64| COLUMNS * axis.axis_position(t);
    let y = |bytes: i64| {
        HEIGHT - HEIGHT * part_ratio(bytes as f64 - low as f64, high as f64 - low as f64)
    };
    let path = steps(points, span, x, y);
    let first = points.first().map_or(0.0, |(t, _)| x(*t).round());
    let base = y(0);
    let most = points.iter().fold(0, |most, (_, bytes)| *bytes.max(&most));
    let gpu = trace.start.gpus.get(index);
    let name = gpu.and_then(|gpu| gpu.name.as_deref()).unwrap_or("unknown");
    let peak = match trace.used_before(index) {
        Some(_) => units::format_delta(most),
        None => units::bytes(most.unsigned_abs()),
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

/// Events of one process that are so close together that they are one mark.
struct Mark {
    at: f64,
    /// Kinds of the events, the most important one first, which sets the color.
    kinds: BTreeSet<EntryKind>,
    /// The GPU of the first event.
    gpu: Option<String>,
    count: usize,
    has_problem: bool,
    /// An entry that the page has.
    link: Option<usize>,
    /// The delay of a write that came too late, in words.
    delay: Option<String>,
    title: String,
}

fn draw_lanes(
    out: &mut String,
    trace: &Trace,
    entries: &[TraceEntry],
    listed: &HashSet<usize>,
    axis: &Axis,
) {
    let mut marked = marked_events(entries);
    let mut names: HashMap<u32, (u64, String)> = HashMap::new();
    let mut pids: Vec<u32> = Vec::new();
    for process in &trace.processes {
        names.entry(process.pid).or_insert_with(|| {
            pids.push(process.pid);
            (process.t_ns, process.name())
        });
    }
    for pid in marked.keys() {
        if !names.contains_key(pid) {
            pids.push(*pid);
        }
    }
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
        let late = marks.iter().find(|mark| mark.delay.is_some());
        draw_lane(out, *pid, names.get(pid), events, (axis, late));
        let mut after = marks.iter().skip(1);
        for mark in &marks {
            let next = after.next().map_or(100.0, |next| next.at);
            draw_mark(out, mark, next);
        }
        out.push_str("</div></div>\n");
    }
    if busy.len() > OPEN_LANES {
        out.push_str("</details>\n");
    }
    *out += &writer::html::write(
        Block::more(busy.len(), MOST_LANES, "processes with events").as_slice(),
    );
    let processes = match idle.len() {
        0 => return,
        1 => "One more process".to_owned(),
        several => format!("{several} more processes"),
    };
    let says = format!("{processes} without a listed event.");
    *out += &paragraph("dim", &says);
}

/// Draws the row of a process, up to its marks.
fn draw_lane(
    out: &mut String,
    pid: u32,
    process: Option<&(u64, String)>,
    events: &[MarkedEvent],
    (axis, late): (&Axis, Option<&Mark>),
) {
    let (began, name) = match process {
        Some((t, name)) => (100.0 * axis.axis_position(*t), name.as_str()),
        None => (0.0, ""),
    };
    let last = match events.last() {
        Some((t, ..)) => 100.0 * axis.axis_position(*t),
        None => began,
    };
    let track = if late.is_some() {
        "track has-late"
    } else {
        "track"
    };
    let _ = writeln!(
        out,
        "<div class=\"lane\"><div class=\"who\"><strong>pid {pid}</strong> <span class=\"dim\">{}, {}</span></div>\
         <div class=\"{track}\">{}<span class=\"life\" style=\"left:{began:.2}%;width:{:.2}%\"></span>",
        escape_html(&place::shorten_place(name)),
        counted(events.len() as u64, "event"),
        draw_cuts(axis),
        (last - began).max(0.0)
    );
    if let Some(mark) = late {
        let delay = mark.delay.as_deref().unwrap_or_default();
        let (class, side, offset) = if mark.at < 50.0 {
            ("", "left", mark.at)
        } else {
            (" left", "right", 100.0 - mark.at)
        };
        let _ = writeln!(
            out,
            "<span class=\"label late{class}\" style=\"{side}:{offset:.2}%\">variable set {delay} too late</span>"
        );
    }
}

/// An event that gets a mark: its time, the index of its entry, and its kind.
type MarkedEvent = (u64, usize, EntryKind);

/// Returns every event of every entry that gets a mark, by process.
fn marked_events(entries: &[TraceEntry]) -> BTreeMap<u32, Vec<MarkedEvent>> {
    let mut marked: BTreeMap<u32, Vec<MarkedEvent>> = BTreeMap::new();
    for (place, entry) in entries.iter().enumerate() {
        for (index, event) in &entry.events {
            let is_late = entry.late.iter().any(|late| late.event == *index);
            let is_another = entry.times > 1 && matches!(event.what, EventKind::Init { .. });
            let is_first = std::ptr::eq(*event, entry.shown_event);
            // A cuInit has three events, and one mark.
            if entry.kind == EntryKind::Init && !(is_late || is_first || is_another) {
                continue;
            }
            let kind = if is_late {
                EntryKind::Variable
            } else {
                entry.kind
            };
            let events = marked.entry(event.pid).or_default();
            events.push((entry.event_time(event), place, kind));
        }
    }
    marked
}

fn draw_mark(out: &mut String, mark: &Mark, after: f64) {
    let told = if mark.has_problem { " told" } else { "" };
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
    if mark.delay.is_some() && mark.count == 1 {
        return;
    }
    let mut names: Vec<&str> = mark.kinds.iter().map(|kind| kind.name()).collect();
    if mark.count == 1 {
        names.extend(mark.gpu.as_deref());
    }
    let label = names.join(", ");
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
    events: &[MarkedEvent],
    near: f64,
    axis: &Axis,
) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for (t, place, kind) in events {
        let Some(entry) = entries.get(*place) else {
            continue;
        };
        let at = 100.0 * axis.axis_position(*t);
        let link = listed.contains(place).then_some(*place);
        let mut writes = entry.late.iter();
        let late = writes.find(|late| *kind == EntryKind::Variable && late.write.t_ns == *t);
        let delay = late.map(|late| units::format_duration(late.after_ns));
        match marks.last_mut() {
            Some(mark) if at - mark.at < near => {
                mark.count += 1;
                if entry.has_problem() && !mark.has_problem {
                    (mark.has_problem, mark.link) = (true, link.or(mark.link));
                }
                mark.kinds.insert(*kind);
                mark.link = mark.link.or(link);
                mark.delay = mark.delay.take().or(delay);
            }
            _ => {
                let title = late.map_or_else(|| entry.title(), late_write);
                let title = format!("{}: {title}", place::since_start(trace, *t));
                let (kinds, gpu) = (BTreeSet::from([*kind]), entry.gpu.clone());
                marks.push(Mark {
                    at,
                    kinds,
                    gpu,
                    count: 1,
                    has_problem: entry.has_problem(),
                    link,
                    delay,
                    title,
                });
            }
        }
    }
    for mark in &mut marks {
        if mark.count > 1 {
            mark.title = format!("{} events, the first at {}", mark.count, mark.title);
        }
    }
    marks
}
