//! The parent's side: starts processes, waits for them with deadlines, and ends them. This module is the only user of
//! duct.
//!
//! The parent never loads CUDA or NVML, so a hung driver can block a worker or the sampler but never the harness. It
//! runs one loop on one thread: every wait is a `poll` with a deadline on every possible event (a line on a channel, an
//! exit, output, Ctrl-C). Only filters are answered by a separate thread (`watch`).

mod attempt;
mod conversation;
mod end;
mod environment;
mod errand;
mod error;
mod examine;
mod interpreter;
mod launch;
mod libraries;
mod output;
mod reading;
mod receive;
pub mod role;
mod sampling;
mod spawn;
mod state;
mod versions;
mod watch;

pub use crate::interrupt::{Interrupt, is_ignored, is_overdue, signal_name};
pub(crate) use end::read_stat;
pub use end::{
    adopt_orphans, children_of, is_alive, process_stat, reap_all, reap_orphans, stray_children,
    to_timespec,
};
pub use errand::{Errand, ErrandEnd};
pub use error::SupervisorError;
pub use examine::{Examined, ask_examiner};
pub use interpreter::{PythonWorker, ask_python};
pub use sampling::SamplerClient;
pub use spawn::{begin_child, begin_fresh, can_watch, handle_on};
pub use state::Supervisor;
pub use versions::versions;
