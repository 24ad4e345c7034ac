//! The built-in data of the program: hand-written text, as in the files of this folder.

use include_dir::{Dir, include_dir};

/// The questions, a folder for each subject.
static QUESTIONS: [(&str, Dir<'static>); 11] = [
    ("context", include_dir!("$CARGO_MANIFEST_DIR/context")),
    ("device", include_dir!("$CARGO_MANIFEST_DIR/device")),
    ("fault", include_dir!("$CARGO_MANIFEST_DIR/fault")),
    ("framework", include_dir!("$CARGO_MANIFEST_DIR/framework")),
    ("instrument", include_dir!("$CARGO_MANIFEST_DIR/instrument")),
    ("limits", include_dir!("$CARGO_MANIFEST_DIR/limits")),
    ("memory", include_dir!("$CARGO_MANIFEST_DIR/memory")),
    ("mps", include_dir!("$CARGO_MANIFEST_DIR/mps")),
    ("process", include_dir!("$CARGO_MANIFEST_DIR/process")),
    ("refused", include_dir!("$CARGO_MANIFEST_DIR/refused")),
    ("visibility", include_dir!("$CARGO_MANIFEST_DIR/visibility")),
];
static DIAGNOSES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/diagnoses");
static KINDS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/surveys/kinds");
static KERNELS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/kernels");

/// Returns the questions, each with its name, as `context/set-device-is-eager`, and the text of its file.
pub fn questions() -> impl Iterator<Item = (String, &'static str)> {
    QUESTIONS.iter().flat_map(|(subject, folder)| {
        files(folder, ".toml").map(move |(name, text)| (format!("{subject}/{name}"), text))
    })
}

/// Returns the text of a question's file.
pub fn question(name: &str) -> Option<&'static str> {
    let (subject, file) = name.split_once('/')?;
    let (_, folder) = QUESTIONS.iter().find(|(known, _)| *known == subject)?;
    folder.get_file(format!("{file}.toml"))?.contents_utf8()
}

/// Returns the stored lines of each question besides its file, in the order of names: one with its outline, one with
/// its measurements, and one with the words by which it is found.
pub fn question_facts() -> impl Iterator<Item = &'static str> {
    QUESTIONS
        .iter()
        .flat_map(|(_, folder)| files(folder, ".ndjson").map(|(_, text)| text))
}

/// Returns the rules of diagnoses by their names.
pub fn diagnoses() -> impl Iterator<Item = (&'static str, &'static str)> {
    files(&DIAGNOSES, ".toml")
}

/// Returns the file of a kind of survey.
pub fn kind(name: &str) -> Option<&'static str> {
    KINDS.get_file(format!("{name}.toml"))?.contents_utf8()
}

/// Returns the kernels by their names, as PTX.
pub fn kernels() -> impl Iterator<Item = (&'static str, &'static str)> {
    files(&KERNELS, ".ptx")
}

fn files(
    folder: &'static Dir<'static>,
    ending: &'static str,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let named = folder
        .files()
        .filter_map(|file| Some((file.path().to_str()?, file.contents_utf8()?)));
    named.filter_map(move |(path, text)| Some((path.strip_suffix(ending)?, text)))
}

/// Commands that users type in a shell.
pub const COMMANDS: &str = include_str!("commands.toml");
/// What CUDA's errors say.
pub const ERRORS: &str = include_str!("errors.toml");
/// The frameworks that use CUDA.
pub const FRAMEWORKS: &str = include_str!("frameworks.toml");
/// Owners of GPU memory: the code that allocates it.
pub const OWNERS: &str = include_str!("owners.toml");
/// The facts of a trace that rules of diagnoses can test.
pub const CLUES: &str = include_str!("clues.toml");
/// The environment variables that CUDA and frameworks read.
pub const VARIABLES: &str = include_str!("variables.toml");
/// The questions of the essential set.
pub const ESSENTIAL: &str = include_str!("essential.toml");
/// The subject of the questions in each folder.
pub const SUBJECTS: &str = include_str!("subjects.toml");
/// The numbers of the kernel's log.
pub const XIDS: &str = include_str!("xids.toml");
/// Accelerators that are not NVIDIA's.
pub const PLATFORMS: &str = include_str!("platforms.toml");
/// The symptoms that users see.
pub const SYMPTOMS: &str = include_str!("symptoms.toml");
/// Words with the same meaning.
pub const SYNONYMS: &str = include_str!("synonyms.toml");
/// The recipes of `survey calls`.
pub const CALLS: &str = include_str!("surveys/calls.toml");
/// The variables of `survey env`.
pub const MEASURED_VARIABLES: &str = include_str!("surveys/env.toml");
/// The masks of `survey mask`.
pub const MASKS: &str = include_str!("surveys/mask.toml");
/// The lines of `survey python`.
pub const LINES: &str = include_str!("surveys/python.toml");
/// The packages of `survey imports`.
pub const IMPORTS: &str = include_str!("surveys/imports.toml");
/// The environments of `survey python --releases`.
pub const RELEASES: &str = include_str!("surveys/releases.toml");
/// The errors that frameworks are tested with.
pub const FAILURES: &str = include_str!("surveys/errors.toml");
/// Knowledge about everything that has a name, except the questions.
pub const KNOWN: &str = include_str!("known.json");
/// The words of texts from threads and of errors, with their answers.
pub const TEXTS: &str = include_str!("texts.json");

#[cfg(test)]
mod tests {
    use std::fs;

    /// A folder that is forgotten here would go unnoticed.
    #[test]
    fn every_folder_of_questions_is_embedded() {
        let folders = fs::read_dir(env!("CARGO_MANIFEST_DIR"))
            .unwrap()
            .flatten()
            .filter(|entry| entry.path().is_dir());
        let mut folders: Vec<String> = folders
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        folders.retain(|name| !["diagnoses", "kernels", "surveys"].contains(&name.as_str()));
        folders.sort();
        assert_eq!(
            folders,
            super::QUESTIONS.each_ref().map(|(subject, _)| *subject)
        );
    }
}
