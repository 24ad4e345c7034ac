//! The tables of a ledger: the memory of a process on a GPU by owner, at the peak and at exit.
//!
//! A row is the observed memory of a holder. Rows are not adjusted to match the sum: the difference to the memory that
//! NVML reports is unattributed, and may be negative.

use std::collections::{BTreeMap, HashMap};

use super::{Holder, LedgerReading, MemoryKind, MemoryOwner};
use crate::{Stack, Trace};
use cuda_pitfalls_core::text::counts::group_by_key;

/// The memory of one process on one GPU, by owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger<'a> {
    /// The process.
    pub pid: u32,
    /// The UUID of the GPU.
    pub gpu: &'a str,
    /// `true` if NVML reports memory for the process by its PID. Otherwise the memory is the growth of the memory in
    /// use on the entire GPU since before the program began.
    pub is_own: bool,
    /// The table at the reading with the most memory according to NVML; of several such readings, the one with the most
    /// memory in the rows.
    pub peak: LedgerTable<'a>,
    /// The table at the last reading.
    pub end: LedgerTable<'a>,
    /// The bands of the series, the largest first.
    pub bands: Vec<LedgerBand<'a>>,
    /// All readings, sorted by time.
    pub series: Vec<LedgerPoint>,
}

/// A band of the chart of memory over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LedgerBand<'a> {
    /// Memory of an owner.
    Owner(MemoryOwner<'a>),
    /// Imported memory (CUDA IPC), as far as NVML reports it here.
    Imported,
    /// Managed memory, as far as NVML reports it here.
    Managed,
    /// Memory of the program's other processes, where NVML reports only the entire GPU.
    Others,
}

/// The bytes of each band at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerPoint {
    /// The time of the NVML query.
    pub t_ns: u64,
    /// The memory that NVML reports; none if it could not be read.
    pub charged_bytes: Option<u64>,
    /// The bytes of each band of the ledger.
    pub band_bytes: Vec<u64>,
}

/// The memory by owner at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerTable<'a> {
    /// The time of the NVML query.
    pub t_ns: u64,
    /// The memory that NVML reports; none if it could not be read.
    pub charged_bytes: Option<u64>,
    /// The rows, the largest first.
    pub rows: Vec<LedgerRow<'a>>,
    /// Memory of the program's other processes, where NVML reports only the entire GPU.
    pub others_bytes: u64,
    /// The memory that NVML reports beyond the rows and the other processes; none if NVML could not be read.
    pub unattributed_bytes: Option<i64>,
}

/// The memory of an owner for one purpose, allocated from one line of the user's code.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerRow<'a> {
    /// The purpose of the memory.
    pub kind: MemoryKind,
    /// The owner of the memory.
    pub owner: MemoryOwner<'a>,
    /// A stack of one of the allocations.
    pub stack: &'a Stack,
    /// The C functions that allocated the memory.
    pub calls: Vec<&'a str>,
    /// The size in bytes; for managed and imported memory, the maximum that NVML can have reported here.
    pub bytes: u64,
    /// The full size of managed and of imported memory.
    pub whole_bytes: Option<u64>,
    /// The number of allocations; none where they are not counted.
    pub count: Option<u64>,
    /// `true` if the bytes are not exact.
    pub is_estimate: bool,
}

/// Returns the ledgers of a trace, the largest peak first; none without `--memory`.
pub fn all_ledgers(trace: &Trace) -> Vec<Ledger<'_>> {
    let holders = trace
        .holders
        .iter()
        .map(|holder| (holder.holder, (holder, MemoryOwner::new(holder))));
    let holders: Holders = holders.collect();
    let readings = group_by_key(
        trace
            .ledger
            .iter()
            .map(|reading| ((reading.pid, reading.gpu.as_str()), reading)),
    );
    let replays: Vec<Replay> = readings
        .into_iter()
        .map(|(of, readings)| Replay::new(trace, of, readings))
        .collect();
    let totals: Vec<HeldTotals> = replays
        .iter()
        .map(|replay| HeldTotals::new(trace, &holders, replay))
        .collect();
    let mut ledgers: Vec<Ledger> = replays
        .iter()
        .filter_map(|replay| replay.ledger(&holders, &totals))
        .collect();
    // Memory of another process that is mapped here may never be reported by NVML for this process.
    ledgers.retain(|ledger| !ledger.is_own || ledger.peak.charged_bytes != Some(0));
    ledgers.sort_by_key(|ledger| (std::cmp::Reverse(ledger.peak.charged_bytes), ledger.pid));
    ledgers
}

type Holders<'a> = HashMap<u32, (&'a Holder, MemoryOwner<'a>)>;

/// The readings of one process on one GPU.
struct Replay<'a> {
    pid: u32,
    gpu: &'a str,
    is_own: bool,
    /// Each reading, with the memory that NVML reported then.
    readings: Vec<(&'a LedgerReading, Option<u64>)>,
}

impl<'a> Replay<'a> {
    fn new(
        trace: &Trace,
        (pid, gpu): (u32, &'a str),
        readings: Vec<&'a LedgerReading>,
    ) -> Replay<'a> {
        let is_own = readings.iter().any(|reading| reading.own_bytes.is_some());
        let before = trace
            .gpu_index(Some(gpu))
            .and_then(|index| *trace.start.used_bytes.get(index)?);
        let mut charged_readings = Vec::new();
        for reading in readings {
            let charged = match (reading.own_bytes, reading.used_bytes, before) {
                (Some(own), ..) => Some(own),
                // A process that NVML lists at other times has no memory while NVML does not list it.
                (None, Some(_), _) if is_own => Some(0),
                (None, Some(used), Some(before)) if !is_own => Some(used.saturating_sub(before)),
                _ => None,
            };
            charged_readings.push((reading, charged));
        }
        Replay {
            pid,
            gpu,
            is_own,
            readings: charged_readings,
        }
    }

    fn ledger(&self, holders: &Holders<'a>, totals: &[HeldTotals]) -> Option<Ledger<'a>> {
        let own = totals
            .iter()
            .find(|total| (total.pid, total.gpu) == (self.pid, self.gpu))?;
        // If several readings are equal, or NVML could not be read, the peak is the one with the most memory in the
        // rows; else the first.
        let charged = self.readings.iter().map(|(_, charged)| *charged);
        let (highest, _) = charged
            .zip(&own.totals)
            .enumerate()
            .rev()
            .max_by_key(|(_, (charged, (_, held)))| (*charged, *held))?;
        let mut held = HeldNow::new(holders);
        let (mut peak, mut end, mut points) = (None, None, Vec::new());
        for (index, (reading, charged)) in self.readings.iter().enumerate() {
            held.take(reading);
            let others = if self.is_own {
                0
            } else {
                self.others(totals, reading.t_ns)
            };
            points.push((reading.t_ns, *charged, held.band_bytes(*charged, others)));
            if index == highest {
                peak = Some(held.table(reading.t_ns, *charged, others));
            }
            if index + 1 == self.readings.len() {
                end = Some(held.table(reading.t_ns, *charged, others));
            }
        }
        let mut largest: HashMap<LedgerBand, u64> = HashMap::new();
        for (band, bytes) in points.iter().flat_map(|(.., bands)| bands) {
            let most = largest.entry(*band).or_default();
            *most = (*most).max(*bytes);
        }
        largest.retain(|_, bytes| *bytes > 0);
        let mut bands: Vec<LedgerBand> = largest.keys().copied().collect();
        bands.sort_by_key(|band| (std::cmp::Reverse(largest[band]), *band));
        let mut series = Vec::new();
        for (t_ns, charged_bytes, has) in points {
            series.push(LedgerPoint {
                t_ns,
                charged_bytes,
                band_bytes: bands
                    .iter()
                    .map(|band| has.get(band).copied().unwrap_or(0))
                    .collect(),
            });
        }
        let (pid, gpu, is_own) = (self.pid, self.gpu, self.is_own);
        Some(Ledger {
            pid,
            gpu,
            is_own,
            peak: peak?,
            end: end?,
            bands,
            series,
        })
    }

    /// Returns the memory of the program's other processes on this GPU.
    fn others(&self, totals: &[HeldTotals], t_ns: u64) -> u64 {
        let mut bytes = 0u64;
        for other in totals {
            if other.gpu == self.gpu && other.pid != self.pid && other.ended_ns > t_ns {
                bytes = bytes.saturating_add(other.at(t_ns));
            }
        }
        bytes
    }
}

/// The memory that a process holds for itself on a GPU, after each reading.
struct HeldTotals<'a> {
    pid: u32,
    gpu: &'a str,
    ended_ns: u64,
    totals: Vec<(u64, u64)>,
}

impl<'a> HeldTotals<'a> {
    fn new(trace: &Trace, holders: &Holders<'a>, replay: &Replay<'a>) -> HeldTotals<'a> {
        let ended = trace
            .counts
            .iter()
            .rev()
            .find(|counts| counts.pid == replay.pid && counts.t_ns > 0);
        let mut held = HeldNow::new(holders);
        let mut totals = Vec::new();
        for (reading, _) in &replay.readings {
            held.take(reading);
            totals.push((reading.t_ns, held.certain_bytes()));
        }
        HeldTotals {
            pid: replay.pid,
            gpu: replay.gpu,
            ended_ns: ended.map_or(u64::MAX, |counts| counts.t_ns),
            totals,
        }
    }

    fn at(&self, t_ns: u64) -> u64 {
        let after = self.totals.partition_point(|(t, _)| *t <= t_ns);
        after
            .checked_sub(1)
            .and_then(|last| self.totals.get(last))
            .map_or(0, |(_, bytes)| *bytes)
    }
}

/// The memory that a process holds on a GPU at one moment.
struct HeldNow<'h, 'a> {
    holders: &'h Holders<'a>,
    /// The bytes and the number of allocations of each holder that has some.
    held: BTreeMap<u32, (u64, Option<u64>)>,
    /// The full bytes of each band.
    sums: BTreeMap<LedgerBand<'a>, i128>,
}

impl<'h, 'a> HeldNow<'h, 'a> {
    fn new(holders: &'h Holders<'a>) -> HeldNow<'h, 'a> {
        HeldNow {
            holders,
            held: BTreeMap::new(),
            sums: BTreeMap::new(),
        }
    }

    fn take(&mut self, reading: &LedgerReading) {
        for held in &reading.held {
            let Some((holder, owner)) = self.holders.get(&held.holder) else {
                continue;
            };
            let band = match holder.kind {
                MemoryKind::Imported => LedgerBand::Imported,
                MemoryKind::Managed => LedgerBand::Managed,
                _ => LedgerBand::Owner(*owner),
            };
            let before = self
                .held
                .insert(held.holder, (held.bytes, held.count))
                .map_or(0, |(bytes, _)| bytes);
            *self.sums.entry(band).or_default() += i128::from(held.bytes) - i128::from(before);
        }
    }

    /// Returns the memory that belongs to the process without doubt.
    fn certain_bytes(&self) -> u64 {
        let own = self
            .sums
            .iter()
            .filter(|(band, _)| matches!(band, LedgerBand::Owner(_)));
        saturating_bytes(own.map(|(_, bytes)| *bytes).sum())
    }

    /// Returns how much imported and managed memory is counted: at most the memory that NVML reports beyond the other
    /// rows.
    fn counted(&self, charged: Option<u64>, others: u64) -> [u64; 2] {
        let whole = [LedgerBand::Imported, LedgerBand::Managed]
            .map(|band| saturating_bytes(self.sums.get(&band).copied().unwrap_or(0)));
        let Some(charged) = charged else { return whole };
        let left = charged
            .saturating_sub(others)
            .saturating_sub(self.certain_bytes());
        let imported = whole[0].min(left);
        [imported, whole[1].min(left - imported)]
    }

    fn band_bytes(&self, charged: Option<u64>, others: u64) -> HashMap<LedgerBand<'a>, u64> {
        let mut bands: HashMap<LedgerBand, u64> = self
            .sums
            .iter()
            .map(|(band, sum)| (*band, saturating_bytes(*sum)))
            .collect();
        let [imported, managed] = self.counted(charged, others);
        bands.extend([
            (LedgerBand::Imported, imported),
            (LedgerBand::Managed, managed),
            (LedgerBand::Others, others),
        ]);
        bands
    }

    fn table(&self, t_ns: u64, charged: Option<u64>, others: u64) -> LedgerTable<'a> {
        let [imported, managed] = self.counted(charged, others);
        let held = self.held.iter().filter(|(_, (bytes, _))| *bytes > 0);
        let groups = group_by_key(held.filter_map(|(number, held)| {
            let (holder, owner) = self.holders.get(number)?;
            let line = holder
                .stack
                .user_frame()
                .or_else(|| holder.stack.users_meanwhile());
            let line =
                line.map(|frame| (frame.file.as_deref().unwrap_or(&frame.function), frame.line));
            Some(((holder.kind, *owner, line), (*holder, *held)))
        }));
        let mut rows: Vec<LedgerRow> = groups
            .iter()
            .filter_map(|((_, owner, _), held)| LedgerRow::new(*owner, held))
            .collect();
        for row in &mut rows {
            if row.is_upper_bound() {
                let most = if row.kind == MemoryKind::Imported {
                    imported
                } else {
                    managed
                };
                row.whole_bytes = Some(row.bytes);
                row.bytes = row.bytes.min(most);
            }
        }
        rows.sort_by(|a, b| {
            b.bytes
                .cmp(&a.bytes)
                .then_with(|| (a.kind, a.owner).cmp(&(b.kind, b.owner)))
        });
        let known = [self.certain_bytes(), imported, managed, others]
            .map(i128::from)
            .iter()
            .sum::<i128>();
        let unattributed_bytes = charged.map(|charged| {
            let rest = i128::from(charged) - known;
            i64::try_from(rest).unwrap_or(if rest < 0 { i64::MIN } else { i64::MAX })
        });
        LedgerTable {
            t_ns,
            charged_bytes: charged,
            rows,
            others_bytes: others,
            unattributed_bytes,
        }
    }
}

fn saturating_bytes(sum: i128) -> u64 {
    u64::try_from(sum).unwrap_or(if sum < 0 { 0 } else { u64::MAX })
}

impl LedgerTable<'_> {
    /// Returns `true` if the table counts memory whose exact size is unknown, so that more may be unattributed.
    pub fn has_upper_bounds(&self) -> bool {
        self.rows
            .iter()
            .any(|row| row.is_upper_bound() && row.bytes > 0)
    }
}

impl<'a> LedgerRow<'a> {
    /// Returns `true` if its bytes are only the maximum that NVML can have reported here, as for managed and imported
    /// memory.
    pub fn is_upper_bound(&self) -> bool {
        matches!(self.kind, MemoryKind::Managed | MemoryKind::Imported)
    }

    /// Returns the row for holders of the same kind.
    fn new(
        owner: MemoryOwner<'a>,
        held: &[(&'a Holder, (u64, Option<u64>))],
    ) -> Option<LedgerRow<'a>> {
        let (largest, _) = held.iter().max_by_key(|(_, (bytes, _))| *bytes)?;
        let mut calls: Vec<&str> = held
            .iter()
            .map(|(holder, _)| holder.call.as_str())
            .collect();
        calls.sort_unstable();
        calls.dedup();
        let counts = held.iter().map(|(_, (_, count))| *count);
        let kind = largest.kind;
        let is_inexact = matches!(kind, MemoryKind::Managed | MemoryKind::Imported);
        Some(LedgerRow {
            kind,
            owner,
            stack: &largest.stack,
            calls,
            bytes: held
                .iter()
                .map(|(_, (bytes, _))| *bytes)
                .fold(0, u64::saturating_add),
            whole_bytes: None,
            count: counts
                .reduce(|sum, count| Some(sum?.saturating_add(count?)))
                .flatten(),
            is_estimate: is_inexact || held.iter().any(|(holder, _)| holder.is_disturbed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{PID, TraceBuilder, uuid};
    use crate::{LedgerReason as Why, MemoryKind as Kind};

    const MIB: i64 = 1 << 20;

    /// Returns the rows in MiB with their line, and the unattributed memory.
    fn shown(table: &LedgerTable) -> (Vec<(Kind, u64, String)>, Option<i64>) {
        let rows = table.rows.iter().map(|row| {
            (
                row.kind,
                row.bytes >> 20,
                row.stack.place().unwrap_or_default(),
            )
        });
        (
            rows.collect(),
            table.unattributed_bytes.map(|bytes| bytes / MIB),
        )
    }

    /// Returns a program with a context at line 1, and allocations at lines 2 and 3 that are freed at the end.
    fn program() -> TraceBuilder {
        TraceBuilder::on(2)
            .at(&[("<module>", "train.py", 1)])
            .holder(0, Kind::Context)
            .at(&[("<module>", "train.py", 2)])
            .holder(0, Kind::Allocation)
            .at(&[("<module>", "train.py", 3)])
            .holder(0, Kind::Allocation)
            .reading(0, Why::Change, [Some(520), None], &[(0, 500)])
            .reading(0, Why::Peak, [Some(900), None], &[(1, 100), (2, 250)])
            .reading(0, Why::Change, [Some(800), None], &[(2, 150)])
            .reading(0, Why::End, [Some(540), None], &[(1, 0), (2, 0)])
    }

    #[test]
    fn the_peak_and_the_end_have_what_was_held_then() {
        let trace = program().done();
        let ledgers = all_ledgers(&trace);
        let [ledger] = ledgers.as_slice() else {
            panic!("{ledgers:?}")
        };
        assert_eq!(
            (ledger.pid, ledger.gpu, ledger.is_own),
            (PID, uuid(0).as_str(), true)
        );
        let row = |kind, mib, line: u32| (kind, mib, format!("train.py:{line}"));
        let (context, first) = (row(Kind::Context, 500, 1), row(Kind::Allocation, 100, 2));
        let at_peak = vec![
            context.clone(),
            row(Kind::Allocation, 250, 3),
            first.clone(),
        ];
        assert_eq!(shown(&ledger.peak), (at_peak, Some(50)));
        assert_eq!(shown(&ledger.end), (vec![context], Some(40)));
        let series: Vec<_> = ledger
            .series
            .iter()
            .map(|point| (point.charged_bytes, point.band_bytes.clone()))
            .collect();
        let mib = |mib: u64| mib << 20;
        let points = [(520, 500), (900, 850), (800, 750), (540, 500)];
        assert_eq!(
            series,
            points.map(|(charged, held)| (Some(mib(charged)), vec![mib(held)]))
        );
    }

    #[test]
    fn rows_that_hold_more_than_is_charged_stay_as_they_are() {
        let trace = program()
            .reading(0, Why::Peak, [Some(1000), None], &[(1, 600)])
            .done();
        let ledgers = all_ledgers(&trace);
        let (rows, rest) = shown(&ledgers[0].peak);
        assert_eq!((rows[0].1, rows[1].1, rest), (600, 500, Some(-100)));
    }

    #[test]
    fn equal_kinds_owners_and_lines_are_one_row_with_their_calls() {
        let mut trace = program()
            .at(&[("<module>", "train.py", 2), ("f", "torch/a.py", 9)])
            .holder(0, Kind::Allocation);
        trace = trace
            .at(&[("<module>", "train.py", 2), ("g", "torch/b.py", 8)])
            .holder(0, Kind::Allocation);
        let mut trace = trace
            .reading(0, Why::Peak, [Some(2000), None], &[(3, 30), (4, 40)])
            .done();
        (trace.holders[4].call, trace.holders[4].is_disturbed) =
            ("cuMemAllocPitch_v2".to_owned(), true);
        for (held, count) in trace.ledger.last_mut().unwrap().held.iter_mut().zip([1, 2]) {
            held.count = Some(count);
        }
        let ledgers = all_ledgers(&trace);
        let row = ledgers[0]
            .peak
            .rows
            .iter()
            .find(|row| row.owner.key == "torch")
            .unwrap();
        assert_eq!(
            (row.bytes >> 20, row.count, row.is_estimate),
            (70, Some(3), true)
        );
        assert_eq!(row.calls, ["cuMemAllocPitch_v2", "cuMemAlloc_v2"]);
        assert_eq!(row.stack, &trace.holders[4].stack, "that of the larger one");
    }

    #[test]
    fn of_imported_and_managed_memory_no_more_is_counted_than_the_other_rows_leave() {
        let made = program().holder(0, Kind::Imported).holder(0, Kind::Managed);
        let trace = made
            .reading(
                0,
                Why::Peak,
                [Some(1000), None],
                &[(1, 100), (3, 60), (4, 4000)],
            )
            .done();
        let ledgers = all_ledgers(&trace);
        // 500 and 100 MiB are the process's own.
        let table = &ledgers[0].peak;
        let row = |kind| table.rows.iter().find(|row| row.kind == kind).unwrap();
        let counted = |kind| {
            (
                row(kind).bytes >> 20,
                row(kind).whole_bytes.map(|it| it >> 20),
                row(kind).is_estimate,
            )
        };
        assert_eq!(counted(Kind::Imported), (60, Some(60), true));
        assert_eq!(counted(Kind::Managed), (340, Some(4000), true));
        assert_eq!(table.unattributed_bytes, Some(0));
        assert!(
            ledgers[0].bands.contains(&LedgerBand::Managed),
            "{:?}",
            ledgers[0].bands
        );
    }

    #[test]
    fn where_nvml_does_not_list_the_process_the_gpu_is_charged_less_its_start_and_what_others_hold()
    {
        let mut other = TraceBuilder::on(1)
            .holder(0, Kind::Context)
            .process(200, PID)
            .holder(0, Kind::Context);
        other = other
            .by(PID)
            .reading(0, Why::Change, [None, Some(1000)], &[(0, 500)]);
        let mut trace = other
            .by(200)
            .reading(0, Why::End, [None, Some(1550)], &[(1, 510)])
            .done();
        trace.start.used_bytes = vec![Some(400 << 20)];
        let found = all_ledgers(&trace);
        let tables: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    it.pid,
                    it.is_own,
                    it.peak.others_bytes >> 20,
                    shown(&it.peak).1,
                )
            })
            .collect();
        assert_eq!(
            tables,
            [(200, false, 500, Some(140)), (PID, false, 0, Some(100))]
        );
        trace.start.used_bytes = vec![None];
        assert_eq!(
            all_ledgers(&trace)[0].peak.unattributed_bytes,
            None,
            "nothing is known"
        );
    }

    #[test]
    fn a_process_that_nvml_lists_only_sometimes_has_nothing_while_it_does_not() {
        let trace = program()
            .reading(0, Why::Change, [None, Some(90_000)], &[(0, 0)])
            .done();
        let found = all_ledgers(&trace);
        assert_eq!(
            (found[0].peak.charged_bytes, found[0].end.charged_bytes),
            (Some(900 << 20), Some(0))
        );
    }

    #[test]
    fn of_equal_charges_and_of_none_the_peak_is_where_most_is_held() {
        for charge in [Some(900), None] {
            let made = TraceBuilder::on(1).holder(0, Kind::Allocation);
            let made = made.reading(0, Why::Change, [charge, None], &[(0, 7)]);
            let made = made.reading(0, Why::Peak, [charge, None], &[(0, 9)]);
            let trace = made.reading(0, Why::End, [charge, None], &[(0, 8)]).done();
            assert_eq!(all_ledgers(&trace)[0].peak.rows[0].bytes >> 20, 9);
        }
        let never = TraceBuilder::on(1)
            .holder(0, Kind::Imported)
            .reading(0, Why::End, [Some(0), None], &[(0, 9)])
            .done();
        assert!(
            all_ledgers(&never).is_empty(),
            "memory of another process, charged to that one"
        );
    }

    #[test]
    fn numbers_at_the_end_of_their_range_do_no_harm() {
        let mut trace = program().reading(0, Why::Peak, [None, None], &[]).done();
        for reading in &mut trace.ledger {
            reading.own_bytes = Some(1);
            reading
                .held
                .iter_mut()
                .for_each(|held| (held.bytes, held.count) = (u64::MAX, Some(u64::MAX)));
        }
        let found = all_ledgers(&trace);
        assert_eq!(found[0].peak.unattributed_bytes, Some(i64::MIN));
    }
}
