//! The environments to test: `scenarios/surveys/releases.toml`, a file of the same format, or words of the command
//! line.

use std::collections::BTreeSet;

use serde::Deserialize;
use toml::Spanned;

use crate::survey::read_list;
use cuda_pitfalls_core::catalogue::Invalid;

const PATH: &str = "scenarios/surveys/releases.toml";

/// An environment to create and to test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentRequest {
    /// The package that the environment is about.
    pub package: String,
    /// Version of that package; empty if the installer chooses it.
    pub version: String,
    /// Version or path of the interpreter; `None` if the installer chooses it.
    pub python: Option<String>,
    /// Other requirements to install.
    #[serde(default)]
    pub also: Vec<String>,
    /// Latest publication date of packages, as RFC 3339 or `2025-11-20`.
    pub newest: Option<String>,
    /// `true` if this version is forced, whatever other packages require.
    #[serde(default)]
    pub forced: bool,
    /// `true` if packages may be built from source, which runs their code.
    #[serde(default)]
    pub build: bool,
}

/// Reason why words of the command line do not describe an environment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The text is empty.
    #[error("it names no package; write one as in --with \"torch==2.9.1\"")]
    Empty,
    /// The first word is not a package with one version.
    #[error("invalid package `{0}`: expected NAME or NAME==VERSION")]
    NoPackage(String),
    /// An option of the installer is not a requirement.
    #[error("invalid requirement `{0}`")]
    NoRequirement(String),
}

impl EnvironmentRequest {
    /// Parses words such as `torch==2.9.1 numpy<2`: the environment is about the first package.
    ///
    /// # Errors
    /// Returns an error if they do not describe an environment.
    pub fn parse(text: &str) -> Result<EnvironmentRequest, RequestError> {
        let mut words = text.split_whitespace().map(str::to_string);
        let first = words.next().ok_or(RequestError::Empty)?;
        let (package, version) = first.split_once("==").unwrap_or((&first, ""));
        let is_version = version
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ".+!-_".contains(c));
        if !is_name(package) || !is_version || (first.contains("==") && version.is_empty()) {
            return Err(RequestError::NoPackage(first));
        }
        let also: Vec<String> = words.collect();
        match also.iter().find(|word| !is_requirement(word)) {
            Some(word) => Err(RequestError::NoRequirement(word.clone())),
            None => Ok(EnvironmentRequest {
                package: package.to_string(),
                version: version.to_string(),
                also,
                ..EnvironmentRequest::default()
            }),
        }
    }

    /// Returns the request of a file, if its words would be valid on the command line.
    fn check_words(self) -> Result<EnvironmentRequest, RequestError> {
        let EnvironmentRequest {
            package,
            version,
            python,
            also,
            newest,
            forced,
            build,
        } = self;
        let words = format!("{package}=={version} {}", also.join(" "));
        EnvironmentRequest::parse(&words).map(|request| EnvironmentRequest {
            python,
            newest,
            forced,
            build,
            ..request
        })
    }

    /// Returns its name, such as `torch 2.9.1`; without the version if the installer chooses it.
    pub fn name(&self) -> String {
        format!("{} {}", bare_name(&self.package), self.version)
            .trim_end()
            .to_string()
    }

    /// Returns the requirements for the installer.
    pub fn install_requirements(&self) -> Vec<String> {
        let own = match self.version.as_str() {
            "" => self.package.clone(),
            version => format!("{}=={version}", self.package),
        };
        [own].into_iter().chain(self.also.iter().cloned()).collect()
    }
}

/// Returns a requirement's name, without extras and versions: `jax[cuda12]==0.5` is `jax`.
pub fn bare_name(requirement: &str) -> &str {
    let end = requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
    requirement
        .get(..end.unwrap_or(requirement.len()))
        .unwrap_or_default()
}

/// Returns a package's name in the form of PEP 503.
pub fn normalize_name(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

fn is_requirement(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && !text.contains(['/', '@', '\\'])
}

fn is_name(text: &str) -> bool {
    let rest = text.strip_prefix(bare_name(text)).unwrap_or_default();
    let is_extra =
        rest.is_empty() || (rest.starts_with('[') && rest.ends_with(']') && rest.len() > 2);
    is_requirement(text) && is_extra && !bare_name(text).is_empty()
}

/// Returns the built-in list.
///
/// # Errors
/// Returns the errors of the list, with their places.
pub fn built_in() -> Result<Vec<EnvironmentRequest>, Invalid> {
    read(PATH, cuda_pitfalls_scenarios::survey("releases"))
}

/// Parses a list.
///
/// # Errors
/// Returns the first error, with its place in `path`.
pub fn read(path: &str, source: &str) -> Result<Vec<EnvironmentRequest>, Invalid> {
    read_list(path, source, |file: EnvironmentsFile, _| {
        let (mut all, mut known) = (Vec::new(), BTreeSet::new());
        for entry in file.environment {
            let (span, written) = (entry.span(), entry.into_inner());
            let request = written
                .check_words()
                .map_err(|error| (span.clone(), error.to_string()))?;
            if !known.insert(request.name()) {
                return Err((span, format!("`{}` occurs twice", request.name())));
            }
            all.push(request);
        }
        Ok(all)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvironmentsFile {
    environment: Vec<Spanned<EnvironmentRequest>>,
}
