//! A ledger in the summary of a trace.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::summary::{Position, user_position};
use cuda_pitfalls_trace::Trace;
use cuda_pitfalls_trace::ledger::{Ledger, LedgerRow, LedgerTable, MemoryKind};

/// Memory of a process on a GPU, by owner.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(in super::super) struct LedgerSummary<'a> {
    /// The process.
    pid: u32,
    /// The GPU's index in NVML order, if known.
    index: Option<usize>,
    /// The GPU's UUID.
    gpu: &'a str,
    /// `true` if NVML reports the memory of the process by its PID. Otherwise the memory is the increase of the used
    /// memory of the entire GPU since before the program began.
    own: bool,
    /// The reading with the highest memory.
    peak: LedgerTableSummary<'a>,
    /// At the last reading.
    end: LedgerTableSummary<'a>,
}

/// Memory by owner at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct LedgerTableSummary<'a> {
    /// Time of the NVML reading since the start of the program, in nanoseconds.
    after_ns: u64,
    /// Memory that NVML reports, in bytes; null if it could not be read.
    charged_bytes: Option<u64>,
    /// The rows, the largest first.
    rows: Vec<LedgerRowSummary<'a>>,
    /// Memory of other processes of the program, in bytes, if NVML reports only the whole GPU.
    others_bytes: u64,
    /// Memory that NVML reports and that is neither in the rows nor with other processes, in bytes. Negative if rows
    /// have memory that NVML does not report; a lower bound if a row is an upper bound; null if NVML could not be read.
    unattributed_bytes: Option<i64>,
}

/// Memory of an owner for one purpose, allocated by one line of the user's code.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct LedgerRowSummary<'a> {
    /// Purpose of the memory.
    kind: MemoryKind,
    /// Owner: the word for `--forbid owner=`, or the package or the library.
    owner: &'a str,
    /// Display name of the owner.
    owner_name: &'a str,
    /// The user's own line.
    at: Option<Position>,
    /// The user's own line or function, as text; null if unknown.
    place: Option<String>,
    /// The C functions that allocated the memory.
    calls: Vec<&'a str>,
    /// The size of the memory.
    bytes: u64,
    /// Full size of managed or imported memory, in bytes; NVML counts at most `bytes` of it here. Null for other
    /// memory.
    whole_bytes: Option<u64>,
    /// Number of allocations; null if they are not counted.
    count: Option<u64>,
    /// `true` if the bytes are not exact.
    estimate: bool,
}

impl<'a> LedgerSummary<'a> {
    pub(in super::super) fn new(trace: &Trace, ledger: &Ledger<'a>) -> LedgerSummary<'a> {
        LedgerSummary {
            pid: ledger.pid,
            index: trace.gpu_index(Some(ledger.gpu)),
            gpu: ledger.gpu,
            own: ledger.is_own,
            peak: LedgerTableSummary::new(trace, &ledger.peak),
            end: LedgerTableSummary::new(trace, &ledger.end),
        }
    }
}

impl<'a> LedgerTableSummary<'a> {
    fn new(trace: &Trace, table: &LedgerTable<'a>) -> LedgerTableSummary<'a> {
        LedgerTableSummary {
            after_ns: table.t_ns.saturating_sub(trace.start.t_ns),
            charged_bytes: table.charged_bytes,
            rows: table
                .rows
                .iter()
                .map(|row| LedgerRowSummary::new(trace, row))
                .collect(),
            others_bytes: table.others_bytes,
            unattributed_bytes: table.unattributed_bytes,
        }
    }
}

impl<'a> LedgerRowSummary<'a> {
    fn new(trace: &Trace, row: &LedgerRow<'a>) -> LedgerRowSummary<'a> {
        LedgerRowSummary {
            kind: row.kind,
            owner: row.owner.key,
            owner_name: row.owner.name,
            at: user_position(trace, row.stack),
            place: row.stack.place(),
            calls: row.calls.clone(),
            bytes: row.bytes,
            whole_bytes: row.whole_bytes,
            count: row.count,
            estimate: row.is_estimate,
        }
    }
}
