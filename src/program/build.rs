//! Writes the commit that the program is built from, and the C declarations of the tables of calls for the test that
//! compares them with the bindings.

mod declared;

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    // Whether files have changed since the commit.
    for path in ["Cargo.toml", "src", "scenarios"] {
        println!("cargo::rerun-if-changed={path}");
    }
    if let Some(commit) = git_commit() {
        println!("cargo::rustc-env=CUDA_PITFALLS_COMMIT={commit}");
    }
    // Relocation takes 3 of the 8 ms in which a debug build starts, and tests start thousands of workers.
    if env::var_os("PROFILE").is_some_and(|profile| profile == "debug") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    if let Err(why) = write_declared() {
        println!("cargo::error={why}");
    }
}

/// Returns the commit of the checkout that is being built; `None` if this is not its own checkout, or git is not
/// installed.
fn git_commit() -> Option<String> {
    let here = env::var_os("CARGO_MANIFEST_DIR")?;
    // A package that was unpacked inside another repository is not a checkout of ours.
    if fs::canonicalize(run_git(&here, &["rev-parse", "--show-toplevel"])?).ok()?
        != fs::canonicalize(&here).ok()?
    {
        return None;
    }
    for name in ["HEAD", "index"] {
        if let Some(path) = run_git(&here, &["rev-parse", "--git-path", name])
            .filter(|path| Path::new(path).exists())
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    // `git describe --dirty` refreshes the index, and Cargo would then build everything once more. So it gets a copy.
    let index = Path::new(&env::var_os("OUT_DIR")?).join("index");
    fs::copy(
        run_git(&here, &["rev-parse", "--git-path", "index"])?,
        &index,
    )
    .ok()?;
    let mut describe = Command::new("git");
    describe.arg("-C").arg(&here).args([
        "describe",
        "--always",
        "--dirty",
        "--exclude=*",
        "--abbrev=12",
    ]);
    run_command(describe.env("GIT_INDEX_FILE", &index))
}

fn run_git(folder: &OsStr, arguments: &[&str]) -> Option<String> {
    run_command(Command::new("git").arg("-C").arg(folder).args(arguments))
}

/// Returns the trimmed output of a command, if it succeeds.
fn run_command(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Writes the C declarations of the tables of calls, for the test that compares them with the bindings.
fn write_declared() -> Result<(), Box<dyn Error>> {
    let out = env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?;
    let path = Path::new(&out).join("declared.rs");
    Ok(fs::write(&path, declared::source())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?)
}
