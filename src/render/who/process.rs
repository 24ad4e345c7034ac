//! The observations of a running process, for users.

use std::collections::BTreeMap;

use super::words::{describe_condition, describe_kind, list_advice, place_in_words};
use super::{age, format_bytes};
use crate::block::Block;
use crate::writer::terminal::{PAGE, Screen, write};
use cuda_pitfalls_answers::known::Known;
use cuda_pitfalls_answers::who::{
    GpuHolderProcess, HolderMemory, Holders, Unseen, is_opened_by_cuda,
};
use cuda_pitfalls_core::holding::ProcessExamination;
use cuda_pitfalls_core::scenario::environment::MASK;
use cuda_pitfalls_core::text::counts::{counted, listed};
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::text::redact::file_name;
use cuda_pitfalls_core::text::units;

/// The longest command, in characters.
const LONGEST_COMMAND: usize = 400;

/// Returns everything that is known of one process, on lines of the width of `screen`.
pub fn text(found: &Holders, holder: &GpuHolderProcess, screen: impl Into<Screen>) -> String {
    let mut blocks = Vec::new();
    match &holder.process {
        Some(seen) => {
            blocks.extend(holder_blocks(found, holder, seen));
            blocks.push(Block::Gap);
            blocks.extend(problem_blocks(holder, seen));
        }
        None => {
            let words = format!("{}: {}", holder.pid, describe_kind(holder.kind).0);
            blocks.push(Block::paragraph(words));
        }
    }
    if let [nvml @ Unseen::Nvml { .. }, ..] = found.unseen.as_slice() {
        blocks.push(Block::paragraph(format!("{nvml}.")));
    }
    write(&blocks, screen.into().at_most(PAGE))
}

fn holder_blocks(
    found: &Holders,
    holder: &GpuHolderProcess,
    seen: &ProcessExamination,
) -> Vec<Block> {
    let mut facts = vec![("Process", process_in_words(seen))];
    let command: Vec<&str> = seen.command.split_whitespace().collect();
    if !command.is_empty() {
        let command = shorten_text(&command.join(" "), LONGEST_COMMAND);
        facts.push(("Command", command));
    }
    let mut kind = vec![describe_kind(holder.kind).0.to_owned()];
    for condition in &holder.conditions {
        kind.push(describe_condition(condition).0);
    }
    facts.push(("Holds", kind.join("; ")));
    if let Some(place) = &holder.place {
        facts.push(("Belongs to", place_in_words(place)));
    }
    let ages = [
        ("Started", holder.started_unix_ms),
        ("CUDA", holder.cuda_since_unix_ms),
        ("Context", holder.context_since_unix_ms),
    ];
    for (name, since) in ages {
        if since.is_some() {
            facts.push((name, format!("{} ago", age(found, since))));
        }
    }
    facts.push(("Mask", mask_in_words(seen)));
    facts.push(("GPUs open", opened_in_words(seen)));
    for library in seen.libraries.iter().flatten() {
        let gone = if library.is_deleted {
            " (file deleted)"
        } else {
            ""
        };
        facts.push((&library.library, format!("{}{gone}", library.path)));
    }
    for memory in &holder.memory {
        facts.push(("Memory", memory_in_words(found, memory)));
    }
    if let Some(folder) = &seen.mps_folder {
        facts.push(("MPS", format!("control pipe in {folder}")));
    }
    if let Some(stack) = &seen.stack {
        let lines = stack.error.iter().chain(&stack.frames);
        for (index, line) in lines.enumerate() {
            facts.push((if index == 0 { "Stack" } else { "" }, line.clone()));
        }
    }
    let blocks = facts.into_iter();
    blocks
        .map(|(name, words)| Block::fact(name, words))
        .collect()
}

/// Returns the problems of a process, and the parts of it that could not be read.
fn problem_blocks(holder: &GpuHolderProcess, seen: &ProcessExamination) -> Vec<Block> {
    let mut wrong = Vec::new();
    for problem in &holder.problems {
        wrong.push(format!("{problem}."));
    }
    for words in list_advice(holder) {
        wrong.push(format!("It {words}."));
    }
    let mut blocks = vec![if wrong.is_empty() {
        Block::paragraph("No problem is visible from outside.")
    } else {
        Block::list(wrong)
    }];
    let has_start = seen.started_with.is_some();
    let mut unread = Vec::new();
    for (is_read, what) in [
        (has_start, "its variables"),
        (!has_start || seen.now.is_some(), "its current variables"),
        (seen.libraries.is_some(), "its libraries"),
        (seen.open_files.is_some(), "its open files"),
    ] {
        if !is_read {
            unread.push(what);
        }
    }
    if !unread.is_empty() {
        let parts = unread.join(", ");
        blocks.push(Block::paragraph(format!(
            "Not readable: {parts}; only the process owner or root may read it (check kernel.yama.ptrace_scope)."
        )));
    }
    blocks
}

/// Returns the process as text: `4711 (python3, user 1000, 12 threads)`.
fn process_in_words(seen: &ProcessExamination) -> String {
    let mut words = vec![file_name(&seen.program)];
    words.extend(seen.uid.map(|uid| format!("user {uid}")));
    words.extend(seen.threads.map(|threads| counted(threads, "thread")));
    format!("{} ({})", seen.pid, words.join(", "))
}

/// Returns the memory of the process on a GPU where NVML lists it.
fn memory_in_words(found: &Holders, held: &HolderMemory) -> String {
    let mut words = format!("{} on GPU {}", format_bytes(held.used_bytes), held.gpu);
    words += &match held.busy_percent {
        Some(busy) => {
            let seconds = found.watched_ms / 1000;
            format!(", at most {busy} % busy in {seconds} s")
        }
        None => ", utilization unknown".to_owned(),
    };
    let gpu = found.gpus.get(held.gpu);
    if let Some(name) = gpu.and_then(|gpu| gpu.name.as_ref())
        && let Some(cost) = Known::embedded().context_on(name)
        && held.used_bytes.is_some()
    {
        let context = units::bytes(cost.bytes);
        let driver = &cost.driver;
        words += &format!(" (one context uses {context} on {name}, driver {driver})");
    }
    words
}

fn mask_in_words(seen: &ProcessExamination) -> String {
    let Some(started_with) = &seen.started_with else {
        return "its variables cannot be read".to_owned();
    };
    let at_start = quote_mask(started_with);
    let start = format!("CUDA_VISIBLE_DEVICES was {at_start} at start");
    match seen.now.as_ref().map(quote_mask) {
        None => format!("{start}; its current value cannot be read"),
        Some(now) if now == at_start => format!("{start} and is unchanged"),
        Some(now) => format!("{start} and is {now} now"),
    }
}

fn quote_mask(variables: &BTreeMap<String, String>) -> String {
    match variables.get(MASK) {
        Some(value) => format!("\"{value}\""),
        None => "not set".to_owned(),
    }
}

fn opened_in_words(seen: &ProcessExamination) -> String {
    match &seen.open_files {
        Some(files) => {
            let opened = files.iter().filter(is_opened_by_cuda);
            listed(opened.map(|(file, _)| file), "none by CUDA")
        }
        None => "its open files cannot be read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use cuda_pitfalls_answers::who::list_holders;
    use cuda_pitfalls_core::holding::ProcessLibrary;

    fn found() -> Holders {
        let seed = include_bytes!("../../../tests/fuzz/corpus/holders/seed-simulated.json");
        let scan = serde_json::from_slice(seed).expect("a reading");
        list_holders(&scan)
    }

    #[test]
    fn longest_library_name_does_not_touch_its_path() {
        let library = ProcessLibrary {
            library: "libnvidia-ml".into(),
            path: "/nvml".into(),
            is_deleted: false,
        };
        let mut found = found();
        found.holders[0].process = Some(ProcessExamination {
            libraries: Some(vec![library]),
            ..ProcessExamination::default()
        });
        let text = text(&found, &found.holders[0], 80);
        assert!(text.contains("\nlibnvidia-ml /nvml\n"), "{text}");
    }

    #[test]
    fn size_of_a_context_is_said_where_it_was_measured() {
        let mut found = found();
        for (name, used_bytes, is_said) in [
            ("NVIDIA H100 80GB HBM3", Some(600 << 20), true),
            ("NVIDIA H100 80GB HBM3", None, false),
            ("another GPU", Some(600 << 20), false),
        ] {
            found.gpus[0].name = Some(name.to_owned());
            let held = HolderMemory {
                gpu: 0,
                used_bytes,
                busy_percent: None,
            };
            let words = memory_in_words(&found, &held);
            assert_eq!(words.contains("one context uses"), is_said, "{words}");
        }
    }
}
