//! Builds the shared libraries of this crate, by the same compiler for the same target: the simulated driver, the two
//! libraries of a trace, and the injection library of the scenarios.
//!
//! They cannot be ordinary dependencies: cargo has no stable way to hand a package the shared library of another one.

mod wrapped;

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::SystemTime;

/// The reason why a library is not built. Cargo prints the text to the person who installs the program.
type BuildError = Box<dyn Error + Send + Sync>;

/// A shared library to be built.
struct Cdylib {
    /// The name of the crate, and of the file without `lib` and `.so`.
    name: &'static str,
    /// The first source file of the library.
    source: PathBuf,
    /// All files that the library is built from.
    sources: &'static [&'static str],
    /// Additional arguments for the linker.
    link: Vec<String>,
}

/// Length of the placeholder for the path of the real libcuda among the libraries that the forwarding one needs. A
/// trace writes the path in its place, so it is longer than any path should be.
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
        // For these lines, cargo fails the build and prints nothing else; with a failing exit status it would print
        // more.
        for line in why.to_string().lines() {
            println!("cargo::error={line}");
        }
    }
}

/// Returns `true` if a file is newer than everything below a directory.
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

/// Returns a variable that cargo sets.
fn cargo_variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name} for build scripts"))
}

fn build_all() -> Result<(), BuildError> {
    if cargo_variable("CARGO_CFG_TARGET_OS") != "linux" {
        return Err(
            "cuda-pitfalls runs on Linux only: its simulated driver is a Linux shared library"
                .into(),
        );
    }
    let out = PathBuf::from(cargo_variable("OUT_DIR"));
    write_sources(&out)?;
    // A library under the stand-in's name, only for the linker to see that it is needed.
    let stand_in = format!("cuda-pitfalls:needed:{}", "-".repeat(STAND_IN_BYTES));
    let empty = out.join("stand_in.rs");
    write_if_new(&empty, "")?;
    let needed = build_library(&Cdylib {
        source: empty,
        link: vec![format!("-Wl,-soname,{stand_in}")],
        ..Cdylib::new("cuda_pitfalls_stand_in", "", &["build.rs"])
    })?;
    // The table of libcuda functions must not be bound by name: a trace removes the names that a driver does not have.
    let forwards = vec![
        "-Wl,-soname,libcuda.so.1".to_owned(),
        "-Wl,-Bsymbolic".to_owned(),
        "-Wl,--no-as-needed".to_owned(),
        needed.display().to_string(),
    ];
    let shim = &["shim", "wrapped.rs", "build.rs"];
    let libraries = [
        Cdylib::new("cuda_pitfalls_sim", "sim/lib.rs", &["sim", "build.rs"]),
        Cdylib {
            link: forwards,
            ..Cdylib::new(FORWARDING, "shim/cuda.rs", shim)
        },
        Cdylib::new(
            "cuda_pitfalls_preload",
            "shim/preload.rs",
            &["shim", "build.rs"],
        ),
        Cdylib::new("cuda_pitfalls_hook", "hook.rs", &["hook.rs", "build.rs"]),
    ];
    // Each library takes an optimizing compiler seconds, and most other crates depend on this one.
    thread::scope(|scope| {
        let built = libraries.map(|library| scope.spawn(move || build_library(&library)));
        for library in built {
            let built = library.join();
            built.map_err(|_| "a thread of the build panicked")??;
        }
        Ok(())
    })
}

/// Writes the sources that are generated from `shim/calls.txt`.
fn write_sources(out: &Path) -> Result<(), BuildError> {
    let wrapped = out.join("wrapped.rs");
    let text = fs::read_to_string("shim/calls.txt")
        .map_err(|error| format!("cannot read shim/calls.txt: {error}"))?;
    let (source, counted) = wrapped::source(&text);
    write_if_new(&wrapped, &source)?;
    write_if_new(&out.join("counted.rs"), &counted)?;
    for (file, word) in [("questions.rs", "question"), ("lacking.rs", "lacking")] {
        write_if_new(&out.join(file), &wrapped::names(&text, word))?;
    }
    println!(
        "cargo::rustc-env=CUDA_PITFALLS_WRAPPED={}",
        wrapped.display()
    );
    Ok(())
}

/// Writes a file unless it already has this text, so that its dependents stay up to date.
fn write_if_new(path: &Path, text: &str) -> Result<(), BuildError> {
    if fs::read_to_string(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    fs::write(path, text)
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

/// The library that needs the generated wrappers.
const FORWARDING: &str = "cuda_pitfalls_cuda";

impl Cdylib {
    fn new(name: &'static str, source: &str, sources: &'static [&'static str]) -> Cdylib {
        Cdylib {
            name,
            source: source.into(),
            sources,
            link: Vec::new(),
        }
    }

    /// Returns `true` if the library is newer than all files that it is built from. The script also runs for other
    /// reasons than a changed library, and each library takes seconds to build.
    fn is_up_to_date(&self, out: &Path, generated: &Path) -> bool {
        let uses_generated = self.name == FORWARDING && generated.exists();
        self.sources.iter().all(|source| is_newer(out, source))
            && (!uses_generated || is_newer(out, &generated.to_string_lossy()))
    }
}

/// Builds a shared library, and returns its path.
fn build_library(library: &Cdylib) -> Result<PathBuf, BuildError> {
    let folder = PathBuf::from(cargo_variable("OUT_DIR"));
    let out = folder.join(format!("lib{}.so", library.name));
    let generated = folder.join("wrapped.rs");
    if library.is_up_to_date(&out, &generated) {
        return Ok(out);
    }
    let mut rustc = Command::new(cargo_variable("RUSTC"));
    rustc.args(["--crate-type=cdylib", "--edition=2024"]);
    rustc.args(["--crate-name", library.name]);
    rustc.arg("--target").arg(cargo_variable("TARGET"));
    rustc.args(["-Cpanic=abort", "-Cstrip=symbols"]);
    // A tool that only checks the sources runs none of the libraries.
    let wrapper = env::var("RUSTC_WORKSPACE_WRAPPER").unwrap_or_default();
    rustc.arg(if wrapper.ends_with("clippy-driver") {
        "-Copt-level=0"
    } else {
        "-Copt-level=2"
    });
    // Panics name the generated file, and must not name the folder of the build.
    rustc.arg(format!("--remap-path-prefix={}=out", folder.display()));
    // Saves a quarter of a megabyte in what is published, and takes twenty seconds.
    if cargo_variable("PROFILE") == "release" {
        rustc.args(["-Clto=fat", "-Ccodegen-units=1"]);
    }
    rustc.arg("-o").arg(&out).arg(&library.source);
    rustc.env("CUDA_PITFALLS_WRAPPED", &generated);
    for option in &library.link {
        rustc.arg(format!("-Clink-arg={option}"));
    }
    // A linker chosen in cargo's configuration for this target is the only one that works for it.
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("-Clinker=");
        option.push(linker);
        rustc.arg(option);
    }
    run_compiler(rustc, &library.source)?;
    Ok(out)
}

fn run_compiler(mut rustc: Command, source: &Path) -> Result<(), BuildError> {
    let source = source.display();
    let output = rustc
        .output()
        .map_err(|error| format!("cannot start the compiler for {source}: {error}\n{rustc:?}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{source} did not build ({}):\n{rustc:?}\n{text}",
        output.status
    )
    .into())
}
