//! What many made-up machines come to.
