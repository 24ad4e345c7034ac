//! Python lines: the format of a step with a line, its result, and the other steps that a case may have.

use cuda_pitfalls_calls::{CallLibrary, status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The source of the worker, without the names of statuses.
const WORKER: &str = include_str!("python/worker.py");

/// Returns the worker program for Python lines, for any interpreter from [`OLDEST`] on.
pub fn worker() -> String {
    let names = status::table(CallLibrary::Driver).iter();
    let names: String = names
        .map(|(code, name)| format!("    {code}: {name:?},\n"))
        .collect();
    WORKER.replacen("STATUSES = {}", &format!("STATUSES = {{\n{names}}}"), 1)
}

/// The oldest Python version that the worker supports.
pub const OLDEST: (u32, u32) = (3, 8);

/// The requirements of a case for its interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Python {
    /// Packages with their version ranges, such as `torch >= 2.0`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// The `call` of a step that is a Python line.
pub const LINE: &str = "py";
/// The argument that is the text of the line.
pub const LINE_TEXT: &str = "line";
/// The argument with the name of the line's value.
pub const LINE_VALUE: &str = "as_value";
/// The argument that is present if the value may differ from attempt to attempt.
pub const LINE_VARIES: &str = "varies";
/// The value of a line that raised: the first line of the exception's text.
pub const LINE_MESSAGE: &str = "message";

/// The other steps that a case of Python lines may contain; the interpreter makes them.
pub const STEPS: [&str; 11] = [
    "mark",
    "setenv",
    "unsetenv",
    "getenv",
    "getpid",
    "nanosleep",
    "pthread_create",
    "pthread_join",
    "fork",
    "waitpid",
    "seccomp",
];

/// The status of a line that did not raise.
pub const OK: &str = "OK";

/// The form of an exception's name, for schemas. C's names of statuses have underscores or begin with a lower-case
/// letter.
pub const EXCEPTION: &str = "^[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*$";

/// Returns `true` if a text can be the name of an exception, as defined by [`EXCEPTION`].
pub fn is_exception(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.bytes().all(|b| b.is_ascii_alphanumeric())
        && name.bytes().any(|b| b.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(name: &str) -> Vec<&'static str> {
        let (_, table) = WORKER
            .split_once(&format!("\n{name} = {{\n"))
            .expect("the worker has the table");
        let (table, _) = table.split_once("\n}").expect("the table ends");
        table
            .lines()
            .filter_map(|row| row.trim().split_once(':').map(|(key, _)| key))
            .collect()
    }

    #[test]
    fn the_worker_makes_the_steps_that_a_case_may_have() {
        let made: Vec<&str> = keys("ACTIONS")
            .into_iter()
            .map(|key| key.trim_matches('"'))
            .collect();
        assert_eq!(made, STEPS);
        assert!(
            STEPS
                .iter()
                .all(|name| cuda_pitfalls_calls::find(name).is_some())
        );
    }

    #[test]
    fn the_worker_knows_statuses_by_their_names() {
        assert!(worker().contains("\nSTATUSES = {\n    0: \"CUDA_SUCCESS\",\n"));
    }

    #[test]
    fn the_worker_takes_the_arguments_by_their_names() {
        for name in [LINE, LINE_TEXT, LINE_VALUE, LINE_VARIES, LINE_MESSAGE, OK] {
            assert!(WORKER.contains(&format!("\"{name}\"")), "{name}");
        }
    }

    #[test]
    fn statuses_of_c_are_no_exceptions() {
        for name in ["RuntimeError", "CUDARuntimeError", "Empty", "SystemExit"] {
            assert!(is_exception(name), "{name}");
        }
        for name in ["OK", "CUDA_SUCESS", "cudaSuccess", "runtime error", ""] {
            assert!(!is_exception(name), "{name}");
        }
    }
}
