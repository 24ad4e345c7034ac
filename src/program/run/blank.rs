//! The report of a run before anything is asked, and the folder that gets it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::options::{RunOptions, WorkerOptions};
use super::session::Session;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::report::{Report, Run, SCHEMA, SchemaId};

/// The most characters that a label contributes to the name of a folder.
const LONGEST_NAME: usize = 64;

/// The folder that gets the run's folder. What is not kept goes where the run's private files are.
pub(super) fn parent(options: &WorkerOptions, session: &Session, is_kept: bool) -> PathBuf {
    match &options.out {
        Some(out) => out.clone(),
        None if is_kept => PathBuf::from(defaults::REPORTS),
        None => session.folder().join("reports"),
    }
}

/// The name of a run and of its folder: the machine, if a label names it, and the start time.
fn id(labels: &BTreeMap<String, String>, started_ns: u64) -> String {
    let machine = ["node", "host"]
        .iter()
        .find_map(|name| labels.get(*name))
        .map(|name| format!("{}-", as_file(name)));
    let random = (started_ns ^ u64::from(std::process::id())) & 0xffff;
    format!(
        "{}{}-{random:04x}",
        machine.unwrap_or_default(),
        clock::utc_compact()
    )
}

/// A label as part of a file name, with only those characters that have no special meaning to shells and file systems.
fn as_file(label: &str) -> String {
    let name: String = label.chars().take(LONGEST_NAME).collect();
    let name = name.replace(
        |c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c),
        "_",
    );
    if name.starts_with(['.', '-']) {
        format!("_{name}")
    } else {
        name
    }
}

/// A report without scenarios.
pub(super) fn blank_report(options: &RunOptions, session: &Session) -> Report {
    let started_ns = clock::now_ns();
    let seed = options.asked.seed.unwrap_or(started_ns);
    Report {
        schema: SchemaId::current(SCHEMA),
        must_understand: Vec::new(),
        provenance: session.provenance,
        run: Run {
            id: id(&options.labels, started_ns),
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: crate::COMMIT.map(str::to_string),
            started_at: clock::utc_now(),
            started_ns,
            selectors: options.all_selectors(),
            labels: options.labels.clone(),
            shard: options.shard.map(|shard| shard.to_string()),
            require: options.require.clone(),
            allow_skip: options.allow_skip.clone(),
            on: session.on.clone(),
            // Every JSON reader is exact up to 2^53.
            seed: seed & ((1 << 53) - 1),
            nonce: options.nonce.clone(),
            allowed: options
                .allow
                .iter()
                .map(|hazard| hazard.name().to_string())
                .collect(),
            warnings: session.notes.clone(),
            ..Run::default()
        },
        machine: session.machine.clone(),
        scenarios: Vec::new(),
        complete: false,
    }
}
