//! `cargo xtask bless` writes the generated documents, and then the outputs that pages show. `cargo xtask check` lists
//! documents that are out of date. `cargo xtask evidence reports/FOLDER…` adds measurements to the list of evidence.
//! `cargo xtask evidence --wanted` lists the attempts that the evidence lacks, the most valuable per second first.
//! `cargo xtask fresh FILE` lists what was measured or read in a release that is no longer the newest: FILE has lines
//! such as `torch==2.15.0`, from an index of packages.
//! `cargo xtask release VERSION --repository URL` writes both into every file that has them, and opens the section of the
//! changelog.

use std::process::{Command, ExitCode};

use cuda_pitfalls::clock;
use xtask::documents::{bless_documents, make_documents, root, stale_documents, wanted_attempts};
use xtask::wanted::WantedOptions;
use xtask::{TaskError, evidence, fresh, release};

const USAGE: &str = "\
usage: cargo xtask bless|check|fresh FILE
       cargo xtask evidence reports/FOLDER...
       cargo xtask evidence --wanted [--model H200] [--gpus 2] [--no-frameworks]
               [--since 2026-11-26] [--selectors]
       cargo xtask release VERSION --repository URL";

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let folders: Vec<String> = std::env::args().skip(2).collect();
    let found = match task.as_str() {
        "evidence" if folders.first().is_some_and(|first| first == "--wanted") => {
            return print_wanted(&folders[1..]);
        }
        "evidence" if !folders.is_empty() => {
            evidence::list(root(), &folders).map(|added| (added, "evidence:"))
        }
        "fresh" if folders.len() == 1 => {
            fresh::outdated(&folders[0]).map(|old| (old, "a newer release exists:"))
        }
        "release" => release::write_release(root(), &folders, &clock::utc_now()[..10])
            .map(|written| (written, "written:")),
        "bless" => bless_all().map(|written| (written, "written:")),
        "check" => make_documents()
            .and_then(|made| stale_documents(&made.documents))
            .map(|stale| (stale, "out of date; `cargo xtask bless` writes it anew:")),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match found {
        Ok((paths, what)) => {
            paths.iter().for_each(|path| println!("{what} {path}"));
            ExitCode::from(u8::from(
                matches!(task.as_str(), "check" | "fresh") && !paths.is_empty(),
            ))
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print_wanted(arguments: &[String]) -> ExitCode {
    let Some(options) = WantedOptions::parse(arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match wanted_attempts(&options) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn bless_all() -> Result<Vec<String>, TaskError> {
    let written = bless_documents(&make_documents()?.documents)?;
    // The program itself makes the outputs; Cargo builds it for its tests.
    let mut test = Command::new(env!("CARGO"));
    test.args([
        "test",
        "--locked",
        "--test",
        "suite",
        "--",
        "readme::excerpts",
    ]);
    let status = test
        .current_dir(root())
        .env("CUDA_PITFALLS_BLESS", "1")
        .status()?;
    if status.success() {
        Ok(written)
    } else {
        Err("the outputs that pages show could not be written".into())
    }
}
