//! The interpreter that runs the rows, and what is installed for it: asked once, in a process of its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::super::Failure;
use super::PythonOptions;
use crate::survey::document::Interpreter;
use crate::text::escape::terminal;

const SCRIPT: &str = include_str!("packages.py");
/// Names the interpreter where the command line does not.
const VARIABLE: &str = "CUDA_PITFALLS_PYTHON";
/// What is on PATH.
const DEFAULT: &str = "python3";
/// Looking through all packages on a slow disk takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// An interpreter that answers.
pub(super) struct Found {
    /// Its file, or its name on PATH.
    pub(super) program: PathBuf,
    /// What it is.
    pub(super) about: Interpreter,
}

/// Finds the interpreter, and asks it for the versions of these packages. None if none was named and none is on PATH.
///
/// # Errors
/// The interpreter that was named cannot be started, or does not say what is installed.
pub(super) fn find<'n>(
    options: &PythonOptions,
    packages: impl Iterator<Item = &'n str>,
) -> Result<Option<Found>, Failure> {
    let of_environment = || std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let named = options.interpreter.clone().map(|path| (path, "--python"));
    let named = named.or_else(|| of_environment().map(|path| (path, VARIABLE)));
    let (program, by) = named.clone().unwrap_or_else(|| (PathBuf::from(DEFAULT), DEFAULT));
    let refused = |why: String| Failure::Usage(format!("{by} {}: {why}", terminal(&program.to_string_lossy())));
    let mut command = Command::new(&program);
    command.arg("-c").arg(SCRIPT).args(packages);
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(format!("cannot be started: {error}"))),
    };
    let began = Instant::now();
    // What it says has some hundred bytes, and fits into the pipe.
    while child.try_wait().map_err(|error| refused(error.to_string()))?.is_none() {
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(refused(format!("did not say within {} s what is installed", PATIENCE.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().map_err(|error| refused(error.to_string()))?;
    let about = serde_json::from_slice(&output.stdout)
        .map_err(|_| refused("this is no Python that says what is installed (3.8 or newer)".to_string()))?;
    // Rows run in folders of their own; a name without a folder is looked up on PATH.
    let has_folder = program.components().count() > 1;
    let program = if has_folder { std::path::absolute(&program).unwrap_or(program) } else { program };
    Ok(Some(Found { program, about }))
}
