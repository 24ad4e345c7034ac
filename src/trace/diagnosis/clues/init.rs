//! The GPUs that each process got from `cuInit`, and the memory that it took.

use super::super::clue::Clue;
use super::{UNSET, about, gpu_name};
use crate::history::{Init, MASK, ORDER, ProgramHistory, known_ancestors};
use crate::{EventKind, History, Trace, TraceEvent};
use cuda_pitfalls_core::mask::{self, EntryEnd, Fate};

/// The least memory of `cuInit` on a GPU; less is noise.
const LEAST_BYTES: i64 = 1 << 20;
/// The most memory of `cuInit` on a GPU; every context takes more.
const CONTEXT_BYTES: i64 = 100 << 20;

pub(super) fn init_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let trace = history.trace;
    let all = history
        .programs
        .iter()
        .flat_map(|program| [init_clue(history, program), memory(trace, program)]);
    all.flatten().collect()
}

/// Whether all contexts that a program made are known.
fn is_whole(trace: &Trace) -> bool {
    trace.start.libcuda.is_some()
        && trace
            .end
            .as_ref()
            .is_some_and(|end| end.left_out == 0 && end.not_seen.is_empty())
}

/// Masks with which people hide all GPUs on purpose; Slurm and other schedulers set the third.
const HIDE_ALL: [&str; 5] = ["", "-1", "NoDevFiles", "none", "void"];
/// More GPUs than a machine has.
const MANY: usize = 64;

/// What became of the entries of a mask, and whether GPUs are hidden by one that names what there is not. None where the
/// rule does not say what was seen here.
fn entries(
    trace: &Trace,
    init: &Init<'_>,
    mask: &str,
    order: Option<&str>,
) -> Option<(Vec<String>, bool)> {
    let known = trace.start.gpus.len();
    let gpus: Vec<String> = match known {
        0 => (0..MANY).map(|index| format!("GPU-{index:032x}")).collect(),
        _ => trace
            .start
            .gpus
            .iter()
            .map(|gpu| gpu.uuid.clone())
            .collect(),
    };
    let reading = mask::read(Some(mask), order, &gpus);
    if reading.bad_order {
        return Some((
            vec![format!(
                "{ORDER}={} is no order that there is",
                order.unwrap_or(UNSET)
            )],
            true,
        ));
    }
    // An instance of MIG is none of these GPUs, and neither is what was made up.
    let has_unknown = reading.entries.iter().any(|entry| {
        entry.text.starts_with("MIG-")
            || (known == 0
                && entry.fate
                    == Fate::Ends {
                        why: EntryEnd::UnknownUuid,
                    })
    });
    let shown = reading.parsed.gpus.len();
    let is_as_read = match init.visible() {
        Some((visible, _)) if known > 0 => shown == visible as usize,
        Some(_) => shown > 0,
        None => shown == 0 || !init.has_failed(),
    };
    if !is_as_read || has_unknown {
        return None;
    }
    let words = reading
        .entries
        .iter()
        .map(|entry| format!("'{}' {}", entry.text, entry.words(known)));
    Some((
        words.collect(),
        reading
            .entries
            .iter()
            .any(|entry| !matches!(entry.fate, Fate::Names { .. })),
    ))
}

/// The clue with what the nearest process above sees that had initialised CUDA before.
fn with_parent<'a>(
    clue: Clue<'a>,
    history: &History<'a>,
    program: &ProgramHistory<'a>,
    mask: &str,
) -> Clue<'a> {
    let trace = history.trace;
    let parent = known_ancestors(trace, program.pid)
        .into_iter()
        .find_map(|pid| {
            let began = program.process.map_or(clue.t_ns, |process| process.t_ns);
            history.programs.iter().find(|other| {
                other.pid == pid
                    && other
                        .init_before(began, history.trace.has_no_device())
                        .is_some()
            })
        });
    let Some((parent, sees)) = parent.and_then(|parent| Some((parent, parent.visible()?))) else {
        return clue;
    };
    let Some(gets) = program.visible() else {
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

fn gpu_names(trace: &Trace, gpus: &[String]) -> Vec<String> {
    gpus.iter()
        .map(|uuid| gpu_name(trace, Some(uuid)))
        .collect()
}

/// Whether GPUs, all of which are among others, come in another order there.
fn is_reordered(gpus: &[String], others: &[String]) -> bool {
    let places: Option<Vec<usize>> = gpus
        .iter()
        .map(|gpu| others.iter().position(|other| other == gpu))
        .collect();
    places.is_some_and(|places| !places.is_sorted())
}

/// At which of some GPUs others begin that are the same ones in the same order, turned. None if they are not.
fn turned_to(gpus: &[String], sees: &[String]) -> Option<usize> {
    let first = sees.iter().position(|gpu| Some(gpu) == gpus.first())?;
    let turned = sees.iter().cycle().skip(first).take(sees.len());
    turned.eq(gpus).then_some(first)
}

/// Whether a process of the same launcher, which may have run at the same time, begins with another of the same GPUs: a
/// launcher that gives each process a first GPU of its own turns the order.
fn has_turned_sibling(
    history: &History<'_>,
    program: &ProgramHistory<'_>,
    gpus: &[String],
    sees: &[String],
) -> bool {
    let Some(own) = turned_to(gpus, sees) else {
        return false;
    };
    let launcher = history.launcher_pid(program);
    let siblings = history
        .programs
        .iter()
        .filter(|other| history.launcher_pid(other) == launcher);
    let mut beside = siblings
        .filter(|other| other.ran_beside(program))
        .filter_map(ProgramHistory::visible);
    beside.any(|others| turned_to(others, sees).is_some_and(|first| first != own))
}

fn init_clue<'a>(history: &History<'a>, program: &ProgramHistory<'a>) -> Option<Clue<'a>> {
    let trace = history.trace;
    let init = program.init()?;
    let &(index, event) = init.begun.last()?;
    let mask = init.value(MASK)?;
    let order = init.value(ORDER)?;
    let models: Vec<&str> = trace
        .start
        .gpus
        .iter()
        .filter_map(|gpu| gpu.name.as_deref())
        .collect();
    let has_numbers = mask.is_some_and(|mask| {
        mask.trim_start()
            .trim_start_matches(['+', '-'])
            .starts_with(|letter: char| letter.is_ascii_digit())
    });
    let mut clue = about("initialised", index, event)?
        .with("mask", mask.unwrap_or(UNSET))
        .with("order", order.unwrap_or(UNSET))
        .with(
            "models_differ",
            models.iter().any(|model| Some(model) != models.first()),
        )
        .with("mask_has_numbers", has_numbers)
        .with(
            "contexts",
            is_whole(trace).then_some(program.contexts.len()),
        )
        .with("failed", init.returned.map(|_| init.has_failed()));
    if let Some(visible) = program.visible().filter(|_| has_numbers) {
        let gpus: Vec<String> = trace
            .start
            .gpus
            .iter()
            .map(|gpu| gpu.uuid.clone())
            .collect();
        let meant = mask::parse(mask, order, &gpus).gpus;
        let meant: Vec<&String> = meant
            .into_iter()
            .filter_map(|index| gpus.get(index))
            .collect();
        clue = clue
            .with("other_gpus", !meant.iter().copied().eq(visible))
            .with(
                "meant",
                meant
                    .iter()
                    .map(|uuid| gpu_name(trace, Some(uuid)))
                    .collect::<Vec<_>>(),
            )
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

/// Whether another process initialised CUDA, or created or destroyed a context, while `cuInit` ran. The change of memory
/// then includes both.
fn is_beside_another(trace: &Trace, done: &TraceEvent) -> bool {
    let (began, until) = call_span(done);
    trace.events.iter().any(|other| {
        let is_one = matches!(
            other.what,
            EventKind::Context { .. } | EventKind::InitDone { .. }
        );
        let (from, to) = call_span(other);
        is_one && other.pid != done.pid && from <= until && to >= began
    })
}

/// When the call of an event began and ended. The stamp of `cuInit` is its end, that of a context its start.
fn call_span(event: &TraceEvent) -> (u64, u64) {
    let elapsed = event.elapsed_ns.unwrap_or(0);
    match event.what {
        EventKind::InitDone { .. } => (event.t_ns.saturating_sub(elapsed), event.t_ns),
        _ => (event.t_ns, event.t_ns.saturating_add(elapsed)),
    }
}

/// The memory of `cuInit` on GPUs without a later context.
fn memory<'a>(trace: &'a Trace, program: &ProgramHistory<'a>) -> Option<Clue<'a>> {
    let init = program.init()?;
    let returned = init.returned.filter(|_| init.has_succeeded());
    let mut read = [returned, init.begun.last().copied()].into_iter().flatten();
    let (index, event) = read.find(|(_, event)| !event.memory_bytes.is_empty())?;
    if !is_whole(trace) || is_beside_another(trace, event) {
        return None;
    }
    // On a GPU that the process does not see it takes nothing: that is somebody else's. Instances of MIG are no GPUs here.
    let seen = program.visible().unwrap_or_default();
    let is_seen_known = !seen.is_empty()
        && seen
            .iter()
            .all(|uuid| trace.gpu_index(Some(uuid)).is_some());
    let with_context: Vec<_> = program
        .contexts
        .iter()
        .map(|(_, life)| life.made.gpu.as_deref())
        .collect();
    let grown: Vec<(&str, i64)> = trace
        .start
        .gpus
        .iter()
        .zip(&event.memory_bytes)
        .filter_map(|(gpu, bytes)| Some((gpu.uuid.as_str(), (*bytes)?)))
        .filter(|(uuid, _)| !is_seen_known || seen.iter().any(|it| it == uuid))
        .filter(|(uuid, bytes)| {
            (LEAST_BYTES..CONTEXT_BYTES).contains(bytes) && !with_context.contains(&Some(*uuid))
        })
        .collect();
    let bytes: i64 = grown.iter().map(|(_, bytes)| bytes).sum();
    let mut clue = about("memory-of-init", index, event)?
        .with(
            "gpus",
            grown
                .iter()
                .map(|(uuid, _)| gpu_name(trace, Some(uuid)))
                .collect::<Vec<_>>(),
        )
        .with("bytes", bytes);
    clue.bytes = Some(bytes);
    match grown.as_slice() {
        [] => return None,
        [(uuid, _)] => clue.gpu = Some((*uuid).to_owned()),
        _ => {}
    }
    Some(clue)
}
