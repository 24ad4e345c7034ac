//! Reason why there is no reproducer.

/// Reason why a scenario cannot be written as a self-contained program, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExportError(pub String);

/// The result of writing a part of a program.
pub(super) type Done = Result<(), ExportError>;

impl ExportError {
    pub(super) fn new(why: impl Into<String>) -> ExportError {
        ExportError(why.into())
    }
}
