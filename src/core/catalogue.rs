//! The built-in scenarios and kernels, and the selection among them.

pub mod essential;
mod outline;
mod select;
mod shard;

pub use outline::{Outline, outline_line};
pub use select::{Selection, Unselected, list};
pub use shard::Shard;

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use thiserror::Error;

use crate::input;
use crate::scenario::{self, Diagnostic, Hazard, Scenario};
use crate::text::escape::terminal;

/// The largest scenario file, in bytes. Larger files are not read into memory.
const MOST_SOURCE_BYTES: u64 = 256 << 10;

/// Maximum number of errors that are shown; the others are only counted.
const MOST_SHOWN: usize = 100;
/// More threads than this take longer to start than they save.
const MOST_THREADS: usize = 4;

/// A built-in scenario file that is not yet parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// `<subject>/<what-happens>`.
    pub name: String,
    /// `scenarios/<subject>/<what-happens>.toml`.
    pub path: String,
    /// The text.
    pub source: &'static str,
}

/// A file with errors, and the text they point into.
#[derive(Clone, Debug)]
pub struct Invalid {
    /// The name of the file in its diagnostics.
    pub path: String,
    /// The text of the file.
    pub source: String,
    /// The errors in the file, in order.
    pub diagnostics: Vec<Diagnostic>,
}

/// A built-in file: its SHA-256, and the scenario once it has been parsed.
type Shipped = (String, OnceLock<Option<Scenario>>);

fn shipped_file(name: &str, sha256: &str) -> Option<&'static Shipped> {
    static FILES: OnceLock<HashMap<String, Shipped>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let mut files = HashMap::new();
        for file in embedded_files() {
            let sha256 = scenario::sha256_hex(file.source);
            files.insert(file.name, (sha256, OnceLock::new()));
        }
        files
    });
    files.get(name).filter(|(known, _)| known == sha256)
}

/// Returns `true` if a scenario file with this name and this SHA-256 is built in.
pub fn is_built_in(name: &str, sha256: &str) -> bool {
    shipped_file(name, sha256).is_some()
}

/// Returns the scenario with this name, if the file with this SHA-256 is built in.
pub fn find_shipped(name: &str, sha256: &str) -> Option<&'static Scenario> {
    shipped_file(name, sha256)?
        .1
        .get_or_init(|| built_in(name))
        .as_ref()
}

/// The reason why nothing was selected.
#[derive(Debug, Error)]
pub enum SelectError {
    /// No scenario matches this selector.
    #[error("no scenario matches this selector: `{}`{}", terminal(selector), did_you_mean(.nearest))]
    Unknown {
        /// As given.
        selector: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// Every selected scenario was excluded again.
    #[error("the selectors exclude everything that they select")]
    Nothing,
    /// A selector is ambiguous or cannot be parsed. The text has the reason.
    #[error("{0}")]
    Selector(String),
    /// Files with errors. The message has a line for each error; [`SelectError::render`] also shows the source.
    #[error("{}", lines(.0))]
    Invalid(Vec<Invalid>),
}

impl SelectError {
    /// Returns the error as text for the user: if it is about files, with the offending lines.
    pub fn render(&self, styled: bool) -> String {
        let SelectError::Invalid(files) = self else {
            return format!("error: {self}");
        };
        first_errors(files, "\n\n", |file, diagnostic| {
            diagnostic.render(&file.source, styled)
        })
    }
}

fn lines(files: &[Invalid]) -> String {
    first_errors(files, "\n", |file, diagnostic| {
        diagnostic.line(&file.source)
    })
}

/// Returns the first errors, and the number of the others. Users do not read fourteen thousand errors, and showing one
/// requires a search of its entire file.
fn first_errors(
    files: &[Invalid],
    between: &str,
    show: impl Fn(&Invalid, &Diagnostic) -> String,
) -> String {
    let mut lines = Vec::new();
    let mut more = 0;
    for file in files {
        for diagnostic in &file.diagnostics {
            if lines.len() < MOST_SHOWN {
                lines.push(show(file, diagnostic));
            } else {
                more += 1;
            }
        }
    }
    if more > 0 {
        lines.push(format!("and {more} more errors"));
    }
    lines.join(between)
}

fn did_you_mean(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{}`?", terminal(name)),
        None => "; `cuda-pitfalls list` shows the scenarios".to_string(),
    }
}

/// Returns the built-in scenario files, sorted by name.
pub fn embedded_files() -> impl Iterator<Item = Embedded> {
    let mut all: Vec<Embedded> = cuda_pitfalls_scenarios::questions()
        .map(|(name, source)| Embedded {
            path: format!("scenarios/{name}.toml"),
            name,
            source,
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.into_iter()
}

/// Returns the PTX of a built-in kernel file by its name without `.ptx`.
pub fn kernel(name: &str) -> Option<&'static str> {
    cuda_pitfalls_scenarios::kernels()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| text)
}

/// Returns the names of the built-in kernel files, sorted.
pub fn kernel_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = cuda_pitfalls_scenarios::kernels()
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names
}

/// Returns all built-in scenarios, or those that match the selectors. See [`Selection::new`].
///
/// # Errors
/// Returns the errors of [`Selection::new`].
pub fn select_scenarios(selectors: &[String]) -> Result<Vec<Scenario>, SelectError> {
    Ok(Selection::new(selectors, &[], Unselected::All)?.scenarios)
}

/// Returns the built-in scenario with this full name.
pub fn built_in(name: &str) -> Option<Scenario> {
    let source = cuda_pitfalls_scenarios::question(name)?;
    scenario::load_scenario(
        name,
        &format!("scenarios/{name}.toml"),
        source,
        &kernel_names(),
    )
    .ok()
}

/// Parses built-in files, on one thread per processor, up to [`MOST_THREADS`].
fn load_embedded(files: &[Embedded]) -> Result<Vec<Scenario>, SelectError> {
    let kernels = kernel_names();
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MOST_THREADS);
    let read = &|files: &[Embedded]| -> Vec<Result<Scenario, Invalid>> {
        let loaded = files.iter().map(|file| {
            scenario::load_scenario(&file.name, &file.path, file.source, &kernels).map_err(
                |diagnostics| Invalid {
                    path: file.path.clone(),
                    source: file.source.to_string(),
                    diagnostics,
                },
            )
        });
        loaded.collect()
    };
    let parts: Vec<&[Embedded]> = files.chunks(files.len().div_ceil(threads).max(1)).collect();
    let read: Vec<_> = std::thread::scope(|scope| {
        let (first, others) = parts
            .split_first()
            .map_or((&[][..], &[][..]), |(first, others)| (*first, others));
        let others: Vec<_> = others
            .iter()
            .map(|part| {
                (
                    *part,
                    std::thread::Builder::new()
                        .spawn_scoped(scope, move || read(part))
                        .ok(),
                )
            })
            .collect();
        let mut all = read(first);
        // The part of a thread that could not start is read here, and so is the part of a thread that panicked: the
        // panic recurs with its message.
        let joined = others
            .into_iter()
            .map(|(part, thread)| (part, thread.and_then(|thread| thread.join().ok())));
        all.extend(joined.flat_map(|(part, done)| done.unwrap_or_else(|| read(part))));
        all
    });
    let (mut all, mut invalid) = (Vec::with_capacity(files.len()), Vec::new());
    for file in read {
        match file {
            Ok(scenario) => all.push(scenario),
            Err(file) => invalid.push(file),
        }
    }
    if invalid.is_empty() {
        Ok(all)
    } else {
        Err(SelectError::Invalid(invalid))
    }
}

/// Reads a scenario file of the user.
///
/// # Errors
/// Returns an error if the file cannot be read, or is not a valid scenario.
pub fn load_file(path: &str) -> Result<Scenario, SelectError> {
    let source = match input::read_text(Path::new(path), MOST_SOURCE_BYTES) {
        Ok(source) => source,
        Err(error) => {
            let why = format!("cannot read {}: {error}", terminal(path));
            return Err(SelectError::Selector(why));
        }
    };
    match scenario::load_scenario(&name_of(Path::new(path)), path, &source, &kernel_names()) {
        Ok(mut scenario) => {
            // A copy of a built-in file runs no code of the user's own.
            if scenario.has_python_lines() && !embedded_files().any(|file| file.source == source) {
                scenario.hazards.push(Hazard::Code);
            }
            Ok(scenario)
        }
        Err(diagnostics) => Err(SelectError::Invalid(vec![Invalid {
            path: path.to_string(),
            source,
            diagnostics,
        }])),
    }
}

/// Returns the scenario's name for a path: `<folder>/<file>` without the suffix.
pub fn name_of(path: &Path) -> String {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = full
        .parent()
        .and_then(Path::file_name)
        .unwrap_or("local".as_ref());
    format!(
        "{}/{}",
        folder.to_string_lossy(),
        full.file_stem().unwrap_or_default().to_string_lossy()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_files_are_shown_with_their_lines() {
        let source = "question = \"Is it?\"\nbelif = \"It is.\"\n".to_string();
        let diagnostics = scenario::load_scenario("a/b", "b.toml", &source, &[]).unwrap_err();
        let error = SelectError::Invalid(vec![Invalid {
            path: "b.toml".to_string(),
            source,
            diagnostics,
        }]);
        assert!(
            error
                .to_string()
                .contains("b.toml:2:1: unknown key `belif`"),
            "{error}"
        );
        assert!(error.render(false).contains("did you mean `belief`?"));
    }

    #[test]
    fn thousands_of_errors_are_counted_and_not_shown() {
        let steps: String = (0..90).map(|n| format!("{{ cuX{n} = {{}} }},")).collect();
        let source = format!(
            "question = \"Is it?\"\nbelief = \"It is.\"\neffect = []\n[cases.trap]\ndoes = \"x\"\nsteps = [{steps}]\n"
        );
        let diagnostics = scenario::load_scenario("a/b", "b.toml", &source, &[]).unwrap_err();
        let count = 30 * diagnostics.len();
        assert!(count > 2_000, "{count}");
        let file = Invalid {
            path: "b.toml".to_string(),
            source,
            diagnostics,
        };
        let error = SelectError::Invalid(vec![file; 30]);
        assert!(
            error
                .render(false)
                .ends_with(&format!("\n\nand {} more errors", count - MOST_SHOWN))
        );
        assert_eq!(error.to_string().lines().count(), MOST_SHOWN + 1);
    }

    #[test]
    fn python_lines_of_a_file_of_the_users_own_are_code() {
        let file = embedded_files()
            .find(|file| file.source.contains("{ py = "))
            .expect("a scenario has Python lines");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.toml");
        let hazards = |source: &str| {
            std::fs::write(&path, source).unwrap();
            load_file(path.to_str().unwrap()).unwrap().hazards
        };
        assert_eq!(hazards(file.source), []);
        assert_eq!(
            hazards(&format!("{}\n# changed", file.source)),
            [Hazard::Code]
        );
        let other = embedded_files()
            .find(|file| !file.source.contains("{ py = "))
            .unwrap();
        assert!(!hazards(&format!("{}\n# changed", other.source)).contains(&Hazard::Code));
    }

    #[test]
    fn a_file_is_named_after_its_folder() {
        assert_eq!(
            name_of(Path::new("/somewhere/context/a-b.toml")),
            "context/a-b"
        );
    }
}
