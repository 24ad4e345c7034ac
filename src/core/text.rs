//! Text processing: making foreign text harmless, breaking lines, and writing numbers and counts for people. It uses no
//! other module of the program, and every module may use it.

pub mod counts;
pub mod escape;
pub mod json;
pub mod lines;
pub mod redact;
pub mod units;
pub mod versions;
