//! A file that users write: its tree with the location of every part, typed values from the tree, and errors with their
//! locations.

pub mod diagnostic;
pub mod reader;
pub mod schema;
pub mod size;
pub mod tree;

pub use diagnostic::Diagnostic;
