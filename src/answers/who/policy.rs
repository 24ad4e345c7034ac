//! `--forbid`: what may not hold a GPU before or after a job.

use std::time::Duration;

use super::{Condition, GpuHolderProcess, HolderKind, Holders, Unseen};
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

impl Holders {
    /// Compares the holders with rules, and keeps the result.
    pub fn check(&mut self, rules: &[HolderPolicy]) {
        if rules.is_empty() {
            return;
        }
        let mut outcome = PolicyOutcome::default();
        for rule in rules {
            let mut check = RuleCheck {
                words: rule.words(),
                outcome: &mut outcome,
            };
            match rule {
                HolderPolicy::Holders => self.check_holders(&mut check),
                HolderPolicy::Leftover(most) => self.check_leftover(*most, &mut check),
                HolderPolicy::Orphans => self.check_orphans(&mut check),
                HolderPolicy::Idle(most) => self.check_idle(*most, &mut check),
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

    fn check_holders(&self, check: &mut RuleCheck<'_>) {
        let before = check.outcome.violations.len();
        for holder in &self.holders {
            if holder.is_holding() {
                check.violate(format!("process {} holds a GPU", holder.pid));
            }
        }
        if check.outcome.violations.len() > before {
            return;
        }
        for holder in &self.holders {
            if holder.kind == HolderKind::InitializedOrNvml {
                check.undecide(format!("process {} may have initialized CUDA", holder.pid));
            }
        }
        // No namespace and no right hides that a GPU has never been used.
        let is_unused = self
            .gpus
            .iter()
            .all(|gpu| gpu.used_bytes < Some(UNUSED_BYTES));
        let is_known = self.gpus.iter().all(|gpu| gpu.used_bytes.is_some());
        if !(is_unused && is_known) {
            self.require_all(check);
        }
    }

    fn check_leftover(&self, most: u64, check: &mut RuleCheck<'_>) {
        for gpu in &self.gpus {
            let living = self.living_bytes(gpu.index);
            let ended = gpu.listed_bytes.zip(living);
            let ended = ended.map(|(listed, living)| listed.saturating_sub(living));
            let bytes = gpu.unowned_bytes.zip(ended).map(|(sum, used)| sum + used);
            match bytes {
                // A process that was not read may live.
                Some(bytes) if bytes > most && self.has_unread() => check.undecide(format!(
                    "{} on GPU {} belong to no process that was read",
                    units::bytes(bytes),
                    gpu.index
                )),
                Some(bytes) if bytes > most => check.violate(format!(
                    "{} on GPU {} belong to no visible process",
                    units::bytes(bytes),
                    gpu.index
                )),
                Some(_) => {}
                None => check.undecide(format!(
                    "NVML does not report all memory of GPU {}",
                    gpu.index
                )),
            }
        }
        for holder in &self.holders {
            if holder.kind == HolderKind::Invisible && holder.bytes() != Some(0) {
                check.undecide(format!("process {} is not visible here", holder.pid));
            }
        }
        if self.gpus.is_empty() {
            check.undecide("NVML reports no GPU".to_owned());
        }
    }

    /// Returns the memory on a GPU of the processes that were found and have not ended, in bytes; `None` if it is not
    /// known. NVML also lists processes that ended, and PIDs that other processes have now.
    fn living_bytes(&self, gpu: usize) -> Option<u64> {
        let mut living = 0;
        for holder in &self.holders {
            if holder.kind == HolderKind::Ended {
                continue;
            }
            for memory in &holder.memory {
                if memory.gpu == gpu {
                    living += memory.used_bytes?;
                }
            }
        }
        Some(living)
    }

    /// Returns `true` if the reader could not read every process.
    fn has_unread(&self) -> bool {
        let mut unseen = self.unseen.iter();
        unseen.any(|unseen| match unseen {
            Unseen::Ended { .. } => true,
            Unseen::Unread { processes } => processes.iter().any(|process| !is_denied(process)),
            _ => false,
        })
    }

    fn check_orphans(&self, check: &mut RuleCheck<'_>) {
        for holder in &self.holders {
            if holder.is_holding() && holder.conditions.contains(&Condition::Orphan) {
                check.violate(format!("process {} has lost its parent", holder.pid));
            }
        }
        self.require_all(check);
    }

    fn check_idle(&self, most: Duration, check: &mut RuleCheck<'_>) {
        let most_ms = most.as_millis() as u64;
        for holder in &self.holders {
            if !holder.kind.has_context() {
                continue;
            }
            // The start of a context is the start of a thread, which a program can replace.
            let since = holder.started_unix_ms;
            let is_young =
                since.is_some_and(|since| self.read_unix_ms.saturating_sub(since) <= most_ms);
            if is_young || is_busy(holder) {
                continue;
            }
            match idle_ms(holder) {
                Some(idle) if idle > most_ms => check.violate(format!(
                    "process {} has done no work for {}",
                    holder.pid,
                    units::format_age(idle)
                )),
                Some(idle) => check.undecide(format!(
                    "process {} did no work for {}, and was not watched for longer (--over {}s watches)",
                    holder.pid,
                    units::format_age(idle),
                    most_ms / 1000 + 1
                )),
                None => check.undecide(format!(
                    "NVML does not report whether process {} works",
                    holder.pid
                )),
            }
        }
        self.require_all(check);
    }

    /// Notes what was not seen: a rule that did not see everything does not pass.
    fn require_all(&self, check: &mut RuleCheck<'_>) {
        for unseen in &self.unseen {
            check.undecide(unseen.words());
        }
    }
}

fn is_busy(holder: &GpuHolderProcess) -> bool {
    let mut memory = holder.memory.iter();
    memory.any(|memory| memory.busy_percent > Some(0))
}

fn idle_ms(holder: &GpuHolderProcess) -> Option<u64> {
    let mut conditions = holder.conditions.iter();
    conditions.find_map(|condition| match condition {
        Condition::Idle { for_ms } => Some(*for_ms),
        _ => None,
    })
}

impl Unseen {
    /// Returns the reason in words, without a full stop.
    pub fn words(&self) -> String {
        match self {
            Unseen::Nvml { why } => format!("NVML could not be read completely ({why})"),
            Unseen::Namespace => {
                "processes outside of this container's PID namespace are invisible".to_owned()
            }
            Unseen::HiddenProcesses => "/proc hides processes of other users (hidepid)".to_owned(),
            Unseen::Unread { processes } => unread_words(processes),
            Unseen::Ended { by } => format!("not all processes could be read ({by})"),
        }
    }
}

/// The most processes that are named with their errors.
const MOST_NAMED: usize = 3;

/// Returns `true` if only the descriptors of a process could not be read: NVML and its state show that it lives.
fn is_denied(process: &UnreadProcess) -> bool {
    ["EACCES", "EPERM"].contains(&process.error.as_str())
}

fn unread_words(processes: &[UnreadProcess]) -> String {
    let mut denied = 0;
    let mut parts = Vec::new();
    for process in processes {
        if is_denied(process) {
            denied += 1;
        } else if parts.len() < MOST_NAMED {
            parts.push(format!("process {}: {}", process.pid, process.error));
        }
    }
    if denied > 0 {
        let count = counted(denied, "process");
        parts.push(format!(
            "open files of {count} may not be read; root may read them"
        ));
    }
    let left = (processes.len() - denied).saturating_sub(MOST_NAMED);
    if left > 0 {
        parts.push(format!("{left} more could not be read"));
    }
    parts.join("; ")
}

struct RuleCheck<'a> {
    words: String,
    outcome: &'a mut PolicyOutcome,
}

impl RuleCheck<'_> {
    fn violate(&mut self, says: String) {
        self.outcome.violations.push(Violation {
            forbidden: self.words.clone(),
            says,
            event: None,
        });
    }

    fn undecide(&mut self, why: String) {
        self.outcome
            .undecided
            .push(format!("{}: {why}", self.words));
    }
}
