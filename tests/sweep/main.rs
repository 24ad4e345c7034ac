//! Faults at random, and at every point there is: signals to the processes of a run, and system calls
//! of its parent that fail. Whatever happens, the run ends, nothing wrong is concluded, and the exit
//! code is the report's.
//!
//! A small part runs always. All of it: `cargo test --test suite -- --ignored sweep::`.

mod kills;
#[cfg(target_arch = "x86_64")]
mod syscalls;
#[cfg(target_arch = "x86_64")]
mod trace;
