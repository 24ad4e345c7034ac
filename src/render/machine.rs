//! Forms for programs. Each is made of a small list that reports, traces and fleets give, and escapes its texts itself.

pub(crate) mod csv;
pub(crate) mod github;
pub(crate) mod junit;
pub(crate) mod prometheus;

/// Messages are cut to this many bytes, because CI systems load a file whole.
const LIMIT: usize = 4096;

/// A line of the user's own code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UserLine {
    /// The file, relative to the folder that the program was started in where it lies below it.
    pub(crate) file: String,
    pub(crate) line: Option<u32>,
}
