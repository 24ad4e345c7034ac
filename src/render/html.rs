//! What pages of HTML have beside their blocks: their frame and a filter of rows.

pub(crate) mod filter;
pub(crate) mod page;
