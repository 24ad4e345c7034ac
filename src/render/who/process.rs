//! The observations of a running process, for users.

use std::path::Path;

use super::{age, condition_in_words, kind_in_words, list_advice, place_in_words};
use crate::block::Block;
use crate::writer::terminal::{PAGE, Screen, write};
use cuda_pitfalls_answers::who::{
    GpuHolderProcess, HeldGpu, Holders, MaskState, ProcessFindings, Unseen,
};
use cuda_pitfalls_core::holding::{HolderScan, ProcessExamination};
use cuda_pitfalls_core::text::counts::{counted, listed};
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::text::units;

/// The longest command, in characters.
const LONGEST_COMMAND: usize = 400;

/// Returns everything that is known of one process, on lines of the width of `screen`.
pub fn text(
    found: &Holders,
    scan: &HolderScan,
    holder: &GpuHolderProcess,
    screen: impl Into<Screen>,
) -> String {
    let (Some(seen), Some(findings)) = (&holder.process, &holder.findings) else {
        let words = format!("{}: {}", holder.pid, kind_in_words(holder.kind));
        return write(&[Block::paragraph(words)], screen.into().at_most(PAGE));
    };
    let mut blocks = holder_blocks(found, holder, seen);
    blocks.extend(file_blocks(scan, seen, findings));
    blocks.extend(stack_blocks(holder));
    blocks.push(Block::Gap);
    let mut wrong = wrong(scan, findings);
    for words in list_advice(holder) {
        wrong.push(format!(
            "It {}.",
            words.strip_prefix("it ").unwrap_or(words)
        ));
    }
    blocks.push(if wrong.is_empty() {
        Block::paragraph("No problem is visible from outside.")
    } else {
        Block::list(wrong)
    });
    let unread = unread_parts(seen);
    if !unread.is_empty() {
        let why = "only the process owner or root may read it (check kernel.yama.ptrace_scope)";
        blocks.push(Block::paragraph(format!(
            "Not readable: {}; {why}.",
            unread.join(", ")
        )));
    }
    if let [Unseen::Nvml { why }, ..] = found.unseen.as_slice() {
        blocks.push(Block::paragraph(format!("NVML does not work here: {why}.")));
    }
    write(&blocks, screen.into().at_most(PAGE))
}

fn holder_blocks(
    found: &Holders,
    holder: &GpuHolderProcess,
    seen: &ProcessExamination,
) -> Vec<Block> {
    let mut blocks = vec![Block::fact("Process", process_in_words(seen))];
    if !seen.command.is_empty() {
        let command = seen
            .command
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        blocks.push(Block::fact(
            "Command",
            shorten_text(&command, LONGEST_COMMAND),
        ));
    }
    let mut kind = vec![kind_in_words(holder.kind).to_owned()];
    kind.extend(holder.conditions.iter().map(condition_in_words));
    blocks.push(Block::fact("Holds", kind.join("; ")));
    if let Some(place) = &holder.place {
        blocks.push(Block::fact("Belongs to", place_in_words(place)));
    }
    let ages = [
        ("Started", holder.started_unix_ms),
        ("CUDA", holder.cuda_since_unix_ms),
        ("Context", holder.context_since_unix_ms),
    ];
    for (name, since) in ages {
        if since.is_some() {
            blocks.push(Block::fact(name, format!("{} ago", age(found, since))));
        }
    }
    blocks
}

fn stack_blocks(holder: &GpuHolderProcess) -> Vec<Block> {
    let Some(stack) = &holder.stack else {
        return Vec::new();
    };
    if let Some(error) = &stack.error {
        return vec![Block::fact("Stack", error.as_str())];
    }
    let mut blocks = Vec::new();
    for (index, frame) in stack.frames.iter().enumerate() {
        let name = if index == 0 { "Stack" } else { "" };
        blocks.push(Block::fact(name, frame.as_str()));
    }
    blocks
}

/// Returns the mask, the GPUs and the libraries of the process.
fn file_blocks(
    scan: &HolderScan,
    seen: &ProcessExamination,
    found: &ProcessFindings,
) -> Vec<Block> {
    let mask = match &found.mask {
        Some(mask) => mask_in_words(mask),
        None => "its variables cannot be read".to_string(),
    };
    let mut blocks = vec![
        Block::fact("Mask", mask),
        Block::fact("GPUs open", started_in_words(scan, found)),
    ];
    for library in seen.libraries.iter().flatten() {
        let gone = if library.is_deleted {
            " (file deleted)"
        } else {
            ""
        };
        let path = format!("{}{gone}", library.path);
        blocks.push(Block::fact(&library.library, path));
    }
    blocks.extend(gpu_blocks(scan, found));
    if let Some(folder) = &found.mps {
        let words = format!("control pipe in {folder}");
        blocks.push(Block::fact("MPS", words));
    }
    blocks
}

/// Returns the process as text: `4711 (python3, user 1000, 12 threads)`.
fn process_in_words(seen: &ProcessExamination) -> String {
    let mut words = Vec::new();
    words.push(match Path::new(&seen.program).file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => String::new(),
    });
    if let Some(uid) = seen.uid {
        words.push(format!("user {uid}"));
    }
    if let Some(threads) = seen.threads {
        words.push(counted(threads as usize, "thread"));
    }
    format!("{} ({})", seen.pid, words.join(", "))
}

/// Returns the memory of the process on each GPU where NVML lists it.
fn gpu_blocks(scan: &HolderScan, found: &ProcessFindings) -> Vec<Block> {
    let mut blocks = Vec::new();
    for held in &found.contexts {
        let memory = match held.used_bytes {
            Some(bytes) => units::bytes(bytes),
            None => "memory unknown".to_string(),
        };
        let busy = match held.busy_percent {
            Some(busy) if scan.sampled_ms > 0 => {
                format!(", at most {busy} % busy in {} s", scan.sampled_ms / 1000)
            }
            Some(busy) => format!(", {busy} % busy lately"),
            None => ", utilization unknown".to_string(),
        };
        let words = format!("{memory}{busy}  {}", held.uuid);
        blocks.push(Block::fact(&format!("GPU {}", held.index), words));
    }
    blocks.extend(found.contexts.iter().filter_map(context_in_words));
    blocks
}

/// Returns the size of a process's context, and the command that shows the rest by owner.
fn context_in_words(held: &HeldGpu) -> Option<Block> {
    let (used, cost) = (held.used_bytes?, held.context.as_ref()?);
    let (context, rest) = (units::bytes(cost.bytes), used.saturating_sub(cost.bytes));
    let measured = format!(
        "context size on {}, driver {}: {context} (measured)",
        cost.gpu, cost.driver
    );
    let rest = match rest {
        0 => "so little else is allocated".to_owned(),
        rest => format!(
            "to attribute the other {} to owners and lines, run `cuda-pitfalls trace --memory -- COMMAND`",
            units::bytes(rest)
        ),
    };
    Some(Block::fact("", format!("{measured}; {rest}")))
}

fn mask_in_words(mask: &MaskState) -> String {
    let [at_start, now] = [&mask.at_start, &mask.now].map(|value| {
        value
            .as_ref()
            .map_or("not set".to_string(), |value| format!("\"{value}\""))
    });
    let start = format!("CUDA_VISIBLE_DEVICES was {at_start} at start");
    match (mask.is_now_known, mask.is_changed()) {
        (false, _) => format!("{start}; its current value cannot be read"),
        (true, false) => format!("{start} and is unchanged"),
        (true, true) => format!("{start} and is {now} now"),
    }
}

fn started_in_words(scan: &HolderScan, found: &ProcessFindings) -> String {
    let Some(opened) = &found.opened else {
        return "its open files cannot be read".to_string();
    };
    let names = opened.iter().map(|minor| {
        let uuid = scan
            .kernel_gpus
            .iter()
            .find(|gpu| gpu.device_minor == *minor)
            .and_then(|gpu| gpu.uuid.clone());
        uuid.map_or_else(
            || format!("/dev/nvidia{minor}"),
            |uuid| format!("/dev/nvidia{minor} ({uuid})"),
        )
    });
    listed(names, "none by CUDA")
}

fn wrong(scan: &HolderScan, found: &ProcessFindings) -> Vec<String> {
    let mut wrong = Vec::new();
    if found.is_mask_late {
        let opened = found.opened.as_ref().map_or(0, Vec::len);
        let now = found
            .mask
            .as_ref()
            .and_then(|mask| mask.now.clone())
            .unwrap_or_default();
        wrong.push(format!(
            "CUDA_VISIBLE_DEVICES became \"{now}\" too late: CUDA has {} open. Set it before the first call that reads \
             it; `cuda-pitfalls trace -- COMMAND` shows that line.",
            counted(opened, "GPU")
        ));
    }
    for stray in found.idle.iter().filter(|stray| stray.is_busy_elsewhere) {
        wrong.push(format!(
            "It has a context on GPU {} but did nothing there in {} s, while it worked on another GPU. `cuda-pitfalls trace -- COMMAND` shows the line that created it.",
            stray.index,
            scan.sampled_ms.max(10_000) / 1000
        ));
    }
    if !found.twice.is_empty() {
        let paths: Vec<&str> = found
            .twice
            .iter()
            .map(|library| library.path.as_str())
            .collect();
        wrong.push(format!(
            "The same library is loaded twice: {}. Each copy has its own state and mask.",
            paths.join(" and ")
        ));
    }
    for library in &found.of_other_version {
        let module = scan.module_version.as_deref().unwrap_or_default();
        wrong.push(format!(
            "{} does not match the kernel driver, which is {module}.",
            library.path
        ));
    }
    for file in &found.closed {
        let error = file.error.as_deref().unwrap_or_default();
        let then = match found.is_started {
            Some(true) => "existing contexts keep working, new ones fail",
            _ => "CUDA cannot start in it",
        };
        wrong.push(format!("It cannot open {} ({error}): {then}.", file.file));
    }
    wrong
}

fn unread_parts(seen: &ProcessExamination) -> Vec<&'static str> {
    let all = [
        (seen.started_with.is_none(), "its variables"),
        (
            seen.now.is_none() && seen.started_with.is_some(),
            "its current variables",
        ),
        (seen.libraries.is_none(), "its libraries"),
        (seen.open_files.is_none(), "its open files"),
    ];
    all.into_iter()
        .filter(|(is_unread, _)| *is_unread)
        .map(|(_, what)| what)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use cuda_pitfalls_answers::known::ContextCost;
    use cuda_pitfalls_answers::who::list_holders;
    use cuda_pitfalls_core::holding::ProcessLibrary;

    fn scan() -> HolderScan {
        let seed = include_bytes!("../../../tests/fuzz/corpus/holders/seed-simulated.json");
        serde_json::from_slice(seed).expect("a reading")
    }

    /// Returns the text about a process with these findings.
    fn told(seen: &ProcessExamination, findings: ProcessFindings) -> String {
        let scan = scan();
        let mut found = list_holders(&scan, &BTreeMap::new());
        found.holders[0].process = Some(seen.clone());
        found.holders[0].findings = Some(findings);
        text(&found, &scan, &found.holders[0], 80)
    }

    #[test]
    fn the_longest_name_of_a_library_does_not_touch_its_path() {
        let library = ProcessLibrary {
            library: "libnvidia-ml".into(),
            path: "/nvml".into(),
            is_deleted: false,
        };
        let seen = ProcessExamination {
            libraries: Some(vec![library]),
            ..ProcessExamination::default()
        };
        let text = told(&seen, ProcessFindings::default());
        assert!(text.contains("\nlibnvidia-ml /nvml\n"), "{text}");
    }

    #[test]
    fn of_the_memory_of_a_process_its_context_is_told_and_no_more_is_guessed() {
        let (gpu, driver) = ("NVIDIA H100 80GB HBM3".to_owned(), "580.159.04".to_owned());
        let context = Some(ContextCost {
            gpu,
            driver,
            bytes: 500 << 20,
            calibrations: 3,
        });
        let held = HeldGpu {
            index: 0,
            device_minor: None,
            uuid: "GPU-1".into(),
            used_bytes: Some(600 << 20),
            context,
            busy_percent: None,
        };
        for (used_bytes, says) in [
            (
                Some(600 << 20),
                "to attribute the other 100 MiB to owners and lines",
            ),
            (Some(500 << 20), "context size on NVIDIA H100 80GB HBM3"),
            // NVML does not say how much it has.
            (None, ""),
        ] {
            let contexts = vec![HeldGpu {
                used_bytes,
                ..held.clone()
            }];
            let findings = ProcessFindings {
                contexts,
                ..ProcessFindings::default()
            };
            let text = told(&ProcessExamination::default(), findings);
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(says), "{words}");
            assert_eq!(words.contains("context size"), !says.is_empty(), "{words}");
        }
    }
}
