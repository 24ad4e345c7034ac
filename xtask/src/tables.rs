//! The parts made from the tables of frameworks and variables: the plugin's data, and the names in scenarios/README.md.

use cuda_pitfalls::scenario::environment::{framework_prefixes, in_scenarios, launcher_variables};
use cuda_pitfalls::scenario::framework::frameworks;

use crate::TaskError;

/// The page of scenarios, whose names of variables are made.
pub const SCENARIOS: &str = "scenarios/README.md";
/// The module of the plugin of pytest.
pub const PLUGIN: &str = "python/pytest/src/pytest_cuda_pitfalls/frameworks.py";

/// Returns the frameworks for the pytest plugin, in Python: it is installed without the program's data.
pub fn plugin_tables() -> String {
    let mut packages = String::new();
    for name in frameworks().iter().flat_map(|one| &one.packages) {
        packages += &format!("        {name:?},\n");
    }
    format!(
        "\"\"\"The frameworks, made of scenarios/frameworks.toml by `cargo xtask bless`.\"\"\"\n\n\
         #: Packages whose own lines are the way to CUDA, and not whose line it is.\n\
         PACKAGES = frozenset(\n    (\n{packages}    )\n)\n"
    )
}

/// Returns the page of scenarios with today's names of variables.
///
/// # Errors
/// Returns an error if a pair of comments is missing.
pub fn in_scenarios_readme(page: &str) -> Result<String, TaskError> {
    let names = listed(in_scenarios());
    let of_frameworks = format!(
        "A case of Python lines may name variables of frameworks too: those that begin with {}, and {}.",
        listed(framework_prefixes()),
        listed(launcher_variables()),
    );
    replace_part(page, "variables", &format!("{names}.\n\n{of_frameworks}"))
}

fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns a page with the part between two comments replaced.
///
/// # Errors
/// Returns an error if a comment is missing.
pub(crate) fn replace_part(text: &str, name: &str, made: &str) -> Result<String, TaskError> {
    let (from, to) = (format!("<!-- made: {name} -->\n"), "\n<!-- end -->");
    let missing = || {
        format!(
            "the page has no `{}` with a `{}` behind it",
            from.trim_end(),
            to.trim_start()
        )
    };
    let (head, rest) = text.split_once(&from).ok_or_else(missing)?;
    let (_, tail) = rest.split_once(to).ok_or_else(missing)?;
    Ok(format!("{head}{from}{made}{to}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_comments_changes() {
        let text = "before\n<!-- made: names -->\nold\n<!-- end -->\nafter\n";
        let made = "before\n<!-- made: names -->\nnew\n<!-- end -->\nafter\n";
        assert_eq!(replace_part(text, "names", "new").unwrap(), made);
        assert!(replace_part(text, "others", "new").is_err());
    }
}
