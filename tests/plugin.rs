//! `pytest-cuda-pitfalls`: its own tests, by pytest, and what has to be the same as in other files.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use crate::common::{PROGRAM, root};

/// The Python that has pytest; none, said on stderr, where there is none and it is not required.
fn has_pytest() -> bool {
    let found = Command::new("python3").args(["-c", "import pytest, xdist"]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI has no pytest with pytest-xdist, and the plugin must be run in it"
        );
        // Not by a macro, whose text a test that passes keeps to itself.
        let _ = writeln!(
            std::io::stderr(),
            "LEFT OUT: no pytest with pytest-xdist is installed, so the plugin was not run"
        );
    }
    is_there
}

#[test]
fn the_plugin_does_what_its_tests_say() {
    if !has_pytest() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a folder of our own");
    let mut command = Command::new("python3");
    // Two at a time: each starts pytest anew, and waits for a trace.
    command.args(["-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "python/pytest/tests"]);
    command.arg(format!("--basetemp={}", scratch.path().join("pytest").display()));
    command.current_dir(root()).env("CUDA_PITFALLS", PROGRAM).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("PYTHONPATH", format!("{0}/python:{0}/python/pytest/src", root().display()));
    let output = command.output().expect("python3 starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let last = text.trim_end().lines().last().unwrap_or_default();
    assert!(last.contains(" passed") && !last.contains("skipped"), "{last}");
}

#[test]
fn its_version_is_that_of_the_program() {
    let project = fs::read_to_string(root().join("python/pytest/pyproject.toml")).expect("the project of the plugin");
    let version = env!("CARGO_PKG_VERSION");
    assert!(project.contains(&format!("\nversion = \"{version}\"\n")), "{project}");
    assert!(project.contains(&format!("\"cuda-pitfalls=={version}\"")), "{project}");
}
