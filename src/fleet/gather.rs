//! Reads documents into a pool, on several cores: the only part of a merge that opens files.
//!
//! A file is read by one thread. The lines of a file with many documents are read by one and understood by all.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, sync_channel};

use super::Bucket;
use super::answer::{Document, Refused, compacted, digest, document, surveyed};
use super::pool::Pool;
use crate::archive::{self, Found, MOST_WRONG_LINES, Problem, Source};
use crate::trace;

/// Lines are handed over together up to this size: a hundred reports of the essential set.
const BATCH_BYTES: usize = 1 << 20;
/// A trace names its schema so near to its beginning.
const HEAD_BYTES: usize = 256;

enum Job {
    File(Source),
    Documents(Vec<Found>),
}

/// Reads all documents of these files, folders and standard input (`-`) into a pool.
pub fn gather(arguments: &[PathBuf], pool: &Pool) {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // No more is under way than each thread is reading, and one more.
    let (send, receive) = sync_channel::<Job>(1);
    let (receive, whole) = (Mutex::new(receive), Mutex::new(()));
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| work(&receive, &whole, pool));
        }
        archive::sources(arguments, |source| {
            let _ = match source {
                Ok(source) if source.is_lines() => {
                    lines(&source, |found| send.send(Job::Documents(found)).is_ok());
                    Ok(())
                }
                Ok(source) => send.send(Job::File(source)),
                Err(found) => send.send(Job::Documents(vec![found])),
            };
        });
        drop(send);
    });
}

fn work(receive: &Mutex<Receiver<Job>>, whole: &Mutex<()>, pool: &Pool) {
    loop {
        let job = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Err(_) => return,
            Ok(Job::Documents(all)) => all.into_iter().for_each(|found| _ = add(found, whole, pool)),
            Ok(Job::File(source)) => {
                let mut wrong = 0;
                archive::documents(&source, |found| {
                    let is_trace = begins_a_trace(&found);
                    wrong = if add(found, whole, pool) { 0 } else { wrong + 1 };
                    wrong < MOST_WRONG_LINES && !is_trace
                });
            }
        }
    }
}

/// Hands over the documents of a source in batches. A source is left if it goes on with what is no document at
/// all.
fn lines(source: &Source, mut take: impl FnMut(Vec<Found>) -> bool) {
    let (mut batch, mut bytes, mut wrong) = (Vec::new(), 0, 0);
    let mut goes_on = true;
    archive::documents(source, |found| {
        let text = found.text.as_deref().unwrap_or_default().trim_ascii();
        let is_object = text.starts_with(b"{") && text.ends_with(b"}");
        wrong = if is_object { 0 } else { wrong + 1 };
        bytes += text.len();
        let is_trace = begins_a_trace(&found);
        batch.push(found);
        if bytes >= BATCH_BYTES || batch.len() >= MOST_WRONG_LINES {
            bytes = 0;
            goes_on = take(std::mem::take(&mut batch));
        }
        goes_on && wrong < MOST_WRONG_LINES && !is_trace
    });
    if goes_on && !batch.is_empty() {
        take(batch);
    }
}

/// Whether this is the first line of a trace: the others are no documents of their own.
fn begins_a_trace(found: &Found) -> bool {
    let name = format!("\"{}\"", trace::SCHEMA);
    let text = found.text.as_deref().unwrap_or_default();
    let head = text.get(..text.len().min(HEAD_BYTES)).unwrap_or_default();
    head.windows(name.len()).any(|window| window == name.as_bytes())
}

/// Adds a document, and says whether it was one of this program at all.
fn add(found: Found, whole: &Mutex<()>, pool: &Pool) -> bool {
    let Found { path, text } = found;
    let text = match text {
        Ok(text) => text,
        Err(problem) => {
            pool.add(path, Err(refused(problem)));
            return false;
        }
    };
    let kind = match document(&text) {
        Ok(kind) => kind,
        Err(refused) => {
            let is_ours = refused.bucket == Bucket::Unsupported;
            pool.add(path, Err(refused));
            return is_ours;
        }
    };
    match kind {
        Document::Compact => pool.add(path, digest(&text)),
        Document::Survey => {
            let _one = whole.lock().unwrap_or_else(PoisonError::into_inner);
            pool.add(path, surveyed(&text));
        }
        // One at a time: it takes many times its size.
        Document::Whole => {
            let compact = {
                let _one = whole.lock().unwrap_or_else(PoisonError::into_inner);
                compacted(&text)
            };
            drop(text);
            match compact {
                Ok(compact) => pool.add(path, digest(compact.as_bytes())),
                Err(refused) => pool.add(path, Err(refused)),
            }
        }
    }
    true
}

fn refused(problem: Problem) -> Refused {
    let (bucket, why) = match problem {
        Problem::Truncated(why) => (Bucket::Truncated, why),
        Problem::Wrong(why) => (Bucket::Invalid, why),
        Problem::Unreadable(why) => (Bucket::Unreadable, why),
    };
    Refused { bucket, why }
}
