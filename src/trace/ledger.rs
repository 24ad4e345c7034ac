//! GPU memory by owner: the lines of a trace with `--memory`.
//!
//! A [`Holder`] is a call at a place of a program that allocated memory, and is written once. A [`LedgerReading`] is
//! the memory that NVML reported for a process on one GPU at one moment, and what its holders had then.

mod owner;
mod tables;

pub(crate) use owner::UNKNOWN;
pub use owner::{MemoryOwner, owner_keys};
pub use tables::{Ledger, LedgerBand, LedgerPoint, LedgerRow, LedgerTable, all_ledgers};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Stack;

/// A holder of GPU memory, written before the first reading that refers to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// The time of its first allocation.
    pub t_ns: u64,
    /// The process.
    pub pid: u32,
    /// The number of the holder in readings, unique in the document.
    pub holder: u32,
    /// The UUID of the GPU.
    pub gpu: String,
    /// The purpose of the memory, as far as the call shows it.
    pub kind: MemoryKind,
    /// The C function, such as `cuMemAlloc_v2`; empty for memory that no single call allocated.
    pub call: String,
    /// The stack of the call; empty for memory that no single call allocated.
    #[serde(default)]
    pub stack: Stack,
    /// `true` if its bytes are the difference around a call, and the process did something else during the call that
    /// may have allocated a part of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_disturbed: bool,
}

/// The purpose of GPU memory.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// A context, or the initialization of the driver: the difference around the call.
    Context,
    /// Kernel code (loaded modules): the difference around the load, or around the first launch of a kernel, which
    /// loads lazily.
    Code,
    /// `cuMemAlloc*`, by the requested sizes.
    Allocation,
    /// Arrays and mipmapped arrays: the difference around the call.
    Array,
    /// Allocations of the stream-ordered allocator (`cuMemAllocAsync`), by the requested sizes.
    Pool,
    /// Memory that the driver's pools have reserved beyond the allocations in them.
    PoolRest,
    /// Physical memory of `cuMemCreate`, mapped or not.
    Physical,
    /// Managed memory, by the requested sizes: the part on the GPU is at most this.
    Managed,
    /// Memory of another process or device API that was opened here, by its size: NVML may report it for both.
    Imported,
    /// Memory that graphs have reserved for their memory nodes.
    Graph,
    /// Driver-internal memory of any other call: the difference around it.
    Driver,
    /// Allocation granularity: the part of the driver's 2 MiB blocks beyond the allocations in them.
    Rounding,
    /// Allocations from call sites beyond the first 4,000.
    More,
}

impl MemoryKind {
    /// Returns its name in tables.
    pub const fn in_words(self) -> &'static str {
        match self {
            MemoryKind::Context => "context",
            MemoryKind::Code => "kernel code",
            MemoryKind::Allocation => "allocations",
            MemoryKind::Array => "arrays",
            MemoryKind::Pool => "pool allocations",
            MemoryKind::PoolRest => "unused pool memory",
            MemoryKind::Physical => "physical memory",
            MemoryKind::Managed => "managed memory",
            MemoryKind::Imported => "imported memory",
            MemoryKind::Graph => "graph memory",
            MemoryKind::Driver => "driver-internal",
            MemoryKind::Rounding => "allocation granularity",
            MemoryKind::More => "other callers",
        }
    }
}

/// The memory that NVML reported for a process on one GPU at one moment, and its holders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerReading {
    /// The time of the NVML query.
    pub t_ns: u64,
    /// The process.
    pub pid: u32,
    /// The UUID of the GPU.
    pub gpu: String,
    /// The reason for the reading.
    pub why: LedgerReason,
    /// The memory that NVML reports for the process; absent where NVML does not list it by the PID that the tracer
    /// knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_bytes: Option<u64>,
    /// The memory in use on the GPU; absent where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// The holders whose bytes have changed since the last reading of this process and GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
}

/// The reason for a reading of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerReason {
    /// The process held more than ever before, and was about to free some of it.
    Peak,
    /// The process was about to end.
    End,
    /// The memory changed. Traces of earlier versions also have `asked`, for a named moment.
    #[serde(alias = "asked")]
    Change,
}

/// The memory of one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// The holder.
    pub holder: u32,
    /// The number of bytes that it holds now.
    pub bytes: u64,
    /// The number of allocations; absent where they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}
