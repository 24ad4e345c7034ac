//! The holders of the GPUs: a table for each GPU, one process in full, and metrics.

mod process;
mod words;

pub use process::text as process_text;

use std::collections::BTreeMap;

use self::words::{describe_condition, describe_kind, list_advice, place_in_words};
use crate::block::{Block, Table};
use crate::machine::prometheus::{Metric, Sample, write_metrics};
use crate::writer::terminal::{PAGE, Screen, write};
use cuda_pitfalls_answers::who::{
    Condition, GpuHolderProcess, GpuMemoryAccount, HolderKind, Holders, Unseen,
};
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::text::redact::file_name;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::Provenance;

/// The longest command in a table, in characters.
const LONGEST_COMMAND: usize = 60;

const SIMULATED: &str = "SIMULATED machine: these are not the holders of a real GPU.";

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
            let opened = match &holder.opened_gpus {
                Some(opened) => listed(opened, ""),
                None => "unknown".to_owned(),
            };
            rows.push(holder_row(holder, [cuda_age(found, holder), opened]));
        }
    }
    if !rows.is_empty() {
        blocks.push(Block::heading(2, "On no list of NVML"));
        let columns = ["PID", "User", "CUDA for", "GPUs open", "Process"];
        blocks.push(Block::Table(Table::new(columns, rows)));
    }
    let lists = [
        ("What to do", advice_lines(found)),
        ("Policy", policy_lines(found)),
        (
            "Not seen",
            found.unseen.iter().map(Unseen::to_string).collect(),
        ),
    ];
    for (title, items) in lists {
        if !items.is_empty() {
            blocks.extend([Block::heading(2, title), Block::list(items)]);
        }
    }
    write(&blocks, screen.into().at_most(PAGE))
}

fn gpu_blocks(found: &Holders, gpu: &GpuMemoryAccount) -> Vec<Block> {
    let name = gpu.name.as_deref().unwrap_or("GPU");
    let memory = match (gpu.used_bytes, gpu.total_bytes) {
        (Some(used), Some(total)) => {
            let [used, total] = [used, total].map(units::bytes);
            format!("{used} of {total} in use")
        }
        (Some(used), None) => format!("{} in use", units::bytes(used)),
        (None, _) => "does not report its memory".to_owned(),
    };
    let title = format!("GPU {}  {name}, {memory}  {}", gpu.index, gpu.uuid);
    let mut blocks = vec![Block::heading(2, title)];
    let mut rows = Vec::new();
    for holder in &found.holders {
        for memory in &holder.memory {
            if memory.gpu == gpu.index {
                let bytes = format_bytes(memory.used_bytes);
                let context = age(found, holder.context_since_unix_ms);
                rows.push(holder_row(
                    holder,
                    [bytes, cuda_age(found, holder), context],
                ));
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
    gpu.used_bytes?;
    let mut parts = Vec::new();
    if gpu.driver_bytes > 0 {
        parts.push(format!("{} driver", units::bytes(gpu.driver_bytes)));
    }
    match gpu.unowned_bytes {
        Some(0) => {}
        None if gpu.is_stable => parts.push("unknown: the memory of a process".to_owned()),
        None => parts.push("unknown: each reading shows another memory".to_owned()),
        Some(bytes) => {
            let keepers = match gpu.keepers.as_slice() {
                [] => "in another PID namespace, hidden, or exported and still open".to_owned(),
                several => format!("may be kept by {}", listed(several, "")),
            };
            let size = units::bytes(bytes);
            parts.push(format!("{size} no visible process ({keepers})"));
        }
    }
    (!parts.is_empty()).then(|| Block::paragraph(format!("Rest: {}.", parts.join(", "))))
}

fn holder_row<const N: usize>(holder: &GpuHolderProcess, cells: [String; N]) -> Vec<String> {
    let mut row = vec![
        holder.pid.to_string(),
        holder.user.clone().unwrap_or_default(),
    ];
    row.extend(cells);
    row.push(process_in_words(holder));
    row
}

fn format_bytes(bytes: Option<u64>) -> String {
    bytes.map_or("unknown".to_owned(), units::bytes)
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
        parts.push(describe_kind(holder.kind).0.to_owned());
    }
    for condition in &holder.conditions {
        parts.push(describe_condition(condition).0);
    }
    parts.extend(holder.place.as_ref().map(place_in_words));
    let process = holder.process.as_ref();
    if let Some(stack) = process.and_then(|process| process.stack.as_ref())
        && let Some(line) = &stack.user_line
    {
        parts.push(format!("at {line}"));
    }
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

/// Returns what to do about the holders.
fn advice_lines(found: &Holders) -> Vec<String> {
    let mut advice: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for holder in &found.holders {
        for words in list_advice(holder) {
            advice.entry(words).or_default().push(holder.pid);
        }
    }
    let lines = advice.into_iter();
    let lines = lines.map(|(words, pids)| format!("{}: {words}.", listed(pids, "")));
    lines.collect()
}

fn policy_lines(found: &Holders) -> Vec<String> {
    let Some(policy) = &found.policy else {
        return Vec::new();
    };
    let mut items = Vec::new();
    for violation in &policy.violations {
        let (forbidden, says) = (&violation.forbidden, &violation.says);
        items.push(format!("{forbidden}: violated: {says}"));
    }
    for why in &policy.undecided {
        items.push(format!("undecided: {why}"));
    }
    if items.is_empty() {
        items.push("kept: nothing forbidden was found".to_owned());
    }
    items
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
        let labels = vec![("kind", describe_kind(kind).0.to_owned())];
        samples.push(Sample::new("who_holders", labels, count));
    }
    let is_blind = u64::from(!found.unseen.is_empty());
    samples.extend([
        Sample::figure("who_orphans", orphans),
        Sample::figure("who_unseen", is_blind),
        Sample::figure("who_time_seconds", found.read_unix_ms / 1000),
    ]);
    write_metrics(METRICS, &samples.iter().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    use cuda_pitfalls_answers::who::list_holders;

    #[test]
    fn memory_that_is_unknown_is_said_with_its_reason() {
        let seed = include_bytes!("../../tests/fuzz/corpus/holders/seed-simulated.json");
        let scan = serde_json::from_slice(seed).expect("a reading");
        let mut found = list_holders(&scan);
        let gpu = &mut found.gpus[0];
        (gpu.is_stable, gpu.unowned_bytes) = (false, None);
        let unstable = text(&found, 80);
        let words = "unknown: each reading shows another memory.";
        assert!(unstable.contains(words), "{unstable}");
        found.gpus.truncate(1);
        found.gpus[0].used_bytes = None;
        let shared = text(&found, 200);
        assert!(
            shared.contains(", does not report its memory  "),
            "{shared}"
        );
        assert!(!shared.contains("Rest:"), "{shared}");
    }
}
