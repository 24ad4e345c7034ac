//! A process's memory on one GPU, and the decision when the trace gets a new reading of it. This module has no I/O.

use std::collections::BTreeMap;

use crate::{Held, LedgerReading, LedgerReason, MemoryKind};

/// The smallest difference around a call that is assigned to it, because NVML counts in steps of this size.
const LEAST_GROWTH_BYTES: i64 = 64 << 10;
/// The smallest change that is written alone; a smaller one is written together with others.
const STEP_BYTES: u64 = 1 << 20;
/// The shortest interval between writes of changes.
const STEP_NS: u64 = 200_000_000;
/// The number of readings until the rate is halved.
const MOST_AT_ONCE: u32 = 1000;

/// The memory that NVML reported for a process on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryCharge {
    pub(super) t_ns: u64,
    /// The memory of the process; `None` where NVML does not list it.
    pub(super) own_bytes: Option<u64>,
    /// The memory in use on the GPU.
    pub(super) used_bytes: Option<u64>,
}

impl MemoryCharge {
    fn bytes(&self) -> Option<u64> {
        self.own_bytes.or(self.used_bytes)
    }
}

/// Returns the memory that NVML reports before and after a call: that of the process where NVML lists it. Where NVML
/// lists no process by the PID that the tracer knows, returns the memory in use on the GPU of the call. `None` if the
/// call allocated nothing there.
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

/// Returns the driver-internal memory that a call allocated, beyond the page's records and the allocations of other
/// calls at the same time: the change of NVML's figure minus the change of the attributed memory. `None` if it is too
/// little, or if NVML's figure did not follow: the driver may keep freed memory, and serve an allocation from it.
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

/// Returns the kind of the driver-internal memory that a call allocated.
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

/// Returns `true` if a call only frees: if NVML's figure rises during it, its owner has freed imported memory.
fn only_gives_back(call: &str) -> bool {
    ["MemUnmap", "MemRelease", "AddressFree", "IpcClose"]
        .iter()
        .any(|word| call.contains(word))
}

/// Returns `true` if managed memory may have moved to the GPU in a call.
fn moves_managed(call: &str) -> bool {
    ["Launch", "Memcpy", "Memset", "Prefetch"]
        .iter()
        .any(|word| call.contains(word))
}

/// The memory that NVML reported for a process on one GPU, and the part that was attributed.
#[derive(Clone, Copy, Default)]
pub(super) struct GpuTotals {
    pub(super) charged_bytes: u64,
    pub(super) attributed_bytes: u64,
}

impl GpuTotals {
    /// Returns the unattributed memory.
    pub(super) fn rest(self) -> i64 {
        difference((self.attributed_bytes, self.charged_bytes))
    }
}

/// Driver-internal memory that a call allocated.
struct CallGrowth {
    holder: u32,
    kind: MemoryKind,
    bytes: u64,
}

/// The holder of a context, and the bytes that were assigned to it for the context.
type ContextGrowth = (u32, u64);

/// The account of a process on one GPU.
#[derive(Default)]
pub(super) struct GpuAccount {
    /// The growth of each call, in the order of the calls.
    grown: Vec<CallGrowth>,
    /// The contexts on the GPU, each with the memory of its call. The key is `true` for the primary one, and the handle
    /// of any other.
    contexts: BTreeMap<(bool, u64), ContextGrowth>,
    /// Memory that a call allocated for a context that is not known yet.
    made: ContextGrowth,
    pub(super) charge: MemoryCharge,
    /// The holder of the context that ended last.
    ended: Option<u32>,
    /// The totals when no call was running, and the maximum that NVML reported since.
    pub(super) settled: GpuTotals,
    most_bytes: u64,
    /// The memory of each holder according to the page.
    paged: BTreeMap<u32, (u64, Option<u64>)>,
    /// The total memory according to the page.
    pub(super) page_bytes: u64,
    pub(super) managed_bytes: u64,
    /// The part of it that graphs have reserved.
    pub(super) graph_bytes: u64,
    /// The part of the managed memory that may have moved to the GPU.
    moved_bytes: u64,
    written: BTreeMap<u32, (u64, Option<u64>)>,
    written_charge: MemoryCharge,
    /// The highest written peak, and the number of written peaks.
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

    /// Returns the attributed memory. It includes graph memory, which is on the page.
    pub(super) fn attributed_bytes(&self) -> u64 {
        let mut bytes = self.page_bytes;
        for grown in &self.grown {
            if grown.kind != MemoryKind::Graph {
                bytes = bytes.saturating_add(grown.bytes);
            }
        }
        bytes
    }

    /// Stores the memory that graphs have reserved. Returns the part that no known call reserved.
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

    /// Forgets the content of the page, before it is read again.
    pub(super) fn clear_page(&mut self) {
        self.paged.clear();
        (self.page_bytes, self.managed_bytes, self.graph_bytes) = (0, 0, 0);
    }

    /// Adds the page's record of a holder.
    pub(super) fn add_holder(&mut self, holder: u32, bytes: u64, count: Option<u64>) {
        let held = self.paged.entry(holder).or_default();
        held.0 = held.0.saturating_add(bytes);
        held.1 = count.map(|count| held.1.unwrap_or(0).saturating_add(count));
    }

    /// Returns the part of a growth during a call that the call itself allocated.
    pub(super) fn share_of_call(&mut self, call: &str, growth: i64) -> i64 {
        match growth {
            _ if moves_managed(call) => self.without_managed(growth),
            _ if only_gives_back(call) => growth.min(0),
            _ => growth,
        }
    }

    /// Returns the growth without managed memory. The rows of managed memory contain all of it, wherever it resides.
    pub(super) fn without_managed(&mut self, growth: i64) -> i64 {
        self.moved_bytes = self.moved_bytes.min(self.managed_bytes);
        let left = self.managed_bytes - self.moved_bytes;
        let moved = left.min(u64::try_from(growth).unwrap_or(0));
        self.moved_bytes += moved;
        growth.saturating_sub_unsigned(moved)
    }

    /// Assigns to a call the driver-internal memory that it allocated.
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

    /// Adds memory to a call that already has some; see [`GpuAccount::charge_growth`].
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

    /// Returns the memory that calls allocated together and that was assigned to none of them; negative if too much was
    /// assigned. At the end of a context every difference counts; otherwise the driver may have kept freed memory.
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

    /// Takes back the excess that was assigned to calls, from the last call first. At the end of a context, also takes
    /// back driver-internal memory of other calls, the newest first.
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

    /// Assigns the memory that the driver retains after a context has ended to the call that created the context.
    pub(super) fn keep_of_context(&mut self, bytes: u64) {
        if let Some(holder) = self.ended {
            self.add_growth(holder, MemoryKind::Context, bytes);
        }
    }

    /// Stores NVML's current figures.
    pub(super) fn take_charge(&mut self, charge: MemoryCharge) {
        self.charge = charge;
        self.most_bytes = self.most_bytes.max(charge.own_bytes.unwrap_or(0));
    }

    /// Stores the totals while no call is running.
    pub(super) fn settle_totals(&mut self) {
        let charged_bytes = self.charge.own_bytes.unwrap_or(0);
        self.most_bytes = charged_bytes;
        self.settled = GpuTotals {
            charged_bytes,
            attributed_bytes: self.attributed_bytes(),
        };
    }

    /// Subtracts the memory that the driver has freed between calls from its holders, the newest first. Returns `true`
    /// if that changed a row.
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

    /// Forgets the memory that was assigned to calls, and returns its size.
    pub(super) fn forget_growth(&mut self) -> u64 {
        let grown = self
            .grown
            .iter()
            .filter(|grown| grown.kind != MemoryKind::Graph);
        let bytes = grown.map(|grown| grown.bytes).fold(0, u64::saturating_add);
        self.grown.clear();
        bytes
    }

    /// Subtracts memory of this kind from its holders, the newest first.
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

    /// Removes a context, and the memory of its call. With the last context, also removes the driver-internal memory of
    /// all calls.
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

    /// Forgets all memory, because another program runs in the process.
    pub(super) fn forget_program(&mut self) {
        self.clear_page();
        self.grown.clear();
        self.contexts.clear();
        self.charge = MemoryCharge::default();
    }

    /// Returns the holders whose bytes have changed since the last written reading.
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

    /// Returns `true` if the change is large enough to be written. If `is_told`, a new or removed holder is enough.
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

    /// Returns `true` if the memory exceeds every earlier peak by a step that grows with the number of peaks. Then it
    /// must be written.
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

    /// Returns `true` if the process has or had anything on this GPU.
    pub(super) fn is_used(&self) -> bool {
        self.is_written
            || self.charge.own_bytes.is_some_and(|bytes| bytes > 0)
            || !self.changes().is_empty()
    }

    /// Returns the reading that must be written now.
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

/// The pace of a process's changes: they are written immediately at first, and less and less often in a process that
/// runs long.
#[derive(Default)]
pub(super) struct ChangePace {
    written: u32,
    last_ns: u64,
}

impl ChangePace {
    /// Returns `true` if a change may be written. `is_told` is `true` if the process itself reported the change.
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
        // Another thread allocated at the same time, or the memory was assigned to another call.
        assert_eq!(
            unexplained_growth((0, 510 * MIB), (0, 10 * MIB)),
            Some(500 << 20)
        );
        assert_eq!(unexplained_growth((0, 65_535), (0, 0)), None);
        assert_eq!(unexplained_growth((0, 65_536), (0, 0)), Some(65_536));
        // An allocation that fits into memory the driver kept changes no other row, and freed memory that the driver
        // keeps belongs to no call.
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
                [10, -10].map(|growth| account.share_of_call(call, growth)),
                [0, -10],
                "{call}"
            );
        }
        assert_eq!(account.share_of_call("cuMemFreeAsync", 10), 10);
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
        // A freed allocation whose memory the driver keeps has no owner.
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
        // That growth belongs to another process.
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
        // The memory of this context is unknown.
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
        account.clear_page();
        account.add_holder(1, 4 * MIB, Some(3));
        account.add_holder(2, 10, Some(1));
        assert!(!account.has_changed(false), "less than a step");
        assert!(account.has_changed(true));
        assert_eq!(
            held(&account.reading(7, "G", LedgerReason::Peak)),
            [(2, 10, Some(1))]
        );
        account.forget_program();
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
        // A day of changes, each reported by the process.
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
