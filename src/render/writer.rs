//! The writers: a view's blocks as text for people. They escape every text of every block, and nothing else does.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

#[cfg(test)]
mod tests;
