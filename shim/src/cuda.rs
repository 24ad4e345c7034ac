//! The forwarding libcuda: it stands before the real one under its name, tells the tracer of calls
//! that change state, counts the others, and passes every call on as it is.
//!
//! The real library is this one's only dependency by name, so the loader finds in it every symbol
//! that is not here. A program that asks `cuGetProcAddress` gets the functions of this library for
//! those of the real one, by their addresses.

#![deny(unsafe_op_in_unsafe_fn)]
#![allow(non_snake_case, reason = "the functions have the names of C")]

mod c;
mod counts;
mod original;
mod post;
mod shared;
mod special;
mod state;
mod variable;

mod wrapped {
    //! Written by build.rs from `calls/tables/libcuda.calls` and `shim/calls.txt`.
    include!(env!("CUDA_PITFALLS_WRAPPED"));
}

/// What the loader calls once the library and the real one are in place.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let errno = c::Errno::kept();
    post::start();
    original::find();
    state::watch_forks();
    drop(errno);
}
