//! The built-in data of the program: hand-written text, as in the files of this folder.

use std::io::Read as _;
use std::sync::OnceLock;

use flate2::read::DeflateDecoder;

/// Texts that build.rs compressed together, and their names.
struct Pack {
    packed: &'static [u8],
    texts: OnceLock<Vec<(&'static str, &'static str)>>,
}

impl Pack {
    const fn new(packed: &'static [u8]) -> Pack {
        Pack {
            packed,
            texts: OnceLock::new(),
        }
    }

    /// Returns the texts in the order of their names.
    fn texts(&self) -> &[(&'static str, &'static str)] {
        self.texts.get_or_init(|| {
            let mut unpacked = String::new();
            DeflateDecoder::new(self.packed)
                .read_to_string(&mut unpacked)
                .expect("what build.rs compressed can be read");
            let mut texts = Vec::new();
            let mut parts = unpacked.leak().split('\0');
            while let (Some(name), Some(text)) = (parts.next(), parts.next()) {
                texts.push((name, text));
            }
            texts
        })
    }

    fn find(&self, name: &str) -> Option<&'static str> {
        let texts = self.texts();
        let at = texts.binary_search_by_key(&name, |(known, _)| known).ok()?;
        Some(texts[at].1)
    }
}

macro_rules! pack {
    ($name:literal) => {
        Pack::new(include_bytes!(concat!(env!("OUT_DIR"), "/", $name)))
    };
}

/// The questions, a pack for each subject.
static QUESTIONS: [(&str, Pack); 11] = [
    ("context", pack!("context")),
    ("device", pack!("device")),
    ("fault", pack!("fault")),
    ("framework", pack!("framework")),
    ("instrument", pack!("instrument")),
    ("limits", pack!("limits")),
    ("memory", pack!("memory")),
    ("mps", pack!("mps")),
    ("process", pack!("process")),
    ("refused", pack!("refused")),
    ("visibility", pack!("visibility")),
];
static FACTS: Pack = pack!("facts");
static DIAGNOSES: Pack = pack!("diagnoses");
static KERNELS: Pack = pack!("kernels");
static SURVEYS: Pack = pack!("surveys");
static KINDS: Pack = pack!("surveys-kinds");
static ERRORS: Pack = pack!("errors.toml");
static KNOWN: Pack = pack!("known.json");
static PUBLISHED: Pack = pack!("published.txt");
static TEXTS: Pack = pack!("texts.json");

/// Returns the questions, each with its name, as `context/set-device-is-eager`, and the text of its file.
pub fn questions() -> impl Iterator<Item = (String, &'static str)> {
    QUESTIONS.iter().flat_map(|(subject, pack)| {
        let texts = pack.texts().iter();
        texts.map(move |(name, text)| (format!("{subject}/{name}"), *text))
    })
}

/// Returns the text of a question's file.
pub fn question(name: &str) -> Option<&'static str> {
    let (subject, file) = name.split_once('/')?;
    let (_, pack) = QUESTIONS.iter().find(|(known, _)| *known == subject)?;
    pack.find(file)
}

/// Returns the stored lines of each question besides its file, in the order of names: one with its outline, one with
/// its measurements, and one with the words by which it is found.
pub fn question_facts() -> impl Iterator<Item = &'static str> {
    FACTS.texts().iter().map(|(_, text)| *text)
}

/// Returns the rules of diagnoses by their names.
pub fn diagnoses() -> impl Iterator<Item = (&'static str, &'static str)> {
    DIAGNOSES.texts().iter().copied()
}

/// Returns the kernels by their names, as PTX.
pub fn kernels() -> impl Iterator<Item = (&'static str, &'static str)> {
    KERNELS.texts().iter().copied()
}

/// Returns what a survey measures, such as the lines of `python`, or an empty text.
pub fn survey(name: &str) -> &'static str {
    SURVEYS.find(name).unwrap_or_default()
}

/// Returns the file of a kind of survey.
pub fn kind(name: &str) -> Option<&'static str> {
    KINDS.find(name)
}

/// Returns what CUDA's errors say.
pub fn errors() -> &'static str {
    ERRORS.find("").unwrap_or_default()
}

/// Returns the knowledge about everything that has a name, except the questions.
pub fn known() -> &'static str {
    KNOWN.find("").unwrap_or_default()
}

/// Returns the list of published measurements: a line for each run, with the hashes of its documents.
pub fn published() -> &'static str {
    PUBLISHED.find("").unwrap_or_default()
}

/// Returns the words of texts from threads and of errors, with their answers.
pub fn texts() -> &'static str {
    TEXTS.find("").unwrap_or_default()
}

/// Commands that users type in a shell.
pub const COMMANDS: &str = include_str!("commands.toml");
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
