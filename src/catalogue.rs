//! The scenarios and kernels that come with the program, and choosing among them.

use std::path::Path;

use include_dir::{Dir, include_dir};
use thiserror::Error;

use crate::input;
use crate::render::escape::terminal;
use crate::scenario::{self, Diagnostic, Scenario};

/// What the reader of scenarios takes at most, so that no more of a file is brought into memory.
const MOST_SOURCE_BYTES: u64 = 256 << 10;

static SCENARIOS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/scenarios");
static KERNELS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/kernels");

/// A scenario file that comes with the program, unread.
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
    /// The file, as its diagnostics call it.
    pub path: String,
    /// Its text.
    pub source: String,
    /// What is wrong with it, in order.
    pub diagnostics: Vec<Diagnostic>,
}

/// Why nothing was selected.
#[derive(Debug, Error)]
pub enum SelectError {
    /// A selector is the name, glob, tag or symptom of nothing.
    #[error("nothing is called `{}`{}", terminal(selector), did_you_mean(.nearest))]
    Unknown {
        /// As given.
        selector: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
    /// A selector is the last part of several names.
    #[error("`{}` may be {}", terminal(selector), terminal(&.names.join(" or ")))]
    Ambiguous {
        /// As given.
        selector: String,
        /// The names in full.
        names: Vec<String>,
    },
    /// A selector is a glob that cannot be read.
    #[error("`{}` is no glob: {}", terminal(selector), terminal(message))]
    Glob {
        /// As given.
        selector: String,
        /// What the glob's reader says.
        message: String,
    },
    /// A file that was named cannot be read.
    #[error("cannot read {}: {error}", terminal(path))]
    Unreadable {
        /// As given.
        path: String,
        /// The system's word.
        error: std::io::Error,
    },
    /// Files with errors, a line for each; [`SelectError::render`] shows the text they are about.
    #[error("{}", lines(.0))]
    Invalid(Vec<Invalid>),
}

impl SelectError {
    /// The error as a person reads it: with the offending lines, where it is about files.
    pub fn render(&self, styled: bool) -> String {
        let SelectError::Invalid(files) = self else { return format!("error: {self}") };
        let rendered = files
            .iter()
            .flat_map(|file| file.diagnostics.iter().map(|diagnostic| diagnostic.render(&file.source, styled)));
        rendered.collect::<Vec<_>>().join("\n\n")
    }
}

fn lines(files: &[Invalid]) -> String {
    let lines = files.iter().flat_map(|file| file.diagnostics.iter().map(|diagnostic| diagnostic.line(&file.source)));
    lines.collect::<Vec<_>>().join("\n")
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(
        || "; `cuda-pitfalls list` shows what there is".to_string(),
        |name| format!("; did you mean `{}`?", terminal(name)),
    )
}

/// The scenario files that come with the program, sorted by name.
pub fn embedded() -> impl Iterator<Item = Embedded> {
    let mut all: Vec<Embedded> = SCENARIOS
        .dirs()
        .flat_map(|subject| subject.files())
        .filter_map(|file| {
            let name = file.path().to_str()?.strip_suffix(".toml")?.to_string();
            Some(Embedded { path: format!("scenarios/{name}.toml"), name, source: file.contents_utf8()? })
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.into_iter()
}

/// The PTX of a kernel file that comes with the program, by its name without `.ptx`.
pub fn kernel(name: &str) -> Option<&'static str> {
    KERNELS.get_file(format!("{name}.ptx"))?.contents_utf8()
}

/// The names of the kernel files that come with the program, sorted.
pub fn kernel_names() -> Vec<&'static str> {
    let stem = |path: &'static Path| path.to_str()?.strip_suffix(".ptx");
    let mut names: Vec<&str> = KERNELS.files().filter_map(|file| stem(file.path())).collect();
    names.sort_unstable();
    names
}

/// Reads scenarios by name, name of an instance, glob, tag, symptom, last part of a name, or path of a file.
/// All that come with the program if there is no selector. In the order of the selectors, each once.
pub fn select(selectors: &[String]) -> Result<Vec<Scenario>, SelectError> {
    let mut invalid = Vec::new();
    // A file of the user's own does not depend on the others being good.
    let needs_all = selectors.is_empty() || selectors.iter().any(|selector| !is_path(selector));
    let mut all = Vec::new();
    for Embedded { name, path, source } in embedded().filter(|_| needs_all) {
        match scenario::load(&name, &path, source, &kernel_names()) {
            Ok(scenario) => all.push(scenario),
            Err(diagnostics) => invalid.push(Invalid { path, source: source.to_string(), diagnostics }),
        }
    }
    if !invalid.is_empty() {
        return Err(SelectError::Invalid(invalid));
    }
    if selectors.is_empty() {
        return Ok(all);
    }
    let mut selected = Vec::new();
    for selector in selectors {
        if is_path(selector) {
            match load_file(selector) {
                Ok(scenario) => add(&mut selected, scenario),
                Err(SelectError::Invalid(files)) => invalid.extend(files),
                Err(error) => return Err(error),
            }
        } else {
            for scenario in choose(&all, selector)? {
                add(&mut selected, scenario);
            }
        }
    }
    if invalid.is_empty() { Ok(selected) } else { Err(SelectError::Invalid(invalid)) }
}

fn is_path(selector: &str) -> bool {
    (selector.contains('/') && selector.ends_with(".toml")) || Path::new(selector).is_file()
}

/// Reads a file of the user's own.
pub fn load_file(path: &str) -> Result<Scenario, SelectError> {
    let source = input::read_text(Path::new(path), MOST_SOURCE_BYTES);
    let source = source.map_err(|error| SelectError::Unreadable { path: path.to_string(), error })?;
    let loaded = scenario::load(&name_of(Path::new(path)), path, &source, &kernel_names());
    loaded.map_err(|diagnostics| SelectError::Invalid(vec![Invalid { path: path.to_string(), source, diagnostics }]))
}

/// `<folder>/<file>` without the suffix, as for the scenarios that come with the program.
pub fn name_of(path: &Path) -> String {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let part = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let folder = part(full.parent().and_then(Path::file_name)).unwrap_or_else(|| "local".to_string());
    let stem = part(full.file_stem()).unwrap_or_default();
    format!("{folder}/{stem}")
}

/// Adds a scenario, or the instances that an earlier selector left out.
fn add(selected: &mut Vec<Scenario>, scenario: Scenario) {
    let same = |known: &&mut Scenario| known.name == scenario.name && known.sha256 == scenario.sha256;
    match selected.iter_mut().find(same) {
        Some(known) => {
            for instance in scenario.instances {
                if !known.instances.contains(&instance) {
                    known.instances.push(instance);
                }
            }
        }
        None => selected.push(scenario),
    }
}

/// The scenarios that a selector means, which is at least one.
fn choose(all: &[Scenario], selector: &str) -> Result<Vec<Scenario>, SelectError> {
    if let Some(scenario) = all.iter().find(|scenario| scenario.name == selector) {
        return Ok(vec![scenario.clone()]);
    }
    for scenario in all {
        if let Some(instance) = scenario.instances.iter().find(|instance| instance.name == selector) {
            return Ok(vec![Scenario { instances: vec![instance.clone()], ..scenario.clone() }]);
        }
    }
    let tagged = |scenario: &&Scenario| {
        scenario.tags.iter().chain(&scenario.symptoms).any(|word| word.eq_ignore_ascii_case(selector))
    };
    let mut chosen: Vec<Scenario> = all.iter().filter(tagged).cloned().collect();
    if chosen.is_empty() {
        let of_stem: Vec<&Scenario> = all.iter().filter(|scenario| stem(&scenario.name) == selector).collect();
        if of_stem.len() > 1 {
            let names = of_stem.iter().map(|scenario| format!("`{}`", scenario.name)).collect();
            return Err(SelectError::Ambiguous { selector: selector.to_string(), names });
        }
        chosen = of_stem.into_iter().cloned().collect();
    }
    if chosen.is_empty() && selector.contains(['*', '?']) {
        let pattern = glob::Pattern::new(selector)
            .map_err(|error| SelectError::Glob { selector: selector.to_string(), message: error.to_string() })?;
        chosen = all.iter().filter(|scenario| pattern.matches(&scenario.name)).cloned().collect();
    }
    if chosen.is_empty() {
        return Err(SelectError::Unknown { selector: selector.to_string(), nearest: near(all, selector) });
    }
    Ok(chosen)
}

fn stem(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, stem)| stem)
}

fn near(all: &[Scenario], selector: &str) -> Option<String> {
    let names = all.iter().map(|scenario| scenario.name.as_str());
    let stems = all.iter().map(|scenario| stem(&scenario.name));
    let instances = all.iter().flat_map(|scenario| &scenario.instances).map(|instance| instance.name.as_str());
    let tags = all.iter().flat_map(|scenario| scenario.tags.iter().chain(&scenario.symptoms)).map(String::as_str);
    // Somebody who leaves off the end of a long name is far from it by letters.
    let longer = names.clone().find(|name| name.contains(selector));
    scenario::nearest(selector, names.chain(stems).chain(instances).chain(tags)).or(longer).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
question = "Is it?"
folklore = "It is."
tags = ["A01"]
no_control = "a test"
effect = [ { exit = 0 } ]
[parameters]
q = [1, 2]
[cases.trap]
does = "nothing"
steps = [ { mark = {} } ]
"#;

    fn all() -> Vec<Scenario> {
        let load = |name: &str| scenario::load(name, "test.toml", SOURCE, &[]).unwrap();
        ["context/first", "visibility/first", "visibility/second"].map(load).to_vec()
    }

    fn names(selector: &str) -> Result<Vec<String>, String> {
        let chosen = choose(&all(), selector).map_err(|error| error.to_string())?;
        Ok(chosen.into_iter().map(|scenario| scenario.name).collect())
    }

    #[test]
    fn names_globs_tags_and_stems_select() {
        assert_eq!(names("context/first").unwrap(), ["context/first"]);
        assert_eq!(names("visibility/*").unwrap(), ["visibility/first", "visibility/second"]);
        assert_eq!(names("a01").unwrap().len(), 3);
        assert_eq!(names("second").unwrap(), ["visibility/second"]);
    }

    #[test]
    fn an_instance_is_selected_alone() {
        let chosen = choose(&all(), "context/first[q=2]").unwrap();
        assert_eq!(chosen[0].instances.len(), 1);
        assert_eq!(chosen[0].instances[0].name, "context/first[q=2]");
    }

    #[test]
    fn what_selects_nothing_is_an_error_with_the_nearest_name() {
        assert_eq!(names("first").unwrap_err(), "`first` may be `context/first` or `visibility/first`");
        assert_eq!(
            names("contxt/first").unwrap_err(),
            "nothing is called `contxt/first`; did you mean `context/first`?"
        );
        assert_eq!(names("text/fi").unwrap_err(), "nothing is called `text/fi`; did you mean `context/first`?");
        let nothing = "nothing is called `memory/*`; `cuda-pitfalls list` shows what there is";
        assert_eq!(names("memory/*").unwrap_err(), nothing);
        assert_eq!(names("**a").unwrap_err().split(':').next(), Some("`**a` is no glob"));
    }

    #[test]
    fn instances_of_several_selectors_come_together() {
        let mut selected = Vec::new();
        for selector in ["context/first[q=2]", "context/*"] {
            for scenario in choose(&all(), selector).unwrap() {
                add(&mut selected, scenario);
            }
        }
        assert_eq!(selected.len(), 1);
        assert_eq!(selected[0].instances.len(), 2);
    }

    #[test]
    fn bad_files_are_shown_with_their_lines() {
        let source = SOURCE.replace("folklore", "folklor");
        let diagnostics = scenario::load("a/b", "b.toml", &source, &[]).unwrap_err();
        let error = SelectError::Invalid(vec![Invalid { path: "b.toml".to_string(), source, diagnostics }]);
        assert_eq!(error.to_string(), "b.toml:3:1: unknown key `folklor`");
        assert!(error.render(false).contains("did you mean `folklore`?"));
    }

    #[test]
    fn a_file_is_named_after_its_folder() {
        assert_eq!(name_of(Path::new("/somewhere/context/a-b.toml")), "context/a-b");
    }
}
