//! `--require`: what a run must have, so that a runner that lost a GPU does not look healthy.

use super::session::Session;
use cuda_pitfalls_core::report::{Report, Required, Requirement};

/// Compares the requirements on the machine with the machine, before anything runs.
pub(super) fn gpus(requirements: &mut [Requirement], session: &Session) {
    for requirement in requirements
        .iter_mut()
        .filter(|requirement| requirement.what == Required::Gpus)
    {
        *requirement = requirement.with(count_usable_gpus(session));
    }
}

/// Whether every requirement that can be decided now is met.
pub(super) fn is_met(report: &Report) -> bool {
    !report.run.require.iter().any(Requirement::is_unmet)
}

fn count_usable_gpus(session: &Session) -> u64 {
    let gpus = session.machine.gpus.iter();
    gpus.filter(|gpu| {
        session
            .restrict
            .as_ref()
            .is_none_or(|restrict| restrict.contains(&gpu.uuid))
    })
    .count() as u64
}
