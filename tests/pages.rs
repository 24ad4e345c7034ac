//! Pages in a real browser, as one program.

mod common;

mod fleet_page;
mod report_page;
mod trace_page;
