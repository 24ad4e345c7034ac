//! What many documents answer, each answer kept once: most machines show the same.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::{Mutex, PoisonError, RwLock};

use super::answer::{Digest, MachineAnswer, Refused, Shown};
use super::{Bucket, CaseChange, Input, MOST_EXAMPLES, NotMerged};
use cuda_pitfalls_core::verdict::{Kind, Provenance};

/// The most bytes of different answers. A thousand machines that all differ take a tenth of it.
const MOST_BYTES: usize = 128 << 20;
/// An answer takes so many times its text.
const FACTS_BYTES: usize = 6;
/// A figure that could not be read.
pub(super) const UNREAD: i64 = i64::MIN;
/// No text in UTF-8 has this byte, so it separates two of them.
const BETWEEN: u8 = 0xff;

/// What is taken of the documents.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Who must have answered.
    pub provenance: Provenance,
    /// The start of a run that is not stale, RFC 3339, UTC.
    pub not_before: Option<String>,
    /// A run that began later than this is dated in the future, RFC 3339, UTC.
    pub not_after: Option<String>,
}

/// Everything that was read. Several threads add to it.
pub struct Pool {
    rule: Rule,
    answers: RwLock<Answers>,
    kept: Mutex<Vec<Kept>>,
    input: Mutex<Input>,
}

/// What is kept of one document.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) path: String,
    /// Whether its date cannot be true: it counts only where the machine has no other report.
    pub(super) is_of_the_future: bool,
    /// What it says, without its answers.
    pub(super) digest: Digest,
    /// Indices of [`Answers::all`], in the order of their names.
    pub(super) answers: Box<[u32]>,
    /// The figures of all answers, one behind the other.
    pub(super) figures: Box<[i64]>,
}

/// One answer, whoever gave it.
#[derive(Debug)]
pub(super) struct Answer {
    /// Index of [`Answers::names`].
    pub(super) name: u32,
    pub(super) asked: String,
    pub(super) libcudart: String,
    pub(super) is_unexpected: bool,
    /// The reason where there is none.
    pub(super) shown: Result<Same, String>,
    /// What the figures of a document with this answer are about: `trap/gpu0`.
    pub(super) figures: Vec<String>,
}

/// What must be equal for two machines to have shown the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Same {
    pub(super) kind: Kind,
    /// What all cases showed.
    pub(super) facts: Vec<CaseChange>,
}

/// The name of a question, and what is said of it.
#[derive(Debug, Default)]
pub(super) struct Name {
    pub(super) name: String,
    pub(super) scenario: String,
    pub(super) words: String,
}

/// Different answers and names, each once.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) all: Vec<Answer>,
    pub(super) names: Vec<Name>,
    known: HashMap<Box<[u8]>, u32>,
    by_name: HashMap<String, u32>,
    bytes: usize,
}

impl Pool {
    /// A pool without documents.
    pub fn new(rule: Rule) -> Pool {
        Pool { rule, answers: RwLock::default(), kept: Mutex::default(), input: Mutex::default() }
    }

    /// Adds what a document answers, or why it answers nothing.
    pub(super) fn add(&self, path: String, digest: Result<Digest, Refused>) {
        let kept = digest.and_then(|digest| self.keep(path.clone(), digest));
        match kept {
            Ok(kept) => {
                let bucket = if kept.digest.is_partial { Bucket::Partial } else { Bucket::Merged };
                lock(&self.input).count(bucket);
                lock(&self.kept).push(kept);
            }
            Err(Refused { bucket, why }) => {
                let mut input = lock(&self.input);
                input.count(bucket);
                input.not_merged.push(NotMerged { path, bucket, why });
                // Which ones are named must not depend on the order in which threads come.
                if input.not_merged.len() > 8 * MOST_EXAMPLES {
                    input.shorten();
                }
            }
        }
    }

    /// Names a source of which the rest is not read, and why.
    pub(super) fn note(&self, path: String, why: String) {
        lock(&self.input).not_merged.push(NotMerged { path, bucket: Bucket::Invalid, why });
    }

    fn keep(&self, path: String, mut digest: Digest) -> Result<Kept, Refused> {
        if digest.provenance != self.rule.provenance {
            return Err(match digest.provenance {
                Provenance::Simulated => {
                    refused(Bucket::Simulated, "the simulated machine answered; --simulated merges it")
                }
                Provenance::Measured => refused(Bucket::Measured, "a real driver answered, and --simulated was given"),
            });
        }
        if let Some(earliest) = self.rule.not_before.as_ref().filter(|earliest| digest.started_at < **earliest) {
            return Err(refused(Bucket::Stale, &format!("its run began at {}, before {earliest}", digest.started_at)));
        }
        let is_of_the_future = self.rule.not_after.as_ref().is_some_and(|latest| digest.started_at > *latest);
        if is_of_the_future && self.rule.not_before.is_some() {
            let why = format!("its run began at {}, which is in the future: that is not current", digest.started_at);
            return Err(refused(Bucket::Future, &why));
        }
        let answers = std::mem::take(&mut digest.answers);
        let mut found: Vec<(u32, u32, Vec<i64>)> = Vec::with_capacity(answers.len());
        let mut code = Vec::new();
        for answer in &answers {
            encode(answer, &mut code);
            let figures = figures(answer);
            let known = read(&self.answers).find(&code);
            let (name, at) = match known {
                Some(known) => known,
                None => write(&self.answers).insert(&code, answer).ok_or_else(|| {
                    refused(Bucket::Invalid, "it answers otherwise than thousands of others, which cannot all be kept")
                })?,
            };
            found.push((name, at, figures));
        }
        found.sort_by_key(|(name, at, _)| (*name, *at));
        Ok(Kept {
            path,
            is_of_the_future,
            digest,
            answers: found.iter().map(|(_, at, _)| *at).collect(),
            figures: found.into_iter().flat_map(|(_, _, figures)| figures).collect(),
        })
    }

    /// What was read, in an order that does not depend on who read it.
    pub(super) fn into_parts(self) -> (Rule, Answers, Vec<Kept>, Input) {
        let inner = |kept: Mutex<Vec<Kept>>| kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut kept = inner(self.kept);
        kept.sort_by(|a, b| a.path.cmp(&b.path));
        let mut input = self.input.into_inner().unwrap_or_else(PoisonError::into_inner);
        input.shorten();
        (self.rule, self.answers.into_inner().unwrap_or_else(PoisonError::into_inner), kept, input)
    }
}

impl Input {
    pub(super) fn count(&mut self, bucket: Bucket) {
        self.documents += 1;
        *self.buckets.entry(bucket).or_default() += 1;
    }

    /// Moves a document from one bucket to another.
    pub(super) fn recount(&mut self, from: Bucket, not_merged: NotMerged) {
        if let Entry::Occupied(mut entry) = self.buckets.entry(from) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
        *self.buckets.entry(not_merged.bucket).or_default() += 1;
        self.not_merged.push(not_merged);
    }

    /// Keeps the first of each bucket by path.
    pub(super) fn shorten(&mut self) {
        self.not_merged.sort_by(|a, b| (a.bucket, &a.path).cmp(&(b.bucket, &b.path)));
        let mut counts: BTreeMap<Bucket, usize> = BTreeMap::new();
        self.not_merged.retain(|one| {
            let count = counts.entry(one.bucket).or_default();
            *count += 1;
            *count <= MOST_EXAMPLES
        });
    }
}

impl Answers {
    fn find(&self, code: &[u8]) -> Option<(u32, u32)> {
        let at = *self.known.get(code)?;
        Some((self.all.get(at as usize)?.name, at))
    }

    /// The name and the index of an answer, which is kept if it is a new one; none if there is no room for it.
    fn insert(&mut self, code: &[u8], answer: &MachineAnswer) -> Option<(u32, u32)> {
        if let Some(known) = self.find(code) {
            return Some(known);
        }
        if self.bytes > MOST_BYTES {
            return None;
        }
        let name = match self.by_name.get(&answer.name) {
            Some(name) => *name,
            None => {
                let at = u32::try_from(self.names.len()).ok()?;
                self.names.push(Name {
                    name: answer.name.clone(),
                    scenario: answer.scenario.clone(),
                    words: answer.words.clone(),
                });
                self.by_name.insert(answer.name.clone(), at);
                at
            }
        };
        let (shown, figures) = match &answer.shown {
            Shown::Nothing(reason) => (Err(reason.clone()), Vec::new()),
            Shown::Answer { kind, by_chance, cases } => {
                let mut facts = Vec::new();
                let mut about = Vec::new();
                for case in cases {
                    for (outcome, changes) in (1..).zip(&case.outcomes).filter(|_| !by_chance) {
                        facts.extend(changes.iter().map(|change| CaseChange {
                            case: case.name.clone(),
                            outcome,
                            change: change.clone(),
                        }));
                    }
                    let slash = if case.name.is_empty() { "" } else { "/" };
                    about.extend(case.figures.iter().map(|(gpu, _)| format!("{}{slash}{}", case.name, gpu)));
                }
                (Ok(Same { kind: *kind, facts }), about)
            }
        };
        let at = u32::try_from(self.all.len()).ok()?;
        // It is kept twice: as text, to be found again, and as facts, which take a few times as much.
        self.bytes += FACTS_BYTES * code.len() + size_of::<Answer>();
        self.known.insert(code.into(), at);
        let (asked, libcudart) = (answer.asked.clone(), answer.libcudart.clone());
        self.all.push(Answer { name, asked, libcudart, is_unexpected: answer.is_unexpected, shown, figures });
        Some((name, at))
    }
}

/// An answer as bytes, by which it is found again: all of it but its figures.
fn encode(answer: &MachineAnswer, code: &mut Vec<u8>) {
    code.clear();
    // With separators no two different answers have the same bytes.
    let mut add = |text: &str, level: usize| {
        code.extend_from_slice(text.as_bytes());
        code.extend(std::iter::repeat_n(BETWEEN, level));
    };
    for part in [&answer.name, &answer.asked, &answer.libcudart] {
        add(part, 1);
    }
    add(if answer.is_unexpected { "unexpected" } else { "" }, 1);
    match &answer.shown {
        Shown::Nothing(reason) => add(reason, 1),
        Shown::Answer { kind, by_chance, cases } => {
            add(kind.name(), 2);
            for case in cases {
                add(&case.name, 3);
                if !by_chance {
                    add(&serde_json::to_string(&case.outcomes).unwrap_or_default(), 2);
                }
                add("", 3);
                case.figures.iter().for_each(|(gpu, _)| add(gpu, 1));
                add("", 4);
            }
        }
    }
}

fn figures(answer: &MachineAnswer) -> Vec<i64> {
    match &answer.shown {
        Shown::Nothing(_) => Vec::new(),
        Shown::Answer { cases, .. } => {
            cases.iter().flat_map(|case| &case.figures).map(|(_, bytes)| bytes.unwrap_or(UNREAD)).collect()
        }
    }
}

fn refused(bucket: Bucket, why: &str) -> Refused {
    Refused { bucket, why: why.to_owned() }
}

// A thread that panicked leaves what it had added: nothing here is half done.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(answers: &RwLock<Answers>) -> std::sync::RwLockReadGuard<'_, Answers> {
    answers.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(answers: &RwLock<Answers>) -> std::sync::RwLockWriteGuard<'_, Answers> {
    answers.write().unwrap_or_else(PoisonError::into_inner)
}
