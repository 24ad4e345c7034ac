//! Whose the memory of a GPU is: the lines of a trace with `--memory`.
//!
//! A [`Holder`] is a call at a place of a program that took memory, and is written once. A [`LedgerReading`] is what
//! NVML charged to a process on one GPU at one moment, and what its holders had then.

mod owner;
mod tables;

pub(crate) use owner::UNKNOWN;
pub use owner::{MemoryOwner, owner_keys};
pub use tables::{Ledger, LedgerBand, LedgerPoint, LedgerRow, LedgerTable, all_ledgers};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Stack;

/// Who holds memory of a GPU, written before the first reading that names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// When it took memory first.
    pub t_ns: u64,
    /// The process.
    pub pid: u32,
    /// The number by which readings name it; no other holder of the document has it.
    pub holder: u32,
    /// The UUID of the GPU.
    pub gpu: String,
    /// What the memory is for, as far as the call says it.
    pub kind: MemoryKind,
    /// The C function, such as `cuMemAlloc_v2`; empty for what no single call took.
    pub call: String,
    /// Where in the program; empty for what no single call took.
    #[serde(default)]
    pub stack: Stack,
    /// Whether its bytes are a difference around a call beside which the process did something else, which may have
    /// taken a part of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_disturbed: bool,
}

/// What memory of a GPU is for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// A context, or the driver's initialisation: the difference around the call.
    Context,
    /// Code and its data: the difference around the load, or around the first launch of a kernel, which loads lazily.
    Code,
    /// `cuMemAlloc*`, by the sizes that were asked for.
    Allocation,
    /// Arrays and mipmapped arrays: the difference around the call.
    Array,
    /// Allocations of the stream-ordered allocator (`cuMemAllocAsync`), by the sizes that were asked for.
    Pool,
    /// What pools of the driver have reserved beyond the allocations in them.
    PoolRest,
    /// Physical memory of `cuMemCreate`, mapped or not.
    Physical,
    /// Managed memory, by the sizes that were asked for: the part on the GPU is at most this.
    Managed,
    /// Memory of another process or device API that was opened here, by its size: NVML may charge it to both.
    Imported,
    /// Memory that graphs have reserved for their memory nodes.
    Graph,
    /// What another call took in the driver: the difference around it.
    Driver,
    /// What the driver's blocks of 2 MiB take beyond the allocations in them.
    Rounding,
    /// Allocations of callers beyond the first 4,000.
    More,
}

impl MemoryKind {
    /// What it is called.
    pub const fn in_words(self) -> &'static str {
        match self {
            MemoryKind::Context => "context",
            MemoryKind::Code => "code and its data",
            MemoryKind::Allocation => "allocations",
            MemoryKind::Array => "arrays",
            MemoryKind::Pool => "allocations of pools",
            MemoryKind::PoolRest => "rest of pools",
            MemoryKind::Physical => "physical memory",
            MemoryKind::Managed => "managed memory",
            MemoryKind::Imported => "another's memory",
            MemoryKind::Graph => "memory of graphs",
            MemoryKind::Driver => "in the driver",
            MemoryKind::Rounding => "rounding up",
            MemoryKind::More => "other callers",
        }
    }
}

/// What NVML charged to a process on one GPU at one moment, and who held it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerReading {
    /// When NVML was read.
    pub t_ns: u64,
    /// The process.
    pub pid: u32,
    /// The UUID of the GPU.
    pub gpu: String,
    /// Why it was read.
    pub why: LedgerReason,
    /// What NVML charges to the process; absent where NVML does not list it by the PID that the tracer knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_bytes: Option<u64>,
    /// What is in use on the GPU; absent where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// The holders whose bytes have changed since the reading before of this process and GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
}

/// Why a ledger was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerReason {
    /// The process held more than ever before, and was about to give some of it back.
    Peak,
    /// The process was about to end.
    End,
    /// Something changed. Traces of earlier versions have `asked` too, for a moment that was named.
    #[serde(alias = "asked")]
    Change,
}

/// What a holder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// The holder.
    pub holder: u32,
    /// Its bytes now.
    pub bytes: u64,
    /// How many allocations these are; absent where they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}
