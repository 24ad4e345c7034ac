//! Tests with requirements that not every machine meets. If one is missing, the test is listed as ignored, with what is
//! missing.

use libtest_mimic::{Completion, Failed, Trial};

/// A test, and what this machine lacks to run it; `None` if nothing is missing.
#[derive(Clone)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) missing: Option<String>,
    pub(crate) run: fn(),
}

pub(crate) fn trial(group: &str, test: Test) -> Trial {
    Trial::ignorable_test(format!("{group}::{}", test.name), move || {
        match test.missing {
            Some(missing) => Ok(Completion::ignored_with(missing)),
            None => caught(test.run).map(|()| Completion::Completed),
        }
    })
}

/// Returns the message of a test when it fails.
fn caught(test: fn()) -> Result<(), Failed> {
    std::panic::catch_unwind(test).map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_default()
            .into()
    })
}

/// Returns what is missing if this program is not on PATH.
pub(crate) fn missing(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    (!is_there).then(|| format!("{program} is not installed"))
}
