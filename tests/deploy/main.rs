//! The files of `deploy`: the check of a node, and what runs the program on the nodes of a cluster. What this machine
//! lacks (Slurm, Helm, promtool) is the reason for which a trial is ignored.

#[path = "../common/mod.rs"]
mod common;

mod kubernetes;
mod node;
mod slurm;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use common::{root, trials};

fn main() -> ExitCode {
    let tests = [node::tests(), kubernetes::tests(), slurm::tests()].concat();
    // They wait for other processes most of the time.
    trials::run(tests, Some(4)).exit_code()
}

fn deploy(name: &str) -> PathBuf {
    root().join("deploy").join(name)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
