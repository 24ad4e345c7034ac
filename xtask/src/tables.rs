//! What is made of the tables of frameworks and variables: the plugin's data, and the names in scenarios/README.md.

use cuda_pitfalls::scenario::environment::{framework_prefixes, in_scenarios, of_launchers};
use cuda_pitfalls::scenario::framework::frameworks;

use crate::TaskError;
use crate::counts::between;

/// The page of scenarios, whose names of variables are made.
pub const SCENARIOS: &str = "scenarios/README.md";
/// The module of the plugin of pytest.
pub const PLUGIN: &str = "python/pytest/src/pytest_cuda_pitfalls/frameworks.py";

/// The frameworks as the plugin of pytest knows them, in Python: it is installed without the program's data.
pub fn plugin() -> String {
    let packages = frameworks()
        .iter()
        .flat_map(|it| &it.packages)
        .map(|name| format!("        {name:?},\n"));
    let doors = frameworks()
        .iter()
        .flat_map(|it| &it.doors)
        .map(|door| format!("    {:?}: {:?},\n", door.0, door.1));
    format!(
        "\"\"\"The frameworks, made of scenarios/frameworks.toml by `cargo xtask bless`.\"\"\"\n\n\
         #: Packages whose own lines are the way to CUDA, and not whose line it is.\n\
         PACKAGES = frozenset(\n    (\n{}    )\n)\n\
         #: Functions of a framework by which its user's lines come to CUDA, by the module that has them.\n\
         DOORS = {{\n{}}}\n",
        packages.collect::<String>(),
        doors.collect::<String>(),
    )
}

/// The page of scenarios with today's names of variables.
///
/// # Errors
/// A pair of comments is missing.
pub fn in_scenarios_readme(page: &str) -> Result<String, TaskError> {
    let names = listed(in_scenarios());
    let of_frameworks = format!(
        "A case of Python lines may name variables of frameworks too: those that begin with {}, and {}.",
        listed(framework_prefixes()),
        listed(of_launchers()),
    );
    between(page, "variables", &format!("{names}.\n\n{of_frameworks}"))
}

fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
