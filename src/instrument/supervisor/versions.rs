//! Queries a separate process for the versions of the libraries.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::environment::environment;
use super::error::{CALL_LIMIT_MS, SupervisorError};
use super::spawn::{self, STARTS, Spawn};
use super::{end, receive, role};
use crate::interrupt::is_overdue;
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::Versions;

/// Queries a separate process for the versions of the libraries. Without `links`, these are the libraries that the
/// system's loader finds.
///
/// # Errors
/// Returns an error if the query failed in several attempts, or if a library call does not return.
pub fn versions(
    program: &Path,
    links: Option<&Path>,
    home: &Path,
    libcudart: Option<&Path>,
) -> Result<Versions, SupervisorError> {
    let mut found = ask_versions(program, links, home, libcudart);
    for _ in 1..STARTS {
        if matches!(found, Ok(_) | Err(SupervisorError::Stuck(_))) || is_overdue() {
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
    let (mut channel, theirs) = Channel::pair().map_err(SupervisorError::from_system)?;
    let mut arguments = vec![spawn::descriptor_argument(&theirs)];
    arguments.extend(libcudart.map(OsString::from));
    let own = Spawn::new(
        program,
        role::VERSIONS,
        arguments,
        environment(links, home, &BTreeMap::new()),
    );
    let mut child = spawn::start(Spawn {
        inherit: vec![theirs],
        ..own
    })?;
    let found = answer(&mut channel, CALL_LIMIT_MS);
    drop(channel);
    end::finish_child(&mut child, 1_000);
    found
}

/// Returns the versions that the process found. Each call has this many milliseconds.
fn answer(channel: &mut Channel, limit_ms: u64) -> Result<Versions, SupervisorError> {
    let mut call = "its start".to_string();
    loop {
        match receive::receive_within(channel, limit_ms) {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(next)) => call = next,
            Err(error) if receive::is_timeout(&error) => return Err(SupervisorError::Stuck(call)),
            Err(error) => {
                let why = format!("checking the libraries failed in {call}: {error}");
                return Err(SupervisorError::Protocol(why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_does_not_return_or_ends_the_process_is_named() {
        let (mut ours, theirs) = Channel::pair().unwrap();
        for call in ["dlopen of libcuda", "cuDriverGetVersion"] {
            theirs
                .send(&Err::<Versions, String>(call.to_string()))
                .unwrap();
        }
        let stuck = answer(&mut ours, 50).unwrap_err().to_string();
        assert_eq!(
            stuck,
            "cuDriverGetVersion did not return within 30 s; run `cuda-pitfalls doctor` for the cause"
        );
        theirs
            .send(&Err::<Versions, String>("dlopen of libcudart".to_string()))
            .unwrap();
        drop(theirs);
        let died = answer(&mut ours, 50).unwrap_err().to_string();
        assert!(
            died.starts_with("checking the libraries failed in dlopen of libcudart: "),
            "{died}"
        );
    }
}
