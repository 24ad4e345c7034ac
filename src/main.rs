//! The program: opens the door and says how it went.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cuda_pitfalls::cli::main().code() as u8)
}
