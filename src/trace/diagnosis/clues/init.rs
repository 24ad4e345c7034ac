//! The GPUs that each process got from `cuInit`, and the memory that `cuInit` used.

use std::collections::HashSet;

use super::super::clue::Clue;
use super::{UNSET, about, gpu_name};
use crate::history::{Init, MASK, ORDER, ProgramHistory, known_ancestors};
use crate::{EventKind, History, Trace, TraceEvent};
use cuda_pitfalls_core::mask::{self, EntryEnd, Fate};

/// The minimum memory of `cuInit` on a GPU; less is noise.
const LEAST_BYTES: i64 = 1 << 20;
/// The maximum memory of `cuInit` on a GPU; every context uses more.
const CONTEXT_BYTES: i64 = 100 << 20;

pub(super) fn init_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let mut clues = Vec::new();
    for program in &history.programs {
        clues.extend(init_clue(history, program));
        clues.extend(memory_clue(history.trace, program));
    }
    clues
}

/// Returns `true` if all contexts that a program created are known.
fn is_whole(trace: &Trace) -> bool {
    let Some(end) = &trace.end else {
        return false;
    };
    trace.start.libcuda.is_some() && end.left_out == 0 && end.not_seen.is_empty()
}

/// Masks that users set to hide all GPUs on purpose; Slurm and other schedulers set the third.
const HIDE_ALL: [&str; 5] = ["", "-1", "NoDevFiles", "none", "void"];
/// More GPUs than any machine has.
const MANY: usize = 64;

/// Returns a description of each entry of a mask, and `true` if an entry that does not refer to an existing GPU hides
/// GPUs. None where the rule does not explain the observed GPUs.
fn entries(
    trace: &Trace,
    init: &Init<'_>,
    mask: &str,
    order: Option<&str>,
) -> Option<(Vec<String>, bool)> {
    let known = trace.start.gpus.len();
    let gpus = match known {
        0 => (0..MANY).map(|index| format!("GPU-{index:032x}")).collect(),
        _ => trace.gpu_uuids(),
    };
    let reading = mask::read(Some(mask), order, &gpus);
    if reading.bad_order {
        let order = order.unwrap_or(UNSET);
        return Some((vec![format!("{ORDER}={order} is not a valid order")], true));
    }
    const UNKNOWN: Fate = Fate::Ends {
        why: EntryEnd::UnknownUuid,
    };
    let (mut words, mut loses) = (Vec::new(), false);
    for entry in &reading.entries {
        // A MIG instance is not one of these GPUs, and a synthetic UUID is not either.
        if entry.text.starts_with("MIG-") || (known == 0 && entry.fate == UNKNOWN) {
            return None;
        }
        words.push(format!("'{}' {}", entry.text, entry.words(known)));
        loses |= !matches!(entry.fate, Fate::Names { .. });
    }
    let shown = reading.parsed.gpus.len();
    let is_as_read = match init.visible() {
        Some((visible, _)) if known > 0 => shown == visible as usize,
        Some(_) => shown > 0,
        None => shown == 0 || !init.has_failed(),
    };
    is_as_read.then_some((words, loses))
}

/// Returns the nearest ancestor that had initialized CUDA before a program began.
fn initialised_ancestor<'h, 'a>(
    history: &'h History<'a>,
    program: &ProgramHistory<'a>,
    began_ns: u64,
) -> Option<&'h ProgramHistory<'a>> {
    let trace = history.trace;
    for pid in known_ancestors(trace, program.pid) {
        for other in &history.programs {
            let init = other.init_before(began_ns, trace.has_no_device());
            if other.pid == pid && init.is_some() {
                return Some(other);
            }
        }
    }
    None
}

/// Adds to the clue the GPUs of the nearest ancestor that had initialized CUDA before.
fn with_parent<'a>(
    clue: Clue<'a>,
    history: &History<'a>,
    program: &ProgramHistory<'a>,
    mask: &str,
) -> Clue<'a> {
    let trace = history.trace;
    let began_ns = program.process.map_or(clue.t_ns, |process| process.t_ns);
    let Some(parent) = initialised_ancestor(history, program, began_ns) else {
        return clue;
    };
    let (Some(sees), Some(gets)) = (parent.visible(), program.visible()) else {
        return clue;
    };
    let mut numbers = mask.split(',').map(|entry| entry.trim().parse::<usize>());
    let is_number = numbers.all(|number| number.is_ok_and(|number| number < sees.len()));
    let is_outside = gets.iter().any(|gpu| !sees.contains(gpu));
    let is_reordered =
        is_reordered(gets, sees) && !has_turned_sibling(history, program, gets, sees);
    clue.with("got", gpu_names(trace, gets))
        .with("parent", u64::from(parent.pid))
        .with("parents_gpus", gpu_names(trace, sees))
        .with("parents_number", is_number && is_outside)
        .with("reordered", is_reordered)
}

fn gpu_names<'u>(trace: &Trace, uuids: impl IntoIterator<Item = &'u String>) -> Vec<String> {
    let names = uuids.into_iter().map(|uuid| gpu_name(trace, Some(uuid)));
    names.collect()
}

/// Returns `true` if all GPUs are among the others, in a different order.
fn is_reordered(gpus: &[String], others: &[String]) -> bool {
    let mut places = Vec::new();
    for gpu in gpus {
        match others.iter().position(|other| other == gpu) {
            Some(place) => places.push(place),
            None => return false,
        }
    }
    !places.is_sorted()
}

/// Returns the index of the first GPU in `sees` if `gpus` is a rotation of `sees`. None otherwise.
fn find_rotation(gpus: &[String], sees: &[String]) -> Option<usize> {
    let first = sees.iter().position(|gpu| Some(gpu) == gpus.first())?;
    let turned = sees.iter().cycle().skip(first).take(sees.len());
    turned.eq(gpus).then_some(first)
}

/// Returns `true` if a process of the same launcher, which may have run at the same time, begins with a different one
/// of the same GPUs: a launcher that assigns each process its own first GPU rotates the order.
fn has_turned_sibling(
    history: &History<'_>,
    program: &ProgramHistory<'_>,
    gpus: &[String],
    sees: &[String],
) -> bool {
    let Some(own) = find_rotation(gpus, sees) else {
        return false;
    };
    let launcher = history.launcher_pid(program);
    history.programs.iter().any(|other| {
        let first = find_rotation(other.visible().unwrap_or_default(), sees);
        first.is_some_and(|first| first != own)
            && other.ran_beside(program)
            && history.launcher_pid(other) == launcher
    })
}

fn init_clue<'a>(history: &History<'a>, program: &ProgramHistory<'a>) -> Option<Clue<'a>> {
    let trace = history.trace;
    let init = program.init()?;
    let &(index, event) = init.begun.last()?;
    let mask = init.value(MASK)?;
    let order = init.value(ORDER)?;
    let models: HashSet<&String> = trace.start.gpus.iter().flat_map(|gpu| &gpu.name).collect();
    let first_letters = mask
        .unwrap_or_default()
        .trim_start()
        .trim_start_matches(['+', '-']);
    let has_numbers = first_letters.starts_with(|letter: char| letter.is_ascii_digit());
    let mut clue = about("initialised", index, event)?
        .with("mask", mask.unwrap_or(UNSET))
        .with("order", order.unwrap_or(UNSET))
        .with("models_differ", models.len() > 1)
        .with("mask_has_numbers", has_numbers);
    if is_whole(trace) {
        clue = clue.with("contexts", program.contexts.len());
    }
    if init.returned.is_some() {
        clue = clue.with("failed", init.has_failed());
    }
    if let Some(visible) = program.visible()
        && has_numbers
    {
        let gpus = trace.gpu_uuids();
        let mut meant: Vec<&String> = Vec::new();
        for index in mask::parse(mask, order, &gpus).gpus {
            meant.extend(gpus.get(index));
        }
        clue = clue
            .with("other_gpus", !meant.iter().copied().eq(visible))
            .with("meant", gpu_names(trace, meant))
            .with("got", gpu_names(trace, visible));
    }
    let Some(mask) = mask else { return Some(clue) };
    if let Some((entries, loses)) = entries(trace, init, mask, order) {
        clue = clue
            .with("entries", entries)
            .with("loses", loses)
            .with("on_purpose", HIDE_ALL.contains(&mask.trim()));
    }
    Some(with_parent(clue, history, program, mask))
}

/// Returns `true` if another process initialized CUDA, or created or destroyed a context, while `cuInit` ran. The
/// change of memory then includes both.
fn is_beside_another(trace: &Trace, done: &TraceEvent) -> bool {
    let (began, until) = call_span(done);
    trace.events.iter().any(|other| match other.what {
        EventKind::Context { .. } | EventKind::InitDone { .. } if other.pid != done.pid => {
            let (from, to) = call_span(other);
            from <= until && to >= began
        }
        _ => false,
    })
}

/// Returns the start and the end of an event's call. The timestamp is the end of `cuInit`, and the start of a context.
fn call_span(event: &TraceEvent) -> (u64, u64) {
    let elapsed = event.elapsed_ns.unwrap_or(0);
    match event.what {
        EventKind::InitDone { .. } => (event.t_ns.saturating_sub(elapsed), event.t_ns),
        _ => (event.t_ns, event.t_ns.saturating_add(elapsed)),
    }
}

/// Returns a clue about the memory of `cuInit` on GPUs without a later context.
fn memory_clue<'a>(trace: &'a Trace, program: &ProgramHistory<'a>) -> Option<Clue<'a>> {
    let init = program.init()?;
    let mut read = Vec::new();
    if init.has_succeeded() {
        read.extend(init.returned);
    }
    read.extend(init.begun.last());
    read.retain(|(_, event)| !event.memory_bytes.is_empty());
    let (index, event) = *read.first()?;
    if !is_whole(trace) || is_beside_another(trace, event) {
        return None;
    }
    let mut grown: Vec<&String> = Vec::new();
    let mut sum = 0;
    for (gpu, bytes) in trace.start.gpus.iter().zip(&event.memory_bytes) {
        let bytes = bytes.unwrap_or(0);
        if (LEAST_BYTES..CONTEXT_BYTES).contains(&bytes) && may_take(trace, program, &gpu.uuid) {
            grown.push(&gpu.uuid);
            sum += bytes;
        }
    }
    if grown.is_empty() {
        return None;
    }
    let mut clue = about("memory-of-init", index, event)?
        .with("gpus", gpu_names(trace, grown.iter().copied()))
        .with("bytes", sum);
    clue.bytes = Some(sum);
    if let [gpu] = grown.as_slice() {
        clue.gpu = Some((*gpu).clone());
    }
    Some(clue)
}

/// Returns `true` if the additional memory on a GPU may come from a program's `cuInit`.
fn may_take(trace: &Trace, program: &ProgramHistory<'_>, uuid: &str) -> bool {
    let mut contexts = program.contexts.iter();
    if contexts.any(|life| life.created.gpu.as_deref() == Some(uuid)) {
        return false;
    }
    // On a GPU that the process does not see, it uses no memory: the growth belongs to another process. MIG instances
    // are not GPUs here.
    let seen = program.visible().unwrap_or_default();
    let is_seen_known = !seen.is_empty()
        && seen
            .iter()
            .all(|seen: &String| trace.gpu_index(Some(seen)).is_some());
    !is_seen_known || seen.iter().any(|seen| seen == uuid)
}
