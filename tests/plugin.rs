//! Runs the tests of `pytest-cuda-pitfalls` with pytest.

use std::io::Write as _;
use std::process::Command;

use crate::common::{PROGRAM, root};

/// Returns a Python that has pytest, possibly the system's own; `None`, with a message on stderr, if none is installed
/// and it is not required.
fn python_with_pytest() -> Option<&'static str> {
    let has_it = |python: &&str| {
        let asked = Command::new(python)
            .args(["-c", "import pytest, xdist"])
            .output();
        asked.is_ok_and(|output| output.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_it);
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI has no pytest with pytest-xdist, and the plugin must be run in it"
        );
        // Not by a macro, because the text of a test that passes is not shown.
        let _ = writeln!(
            std::io::stderr(),
            "LEFT OUT: no pytest with pytest-xdist is installed, so the plugin was not run"
        );
    }
    found
}

#[test]
fn the_plugin_does_what_its_tests_say() {
    let Some(python) = python_with_pytest() else {
        return;
    };
    let scratch = tempfile::tempdir().expect("a folder of our own");
    let mut command = Command::new(python);
    // pytest prints more if it is set.
    command.env_remove("CI");
    // Two at a time: each starts a new pytest, and waits for a trace.
    command.args([
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "-p",
        "no:cacheprovider",
        "python/pytest/tests",
    ]);
    command.arg(format!(
        "--basetemp={}",
        scratch.path().join("pytest").display()
    ));
    command
        .current_dir(root())
        .env("CUDA_PITFALLS", PROGRAM)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command.env(
        "PYTHONPATH",
        format!("{0}/python:{0}/python/pytest/src", root().display()),
    );
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let last = text.trim_end().lines().last().unwrap_or_default();
    assert!(
        last.contains(" passed") && !last.contains("skipped"),
        "{last}"
    );
}
