//! The location of an event in a program: the user's own line, the way from there to the CUDA call, and the words for
//! GPUs, times, values and statuses.

use crate::machine::UserLine;
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::{Frame, Stack, Trace, TraceEvent, limit_name, status_name};

/// Names of functions and values of variables are cut to this many bytes: a name of a C++ template has thousands.
const LONGEST: usize = 160;
/// Maximum number of frames of the user's own code in a chain.
const MOST_OWN: usize = 4;

/// Returns the innermost line of the user's own code.
pub(super) fn place(trace: &Trace, stack: &Stack) -> Option<UserLine> {
    let site = stack.call_site()?;
    let file = site.frame.file.as_deref()?;
    Some(UserLine {
        file: below_folder(trace, file).to_owned(),
        line: site.frame.line,
        is_beside: site.is_beside,
    })
}

/// Returns a path; if it lies below the directory that the program was started in, relative to that directory.
fn below_folder<'f>(trace: &Trace, file: &'f str) -> &'f str {
    let folder = trace.start.folder.trim_end_matches('/');
    let below = file.strip_prefix(folder);
    match below.and_then(|rest| rest.strip_prefix('/')) {
        Some(below) if !folder.is_empty() => below,
        _ => file,
    }
}

/// Returns the way from the user's first line to the call, outermost first: `train.py:12 <module>`, `cli.py:88 setup`,
/// `torch.cuda.is_available`, `cuInit`. Frames inside a framework are folded.
pub(super) fn chain(event: &TraceEvent) -> Vec<String> {
    let stack = &event.stack;
    let own = stack.users_all();
    let mut parts: Vec<String> = Vec::new();
    let folded = own.len().saturating_sub(MOST_OWN);
    for (number, frame) in own.iter().enumerate() {
        match number {
            1 if folded > 0 => parts.push(format!("… {folded} more …")),
            _ if (1..=folded).contains(&number) => {}
            _ => parts.push(own_frame(frame)),
        }
    }
    if let Some(entry) = stack.entry_name() {
        parts.push(shorten_place(&entry));
    }
    if own.is_empty()
        && let Some(frame) = stack.innermost_public()
    {
        let innermost = shorten_place(&frame.name());
        if !parts.contains(&innermost) {
            parts.push(innermost);
        }
    }
    if parts.is_empty() {
        // Without user code, the outermost function that has a name is still better than nothing.
        let mut frames = stack.frames.iter().rev();
        if let Some(frame) = frames.find(|frame| !frame.function.is_empty()) {
            parts.push(shorten_place(&frame.name()));
        }
    }
    let call = shorten_place(&event.call);
    if parts.last() != Some(&call) && !call.is_empty() {
        parts.push(call);
    }
    parts
}

/// Returns the line of the user's own code on another thread at that time; `None` if this thread has frames of it.
pub(super) fn other_thread_line(event: &TraceEvent) -> Option<String> {
    let frame = event.stack.users_meanwhile()?;
    let beside = Stack {
        frames: event.stack.meanwhile.clone(),
        ..Stack::default()
    };
    let mut way = own_frame(frame);
    if let Some(entry) = beside.entry() {
        way += &format!(" → {}", shorten_place(&entry.name()));
    }
    Some(format!("main thread at {way}"))
}

fn own_frame(frame: &Frame) -> String {
    match frame.line() {
        Some(line) => format!("{} {}", shorten_place(&line), shorten_place(&frame.name())),
        None => shorten_place(&frame.name()),
    }
}

/// Returns a frame on a line of a full stack: its function, and its location.
pub(super) fn frame(frame: &Frame) -> (String, String) {
    let place = match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        (Some(file), None) => file.clone(),
        (None, _) => frame.module.clone().unwrap_or_default(),
    };
    (shorten_place(&frame.name()), shorten_place(&place))
}

/// Returns a process, with the ranks that its launcher gave it: `pid 4711, rank 3, local rank 1`.
pub(super) fn process_words(trace: &Trace, pid: u32) -> String {
    let mut words = format!("pid {pid}");
    let mut processes = trace.processes.iter().rev();
    if let Some(process) = processes.find(|process| process.pid == pid) {
        for (name, rank) in [("rank", process.rank), ("local rank", process.local_rank)] {
            if let Some(rank) = rank {
                words += &format!(", {name} {rank}");
            }
        }
    }
    words
}

pub(super) fn shorten_place(text: &str) -> String {
    shorten_text(text, LONGEST)
}

/// Returns the time since the start of the program: `0.84 s`.
pub(super) fn since_start(trace: &Trace, t_ns: u64) -> String {
    format_seconds(trace.seconds_since_start(t_ns))
}

/// Returns seconds with the significant digits.
pub(super) fn format_seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.1 => format!("{s:.3} s"),
        s if s < 100.0 => format!("{s:.2} s"),
        s if s < 10_000.0 => format!("{s:.0} s"),
        s if s < 1e8 => format!("{:.1} h", s / 3600.0),
        s => format!("{s:.1e} s"),
    }
}

/// Returns `GPU 1` in NVML order, or other known facts about the GPU of an event.
pub(super) fn gpu(trace: &Trace, event: &TraceEvent) -> String {
    match (&event.gpu, event.device) {
        (Some(uuid), _) => gpu_name(trace, uuid),
        (None, Some(device)) => format!("device {device}"),
        (None, None) => "a GPU".to_owned(),
    }
}

/// Returns `GPU 1` in NVML order, or the UUID of a GPU that is not known.
pub(super) fn gpu_name(trace: &Trace, uuid: &str) -> String {
    match trace.gpu_index(Some(uuid)) {
        Some(index) => format!("GPU {index}"),
        None => shorten_place(uuid),
    }
}

pub(super) fn value(value: Option<&str>) -> String {
    match value {
        None => "(unset)".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(value) => shorten_place(value),
    }
}

/// Returns a status with its number: `CUDA_ERROR_NO_DEVICE (100)`.
pub(super) fn status(status: i64) -> String {
    match status_name(status) {
        name if name == status.to_string() => format!("status {status}"),
        name => format!("{name} ({status})"),
    }
}

/// Returns the status of an event's call, if it is an error.
pub(super) fn returned(event: &TraceEvent) -> String {
    event.status.map_or_else(|| "an error".to_owned(), status)
}

/// Returns the name of a `CUlimit` by its number, and its value: sizes are in bytes.
pub(super) fn limit(limit: i32, value: u64) -> (String, String) {
    let Some(name) = limit_name(limit) else {
        return (format!("limit {limit}"), value.to_string());
    };
    let is_bytes = name.ends_with("_SIZE") || name.ends_with("_GRANULARITY");
    (
        name.to_owned(),
        if is_bytes {
            units::bytes(value)
        } else {
            value.to_string()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    #[test]
    fn the_chain_goes_from_the_users_line_to_the_call() {
        let trace = fixture::trace();
        let init = trace.events.first().unwrap();
        let expected = [
            "train.py:12 <module>",
            "cli.py:88 setup",
            "torch.cuda.is_available",
            "cuInit",
        ];
        assert_eq!(chain(init), expected);
        assert_eq!(
            place(&trace, &init.stack),
            Some(UserLine {
                file: "cli.py".to_owned(),
                line: Some(88),
                is_beside: false
            })
        );
    }

    #[test]
    fn many_frames_of_ones_own_are_folded() {
        let trace = fixture::large(1, 1, 0);
        let parts = chain(trace.events.first().unwrap());
        assert_eq!(parts.len(), 7, "{parts:?}");
        assert_eq!(parts.get(1).map(String::as_str), Some("… 16 more …"));
        assert_eq!(parts.get(4).map(String::as_str), Some("train.py:1 step_0"));
    }

    #[test]
    fn a_stack_without_own_code_still_says_something() {
        let mut trace = fixture::trace();
        let event = trace.events.first_mut().unwrap();
        event.stack.frames.truncate(4);
        assert_eq!(chain(event), ["torch.cuda.is_available", "cuInit"]);
        event.stack = Stack::default();
        assert_eq!(chain(event), ["cuInit"]);
    }

    #[test]
    fn times_have_the_digits_that_matter() {
        let shown = [0.0, 0.0042, 0.84, 73.2, 4000.0, 86_400.0, 1e10].map(format_seconds);
        assert_eq!(
            shown,
            [
                "0.000 s", "0.004 s", "0.84 s", "73.20 s", "4000 s", "24.0 h", "1.0e10 s"
            ]
        );
    }
}
