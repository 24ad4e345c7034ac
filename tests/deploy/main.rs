//! The files of `deploy`: the check of a node, and the scripts that run the program on the nodes of a cluster. If this
//! machine lacks a tool (Slurm, Helm, promtool), the trial is ignored for that reason.

mod kubernetes;
mod node;
mod slurm;

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;

use crate::common::{root, trials};

/// Returns all trials, which wait for other processes most of the time.
pub(crate) fn all() -> Vec<Trial> {
    let tests = [node::tests(), kubernetes::tests(), slurm::tests()].concat();
    tests
        .into_iter()
        .map(|test| trials::trial("deploy", test))
        .collect()
}

fn deploy(name: &str) -> PathBuf {
    root().join("deploy").join(name)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
