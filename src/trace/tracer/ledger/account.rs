//! What a process holds on one GPU, and when that is written. Nothing here reads or writes.

use std::collections::BTreeMap;

use crate::{Held, LedgerReading, LedgerReason, MemoryKind};

/// A smaller difference around a call is not charged to it: NVML counts in steps of this.
const LEAST_GROWTH_BYTES: i64 = 64 << 10;
/// A smaller change is written only together with something else.
const STEP_BYTES: u64 = 1 << 20;
/// How often changes are written.
const STEP_NS: u64 = 200_000_000;
/// After so many readings, the next ones are half as many.
const MOST_AT_ONCE: u32 = 1000;

/// What NVML said of a process on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryCharge {
    pub(super) t_ns: u64,
    /// What it charges to the process; `None` where it does not list the process.
    pub(super) own_bytes: Option<u64>,
    /// What is in use on the GPU.
    pub(super) used_bytes: Option<u64>,
}

impl MemoryCharge {
    fn bytes(&self) -> Option<u64> {
        self.own_bytes.or(self.used_bytes)
    }
}

/// The charge before and after a call: to the process where NVML lists it. Where it lists no process by the PID that the
/// tracer knows, it is the memory in use on the GPU that the call names. `None` if the call took nothing there.
pub(super) fn charge_around_call(
    own: (u64, u64),
    used: (Option<u64>, Option<u64>),
    is_listed: bool,
    is_named: bool,
) -> Option<(u64, u64)> {
    match own {
        (0, 0) if is_listed || !is_named => None,
        (0, 0) => used.0.zip(used.1),
        own => Some(own),
    }
}

/// What a call took in the driver, beyond what the page says and what other calls took meanwhile: the difference of
/// the charge less the difference of what is attributed. `None` if it is too little, or the charge did not follow: the
/// driver may keep what is freed, and serve an allocation from what it kept.
pub(super) fn unexplained_growth(charge: (u64, u64), attributed: (u64, u64)) -> Option<i64> {
    let charged = difference(charge);
    let growth = charged.saturating_sub(difference(attributed));
    let growth = match growth.signum() {
        1 if charged > 0 => growth,
        -1 if charged < 0 => growth.max(charged),
        _ => 0,
    };
    (growth.abs() >= LEAST_GROWTH_BYTES).then_some(growth)
}

fn difference((before, after): (u64, u64)) -> i64 {
    let most = i64::MAX as u64;
    after.min(most) as i64 - before.min(most) as i64
}

/// What a call is charged for that took memory in the driver.
pub(in crate::tracer) fn kind_of(call: &str) -> MemoryKind {
    match call {
        "cuInit" => MemoryKind::Context,
        _ if ["Module", "Library", "Kernel", "Func", "Launch"]
            .iter()
            .any(|word| call.contains(word)) =>
        {
            MemoryKind::Code
        }
        _ if call.contains("Array") => MemoryKind::Array,
        _ => MemoryKind::Driver,
    }
}

/// Whether a call only gives back: what is charged more meanwhile is another's memory, whose owner has given it back.
fn only_gives_back(call: &str) -> bool {
    ["MemUnmap", "MemRelease", "AddressFree", "IpcClose"]
        .iter()
        .any(|word| call.contains(word))
}

/// Whether managed memory may have moved to the GPU in a call.
fn moves_managed(call: &str) -> bool {
    ["Launch", "Memcpy", "Memset", "Prefetch"]
        .iter()
        .any(|word| call.contains(word))
}

/// What a process was charged with on one GPU, and how much of it was attributed.
#[derive(Clone, Copy, Default)]
pub(super) struct GpuTotals {
    pub(super) charged_bytes: u64,
    pub(super) attributed_bytes: u64,
}

impl GpuTotals {
    /// What was not attributed.
    pub(super) fn rest(self) -> i64 {
        difference((self.attributed_bytes, self.charged_bytes))
    }
}

/// What a call took in the driver.
struct CallGrowth {
    holder: u32,
    kind: MemoryKind,
    bytes: u64,
}

/// The holder to which a context was charged, and how much.
type ContextGrowth = (u32, u64);

/// A process on one GPU.
#[derive(Default)]
pub(super) struct GpuAccount {
    /// In the order in which the calls were made.
    grown: Vec<CallGrowth>,
    /// The contexts there: whether it is the primary one, and the handle of any other; with what its call took.
    contexts: BTreeMap<(bool, u64), ContextGrowth>,
    /// What a call took for a context that is not known yet.
    made: ContextGrowth,
    pub(super) charge: MemoryCharge,
    /// The holder of the context that ended last.
    ended: Option<u32>,
    /// What there was when no call was under way, and the most that was charged since.
    pub(super) settled: GpuTotals,
    most_bytes: u64,
    /// What the page says that is held, by holder.
    paged: BTreeMap<u32, (u64, Option<u64>)>,
    /// How much the page says that is held.
    pub(super) page_bytes: u64,
    pub(super) managed_bytes: u64,
    /// How much of it graphs have reserved.
    pub(super) graph_bytes: u64,
    /// How much of the managed memory may have moved to the GPU.
    moved_bytes: u64,
    written: BTreeMap<u32, (u64, Option<u64>)>,
    written_charge: MemoryCharge,
    /// The highest charge of a written peak, and how many were written.
    peak: (u64, u32),
    is_written: bool,
}

impl GpuAccount {
    pub(super) fn new(charge: MemoryCharge) -> GpuAccount {
        GpuAccount {
            charge,
            ..GpuAccount::default()
        }
    }

    /// How much is attributed to anyone. The memory of graphs is on the page.
    pub(super) fn attributed_bytes(&self) -> u64 {
        let mut bytes = self.page_bytes;
        for grown in &self.grown {
            if grown.kind != MemoryKind::Graph {
                bytes = bytes.saturating_add(grown.bytes);
            }
        }
        bytes
    }

    /// Takes how much graphs have reserved. Of that, what no call is known to have reserved.
    pub(super) fn take_graphs(&mut self, bytes: u64) -> u64 {
        self.graph_bytes = bytes;
        let mut named = 0u64;
        for grown in &self.grown {
            if grown.kind == MemoryKind::Graph {
                named = named.saturating_add(grown.bytes);
            }
        }
        self.shrink_kind(MemoryKind::Graph, named.saturating_sub(bytes));
        bytes.saturating_sub(named)
    }

    /// Forgets what the page said, before it is read again.
    pub(super) fn turn_page(&mut self) {
        self.paged.clear();
        (self.page_bytes, self.managed_bytes, self.graph_bytes) = (0, 0, 0);
    }

    /// Adds what the page says of a holder.
    pub(super) fn add_holder(&mut self, holder: u32, bytes: u64, count: Option<u64>) {
        let held = self.paged.entry(holder).or_default();
        held.0 = held.0.saturating_add(bytes);
        held.1 = count.map(|count| held.1.unwrap_or(0).saturating_add(count));
    }

    /// What of a growth beside a call the call took.
    pub(super) fn taken_by(&mut self, call: &str, growth: i64) -> i64 {
        match growth {
            _ if moves_managed(call) => self.without_managed(growth),
            _ if only_gives_back(call) => growth.min(0),
            _ => growth,
        }
    }

    /// What a call took that is not managed memory. The rows of managed memory hold all of it, wherever it is.
    pub(super) fn without_managed(&mut self, growth: i64) -> i64 {
        self.moved_bytes = self.moved_bytes.min(self.managed_bytes);
        let left = self.managed_bytes - self.moved_bytes;
        let moved = left.min(u64::try_from(growth).unwrap_or(0));
        self.moved_bytes += moved;
        growth.saturating_sub_unsigned(moved)
    }

    /// Charges a call with what it took in the driver.
    pub(super) fn charge_growth(&mut self, holder: u32, kind: MemoryKind, bytes: u64) {
        if kind == MemoryKind::Context {
            self.made = (holder, bytes);
        }
        let same = self.grown.iter_mut().find(|grown| grown.holder == holder);
        match same {
            Some(grown) => grown.bytes = grown.bytes.saturating_add(bytes),
            None => self.grown.push(CallGrowth {
                holder,
                kind,
                bytes,
            }),
        }
    }

    /// Like [`GpuAccount::charge_growth`], of a call that was charged before.
    pub(super) fn add_growth(&mut self, holder: u32, kind: MemoryKind, bytes: u64) {
        let made = self.made;
        self.charge_growth(holder, kind, bytes);
        self.made = made;
        let contexts = self.contexts.values_mut().chain([&mut self.made]);
        if let Some(context) = contexts
            .rev()
            .find(|(known, bytes)| *known == holder && *bytes > 0)
        {
            context.1 = context.1.saturating_add(bytes);
        }
    }

    /// What calls took together that none of them was charged with; less than nothing if they were charged with too
    /// much. Beside the end of a context everything counts; else the driver may have kept what was freed.
    pub(super) fn missing_growth(
        &mut self,
        before: (u64, u64),
        charged: &[(u32, u64)],
        has_ended: bool,
    ) -> i64 {
        let now = (
            self.charge.own_bytes.unwrap_or(before.0),
            self.attributed_bytes(),
        );
        let (charge, attributed) = ((before.0, now.0), (before.1, now.1));
        let growth = difference(charge).saturating_sub(difference(attributed));
        let too_much = charged
            .iter()
            .map(|(_, bytes)| *bytes)
            .fold(0, u64::saturating_add);
        let growth = match growth {
            1.. if has_ended => growth,
            1.. => self::unexplained_growth(charge, attributed)
                .map_or(0, |growth| self.without_managed(growth)),
            _ if has_ended => growth,
            _ => growth.max(i64::try_from(too_much).map_or(i64::MIN, |most| -most)),
        };
        if growth.abs() < LEAST_GROWTH_BYTES {
            0
        } else {
            growth
        }
    }

    /// Takes back what calls were charged with too much, from the last one first; beside the end of a context also from
    /// what others took in the driver, the newest first.
    pub(super) fn take_back(&mut self, charged: &[(u32, u64)], mut bytes: u64, has_ended: bool) {
        for (holder, most) in charged.iter().rev() {
            bytes -= self.take_from_holder(*holder, bytes.min(*most));
        }
        let others: Vec<u32> = self.grown.iter().rev().map(|grown| grown.holder).collect();
        for holder in others
            .into_iter()
            .take(if has_ended { usize::MAX } else { 0 })
        {
            bytes -= self.take_from_holder(holder, bytes);
        }
    }

    fn take_from_holder(&mut self, holder: u32, bytes: u64) -> u64 {
        let Some(grown) = self.grown.iter_mut().find(|grown| grown.holder == holder) else {
            return 0;
        };
        let taken = grown.bytes.min(bytes);
        grown.bytes -= taken;
        let contexts = self.contexts.values_mut().chain([&mut self.made]);
        if let Some(context) = contexts
            .rev()
            .find(|(known, bytes)| *known == holder && *bytes > 0)
        {
            context.1 = context.1.saturating_sub(taken);
        }
        taken
    }

    /// Charges what the driver keeps of a context that has ended to whoever made it.
    pub(super) fn keep_of_context(&mut self, bytes: u64) {
        if let Some(holder) = self.ended {
            self.add_growth(holder, MemoryKind::Context, bytes);
        }
    }

    /// Takes what NVML says now.
    pub(super) fn take_charge(&mut self, charge: MemoryCharge) {
        self.charge = charge;
        self.most_bytes = self.most_bytes.max(charge.own_bytes.unwrap_or(0));
    }

    /// Notes what there is while no call is under way.
    pub(super) fn settle_totals(&mut self) {
        let charged_bytes = self.charge.own_bytes.unwrap_or(0);
        self.most_bytes = charged_bytes;
        self.settled = GpuTotals {
            charged_bytes,
            attributed_bytes: self.attributed_bytes(),
        };
    }

    /// Takes what the driver has returned between calls from those that took memory in it, the newest first. True if
    /// that changed a row.
    pub(super) fn follow_returned(&mut self) -> bool {
        let Some(charged_bytes) = self.charge.own_bytes else {
            return false;
        };
        let now = GpuTotals {
            charged_bytes,
            attributed_bytes: self.attributed_bytes(),
        };
        let returned = self
            .settled
            .rest()
            .saturating_sub(now.rest())
            .min(-now.rest());
        let is_less = charged_bytes < self.most_bytes;
        if !is_less || self.managed_bytes > 0 || returned < LEAST_GROWTH_BYTES {
            return false;
        }
        self.shrink_kind(MemoryKind::Driver, returned.unsigned_abs());
        true
    }

    /// Forgets what calls were charged with: how much.
    pub(super) fn forget_growth(&mut self) -> u64 {
        let grown = self
            .grown
            .iter()
            .filter(|grown| grown.kind != MemoryKind::Graph);
        let bytes = grown.map(|grown| grown.bytes).fold(0, u64::saturating_add);
        self.grown.clear();
        bytes
    }

    /// Takes memory of this kind from those that hold it, the newest first.
    pub(super) fn shrink_kind(&mut self, kind: MemoryKind, mut bytes: u64) {
        for grown in self
            .grown
            .iter_mut()
            .rev()
            .filter(|grown| grown.kind == kind)
        {
            let taken = grown.bytes.min(bytes);
            grown.bytes -= taken;
            bytes -= taken;
        }
    }

    pub(super) fn make_context(&mut self, is_primary: bool, handle: u64) {
        self.contexts.insert(
            (is_primary, if is_primary { 0 } else { handle }),
            std::mem::take(&mut self.made),
        );
    }

    /// A context has gone, and what its call took. With the last one goes what any call took in the driver.
    pub(super) fn end_context(&mut self, is_primary: bool, handle: u64) {
        let ended = self
            .contexts
            .remove(&(is_primary, if is_primary { 0 } else { handle }));
        let (holder, bytes) = ended.unwrap_or_default();
        self.ended = ended.map(|(holder, _)| holder);
        for grown in self.grown.iter_mut().filter(|grown| grown.holder == holder) {
            grown.bytes = grown.bytes.saturating_sub(bytes);
        }
        if self.contexts.is_empty() {
            self.grown.clear();
        }
    }

    /// Forgets everything that is held: another program runs in the process.
    pub(super) fn start_anew(&mut self) {
        self.turn_page();
        self.grown.clear();
        self.contexts.clear();
        self.charge = MemoryCharge::default();
    }

    /// The holders whose bytes have changed since the last written reading.
    fn changes(&self) -> Vec<Held> {
        let grown = self
            .grown
            .iter()
            .map(|grown| (grown.holder, (grown.bytes, None)));
        let mut now: BTreeMap<u32, (u64, Option<u64>)> = self.paged.clone();
        now.extend(grown);
        now.retain(|_, (bytes, _)| *bytes > 0);
        let gone = self
            .written
            .iter()
            .filter(|(holder, _)| !now.contains_key(holder));
        let gone = gone.map(|(holder, (_, count))| Held {
            holder: *holder,
            bytes: 0,
            count: count.map(|_| 0),
        });
        let other = now
            .iter()
            .filter(|(holder, held)| self.written.get(holder) != Some(held));
        let mut changed: Vec<Held> = other
            .map(|(holder, (bytes, count))| Held {
                holder: *holder,
                bytes: *bytes,
                count: *count,
            })
            .collect();
        changed.extend(gone);
        changed.sort_by_key(|held| held.holder);
        changed
    }

    /// Whether so much has changed that it is to be written. Where `is_told`, a holder that is new or gone is enough.
    pub(super) fn has_changed(&self, is_told: bool) -> bool {
        let changes = self.changes();
        let moved = changes.iter().map(|held| {
            let before = self
                .written
                .get(&held.holder)
                .map_or(0, |(bytes, _)| *bytes);
            held.bytes.abs_diff(before)
        });
        let moved = moved.fold(0, u64::saturating_add);
        let charged = match (self.charge.bytes(), self.written_charge.bytes()) {
            (Some(now), Some(before)) => now.abs_diff(before),
            (now, before) => now.or(before).unwrap_or(0),
        };
        let is_changed =
            (is_told && !changes.is_empty()) || moved >= STEP_BYTES || charged >= STEP_BYTES;
        is_changed && self.is_used()
    }

    /// Whether the charge is higher than that of every peak before, by a step that grows with their number. If so, it is
    /// to be written.
    pub(super) fn is_peak(&mut self) -> bool {
        let (highest, count) = self.peak;
        let bytes = self
            .charge
            .bytes()
            .unwrap_or_else(|| self.attributed_bytes());
        let step = STEP_BYTES << (count / MOST_AT_ONCE).min(32);
        let is_peak = count == 0 || bytes >= highest.saturating_add(step);
        if is_peak {
            self.peak = (bytes, count.saturating_add(1));
        }
        is_peak
    }

    /// Whether there is anything to be said of the process on this GPU.
    pub(super) fn is_used(&self) -> bool {
        self.is_written
            || self.charge.own_bytes.is_some_and(|bytes| bytes > 0)
            || !self.changes().is_empty()
    }

    /// The reading that is to be written now.
    pub(super) fn reading(&mut self, pid: u32, gpu: &str, why: LedgerReason) -> LedgerReading {
        let held = self.changes();
        self.written.extend(
            held.iter()
                .map(|held| (held.holder, (held.bytes, held.count))),
        );
        self.written.retain(|_, (bytes, _)| *bytes > 0);
        let MemoryCharge {
            t_ns,
            own_bytes,
            used_bytes,
        } = self.charge;
        (self.written_charge, self.is_written) = (self.charge, true);
        LedgerReading {
            t_ns,
            pid,
            gpu: gpu.to_owned(),
            why,
            own_bytes,
            used_bytes,
            held,
        }
    }
}

/// When changes of a process are written: at once at first, and ever more rarely in one that runs for long.
#[derive(Default)]
pub(super) struct ChangePace {
    written: u32,
    last_ns: u64,
}

impl ChangePace {
    /// Whether a change may be written. `is_told` is whether the process told of it.
    pub(super) fn is_due(&self, now_ns: u64, is_told: bool) -> bool {
        let interval_ns = STEP_NS << (self.written / MOST_AT_ONCE).min(16);
        (is_told && self.written < MOST_AT_ONCE)
            || now_ns.saturating_sub(self.last_ns) >= interval_ns
    }

    pub(super) fn write(&mut self, now_ns: u64) {
        (self.written, self.last_ns) = (self.written.saturating_add(1), now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn held(reading: &LedgerReading) -> Vec<(u32, u64, Option<u64>)> {
        reading
            .held
            .iter()
            .map(|held| (held.holder, held.bytes, held.count))
            .collect()
    }

    #[test]
    fn a_call_is_charged_with_what_nothing_else_explains() {
        assert_eq!(
            unexplained_growth((10 * MIB, 510 * MIB), (0, 0)),
            Some(500 << 20)
        );
        // Another thread allocated meanwhile, or another call was charged.
        assert_eq!(
            unexplained_growth((0, 510 * MIB), (0, 10 * MIB)),
            Some(500 << 20)
        );
        assert_eq!(unexplained_growth((0, 65_535), (0, 0)), None);
        assert_eq!(unexplained_growth((0, 65_536), (0, 0)), Some(65_536));
        // An allocation that the driver had room for takes nothing from anyone, and a free that it keeps is no call's.
        assert_eq!(unexplained_growth((MIB, MIB), (0, MIB)), None);
        assert_eq!(unexplained_growth((MIB, MIB), (MIB, 0)), None);
        assert_eq!(
            unexplained_growth((9 * MIB, MIB), (4 * MIB, 0)),
            Some(-(4 << 20))
        );
        assert_eq!(
            unexplained_growth((9 * MIB, 7 * MIB), (0, 4 * MIB)),
            Some(-(2 << 20))
        );
        assert_eq!(
            unexplained_growth((u64::MAX, 0), (0, u64::MAX)),
            Some(-i64::MAX)
        );
        assert_eq!(
            unexplained_growth((0, u64::MAX), (u64::MAX, 0)),
            Some(i64::MAX)
        );
    }

    #[test]
    fn arrays_are_measured_and_what_only_gives_back_takes_nothing() {
        assert_eq!(
            kind_of("cuMipmappedArrayDestroy"),
            kind_of("cuArray3DCreate_v2")
        );
        assert_eq!(kind_of("cuArray3DCreate_v2"), MemoryKind::Array);
        let mut account = GpuAccount::default();
        for call in [
            "cuMemUnmap",
            "cuMemRelease",
            "cuMemAddressFree",
            "cuIpcCloseMemHandle",
        ] {
            assert_eq!(
                [10, -10].map(|growth| account.taken_by(call, growth)),
                [0, -10],
                "{call}"
            );
        }
        assert_eq!(account.taken_by("cuMemFreeAsync", 10), 10);
    }

    #[test]
    fn managed_memory_that_moves_is_charged_once() {
        let mut account = GpuAccount {
            managed_bytes: 8 * MIB,
            ..GpuAccount::default()
        };
        let growth = 5 << 20;
        assert_eq!(account.without_managed(growth), 0);
        assert_eq!(account.without_managed(growth), 2 << 20);
        assert_eq!(account.without_managed(growth), growth);
        assert_eq!(account.without_managed(-growth), -growth);
        account.managed_bytes = 0;
        assert_eq!(account.without_managed(growth), growth);
        account.managed_bytes = MIB;
        assert_eq!(
            account.without_managed(growth),
            4 << 20,
            "it is another allocation"
        );
        assert!(
            moves_managed("cuLaunchKernel")
                && moves_managed("cuMemPrefetchAsync")
                && !moves_managed("cuCtxSetLimit")
        );
    }

    #[test]
    fn what_the_driver_returns_between_calls_is_no_longer_held_by_the_call_that_took_it() {
        let own = |bytes| MemoryCharge {
            own_bytes: Some(bytes),
            ..MemoryCharge::default()
        };
        let mut account = GpuAccount::new(own(28 * MIB));
        account.charge_growth(0, MemoryKind::Context, 18 * MIB);
        account.charge_growth(1, MemoryKind::Driver, 10 * MIB);
        account.settle_totals();
        account.page_bytes = 4 * MIB;
        account.take_charge(own(32 * MIB));
        assert!(!account.follow_returned());
        account.settle_totals();
        account.take_charge(own(26 * MIB));
        assert!(account.follow_returned());
        assert_eq!(account.attributed_bytes(), 26 * MIB);
        account.settle_totals();
        // An allocation that is freed and whose memory the driver keeps is nobody's.
        account.page_bytes = 0;
        assert!(!account.follow_returned());
    }

    #[test]
    fn the_gpu_stands_for_the_process_where_nobody_is_listed() {
        let used = (Some(5), Some(9));
        assert_eq!(charge_around_call((1, 2), used, true, false), Some((1, 2)));
        assert_eq!(charge_around_call((0, 2), used, false, false), Some((0, 2)));
        assert_eq!(charge_around_call((0, 0), used, false, true), Some((5, 9)));
        assert_eq!(
            charge_around_call((0, 0), (None, Some(9)), false, true),
            None
        );
        // That is another process's.
        assert_eq!(charge_around_call((0, 0), used, true, true), None);
        assert_eq!(charge_around_call((0, 0), used, false, false), None);
    }

    #[test]
    fn calls_that_load_code_are_charged_for_code() {
        for call in [
            "cuModuleLoadData",
            "cuLibraryLoadData",
            "cuKernelGetFunction",
            "cuFuncGetAttribute",
            "cuGraphLaunch",
        ] {
            assert_eq!(kind_of(call), MemoryKind::Code, "{call}");
        }
        assert_eq!(kind_of("cuInit"), MemoryKind::Context);
        assert_eq!(kind_of("cuStreamCreate"), MemoryKind::Driver);
    }

    #[test]
    fn what_is_given_back_is_taken_from_the_newest_of_its_kind() {
        let mut account = GpuAccount::default();
        account.charge_growth(1, MemoryKind::Code, 10 * MIB);
        account.charge_growth(2, MemoryKind::Driver, 10 * MIB);
        account.charge_growth(3, MemoryKind::Code, 10 * MIB);
        account.charge_growth(1, MemoryKind::Code, MIB);
        account.shrink_kind(MemoryKind::Code, 12 * MIB);
        let first = account.reading(7, "GPU-1", LedgerReason::Change);
        assert_eq!(held(&first), [(1, 9 * MIB, None), (2, 10 * MIB, None)]);
        account.shrink_kind(MemoryKind::Code, u64::MAX);
        assert_eq!(
            held(&account.reading(7, "GPU-1", LedgerReason::Change)),
            [(1, 0, None)]
        );
        assert_eq!(account.attributed_bytes(), 10 * MIB);
    }

    #[test]
    fn with_the_last_context_goes_what_the_driver_took() {
        let mut account = GpuAccount::default();
        account.charge_growth(1, MemoryKind::Context, 500 * MIB);
        account.make_context(true, 5);
        account.charge_growth(2, MemoryKind::Code, MIB);
        for handle in [6, 7] {
            account.charge_growth(3, MemoryKind::Context, 400 * MIB);
            account.make_context(false, handle);
        }
        // Nobody knows what this one took.
        account.make_context(false, 8);
        for (ended, left) in [
            ((true, 0), 801),
            ((false, 6), 401),
            ((false, 8), 401),
            ((false, 7), 0),
        ] {
            account.end_context(ended.0, ended.1);
            assert_eq!(account.attributed_bytes(), left * MIB, "{ended:?}");
        }
    }

    #[test]
    fn a_reading_has_what_changed_and_no_more() {
        let mut account = GpuAccount::default();
        account.add_holder(1, 3 * MIB, Some(2));
        account.add_holder(1, MIB, Some(1));
        account.add_holder(2, MIB, Some(1));
        account.add_holder(3, 0, Some(0));
        assert!(account.has_changed(false));
        assert_eq!(
            held(&account.reading(7, "G", LedgerReason::Change)),
            [(1, 4 * MIB, Some(3)), (2, MIB, Some(1))]
        );
        assert!(!account.has_changed(true));
        account.turn_page();
        account.add_holder(1, 4 * MIB, Some(3));
        account.add_holder(2, 10, Some(1));
        assert!(!account.has_changed(false), "less than a step");
        assert!(account.has_changed(true));
        assert_eq!(
            held(&account.reading(7, "G", LedgerReason::Peak)),
            [(2, 10, Some(1))]
        );
        account.start_anew();
        let last = account.reading(7, "G", LedgerReason::End);
        assert_eq!(held(&last), [(1, 0, Some(0)), (2, 0, Some(0))]);
        assert!(account.is_used(), "once written, its end is written");
    }

    #[test]
    fn a_charge_that_changed_is_a_change() {
        let mut account = GpuAccount::default();
        assert!(!account.has_changed(true) && !account.is_used());
        account.charge.used_bytes = Some(9 * MIB);
        assert!(
            !account.has_changed(true) && !account.is_used(),
            "another process is there"
        );
        account.charge = MemoryCharge {
            t_ns: 5,
            own_bytes: Some(MIB),
            used_bytes: Some(9 * MIB),
        };
        assert!(account.has_changed(false) && account.is_used());
        let reading = account.reading(7, "G", LedgerReason::Change);
        assert_eq!(
            (reading.t_ns, reading.own_bytes, reading.used_bytes),
            (5, Some(MIB), Some(9 * MIB))
        );
        account.charge.used_bytes = Some(99 * MIB);
        assert!(!account.has_changed(true), "another process took that");
    }

    #[test]
    fn a_peak_is_written_if_it_is_higher() {
        let mut account = GpuAccount::default();
        let mut at = |bytes| {
            account.charge.own_bytes = Some(bytes);
            account.is_peak()
        };
        assert_eq!(
            [at(5), at(5), at(MIB), at(MIB + 5), at(MIB + 6)],
            [true, false, false, true, false]
        );
        let written = (0..100_000u64).filter(|step| at(step * MIB)).count();
        assert!((1000..=8000).contains(&written), "{written}");
    }

    #[test]
    fn changes_are_written_ever_more_rarely() {
        let mut pace = ChangePace::default();
        assert!(pace.is_due(STEP_NS, false));
        pace.write(STEP_NS);
        assert!(pace.is_due(STEP_NS + 1, true) && !pace.is_due(STEP_NS + 1, false));
        // A day of changes, of each of which the process tells.
        let day_ns = 86_400 * 1_000_000_000u64;
        let written = (0..day_ns).step_by(20_000_000).filter(|now| {
            let is_due = pace.is_due(*now, true);
            if is_due {
                pace.write(*now);
            }
            is_due
        });
        let written = written.count();
        assert!((5000..10_000).contains(&written), "{written}");
    }
}
