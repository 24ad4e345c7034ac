//! Facts about this host that take no GPU: kernel, namespaces, containers, environment.

use std::collections::BTreeMap;
use std::fs;

use crate::machine::Isolation;

/// The inode of the first PID namespace, fixed by the kernel.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Variables about GPUs that may have been set by a scheduler or a user. No others are recorded.
const RECORDED: [&str; 14] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_CACHE_DISABLE",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDA_FORCE_PRELOAD_LIBRARIES",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "GPU_DEVICE_ORDINAL",
    "SLURM_JOB_GPUS",
];

/// What stands between this process and the GPUs, before NVML was asked.
pub(super) fn isolation() -> Isolation {
    let namespace = fs::read_link("/proc/self/ns/pid").ok();
    Isolation {
        pid_namespace: namespace.map(|name| name.to_string_lossy() != FIRST_PID_NAMESPACE),
        container: container(),
        own_pid_listed: None,
    }
}

fn container() -> Option<String> {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("kubernetes".to_string());
    }
    if fs::exists("/run/.containerenv").unwrap_or(false) {
        return Some("podman".to_string());
    }
    if fs::exists("/.dockerenv").unwrap_or(false) {
        return Some("docker".to_string());
    }
    None
}

/// The kernel's version, without a distribution's suffix.
pub(super) fn kernel() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(release.trim().split('-').next()?.to_string())
}

/// The recorded variables that are set.
pub(super) fn environment() -> BTreeMap<String, String> {
    RECORDED.iter().filter_map(|name| std::env::var(name).ok().map(|value| ((*name).to_string(), value))).collect()
}

/// Whether an MPS control pipe is where a client would look.
pub(super) fn mps() -> bool {
    let folder = std::env::var("CUDA_MPS_PIPE_DIRECTORY").unwrap_or_else(|_| "/tmp/nvidia-mps".to_string());
    fs::exists(format!("{folder}/control")).unwrap_or(false)
}

/// The largest resident set of this process so far.
pub(super) fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
