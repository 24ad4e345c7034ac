//! A ledger in the summary of a trace.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::summary::{Position, user_position};
use cuda_pitfalls_trace::Trace;
use cuda_pitfalls_trace::ledger::{Ledger, LedgerRow, LedgerTable, MemoryKind};

/// Whose the memory of a process on a GPU was.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(in super::super) struct LedgerSummary<'a> {
    /// The process.
    pid: u32,
    /// The GPU's index in NVML order, where it is known.
    index: Option<usize>,
    /// The GPU's UUID.
    gpu: &'a str,
    /// Whether NVML charges the process by its PID. Otherwise it is what the whole GPU had in use more than before the
    /// program began.
    own: bool,
    /// At the reading with the highest charge.
    peak: LedgerTableSummary<'a>,
    /// At the last reading.
    end: LedgerTableSummary<'a>,
}

/// Whose the memory was at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct LedgerTableSummary<'a> {
    /// When NVML was read, since the program was started.
    after_ns: u64,
    /// What NVML charges; null if it could not be read.
    charged_bytes: Option<u64>,
    /// The rows, the largest first.
    rows: Vec<LedgerRowSummary<'a>>,
    /// What other processes of the program held, where the whole GPU is charged.
    others_bytes: u64,
    /// What is charged and neither in the rows nor with other processes: less than nothing where rows have what is not
    /// charged, at least this where a row is only known at most, null if NVML could not be read.
    unattributed_bytes: Option<i64>,
}

/// What an owner has for one purpose by one line of the user's.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct LedgerRowSummary<'a> {
    /// What it is for.
    kind: MemoryKind,
    /// Whose it is: the word for `--forbid owner=`, or the package or the library.
    owner: &'a str,
    /// What the owner is called.
    owner_name: &'a str,
    /// The user's own line.
    at: Option<Position>,
    /// The user's own line or function in words; null where there is none.
    place: Option<String>,
    /// The C functions that took it.
    calls: Vec<&'a str>,
    /// Its bytes.
    bytes: u64,
    /// The whole size of managed and of imported memory, of which NVML charges at most `bytes` here; null elsewhere.
    whole_bytes: Option<u64>,
    /// How many allocations these are; null where they are not counted.
    count: Option<u64>,
    /// Whether the bytes are not exact.
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
