//! The essential set: the questions that users ask most about the start of CUDA, in `scenarios/essential.toml`.

use serde::Deserialize;

use super::Outline;

const SOURCE: &str = cuda_pitfalls_scenarios::ESSENTIAL;

/// A question of the set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Essential {
    /// The full name of a scenario, or of one instance.
    pub name: String,
    /// The reason why the question is in the set.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EssentialFile {
    question: Vec<Essential>,
}

/// Returns the set in its order. Empty if the file is not valid, which a test excludes.
pub fn all() -> Vec<Essential> {
    toml::from_str(SOURCE)
        .map(|file: EssentialFile| file.question)
        .unwrap_or_default()
}

/// Returns the scenarios of the set, each with only those instances that belong to the set.
pub(super) fn essential_outlines(outlines: &[Outline]) -> Vec<Outline> {
    let mut found: Vec<Outline> = Vec::new();
    for question in all()
        .into_iter()
        .filter_map(|question| Outline::named(outlines, &question.name))
    {
        match found.iter_mut().find(|known| known.name == question.name) {
            Some(known) => known.instances.extend(question.instances),
            None => found.push(question),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn every_question_is_there_with_its_reason_and_needs_no_more_than_two_gpus() {
        let file: EssentialFile = toml::from_str(SOURCE).unwrap();
        let scenarios = catalogue::list(&[], &[]).unwrap();
        assert!(
            (20..=26).contains(&file.question.len()),
            "{}",
            file.question.len()
        );
        let mut names: Vec<&str> = file
            .question
            .iter()
            .map(|question| question.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), file.question.len(), "a question occurs twice");
        let mut on_one_gpu = 0;
        for Essential { name, why } in &file.question {
            let found = Outline::named(&scenarios, name)
                .unwrap_or_else(|| panic!("{name} is no scenario or instance"));
            assert_eq!(found.instances.len(), 1, "{name}: name one instance");
            assert!(why.ends_with('.') || why.ends_with('"'), "{name}: {why}");
            assert!(
                found.needs.gpus <= 2 && !found.needs.root && found.hazards.is_empty(),
                "{name}"
            );
            on_one_gpu += usize::from(found.needs.gpus == 1);
        }
        assert!(
            on_one_gpu * 2 > file.question.len(),
            "{on_one_gpu} can be asked on one GPU"
        );
        assert_eq!(
            essential_outlines(&scenarios)
                .iter()
                .map(|outline| outline.instances.len())
                .sum::<usize>(),
            file.question.len()
        );
    }

    #[test]
    fn the_file_is_strict() {
        for bad in [
            "question = [{ name = \"a\" }]",
            "question = [{ name = \"a\", why = \"b\", wy = 1 }]",
            "q = 1",
        ] {
            assert!(toml::from_str::<EssentialFile>(bad).is_err(), "{bad}");
        }
    }
}
