//! Text, whatever it is about: foreign text made harmless, lines of a given width, numbers and
//! counts as people read them. It depends on nothing else of the program, and every module may use it.

pub mod counts;
pub mod escape;
pub mod json;
pub mod lines;
pub mod redact;
pub mod units;
pub mod versions;
