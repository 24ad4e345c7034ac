//! The memory of one process by owner, on every GPU that it uses.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use super::account::{ChangePace, GpuAccount, GpuTotals, MemoryCharge};
use super::page::{DeviceBlock, PageRow, SharedPage, device_of_rest};
use crate::{Holder, LedgerReason, MemoryKind, Stack, TraceEvent, TraceLine};

/// The maximum number of holders in a document. Further callers share one for each process and GPU.
const MOST_HOLDERS: u32 = 10_000;

/// A source of holder numbers, unique in a document.
#[derive(Default)]
pub(super) struct HolderNumbers(u32);

/// A call that allocated memory.
#[derive(Clone)]
pub(in crate::tracer) struct MemoryTaker {
    pub(in crate::tracer) t_ns: u64,
    pub(in crate::tracer) gpu: String,
    pub(in crate::tracer) kind: MemoryKind,
    pub(in crate::tracer) call: String,
    pub(in crate::tracer) stack: Stack,
    /// `true` if another call may have allocated a part of it.
    pub(in crate::tracer) is_disturbed: bool,
}

impl MemoryTaker {
    /// Returns the call of an event that allocated memory of this kind.
    pub(in crate::tracer) fn new(event: TraceEvent, kind: MemoryKind) -> MemoryTaker {
        MemoryTaker {
            t_ns: event.t_ns,
            gpu: event.gpu.unwrap_or_default(),
            kind,
            call: event.call,
            stack: event.stack,
            is_disturbed: false,
        }
    }

    /// Returns a holder for memory that no single call allocated.
    fn from_nobody(t_ns: u64, gpu: &str, kind: MemoryKind) -> MemoryTaker {
        MemoryTaker {
            t_ns,
            gpu: gpu.to_owned(),
            kind,
            call: String::new(),
            stack: Stack::default(),
            is_disturbed: false,
        }
    }

    /// Returns a number that is the same for equal calls at the same place.
    fn stable_hash(&self) -> u64 {
        let place = serde_json::to_vec(&(
            &self.gpu,
            self.kind,
            &self.call,
            &self.stack,
            self.is_disturbed,
        ))
        .unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        hasher.write(&place);
        hasher.finish()
    }
}

/// A row of the page whose holder is known.
struct HeldRow {
    gpu: String,
    holder: u32,
    is_managed: bool,
}

/// Calls that run at the same time, from the start of the first until none is running.
#[derive(Default)]
pub(super) struct CallGroup {
    /// The totals before the first of them, by GPU; `None` if no call is running.
    before: Option<BTreeMap<String, GpuTotals>>,
    /// `true` if the sum of the memory assigned to them may be wrong.
    is_shared: bool,
    /// The memory assigned to each call, by GPU, in the order in which they ended.
    charged: Vec<(String, u32, u64)>,
    ended: Vec<MemoryTaker>,
}

/// The maximum number of calls in a group that are distinguished.
const MOST_ENDED: usize = 64;

impl CallGroup {
    pub(super) fn note_charge(&mut self, gpu: &str, holder: u32, bytes: u64) {
        if self.before.is_some() {
            self.charged.push((gpu.to_owned(), holder, bytes));
        }
    }

    /// Returns `true` if the memory assigned to its calls may still change.
    pub(super) fn is_uncertain(&self) -> bool {
        self.before.is_some() && self.is_shared
    }

    /// Returns the call that most likely allocated the memory on a GPU that was assigned to no call: one that created a
    /// context there, else the last one there, else the last one on any GPU.
    fn likeliest_taker(&self, gpu: &str) -> Option<&MemoryTaker> {
        let context = self
            .ended
            .iter()
            .find(|taker| taker.gpu == gpu && taker.kind == MemoryKind::Context);
        context
            .or_else(|| self.ended.iter().rfind(|taker| taker.gpu == gpu))
            .or(self.ended.last())
    }
}

/// Returns `true` if a call may end a context: the memory that the driver then keeps is known only from the difference.
pub(super) fn ends_context(call: &str) -> bool {
    ["CtxDestroy", "CtxRelease", "CtxReset"]
        .iter()
        .any(|word| call.contains(word))
}

/// Returns the UUID of a device of the page.
fn gpu_at(gpus: &BTreeMap<i32, String>, device: usize) -> Option<&String> {
    gpus.get(&i32::try_from(device).ok()?)
}

#[derive(Default)]
pub(super) struct ProcessLedger {
    pid: u32,
    page: Option<SharedPage>,
    /// The number of each holder, by its fingerprint.
    numbers: BTreeMap<u64, u32>,
    rows: BTreeMap<usize, HeldRow>,
    /// The accounts, by UUID.
    gpus: BTreeMap<String, GpuAccount>,
    /// NVML's last figures for every GPU, used or not.
    charges: BTreeMap<String, MemoryCharge>,
    charged_ns: u64,
    /// Holders without a written reading so far.
    unwritten: Vec<Holder>,
    pub(super) pace: ChangePace,
    pub(super) group: CallGroup,
    /// `true` if the last reading and the page describe the same moment.
    pub(super) is_settled: bool,
    /// `true` if the process has opened its page. The memory of its earlier calls is kept, and written then.
    pub(super) has_told: bool,
    /// `true` if the process has initialized the driver.
    pub(super) is_ready: bool,
    /// `true` if the end of the process is written.
    pub(super) is_ended: bool,
}

impl ProcessLedger {
    pub(super) fn new(pid: u32) -> ProcessLedger {
        ProcessLedger {
            pid,
            ..ProcessLedger::default()
        }
    }

    /// Takes the page of the program that the process runs.
    pub(super) fn open(&mut self, page: SharedPage) {
        (self.page, self.has_told, self.is_ended) = (Some(page), true, false);
        self.rows.clear();
    }

    /// Returns the mark of the page, which changes whenever something is allocated or freed.
    pub(super) fn page_mark(&self) -> Option<Vec<u8>> {
        self.page.as_ref()?.device_mark()
    }

    pub(super) fn has_page(&self) -> bool {
        self.page.is_some()
    }

    /// Forgets the earlier program of the process, but not its written lines.
    pub(super) fn forget_program(&mut self) {
        self.page = None;
        self.rows.clear();
        self.group = CallGroup::default();
        self.gpus.values_mut().for_each(GpuAccount::forget_program);
    }

    /// Returns the account of a GPU.
    pub(super) fn gpu(&mut self, gpu: &str) -> &mut GpuAccount {
        let charge = self.charge_of(gpu);
        self.gpus
            .entry(gpu.to_owned())
            .or_insert_with(|| GpuAccount::new(charge))
    }

    /// Returns NVML's memory for this process on a GPU; empty for a MIG instance, which NVML does not report.
    fn charge_of(&self, gpu: &str) -> MemoryCharge {
        let nothing = MemoryCharge {
            t_ns: self.charged_ns,
            ..MemoryCharge::default()
        };
        self.charges.get(gpu).copied().unwrap_or(nothing)
    }

    /// Returns the number of a holder: that of an equal one, or a new one.
    pub(super) fn holder(&mut self, taker: MemoryTaker, numbers: &mut HolderNumbers) -> u32 {
        let fingerprint = taker.stable_hash();
        if let Some(known) = self.numbers.get(&fingerprint) {
            return *known;
        }
        let is_single = taker.kind != MemoryKind::More && !taker.call.is_empty();
        if is_single && numbers.0 >= MOST_HOLDERS {
            return self.holder(
                MemoryTaker::from_nobody(taker.t_ns, &taker.gpu, MemoryKind::More),
                numbers,
            );
        }
        let MemoryTaker {
            t_ns,
            gpu,
            kind,
            call,
            stack,
            is_disturbed,
        } = taker;
        let holder = numbers.0;
        numbers.0 = numbers.0.saturating_add(1);
        self.numbers.insert(fingerprint, holder);
        self.unwritten.push(Holder {
            t_ns,
            pid: self.pid,
            holder,
            gpu,
            kind,
            call,
            stack,
            is_disturbed,
        });
        holder
    }

    /// Sets the caller of a row of the page.
    pub(super) fn name_row(&mut self, row: usize, taker: MemoryTaker, numbers: &mut HolderNumbers) {
        let (gpu, is_managed) = (taker.gpu.clone(), taker.kind == MemoryKind::Managed);
        let holder = self.holder(taker, numbers);
        self.gpu(&gpu);
        self.rows.insert(
            row,
            HeldRow {
                gpu,
                holder,
                is_managed,
            },
        );
    }

    /// Reads the page. `gpus` has the UUIDs by ordinal. If only `changes` are needed, an unchanged page is not read
    /// again.
    pub(super) fn read_page(
        &mut self,
        t_ns: u64,
        gpus: &BTreeMap<i32, String>,
        changes: bool,
        numbers: &mut HolderNumbers,
    ) {
        let Some(mut page) = self.page.take() else {
            return;
        };
        if changes {
            page.read_if_changed()
        } else {
            page.read()
        }
        self.gpus.values_mut().for_each(GpuAccount::clear_page);
        for (device, block) in &page.devices {
            if let Some(gpu) = gpu_at(gpus, *device) {
                self.read_device(t_ns, gpu, block, numbers);
            }
        }
        for account in self.gpus.values_mut() {
            if account.graph_bytes == 0 {
                account.take_graphs(0);
            }
        }
        for (row, held) in &page.rows {
            if let Some(gpu) = device_of_rest(*row).and_then(|device| gpu_at(gpus, device)) {
                let taker = MemoryTaker::from_nobody(t_ns, gpu, MemoryKind::More);
                let holder = self.holder(taker, numbers);
                self.gpu(gpu)
                    .add_holder(holder, held.bytes, Some(held.count));
            }
            self.read_row(*row, held);
        }
        self.page = Some(page);
    }

    /// Adds to a GPU the page's totals for it, and the memory that no single caller holds.
    fn read_device(
        &mut self,
        t_ns: u64,
        gpu: &str,
        block: &DeviceBlock,
        numbers: &mut HolderNumbers,
    ) {
        let account = self.gpu(gpu);
        account.page_bytes = block.total_bytes();
        let parts = [
            (MemoryKind::Rounding, block.rounding_bytes),
            (MemoryKind::PoolRest, block.pool_rest_bytes),
            (MemoryKind::Graph, account.take_graphs(block.graph_bytes)),
        ];
        for (kind, bytes) in parts {
            if bytes > 0 {
                let holder = self.holder(MemoryTaker::from_nobody(t_ns, gpu, kind), numbers);
                self.gpu(gpu).add_holder(holder, bytes, None);
            }
        }
    }

    /// Adds a row to its GPU. A caller without a message so far remains unattributed.
    fn read_row(&mut self, row: usize, held: &PageRow) {
        let Some(named) = self.rows.get(&row) else {
            return;
        };
        let Some(account) = self.gpus.get_mut(&named.gpu) else {
            return;
        };
        account.add_holder(named.holder, held.bytes, Some(held.count));
        if named.is_managed {
            account.managed_bytes = account.managed_bytes.saturating_add(held.bytes);
        }
    }

    /// Notes that a call begins, with the memory that NVML reported on each GPU before it.
    pub(super) fn begin_call(&mut self, charged: impl Iterator<Item = (String, u64)>) {
        if self.group.before.is_some() {
            return;
        }
        let before = charged.map(|(gpu, charged_bytes)| {
            let account = self.gpus.get(&gpu);
            let attributed_bytes = account.map_or(0, GpuAccount::attributed_bytes);
            let now = GpuTotals {
                charged_bytes,
                attributed_bytes,
            };
            // While memory is being allocated, NVML may include it before the page does, or the page before NVML.
            let last = account.map(|account| account.settled).unwrap_or_default();
            let is_better = !self.is_settled && last.attributed_bytes > 0;
            (gpu, if is_better { last } else { now })
        });
        let is_shared = !self.is_settled;
        self.group = CallGroup {
            before: Some(before.collect()),
            is_shared,
            ..CallGroup::default()
        };
    }

    /// Notes that a call has ended.
    pub(super) fn note_end(&mut self, taker: &MemoryTaker) {
        let group = &mut self.group;
        group.is_shared |= !self.is_settled || taker.is_disturbed || ends_context(&taker.call);
        if group.before.is_some() && group.ended.len() < MOST_ENDED {
            group.ended.push(taker.clone());
        }
    }

    /// Ends the calls that ran at the same time. Returns `true` if that changed a row.
    pub(super) fn close_group(&mut self, numbers: &mut HolderNumbers) -> bool {
        let group = std::mem::take(&mut self.group);
        let mut is_changed = false;
        for (gpu, before) in group.before.iter().flatten().filter(|_| group.is_shared) {
            let Some(account) = self.gpus.get_mut(gpu) else {
                continue;
            };
            let has_ended = group
                .ended
                .iter()
                .any(|taker| taker.gpu == *gpu && ends_context(&taker.call));
            let charged = group
                .charged
                .iter()
                .filter(|(on, ..)| on == gpu)
                .map(|(_, holder, bytes)| (*holder, *bytes));
            let charged: Vec<(u32, u64)> = charged.collect();
            let growth = account.missing_growth(
                (before.charged_bytes, before.attributed_bytes),
                &charged,
                has_ended,
            );
            is_changed |= growth != 0;
            if growth < 0 {
                account.take_back(&charged, growth.unsigned_abs(), has_ended);
            } else if has_ended && growth > 0 {
                account.keep_of_context(growth.unsigned_abs());
            } else if growth > 0
                && let Some(taker) = group.likeliest_taker(gpu)
            {
                let kind = if taker.kind == MemoryKind::Context && taker.gpu != *gpu {
                    MemoryKind::Driver
                } else {
                    taker.kind
                };
                let taker = MemoryTaker {
                    gpu: gpu.clone(),
                    kind,
                    is_disturbed: true,
                    ..taker.clone()
                };
                let holder = self.holder(taker, numbers);
                self.gpu(gpu)
                    .add_growth(holder, kind, growth.unsigned_abs());
            }
        }
        for account in self.gpus.values_mut() {
            is_changed |= group.before.is_none() && account.follow_returned();
            account.settle_totals();
        }
        is_changed
    }

    /// Forgets the memory that was assigned to calls, because it came from the figures of the entire GPU. Returns its
    /// size on each GPU.
    pub(super) fn forget_growth(&mut self) -> BTreeMap<String, u64> {
        let forgotten = self
            .gpus
            .iter_mut()
            .map(|(gpu, account)| (gpu.clone(), account.forget_growth()));
        let forgotten: BTreeMap<String, u64> = forgotten.collect();
        for (gpu, before) in self.group.before.iter_mut().flatten() {
            let bytes = forgotten.get(gpu).copied().unwrap_or(0);
            before.attributed_bytes = before.attributed_bytes.saturating_sub(bytes);
        }
        self.group.charged.clear();
        forgotten
    }

    /// Returns the attributed memory on each GPU, and the part reserved by graphs.
    pub(super) fn attributed_by_gpu(&self) -> BTreeMap<String, (u64, u64)> {
        let all = self
            .gpus
            .iter()
            .map(|(gpu, it)| (gpu.clone(), (it.attributed_bytes(), it.graph_bytes)));
        all.collect()
    }

    /// Returns the additional memory that graphs have reserved on each GPU since before a call.
    pub(super) fn grown_graphs(&self, before: &BTreeMap<String, (u64, u64)>) -> Vec<(String, u64)> {
        let more = self.gpus.iter().map(|(gpu, account)| {
            let (_, graphs) = before.get(gpu).copied().unwrap_or_default();
            (gpu.clone(), account.graph_bytes.saturating_sub(graphs))
        });
        more.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Notes the call that caused graphs to reserve memory.
    pub(super) fn name_graphs(
        &mut self,
        grown: &[(String, u64)],
        taker: &MemoryTaker,
        numbers: &mut HolderNumbers,
    ) {
        for (gpu, bytes) in grown {
            let taker = MemoryTaker {
                gpu: gpu.clone(),
                kind: MemoryKind::Graph,
                ..taker.clone()
            };
            let holder = self.holder(taker, numbers);
            self.gpu(gpu)
                .charge_growth(holder, MemoryKind::Graph, *bytes);
        }
    }

    /// Stores NVML's figures for the process on each GPU.
    pub(super) fn take_charges(&mut self, t_ns: u64, charges: BTreeMap<String, MemoryCharge>) {
        (self.charges, self.charged_ns) = (charges, t_ns);
        let charged = self
            .charges
            .iter()
            .filter(|(_, charge)| charge.own_bytes.is_some_and(|bytes| bytes > 0));
        for gpu in charged
            .map(|(gpu, _)| gpu.clone())
            .chain(self.gpus.keys().cloned())
            .collect::<Vec<_>>()
        {
            let charge = self.charge_of(&gpu);
            self.gpu(&gpu).take_charge(charge);
        }
    }

    /// Returns the GPUs where the process has or had anything.
    pub(super) fn used_gpus(&self) -> Vec<String> {
        self.gpus
            .iter()
            .filter(|(_, account)| account.is_used())
            .map(|(gpu, _)| gpu.clone())
            .collect()
    }

    /// Returns the GPUs whose change is large enough to be recorded. `is_told` is `true` if the process itself reported
    /// the change.
    pub(super) fn changed_gpus(&self, is_told: bool) -> Vec<String> {
        self.gpus
            .iter()
            .filter(|(_, account)| account.has_changed(is_told))
            .map(|(gpu, _)| gpu.clone())
            .collect()
    }

    /// Returns the lines that must be written now: new holders, and a reading of each of these GPUs.
    pub(super) fn lines(&mut self, why: LedgerReason, gpus: &[String]) -> Vec<TraceLine> {
        let holders = std::mem::take(&mut self.unwritten).into_iter();
        let mut lines: Vec<TraceLine> = holders
            .map(|holder| TraceLine::Holder(Box::new(holder)))
            .collect();
        for (gpu, account) in self.gpus.iter_mut().filter(|(gpu, _)| gpus.contains(gpu)) {
            lines.push(TraceLine::Ledger(account.reading(self.pid, gpu, why)));
        }
        self.is_ended |= why == LedgerReason::End;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::{ROWS, TestPage};
    use super::*;

    const MIB: u64 = 1 << 20;

    fn gpus() -> BTreeMap<i32, String> {
        BTreeMap::from([(0, "GPU-0".to_owned()), (1, "GPU-1".to_owned())])
    }

    fn taker(kind: MemoryKind, call: &str) -> MemoryTaker {
        MemoryTaker {
            t_ns: 3,
            gpu: "GPU-1".into(),
            kind,
            call: call.into(),
            stack: Stack::default(),
            is_disturbed: false,
        }
    }

    /// Returns the current lines of every GPU: the kind of each holder, and its bytes.
    fn written(
        ledger: &mut ProcessLedger,
        kinds: &mut BTreeMap<u32, MemoryKind>,
    ) -> Vec<(MemoryKind, u64)> {
        let gpus = ledger.used_gpus();
        let mut held = Vec::new();
        for line in ledger.lines(LedgerReason::Peak, &gpus) {
            match line {
                TraceLine::Holder(holder) => drop(kinds.insert(holder.holder, holder.kind)),
                TraceLine::Ledger(reading) => {
                    held.extend(reading.held.iter().map(|it| (kinds[&it.holder], it.bytes)))
                }
                line => panic!("{line:?}"),
            }
        }
        held
    }

    #[test]
    fn a_page_is_of_its_callers_and_of_what_no_caller_took() {
        let (notes, mut numbers, mut kinds) =
            (TestPage::new(), HolderNumbers::default(), BTreeMap::new());
        let mut ledger = ProcessLedger::new(7);
        ledger.open(notes.page());
        notes.device(1, 0, &[1, 2, 3, 64 * MIB + 50]);
        notes.row(5, 64 * MIB, 2);
        notes.row(ROWS - 63, 50, 5);
        // This row has no message, and this device is unknown.
        notes.row(6, MIB, 1);
        notes.device(9, 0, &[MIB]);
        ledger.name_row(
            5,
            taker(MemoryKind::Managed, "cuMemAllocManaged"),
            &mut numbers,
        );
        ledger.read_page(4, &gpus(), false, &mut numbers);
        let expected = [
            (MemoryKind::Managed, 64 * MIB),
            (MemoryKind::Rounding, 1),
            (MemoryKind::PoolRest, 2),
            (MemoryKind::Graph, 3),
            (MemoryKind::More, 50),
        ];
        assert_eq!(written(&mut ledger, &mut kinds), expected);
        assert_eq!(
            ledger.attributed_by_gpu(),
            BTreeMap::from([("GPU-1".to_owned(), (64 * MIB + 56, 3))])
        );
        assert_eq!(ledger.gpu("GPU-1").managed_bytes, 64 * MIB);
        assert!(
            written(&mut ledger, &mut kinds).is_empty(),
            "nothing has changed"
        );
    }

    #[test]
    fn equal_calls_at_one_place_are_one_holder_and_there_are_not_too_many() {
        let mut numbers = HolderNumbers::default();
        let mut ledger = ProcessLedger::new(7);
        let first = ledger.holder(taker(MemoryKind::Code, "cuModuleLoad"), &mut numbers);
        assert_eq!(
            ledger.holder(taker(MemoryKind::Code, "cuModuleLoad"), &mut numbers),
            first
        );
        assert_ne!(
            ledger.holder(taker(MemoryKind::Driver, "cuModuleLoad"), &mut numbers),
            first
        );
        // Another process has its own numbers.
        assert_ne!(
            ProcessLedger::new(8).holder(taker(MemoryKind::Code, "cuModuleLoad"), &mut numbers),
            first
        );
        let all: Vec<u32> = (0..20_000)
            .map(|at| ledger.holder(taker(MemoryKind::Code, &format!("c{at}")), &mut numbers))
            .collect();
        assert_eq!(all[19_999], all[19_998]);
        assert_eq!(
            ledger.unwritten.len(),
            MOST_HOLDERS as usize,
            "and one of them is of another process"
        );
        assert_eq!(
            ledger.unwritten.last().map(|holder| holder.kind),
            Some(MemoryKind::More)
        );
    }

    #[test]
    fn another_program_in_the_process_holds_nothing_of_the_one_before() {
        let (notes, mut numbers, mut kinds) =
            (TestPage::new(), HolderNumbers::default(), BTreeMap::new());
        let mut ledger = ProcessLedger::new(7);
        ledger.open(notes.page());
        notes.row(5, MIB, 1);
        notes.device(1, 3, &[MIB]);
        ledger.name_row(5, taker(MemoryKind::Pool, "cuMemAllocAsync"), &mut numbers);
        ledger.read_page(4, &gpus(), false, &mut numbers);
        assert_eq!(written(&mut ledger, &mut kinds), [(MemoryKind::Pool, MIB)]);
        ledger.forget_program();
        assert!(!ledger.has_page());
        assert_eq!(written(&mut ledger, &mut kinds), [(MemoryKind::Pool, 0)]);
        ledger.open(notes.page());
        ledger.read_page(5, &gpus(), false, &mut numbers);
        assert!(
            written(&mut ledger, &mut kinds).is_empty(),
            "the row is of nobody in the new program"
        );
    }

    /// A process with an unchanging page and `bytes` of memory on one GPU according to NVML.
    fn charged(ledger: &mut ProcessLedger, bytes: u64) {
        let charge = MemoryCharge {
            t_ns: 1,
            own_bytes: Some(bytes),
            used_bytes: None,
        };
        ledger.is_settled = true;
        ledger.take_charges(1, BTreeMap::from([("GPU-0".to_owned(), charge)]));
    }

    fn begin(ledger: &mut ProcessLedger, bytes: u64) {
        ledger.begin_call([("GPU-0".to_owned(), bytes)].into_iter());
    }

    fn end(
        ledger: &mut ProcessLedger,
        taker: MemoryTaker,
        bytes: u64,
        numbers: &mut HolderNumbers,
    ) {
        let taker = MemoryTaker {
            gpu: "GPU-0".to_owned(),
            ..taker
        };
        if bytes > 0 {
            let holder = ledger.holder(taker.clone(), numbers);
            ledger.gpu("GPU-0").charge_growth(holder, taker.kind, bytes);
            ledger.group.note_charge("GPU-0", holder, bytes);
        }
        ledger.note_end(&taker);
    }

    #[test]
    fn calls_at_the_same_time_are_charged_together_with_what_the_process_holds_more() {
        let (mut ledger, mut numbers) = (ProcessLedger::new(7), HolderNumbers::default());
        let context = || MemoryTaker {
            is_disturbed: true,
            ..taker(MemoryKind::Context, "cuDevicePrimaryCtxRetain")
        };
        let other = || MemoryTaker {
            is_disturbed: true,
            ..taker(MemoryKind::Driver, "cuMemAlloc_v2")
        };
        // Both calls got 32 MiB that another thread was allocating.
        charged(&mut ledger, 0);
        begin(&mut ledger, 0);
        end(&mut ledger, context(), 532 * MIB, &mut numbers);
        end(&mut ledger, other(), 32 * MIB, &mut numbers);
        assert!(ledger.group.is_uncertain());
        charged(&mut ledger, 502 * MIB);
        assert!(ledger.close_group(&mut numbers));
        assert_eq!(ledger.gpu("GPU-0").attributed_bytes(), 502 * MIB);
        // Neither call got any memory: the reading after one was the reading before the other.
        begin(&mut ledger, 502 * MIB);
        end(&mut ledger, other(), 0, &mut numbers);
        end(&mut ledger, other(), 0, &mut numbers);
        charged(&mut ledger, 512 * MIB);
        assert!(ledger.close_group(&mut numbers));
        assert_eq!(ledger.gpu("GPU-0").attributed_bytes(), 512 * MIB);
        // Growth without a call at the same time has no owner.
        charged(&mut ledger, 600 * MIB);
        assert!(!ledger.close_group(&mut numbers));
        assert_eq!(ledger.gpu("GPU-0").attributed_bytes(), 512 * MIB);
    }

    #[test]
    fn a_call_that_begins_while_the_page_is_ahead_of_the_charge_is_not_charged_with_that() {
        let (mut ledger, mut numbers) = (ProcessLedger::new(7), HolderNumbers::default());
        charged(&mut ledger, 0);
        begin(&mut ledger, 0);
        end(
            &mut ledger,
            taker(MemoryKind::Context, "cuCtxCreate_v2"),
            100 * MIB,
            &mut numbers,
        );
        charged(&mut ledger, 100 * MIB);
        ledger.close_group(&mut numbers);
        // Another thread allocated 6 MiB after NVML was read, and before the page was read.
        ledger.gpu("GPU-0").page_bytes = 6 * MIB;
        ledger.is_settled = false;
        begin(&mut ledger, 100 * MIB);
        end(
            &mut ledger,
            taker(MemoryKind::Driver, "cuMemcpyAsync"),
            6 * MIB,
            &mut numbers,
        );
        charged(&mut ledger, 106 * MIB);
        assert!(ledger.close_group(&mut numbers));
        assert_eq!(ledger.gpu("GPU-0").attributed_bytes(), 106 * MIB);
    }

    #[test]
    fn threads_that_each_grow_a_context_come_to_what_is_charged_whatever_each_saw_meanwhile() {
        let (mut ledger, mut numbers) = (ProcessLedger::new(7), HolderNumbers::default());
        let gpus = ["GPU-0", "GPU-1", "GPU-2", "GPU-3"];
        let charge = |ledger: &mut ProcessLedger, bytes: u64| {
            let charge = MemoryCharge {
                t_ns: 1,
                own_bytes: Some(bytes),
                used_bytes: None,
            };
            ledger.is_settled = true;
            ledger.take_charges(1, gpus.map(|gpu| (gpu.to_owned(), charge)).into());
        };
        charge(&mut ledger, 0);
        for (before, grown, now) in [(0, 518 * MIB, 518 * MIB), (518 * MIB, 690 * MIB, 704 * MIB)] {
            ledger.begin_call(gpus.map(|gpu| (gpu.to_owned(), before)).into_iter());
            // The second time, the driver frees 504 MiB before it allocates 690: every thread except for one has seen
            // that.
            for gpu in gpus {
                let taker = MemoryTaker {
                    gpu: gpu.into(),
                    is_disturbed: true,
                    ..taker(MemoryKind::Context, "call")
                };
                let holder = ledger.holder(taker.clone(), &mut numbers);
                ledger.gpu(gpu).charge_growth(holder, taker.kind, grown);
                ledger.group.note_charge(gpu, holder, grown);
                ledger.note_end(&taker);
            }
            charge(&mut ledger, now);
            ledger.close_group(&mut numbers);
            assert_eq!(gpus.map(|gpu| ledger.gpu(gpu).attributed_bytes()), [now; 4]);
        }
    }

    #[test]
    fn what_stays_of_a_context_that_has_ended_is_held_by_who_made_it() {
        let (mut ledger, mut numbers) = (ProcessLedger::new(7), HolderNumbers::default());
        charged(&mut ledger, 0);
        for handle in [1, 2] {
            let made = taker(MemoryKind::Context, &format!("cuCtxCreate_v{handle}"));
            begin(&mut ledger, 0);
            end(&mut ledger, made, 500 * MIB, &mut numbers);
            ledger.gpu("GPU-0").make_context(false, handle);
        }
        charged(&mut ledger, 1000 * MIB);
        ledger.close_group(&mut numbers);
        begin(&mut ledger, 1000 * MIB);
        ledger.gpu("GPU-0").end_context(false, 1);
        end(
            &mut ledger,
            taker(MemoryKind::Driver, "cuCtxDestroy_v2"),
            0,
            &mut numbers,
        );
        charged(&mut ledger, 506 * MIB);
        assert!(ledger.close_group(&mut numbers));
        assert_eq!(ledger.gpu("GPU-0").attributed_bytes(), 506 * MIB);
    }

    #[test]
    fn what_others_took_before_a_process_was_listed_is_forgotten() {
        let (mut ledger, mut numbers) = (ProcessLedger::new(7), HolderNumbers::default());
        charged(&mut ledger, 0);
        begin(&mut ledger, 0);
        end(
            &mut ledger,
            taker(MemoryKind::Driver, "cuCtxSetCurrent"),
            25 * MIB,
            &mut numbers,
        );
        assert_eq!(ledger.forget_growth()["GPU-0"], 25 * MIB);
        assert_eq!(ledger.gpu("GPU-0").attributed_bytes(), 0);
    }

    #[test]
    fn a_gpu_is_in_the_ledger_if_the_process_is_charged_there() {
        let mut ledger = ProcessLedger::new(7);
        let charge = |t_ns, own_bytes| MemoryCharge {
            t_ns,
            own_bytes,
            used_bytes: Some(5 * MIB),
        };
        let charges = |t_ns, [first, second]: [Option<u64>; 2]| {
            BTreeMap::from([
                ("GPU-0".to_owned(), charge(t_ns, first)),
                ("GPU-1".to_owned(), charge(t_ns, second)),
            ])
        };
        ledger.take_charges(9, charges(9, [Some(MIB), Some(0)]));
        assert_eq!(ledger.used_gpus(), ["GPU-0"]);
        ledger.take_charges(10, charges(10, [Some(0), None]));
        assert!(ledger.used_gpus().is_empty());
        // Where PIDs cannot be matched, a GPU with held memory counts as used.
        let holder = ledger.holder(
            taker(MemoryKind::Context, "cuCtxCreate_v2"),
            &mut HolderNumbers::default(),
        );
        ledger
            .gpu("GPU-1")
            .charge_growth(holder, MemoryKind::Context, MIB);
        assert_eq!(
            (ledger.used_gpus(), ledger.changed_gpus(false)),
            (vec!["GPU-1".into()], vec!["GPU-1".into()])
        );
        assert_eq!(ledger.gpu("GPU-1").charge, charge(10, None));
        // A MIG instance.
        let nothing = MemoryCharge {
            t_ns: 10,
            own_bytes: None,
            used_bytes: None,
        };
        assert_eq!(ledger.gpu("GPU-7").charge, nothing);
    }
}
