//! `cargo xtask bless` writes the generated documents, and then the outputs that pages show. `cargo xtask check` lists
//! documents that are out of date. `cargo xtask evidence reports/FOLDER…` adds measurements to the list of evidence.
//! `cargo xtask site` writes the site.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use xtask::documents::{all, bless, root, stale};
use xtask::{TaskError, evidence, site};

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let folders: Vec<String> = std::env::args().skip(2).collect();
    let found = match task.as_str() {
        "evidence" if !folders.is_empty() => evidence::list(root(), &folders).map(|added| (added, "evidence:")),
        "site" => made_site(&folders).map(|written| (written, "written:")),
        "bless" => blessed().map(|written| (written, "written:")),
        "check" => {
            all().and_then(|made| stale(&made)).map(|stale| (stale, "out of date; `cargo xtask bless` writes it anew:"))
        }
        _ => {
            eprintln!(
                "usage: cargo xtask <bless|check|evidence reports/FOLDER...|site [--out DIR] [--repository URL]>"
            );
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

/// Writes the site, and returns where. Files of the repository are linked below the address of `--repository`.
fn made_site(options: &[String]) -> Result<Vec<String>, TaskError> {
    let (mut out, mut repository) = (root().join("target/site"), None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = options.next().ok_or_else(|| format!("{option} needs a value"))?;
        match option.as_str() {
            "--out" => out = PathBuf::from(value),
            "--repository" => repository = Some(value.clone()),
            other => return Err(format!("unknown option `{other}`").into()),
        }
    }
    let made = site::make(&site::disk::sources(root(), repository)?);
    let pages = site::disk::write(&made, root(), &out)?;
    Ok(vec![format!("{} ({pages} pages); open index.html", out.canonicalize()?.display())])
}

/// Writes the documents that are out of date, and returns their paths.
fn blessed() -> Result<Vec<String>, TaskError> {
    let written = bless(&all()?)?;
    // The program itself makes the outputs; Cargo builds it for its tests.
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--locked", "--test", "suite", "--", "readme::excerpts"]);
    let status = test.current_dir(root()).env("CUDA_PITFALLS_BLESS", "1").status()?;
    if status.success() { Ok(written) } else { Err("the outputs that pages show could not be written".into()) }
}
