//! Kinds and conditions of holders as people read them, and what to do about them.

use cuda_pitfalls_answers::who::{Condition, GpuHolderProcess, HolderKind, HolderPlace, PlaceKind};
use cuda_pitfalls_core::text::units;

/// Returns a kind of holder in words, and what to do about it; empty if there is nothing to do.
pub(super) fn describe_kind(kind: HolderKind) -> (&'static str, &'static str) {
    const OF_ANOTHER: &str = "belongs to another user: run `who` as root to see more of it";
    match kind {
        HolderKind::Context => ("uses CUDA", ""),
        HolderKind::MpsClient => ("MPS client", ""),
        HolderKind::MpsServer => ("MPS server", ""),
        HolderKind::Listed => ("uses the GPU; its files could not be read", OF_ANOTHER),
        HolderKind::Graphics => ("graphics", ""),
        HolderKind::Initialized => (
            "initialized CUDA, no context",
            "has initialized CUDA and has no context: its first CUDA work creates one",
        ),
        HolderKind::InitializedOrNvml => ("initialized CUDA or reads NVML", OF_ANOTHER),
        HolderKind::Inherited => (
            "forked from a CUDA process",
            "was forked after CUDA was initialized: CUDA fails in it, and its descriptors keep its parent's memory in \
             use after the parent's end; use spawn, or end it",
        ),
        HolderKind::Checkpointed => (
            "checkpointed",
            "is suspended by a checkpoint: its GPU memory is in host memory until cuda-checkpoint restores it",
        ),
        HolderKind::DescriptorOnly => (
            "only a descriptor of the driver",
            "holds a descriptor of the driver: memory that another process exported may stay in use until it ends",
        ),
        HolderKind::Ended => (
            "ended; its memory is still in use",
            "has ended, but another process has its descriptors: end that one (a forked child, a resource tracker)",
        ),
        HolderKind::Invisible => (
            "not visible here",
            "runs in another PID namespace: run `who` on the host as root, or with --pid=host",
        ),
        HolderKind::NvmlOnly => ("reads NVML", ""),
        HolderKind::Unrelated => ("uses no GPU", ""),
    }
}

/// Returns a condition in words, and what to do about it; empty if there is nothing to do.
pub(super) fn describe_condition(condition: &Condition) -> (String, &'static str) {
    let (words, advice) = match condition {
        Condition::Idle { for_ms } => {
            return (format!("no work for {}", units::format_age(*for_ms)), "");
        }
        Condition::Keeps { pid } => return (format!("may keep the memory of {pid}"), ""),
        Condition::Orphan => (
            "orphan",
            "has lost its parent: if nothing waits for it, end it with `kill PID`",
        ),
        Condition::Stopped => (
            "stopped",
            "is stopped, with all its memory: `kill -CONT PID` continues it, `kill -KILL PID` ends it",
        ),
        Condition::Unkillable => (
            "waits in the kernel",
            "waits in the kernel: look for Xid messages in `dmesg`; only a reboot may end it",
        ),
        Condition::Zombie => (
            "zombie",
            "has ended, and its parent has not waited for it: end the parent",
        ),
        Condition::MaskChanged => (
            "mask changed after start",
            "changed CUDA_VISIBLE_DEVICES after its start: `who PID` shows whether this was too late",
        ),
    };
    (words.to_owned(), advice)
}

/// Returns what to do about a holder.
pub(super) fn list_advice(holder: &GpuHolderProcess) -> Vec<&'static str> {
    let mut advice = vec![describe_kind(holder.kind).1];
    for condition in &holder.conditions {
        advice.push(describe_condition(condition).1);
    }
    advice.retain(|words| !words.is_empty());
    advice
}

pub(super) fn place_in_words(place: &HolderPlace) -> String {
    let kind = match place.kind {
        PlaceKind::Pod => "pod",
        PlaceKind::Container => "container",
        PlaceKind::Job => "job",
        PlaceKind::Service => "service",
    };
    let claimed = if place.is_claimed {
        " (unverified)"
    } else {
        ""
    };
    format!("{kind} {}{claimed}", place.id)
}
