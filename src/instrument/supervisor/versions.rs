//! Asking a process of its own for the versions of the libraries.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::environment::environment;
use super::error::SupervisorError;
use super::spawn::{self, STARTS, Spawn};
use super::{end, receive, role};
use crate::interrupt::is_overdue;
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::Versions;

/// Asks a separate process for the versions of the libraries. Without `links`, these are the libraries that the
/// system's loader finds.
///
/// # Errors
/// The process could not be asked in several attempts.
pub fn versions(
    program: &Path,
    links: Option<&Path>,
    home: &Path,
    libcudart: Option<&Path>,
) -> Result<Versions, SupervisorError> {
    let mut found = ask_versions(program, links, home, libcudart);
    for _ in 1..STARTS {
        if found.is_ok() || is_overdue() {
            break;
        }
        found = ask_versions(program, links, home, libcudart);
    }
    found
}

fn ask_versions(
    program: &Path,
    links: Option<&Path>,
    home: &Path,
    libcudart: Option<&Path>,
) -> Result<Versions, SupervisorError> {
    let (mut channel, theirs) = Channel::pair().map_err(SupervisorError::system)?;
    let mut arguments = vec![spawn::descriptor(&theirs)];
    arguments.extend(libcudart.map(OsString::from));
    let own = Spawn::new(program, role::VERSIONS, arguments, environment(links, home, &BTreeMap::new()));
    let mut child = spawn::start(Spawn { inherit: vec![theirs], ..own })?;
    let found = receive::receive_within(&mut channel, 30_000);
    drop(channel);
    end::finish(&mut child, 1_000);
    found.map_err(|error| SupervisorError::Protocol(format!("checking the libraries failed: {error}")))
}
