//! The vocabulary: every call a scenario can list, as one table of data.
//!
//! A row says what the call is named (the exact C symbol), which library has it, and what each of
//! its C parameters is, in C order. Everything else follows from the row: the file format and its
//! JSON Schema, the error messages, the generated help, the symbols resolved before step 1, and
//! the call itself (the worker marshals any row, see [`crate::worker`]). Adding a call is adding a
//! row. Only rows of [`Library::Harness`] have code of their own.

mod driver;
mod harness;
mod libc;
mod nvml;
mod runtime;
mod tables;
mod toolkit;

pub mod constants;
pub mod layout;

use std::sync::LazyLock;

use constants::Constants;
use layout::{Layout, Template};

/// Where a step's function lives, which also decides how its result is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Library {
    /// `libcuda.so.1`; results are `CUresult`.
    Driver,
    /// `libcudart.so.*`; results are `cudaError_t`.
    Runtime,
    /// `libnvidia-ml.so.1`; results are `nvmlReturn_t`.
    Nvml,
    /// `libnvrtc` of the toolkit; results are `nvrtcResult`.
    Nvrtc,
    /// `libcublas`; results are `cublasStatus_t`.
    Cublas,
    /// `libcufft`; results are `cufftResult`.
    Cufft,
    /// `libnccl`; results are `ncclResult_t`.
    Nccl,
    /// The C library; a result below 0 means `errno`.
    Libc,
    /// An action of the worker itself (threads, processes, direct writes to `environ`).
    Harness,
}

impl Library {
    /// All of them.
    pub const ALL: [Library; 9] = [
        Library::Driver,
        Library::Runtime,
        Library::Nvml,
        Library::Nvrtc,
        Library::Cublas,
        Library::Cufft,
        Library::Nccl,
        Library::Libc,
        Library::Harness,
    ];

    /// The name used in reports, help and schema.
    pub fn name(self) -> &'static str {
        match self {
            Library::Driver => "libcuda",
            Library::Runtime => "libcudart",
            Library::Nvml => "libnvidia-ml",
            Library::Nvrtc => "libnvrtc",
            Library::Cublas => "libcublas",
            Library::Cufft => "libcufft",
            Library::Nccl => "libnccl",
            Library::Libc => "libc",
            Library::Harness => "harness",
        }
    }
}

/// One row of the vocabulary.
#[derive(Debug)]
pub struct StepKind {
    /// The exact C symbol, which is also the key in a scenario file.
    pub name: &'static str,
    /// Where it comes from: the library that exports it, or this program.
    pub origin: Library,
    /// One sentence for help and documentation.
    pub summary: &'static str,
    /// The C parameters in C order; some are written by the author, some are made up here.
    pub params: &'static [Param],
    /// What the function returns.
    pub returns: Returns,
}

/// What a function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// A 32-bit status of its library.
    Status,
    /// A C string that it keeps; it is the output `text`, and there is no status.
    Text,
}

/// One C parameter of a step.
#[derive(Debug)]
pub struct Param {
    /// The key in a scenario file (inputs) or in an observation's `values` (outputs).
    pub name: &'static str,
    /// What it holds and how it is passed.
    pub kind: Kind,
    /// What is passed when the author leaves the key out.
    pub default: Default,
}

/// What is passed when the author leaves an input out.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// Leaving it out is an error.
    Required,
    /// This integer.
    Int(i64),
}

/// What a parameter holds and how it is passed to C.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A signed integer of at most 32 bits.
    I32,
    /// An unsigned integer of at most 32 bits.
    U32,
    /// An unsigned integer of at most 64 bits.
    U64,
    /// A number of bytes: an integer, or text such as `"64 MiB"`.
    Bytes,
    /// A C string.
    Text,
    /// An integer with names in a C header; either may be written.
    Constant(&'static Constants),
    /// A value that an earlier step bound with `as`, or `"NULL"`.
    Handle(&'static str),
    /// The name of a kernel file embedded from `kernels/`, passed as PTX text.
    Ptx,
    /// A binary that an earlier step linked, passed in the container that nvcc puts binaries into.
    FatBinary(&'static str),
    /// A list of kernel arguments (integers or handles), passed as `void**`.
    Arguments,
    /// The name of an actor, used by harness steps that join, wait or signal.
    Actor,
    /// The name of a process, passed as its process ID.
    Pid,
    /// `dim3` by value: its x, with a y of 1 in the same word. A row gives z as the next parameter.
    Dim3,
    /// `CUmemLocation` by value: an ordinal, or `"host"`.
    Location,
    /// A C struct passed by address, of which the author gives one word.
    In(&'static Template),
    /// Bytes that an earlier step bound, in this process or another, passed by value as a C struct.
    Block(&'static str, usize),
    /// Always this value; not written by the author.
    Fixed(u64),
    /// Written by the callee.
    Out(Output),
}

/// What an output parameter receives.
#[derive(Clone, Copy, Debug)]
pub enum Output {
    /// A C `int`.
    I32,
    /// A C `unsigned int`.
    U32,
    /// A 64-bit count that is the same in every attempt.
    U64,
    /// A 64-bit number of bytes that may differ from attempt to attempt (free memory, say), and so
    /// is kept out of outcomes.
    Varying,
    /// A C `float`, kept out of outcomes.
    F32,
    /// Sixteen bytes of a GPU's UUID, reported as `GPU-…`.
    Uuid,
    /// A C string in a buffer of this many bytes.
    Text(usize),
    /// A pointer or handle that `as` binds to a name; reported as bound or NULL, never as a number.
    Handle(&'static str),
    /// Eight bytes, shown as a number; where `as` binds them to a name they are an address, and are
    /// reported as bound or NULL.
    Word(&'static str),
    /// So many bytes that `as` binds to a name for any process of the attempt; reported as `bound`.
    Blob(&'static str, usize),
    /// A C struct, of which named fields are reported.
    Struct(&'static Layout),
}

impl StepKind {
    /// The parameters an author may write, in C order.
    pub fn inputs(&self) -> impl Iterator<Item = &'static Param> {
        self.params.iter().filter(|p| !matches!(p.kind, Kind::Fixed(_) | Kind::Out(_)))
    }

    /// What the callee gives back beside a status: parameters in C order, and a text that it returns.
    pub fn outputs(&self) -> impl Iterator<Item = (&'static str, Output)> {
        let text = (self.returns == Returns::Text).then_some((RETURNED_TEXT, Output::Text(RETURNED_TEXT_BYTES)));
        let written = self.params.iter().filter_map(|p| match p.kind {
            Kind::Out(output) => Some((p.name, output)),
            _ => None,
        });
        written.chain(text)
    }

    /// Whether `as` means something for this step, and the type of handle it binds.
    pub fn binds(&self) -> Option<&'static str> {
        if self.origin == Library::Harness {
            return harness::binds(self.name);
        }
        self.outputs().find_map(|(_, output)| match output {
            Output::Handle(of) | Output::Word(of) | Output::Blob(of, _) => Some(of),
            _ => None,
        })
    }
}

/// The type of name that threads, processes and exit handlers have.
pub const ACTOR: &str = "actor";
/// The type of name that a private copy of libcudart has.
pub const LIBRARY_COPY: &str = "library copy";
/// The output that holds a text which a function returned.
pub const RETURNED_TEXT: &str = "text";
/// The most bytes of such a text that are kept.
pub const RETURNED_TEXT_BYTES: usize = 256;
/// The largest 64-bit number, which a file writes by its C name.
pub const UINT64_MAX: &str = "UINT64_MAX";

/// Every step there is, library by library.
pub fn all() -> impl Iterator<Item = &'static StepKind> {
    tables::TABLES.iter().copied().flatten()
}

/// The row of a step by its exact name.
pub fn find(name: &str) -> Option<&'static StepKind> {
    static SORTED: LazyLock<Vec<&StepKind>> = LazyLock::new(|| {
        let mut sorted: Vec<&StepKind> = all().collect();
        sorted.sort_unstable_by_key(|kind| kind.name);
        sorted
    });
    let index = SORTED.binary_search_by_key(&name, |kind| kind.name).ok()?;
    SORTED.get(index).copied()
}

// The rows below are written with these; their names are short because a table is read, not typed.

const fn row(origin: Library, name: &'static str, summary: &'static str, params: &'static [Param]) -> StepKind {
    StepKind { name, origin, summary, params, returns: Returns::Status }
}
/// A row whose function returns text instead of a status.
const fn returning_text(mut kind: StepKind) -> StepKind {
    kind.returns = Returns::Text;
    kind
}
const fn param(name: &'static str, kind: Kind) -> Param {
    Param { name, kind, default: Default::Required }
}
const fn or(mut param: Param, default: i64) -> Param {
    param.default = Default::Int(default);
    param
}
const fn int(name: &'static str) -> Param {
    param(name, Kind::I32)
}
const fn uint(name: &'static str) -> Param {
    param(name, Kind::U32)
}
const fn bytes(name: &'static str) -> Param {
    param(name, Kind::Bytes)
}
const fn text(name: &'static str) -> Param {
    param(name, Kind::Text)
}
const fn constant(name: &'static str, of: &'static Constants) -> Param {
    param(name, Kind::Constant(of))
}
const fn handle(name: &'static str, of: &'static str) -> Param {
    param(name, Kind::Handle(of))
}
const fn fixed(name: &'static str, value: u64) -> Param {
    param(name, Kind::Fixed(value))
}
const fn out(name: &'static str, output: Output) -> Param {
    param(name, Kind::Out(output))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_summaries_are_sentences() {
        let mut seen = HashSet::new();
        for kind in all() {
            assert!(seen.insert(kind.name), "{} is listed twice", kind.name);
            assert!(kind.summary.ends_with('.'), "{}: {:?}", kind.name, kind.summary);
        }
    }

    #[test]
    fn parameters_of_a_row_have_names_of_their_own() {
        for kind in all() {
            let mut seen = HashSet::new();
            for param in kind.params {
                assert!(seen.insert(param.name), "{}: {} twice", kind.name, param.name);
            }
            assert!(kind.params.len() <= 12, "{}: the worker passes at most 12 parameters", kind.name);
        }
    }
}
