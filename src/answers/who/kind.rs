//! What a process is to CUDA, from what its files show. The figures were measured on H100 and H200 with driver
//! 580.159.04 (docs/who.md has the table).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{GpuHolderProcess, HolderMemory, count_contexts};
use cuda_pitfalls_core::holding::{
    AbsentProcess, DriverThreadKind, HolderScan, ProcessExamination,
};
use cuda_pitfalls_core::scenario::environment::MASK;

/// The least number of descriptors of a GPU's device file in a process that has initialized CUDA: it has four, and one
/// that only reads NVML has one.
pub(super) const INITIALIZED_FILES: u64 = 4;
/// The least number in a process with a context: it has twenty, a client of MPS has sixteen, and one that has
/// initialized CUDA and reads NVML has seven.
const CONTEXT_FILES: u64 = 12;

/// What a process is to CUDA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HolderKind {
    /// The process has a context.
    Context,
    /// A client of an MPS server.
    MpsClient,
    /// The MPS server, or its control daemon.
    MpsServer,
    /// NVML lists it, and nothing else is known of it: its files may not be read.
    Listed,
    /// A graphics process without CUDA.
    Graphics,
    /// The process has initialized CUDA, and has no context.
    Initialized,
    /// The process has a thread of the driver, and its files may not be read.
    InitializedOrNvml,
    /// The process was forked by one that used CUDA. It has its parent's descriptors, and cannot use CUDA.
    Inherited,
    /// The process was suspended by a checkpoint, and has no memory on a GPU.
    Checkpointed,
    /// The process has a descriptor of the driver, and nothing else: another process may have sent it memory.
    DescriptorOnly,
    /// The process has ended, and NVML still lists its memory.
    Ended,
    /// NVML lists it, and it is not visible here: in another PID namespace, or hidden.
    Invisible,
    /// The process reads NVML, and does not use CUDA.
    NvmlOnly,
    /// The process does nothing with a GPU.
    #[default]
    Unrelated,
}

impl HolderKind {
    /// Returns `true` if it has initialized CUDA itself.
    pub fn uses_cuda(self) -> bool {
        matches!(
            self,
            HolderKind::Context
                | HolderKind::MpsClient
                | HolderKind::MpsServer
                | HolderKind::Listed
                | HolderKind::Initialized
                | HolderKind::InitializedOrNvml
                | HolderKind::Ended
                | HolderKind::Invisible
        )
    }

    /// Returns `true` if it has a context that may work.
    pub fn has_context(self) -> bool {
        matches!(
            self,
            HolderKind::Context | HolderKind::MpsClient | HolderKind::Listed
        )
    }
}

/// What else is to be known of a holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    /// NVML saw no work of it on any GPU.
    Idle {
        /// For at least this long, in milliseconds.
        for_ms: u64,
    },
    /// Its parent is gone: it was left over.
    Orphan,
    /// The process was stopped by a signal.
    Stopped,
    /// The process waits in the kernel, and cannot be killed until that ends.
    Unkillable,
    /// The process has ended, and its parent has not waited for it.
    Zombie,
    /// The process may keep the memory of an ended process in use.
    Keeps {
        /// The ended process.
        pid: u32,
    },
    /// The mask was changed after the start of the process.
    MaskChanged,
}

/// Returns what a process that is visible is to CUDA.
pub(super) fn kind_of(
    scan: &HolderScan,
    process: &ProcessExamination,
    memory: &[HolderMemory],
) -> HolderKind {
    if is_mps_server(process) {
        return HolderKind::MpsServer;
    }
    if is_mps_client(scan, process) {
        return HolderKind::MpsClient;
    }
    let is_listed = !memory.is_empty();
    let contexts = count_contexts(process);
    let mut threads = process.driver_threads.iter();
    let has_driver_thread = threads.any(|thread| thread.kind == DriverThreadKind::Driver);
    let Some(open) = &process.open_files else {
        return match (contexts > 0, has_driver_thread, is_listed) {
            (true, ..) => HolderKind::Context,
            (_, _, true) => HolderKind::Listed,
            (_, true, _) => HolderKind::InitializedOrNvml,
            _ => HolderKind::Unrelated,
        };
    };
    let has_mappings = process
        .mapped_files
        .as_ref()
        .is_some_and(|files| !files.is_empty());
    if open.is_empty() && !is_listed && has_mappings {
        return HolderKind::DescriptorOnly;
    }
    if open.is_empty() && !is_listed {
        return kind_without_files(process, contexts);
    }
    if contexts > 0 {
        return HolderKind::Context;
    }
    if is_listed {
        let has_context = has_driver_thread || most_files(process) >= CONTEXT_FILES;
        return if has_context {
            HolderKind::Context
        } else {
            HolderKind::Graphics
        };
    }
    let is_initialized = most_files(process) >= INITIALIZED_FILES;
    match (is_initialized, has_driver_thread) {
        (true, true) => HolderKind::Initialized,
        (true, false) => HolderKind::Inherited,
        (false, true) => HolderKind::NvmlOnly,
        (false, false) if uses_nvml(process) => HolderKind::NvmlOnly,
        (false, false) => HolderKind::DescriptorOnly,
    }
}

/// Returns what a process without a file of the driver is. Any program can name its threads like those of the driver.
fn kind_without_files(process: &ProcessExamination, contexts: usize) -> HolderKind {
    let mut libraries = process.libraries.iter().flatten();
    if contexts > 0 && libraries.any(|library| library.library == "libcuda") {
        HolderKind::Checkpointed
    } else {
        HolderKind::Unrelated
    }
}

/// Returns the number of descriptors of the GPU that the process has most of.
fn most_files(process: &ProcessExamination) -> u64 {
    let files = process.open_files.iter().flatten();
    let gpus = files.filter(|(file, _)| is_gpu_file(file));
    gpus.map(|(_, count)| *count).max().unwrap_or(0)
}

/// Returns `true` for the device file of a GPU: `/dev/nvidia0`.
pub(super) fn is_gpu_file(file: &str) -> bool {
    let minor = file.strip_prefix("/dev/nvidia").unwrap_or_default();
    minor.parse::<u32>().is_ok()
}

/// Returns `true` if a process may use NVML, which opens files in `/dev/nvidia-caps`, and starts the same thread as
/// `cuInit`.
pub(super) fn uses_nvml(process: &ProcessExamination) -> bool {
    match &process.open_files {
        Some(open) => open
            .keys()
            .any(|file| file.starts_with("/dev/nvidia-caps/")),
        None => true,
    }
}

/// The kernel names the program and its owner; a process can only change its command line and its name.
fn is_mps_server(process: &ProcessExamination) -> bool {
    let name = process.program.rsplit('/').next().unwrap_or_default();
    process.is_program_of_root
        && ["nvidia-cuda-mps-server", "nvidia-cuda-mps-control"].contains(&name)
}

fn is_mps_client(scan: &HolderScan, process: &ProcessExamination) -> bool {
    let mut gpus = scan.nvml.gpus.iter();
    gpus.any(|gpu| gpu.mps_clients.contains(&process.pid))
}

/// Returns `true` if a process has nothing of the driver, so that NVML lists another one with its PID: one that ended,
/// or one of another PID namespace. A process that is ending has no memory map any more.
pub(super) fn is_another(scan: &HolderScan, process: &ProcessExamination) -> bool {
    let has_none = [&process.open_files, &process.mapped_files]
        .iter()
        .all(|files| files.as_ref().is_some_and(BTreeMap::is_empty));
    has_none && process.driver_threads.is_empty() && !is_mps_client(scan, process)
}

/// Returns what a process is that NVML lists and `/proc` does not.
pub(super) fn absent_kind(scan: &HolderScan, absent: &AbsentProcess) -> HolderKind {
    if absent.is_alive == Some(false) {
        gone_kind(scan)
    } else {
        HolderKind::Invisible
    }
}

/// Returns what a process is that does not run in this PID namespace.
pub(super) fn gone_kind(scan: &HolderScan) -> HolderKind {
    if scan.is_first_namespace == Some(true) {
        HolderKind::Ended
    } else {
        HolderKind::Invisible
    }
}

/// Returns what else is to be known of a process.
pub(super) fn conditions(
    scan: &HolderScan,
    process: &ProcessExamination,
    kind: HolderKind,
    memory: &[HolderMemory],
) -> Vec<Condition> {
    let mut conditions = Vec::new();
    if kind.has_context()
        && let Some(for_ms) = idle_ms(scan, process, memory)
    {
        conditions.push(Condition::Idle { for_ms });
    }
    if is_orphan(process) {
        conditions.push(Condition::Orphan);
    }
    match process.state {
        Some('T') => conditions.push(Condition::Stopped),
        Some('D') => conditions.push(Condition::Unkillable),
        // The first thread may have ended while others run.
        Some('Z' | 'X') if process.threads <= Some(1) => conditions.push(Condition::Zombie),
        _ => {}
    }
    if is_mask_changed(process) {
        conditions.push(Condition::MaskChanged);
    }
    conditions
}

/// Returns `true` if the mask is known to have changed after the start of the process.
pub(super) fn is_mask_changed(process: &ProcessExamination) -> bool {
    match (&process.started_with, &process.now) {
        (Some(before), Some(now)) => before.get(MASK) != now.get(MASK),
        _ => false,
    }
}

/// Returns the time for which NVML saw no work of a process on any GPU, in milliseconds; `None` if there was work, or
/// NVML does not report it.
fn idle_ms(
    scan: &HolderScan,
    process: &ProcessExamination,
    memory: &[HolderMemory],
) -> Option<u64> {
    if memory.is_empty() || memory.iter().any(|memory| memory.busy_percent != Some(0)) {
        return None;
    }
    let age_ms = scan.nvml_unix_ms.saturating_sub(process.started_unix_ms?);
    Some(scan.watched_ms().min(age_ms))
}

/// Returns `true` if a process was adopted: its parent adopts orphans, and is not the one that began its session. A
/// service and the first process of a container begin their own session.
fn is_orphan(process: &ProcessExamination) -> bool {
    let (Some(parent), Some(session)) = (&process.parent, process.session) else {
        return false;
    };
    let is_daemon = is_mps_server(process);
    parent.is_reaper && session != process.pid && parent.session != Some(session) && !is_daemon
}

/// Notes which holders may keep the memory of ended processes: those that have their descriptors by fork.
pub(super) fn note_keepers(holders: &mut [GpuHolderProcess]) {
    let mut ended = Vec::new();
    for holder in &*holders {
        if holder.kind == HolderKind::Ended {
            ended.push(Condition::Keeps { pid: holder.pid });
        }
    }
    for holder in holders {
        let process = holder.process.as_ref();
        let has_files = process.is_some_and(|process| most_files(process) >= CONTEXT_FILES);
        if holder.kind == HolderKind::Inherited && has_files {
            holder.conditions.extend_from_slice(&ended);
        }
    }
}

/// Returns `true` if a process has more descriptors of `/dev/nvidiactl` than CUDA and NVML open: it has one of each
/// exported allocation.
fn has_exported_memory(process: &ProcessExamination) -> bool {
    let open = process.open_files.as_ref();
    let count = open.and_then(|open| open.get("/dev/nvidiactl"));
    count > Some(&(1 + u64::from(uses_nvml(process))))
}

/// Returns the holders that may keep memory in use that no process owns.
pub(super) fn list_keepers(gpu: usize, holders: &[GpuHolderProcess]) -> Vec<u32> {
    let mut keepers = Vec::new();
    for holder in holders {
        let opened = holder.opened_gpus.as_ref();
        let has_opened = opened.is_some_and(|opened| opened.contains(&gpu));
        let is_keeper = match holder.kind {
            HolderKind::DescriptorOnly => true,
            HolderKind::Inherited => has_opened,
            HolderKind::Context => {
                has_opened && holder.process.as_ref().is_some_and(has_exported_memory)
            }
            _ => false,
        };
        if is_keeper {
            keepers.push(holder.pid);
        }
    }
    keepers
}
