//! The forwarding libcuda, which is loaded under the name of the real one. It reports calls that change state to the
//! tracer, counts the others, and passes every call on unchanged.
//!
//! By name, this library depends only on the real one, so the loader finds there every symbol that is missing here. A
//! program that calls `cuGetProcAddress` gets the functions of this library instead of those of the real one, by their
//! addresses.

#![deny(unsafe_op_in_unsafe_fn)]
#![allow(non_snake_case, reason = "the functions have the names of C")]

#[allow(dead_code, reason = "the other library of a trace needs the rest")]
mod c;
mod caller;
mod counts;
mod memory;
mod original;
#[allow(dead_code, reason = "the other library of a trace needs the rest")]
mod post;
mod python;
mod returned;
#[allow(dead_code, reason = "the other library of a trace needs the rest")]
mod shared;
mod special;
mod state;
mod variable;

mod wrapped {
    //! Written by build.rs from `calls/tables/libcuda.calls` and `shim/calls.txt`.
    include!(env!("CUDA_PITFALLS_WRAPPED"));
}

/// The function that the loader calls once the library and the real one are in place.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// The directory of the trace, ended by NUL; empty if nothing is reported. The tracer writes it into its copy of the
/// library, behind the mark that locates it.
#[used]
#[unsafe(link_section = ".data")]
static FOLDER: [u8; FOLDER_BYTES] = shared::room(b"cuda-pitfalls:address:");
const FOLDER_BYTES: usize = 512;
const MARK_BYTES: usize = 22;

extern "C" fn start() {
    let errno = c::Errno::kept();
    // SAFETY: the array is not written while the library is loaded; the file was changed, so the compiler must not use
    // the value that it saw.
    let folder = unsafe { std::ptr::read_volatile(&raw const FOLDER) };
    let folder = folder.get(MARK_BYTES..).unwrap_or_default();
    post::start(folder.split(|byte| *byte == 0).next().unwrap_or_default());
    post::note_load();
    original::find();
    returned::start();
    state::watch_forks();
    drop(errno);
}
