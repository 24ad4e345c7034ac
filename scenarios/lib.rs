//! The data that come with the program: what people write, as it is in the files of this folder.

use include_dir::{Dir, include_dir};

/// Everything in this folder: the questions by subject, and the folders that hold something else ([`BESIDE`]).
static ALL: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR");

/// Folders that hold no questions.
const BESIDE: [&str; 4] = ["claims", "diagnoses", "kernels", "surveys"];

/// A file: its path below its folder, and its text.
pub type File = (&'static str, &'static str);

/// The questions, a folder for each subject: `context/set-device-is-eager.toml`.
pub fn questions() -> impl Iterator<Item = File> {
    ALL.dirs().filter(|folder| BESIDE.iter().all(|name| folder.path() != std::path::Path::new(name))).flat_map(files)
}

/// The files of one of the folders that hold no questions: `claims`, `diagnoses`, `kernels`, `surveys`.
pub fn beside(folder: &str) -> impl Iterator<Item = File> {
    let prefix = format!("{folder}/");
    let all = ALL.get_dir(folder).into_iter().flat_map(files);
    all.filter_map(move |(path, text)| Some((path.strip_prefix(prefix.as_str())?, text)))
}

fn files(folder: &'static Dir<'static>) -> impl Iterator<Item = File> {
    folder.files().filter_map(|file| Some((file.path().to_str()?, file.contents_utf8()?)))
}

/// What CUDA's errors say.
pub const ERRORS: &str = include_str!("errors.toml");
/// The questions of the essential set.
pub const ESSENTIAL: &str = include_str!("essential.toml");
/// The outlines of the questions.
pub const INDEX: &str = include_str!("index.json");
/// What the questions of each folder are about.
pub const SUBJECTS: &str = include_str!("subjects.toml");
/// What people see.
pub const SYMPTOMS: &str = include_str!("symptoms.toml");
/// Words of one meaning.
pub const SYNONYMS: &str = include_str!("synonyms.toml");
/// The recipes of `survey calls`.
pub const CALLS: &str = include_str!("surveys/calls.toml");
/// The variables of `survey env`.
pub const VARIABLES: &str = include_str!("surveys/env.toml");
/// The masks of `survey mask`.
pub const MASKS: &str = include_str!("surveys/mask.toml");
/// The lines of `survey python`.
pub const LINES: &str = include_str!("surveys/python.toml");
/// The environments of `survey python --releases`.
pub const RELEASES: &str = include_str!("surveys/releases.toml");
/// The errors that frameworks meet.
pub const FAILURES: &str = include_str!("surveys/errors.toml");
/// What the committed surveys and reports say, in short.
pub const SUMMARY: &str = include_str!("surveys/summary.json");
