//! An MPS daemon with separate directories, for this process and the processes that it starts. It ends with the
//! attempt: the harness adopts it and kills it, if no step has ended it before.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::values::{Values, text};
use crate::mapped::is_any_simulated;
use crate::supervisor::is_alive;
use crate::worker::state::Worker;
use cuda_pitfalls_calls::status::SIM_NOT_MODELLED;
use cuda_pitfalls_calls::{Effect, find};
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::experiment::Step;
use cuda_pitfalls_core::scenario::environment::MASK;

/// The program, as the driver installs it.
const PROGRAM: &str = "nvidia-cuda-mps-control";
/// Directories that may have it, in addition to those of PATH.
const PLACES: [&str; 3] = ["/usr/bin", "/usr/local/nvidia/bin", "/opt/nvidia/bin"];
/// The directory in which clients look for the daemon, and the directory of its logs.
const PIPES: &str = "CUDA_MPS_PIPE_DIRECTORY";
const LOGS: &str = "CUDA_MPS_LOG_DIRECTORY";
/// The mask of a daemon that was started without a mask.
const NO_MASK: &str = "none";
/// The file with the daemon's PID, in its folder of pipes.
const PID: &str = "nvidia-cuda-mps-control.pid";
/// The longest path of a socket, in bytes.
const LONGEST: usize = 107;
/// Maximum time that the daemon may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the missing requirement for these calls; `None` if none is missing. The simulated machine has no daemon.
pub(in crate::worker) fn missing_for_mps(calls: &[String]) -> Option<String> {
    let is_mps = calls
        .iter()
        .filter_map(|call| find(call))
        .any(|call| call.effects.contains(&Effect::StartsMps));
    (is_mps && !is_any_simulated() && program().is_none())
        .then(|| format!("{PROGRAM}, which comes with the driver"))
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(PLACES.iter().map(PathBuf::from));
    folders
        .map(|folder| folder.join(PROGRAM))
        .find(|program| program.is_file())
}

/// Starts a daemon. Its folders are in this process's environment from then on.
pub(super) fn start(_: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    if is_any_simulated() {
        return Err(SIM_NOT_MODELLED);
    }
    let program = program().ok_or(i64::from(libc::ENOENT))?;
    let folder = std::env::temp_dir().join(format!("mps-{}", std::process::id()));
    let (pipes, logs) = (folder.join("pipe"), folder.join("log"));
    // A socket's path has at most this much room, which the daemon does not report.
    if pipes.join("control_privileged").as_os_str().len() > LONGEST {
        return Err(i64::from(libc::ENAMETOOLONG));
    }
    [&folder, &pipes, &logs]
        .iter()
        .try_for_each(fs::create_dir_all)
        .map_err(code)?;
    let mut command = Command::new(program);
    command
        .arg("-d")
        .env(PIPES, &pipes)
        .env(LOGS, &logs)
        .stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    match text(step, "mask") {
        mask if mask == NO_MASK => command.env_remove(MASK),
        mask => command.env(MASK, mask),
    };
    let status = command.status().map_err(code)?;
    if !status.success()
        || wait_until(|| pid(&pipes).is_some() && pipes.join("control").exists()).is_err()
    {
        return Err(i64::from(libc::EIO));
    }
    // SAFETY: the worker's other threads wait during a step.
    unsafe {
        std::env::set_var(PIPES, &pipes);
        std::env::set_var(LOGS, &logs);
    }
    Ok(Values::new())
}

/// Requests the daemon to end, and waits for it.
pub(super) fn quit_daemon(_: &Arc<Worker>, _: &Channel, _: &Step) -> Result<Values, i64> {
    let pipes = pipe_folder()?;
    let program = program().ok_or(i64::from(libc::ENOENT))?;
    let daemon = pid(&pipes).ok_or(i64::from(libc::ESRCH))?;
    let mut command = Command::new(program);
    command
        .env(PIPES, &pipes)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(code)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(b"quit\n").map_err(code)?;
    }
    child.wait().map_err(code)?;
    wait_until(|| !is_alive(daemon.unsigned_abs()))
}

/// Kills the daemon and its servers, so that the directory stays unchanged.
pub(super) fn kill_daemon(_: &Arc<Worker>, _: &Channel, _: &Step) -> Result<Values, i64> {
    let daemon = pid(&pipe_folder()?).ok_or(i64::from(libc::ESRCH))?;
    let all: Vec<i32> = server_pids(daemon).into_iter().chain([daemon]).collect();
    for pid in &all {
        // SAFETY: a signal to the daemon that a step has started, or to its child.
        unsafe { libc::kill(*pid, libc::SIGKILL) };
    }
    wait_until(|| all.iter().all(|pid| !is_alive(pid.unsigned_abs())))
}

fn pipe_folder() -> Result<PathBuf, i64> {
    if is_any_simulated() {
        return Err(SIM_NOT_MODELLED);
    }
    std::env::var_os(PIPES)
        .map(PathBuf::from)
        .ok_or(i64::from(libc::ESRCH))
}

fn code(error: std::io::Error) -> i64 {
    i64::from(error.raw_os_error().unwrap_or(libc::EIO))
}

fn pid(pipes: &Path) -> Option<i32> {
    fs::read_to_string(pipes.join(PID))
        .ok()?
        .trim()
        .parse()
        .ok()
}

fn server_pids(daemon: i32) -> Vec<i32> {
    let children =
        fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap_or_default();
    children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

fn wait_until(is_so: impl Fn() -> bool) -> Result<Values, i64> {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > PATIENCE {
            return Err(i64::from(libc::ETIMEDOUT));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(Values::new())
}
