//! Builds the simulated driver: one shared library, made by the same compiler for the same target, to be embedded in the binary.
//!
//! It cannot be an ordinary dependency: cargo has no stable way to hand a package the shared library of another one.

#[path = "build/declared.rs"]
mod declared;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

const SOURCE: &str = "sim/src/lib.rs";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=sim/src");
    println!("cargo::rerun-if-changed=calls/src/status");
    // Scenarios, kernels, claims and rules are embedded, and a new file must be noticed.
    println!("cargo::rerun-if-changed=scenarios");
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed=claims");
    println!("cargo::rerun-if-changed=diagnoses");
    // Which commit this is, and whether files have changed since.
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=surveys");
    if let Some(commit) = commit() {
        println!("cargo::rustc-env=CUDA_PITFALLS_COMMIT={commit}");
    }
    println!("cargo::rerun-if-changed=build");
    if let Err(why) = write_declared().and_then(|()| build()) {
        // Cargo fails the build for these lines and prints nothing else, which a failing exit status would not spare the reader.
        for line in why.lines() {
            println!("cargo::error={line}");
        }
    }
}

/// The commit of the checkout that is being built; none where this is no checkout of its own, or git
/// is not there.
fn commit() -> Option<String> {
    let here = env::var_os("CARGO_MANIFEST_DIR")?;
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git").arg("-C").arg(&here).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // A package that was unpacked inside another repository is no checkout of ours.
    if fs::canonicalize(git(&["rev-parse", "--show-toplevel"])?).ok()? != fs::canonicalize(&here).ok()? {
        return None;
    }
    for name in ["HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"])
}

/// What the tables of calls say about C, for the test that holds it against the bindings.
fn write_declared() -> Result<(), String> {
    let out = env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?;
    let path = Path::new(&out).join("declared.rs");
    fs::write(&path, declared::source()).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Whether a file is newer than everything below a folder.
fn is_newer(file: &Path, folder: &str) -> bool {
    fn newest(path: &Path) -> Option<SystemTime> {
        let own = fs::metadata(path).ok()?.modified().ok()?;
        let below = fs::read_dir(path).into_iter().flatten().flatten().filter_map(|entry| newest(&entry.path()));
        Some(below.fold(own, SystemTime::max))
    }
    let built = fs::metadata(file).and_then(|file| file.modified()).ok();
    built.zip(newest(Path::new(folder))).is_some_and(|(built, changed)| built > changed)
}

fn build() -> Result<(), String> {
    let variable = |name: &str| env::var_os(name).ok_or_else(|| format!("cargo did not set {name}"));
    if variable("CARGO_CFG_TARGET_OS")? != "linux" {
        return Err("cuda-pitfalls runs on Linux only: its simulated driver is a Linux shared library".to_owned());
    }
    let out = Path::new(&variable("OUT_DIR")?).join("libcuda_pitfalls_sim.so");
    // This script also runs for other reasons than a changed driver, which takes seconds to build.
    if ["sim/src", "calls/src/status", "build.rs"].into_iter().all(|source| is_newer(&out, source)) {
        return Ok(());
    }
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc
        .args(["--crate-type=cdylib", "--crate-name", "cuda_pitfalls_sim", "--edition", "2024", "--target"])
        .arg(variable("TARGET")?)
        .args(["-Cpanic=abort", "-Copt-level=2", "-Cstrip=symbols", "-o"])
        .arg(&out)
        .arg(SOURCE);
    // A linker chosen in cargo's configuration for this target is the only one that works for it.
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("-Clinker=");
        option.push(linker);
        rustc.arg(option);
    }
    let output = rustc
        .output()
        .map_err(|error| format!("cannot start the compiler for the simulated driver: {error}\n{rustc:?}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("the simulated driver ({SOURCE}) did not build ({}):\n{rustc:?}\n{text}", output.status))
}
