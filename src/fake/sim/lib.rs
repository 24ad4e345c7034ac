//! The simulated driver of cuda-pitfalls: one library that replaces libcuda, libcudart and libnvidia-ml.
//!
//! On a machine without a GPU the worker and the sampler of cuda-pitfalls load this library under the names of the
//! three real ones and make the same calls. It answers from a model of CUDA start-up: when the mask is read, which call
//! creates a context, how much memory a context costs, what NVML sees from another process. It runs no kernel. It
//! models the plain effects of a simple kernel, and does not know what any other kernel leaves in memory.
//!
//! Reading order, from the bottom up: [`machine`] is the simulated machine, with a description and a memory that all
//! processes share; [`model`] has the objects of a driver, each with its own rules (`model::behaviour` lists every rule
//! that a measurement may overturn); [`process`] owns these objects and has the calls that need several of them;
//! [`entry`] finds the state of the calling process and locks it; [`driver`], [`runtime`] and [`nvml`] have the C
//! symbols, a few lines each.
//!
//! The library needs no environment variable: it looks for `machine.conf` and `machine.state` in the directory that it
//! was loaded from.

#![deny(unsafe_op_in_unsafe_fn)]

mod c;
mod driver;
mod entry;
mod machine;
mod model;
mod nvml;
mod pointer;
mod process;
mod runtime;
mod symbols;
mod unmodelled;

/// The function that the loader calls once the library is in place. A process that changes its user or its root later
/// still has the machine then.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let _ = machine::machine();
}

/// Shows the caller that it uses the simulated driver; the real libraries have no such symbol.
#[unsafe(no_mangle)]
pub extern "C" fn cuda_pitfalls_simulated() -> i32 {
    1
}
