//! The picture of a trace: the memory of each GPU over its time.
//!
//! Pure: a trace becomes SVG.

use cuda_pitfalls::render::svg::file::curve;
use cuda_pitfalls::render::svg::{Chart, ChartLine};
use cuda_pitfalls::text::units;
use cuda_pitfalls::trace::{ContextChange, EventKind};

use crate::diagnoses::TracedRun;

/// The memory of each GPU over the time of a trace, from the first `cuInit` on, with what the program did.
pub fn of_trace(TracedRun { name, trace, .. }: &TracedRun) -> String {
    let mut marks: Vec<(u64, String)> = Vec::new();
    for event in &trace.events {
        let did = match &event.what {
            EventKind::Init { variables, .. } => {
                format!(
                    "cuInit reads {MASK}: {}",
                    variables.get(MASK).map_or("not set", String::as_str)
                )
            }
            EventKind::Variable {
                name,
                value: Some(value),
                ..
            } if name == MASK => {
                format!("the program sets it to {value}")
            }
            EventKind::Context {
                change: ContextChange::Made,
                ..
            } => {
                let gpu = trace
                    .start
                    .gpus
                    .iter()
                    .position(|gpu| Some(&gpu.uuid) == event.gpu.as_ref());
                format!(
                    "a context is created on GPU {}",
                    gpu.map_or("?".to_owned(), |index| index.to_string())
                )
            }
            _ => continue,
        };
        // Of two witnesses of a cuInit the later one saw what was read.
        marks.retain(|(_, mark)| *mark != did);
        marks.push((event.t_ns, did));
    }
    let from = marks.first().map_or(trace.start.t_ns, |(t, _)| *t);
    let to = trace.end.as_ref().map(|end| end.t_ns);
    let to = to
        .into_iter()
        .chain(trace.memory.iter().map(|memory| memory.t_ns))
        .max()
        .unwrap_or(from);
    for (t, mark) in marks.iter_mut().skip(1) {
        *mark = format!("{} later {mark}", units::duration(*t - from));
    }
    let lines = (0..trace.start.gpus.len()).map(|index| {
        let before = trace
            .start
            .used_bytes
            .get(index)
            .copied()
            .flatten()
            .unwrap_or_default();
        let read = trace.memory.iter().filter(|memory| memory.index == index);
        let read = read.map(|memory| {
            (
                memory.t_ns,
                memory.used_bytes.cast_signed() - before.cast_signed(),
            )
        });
        let mut points: Vec<(u64, i64)> = read.collect();
        points.sort_unstable();
        ChartLine {
            name: format!("GPU {index}"),
            colour: index,
            points,
        }
    });
    let title = "A mask that is set too late, as trace sees it".to_owned();
    let chart = Chart {
        title,
        span_ns: (from, to),
        lines: lines.collect(),
        marks,
        ..Chart::default()
    };
    let model = trace
        .start
        .gpus
        .first()
        .and_then(|gpu| gpu.name.as_deref())
        .unwrap_or("unknown GPU");
    curve(
        &chart,
        &format!(
            "{} × {model}; the trace is reports/traces/{name}",
            trace.start.gpus.len()
        ),
    )
}

const MASK: &str = "CUDA_VISIBLE_DEVICES";
