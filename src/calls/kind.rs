//! The ways to pass parameters, and the outputs of functions.

use crate::constants::Constants;
use crate::structs::{InputStruct, Layout};

/// The C name of the largest 64-bit number, as files write it.
pub const UINT64_MAX: &str = "UINT64_MAX";

/// The kind of a parameter's value, and how it is passed to C.
#[derive(Clone, Copy, Debug)]
pub enum ParamKind {
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
    /// An integer with names in a C header; the author writes the number or a name.
    Constant(&'static Constants),
    /// A value that an earlier step bound with `as`, or `"NULL"`.
    Handle(&'static str),
    /// The name of a kernel file embedded from `scenarios/kernels/`, passed as PTX text.
    Ptx,
    /// A binary that an earlier step linked, passed in a container of the kind that nvcc generates.
    FatBinary(&'static str),
    /// A list of kernel arguments (integers or handles), passed as `void**`.
    Arguments,
    /// The name of an actor, used by harness steps that join, wait or signal.
    Actor,
    /// The name of a process, passed as its process ID.
    Pid,
    /// `dim3` by value: x, with a y of 1 in the same word. The next parameter is z.
    Dim3,
    /// `CUmemLocation` by value: a GPU ordinal, or `"host"`.
    Location,
    /// A C struct passed by address; the author gives one word of it.
    In(&'static InputStruct),
    /// Bytes that an earlier step bound, in this process or another, passed by value as a C struct.
    Block(&'static str, usize),
    /// Always this value; the author does not write it.
    Fixed(u64),
    /// Written by the function.
    Out(Output),
}

/// The value that a function writes to an output parameter.
#[derive(Clone, Copy, Debug)]
pub enum Output {
    /// A C `int`.
    I32,
    /// A C `unsigned int`.
    U32,
    /// A 64-bit count that is the same in every attempt.
    U64,
    /// A 64-bit number of bytes that may differ from attempt to attempt (such as free memory), so it is not part of
    /// outcomes.
    Varying,
    /// A C `float`, which is not part of outcomes.
    F32,
    /// Sixteen bytes of a GPU's UUID, reported as `GPU-…`.
    Uuid,
    /// A C string in a buffer of this many bytes.
    Text(usize),
    /// A pointer or handle that `as` binds to a name; reported as bound or NULL, never as a number.
    Handle(&'static str),
    /// Eight bytes, reported as a number. If `as` binds them to a name, they are an address, reported as bound or NULL.
    Word(&'static str),
    /// Number of bytes, which `as` binds to a name for any process of the attempt; reported as `bound`.
    Blob(&'static str, usize),
    /// A C struct; its named fields are reported.
    Struct(&'static Layout),
}
