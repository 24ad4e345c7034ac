//! Builds the shared libraries of this crate, by the same compiler for the same target: the simulated driver, the two
//! libraries of a trace, and the injection library of the scenarios.
//!
//! They cannot be ordinary dependencies: cargo has no stable way to hand a package the shared library of another one.

mod wrapped;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::SystemTime;

/// A shared library to be built.
struct Cdylib {
    /// The name of the crate, and of the file without `lib` and `.so`.
    name: &'static str,
    /// Its first source file.
    source: &'static str,
    /// All that it is built from.
    sources: &'static [&'static str],
    /// What the linker is told beside.
    link: Vec<String>,
}

/// What stands for the path of the real libcuda among the libraries that the forwarding one needs. A trace writes the
/// path in its place, so it is longer than any path should be.
const STAND_IN_BYTES: usize = 1200;

fn main() {
    for path in [
        "build.rs",
        "wrapped.rs",
        "sim",
        "shim",
        "hook.rs",
        "machines",
    ] {
        println!("cargo::rerun-if-changed={path}");
    }
    if let Err(why) = build_all() {
        // Cargo fails the build for these lines and prints nothing else, which a failing exit status would not spare
        // the reader.
        for line in why.lines() {
            println!("cargo::error={line}");
        }
    }
}

/// Whether a file is newer than everything below a folder.
fn is_newer(file: &Path, folder: &str) -> bool {
    fn newest(path: &Path) -> Option<SystemTime> {
        let own = fs::metadata(path).ok()?.modified().ok()?;
        let below = fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| newest(&entry.path()));
        Some(below.fold(own, SystemTime::max))
    }
    let built = fs::metadata(file).and_then(|file| file.modified()).ok();
    built
        .zip(newest(Path::new(folder)))
        .is_some_and(|(built, changed)| built > changed)
}

/// A variable that cargo sets.
fn variable(name: &str) -> Result<OsString, String> {
    env::var_os(name).ok_or_else(|| format!("cargo did not set {name}"))
}

fn build_all() -> Result<(), String> {
    if variable("CARGO_CFG_TARGET_OS")? != "linux" {
        return Err(
            "cuda-pitfalls runs on Linux only: its simulated driver is a Linux shared library"
                .to_owned(),
        );
    }
    let out = PathBuf::from(variable("OUT_DIR")?);
    let wrapped = out.join("wrapped.rs");
    let text = fs::read_to_string("shim/calls.txt")
        .map_err(|error| format!("cannot read shim/calls.txt: {error}"))?;
    let (source, counted) = wrapped::source(&text)?;
    write_if_new(&wrapped, &source)?;
    write_if_new(&out.join("counted.rs"), &counted)?;
    write_if_new(
        &out.join("questions.rs"),
        &wrapped::names(&text, "question"),
    )?;
    write_if_new(&out.join("lacking.rs"), &wrapped::names(&text, "lacking"))?;
    println!(
        "cargo::rustc-env=CUDA_PITFALLS_WRAPPED={}",
        wrapped.display()
    );
    // A library under the stand-in's name, only for the linker to see that it is needed.
    let stand_in = format!("cuda-pitfalls:needed:{}", "-".repeat(STAND_IN_BYTES));
    let empty = out.join("stand_in.rs");
    write_if_new(&empty, "")?;
    let link = vec![format!("-Wl,-soname,{stand_in}")];
    let needed = build_from("cuda_pitfalls_stand_in", &empty, &["build.rs"], link)?;
    // The table of functions of libcuda must not be bound by name: a trace takes out the names that a driver does not
    // have.
    let forwards = vec![
        "-Wl,-soname,libcuda.so.1".to_owned(),
        "-Wl,-Bsymbolic".to_owned(),
        "-Wl,--no-as-needed".to_owned(),
        needed.display().to_string(),
    ];
    let library = |name, source, sources, link| Cdylib {
        name,
        source,
        sources,
        link,
    };
    let libraries = [
        library(
            "cuda_pitfalls_sim",
            "sim/lib.rs",
            &["sim", "build.rs"][..],
            Vec::new(),
        ),
        library(
            "cuda_pitfalls_cuda",
            "shim/cuda.rs",
            &["shim", "wrapped.rs", "build.rs"],
            forwards,
        ),
        library(
            "cuda_pitfalls_preload",
            "shim/preload.rs",
            &["shim", "build.rs"],
            Vec::new(),
        ),
        library(
            "cuda_pitfalls_hook",
            "hook.rs",
            &["hook.rs", "build.rs"],
            Vec::new(),
        ),
    ];
    // Each takes seconds of an optimising compiler, and this crate stands below most others.
    thread::scope(|scope| {
        let built = libraries.map(|library| scope.spawn(move || build(library)));
        built.into_iter().try_for_each(|one| {
            one.join()
                .map_err(|_| "a thread of the build panicked".to_owned())?
        })
    })
}

/// Writes a file unless it says so already: what is built from it stays.
fn write_if_new(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn build(
    Cdylib {
        name,
        source,
        sources,
        link,
    }: Cdylib,
) -> Result<(), String> {
    build_from(name, Path::new(source), sources, link).map(drop)
}

/// Builds a shared library, and says where it is.
fn build_from(
    name: &str,
    source: &Path,
    sources: &[&str],
    link: Vec<String>,
) -> Result<PathBuf, String> {
    let folder = PathBuf::from(variable("OUT_DIR")?);
    let out = folder.join(format!("lib{name}.so"));
    // This script also runs for other reasons than a changed library, each of which takes seconds to build.
    let generated = folder.join("wrapped.rs");
    let is_up_to_date = sources.iter().all(|source| is_newer(&out, source));
    if is_up_to_date
        && (!generated.exists()
            || is_newer(&out, &generated.to_string_lossy())
            || name != "cuda_pitfalls_cuda")
    {
        return Ok(out);
    }
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc.args([
        "--crate-type=cdylib",
        "--crate-name",
        name,
        "--edition",
        "2024",
        "--target",
    ]);
    // What only looks at the sources runs none of the libraries.
    let wrapper = env::var("RUSTC_WORKSPACE_WRAPPER").unwrap_or_default();
    let level = if wrapper.ends_with("clippy-driver") {
        "-Copt-level=0"
    } else {
        "-Copt-level=2"
    };
    rustc
        .arg(variable("TARGET")?)
        .args(["-Cpanic=abort", level, "-Cstrip=symbols"]);
    // Panics name the generated file, and must not name the folder of the build.
    rustc.arg(format!("--remap-path-prefix={}=out", folder.display()));
    // A quarter of a megabyte less in what is published, for twenty seconds.
    if variable("PROFILE")? == "release" {
        rustc.args(["-Clto=fat", "-Ccodegen-units=1"]);
    }
    rustc.arg("-o");
    rustc
        .arg(&out)
        .arg(source)
        .env("CUDA_PITFALLS_WRAPPED", &generated);
    for option in link {
        rustc.arg(format!("-Clink-arg={option}"));
    }
    // A linker chosen in cargo's configuration for this target is the only one that works for it.
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("-Clinker=");
        option.push(linker);
        rustc.arg(option);
    }
    let source = source.display();
    let output = rustc
        .output()
        .map_err(|error| format!("cannot start the compiler for {source}: {error}\n{rustc:?}"))?;
    if output.status.success() {
        return Ok(out);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{source} did not build ({}):\n{rustc:?}\n{text}",
        output.status
    ))
}
