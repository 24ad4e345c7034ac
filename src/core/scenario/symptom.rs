//! Symptoms: what people see, in their own words. They are stored in `scenarios/symptoms.toml`.

use std::sync::LazyLock;

use toml::de::DeTable;

const SOURCE: &str = cuda_pitfalls_scenarios::SYMPTOMS;

/// Something that a person sees and searches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symptom {
    /// Its name in scenarios.
    pub id: String,
    /// A person's words, without a full stop.
    pub sentence: String,
}

static ALL: LazyLock<Vec<Symptom>> = LazyLock::new(|| read(SOURCE));

/// Every symptom, in the order of the file.
pub fn all() -> &'static [Symptom] {
    &ALL
}

/// A symptom by its id.
pub fn find(id: &str) -> Option<&'static Symptom> {
    ALL.iter().find(|symptom| symptom.id == id)
}

fn read(source: &str) -> Vec<Symptom> {
    let Ok(table) = DeTable::parse(source) else { return Vec::new() };
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(id, _)| id.span().start);
    let symptom = |sentence: &str, id: &str| Symptom { id: id.to_string(), sentence: sentence.to_string() };
    entries.into_iter().filter_map(|(id, value)| Some(symptom(value.get_ref().as_str()?, id.get_ref()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_a_list_of_sentences_by_id() {
        assert!(all().len() >= 20, "{:?}", all());
        assert_eq!(all().len(), SOURCE.lines().filter(|line| line.contains(" = \"")).count() - 1);
        for Symptom { id, sentence } in all() {
            assert!(id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{id}");
            assert!(!sentence.is_empty() && !sentence.ends_with('.'), "{id}: {sentence}");
            assert_eq!(all().iter().filter(|other| other.sentence == *sentence).count(), 1, "{sentence}");
        }
        assert!(find("mask-ignored").is_some() && find("mask").is_none());
    }

    #[test]
    fn symptoms_come_in_the_order_of_the_file() {
        let ids: Vec<String> = read("b = \"B\"\na = \"A\"\nn = 1\n").into_iter().map(|symptom| symptom.id).collect();
        assert_eq!(ids, ["b", "a"]);
    }
}
