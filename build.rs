//! Builds the simulated node: one shared library, made by the same compiler for the same target, to be embedded in the binary.
//!
//! It cannot be an ordinary dependency: cargo has no stable way to hand a package the shared library of another one.

use std::env;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "sim/src/lib.rs";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=sim/src");
    // Scenarios, kernels and claims are embedded, and a new file must be noticed.
    println!("cargo::rerun-if-changed=scenarios");
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed=claims");
    if let Err(why) = build() {
        // Cargo fails the build for these lines and prints nothing else, which a failing exit status would not spare the reader.
        for line in why.lines() {
            println!("cargo::error={line}");
        }
    }
}

fn build() -> Result<(), String> {
    let variable = |name: &str| env::var_os(name).ok_or_else(|| format!("cargo did not set {name}"));
    if variable("CARGO_CFG_TARGET_OS")? != "linux" {
        return Err("cuda-pitfalls runs on Linux only: its simulated node is a Linux shared library".to_owned());
    }
    let out = Path::new(&variable("OUT_DIR")?).join("libcuda_pitfalls_node.so");
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc
        .args(["--crate-type=cdylib", "--crate-name", "cuda_pitfalls_node", "--edition", "2024", "--target"])
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
        .map_err(|error| format!("cannot start the compiler for the simulated node: {error}\n{rustc:?}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("the simulated node ({SOURCE}) did not build ({}):\n{rustc:?}\n{text}", output.status))
}
