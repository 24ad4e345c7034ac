//! Choosing among the questions of a survey, by name, glob or group.

use super::super::error::RunError;
use super::SurveyOptions;
use crate::argument;
use cuda_pitfalls_answers::survey::needs::NeedsProgram;
use cuda_pitfalls_answers::survey::python::PythonLine;
use cuda_pitfalls_answers::survey::{Item, SurveyKind};
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::scenario::nearest_name;
use cuda_pitfalls_core::text::escape;

/// Refuses options that exclude each other, before the machine is touched.
pub(in crate::run) fn check(options: &SurveyOptions) -> Result<(), RunError> {
    check_kind(options)?;
    let SurveyOptions { asked, python, .. } = options;
    let is_of_lines = options.kind.kind_file().takes("--jobs");
    refuse_first([
        (
            !python.requests.is_empty() && python.keep_traces,
            "--keep-traces: the traces of an environment go with its folder; ask without --with",
        ),
        (
            !python.requests.is_empty() && asked.repeat.is_some(),
            "--repeat: with --with, every witness is asked a line once",
        ),
        (
            python.rows.is_some() && python.allow.is_empty(),
            "--rows: the file's lines are code that did not come with this program; read it, and allow it by --allow \
             code",
        ),
        (
            python.environments.is_some() && python.allow.is_empty(),
            "--environments: the file says which packages are installed and run, wherever they come from; read it, and \
             allow it by --allow code",
        ),
        (
            is_of_lines && !asked.libcudart.is_empty(),
            "--libcudart: a line of Python takes the libcudart of its framework",
        ),
        (
            is_of_lines && asked.libcuda.is_some(),
            "--libcuda: a line of Python runs under a trace, which takes the loader's libcuda; ask without it",
        ),
    ])
}

/// Refuses options of another kind of survey.
fn check_kind(options: &SurveyOptions) -> Result<(), RunError> {
    let SurveyOptions {
        kind,
        asked,
        python,
        selectors,
        ..
    } = options;
    let file = kind.kind_file();
    let mut frameworks = NeedsProgram::ALL
        .into_iter()
        .filter(|program| program.is_framework());
    let needs_python =
        *kind == SurveyKind::Needs && frameworks.any(|program| program.is_chosen(selectors));
    refuse_first([
        (
            options.generate > 0 && !file.takes("--generate"),
            "--generate belongs to `survey mask`",
        ),
        (
            options.visible_gpus != 1 && !file.takes("--visible-gpus"),
            "--visible-gpus belongs to `survey calls`",
        ),
        (
            asked.libcudart.len() > 1 && !file.takes("--libcudart"),
            "--libcudart given several times belongs to `survey calls` and `survey startup`",
        ),
        (
            asked.python.is_some() && !needs_python && !file.takes("--python"),
            "--python belongs to `survey python`",
        ),
        (
            python.jobs.is_some() && !file.takes("--jobs"),
            "--jobs belongs to `survey python`",
        ),
        (
            python.timeout.is_some() && !file.takes("--timeout"),
            "--timeout belongs to `survey python`",
        ),
        (
            python.keep_traces && !file.takes("--keep-traces"),
            "--keep-traces belongs to `survey python`",
        ),
        (
            !python.requests.is_empty() && !file.takes("--with"),
            "--with, --releases, --environments and --latest belong to `survey python`",
        ),
        (
            python.newest.is_some() && !file.takes("--with"),
            "--newest belongs to `survey python`",
        ),
        (
            !python.allow.is_empty() && !file.takes("--rows"),
            "--allow belongs to `survey python`",
        ),
        (
            argument::size(defaults::ENVIRONMENTS_SIZE) != Ok(python.disk) && !file.takes("--with"),
            "--disk belongs to `survey python`",
        ),
        (
            python.rows.is_some() && !file.takes("--rows"),
            "--rows belongs to `survey python`",
        ),
    ])
}

/// The first of these refusals that applies.
pub(super) fn refuse_first<T: Into<String>>(
    refusals: impl IntoIterator<Item = (bool, T)>,
) -> Result<(), RunError> {
    match refusals.into_iter().find(|(applies, _)| *applies) {
        Some((_, why)) => Err(RunError::Usage(why.into())),
        None => Ok(()),
    }
}

pub(in crate::run) trait Selectable {
    /// Its name, which is unique.
    fn key(&self) -> String;

    /// Names of groups to which it belongs.
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

/// The questions that match a selector, without those that match a selector with `!`. If all selectors have `!`, they
/// are taken out of all questions.
pub(in crate::run) fn choose_items<C: Selectable>(
    mut items: Vec<C>,
    selectors: &[String],
) -> Result<Vec<C>, RunError> {
    check_meaning(&items, selectors)?;
    items.retain(|item| is_chosen(item, selectors));
    if items.is_empty() {
        let why = "the selectors leave nothing to ask";
        return Err(RunError::Usage(why.to_string()));
    }
    Ok(items)
}

/// Whether the selectors choose a question: those without `!` name it, or there are none, and none with `!` means it.
pub(super) fn is_chosen<C: Selectable>(item: &C, selectors: &[String]) -> bool {
    let (without, with): (Vec<&String>, Vec<&String>) = selectors
        .iter()
        .partition(|selector| selector.starts_with('!'));
    let is_named = with.is_empty() || with.iter().any(|selector| is_meant(item, selector));
    is_named && !without.iter().any(|selector| is_meant(item, selector))
}

/// Refuses selectors that match none of these questions.
pub(super) fn check_meaning<C: Selectable>(
    items: &[C],
    selectors: &[String],
) -> Result<(), RunError> {
    match selectors
        .iter()
        .find(|selector| !items.iter().any(|item| is_meant(item, selector)))
    {
        Some(selector) => Err(unknown(items, plain_selector(selector))),
        None => Ok(()),
    }
}

/// The selector without its `!`.
fn plain_selector(selector: &str) -> &str {
    selector.strip_prefix('!').unwrap_or(selector)
}

/// Whether a question is what a selector names, with or without `!`.
fn is_meant<C: Selectable>(item: &C, selector: &str) -> bool {
    let selector = plain_selector(selector);
    let pattern = if selector.contains(['*', '?']) {
        glob::Pattern::new(selector).ok()
    } else {
        None
    };
    let is_matched = |name: &str| {
        pattern
            .as_ref()
            .is_some_and(|pattern| pattern.matches(name))
    };
    let key = item.key();
    // The key of a mask is quoted, but selectors need no quotes.
    let unquoted = key
        .strip_prefix('"')
        .and_then(|key| key.strip_suffix('"'))
        .unwrap_or(&key);
    let of_set = item
        .groups()
        .iter()
        .any(|group| group.eq_ignore_ascii_case(selector) || is_matched(group));
    of_set || [&key, unquoted].contains(&selector) || is_matched(unquoted)
}

fn unknown<C: Selectable>(items: &[C], selector: &str) -> RunError {
    let keys: Vec<String> = items.iter().map(Selectable::key).collect();
    let sets = items.iter().flat_map(Selectable::groups);
    let near = nearest_name(selector, keys.iter().map(String::as_str).chain(sets));
    let near = near
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    RunError::Usage(format!(
        "this survey asks nothing about `{}`{near}",
        escape::terminal(selector)
    ))
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
            "this survey asks nothing about `cuInot`; did you mean `cuInit`?"
        );
        assert!(
            keys(&["!cuInot"])
                .unwrap_err()
                .to_string()
                .contains("`cuInot`")
        );
        assert_eq!(
            keys(&["cuInit", "!cuI*"]).unwrap_err().to_string(),
            "the selectors leave nothing to ask"
        );
    }
}
