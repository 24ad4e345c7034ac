//! Tests that need what not every machine has: without it they are listed as ignored, with what is missing.

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

/// A test, and what this machine lacks to run it; none if it lacks nothing.
#[derive(Clone)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) missing: Option<String>,
    pub(crate) run: fn(),
}

/// Runs the tests as `cargo test` was told to, at most `threads` at a time if it was not told.
pub(crate) fn run(tests: Vec<Test>, threads: Option<usize>) -> Conclusion {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(threads);
    let trials = tests.into_iter().map(|test| {
        Trial::ignorable_test(test.name, move || match test.missing {
            Some(missing) => Ok(Completion::ignored_with(missing)),
            None => caught(test.run).map(|()| Completion::Completed),
        })
    });
    libtest_mimic::run(&arguments, trials.collect())
}

/// What a test says when it fails.
fn caught(test: fn()) -> Result<(), Failed> {
    std::panic::catch_unwind(test).map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default().into()
    })
}

/// What is missing if this program is not on PATH.
pub(crate) fn missing(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    (!is_there).then(|| format!("{program} is not installed"))
}
