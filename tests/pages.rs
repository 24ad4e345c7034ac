//! Pages in a real browser, as one program.

mod common;

mod fleet_page;
mod report_page;
mod trace_page;

// The fixtures name these as a part of the program does.
use cuda_pitfalls::{diagnosis, fact, fleet, policy, report, sample, trace, verdict};
