//! Subjects: the folders of the questions. They are stored in `scenarios/subjects.toml`.

use std::sync::LazyLock;

use super::sentences;

/// A folder of questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The folder, the first part of the names of its questions.
    pub folder: String,
    /// The subject of these scenarios, without a full stop.
    pub sentence: String,
}

static ALL: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let all = sentences::read(cuda_pitfalls_scenarios::SUBJECTS).into_iter();
    all.map(|(folder, sentence)| Subject { folder, sentence })
        .collect()
});

/// Returns every subject, in the order of the file.
pub fn all() -> &'static [Subject] {
    &ALL
}

/// Returns the directory in the name of a scenario; empty if the name has no directory.
pub fn folder_of(name: &str) -> &str {
    name.split_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn every_folder_has_a_sentence_and_every_sentence_a_folder() {
        let mut folders: Vec<String> = catalogue::embedded_files()
            .map(|file| folder_of(&file.name).to_owned())
            .collect();
        folders.sort();
        folders.dedup();
        let mut named: Vec<&str> = all()
            .iter()
            .map(|subject| subject.folder.as_str())
            .collect();
        named.sort_unstable();
        assert_eq!(named, folders);
        assert!(
            all()
                .iter()
                .all(|subject| !subject.sentence.ends_with('.') && subject.sentence.len() <= 80),
            "{:?}",
            all()
        );
    }
}
