//! `cargo xtask bless` writes the documents anew; `cargo xtask check` lists those that are out of date. `cargo xtask
//! evidence reports/FOLDER…` adds what was measured to the list of evidence.

use std::process::ExitCode;

use xtask::documents::{all, bless, root, stale};
use xtask::evidence;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let folders: Vec<String> = std::env::args().skip(2).collect();
    let found = match task.as_str() {
        "evidence" if !folders.is_empty() => evidence::list(root(), &folders).map(|added| (added, "evidence:")),
        "bless" => all().and_then(|made| bless(&made)).map(|written| (written, "written:")),
        "check" => {
            all().and_then(|made| stale(&made)).map(|stale| (stale, "out of date; `cargo xtask bless` writes it anew:"))
        }
        _ => {
            eprintln!("usage: cargo xtask <bless|check|evidence reports/FOLDER...>");
            return ExitCode::from(2);
        }
    };
    match found {
        Ok((paths, what)) => {
            paths.iter().for_each(|path| println!("{what} {path}"));
            ExitCode::from(u8::from(task == "check" && !paths.is_empty()))
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
