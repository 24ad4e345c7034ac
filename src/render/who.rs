//! The holders of the GPUs: a table for each GPU, one process in full, and metrics.

mod process;

pub use process::text as process_text;

use std::collections::BTreeMap;

use crate::block::{Block, Table};
use crate::machine::prometheus::{Metric, Sample, write_metrics};
use crate::writer::terminal::{PAGE, Screen, write};
use cuda_pitfalls_answers::who::{
    Condition, GpuHolderProcess, GpuMemoryAccount, HolderKind, HolderPlace, Holders, PlaceKind,
};
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::text::redact::file_name;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::Provenance;

/// The longest command in a table, in characters.
const LONGEST_COMMAND: usize = 60;

/// Returns the holders of every GPU, on lines of the width of `screen`.
pub fn text(found: &Holders, screen: impl Into<Screen>) -> String {
    let mut blocks = Vec::new();
    if found.provenance == Provenance::Simulated {
        blocks.push(Block::Banner(SIMULATED.to_owned()));
    }
    for gpu in &found.gpus {
        blocks.extend(gpu_blocks(found, gpu));
    }
    let mut rows = Vec::new();
    for holder in &found.holders {
        if holder.memory.is_empty() {
            rows.push(idle_row(found, holder));
        }
    }
    if !rows.is_empty() {
        blocks.push(Block::heading(2, "On no list of NVML"));
        let columns = ["PID", "User", "CUDA for", "GPUs open", "Process"];
        blocks.push(Block::Table(Table::new(columns, rows)));
    }
    blocks.extend(advice_blocks(found));
    blocks.extend(policy_blocks(found));
    if !found.unseen.is_empty() {
        blocks.push(Block::heading(2, "Not seen"));
        blocks.push(Block::list(
            found.unseen.iter().map(|unseen| unseen.words()),
        ));
    }
    write(&blocks, screen.into().at_most(PAGE))
}

const SIMULATED: &str = "SIMULATED machine: these are not the holders of a real GPU.";

fn gpu_blocks(found: &Holders, gpu: &GpuMemoryAccount) -> Vec<Block> {
    let name = gpu.name.as_deref().unwrap_or("GPU");
    let used = gpu.used_bytes.map_or("unknown".to_owned(), units::bytes);
    let total = gpu.total_bytes.map_or("unknown".to_owned(), units::bytes);
    let title = format!(
        "GPU {}  {name}, {used} of {total} in use  {}",
        gpu.index, gpu.uuid
    );
    let mut blocks = vec![Block::heading(2, title)];
    let mut rows = Vec::new();
    for holder in &found.holders {
        for memory in &holder.memory {
            if memory.gpu == gpu.index {
                rows.push(holder_row(found, holder, memory.used_bytes));
            }
        }
    }
    if rows.is_empty() {
        blocks.push(Block::paragraph("NVML lists no process."));
    } else {
        let columns = [
            "PID",
            "User",
            "Memory",
            "CUDA for",
            "Context for",
            "Process",
        ];
        blocks.push(Block::Table(Table::new(columns, rows)));
    }
    blocks.extend(rest_block(gpu));
    blocks
}

/// Returns the memory that no process owns.
fn rest_block(gpu: &GpuMemoryAccount) -> Option<Block> {
    let mut parts = Vec::new();
    if gpu.driver_bytes > 0 {
        parts.push(format!("{} driver", units::bytes(gpu.driver_bytes)));
    }
    match gpu.unowned_bytes {
        Some(0) => {}
        None => parts.push("unknown: the memory of a process".to_owned()),
        Some(bytes) => {
            let keepers = match gpu.keepers.as_slice() {
                [] => "in another PID namespace, hidden, or exported and still open".to_owned(),
                [pid] => format!("may be kept by {pid}"),
                several => format!("may be kept by {}", listed(several, "")),
            };
            parts.push(format!(
                "{} no visible process ({keepers})",
                units::bytes(bytes)
            ));
        }
    }
    (!parts.is_empty()).then(|| Block::paragraph(format!("Rest: {}.", parts.join(", "))))
}

fn holder_row(found: &Holders, holder: &GpuHolderProcess, bytes: Option<u64>) -> Vec<String> {
    vec![
        holder.pid.to_string(),
        holder.user.clone().unwrap_or_default(),
        bytes.map_or("unknown".to_owned(), units::bytes),
        cuda_age(found, holder),
        age(found, holder.context_since_unix_ms),
        process_in_words(holder),
    ]
}

fn idle_row(found: &Holders, holder: &GpuHolderProcess) -> Vec<String> {
    let opened = match &holder.opened_gpus {
        Some(opened) => listed(opened, ""),
        None => "unknown".to_owned(),
    };
    vec![
        holder.pid.to_string(),
        holder.user.clone().unwrap_or_default(),
        cuda_age(found, holder),
        opened,
        process_in_words(holder),
    ]
}

/// Returns the time since `cuInit`; with `≤` if it may have been called later.
fn cuda_age(found: &Holders, holder: &GpuHolderProcess) -> String {
    let age = age(found, holder.cuda_since_unix_ms);
    if age.is_empty() || holder.is_cuda_since_exact {
        age
    } else {
        format!("≤ {age}")
    }
}

fn age(found: &Holders, since_unix_ms: Option<u64>) -> String {
    match since_unix_ms {
        Some(since) => units::format_age(found.read_unix_ms.saturating_sub(since)),
        None => String::new(),
    }
}

/// Returns the command of a holder, and everything that is not usual of it.
fn process_in_words(holder: &GpuHolderProcess) -> String {
    let mut parts = Vec::new();
    if let Some(process) = &holder.process {
        let command = short_command(&process.command, &process.program);
        parts.push(shorten_text(&command, LONGEST_COMMAND));
    }
    if holder.kind != HolderKind::Context {
        parts.push(kind_in_words(holder.kind).to_owned());
    }
    for condition in &holder.conditions {
        parts.push(condition_in_words(condition));
    }
    parts.extend(holder.place.as_ref().map(place_in_words));
    let line = holder
        .stack
        .as_ref()
        .and_then(|stack| stack.user_line.as_ref());
    parts.extend(line.map(|line| format!("at {line}")));
    parts.join("; ")
}

/// Returns the command line without the directory of its program.
fn short_command(command: &str, program: &str) -> String {
    let line = if command.is_empty() { program } else { command };
    let mut words = line.split_whitespace();
    let mut short = file_name(words.next().unwrap_or_default());
    for word in words {
        short.push(' ');
        short.push_str(word);
    }
    short
}

/// Returns a kind of holder as a person reads it.
pub(crate) fn kind_in_words(kind: HolderKind) -> &'static str {
    match kind {
        HolderKind::Context => "uses CUDA",
        HolderKind::MpsClient => "MPS client",
        HolderKind::MpsServer => "MPS server",
        HolderKind::Listed => "uses the GPU; its files could not be read",
        HolderKind::Graphics => "graphics",
        HolderKind::Initialized => "initialized CUDA, no context",
        HolderKind::InitializedOrNvml => "initialized CUDA or reads NVML",
        HolderKind::Inherited => "forked from a CUDA process",
        HolderKind::Checkpointed => "checkpointed",
        HolderKind::DescriptorOnly => "only a descriptor of the driver",
        HolderKind::Ended => "ended; its memory is still in use",
        HolderKind::Invisible => "not visible here",
        HolderKind::NvmlOnly => "reads NVML",
        HolderKind::Unrelated => "uses no GPU",
    }
}

fn condition_in_words(condition: &Condition) -> String {
    match condition {
        Condition::Idle { for_ms } => format!("no work for {}", units::format_age(*for_ms)),
        Condition::Orphan => "orphan".to_owned(),
        Condition::Stopped => "stopped".to_owned(),
        Condition::Unkillable => "waits in the kernel".to_owned(),
        Condition::Zombie => "zombie".to_owned(),
        Condition::Keeps { pid } => format!("may keep the memory of {pid}"),
        Condition::MaskChanged => "mask changed after start".to_owned(),
    }
}

fn place_in_words(place: &HolderPlace) -> String {
    let kind = match place.kind {
        PlaceKind::Pod => "pod",
        PlaceKind::Container => "container",
        PlaceKind::Job => "job",
        PlaceKind::Service => "service",
    };
    let claimed = if place.is_claimed {
        " (by its environment)"
    } else {
        ""
    };
    format!("{kind} {}{claimed}", place.id)
}

/// Returns what to do about a kind of holder; `None` if there is nothing to do.
fn kind_advice(kind: HolderKind) -> Option<&'static str> {
    Some(match kind {
        HolderKind::Initialized => {
            "has initialized CUDA and has no context: there is no memory to free; its first CUDA work creates a context"
        }
        HolderKind::Inherited => {
            "was forked after CUDA was initialized: CUDA fails in it, and its descriptors keep its parent's memory in use \
             after the parent's end; use spawn, or end it"
        }
        HolderKind::Checkpointed => {
            "is suspended by a checkpoint: its GPU memory is in host memory until cuda-checkpoint restores it"
        }
        HolderKind::DescriptorOnly => {
            "holds a descriptor of the driver: memory that another process exported may stay in use until it ends"
        }
        HolderKind::Ended => {
            "has ended, but another process has its descriptors: end that one (a forked child, a resource tracker)"
        }
        HolderKind::Invisible => {
            "runs in another PID namespace: run `who` on the host as root, or with --pid=host"
        }
        HolderKind::Listed | HolderKind::InitializedOrNvml => {
            "belongs to another user: run `who` as root to see more of it"
        }
        _ => return None,
    })
}

fn condition_advice(condition: &Condition) -> Option<&'static str> {
    Some(match condition {
        Condition::Orphan => "has lost its parent: if nothing waits for it, end it with `kill PID`",
        Condition::Stopped => {
            "is stopped, with all its memory: `kill -CONT PID` continues it, `kill -KILL PID` ends it"
        }
        Condition::Unkillable => {
            "waits in the kernel: look for Xid messages in `dmesg`; only a reboot may end it"
        }
        Condition::Zombie => "has ended, and its parent has not waited for it: end the parent",
        Condition::MaskChanged => {
            "changed CUDA_VISIBLE_DEVICES after its start: `who PID` shows whether this was too late"
        }
        Condition::Idle { .. } | Condition::Keeps { .. } => return None,
    })
}

/// Returns what to do about a holder.
fn list_advice(holder: &GpuHolderProcess) -> Vec<&'static str> {
    let mut advice = Vec::new();
    advice.extend(kind_advice(holder.kind));
    advice.extend(holder.conditions.iter().filter_map(condition_advice));
    advice
}

fn advice_blocks(found: &Holders) -> Vec<Block> {
    let mut advice: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for holder in &found.holders {
        for words in list_advice(holder) {
            advice.entry(words).or_default().push(holder.pid);
        }
    }
    if advice.is_empty() {
        return Vec::new();
    }
    let mut items = Vec::new();
    for (words, pids) in advice {
        items.push(format!("{}: {words}.", listed(pids, "")));
    }
    vec![Block::heading(2, "What to do"), Block::list(items)]
}

fn policy_blocks(found: &Holders) -> Vec<Block> {
    let Some(policy) = &found.policy else {
        return Vec::new();
    };
    let mut items = Vec::new();
    for violation in &policy.violations {
        items.push(format!(
            "{}: violated: {}",
            violation.forbidden, violation.says
        ));
    }
    for why in &policy.undecided {
        items.push(format!("undecided: {why}"));
    }
    if items.is_empty() {
        items.push("kept: nothing forbidden was found".to_owned());
    }
    vec![Block::heading(2, "Policy"), Block::list(items)]
}

const METRICS: &[Metric] = &[
    (
        "who_used_bytes",
        "Used memory of a GPU, without the driver's reserve.",
    ),
    (
        "who_listed_bytes",
        "Memory of the processes that NVML lists on a GPU.",
    ),
    (
        "who_unowned_bytes",
        "Memory of a GPU that no visible process owns.",
    ),
    ("who_holders", "Holders by kind."),
    ("who_orphans", "Holders whose parent is gone."),
    (
        "who_unseen",
        "1 if holders may be missing, because not everything could be read.",
    ),
    ("who_time_seconds", "Time of the reading."),
];

/// Returns the holders for the textfile collector of a Prometheus node exporter. No label has a text that a process
/// chooses.
pub fn prometheus(found: &Holders) -> String {
    let mut samples = Vec::new();
    for gpu in &found.gpus {
        let figures = [
            ("who_used_bytes", gpu.used_bytes),
            ("who_listed_bytes", gpu.listed_bytes),
            ("who_unowned_bytes", gpu.unowned_bytes),
        ];
        for (metric, value) in figures {
            if let Some(value) = value {
                samples.push(Sample::new(metric, vec![("gpu", gpu.uuid.clone())], value));
            }
        }
    }
    let mut kinds: BTreeMap<HolderKind, usize> = BTreeMap::new();
    let mut orphans = 0;
    for holder in &found.holders {
        *kinds.entry(holder.kind).or_default() += 1;
        orphans += usize::from(holder.conditions.contains(&Condition::Orphan));
    }
    for (kind, count) in kinds {
        let labels = vec![("kind", kind_in_words(kind).to_owned())];
        samples.push(Sample::new("who_holders", labels, count));
    }
    samples.push(Sample::figure("who_orphans", orphans));
    samples.push(Sample::figure(
        "who_unseen",
        u8::from(!found.unseen.is_empty()),
    ));
    samples.push(Sample::figure(
        "who_time_seconds",
        found.read_unix_ms / 1000,
    ));
    write_metrics(METRICS, &samples.iter().collect::<Vec<_>>())
}
