//! Faults at random, and at every point there is: signals, failing system calls, limits, full disks and clocks that jump,
//! in the way of every process (`tests/benches/faults.py`), and system calls of the parent that fail, one after the other.
//! Whatever happens, the run ends, nothing wrong is concluded, and the exit code is the report's.
//!
//! A small part runs always. All of the second: `cargo test --test suite -- --ignored sweep::`.

#[cfg(target_arch = "x86_64")]
mod syscalls;
#[cfg(target_arch = "x86_64")]
mod trace;

use std::process::Command;

use crate::common::{PROGRAM, Scratch, root};

/// Runs one fault of each kind, and more of the system calls. Kinds that are not possible on this machine are listed in
/// the output.
#[test]
fn a_few_faults_of_each_kind_spoil_no_answer() {
    let scratch = Scratch::new();
    let mut faults = Command::new("python3");
    faults.args([
        "tests/benches/faults.py",
        PROGRAM,
        "--seed",
        "20",
        "--trials",
        "10",
        "--jobs",
        "4",
    ]);
    faults.current_dir(root()).env("TMPDIR", scratch.path());
    println!("{}", scratch.ran(faults).good().stdout);
}
