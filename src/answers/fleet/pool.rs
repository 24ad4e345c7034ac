//! Answers of many documents. Each answer is stored only once, because most machines have the same ones.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::answer::{AnswerPlace, MachineAnswer, SharedAnswer, Shown};
use super::change::CaseChange;
use super::digest::{Digest, KnownScenarios, LONGEST_LABEL, Rejection, cut_text};
use super::document::{Bucket, FleetMachine, Input, MOST_EXAMPLES, NotMerged};
use super::facts::MachineFacts;
use super::names::{NAMES, label};
use cuda_pitfalls_core::verdict::Provenance;

/// Maximum size of the distinct answers, in bytes. A thousand machines that all differ need a tenth of it.
const MOST_BYTES: usize = 128 << 20;
/// Estimated size of an answer, as a multiple of its text.
const FACTS_BYTES: usize = 6;

/// Rule that selects documents.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Required source of the answers: real drivers or the simulated machine.
    pub provenance: Provenance,
    /// The start of a run that is not stale, RFC 3339, UTC.
    pub not_before: Option<String>,
    /// Latest plausible start of a run, RFC 3339, UTC. A run that began later is dated in the future.
    pub not_after: Option<String>,
    /// Label whose value machines must have in common to be compared.
    pub group_by: Option<String>,
}

/// Pool of everything that was read. Several threads add to it.
pub struct DocumentPool {
    rule: Rule,
    answers: Mutex<Answers>,
    kept: Mutex<Vec<PooledDocument>>,
    left_out: Mutex<Vec<LeftOutDocument>>,
    input: Mutex<Input>,
    /// Distinct facts of machines.
    facts: Mutex<HashSet<Arc<MachineFacts>>>,
    pub(super) scenarios: KnownScenarios,
}

/// A valid document that is not compared, and its machine.
#[derive(Debug)]
pub(super) struct LeftOutDocument {
    pub(super) path: String,
    pub(super) bucket: Bucket,
    pub(super) machine: FleetMachine,
}

/// The stored part of a document.
#[derive(Debug)]
pub(super) struct PooledDocument {
    pub(super) path: String,
    /// `true` if its date cannot be correct: it counts only if the machine has no other report.
    pub(super) is_of_the_future: bool,
    /// The document's facts about its machine.
    pub(super) facts: Arc<MachineFacts>,
    /// Digest of the document, without its answers and the facts.
    pub(super) digest: Digest,
    /// Indices of [`Answers::all`], in the order of their names.
    pub(super) answers: Box<[u32]>,
    /// Figures of all answers, in the same order.
    pub(super) figures: Box<[i64]>,
}

/// Name of a question, and texts about it.
#[derive(Debug, Default)]
pub(super) struct Name {
    pub(super) name: String,
    pub(super) scenario: String,
    pub(super) words: String,
}

/// Distinct answers and names.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Answers, each with the index of its name.
    pub(super) all: Vec<(u32, Arc<SharedAnswer>)>,
    pub(super) names: Vec<Name>,
    known: HashMap<Arc<SharedAnswer>, u32>,
    by_name: HashMap<String, u32>,
    bytes: usize,
}

impl DocumentPool {
    /// Returns an empty pool.
    pub fn new(rule: Rule) -> DocumentPool {
        let (answers, kept, left_out, input, facts, scenarios) = Default::default();
        DocumentPool {
            rule,
            answers,
            kept,
            left_out,
            input,
            facts,
            scenarios,
        }
    }

    /// Adds the answers of a document, or the reason for missing answers.
    pub(super) fn add_document(&self, path: String, digest: Result<Digest, Rejection>) {
        let kept = digest.and_then(|digest| self.keep_document(path.clone(), digest));
        match kept {
            Ok(kept) => {
                lock(&self.input).count(kept.bucket());
                lock(&self.kept).push(kept);
            }
            Err(Rejection { bucket, why }) => {
                let why = cut_text(&why);
                let mut input = lock(&self.input);
                input.count(bucket);
                input.not_merged.push(NotMerged { path, bucket, why });
                // The selection of examples must not depend on the order of the threads.
                if input.not_merged.len() > 8 * MOST_EXAMPLES {
                    input.shorten_lists();
                }
            }
        }
    }

    /// Stores the name of the machine of a document that is not read, if the document contains one.
    pub(super) fn leave_out(&self, path: &str, bucket: Bucket, labels: BTreeMap<String, String>) {
        let machine = FleetMachine {
            labels,
            ..FleetMachine::default()
        };
        if label(&machine).is_some_and(|name| name.len() <= LONGEST_LABEL) {
            let labels = machine
                .labels
                .into_iter()
                .filter(|(name, _)| NAMES.contains(&name.as_str()))
                .collect();
            let machine = FleetMachine {
                labels,
                ..FleetMachine::default()
            };
            lock(&self.left_out).push(LeftOutDocument {
                path: path.to_owned(),
                bucket,
                machine,
            });
        }
    }

    /// Lists a source as partly read, with the reason.
    pub(super) fn note_source(&self, path: String, why: String) {
        lock(&self.input).not_merged.push(NotMerged {
            path,
            bucket: Bucket::Invalid,
            why,
        });
    }

    fn keep_document(&self, path: String, mut digest: Digest) -> Result<PooledDocument, Rejection> {
        if let Some(refused) = self.reason_to_leave_out(&digest) {
            let machine = std::mem::take(&mut digest.machine);
            lock(&self.left_out).push(LeftOutDocument {
                path,
                bucket: refused.bucket,
                machine,
            });
            return Err(refused);
        }
        let is_of_the_future = self.is_of_the_future(&digest);
        if let Some(name) = &self.rule.group_by {
            let value = digest.machine.labels.get(name);
            let label = value.map_or_else(
                || format!("without {name}"),
                |value| format!("{name}={value}"),
            );
            digest.key.label = Some(label);
        }
        let facts = Arc::new(std::mem::take(&mut digest.facts));
        let facts = {
            let mut known = lock(&self.facts);
            let same = known.get(&facts).cloned();
            same.unwrap_or_else(|| {
                known.insert(Arc::clone(&facts));
                facts
            })
        };
        let answers = std::mem::take(&mut digest.answers);
        let mut found: Vec<(AnswerPlace, &[i64])> = Vec::with_capacity(answers.len());
        for one in &answers {
            let place = self.place_answer(one).ok_or_else(|| {
                refused(
                    Bucket::Invalid,
                    "there are too many different results to keep them all",
                )
            })?;
            found.push((place, &one.bytes));
        }
        found.sort_by_key(|(place, _)| *place);
        Ok(PooledDocument {
            facts,
            path,
            is_of_the_future,
            digest,
            answers: found.iter().map(|(place, _)| place.answer).collect(),
            figures: found
                .iter()
                .flat_map(|(_, figures)| figures.iter().copied())
                .collect(),
        })
    }

    /// Returns the index of the stored answer, or `None` if the pool is full.
    fn place_answer(&self, answer: &MachineAnswer) -> Option<AnswerPlace> {
        if let Some(place) = answer.place.get() {
            return Some(*place);
        }
        let place = lock(&self.answers).insert(answer)?;
        Some(*answer.place.get_or_init(|| place))
    }

    fn is_of_the_future(&self, digest: &Digest) -> bool {
        self.rule
            .not_after
            .as_ref()
            .is_some_and(|latest| digest.machine.started_at > *latest)
    }

    fn reason_to_leave_out(&self, digest: &Digest) -> Option<Rejection> {
        let started = &digest.machine.started_at;
        let (bucket, why) = match (
            digest.provenance,
            self.rule.provenance,
            &self.rule.not_before,
        ) {
            (Provenance::Simulated, Provenance::Measured, _) => (
                Bucket::Simulated,
                "it is from the simulated machine; merge such reports with --simulated".to_owned(),
            ),
            (Provenance::Measured, Provenance::Simulated, _) => (
                Bucket::Measured,
                "it is from a real driver, but --simulated was given".to_owned(),
            ),
            (_, _, Some(earliest)) if started < earliest => (
                Bucket::Stale,
                format!("its run began at {started}, before {earliest}"),
            ),
            (_, _, Some(_)) if self.is_of_the_future(digest) => (
                Bucket::Future,
                format!("its run began at {started}, which is in the future, so it is not current"),
            ),
            _ if digest.is_empty() => (Bucket::Empty, "no question was answered".to_owned()),
            _ => return None,
        };
        Some(Rejection { bucket, why })
    }

    /// Returns everything that was read, in an order that does not depend on the threads.
    pub(super) fn into_parts(
        self,
    ) -> (
        Rule,
        Answers,
        Vec<PooledDocument>,
        Vec<LeftOutDocument>,
        Input,
    ) {
        let mut kept = self
            .kept
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        kept.sort_by(|a, b| a.path.cmp(&b.path));
        let mut input = self
            .input
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        input.shorten_lists();
        let mut left_out = self
            .left_out
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        left_out.sort_by(|a, b| a.path.cmp(&b.path));
        (
            self.rule,
            self.answers
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner),
            kept,
            left_out,
            input,
        )
    }
}

impl PooledDocument {
    /// Returns its bucket, unless another document of its machine takes precedence.
    pub(super) fn bucket(&self) -> Bucket {
        if self.digest.machine.partial {
            Bucket::Partial
        } else {
            Bucket::Merged
        }
    }
}

impl Input {
    pub(super) fn count(&mut self, bucket: Bucket) {
        self.documents += 1;
        *self.buckets.entry(bucket).or_default() += 1;
    }

    /// Moves a document from one bucket to another.
    pub(super) fn move_to_bucket(&mut self, from: Bucket, not_merged: NotMerged) {
        self.buckets.entry(from).and_modify(|count| *count -= 1);
        self.buckets.retain(|_, count| *count > 0);
        *self.buckets.entry(not_merged.bucket).or_default() += 1;
        self.not_merged.push(not_merged);
    }

    /// Keeps the first documents of each bucket, by path.
    pub(super) fn shorten_lists(&mut self) {
        self.not_merged
            .sort_by(|a, b| (a.bucket, &a.path).cmp(&(b.bucket, &b.path)));
        let mut counts: BTreeMap<Bucket, usize> = BTreeMap::new();
        self.not_merged.retain(|one| {
            let count = counts.entry(one.bucket).or_default();
            *count += 1;
            *count <= MOST_EXAMPLES
        });
    }
}

impl Answers {
    fn find(&self, shared: &SharedAnswer) -> Option<AnswerPlace> {
        let answer = *self.known.get(shared)?;
        let name = self.all.get(answer as usize)?.0;
        Some(AnswerPlace { name, answer })
    }

    /// Returns the index of the answer, which is added if it is new; `None` if the pool is full.
    fn insert(
        &mut self,
        MachineAnswer {
            scenario,
            words,
            answer,
            ..
        }: &MachineAnswer,
    ) -> Option<AnswerPlace> {
        if let Some(known) = self.find(answer) {
            self.note_words(known.name, words);
            return Some(known);
        }
        if self.bytes > MOST_BYTES {
            return None;
        }
        let name = match self.by_name.get(&answer.name) {
            Some(name) => {
                let name = *name;
                self.note_words(name, words);
                name
            }
            None => {
                let at = u32::try_from(self.names.len()).ok()?;
                self.names.push(Name {
                    name: answer.name.clone(),
                    scenario: scenario.clone(),
                    words: words.clone(),
                });
                self.by_name.insert(answer.name.clone(), at);
                at
            }
        };
        let at = u32::try_from(self.all.len()).ok()?;
        let mut text_bytes = match &answer.shown {
            Shown::Outcome(same) => text_length(&same.facts),
            Shown::Nothing(reason) => reason.len(),
        };
        let names = [&answer.name, &answer.asked, &answer.libcudart];
        for text in names.into_iter().chain(&answer.figures) {
            text_bytes += text.len();
        }
        self.bytes += FACTS_BYTES * text_bytes + size_of::<SharedAnswer>();
        let shared = Arc::new(answer.clone());
        self.known.insert(Arc::clone(&shared), at);
        self.all.push((name, shared));
        Some(AnswerPlace { name, answer: at })
    }
}

impl Answers {
    /// Keeps the alphabetically last text of a question, so that the result does not depend on the order of reading.
    fn note_words(&mut self, name: u32, words: &str) {
        let known = &mut self.names[name as usize].words;
        if words > known.as_str() {
            words.clone_into(known);
        }
    }
}

fn text_length(facts: &[CaseChange]) -> usize {
    let text = serde_json::to_string(facts);
    text.expect("facts have text as keys, and are written to memory")
        .len()
}

fn refused(bucket: Bucket, why: &str) -> Rejection {
    Rejection {
        bucket,
        why: why.to_owned(),
    }
}

// A thread that panicked leaves its additions behind, and each of them is complete.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    fn answer(words: &str, reason: &str) -> MachineAnswer {
        MachineAnswer {
            scenario: "a/question".to_owned(),
            words: words.to_owned(),
            answer: SharedAnswer {
                name: "a/question".to_owned(),
                shown: Shown::Nothing(reason.to_owned()),
                ..SharedAnswer::default()
            },
            bytes: Vec::new(),
            place: OnceLock::new(),
        }
    }

    #[test]
    fn order_of_documents_does_not_decide_words() {
        let all = [
            answer("Is it old?", "x"),
            answer("Is it new?", "x"),
            answer("", "y"),
        ];
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]] {
            let mut answers = Answers::default();
            for index in order {
                assert!(answers.insert(&all[index]).is_some());
            }
            assert_eq!(answers.names[0].words, "Is it old?", "{order:?}");
        }
    }
}
