//! GPUs on which several processes of the program have contexts, though there are GPUs for each.

use std::collections::BTreeMap;

use super::super::clue::Clue;
use super::{about, gpu_name, saturating_sum};
use crate::history::ProgramHistory;
use crate::{ContextLife, History, Trace};

/// The first context of one process on a GPU.
struct GpuHolder<'p, 'a> {
    program: &'p ProgramHistory<'a>,
    index: usize,
    life: &'p ContextLife<'a>,
}

/// A clue for each such GPU, and each launcher of its holders.
pub(super) fn shared_gpu_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    // A parent and its child usually share a GPU on purpose; ranks are siblings.
    let mut groups: BTreeMap<(&str, Option<u32>), Vec<GpuHolder<'_, 'a>>> = BTreeMap::new();
    for program in &history.programs {
        // One without work needs no GPU at all: its contexts are stray, whoever else is there.
        if program.process.is_none() || program.is_idle() {
            continue;
        }
        let launcher = history.launcher_pid(program);
        for (index, life) in program.gpus() {
            let Some(gpu) = life.made.gpu.as_deref() else {
                continue;
            };
            groups.entry((gpu, launcher)).or_default().push(GpuHolder {
                program,
                index,
                life,
            });
        }
    }
    groups
        .into_iter()
        .filter_map(|((gpu, launcher), holders)| shared_gpu_clue(history, gpu, launcher, &holders))
        .collect()
}

fn shared_gpu_clue<'a>(
    history: &History<'a>,
    gpu: &str,
    launcher: Option<u32>,
    all: &[GpuHolder<'_, 'a>],
) -> Option<Clue<'a>> {
    let trace = history.trace;
    if all.len() < 2 {
        return None;
    }
    let grown = Grown::new(trace, gpu);
    let holders: Vec<&GpuHolder> = all
        .iter()
        .filter(|one| all.iter().any(|other| is_beside(&grown, one, other)))
        .collect();
    let siblings = history.programs.iter().filter(|other| {
        let is_worker = other.process.is_some() && !other.contexts.is_empty() && !other.is_idle();
        is_worker
            && history.launcher_pid(other) == launcher
            && holders
                .iter()
                .any(|holder| holder.program.ran_beside(other))
    });
    let siblings = siblings.count();
    let visible = holders
        .iter()
        .map(|holder| holder.program.visible().map(<[String]>::len))
        .min()
        .flatten();
    // The stray context is that of a process with another GPU, if possible of one without work here.
    let has_other = |holder: &GpuHolder| {
        holder
            .program
            .gpus()
            .iter()
            .any(|(_, life)| life.made.gpu.as_deref() != Some(gpu))
    };
    let mut elsewhere: Vec<&&GpuHolder> = holders
        .iter()
        .filter(|it| has_other(it) && (it.program.used(Some(gpu)) == Some(false)))
        .collect();
    if elsewhere.is_empty() {
        elsewhere = holders.iter().filter(|it| has_other(it)).collect();
    }
    if elsewhere.is_empty() {
        // As many may stay as there would be if they were spread evenly.
        elsewhere = holders
            .iter()
            .skip(holders.len().div_ceil(visible.unwrap_or(1).max(1)))
            .collect();
    }
    let first = elsewhere.first()?;
    let bytes = saturating_sum(elsewhere.iter().map(|holder| holder.life.bytes));
    let mut clue = about("gpu-shared", first.index, first.life.made)?
        .with("gpu", gpu_name(trace, Some(gpu)))
        .with("processes", holders.len())
        .with("visible", visible)
        .with("one_each", visible.map(|visible| visible >= siblings))
        .with("others_idle", has_idle_gpu(history, &holders))
        .with("bytes", bytes);
    clue.events = elsewhere.iter().map(|holder| holder.index).collect();
    clue.gpu = Some(gpu.to_owned());
    clue.bytes = bytes;
    Some(clue)
}

/// Whether one of the GPUs that all of these processes see has no context. None if it is not known what they see.
fn has_idle_gpu(history: &History<'_>, holders: &[&GpuHolder<'_, '_>]) -> Option<bool> {
    let visible: Vec<&[String]> = holders
        .iter()
        .map(|holder| holder.program.visible())
        .collect::<Option<_>>()?;
    let with_context: Vec<&String> = history
        .contexts
        .iter()
        .filter_map(|life| life.made.gpu.as_ref())
        .collect();
    let mut seen_by_all = visible
        .first()?
        .iter()
        .filter(|gpu| visible.iter().all(|gpus| gpus.contains(gpu)));
    Some(seen_by_all.any(|gpu| !with_context.contains(&gpu)))
}

/// Whether two processes had their contexts on a GPU at the same time.
fn is_beside(grown: &Grown, one: &GpuHolder<'_, '_>, other: &GpuHolder<'_, '_>) -> bool {
    if one.program.pid == other.program.pid {
        return false;
    }
    let (earlier, later) = if one.life.made.t_ns <= other.life.made.t_ns {
        (one, other)
    } else {
        (other, one)
    };
    let made = later.life.made.t_ns;
    if let Some(ended) = earlier.life.ended {
        return ended.t_ns > made;
    }
    if earlier.program.last_seen_ns() >= made {
        return true;
    }
    // The trace has no end of a process, but a context exists as long as its memory is in use.
    let taken = grown.before(made).zip(earlier.life.bytes);
    taken.is_some_and(|(used, bytes)| bytes > 0 && used >= bytes / 2)
}

/// How much more memory of a GPU was in use than before the program began.
struct Grown {
    /// None if the memory was not read.
    start: Option<u64>,
    /// The readings, with their times, in the order of time.
    readings: Vec<(u64, u64)>,
}

impl Grown {
    fn new(trace: &Trace, gpu: &str) -> Grown {
        let index = trace.gpu_index(Some(gpu));
        let of_gpu = trace
            .memory
            .iter()
            .filter(|memory| Some(memory.index) == index);
        let mut readings: Vec<(u64, u64)> = of_gpu
            .map(|memory| (memory.t_ns, memory.used_bytes))
            .collect();
        readings.sort_unstable();
        Grown {
            start: index.and_then(|index| trace.start.used_bytes.get(index).copied().flatten()),
            readings,
        }
    }

    /// Right before a time.
    fn before(&self, t_ns: u64) -> Option<i64> {
        let start = self.start?;
        let count = self.readings.partition_point(|(at, _)| *at < t_ns);
        let used = count
            .checked_sub(1)
            .and_then(|last| self.readings.get(last))
            .map_or(start, |(_, used)| *used);
        Some(
            i64::try_from(used)
                .ok()?
                .saturating_sub(i64::try_from(start).ok()?),
        )
    }
}
