//! The tools that the tests need of the machine, searched for once, before `main`. Nothing else on the machine can
//! change the results: not a PATH, a HOME, a locale, a mask, nor a variable of Python, Slurm or a version manager.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Set in a process that is closed, and so in what it starts.
const CLOSED: &str = "CUDA_PITFALLS_TESTS_CLOSED";
/// The system's own folders.
pub(crate) const SYSTEM: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// Programs that may be elsewhere: a compiler, readers of pages and metrics, and programs in the cache of CI.
const TOOLS: [&str; 7] = [
    "cc",
    "git",
    "chromium",
    "google-chrome",
    "helm",
    "promtool",
    "chromium-browser",
];
/// Arguments that make the interpreter print its own path. The one on PATH may be a script that searches for it, and
/// puts a directory with other programs in front, or a program that does not start.
const ASK: [&str; 2] = ["-c", "import sys, ctypes; print(sys.executable)"];
/// Variables of the caller that are kept: those that control the tests, and those of Cargo and rustup.
const KEPT: &str = "CI EXPORT_ALL EXPORT_BLESS SARIF_SCHEMA TMPDIR USER CUDA_PITFALLS_BLESS CUDA_PITFALLS_KEEP_REPORTS LLVM_PROFILE_FILE";
const KEPT_OF: [&str; 3] = ["CARGO", "RUST", "NEXTEST"];

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = close;

extern "C" fn close() {
    if env::var_os(CLOSED).is_some() {
        return;
    }
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).join("closed");
    fs::create_dir_all(tools.join("home")).expect("a folder of our own");
    let found = TOOLS.map(|name| (name, on_path(name).next()));
    let cargo = env::var_os("CARGO").map(PathBuf::from);
    for (name, program) in found
        .into_iter()
        .chain([("python3", interpreter()), ("cargo", cargo)])
    {
        let Some(program) = program else {
            let _ = fs::remove_file(tools.join(name));
            if name == "python3" {
                eprintln!("NOT FOUND: a python3 that starts; tests that need one fail");
            }
            continue;
        };
        // No link: an interpreter finds its environment by its own path. Another program may start it meanwhile.
        let made = tools.join(format!("{name}-{}", std::process::id()));
        super::script(
            &made,
            &format!("#!/bin/sh\nexec '{}' \"$@\"\n", program.display()),
        );
        fs::rename(made, tools.join(name)).expect("a file of our own");
    }
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let set = [
        (
            "PATH",
            OsString::from(format!("{}:{SYSTEM}", tools.display())),
        ),
        ("HOME", tools.join("home").into()),
        (
            "CARGO_HOME",
            env::var_os("CARGO_HOME").unwrap_or_else(|| home.join(".cargo").into()),
        ),
        ("LANG", "C.UTF-8".into()),
        // A repository of another user is read only if this file allows it.
        ("GIT_CONFIG_GLOBAL", home.join(".gitconfig").into()),
        (CLOSED, "1".into()),
    ];
    let is_kept = |name: &str| {
        KEPT.split(' ').any(|kept| kept == name)
            || KEPT_OF.iter().any(|start| name.starts_with(start))
    };
    for (name, _) in env::vars_os().filter(|(name, _)| !name.to_str().is_some_and(is_kept)) {
        // A machine with GPUs may have its driver in a directory that only LD_LIBRARY_PATH lists.
        if name != "LD_LIBRARY_PATH" || super::gpus() == 0 {
            // SAFETY: no other thread exists before `main`.
            unsafe { env::remove_var(name) };
        }
    }
    for (name, value) in set {
        // SAFETY: as above.
        unsafe { env::set_var(name, value) };
    }
}

/// Returns the programs of a name, in the order of PATH.
fn on_path(name: &str) -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path)
        .chain(env::split_paths(SYSTEM))
        .collect();
    folders
        .into_iter()
        .map(move |folder| folder.join(name))
        .filter(|program| program.is_file())
}

/// Returns the first interpreter that starts.
fn interpreter() -> Option<PathBuf> {
    let asked = |program: PathBuf| {
        let mut command = Command::new(program);
        let output = command
            .args(ASK)
            .env_remove("PYTHONPATH")
            .env_remove("PYTHONHOME")
            .output()
            .ok()?;
        let said = String::from_utf8(output.stdout)
            .ok()
            .filter(|_| output.status.success())?;
        Some(PathBuf::from(said.trim())).filter(|path| path.is_absolute())
    };
    on_path("python3").find_map(asked)
}
