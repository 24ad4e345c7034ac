//! GPUs that hold contexts of several processes of the program, though each process could have its own GPU.

use std::collections::BTreeMap;

use super::super::clue::Clue;
use super::{about, context_bytes, gpu_name};
use crate::history::ProgramHistory;
use crate::{ContextLife, History, Trace};

/// The first context of one process on a GPU.
struct GpuHolder<'p, 'a> {
    program: &'p ProgramHistory<'a>,
    life: &'p ContextLife<'a>,
}

/// Returns a clue for each shared GPU and each launcher of its holders.
pub(super) fn shared_gpu_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    // A parent and its child usually share a GPU on purpose; ranks are siblings.
    let mut groups: BTreeMap<(&str, Option<u32>), Vec<GpuHolder<'_, 'a>>> = BTreeMap::new();
    for program in &history.programs {
        // A process without work needs no GPU at all: its contexts are stray, regardless of other processes.
        if program.process.is_none() || program.is_idle() {
            continue;
        }
        let launcher = history.launcher_pid(program);
        for life in program.gpus() {
            if let Some(gpu) = &life.created.gpu {
                let holders = groups.entry((gpu, launcher)).or_default();
                holders.push(GpuHolder { program, life });
            }
        }
    }
    let mut clues = Vec::new();
    for ((gpu, launcher), holders) in &groups {
        clues.extend(shared_gpu_clue(history, gpu, *launcher, holders));
    }
    clues
}

fn shared_gpu_clue<'a>(
    history: &History<'a>,
    gpu: &str,
    launcher: Option<u32>,
    all: &[GpuHolder<'_, 'a>],
) -> Option<Clue<'a>> {
    if all.len() < 2 {
        return None;
    }
    let grown = Grown::new(history.trace, gpu);
    let mut holders: Vec<&GpuHolder> = all.iter().collect();
    holders.retain(|one| all.iter().any(|other| is_beside(&grown, one, other)));
    let visible = holders
        .iter()
        .map(|holder| holder.program.visible().map(<[String]>::len));
    // None if it is unknown for one of them.
    let visible = visible.min()?;
    let siblings = count_siblings(history, launcher, &holders);
    let spare = spare_contexts(gpu, visible, &holders);
    let first = spare.first()?;
    let bytes = context_bytes(&spare);
    let mut clue = about("gpu-shared", first.event, first.created)?
        .with("gpu", gpu_name(history.trace, Some(gpu)))
        .with("processes", holders.len())
        .with("visible", visible)
        .with("one_each", visible.map(|visible| visible >= siblings))
        .with("others_idle", has_idle_gpu(history, &holders))
        .with("bytes", bytes);
    clue.events = spare.iter().map(|life| life.event).collect();
    clue.gpu = Some(gpu.to_owned());
    clue.bytes = bytes;
    Some(clue)
}

/// Returns the number of a launcher's programs that have contexts, do work, and may have run at the same time as one of
/// the holders.
fn count_siblings(
    history: &History<'_>,
    launcher: Option<u32>,
    holders: &[&GpuHolder<'_, '_>],
) -> usize {
    let siblings = history.programs.iter().filter(|other| {
        let is_worker = other.process.is_some() && !other.contexts.is_empty() && !other.is_idle();
        let mut programs = holders.iter().map(|holder| holder.program);
        is_worker
            && history.launcher_pid(other) == launcher
            && programs.any(|program| program.ran_beside(other))
    });
    siblings.count()
}

/// Returns the contexts that could have been on another GPU: those of processes with another GPU, preferably without
/// work here; otherwise as many as exceed an even distribution.
fn spare_contexts<'p, 'a>(
    gpu: &str,
    visible: Option<usize>,
    holders: &[&GpuHolder<'p, 'a>],
) -> Vec<&'p ContextLife<'a>> {
    let (mut idle, mut with_other) = (Vec::new(), Vec::new());
    for holder in holders {
        let mut gpus = holder.program.gpus().into_iter();
        if !gpus.any(|life| life.created.gpu.as_deref() != Some(gpu)) {
            continue;
        }
        with_other.push(holder.life);
        if holder.program.used(Some(gpu)) == Some(false) {
            idle.push(holder.life);
        }
    }
    if !idle.is_empty() {
        return idle;
    }
    if !with_other.is_empty() {
        return with_other;
    }
    let stay = holders.len().div_ceil(visible.unwrap_or(1).max(1));
    let spare = holders.iter().skip(stay);
    spare.map(|holder| holder.life).collect()
}

/// Returns `true` if one of the GPUs that all of these processes see has no context. None if the GPUs of a process are
/// not known.
fn has_idle_gpu(history: &History<'_>, holders: &[&GpuHolder<'_, '_>]) -> Option<bool> {
    let mut idle = holders.first()?.program.visible()?.to_vec();
    for holder in holders {
        let visible = holder.program.visible()?;
        idle.retain(|gpu| visible.contains(gpu));
    }
    for life in &history.contexts {
        idle.retain(|gpu| Some(gpu) != life.created.gpu.as_ref());
    }
    Some(!idle.is_empty())
}

/// Returns `true` if two processes had their contexts on a GPU at the same time.
fn is_beside(grown: &Grown, one: &GpuHolder<'_, '_>, other: &GpuHolder<'_, '_>) -> bool {
    if one.program.pid == other.program.pid {
        return false;
    }
    let (earlier, later) = if one.life.created.t_ns <= other.life.created.t_ns {
        (one, other)
    } else {
        (other, one)
    };
    let created_ns = later.life.created.t_ns;
    if let Some(ended) = earlier.life.ended {
        return ended.t_ns > created_ns;
    }
    if earlier.program.last_seen_ns() >= created_ns {
        return true;
    }
    // The trace has no end of a process, but a context exists as long as its memory is in use.
    let (Some(used), Some(bytes)) = (grown.before(created_ns), earlier.life.bytes) else {
        return false;
    };
    bytes > 0 && used >= bytes / 2
}

/// The memory of a GPU in use beyond that before the program began.
struct Grown {
    /// The memory before the program began; `None` if it was not read.
    start: Option<u64>,
    /// The readings, with their times, sorted by time.
    readings: Vec<(u64, u64)>,
}

impl Grown {
    fn new(trace: &Trace, gpu: &str) -> Grown {
        let index = trace.gpu_index(Some(gpu));
        let mut readings = Vec::new();
        for memory in &trace.memory {
            if Some(memory.index) == index {
                readings.push((memory.t_ns, memory.used_bytes));
            }
        }
        readings.sort_unstable();
        Grown {
            start: index.and_then(|index| trace.used_before(index)),
            readings,
        }
    }

    /// Returns the growth right before a time.
    fn before(&self, t_ns: u64) -> Option<i64> {
        let start = self.start?;
        let count = self.readings.partition_point(|(at, _)| *at < t_ns);
        let before = self.readings.get(..count)?;
        let used = before.last().map_or(start, |(_, used)| *used);
        let (used, start) = (i64::try_from(used).ok()?, i64::try_from(start).ok()?);
        Some(used.saturating_sub(start))
    }
}
