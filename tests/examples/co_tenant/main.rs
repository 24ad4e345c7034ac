//! A process of another user on the GPUs, like a workstation's desktop, another job or another run of
//! `cuda-pitfalls run`. Tests and measurements start it at the same time as a run.
//!
//! ```text
//! co_tenant MODE [SECONDS] [LIBCUDA]
//!   hold-init      cuInit, then stay
//!   hold-context   a context on every visible GPU, then stay
//!   churn-init     a process that only calls cuInit and exits, every 0.2 s
//!   churn-memory   a context on every visible GPU; 4 to 524 MiB come and go every 0.3 s
//!   churn-context  a process that creates a context on every visible GPU and exits, every 0.3 s
//! ```
//!
//! It prints `ready` once it has started, and stays for SECONDS (default: 3600) or until it is killed.
//! `CUDA_VISIBLE_DEVICES` selects the GPUs.

mod play;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mode = arguments.first().map_or("", String::as_str);
    let seconds = arguments
        .get(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(3600.0);
    let library = arguments.get(2).map_or("libcuda.so.1", String::as_str);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let again = |mode: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap_or_default());
        command.args([mode, "0", library]);
        command
    };
    match play::play(mode, end, library, &again) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("co_tenant: {why}");
            ExitCode::FAILURE
        }
    }
}
