//! The parts of HTML pages other than their blocks: the frame and a filter of rows.

pub(crate) mod filter;
pub(crate) mod page;
