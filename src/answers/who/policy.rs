//! `--forbid`: what may not hold a GPU before or after a job.

use std::time::Duration;

use super::{Condition, GpuHolderProcess, GpuMemoryAccount, HolderKind, Holders, Unseen};
use crate::exit::Exit;
use cuda_pitfalls_core::holding::UnreadProcess;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::policy::{PolicyOutcome, Violation};

/// A rule of `--forbid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderPolicy {
    /// `holders`: no process may hold anything.
    Holders,
    /// `leftover>64MiB`: no GPU may have more memory in use that no living process owns, in bytes.
    Leftover(u64),
    /// `orphans`: no holder may have lost its parent.
    Orphans,
    /// `idle>30m`: no context may be without work for longer.
    Idle(Duration),
}

/// A word of `--forbid` that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected holders, orphans, leftover>SIZE (such as leftover>64MiB) or idle>TIME (such as idle>30m)"
)]
pub struct HolderPolicyError;

/// Memory of a GPU below which no process of any namespace can have initialized CUDA, in bytes: the first one that does
/// makes the driver use more than three times as much.
const UNUSED_BYTES: u64 = 1 << 20;

impl HolderPolicy {
    /// Returns the rule as a user writes it.
    fn words(&self) -> String {
        match self {
            HolderPolicy::Holders => "holders".to_owned(),
            HolderPolicy::Leftover(most) => format!("leftover>{}", units::bytes(*most)),
            HolderPolicy::Orphans => "orphans".to_owned(),
            HolderPolicy::Idle(most) => {
                format!("idle>{}", units::format_age(most.as_millis() as u64))
            }
        }
    }
}

/// What a rule finds, without a full stop.
enum RuleFinding {
    Violated(String),
    Undecided(String),
}
use RuleFinding::{Undecided, Violated};

impl Holders {
    /// Compares the holders with rules, and keeps the result.
    pub fn check(&mut self, rules: &[HolderPolicy]) {
        if rules.is_empty() {
            return;
        }
        let mut outcome = PolicyOutcome::default();
        for rule in rules {
            let forbidden = rule.words();
            for finding in self.list_findings(rule) {
                match finding {
                    Undecided(why) => outcome.undecided.push(format!("{forbidden}: {why}")),
                    Violated(says) => outcome.violations.push(Violation {
                        forbidden: forbidden.clone(),
                        says,
                        event: None,
                    }),
                }
            }
        }
        self.policy = Some(outcome);
    }

    /// Returns the exit code of the command.
    pub fn exit(&self) -> Exit {
        if self.gpus.is_empty() {
            return Exit::NothingMeasured;
        }
        match &self.policy {
            Some(outcome) if !outcome.violations.is_empty() => Exit::Unexpected,
            Some(outcome) if !outcome.undecided.is_empty() => Exit::Inconclusive,
            _ => Exit::Ok,
        }
    }

    /// Returns the exit code of the command about one process.
    pub fn exit_of_process(&self, pid: u32) -> Exit {
        let mut holders = self.holders.iter();
        let Some(holder) = holders.find(|holder| holder.pid == pid) else {
            return Exit::Inconclusive;
        };
        let process = holder.process.as_ref();
        let is_read = process.is_some_and(|process| process.open_files.is_some());
        let mut unseen = self.unseen.iter();
        let is_blind = unseen.any(|unseen| matches!(unseen, Unseen::Nvml { .. }));
        if !holder.problems.is_empty() {
            return Exit::Unexpected;
        }
        // Without NVML, nothing is known of what it does on a GPU.
        if !is_read || is_blind && holder.kind.uses_cuda() {
            return Exit::Inconclusive;
        }
        Exit::Ok
    }

    fn list_findings(&self, rule: &HolderPolicy) -> Vec<RuleFinding> {
        let mut findings = Vec::new();
        for holder in &self.holders {
            findings.extend(self.judge_holder(rule, holder));
        }
        let needs_all = match rule {
            HolderPolicy::Leftover(most) => {
                for gpu in &self.gpus {
                    findings.extend(self.judge_gpu(*most, gpu));
                }
                self.gpus.is_empty()
            }
            HolderPolicy::Holders | HolderPolicy::Orphans | HolderPolicy::Idle(_) => true,
        };
        let mut used = self.gpus.iter().map(|gpu| gpu.used_bytes);
        let is_unused = used.all(|used| used.is_some_and(|used| used < UNUSED_BYTES));
        for unseen in &self.unseen {
            let is_excused = match rule {
                // No namespace and no right hides that a GPU has never been used, nor that it has no context.
                HolderPolicy::Holders | HolderPolicy::Idle(_) => {
                    is_unused && is_lack_of_rights(unseen)
                }
                HolderPolicy::Orphans => is_first_process(unseen),
                HolderPolicy::Leftover(_) => false,
            };
            // A rule that did not see everything does not pass.
            if needs_all && !is_excused {
                findings.push(Undecided(unseen.to_string()));
            }
        }
        findings
    }

    fn judge_holder(&self, rule: &HolderPolicy, holder: &GpuHolderProcess) -> Option<RuleFinding> {
        let pid = holder.pid;
        let is_orphan = holder.conditions.contains(&Condition::Orphan);
        match rule {
            HolderPolicy::Holders if holder.is_holding() => {
                Some(Violated(format!("process {pid} holds a GPU")))
            }
            HolderPolicy::Holders if holder.kind == HolderKind::InitializedOrNvml => Some(
                Undecided(format!("process {pid} may have initialized CUDA")),
            ),
            // Any process can look like one that reads NVML, by the name of a thread or by a file.
            HolderPolicy::Holders if holder.kind == HolderKind::NvmlOnly && self.has_rest() => {
                Some(Undecided(format!(
                    "process {pid} may keep memory of no visible process"
                )))
            }
            HolderPolicy::Orphans if holder.is_holding() && is_orphan => {
                Some(Violated(format!("process {pid} has lost its parent")))
            }
            HolderPolicy::Leftover(_) if holder.kind == HolderKind::Invisible => {
                let why = format!("process {pid} is not visible here");
                (holder.bytes() != Some(0)).then_some(Undecided(why))
            }
            HolderPolicy::Idle(most) if holder.kind.has_context() => {
                self.judge_idle(most.as_millis() as u64, holder)
            }
            _ => None,
        }
    }

    fn judge_idle(&self, most_ms: u64, holder: &GpuHolderProcess) -> Option<RuleFinding> {
        let pid = holder.pid;
        // The start of a context is the start of a thread, which a program can replace.
        let age_ms = self
            .read_unix_ms
            .saturating_sub(holder.started_unix_ms.unwrap_or(0));
        let mut memory = holder.memory.iter();
        if age_ms <= most_ms || memory.any(|memory| memory.busy_percent > Some(0)) {
            return None;
        }
        for condition in &holder.conditions {
            let Condition::Idle { for_ms } = condition else {
                continue;
            };
            let idle = units::format_age(*for_ms);
            return Some(if *for_ms > most_ms {
                Violated(format!("process {pid} has done no work for {idle}"))
            } else {
                let seconds = most_ms / 1000 + 1;
                Undecided(format!(
                    "process {pid} did no work for {idle}, and was not watched for longer (--over {seconds}s watches)"
                ))
            });
        }
        Some(Undecided(format!(
            "NVML does not report whether process {pid} works"
        )))
    }

    fn judge_gpu(&self, most: u64, gpu: &GpuMemoryAccount) -> Option<RuleFinding> {
        let index = gpu.index;
        let Some(bytes) = self.leftover_bytes(gpu) else {
            let why = if gpu.is_stable {
                "NVML does not report all"
            } else {
                "each reading shows another"
            };
            return Some(Undecided(format!("{why} memory of GPU {index}")));
        };
        if bytes <= most {
            return None;
        }
        let size = units::bytes(bytes);
        // A process that was not read may live.
        Some(if self.has_unread() {
            Undecided(format!(
                "{size} on GPU {index} belong to no process that was read"
            ))
        } else {
            Violated(format!(
                "{size} on GPU {index} belong to no visible process"
            ))
        })
    }

    /// Returns the memory on a GPU that neither the driver nor a process that lives uses, in bytes; `None` if it is not
    /// known. NVML also lists processes that ended, and PIDs that other processes have now.
    fn leftover_bytes(&self, gpu: &GpuMemoryAccount) -> Option<u64> {
        let mut bytes = gpu.unowned_bytes? + gpu.listed_bytes?;
        for holder in &self.holders {
            for memory in &holder.memory {
                if memory.gpu == gpu.index && holder.kind != HolderKind::Ended {
                    bytes = bytes.saturating_sub(memory.used_bytes?);
                }
            }
        }
        Some(bytes)
    }

    /// Returns `true` if a GPU has memory that no visible process owns.
    fn has_rest(&self) -> bool {
        let mut rests = self.gpus.iter().map(|gpu| gpu.unowned_bytes);
        rests.any(|rest| rest > Some(UNUSED_BYTES))
    }

    /// Returns `true` if the reader could not read every process.
    fn has_unread(&self) -> bool {
        let mut unseen = self.unseen.iter();
        unseen.any(|unseen| !is_lack_of_rights(unseen) && !matches!(unseen, Unseen::Nvml { .. }))
    }
}

/// Returns `true` if only the place or the user of the reader is the reason, and no process.
fn is_lack_of_rights(unseen: &Unseen) -> bool {
    match unseen {
        Unseen::Namespace | Unseen::HiddenProcesses => true,
        Unseen::Unread { processes } => processes.iter().all(is_denied),
        Unseen::Nvml { .. } | Unseen::Ended { .. } => false,
    }
}

/// Returns `true` if only the first process could not be read, which has no parent to lose.
fn is_first_process(unseen: &Unseen) -> bool {
    match unseen {
        Unseen::Unread { processes } => processes.iter().all(|process| process.pid == 1),
        _ => false,
    }
}

/// The most processes that are named with their errors.
const MOST_NAMED: usize = 3;

/// Returns `true` if only the descriptors of a process could not be read: NVML and its state show that it lives.
fn is_denied(process: &UnreadProcess) -> bool {
    ["EACCES", "EPERM"].contains(&process.error.as_str())
}

pub(super) fn unread_words(processes: &[UnreadProcess]) -> String {
    let (denied, others): (Vec<_>, Vec<_>) =
        processes.iter().partition(|process| is_denied(process));
    let mut parts = Vec::new();
    for process in others.iter().take(MOST_NAMED) {
        parts.push(format!("process {}: {}", process.pid, process.error));
    }
    if !denied.is_empty() {
        let count = counted(denied.len(), "process");
        parts.push(format!(
            "open files of {count} may not be read; root may read them"
        ));
    }
    if others.len() > MOST_NAMED {
        let left = others.len() - MOST_NAMED;
        parts.push(format!("{left} more could not be read"));
    }
    parts.join("; ")
}
