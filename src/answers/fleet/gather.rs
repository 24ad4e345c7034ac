//! Reads documents into a pool, on several cores: the only part of a merge that opens files. A file is read by one
//! thread. The lines of a file with many documents are read by one thread and parsed by all.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::digest::{DocumentReader, Rejection, reader};
use super::document::Bucket;
use super::pool::DocumentPool;
use cuda_pitfalls_core::archive::{self, ArchiveDocument, MOST_WRONG_LINES, Problem, Source};
use cuda_pitfalls_trace as trace;

/// Maximum number of documents of other programs in a source. The rest of such a source is skipped.
const MOST_REFUSED: usize = 100_000;
/// Maximum size of a batch of lines, in bytes: a hundred reports of the essential set.
const BATCH_BYTES: usize = 1 << 20;
/// Number of bytes at the start of a trace that contain the name of its schema.
const HEAD_BYTES: usize = 256;
/// Start of the labels in a report.
const LABELS: &[u8] = b"\"labels\":";

enum ReadJob {
    File(Source),
    /// Documents of one source, and the number of its rejected documents, counted across threads.
    Documents(Vec<ArchiveDocument>, Arc<AtomicUsize>),
}

/// Reads all documents of these files, folders and standard input (`-`) into a pool.
pub fn gather(arguments: &[PathBuf], pool: &DocumentPool) {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // One job waits while each thread reads another.
    let (send, receive) = sync_channel::<ReadJob>(1);
    let (receive, whole) = (Mutex::new(receive), Mutex::new(()));
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| read_jobs(&receive, &whole, pool));
        }
        archive::visit_sources(arguments, |source| {
            let _ = match source {
                Ok(source) if source.is_lines() => {
                    lines(&source, pool, |found, refused| {
                        send.send(ReadJob::Documents(found, refused)).is_ok()
                    });
                    Ok(())
                }
                Ok(source) => send.send(ReadJob::File(source)),
                Err(found) => send.send(ReadJob::Documents(vec![found], Arc::default())),
            };
        });
        drop(send);
    });
}

fn read_jobs(receive: &Mutex<Receiver<ReadJob>>, whole: &Mutex<()>, pool: &DocumentPool) {
    loop {
        let job = receive
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        match job {
            Err(_) => return,
            Ok(ReadJob::Documents(all, refused)) => {
                let others = all
                    .into_iter()
                    .map(|found| usize::from(!add_document(found, whole, pool)));
                refused.fetch_add(others.sum(), Ordering::Relaxed);
            }
            Ok(ReadJob::File(source)) => {
                let (mut wrong, mut refused) = (0, 0);
                archive::documents(&source, |found| {
                    let is_trace = begins_a_trace(&found);
                    let is_ours = add_document(found, whole, pool);
                    wrong = if is_ours { 0 } else { wrong + 1 };
                    refused += usize::from(!is_ours);
                    goes_on(&source, wrong, refused, pool) && !is_trace
                });
            }
        }
    }
}

/// Passes the documents of a source to `take` in batches. The rest of a source is skipped if too many lines in a row
/// are not documents.
fn lines(
    source: &Source,
    pool: &DocumentPool,
    mut take: impl FnMut(Vec<ArchiveDocument>, Arc<AtomicUsize>) -> bool,
) {
    let (mut batch, mut bytes, mut wrong) = (Vec::new(), 0, 0);
    let mut is_taken = true;
    let refused = Arc::<AtomicUsize>::default();
    archive::documents(source, |found| {
        let text = found.text.as_deref().unwrap_or_default();
        // The head alone determines whether it is ours, which is fast; other threads read the rest.
        let is_ours =
            found.text.is_ok() && reader(text).map_or_else(|refused| is_ours(&refused), |_| true);
        wrong = if is_ours { 0 } else { wrong + 1 };
        bytes += text.len();
        let is_trace = begins_a_trace(&found);
        batch.push(found);
        if bytes >= BATCH_BYTES || batch.len() >= MOST_WRONG_LINES {
            bytes = 0;
            is_taken = take(std::mem::take(&mut batch), Arc::clone(&refused));
        }
        is_taken && goes_on(source, wrong, refused.load(Ordering::Relaxed), pool) && !is_trace
    });
    if is_taken && !batch.is_empty() {
        take(batch, refused);
    }
}

/// Returns `true` if reading the source should continue. Otherwise, notes the reached limit in the pool.
fn goes_on(source: &Source, wrong: usize, refused: usize, pool: &DocumentPool) -> bool {
    let why = if wrong >= MOST_WRONG_LINES {
        format!("the rest is not read: {MOST_WRONG_LINES} consecutive lines are not reports")
    } else if refused >= MOST_REFUSED {
        format!("the rest is not read: {MOST_REFUSED} of its documents are not reports")
    } else {
        return true;
    };
    pool.note_source(source.name(), why);
    false
}

/// Returns `true` if a rejected document still belongs to this program, but to another version.
fn is_ours(refused: &Rejection) -> bool {
    refused.bucket == Bucket::Unsupported
}

/// Returns `true` if this is the first line of a trace. The other lines of a trace are not separate documents.
fn begins_a_trace(found: &ArchiveDocument) -> bool {
    let name = format!("\"{}\"", trace::SCHEMA);
    let text = found.text.as_deref().unwrap_or_default();
    let head = text.get(..text.len().min(HEAD_BYTES)).unwrap_or_default();
    head.windows(name.len())
        .any(|window| window == name.as_bytes())
}

/// Adds a document, and returns `true` if it was a valid document of this program.
fn add_document(found: ArchiveDocument, whole: &Mutex<()>, pool: &DocumentPool) -> bool {
    let ArchiveDocument { path, text } = found;
    let text = match text {
        Ok(text) => text,
        Err(problem) => {
            pool.add_document(path, Err(refused(problem)));
            return false;
        }
    };
    let read = reader(&text).map(|DocumentReader { read, is_large }| {
        // Large documents are read one at a time.
        let _one = is_large.then(|| whole.lock().unwrap_or_else(PoisonError::into_inner));
        read(&text, &pool.scenarios)
    });
    let is_valid = match &read {
        Ok(Err(refused)) => refused.bucket != Bucket::Invalid,
        Ok(Ok(_)) => true,
        Err(refused) => is_ours(refused),
    };
    let digest = read.and_then(|digest| digest);
    if let Err(refused) = &digest {
        pool.leave_out(&path, refused.bucket, labels_in(&text));
    }
    pool.add_document(path, digest);
    is_valid
}

/// Returns the labels at the start of a document that cannot be parsed completely: they identify the machine that sent
/// it.
fn labels_in(text: &[u8]) -> BTreeMap<String, String> {
    let start = text
        .windows(LABELS.len())
        .position(|window| window == LABELS);
    let rest = start
        .and_then(|start| text.get(start + LABELS.len()..))
        .unwrap_or_default();
    let mut labels =
        serde_json::Deserializer::from_slice(rest).into_iter::<BTreeMap<String, String>>();
    labels.next().and_then(Result::ok).unwrap_or_default()
}

fn refused(problem: Problem) -> Rejection {
    let (bucket, why) = match problem {
        Problem::Truncated(why) => (Bucket::Truncated, why),
        Problem::Wrong(why) => (Bucket::Invalid, why),
        Problem::Unreadable(why) => (Bucket::Unreadable, why),
    };
    Rejection { bucket, why }
}
