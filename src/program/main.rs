//! Parses the command line and exits with its code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cuda_pitfalls::cli::main().code() as u8)
}
