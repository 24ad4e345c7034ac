//! Reading of a list of questions, with the place of every error.

use std::ops::Range;

use serde::de::DeserializeOwned;

use cuda_pitfalls_core::catalogue::{Invalid, kernel_names};
use cuda_pitfalls_core::scenario::{Diagnostic, Excerpts};

/// Returns the content of a list. `read` returns the first error and its place in the file.
///
/// # Errors
/// Returns the errors of the list, with their places.
pub(crate) fn read_list<F: DeserializeOwned, T>(
    path: &str,
    source: &str,
    read: impl FnOnce(F, &mut Excerpts<'_>) -> Result<T, (Range<usize>, String)>,
) -> Result<T, Invalid> {
    let kernels = kernel_names();
    let mut excerpts = Excerpts::new(path, source, &kernels);
    let file = toml::from_str(source).map_err(|error| {
        (
            error.span().unwrap_or_default(),
            error.message().to_string(),
        )
    });
    let content = match file.and_then(|file| read(file, &mut excerpts)) {
        Ok(content) => excerpts.finish().map(|()| content),
        Err((span, message)) => Err(vec![Diagnostic {
            file: path.to_string(),
            span,
            message,
            help: None,
            context: None,
        }]),
    };
    content.map_err(|diagnostics| Invalid {
        path: path.to_string(),
        source: source.to_string(),
        diagnostics,
    })
}
