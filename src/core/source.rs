//! A file that people write: its tree with the place of every part, typed values from the tree, and errors with their
//! places.

pub mod diagnostic;
pub mod reader;
pub mod schema;
pub mod size;
pub mod tree;

pub use diagnostic::Diagnostic;
