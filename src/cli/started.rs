//! What every process of a run does before anything else.

use crate::exit::Exit;
use crate::supervisor::{begin, begin_fresh};

/// How a process of a run was started: by the parent, or by a step of a worker, which says nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Started {
    /// The PID of the process that must live.
    #[arg(long)]
    parent: Option<i32>,
    /// A descriptor that it was given; all others are closed.
    #[arg(long)]
    keep: Vec<i32>,
}

impl Started {
    /// Does what such a process does before anything else.
    pub(super) fn begin(&self) {
        match self.parent {
            Some(parent) if !begin(parent, &self.keep) => std::process::exit(Exit::Internal.code()),
            Some(_) => {}
            None => begin_fresh(),
        }
    }
}
