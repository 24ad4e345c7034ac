//! What pages of HTML have beside their blocks: their frame, a filter of rows and their orders.

pub(crate) mod filter;
pub(crate) mod page;
pub(crate) mod sort;
