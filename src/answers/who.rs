//! Who holds the GPUs: each process by what it is to CUDA, its memory, and the memory that no visible process owns.

mod kind;
mod place;
mod policy;
mod problem;
mod redact;
#[cfg(test)]
mod tests;

pub use kind::{Condition, HolderKind};
pub use place::{HolderPlace, PlaceKind};
pub use policy::{HolderPolicy, HolderPolicyError};
pub use problem::{ProcessProblem, is_opened_by_cuda};

use schemars::JsonSchema;
use serde::Serialize;

use cuda_pitfalls_core::examination::GpuState;
use cuda_pitfalls_core::holding::{
    DriverThreadKind, HolderScan, ProcessExamination, UnreadProcess,
};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::sample::Process;
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_trace::policy::PolicyOutcome;

/// Name of the schema of [`Holders`].
pub const SCHEMA: &str = "cuda-pitfalls-who";

/// Memory that the driver uses on a GPU as soon as one process has initialized CUDA, and for each context, in bytes.
/// NVML counts it for the GPU and for no process. Measured on 1× NVIDIA H200, driver 580.159.04 (docs/who.md).
const DRIVER_BYTES: (u64, u64) = (3328 << 10, 5696 << 10);

/// The most that the driver's own memory was seen to differ from [`DRIVER_BYTES`], per process: an MPS client.
const DRIVER_SLACK_BYTES: u64 = 1 << 20;

/// The most contexts of a process on one GPU for which the driver's own memory is estimated: a program can name any
/// number of threads like those of contexts.
const MOST_CONTEXTS: usize = 2;

/// Everything that holds the GPUs of this machine, at one time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Holders {
    /// Type and version of this document.
    pub schema: SchemaId,
    /// Origin of the results: real or simulated libraries.
    pub provenance: Provenance,
    /// Wall-clock time of the reading, in milliseconds since 1970.
    pub read_unix_ms: u64,
    /// Time for which NVML's utilization was sampled, in milliseconds.
    pub watched_ms: u64,
    /// GPUs, in NVML's order.
    pub gpus: Vec<GpuMemoryAccount>,
    /// Holders, by PID.
    pub holders: Vec<GpuHolderProcess>,
    /// Reasons why holders may be missing here; empty if every process of the host was read.
    pub unseen: Vec<Unseen>,
    /// Result of `--forbid`; null without it.
    pub policy: Option<PolicyOutcome>,
}

/// The memory of a GPU by owner.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GpuMemoryAccount {
    /// NVML's index.
    pub index: usize,
    /// The UUID.
    pub uuid: String,
    /// The product name.
    pub name: Option<String>,
    /// Total memory, in bytes.
    pub total_bytes: Option<u64>,
    /// Used memory without the driver's fixed reserve, in bytes; null if NVML does not report it.
    pub used_bytes: Option<u64>,
    /// `false` if the memory changed in every reading: then its parts do not add up, and the rest is unknown.
    pub is_stable: bool,
    /// Memory of the processes that NVML lists, in bytes; null if the list or the memory of a process is unknown.
    pub listed_bytes: Option<u64>,
    /// The part of the rest that the driver uses for the contexts seen here, in bytes: an estimate from a measurement.
    pub driver_bytes: u64,
    /// The rest: memory of no visible process, in bytes. Null if a number above is unknown or not stable.
    pub unowned_bytes: Option<u64>,
    /// PIDs of holders that may keep the rest in use.
    pub keepers: Vec<u32>,
}

/// A reason why holders may be missing, without a full stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Unseen {
    /// NVML did not start, or a part of it could not be read.
    #[error("NVML could not be read completely ({why})")]
    Nvml {
        /// The reason.
        why: String,
    },
    /// The reader is in a PID namespace, as in a container: processes outside of it are invisible.
    #[error("processes outside of this container's PID namespace are invisible")]
    Namespace,
    /// `/proc` hides the processes of other users.
    #[error("/proc hides processes of other users (hidepid)")]
    HiddenProcesses,
    /// The open files of these processes could not be read.
    #[error("{}", policy::unread_words(processes))]
    Unread {
        /// The processes.
        processes: Vec<UnreadProcess>,
    },
    /// The reader ended before it had read every process.
    #[error("not all processes could be read ({by})")]
    Ended {
        /// How.
        by: String,
    },
}

/// A process that holds something of a GPU or of the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GpuHolderProcess {
    /// The process.
    pub pid: u32,
    /// What it is to CUDA.
    pub kind: HolderKind,
    /// What else is to be known of it.
    pub conditions: Vec<Condition>,
    /// The user's name, or number; null if unknown.
    pub user: Option<String>,
    /// The container, pod, job or service that it belongs to.
    pub place: Option<HolderPlace>,
    /// Its start, in milliseconds since 1970.
    pub started_unix_ms: Option<u64>,
    /// The start of `cuInit`, in milliseconds since 1970; null if it did not call it or this is unknown.
    pub cuda_since_unix_ms: Option<u64>,
    /// `false` if it also uses NVML, whose start may be the time above: then `cuInit` began at that time or later.
    pub is_cuda_since_exact: bool,
    /// The start of the creation of its oldest living context, in milliseconds since 1970.
    pub context_since_unix_ms: Option<u64>,
    /// Number of its contexts, by the driver's threads; null if it could not be read.
    pub contexts: Option<usize>,
    /// Its memory on each GPU where NVML lists it.
    pub memory: Vec<HolderMemory>,
    /// GPUs whose device file it has open, by NVML's index; null if its files may not be read.
    pub opened_gpus: Option<Vec<usize>>,
    /// Problems that are visible from outside.
    pub problems: Vec<ProcessProblem>,
    /// What was read; null if there was nothing to read.
    pub process: Option<ProcessExamination>,
}

/// The memory of a process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HolderMemory {
    /// NVML's index.
    pub gpu: usize,
    /// The memory in bytes; null if NVML did not report it.
    pub used_bytes: Option<u64>,
    /// Maximum utilization of the GPU by the process while it was sampled, in percent; null if NVML does not report it.
    pub busy_percent: Option<u32>,
}

impl GpuHolderProcess {
    /// Returns its memory on all GPUs, in bytes; `None` if that of one is unknown.
    pub fn bytes(&self) -> Option<u64> {
        self.memory.iter().map(|memory| memory.used_bytes).sum()
    }

    /// Returns `true` if it keeps GPUs from being free. Something that only reads NVML does not.
    pub fn is_holding(&self) -> bool {
        !matches!(
            self.kind,
            HolderKind::NvmlOnly | HolderKind::InitializedOrNvml | HolderKind::Unrelated
        )
    }
}

/// Returns the holders that a reading shows.
pub fn list_holders(scan: &HolderScan) -> Holders {
    let mut holders = Vec::new();
    for process in &scan.processes {
        holders.push(read_holder(scan, process));
    }
    for absent in &scan.absent {
        holders.push(GpuHolderProcess {
            pid: absent.pid,
            kind: kind::absent_kind(scan, absent),
            memory: list_memory(scan, absent.pid),
            ..GpuHolderProcess::default()
        });
    }
    kind::note_keepers(&mut holders);
    holders.sort_by_key(|holder| holder.pid);
    Holders {
        schema: SchemaId::current(SCHEMA),
        provenance: Provenance::from_simulated(scan.nvml.is_simulated()),
        read_unix_ms: scan.nvml_unix_ms,
        watched_ms: scan.watched_ms(),
        gpus: list_accounts(scan, &holders),
        unseen: list_unseen(scan),
        policy: None,
        holders,
    }
}

fn read_holder(scan: &HolderScan, process: &ProcessExamination) -> GpuHolderProcess {
    // Another process took the PID of one that NVML lists. The start has a resolution of 10 ms.
    let is_reused = process.started_unix_ms > Some(scan.nvml_unix_ms + 10);
    let memory = if is_reused {
        Vec::new()
    } else {
        list_memory(scan, process.pid)
    };
    if !memory.is_empty() && kind::is_another(scan, process) {
        return GpuHolderProcess {
            pid: process.pid,
            kind: kind::gone_kind(scan),
            memory,
            ..GpuHolderProcess::default()
        };
    }
    let kind = kind::kind_of(scan, process, &memory);
    let user = process.uid.map(|uid| match scan.users.get(&uid) {
        Some(name) => name.clone(),
        None => uid.to_string(),
    });
    GpuHolderProcess {
        pid: process.pid,
        kind,
        conditions: kind::conditions(scan, process, kind, &memory),
        user,
        place: place::place_of(process),
        started_unix_ms: process.started_unix_ms,
        cuda_since_unix_ms: match kind {
            HolderKind::NvmlOnly | HolderKind::InitializedOrNvml => None,
            _ => since(process, DriverThreadKind::Driver),
        },
        is_cuda_since_exact: !kind::uses_nvml(process),
        context_since_unix_ms: since(process, DriverThreadKind::Context),
        contexts: Some(count_contexts(process)),
        opened_gpus: list_opened(scan, process),
        problems: problem::list_problems(scan, process, &memory),
        process: Some(process.clone()),
        memory,
    }
}

fn since(process: &ProcessExamination, kind: DriverThreadKind) -> Option<u64> {
    let mut threads = process.driver_threads.iter();
    Some(threads.find(|thread| thread.kind == kind)?.since_unix_ms)
}

fn count_contexts(process: &ProcessExamination) -> usize {
    let threads = process.driver_threads.iter();
    threads
        .filter(|thread| thread.kind == DriverThreadKind::Context)
        .count()
}

/// Returns all processes that NVML lists on a GPU; `None` if the list could not be read.
fn list_processes(gpu: &GpuState) -> Option<Vec<Process>> {
    let mut processes = gpu.reading.processes.clone()?;
    processes.extend(&gpu.graphics);
    Some(processes)
}

fn list_memory(scan: &HolderScan, pid: u32) -> Vec<HolderMemory> {
    let mut memory = Vec::new();
    for (gpu, state) in scan.nvml.gpus.iter().enumerate() {
        let processes = list_processes(state).unwrap_or_default();
        let Some(listed) = processes.iter().find(|process| process.pid == pid) else {
            continue;
        };
        let busy = state.busy_percent.as_ref();
        memory.push(HolderMemory {
            gpu,
            used_bytes: listed.used_bytes,
            busy_percent: busy.map(|busy| busy.get(&pid).copied().unwrap_or(0)),
        });
    }
    memory
}

fn list_opened(scan: &HolderScan, process: &ProcessExamination) -> Option<Vec<usize>> {
    let open = process.open_files.as_ref()?;
    let mut opened = Vec::new();
    for (index, state) in scan.nvml.gpus.iter().enumerate() {
        if let Some(minor) = state.gpu.device_minor
            && open.contains_key(&format!("/dev/nvidia{minor}"))
        {
            opened.push(index);
        }
    }
    Some(opened)
}

fn list_accounts(scan: &HolderScan, holders: &[GpuHolderProcess]) -> Vec<GpuMemoryAccount> {
    let mut accounts = Vec::new();
    for (index, state) in scan.nvml.gpus.iter().enumerate() {
        let listed_bytes: Option<u64> = match list_processes(state) {
            Some(processes) => processes.iter().map(|process| process.used_bytes).sum(),
            None => None,
        };
        let used_bytes = state.reading.used_bytes;
        let rest = used_bytes.zip(listed_bytes);
        let rest = rest.map(|(used, listed)| used.saturating_sub(listed));
        let driver = estimate_driver_bytes(index, holders);
        let driver_bytes = rest.unwrap_or(0).min(driver);
        let is_stable = !state.is_unstable;
        let unowned_bytes = match rest {
            Some(rest) if is_stable => Some(rest - driver_bytes),
            _ => None,
        };
        let keepers = match unowned_bytes {
            Some(1..) => kind::list_keepers(index, holders),
            _ => Vec::new(),
        };
        accounts.push(GpuMemoryAccount {
            index,
            uuid: state.gpu.uuid.clone(),
            name: state.gpu.name.clone(),
            total_bytes: state.gpu.total_bytes,
            used_bytes,
            is_stable,
            listed_bytes,
            driver_bytes,
            unowned_bytes,
            keepers,
        });
    }
    accounts
}

/// Returns the memory that the driver may use for the holders of a GPU, in bytes.
fn estimate_driver_bytes(gpu: usize, holders: &[GpuHolderProcess]) -> u64 {
    let (once, each) = DRIVER_BYTES;
    let mut bytes = 0;
    for holder in holders {
        let is_listed = holder.memory.iter().any(|memory| memory.gpu == gpu);
        let has_opened = holder
            .opened_gpus
            .as_ref()
            .is_some_and(|opened| opened.contains(&gpu));
        // A forked child has the files of its parent, which may have ended.
        let is_user = holder.kind.uses_cuda() || holder.kind == HolderKind::Inherited;
        if !is_user || !(is_listed || has_opened) {
            continue;
        }
        // Its contexts may be on other GPUs; on one where it is listed it has at least one.
        let contexts = match holder.contexts {
            Some(contexts) if is_listed => contexts.clamp(1, MOST_CONTEXTS) as u64,
            _ => u64::from(is_listed),
        };
        bytes = bytes.max(once) + contexts * (each + DRIVER_SLACK_BYTES);
    }
    bytes
}

fn list_unseen(scan: &HolderScan) -> Vec<Unseen> {
    let mut unseen = Vec::new();
    unseen.extend(nvml_failure(scan).map(|why| Unseen::Nvml { why }));
    if scan.is_first_namespace != Some(true) {
        unseen.push(Unseen::Namespace);
    }
    if scan.hides_others {
        unseen.push(Unseen::HiddenProcesses);
    }
    let processes = scan.unread.clone();
    if !processes.is_empty() {
        unseen.push(Unseen::Unread { processes });
    }
    let end = scan.ended.clone();
    unseen.extend(end.map(|end| Unseen::Ended { by: end.by }));
    unseen
}

/// Returns the reason why NVML's list of processes and memory is not complete.
fn nvml_failure(scan: &HolderScan) -> Option<String> {
    let nvml = &scan.nvml;
    if let Some(call) = nvml.first_failure() {
        return Some(format!("{} returns {}", call.call, call.status));
    }
    if let Some(missing) = &nvml.missing {
        return Some(missing.clone());
    }
    if let Some(end) = &nvml.ended {
        return Some(end.by.clone());
    }
    for state in &nvml.gpus {
        let mut errors = state.reading.errors.iter();
        // A GPU that shares its memory with the host has none of its own to report.
        if let Some(error) = errors.find(|error| !is_without_memory(error)) {
            return Some(error.clone());
        }
    }
    nvml.gpus.is_empty().then(|| "it reports no GPU".to_owned())
}

fn is_without_memory(error: &str) -> bool {
    error.starts_with("nvmlDeviceGetMemoryInfo") && error.ends_with(": NVML_ERROR_NOT_SUPPORTED")
}
