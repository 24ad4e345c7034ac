//! A file that people write: its tree with the place of every part, reading typed values out of it,
//! and what is wrong with it, each error at its place.

pub(crate) mod diagnostic;
pub(crate) mod reader;
pub(crate) mod schema;
pub(crate) mod size;
pub(crate) mod tree;

pub use diagnostic::Diagnostic;
