//! The list of published measurements that is embedded in the program, made from the list of evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use cuda_pitfalls::input::open_document;
use cuda_pitfalls::published::{listed_hash, traced_run};
use serde::Deserialize;

use crate::TaskError;
use crate::documents::root;
use crate::listed;

/// The path of the list.
pub const LIST: &str = "scenarios/published.txt";

/// The parts of a report, a survey, or a trace's first line that identify the run.
#[derive(Deserialize)]
struct RunHead {
    run: Option<RunId>,
    survey: Option<RunId>,
    started_at: Option<String>,
    t_ns: Option<u64>,
}

#[derive(Deserialize)]
struct RunId {
    id: String,
}

impl RunHead {
    /// Returns the run of a document; `None` if the text is not such a document.
    fn find_run(text: &[u8]) -> Option<String> {
        let mut values = serde_json::Deserializer::from_slice(text).into_iter::<RunHead>();
        let head = values.next()?.ok()?;
        match (head.run.or(head.survey), head.started_at, head.t_ns) {
            (Some(run), _, _) => Some(run.id),
            (None, Some(started_at), Some(t_ns)) => Some(traced_run(&started_at, t_ns)),
            _ => None,
        }
    }
}

/// Returns the list: for each run, a line with the beginning of the SHA-256 of each of its documents.
///
/// # Errors
/// Returns an error if a file of the evidence cannot be read.
pub fn published_list() -> Result<String, TaskError> {
    let mut runs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for listed in listed::listed() {
        let mut text = Vec::new();
        // Documents that are stored with gzip are listed by the hash of the file, and read by their content.
        open_document(&root().join("reports").join(&listed.name))?.read_to_end(&mut text)?;
        let Some(run) = RunHead::find_run(&text) else {
            continue;
        };
        let hash = listed_hash(hmac_sha256::Hash::hash(&text));
        runs.entry(run).or_default().insert(hash);
    }
    let mut list = String::new();
    for (run, hashes) in runs {
        list += &run;
        for hash in hashes {
            list += &format!(" {hash}");
        }
        list.push('\n');
    }
    Ok(list)
}
