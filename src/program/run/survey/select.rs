//! Choosing among the questions of a survey, by name, glob or group.

use super::super::error::RunError;
use super::{SurveyOptions, SurveySubject};
use clap::ValueEnum;

use cuda_pitfalls_answers::releases::ImportedPackage;
use cuda_pitfalls_answers::survey::needs::NeedsProgram;
use cuda_pitfalls_answers::survey::python::PythonLine;
use cuda_pitfalls_answers::survey::{Item, SurveyKind};
use cuda_pitfalls_core::scenario::nearest_name;
use cuda_pitfalls_core::text::escape;

/// Rejects options that exclude each other, before the machine is touched.
pub(in crate::run) fn check(options: &SurveyOptions) -> Result<(), RunError> {
    let SurveyOptions {
        kind: subject,
        asked,
        python,
        ..
    } = options;
    let kind = &subject.kind();
    let file = kind.kind_file();
    let is_of_lines = file.takes("--jobs");
    let is_in_environments = !python.requests.is_empty() || *subject == SurveySubject::Imports;
    let allows_code = !python.allow.is_empty();
    let why = if asked.libcudart.len() > 1 && !file.takes("--libcudart") {
        let takers = name_takers("--libcudart").unwrap_or_default();
        return Err(RunError::Usage(format!(
            "--libcudart given several times belongs to {takers}"
        )));
    } else if asked.python.is_some() && *kind == SurveyKind::Needs && !asks_framework(options) {
        "--python: no framework is asked what it needs, and nothing else runs Python"
    } else if is_in_environments && python.keep_traces {
        "--keep-traces: the traces of an environment go with its folder; ask without --with"
    } else if is_in_environments && asked.repeat.is_some() {
        "--repeat: in an environment, each line runs once with each driver"
    } else if python.rows.is_some() && !allows_code {
        "--rows: the file's lines are code that did not come with this program; read it, and allow it by --allow code"
    } else if python.environments.is_some() && !allows_code {
        "--environments: the file says which packages are installed and run, wherever they come from; read it, and \
         allow it by --allow code"
    } else if is_of_lines && !asked.libcudart.is_empty() {
        "--libcudart: a line of Python takes the libcudart of its framework"
    } else if is_of_lines && asked.libcuda.is_some() {
        "--libcuda: a line of Python runs under a trace, which takes the loader's libcuda; ask without it"
    } else {
        return Ok(());
    };
    Err(RunError::Usage(why.to_string()))
}

fn asks_framework(options: &SurveyOptions) -> bool {
    let mut programs = NeedsProgram::ALL.into_iter();
    programs.any(|program| program.is_framework() && program.is_chosen(&options.selectors))
}

/// Returns the surveys that have an option, if only some kinds have it: `survey calls` and `survey startup`.
pub(crate) fn name_takers(option: &str) -> Option<String> {
    let mut takers = Vec::new();
    for subject in SurveySubject::value_variants() {
        if subject.takes(option) {
            takers.push(format!("`survey {}`", subject.name()));
        }
    }
    let last = takers.pop()?;
    if takers.is_empty() {
        return Some(last);
    }
    Some(format!("{} and {last}", takers.join(", ")))
}

pub(in crate::run) trait Selectable {
    /// Returns its name, which is unique.
    fn key(&self) -> String;

    /// Returns the names of the groups that it belongs to.
    fn groups(&self) -> Vec<&str>;
}

impl Selectable for Item {
    fn key(&self) -> String {
        self.row.key.clone()
    }

    fn groups(&self) -> Vec<&str> {
        self.sets.iter().map(String::as_str).collect()
    }
}

impl Selectable for ImportedPackage {
    fn key(&self) -> String {
        self.name.clone()
    }

    fn groups(&self) -> Vec<&str> {
        self.lines.iter().map(String::as_str).collect()
    }
}

impl Selectable for PythonLine {
    fn key(&self) -> String {
        self.id.clone()
    }

    fn groups(&self) -> Vec<&str> {
        let returned = self
            .returned
            .as_ref()
            .map(|returned| [returned.place.as_str(), returned.status.as_str()]);
        [self.framework.as_str()]
            .into_iter()
            .chain(returned.into_iter().flatten())
            .collect()
    }
}

/// Returns the questions that match a selector, without those that match a selector with `!`. If all selectors have
/// `!`, these are removed from all questions.
pub(in crate::run) fn choose_items<C: Selectable>(
    mut items: Vec<C>,
    selectors: &[String],
) -> Result<Vec<C>, RunError> {
    check_meaning(&items, selectors)?;
    items.retain(|item| is_chosen(item, selectors));
    if items.is_empty() {
        let why = "the selectors exclude everything";
        return Err(RunError::Usage(why.to_string()));
    }
    Ok(items)
}

/// Returns `true` if the selectors choose a question: one without `!` matches it, or all selectors have `!`; and no
/// selector with `!` matches it.
pub(super) fn is_chosen<C: Selectable>(item: &C, selectors: &[String]) -> bool {
    let (mut has_names, mut is_named) = (false, false);
    for selector in selectors {
        let is_meant = is_meant(item, selector);
        if !selector.starts_with('!') {
            has_names = true;
            is_named |= is_meant;
        } else if is_meant {
            return false;
        }
    }
    is_named || !has_names
}

/// Rejects selectors that do not match any of these questions.
pub(super) fn check_meaning<C: Selectable>(
    items: &[C],
    selectors: &[String],
) -> Result<(), RunError> {
    for selector in selectors {
        if !items.iter().any(|item| is_meant(item, selector)) {
            return Err(unknown(items, plain_selector(selector)));
        }
    }
    Ok(())
}

/// Returns the selector without its `!`.
fn plain_selector(selector: &str) -> &str {
    selector.strip_prefix('!').unwrap_or(selector)
}

/// Returns `true` if a selector matches a question, with or without its `!`.
fn is_meant<C: Selectable>(item: &C, selector: &str) -> bool {
    let selector = plain_selector(selector);
    let pattern = if selector.contains(['*', '?']) {
        glob::Pattern::new(selector).ok()
    } else {
        None
    };
    let is_matched = |name: &str| match &pattern {
        Some(pattern) => pattern.matches(name),
        None => false,
    };
    for group in item.groups() {
        if group.eq_ignore_ascii_case(selector) || is_matched(group) {
            return true;
        }
    }
    let key = item.key();
    // The key of a mask is quoted, but selectors need no quotes.
    let quoted = key.strip_prefix('"');
    let unquoted = quoted.and_then(|key| key.strip_suffix('"')).unwrap_or(&key);
    [&key, unquoted].contains(&selector) || is_matched(unquoted)
}

fn unknown<C: Selectable>(items: &[C], selector: &str) -> RunError {
    let keys: Vec<String> = items.iter().map(Selectable::key).collect();
    let sets = items.iter().flat_map(Selectable::groups);
    let near = nearest_name(selector, keys.iter().map(String::as_str).chain(sets));
    let hint = match near {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    let selector = escape::terminal(selector);
    RunError::Usage(format!("this survey has nothing like `{selector}`{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_answers::survey::calls;

    fn keys(selectors: &[&str]) -> Result<Vec<String>, RunError> {
        let selectors: Vec<String> = selectors
            .iter()
            .map(|selector| (*selector).to_string())
            .collect();
        let recipes = calls::load_recipes(1)
            .expect("the recipes are read")
            .calls
            .into_iter();
        let items = choose_items(recipes.map(calls::Recipe::into_item).collect(), &selectors)?;
        Ok(items.into_iter().map(|item| item.row.key).collect())
    }

    #[test]
    fn a_set_and_the_rest_are_all() {
        let all = keys(&["cuda*"]).unwrap();
        let (set, rest) = (
            keys(&["start-up"]).unwrap(),
            keys(&["!start-up", "cuda*"]).unwrap(),
        );
        assert!(set.len() > 50 && rest.len() > 50);
        assert!(
            all.iter()
                .all(|key| set.contains(key) != rest.contains(key)),
            "{set:?} {rest:?}"
        );
        assert_eq!(all.len(), set.len() + rest.len());
    }

    #[test]
    fn what_is_left_out_is_left_out_of_all_if_nothing_was_named() {
        let all = keys(&[]).unwrap();
        assert_eq!(
            keys(&["!cuda*"]).unwrap().len(),
            all.iter().filter(|key| !key.starts_with("cuda")).count()
        );
    }

    #[test]
    fn selectors_that_mean_nothing_are_refused() {
        assert_eq!(
            keys(&["cuInot"]).unwrap_err().to_string(),
            "this survey has nothing like `cuInot`; did you mean `cuInit`?"
        );
        assert!(
            keys(&["!cuInot"])
                .unwrap_err()
                .to_string()
                .contains("`cuInot`")
        );
        assert_eq!(
            keys(&["cuInit", "!cuI*"]).unwrap_err().to_string(),
            "the selectors exclude everything"
        );
    }
}
