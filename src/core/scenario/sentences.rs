//! Files of sentences by name: `name = "sentence"`.

use toml::de::DeTable;

/// Returns the names and sentences of a file, in its order. Everything other than a sentence is left out.
pub(super) fn read(source: &str) -> Vec<(String, String)> {
    let Ok(table) = DeTable::parse(source) else {
        return Vec::new();
    };
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let sentences = entries.into_iter();
    sentences
        .filter_map(|(name, it)| {
            Some((
                name.get_ref().to_string(),
                it.get_ref().as_str()?.to_string(),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_come_in_the_order_of_the_file() {
        let names: Vec<String> = read("b = \"B\"\na = \"A\"\nn = 1\n")
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["b", "a"]);
    }
}
