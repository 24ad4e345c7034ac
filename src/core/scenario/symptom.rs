//! Symptoms: observations of users, in their own words. They are stored in `scenarios/symptoms.toml`.

use std::sync::LazyLock;

use super::sentences;

const SOURCE: &str = cuda_pitfalls_scenarios::SYMPTOMS;

/// Something that a user sees and searches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symptom {
    /// The name of the symptom in scenarios.
    pub id: String,
    /// The user's words, without a full stop.
    pub sentence: String,
}

static ALL: LazyLock<Vec<Symptom>> = LazyLock::new(|| {
    sentences::read(SOURCE)
        .into_iter()
        .map(|(id, sentence)| Symptom { id, sentence })
        .collect()
});

/// Returns every symptom, in the order of the file.
pub fn all() -> &'static [Symptom] {
    &ALL
}

/// Returns the ids of all symptoms.
pub fn ids() -> Vec<&'static str> {
    ALL.iter().map(|symptom| symptom.id.as_str()).collect()
}

/// Returns a symptom by its id.
pub fn find(id: &str) -> Option<&'static Symptom> {
    ALL.iter().find(|symptom| symptom.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_a_list_of_sentences_by_id() {
        assert!(all().len() >= 20, "{:?}", all());
        assert_eq!(
            all().len(),
            SOURCE.lines().filter(|line| line.contains(" = \"")).count() - 1
        );
        for Symptom { id, sentence } in all() {
            assert!(
                id.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{id}"
            );
            assert!(
                !sentence.is_empty() && !sentence.ends_with('.'),
                "{id}: {sentence}"
            );
            assert_eq!(
                all()
                    .iter()
                    .filter(|other| other.sentence == *sentence)
                    .count(),
                1,
                "{sentence}"
            );
        }
        assert!(find("mask-ignored").is_some() && find("mask").is_none());
    }
}
