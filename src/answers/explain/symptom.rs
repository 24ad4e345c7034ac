//! Symptoms in a text: what people see, by how they say it.
//!
//! `scenarios/symptoms.toml` lists how each symptom is said, the commonest family first: processes and memory on GPUs
//! that nobody asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::term::pieces;
use super::words::{stem, terms_of_people};
use cuda_pitfalls_core::scenario::symptom;

/// A text of more lines is a log, of which no sentence is a person's.
const MOST_LINES: usize = 8;
/// A longer line is a log's, or a list.
const MOST_WORDS: usize = 80;

#[derive(Default, Deserialize)]
struct SymptomFile {
    says: BTreeMap<String, Vec<String>>,
    /// Chinese words, which stand without whitespace, by what they mean.
    translations: BTreeMap<String, Vec<String>>,
}

/// A way to say a symptom: one word of each group must be said, and none of those that are not meant.
#[derive(Default)]
struct Saying {
    groups: Vec<Vec<String>>,
    not_meant: Vec<String>,
}

static FILE: LazyLock<SymptomFile> =
    LazyLock::new(|| toml::from_str(cuda_pitfalls_scenarios::SYMPTOMS).unwrap_or_default());

static SAYINGS: LazyLock<Vec<(&'static str, Vec<Saying>)>> = LazyLock::new(|| {
    let sayings = symptom::all().iter().map(|symptom| {
        let texts = FILE.says.get(&symptom.id).into_iter().flatten();
        (symptom.id.as_str(), texts.map(|text| Saying::parse(text)).collect())
    });
    sayings.collect()
});

impl Saying {
    fn parse(text: &str) -> Saying {
        let mut saying = Saying::default();
        for group in text.split_whitespace() {
            match group.strip_prefix('!') {
                Some(word) => saying.not_meant.push(key(word)),
                None => saying.groups.push(group.split('|').map(key).collect()),
            }
        }
        saying
    }

    fn is_said(&self, said: &BTreeSet<String>) -> bool {
        self.groups.iter().all(|group| group.iter().any(|word| said.contains(word)))
            && !self.not_meant.iter().any(|word| said.contains(word))
    }
}

/// A word as it is compared: without its ending.
fn key(word: &str) -> String {
    stem(&word.to_lowercase())
}

/// The symptoms that a text says, as `symptom/ID`: the one that most words say first, and of equals the commonest.
pub(super) fn symptoms(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() > MOST_LINES {
        return Vec::new();
    }
    let said: Vec<BTreeSet<String>> =
        lines.iter().filter(|line| line.split_whitespace().count() <= MOST_WORDS).map(|line| words(line)).collect();
    let mut found: Vec<(usize, &str)> = Vec::new();
    for (id, sayings) in SAYINGS.iter() {
        let fitting = sayings.iter().filter(|saying| said.iter().any(|said| saying.is_said(said)));
        found.extend(fitting.map(|saying| saying.groups.len()).max().map(|length| (length, *id)));
    }
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    found.into_iter().map(|(_, id)| format!("symptom/{id}")).collect()
}

/// The words of a line in their plain form, with what they mean, and `gpu0` for GPU 0 however it is written.
fn words(line: &str) -> BTreeSet<String> {
    let lower = line.to_lowercase().replace("cuda_visible_devices", "mask");
    let mut found: BTreeSet<String> = terms_of_people(&lower).into_iter().map(|term| key(&term.text)).collect();
    for piece in pieces(&lower) {
        found.extend(piece.split(['.', '_']).map(key));
        found.insert(key(&piece));
    }
    for (meaning, translated) in &FILE.translations {
        if translated.iter().any(|word| lower.contains(word.as_str())) {
            found.extend(meaning.split(' ').map(key));
        }
    }
    let is_first = ["first gpu", "first card", "first device", "gpu id 0", "gpu zero", "gpu #0", "cuda device 0"];
    if is_first.iter().any(|words| lower.contains(words)) {
        found.insert("gpu0".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_s_sentences_say_a_symptom() {
        for (text, id) in [
            ("gunicorn --preload: every worker shows up on GPU 0", "stray-memory-gpu0"),
            ("pytest-xdist: all workers run on GPU 0", "stray-memory-gpu0"),
            ("dask scheduler has a context on gpu 0", "stray-memory-gpu0"),
            ("the same PID is listed on GPU 0 and GPU 1", "stray-memory-gpu0"),
            ("one process shows up on all GPUs in nvidia-smi with 0MiB", "memory-on-every-gpu"),
            ("CUDA_VISIBLE_DEVICES has no effect", "mask-ignored"),
            ("GPU memory is not released after the training was killed", "memory-left-after-exit"),
            ("memory stays used after del model and empty_cache", "memory-not-given-back"),
            ("nvidia-smi lists the GPUs in another order than torch", "gpu-numbers-disagree"),
            ("nvidia-smi shows no processes in the container", "process-list-wrong"),
        ] {
            let found = symptoms(text);
            assert_eq!(found.first(), Some(&format!("symptom/{id}")), "{text}: {found:?} {:?}", words(text));
        }
    }

    #[test]
    fn every_saying_is_of_a_symptom() {
        let file: SymptomFile = toml::from_str(cuda_pitfalls_scenarios::SYMPTOMS).unwrap();
        assert!(file.says.len() > 30);
        for id in file.says.keys() {
            assert!(symptom::find(id).is_some(), "{id}");
        }
    }
}
