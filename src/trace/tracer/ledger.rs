//! GPU memory by owner (`--memory`): reads the memory that NVML reports for each process and the process's own records
//! on its page, and writes the changes.
//!
//! A traced program may write wrong records. They are used only for sums, and memory that no record explains remains
//! unattributed.

mod account;
pub(super) mod page;
pub(super) mod process;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::net::UnixStream;

use super::pending::Pending;
use super::processes::program_of;
use super::stacks::ParkedThread;
use super::{TICK_NS, Tracer};
use crate::stack::file_name;
use crate::{ContextChange, EventKind, LedgerReason, TraceEvent};
use account::MemoryCharge;
pub(super) use account::kind_of;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::sample::Reading;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_instrument::supervisor::{self, is_alive};
use page::SharedPage;
use process::{HolderNumbers, MemoryTaker, ProcessLedger, ends_context};

/// The maximum number of NVML readings while a process allocates, because its page and NVML would otherwise describe
/// two moments.
const MOST_TRIES: usize = 4;

/// The program of the MPS server, which does the work of its clients.
const MPS_SERVER: &str = "nvidia-cuda-mps-server";

/// The kernel's `PF_EXITING`: the process is ending and releases its resources.
const EXITING: u64 = 0x4;

/// The memory in use on each GPU, and the memory that NVML reports for one process there, in NVML order. If the second
/// list is empty, it was not read.
type MemoryNow = (Vec<Option<u64>>, Vec<u64>);

/// The ledgers of the processes of a trace.
#[derive(Default)]
pub(super) struct Ledgers {
    is_on: bool,
    processes: BTreeMap<u32, ProcessLedger>,
    numbers: HolderNumbers,
    /// The maximum number of open pages.
    most_pages: usize,
    /// `true` if NVML knows processes by the PIDs that the tracer knows.
    is_listed: bool,
    tick_ns: u64,
    /// 1 while a thread that reports an allocation or a release waits; else 0.
    telling: u64,
    /// The number of processes that have ended without opening a page.
    untold: u64,
    /// Processes without a ledger: their programs, and the maximum that NVML reported for each on each GPU.
    without: BTreeMap<u32, (String, BTreeMap<usize, u64>)>,
}

impl Ledgers {
    pub(super) fn new(is_on: bool, most_pages: usize) -> Ledgers {
        Ledgers {
            is_on,
            most_pages,
            ..Ledgers::default()
        }
    }

    fn process(&mut self, pid: u32) -> &mut ProcessLedger {
        self.processes
            .entry(pid)
            .or_insert_with(|| ProcessLedger::new(pid))
    }

    /// Returns a mark of each page, which changes whenever something is allocated or freed.
    fn page_marks(&self) -> Vec<Option<Vec<u8>>> {
        self.processes
            .values()
            .map(ProcessLedger::page_mark)
            .collect()
    }

    /// Notes the memory that NVML reports on a GPU for a process without a ledger.
    fn note_without(&mut self, pid: u32, gpu: usize, bytes: u64) {
        if bytes > 0
            && !self
                .processes
                .get(&pid)
                .is_some_and(|ledger| ledger.has_told)
        {
            let (_, charged) = self
                .without
                .entry(pid)
                .or_insert_with(|| (program_of(pid), BTreeMap::new()));
            let most = charged.entry(gpu).or_default();
            *most = bytes.max(*most);
        }
    }

    /// Returns a sentence for each process that has no ledger although NVML reported memory for it.
    fn describe_without_ledger(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for (pid, (program, charged)) in std::mem::take(&mut self.without) {
            let charges: Vec<String> = charged
                .iter()
                .map(|(gpu, bytes)| format!("{} on GPU {gpu}", units::bytes(*bytes)))
                .collect();
            let charge = charges.join(" and ");
            all.push(match file_name(&program) {
                MPS_SERVER => format!(
                    "process {pid} ({MPS_SERVER}) is the MPS server; NVML reports up to {charge} for it, which is not in the ledger of any client"
                ),
                name => {
                    format!("process {pid} ({name}) has no ledger; NVML reports up to {charge} for it, whose owner is unknown")
                }
            });
        }
        all
    }

    fn with_pages(&self) -> Vec<u32> {
        self.processes
            .iter()
            .filter(|(_, ledger)| ledger.has_page())
            .map(|(pid, _)| *pid)
            .collect()
    }
}

impl Tracer {
    /// Returns the memory that NVML reports for a process on each GPU; 0 where it does not list the process. Returns an
    /// empty list, for no reading, if a list of processes is missing on a machine that has them.
    pub(super) fn own_bytes(&self, gpus: &[Reading], pid: u32) -> Vec<u64> {
        if self.ledgers.is_listed
            && gpus
                .iter()
                .any(|gpu| gpu.processes.is_none() && gpu.used_bytes.is_some())
        {
            return Vec::new();
        }
        let all = gpus.iter().map(|gpu| {
            let listed = gpu
                .processes
                .iter()
                .flatten()
                .filter(|process| process.pid == pid);
            listed.filter_map(|process| process.used_bytes).sum()
        });
        all.collect()
    }

    fn ledger_mark(&self, pid: u32) -> Option<Vec<u8>> {
        self.ledgers
            .processes
            .get(&pid)
            .and_then(ProcessLedger::page_mark)
    }

    /// Reads memory while no thread of a process allocates or frees, if possible. Then NVML's figures and the page
    /// describe the same moment.
    pub(super) fn read_settled(&mut self, pid: u32) -> (Vec<Option<u64>>, Vec<u64>) {
        let (mut tries, mut is_settled, mut read) = (0, false, (Vec::new(), Vec::new()));
        while !is_settled && tries < MOST_TRIES {
            let before = self.ledger_mark(pid);
            read = self.read_memory(pid);
            self.read_page(pid, false);
            let is_at_rest = before
                .as_ref()
                .is_none_or(|mark| is_at_rest(mark, self.ledgers.telling));
            (tries, is_settled) = (tries + 1, is_at_rest && before == self.ledger_mark(pid));
        }
        if let Some(ledger) = self.ledgers.processes.get_mut(&pid) {
            ledger.is_settled = is_settled;
        }
        read
    }

    /// Takes the page of a process.
    pub(super) fn open_ledger(&mut self, pid: u32, page: Option<File>) {
        if !self.ledgers.is_on {
            return;
        }
        let is_full = self.ledgers.with_pages().len() >= self.ledgers.most_pages;
        match page {
            Some(page) if !is_full => {
                self.ledgers.without.remove(&pid);
                self.ledgers.process(pid).open(SharedPage::new(page));
            }
            _ => self.processes.add_unseen(format!(
                "the memory records of process {pid} could not be read"
            )),
        }
    }

    /// Returns the memory that was attributed on each GPU of a process at its last reading, and the part reserved by
    /// graphs.
    pub(super) fn attributed_bytes(&mut self, pid: u32) -> BTreeMap<String, (u64, u64)> {
        if self.ledgers.is_on {
            self.ledgers.process(pid).attributed_by_gpu()
        } else {
            BTreeMap::new()
        }
    }

    fn read_page(&mut self, pid: u32, changes: bool) {
        let gpus = self.processes.gpus(pid);
        let Ledgers {
            processes, numbers, ..
        } = &mut self.ledgers;
        if let (Some(ledger), Some(gpus)) = (processes.get_mut(&pid), gpus) {
            ledger.read_page(clock::now_ns(), gpus, changes, numbers);
        }
    }

    /// Stores the current reading of a process. Returns `false` if nothing was read, because the waiting thread has
    /// moved on.
    fn take_current_charge(&mut self, pid: u32, (used, own): &MemoryNow) -> bool {
        if !self.ledgers.is_on || (own.is_empty() && !self.gpus.is_empty()) {
            return false;
        }
        let t_ns = clock::now_ns();
        // Until NVML lists a process, the figures of the entire GPU count for it, including the memory of others.
        if own.iter().any(|bytes| *bytes > 0)
            && !std::mem::replace(&mut self.ledgers.is_listed, true)
        {
            for (pid, ledger) in &mut self.ledgers.processes {
                let forgotten = ledger.forget_growth();
                for (_, pending) in self.pending.range_mut((*pid, 0)..=(*pid, u64::MAX)) {
                    for (gpu, (attributed, _)) in &mut pending.attributed {
                        *attributed =
                            attributed.saturating_sub(forgotten.get(gpu).copied().unwrap_or(0));
                    }
                }
            }
        }
        let is_listed = self.ledgers.is_listed;
        let mut charges = BTreeMap::new();
        for ((gpu, used_bytes), own) in self.gpus.iter().zip(used).zip(own) {
            let charge = MemoryCharge {
                t_ns,
                own_bytes: is_listed.then_some(*own),
                used_bytes: *used_bytes,
            };
            charges.insert(gpu.uuid.clone(), charge);
        }
        self.ledgers.process(pid).take_charges(t_ns, charges);
        true
    }

    /// Notes the memory before a call, as reported by NVML.
    pub(super) fn begin_call(&mut self, pid: u32, own: &[u64]) {
        if self.ledgers.is_on && !own.is_empty() {
            let charged = self
                .gpus
                .iter()
                .zip(own)
                .map(|(gpu, bytes)| (gpu.uuid.clone(), *bytes));
            self.ledgers.process(pid).begin_call(charged);
        }
    }

    /// Returns the driver-internal memory that a call allocated on each GPU.
    pub(super) fn driver_growth(
        &mut self,
        (pid, call): (u32, &str),
        before: &Pending,
        now: &MemoryNow,
        named: Option<&str>,
    ) -> Vec<(String, i64)> {
        if !self.take_current_charge(pid, now) {
            return Vec::new();
        }
        let is_listed = self.ledgers.is_listed;
        let ledger = self.ledgers.process(pid);
        let all = self.gpus.iter().enumerate().filter_map(|(index, gpu)| {
            let own = (*before.own.get(index)?, *now.1.get(index)?);
            let used = (*before.used.get(index)?, *now.0.get(index)?);
            let charge =
                account::charge_around_call(own, used, is_listed, named == Some(&gpu.uuid))?;
            let account = ledger.gpu(&gpu.uuid);
            let (before, _) = before
                .attributed
                .get(&gpu.uuid)
                .copied()
                .unwrap_or_default();
            let growth = account::unexplained_growth(charge, (before, account.attributed_bytes()))?;
            let growth = account.share_of_call(call, growth);
            Some((gpu.uuid.clone(), growth)).filter(|(_, growth)| *growth != 0)
        });
        all.collect()
    }

    /// Assigns to an ended call the memory that it allocated on each GPU, and writes the changes.
    pub(super) fn charge_call(&mut self, pid: u32, grown: &[(String, i64)], taker: &MemoryTaker) {
        let Ledgers {
            processes, numbers, ..
        } = &mut self.ledgers;
        let Some(ledger) = processes.get_mut(&pid) else {
            return;
        };
        for (gpu, growth) in grown {
            let bytes = growth.unsigned_abs();
            if *growth < 0 {
                ledger.gpu(gpu).shrink_kind(taker.kind, bytes);
            } else {
                let holder = ledger.holder(
                    MemoryTaker {
                        gpu: gpu.clone(),
                        ..taker.clone()
                    },
                    numbers,
                );
                ledger.gpu(gpu).charge_growth(holder, taker.kind, bytes);
                ledger.group.note_charge(gpu, holder, bytes);
            }
        }
        ledger.note_end(taker);
        let is_changed = self.close_group(pid);
        if is_changed || !grown.is_empty() {
            self.write_changes(pid, true);
        }
    }

    /// Closes the group of calls that ran at the same time, once all have ended. Regardless of the memory assigned to
    /// each, together they allocated the growth of the process since before the first of them. Returns `true` if that
    /// changed a row.
    pub(super) fn close_group(&mut self, pid: u32) -> bool {
        let is_under_way = self
            .pending
            .range((pid, 0)..=(pid, u64::MAX))
            .next()
            .is_some();
        let Ledgers {
            processes,
            numbers,
            is_listed,
            ..
        } = &mut self.ledgers;
        match processes.get_mut(&pid) {
            Some(ledger) if !is_under_way && ledger.is_settled && *is_listed => {
                ledger.close_group(numbers)
            }
            _ => false,
        }
    }

    /// Ends the bracket around a call without an event. Its stack is read only if it allocated memory.
    pub(super) fn end_call(
        &mut self,
        number: u64,
        mut taker: MemoryTaker,
        thread: ParkedThread,
        waiting: &UnixStream,
    ) {
        let pid = thread.pid;
        let Some(before) = self.pending.remove(&(pid, number)) else {
            return;
        };
        if !self.ledgers.is_on {
            return;
        }
        let now = self.read_for(pid, waiting);
        let grown = match ends_context(&taker.call) {
            true if self.take_current_charge(pid, &now) => Vec::new(),
            _ => self.driver_growth((pid, &taker.call), &before, &now, Some(&taker.gpu)),
        };
        let of_graphs = self.ledgers.process(pid).grown_graphs(&before.attributed);
        if !of_graphs.is_empty() || grown.iter().any(|(_, growth)| *growth > 0) {
            taker.stack = self.stack_of(thread, waiting);
        }
        taker.is_disturbed = before.is_disturbed;
        if !of_graphs.is_empty() {
            let Ledgers {
                processes, numbers, ..
            } = &mut self.ledgers;
            if let Some(ledger) = processes.get_mut(&pid) {
                ledger.name_graphs(&of_graphs, &taker, numbers);
            }
            self.read_page(pid, false);
            self.write_changes(pid, true);
        }
        self.charge_call(pid, &grown, &taker);
    }

    /// Sets the caller of a row of the page.
    pub(super) fn name_holder(
        &mut self,
        pid: u32,
        row: u32,
        taker: MemoryTaker,
        waiting: &UnixStream,
    ) {
        let Ledgers {
            processes, numbers, ..
        } = &mut self.ledgers;
        if taker.gpu.is_empty() {
            return;
        }
        let Some(ledger) = processes.get_mut(&pid) else {
            return;
        };
        ledger.name_row(row as usize, taker, numbers);
        self.ledgers.telling = 1;
        let now = self.read_for(pid, waiting);
        self.ledgers.telling = 0;
        if self.take_current_charge(pid, &now) {
            self.close_group(pid);
            self.write_changes(pid, true);
        }
    }

    /// Follows the contexts of a process: the driver-internal memory of a context ends with it.
    pub(super) fn follow_context(&mut self, event: &TraceEvent, waiting: &UnixStream) {
        let EventKind::Context {
            change,
            primary,
            handle,
            ..
        } = event.what
        else {
            return;
        };
        if !self.ledgers.is_on {
            return;
        }
        let Some(gpu) = event.gpu.as_deref() else {
            return;
        };
        let account = self.ledgers.process(event.pid).gpu(gpu);
        match change {
            ContextChange::Made => return account.make_context(primary, handle),
            ContextChange::Failed => return,
            ContextChange::Released | ContextChange::Reset | ContextChange::Destroyed => {
                account.end_context(primary, handle);
            }
        }
        let now = self.read_for(event.pid, waiting);
        if self.take_current_charge(event.pid, &now) {
            self.write_changes(event.pid, true);
        }
    }

    /// Reads a process that holds more than ever before, or that is about to end.
    pub(super) fn read_told(
        &mut self,
        pid: u32,
        why: LedgerReason,
        gpu: Option<&str>,
        waiting: &UnixStream,
    ) {
        self.ledgers.telling = u64::from(why == LedgerReason::Peak);
        let now = self.read_for(pid, waiting);
        self.ledgers.telling = 0;
        if !self.take_current_charge(pid, &now) {
            return;
        }
        self.close_group(pid);
        let ledger = self.ledgers.process(pid);
        let gpus = match (why, gpu) {
            (LedgerReason::Peak, Some(gpu)) if ledger.gpu(gpu).is_peak() => vec![gpu.to_owned()],
            (LedgerReason::Peak, _) => return,
            _ => ledger.used_gpus(),
        };
        self.write_ledger(pid, why, &gpus);
    }

    /// Notes that a process has initialized the driver.
    pub(super) fn expect_ledger(&mut self, pid: u32) {
        if self.ledgers.is_on {
            self.ledgers.process(pid).is_ready = true;
        }
    }

    /// Reads every running process, and writes the changes.
    pub(super) fn tick_ledgers(&mut self) {
        let now_ns = clock::now_ns();
        if now_ns.saturating_sub(self.ledgers.tick_ns) >= TICK_NS {
            self.ledgers.tick_ns = now_ns;
            for pid in self.read_ledgers(true) {
                self.write_changes(pid, false);
            }
        }
    }

    /// Reads every running process. Returns their PIDs.
    pub(super) fn read_ledgers(&mut self, changes: bool) -> Vec<u32> {
        // The last reading of an ending process is the one before its end: by now the process may have freed a part.
        let running: Vec<u32> = self
            .ledgers
            .with_pages()
            .into_iter()
            .filter(|pid| is_running(*pid))
            .collect();
        if running.is_empty() {
            return Vec::new();
        }
        let mut gpus = Vec::new();
        for _ in 0..MOST_TRIES {
            let before = self.ledgers.page_marks();
            gpus = self.read_gpus().unwrap_or_default();
            running.iter().for_each(|pid| self.read_page(*pid, changes));
            let after = self.ledgers.page_marks();
            let pairs = self
                .ledgers
                .processes
                .values_mut()
                .zip(before.iter().zip(&after));
            for (ledger, (before, after)) in pairs {
                ledger.is_settled =
                    before == after && after.as_ref().is_none_or(|mark| is_at_rest(mark, 0));
            }
            if after == before {
                break;
            }
        }
        for (gpu, reading) in gpus.iter().enumerate() {
            let listed = reading
                .processes
                .iter()
                .flatten()
                .filter(|listed| self.processes.gpus(listed.pid).is_some());
            listed.for_each(|listed| {
                self.ledgers
                    .note_without(listed.pid, gpu, listed.used_bytes.unwrap_or(0))
            });
        }
        let read = running
            .into_iter()
            .filter(|pid| is_running(*pid))
            .filter(|pid| {
                let used = gpus.iter().map(|gpu| gpu.used_bytes).collect();
                let is_read = self.take_current_charge(*pid, &(used, self.own_bytes(&gpus, *pid)));
                if is_read {
                    self.close_group(*pid);
                }
                is_read
            });
        read.collect()
    }

    /// Resets the ledger of a process that runs another program now.
    pub(super) fn restart_ledger(&mut self, pid: u32) {
        self.write_end(pid);
        // Calls of the earlier program no longer end.
        self.pending.retain(|(owner, _), _| *owner != pid);
        if let Some(ledger) = self.ledgers.processes.get_mut(&pid) {
            ledger.forget_program();
        }
    }

    /// Ends the ledgers of processes that are no longer known.
    pub(super) fn end_ledgers(&mut self) {
        let all = self.ledgers.processes.keys().copied();
        let ended: Vec<u32> = all
            .filter(|pid| self.processes.gpus(*pid).is_none())
            .collect();
        for pid in ended {
            self.write_end(pid);
            let ended = self.ledgers.processes.remove(&pid);
            if ended.is_some_and(|ledger| ledger.is_ready && !ledger.has_told) {
                self.ledgers.untold += 1;
            }
        }
    }

    /// Ends the last ledgers, and reports the number of processes that sent no records.
    pub(super) fn close_ledgers(&mut self) {
        self.end_ledgers();
        if self.ledgers.untold > 0 {
            let processes = counted(self.ledgers.untold, "process");
            self.processes
                .add_unseen(format!("no memory records from {processes}"));
        }
        for why in self.ledgers.describe_without_ledger() {
            self.processes.add_unseen(why);
        }
    }

    /// Writes the last reading of a process as the one at its exit, unless it was read at its exit.
    fn write_end(&mut self, pid: u32) {
        let ledger = self
            .ledgers
            .processes
            .get(&pid)
            .filter(|ledger| !ledger.is_ended);
        if let Some(gpus) = ledger.map(ProcessLedger::used_gpus) {
            self.write_ledger(pid, LedgerReason::End, &gpus);
        }
    }

    fn write_changes(&mut self, pid: u32, is_told: bool) {
        let now_ns = clock::now_ns();
        let Some(ledger) = self.ledgers.processes.get_mut(&pid) else {
            return;
        };
        if !ledger.has_told || ledger.group.is_uncertain() || !ledger.pace.is_due(now_ns, is_told) {
            return;
        }
        let gpus = ledger.changed_gpus(is_told);
        if !gpus.is_empty() {
            ledger.pace.write(now_ns);
            self.write_ledger(pid, LedgerReason::Change, &gpus);
        }
    }

    fn write_ledger(&mut self, pid: u32, why: LedgerReason, gpus: &[String]) {
        let ledger = self
            .ledgers
            .processes
            .get_mut(&pid)
            .filter(|ledger| ledger.has_told);
        for line in ledger
            .map(|ledger| ledger.lines(why, gpus))
            .into_iter()
            .flatten()
        {
            self.writer.write(line);
        }
    }
}

/// Returns `true` if no thread was allocating or freeing memory, except for the `waiting` threads that wait for the
/// tracer.
fn is_at_rest(mark: &[u8], waiting: u64) -> bool {
    page::calls_under_way(mark) <= waiting
}

/// Returns `true` if a process runs and is not about to end.
fn is_running(pid: u32) -> bool {
    // `flags` is field 9.
    let flags = supervisor::process_stat(pid).and_then(|fields| fields.get(6)?.parse::<u64>().ok());
    is_alive(pid) && flags.is_none_or(|flags| flags & EXITING == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_charged_to_a_process_without_a_ledger_is_said_with_its_number_and_its_gpus() {
        let mut ledgers = Ledgers::new(true, 9);
        let charged = BTreeMap::from([(0, 66 << 20)]);
        ledgers.without.insert(
            70,
            (
                "/usr/bin/nvidia-cuda-mps-server".to_owned(),
                charged.clone(),
            ),
        );
        ledgers
            .without
            .insert(71, ("/opt/worker".to_owned(), charged));
        ledgers.note_without(70, 1, 30 << 20);
        ledgers.note_without(70, 1, 20 << 20);
        ledgers.process(72).has_told = true;
        ledgers.note_without(72, 0, 9 << 20);
        let said = [
            "process 70 (nvidia-cuda-mps-server) is the MPS server; NVML reports up to 66 MiB on GPU 0 and 30 MiB \
             on GPU 1 for it, which is not in the ledger of any client",
            "process 71 (worker) has no ledger; NVML reports up to 66 MiB on GPU 0 for it, whose owner is unknown",
        ];
        assert_eq!(ledgers.describe_without_ledger(), said);
    }
}
