//! Forms for programs. Each is made of a small list that reports, traces and fleets give, and escapes its texts itself.

pub(crate) mod github;
pub(crate) mod junit;
pub(crate) mod prometheus;

/// Messages are cut to this many bytes, because CI systems load a file whole.
const LIMIT: usize = 4096;

/// What is said of a line that is not proven to be the one that called.
pub(crate) const BESIDE: &str =
    "Another thread made the call: the program was at this line meanwhile.";

/// A line of the user's own code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UserLine {
    /// The file, relative to the folder that the program was started in where it lies below it.
    pub(crate) file: String,
    pub(crate) line: Option<u32>,
    /// Whether another thread was there meanwhile, and the line is not proven to be the one that called.
    pub(crate) is_beside: bool,
}
