//! A file that people write: its tree with the place of every part, reading typed values out of it,
//! and what is wrong with it, each error at its place.

pub mod diagnostic;
pub mod reader;
pub mod schema;
pub mod size;
pub mod tree;

pub use diagnostic::Diagnostic;
