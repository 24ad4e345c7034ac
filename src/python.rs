//! Python lines: how a step carries one, what it gives back, and what a case may hold beside them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The program that runs lines, for any interpreter from [`OLDEST`] on.
pub const WORKER: &str = include_str!("python/worker.py");

/// The oldest version of Python that the worker is written for.
pub const OLDEST: (u32, u32) = (3, 8);

/// What a case asks of the interpreter that runs its lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Python {
    /// Packages with the versions that will do, such as `torch >= 2.0`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// The `call` of a step that is a Python line.
pub const LINE: &str = "py";
/// The argument that is the text of the line.
pub const LINE_TEXT: &str = "line";
/// The argument that names the value of the line.
pub const LINE_VALUE: &str = "as_value";
/// The argument that is there if the value may differ from attempt to attempt.
pub const LINE_VARIES: &str = "varies";
/// What a line that raises gives back: the first line of the exception's text.
pub const LINE_MESSAGE: &str = "message";

/// The steps beside [`LINE`] that a case of Python lines may have: each is made in Python.
pub const STEPS: [&str; 10] = [
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
];

/// The status of a line that did not raise.
pub const OK: &str = "OK";

/// The form of an exception's name, for schemas: C's names of statuses have underscores, or begin
/// with a small letter.
pub const EXCEPTION: &str = "^[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*$";

/// Whether a text can be the name of an exception's type, as [`EXCEPTION`] says.
pub fn is_exception(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.bytes().all(|b| b.is_ascii_alphanumeric())
        && name.bytes().any(|b| b.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

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
