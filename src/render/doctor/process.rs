//! The observations of a running process, for users.

use std::path::Path;

use crate::block::Block;
use crate::writer::terminal::{PAGE, Screen, write};
use cuda_pitfalls_answers::doctor::{HeldGpu, MaskState, ProcessFindings};
use cuda_pitfalls_core::examination::ProcessExamination;
use cuda_pitfalls_core::text::counts::{counted, listed};
use cuda_pitfalls_core::text::units;

/// Returns the observations of a process and the findings, on lines of the width of `screen`.
pub fn text(
    seen: &ProcessExamination,
    found: &ProcessFindings,
    screen: impl Into<Screen>,
) -> String {
    let mask = match &found.mask {
        Some(mask) => mask_in_words(mask),
        None => "its variables cannot be read".to_string(),
    };
    let mut blocks = vec![
        Block::fact("Process", process_in_words(seen)),
        Block::fact("Mask", mask),
        Block::fact("CUDA", started_in_words(seen, found)),
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
    blocks.extend(gpu_blocks(seen, found));
    if let Some(folder) = &found.mps {
        let words = format!("control pipe in {folder}");
        blocks.push(Block::fact("MPS", words));
    }
    blocks.push(Block::Gap);
    let wrong = wrong(seen, found);
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
    write(&blocks, screen.into().at_most(PAGE))
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

/// Returns the memory of the process on each GPU, and where it is not known.
fn gpu_blocks(seen: &ProcessExamination, found: &ProcessFindings) -> Vec<Block> {
    let mut blocks = Vec::new();
    for held in &found.contexts {
        let memory = match held.used_bytes {
            Some(bytes) => units::bytes(bytes),
            None => "memory unknown".to_string(),
        };
        let busy = match held.busy_percent {
            Some(busy) => format!(", at most {busy} % busy in {} s", seen.watched_ms / 1000),
            None if seen.watched_ms > 0 => ", utilization unknown".to_string(),
            None => String::new(),
        };
        let words = format!("{memory}{busy}  {}", held.uuid);
        blocks.push(Block::fact(&format!("GPU {}", held.index), words));
    }
    blocks.extend(found.contexts.iter().filter_map(context_in_words));
    let Some(nvml) = &seen.nvml else {
        return blocks;
    };
    if nvml.gpus.is_empty() {
        let why = if let Some(call) = nvml.first_failure() {
            format!("{} returns {}", call.call, call.status)
        } else if let Some(missing) = &nvml.missing {
            missing.clone()
        } else if let Some(end) = &nvml.ended {
            end.by.clone()
        } else {
            "it reports no GPU".to_string()
        };
        let words = format!("unknown: NVML does not work here ({why})");
        blocks.push(Block::fact("GPUs", words));
        return blocks;
    }
    for (index, state) in nvml.gpus.iter().enumerate() {
        if state.reading.processes.is_none() {
            let (why, uuid) = (state.reading.errors.join(", "), &state.gpu.uuid);
            let words = format!("unknown: NVML does not list processes ({why})  {uuid}");
            blocks.push(Block::fact(&format!("GPU {index}"), words));
        }
    }
    if blocks.is_empty() {
        let none = "NVML lists it on no GPU, so no context of it is visible from here";
        blocks.push(Block::fact("GPUs", none));
    }
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

fn started_in_words(seen: &ProcessExamination, found: &ProcessFindings) -> String {
    let Some(opened) = &found.opened else {
        return "its open files cannot be read".to_string();
    };
    let names = opened.iter().map(|minor| {
        let uuid = seen
            .gpus
            .iter()
            .find(|gpu| gpu.device_minor == *minor)
            .and_then(|gpu| gpu.uuid.clone());
        uuid.map_or_else(
            || format!("/dev/nvidia{minor}"),
            |uuid| format!("/dev/nvidia{minor} ({uuid})"),
        )
    });
    match (found.is_started, opened.as_slice()) {
        (Some(true), []) => "the NVIDIA driver is open, but no GPU".to_string(),
        (Some(true), _) => format!("initialized with: {}", listed(names, "")),
        _ => "not initialized: no NVIDIA device file is open".to_string(),
    }
}

fn wrong(seen: &ProcessExamination, found: &ProcessFindings) -> Vec<String> {
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
            seen.watched_ms / 1000
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
        let module = seen.module_version.as_deref().unwrap_or_default();
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
    use cuda_pitfalls_answers::known::ContextCost;
    use cuda_pitfalls_core::examination::ProcessLibrary;

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
        assert!(text(&seen, &ProcessFindings::default(), 80).contains("\nlibnvidia-ml /nvml\n"));
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
        let told = |used_bytes| {
            let contexts = vec![HeldGpu {
                used_bytes,
                ..held.clone()
            }];
            let found = ProcessFindings {
                contexts,
                ..ProcessFindings::default()
            };
            let told = text(&ProcessExamination::default(), &found, 80);
            told.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(
            told(Some(600 << 20)).contains("to attribute the other 100 MiB to owners and lines")
        );
        assert!(told(Some(500 << 20)).contains("context size on NVIDIA H100 80GB HBM3"));
        assert!(
            !told(None).contains("context size"),
            "NVML does not say how much it has"
        );
    }
}
