//! The shared libraries between a program and a driver, as bytes. The build script builds them from the sources in this
//! directory, with the same compiler for the same target.

#[path = "shim/variable.rs"]
mod variable;

/// The simulated driver (`sim/`): one library under the names of libcuda, libcudart and libnvidia-ml.
pub const DRIVER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda_pitfalls_sim.so"));

/// The forwarding libcuda of a trace (`shim/cuda.rs`).
pub const FORWARDING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda_pitfalls_cuda.so"));

/// The hook of a trace (`shim/preload.rs`).
pub const PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda_pitfalls_preload.so"));

/// The injection library of scenarios (`hook.rs`).
pub const INJECTION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda_pitfalls_hook.so"));

/// Functions that are wrapped only if all calls are counted (`shim/calls.txt`).
pub const QUESTIONS: &[&str] = &include!(concat!(env!("OUT_DIR"), "/questions.rs"));

/// Functions that [`FORWARDING`] has only for a driver that lacks them (`shim/calls.txt`).
pub const LACKING: &[&str] = &include!(concat!(env!("OUT_DIR"), "/lacking.rs"));

/// The simulated machines: name and description.
pub const MACHINES: [(&str, &str); 9] = [
    ("h200-x1", include_str!("machines/h200-x1.toml")),
    ("h200-x2", include_str!("machines/h200-x2.toml")),
    ("h200-x4", include_str!("machines/h200-x4.toml")),
    ("h200-x8", include_str!("machines/h200-x8.toml")),
    ("mixed-pair", include_str!("machines/mixed-pair.toml")),
    ("gb10", include_str!("machines/gb10.toml")),
    ("thor", include_str!("machines/thor.toml")),
    ("mig", include_str!("machines/mig.toml")),
    ("gh200", include_str!("machines/gh200.toml")),
];

/// The functions that are counted, in the order of their counts.
pub const COUNTED: &[&str] = &include!(concat!(env!("OUT_DIR"), "/counted.rs"));

/// The size of the memory with the counts of a process (`shim/counts.rs`).
pub mod counts {
    include!("shim/counted.rs");
}

/// Returns `true` if a variable matters because the driver, the runtime or a framework that calls them reads it.
pub fn is_of_cuda(name: &[u8]) -> bool {
    variable::is_of_cuda(name)
}
