//! The parent's side of `doctor`: a fresh process for each test, with a deadline.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use cuda_pitfalls_core::channel::{Channel, ChannelError};
use cuda_pitfalls_core::event::MappedLibrary;
use cuda_pitfalls_core::examination::{ExaminerMessage, StartEnd, Want};

use super::end::SHORT_GRACE_MS;
use super::error::SupervisorError;
use super::spawn::{self, Spawn};
use super::{end, receive, role};
use crate::interrupt::signal_name;

/// The time from the end of a channel until its process must have ended.
const CRASH_MS: u64 = 5_000;

/// The messages of a fresh process, and its end.
#[derive(Debug, Default)]
pub struct Examined {
    /// The messages of the process, in order, without the calls that began.
    pub said: Vec<ExaminerMessage>,
    /// The libraries that it mapped.
    pub libraries: Vec<MappedLibrary>,
    /// The end of the process, if it did not exit by itself.
    pub ended: Option<StartEnd>,
    /// `true` if it could not be killed.
    pub is_unkillable: bool,
}

/// Starts a fresh process in this environment that executes the task. Each of its actions may take this long.
///
/// # Errors
/// Returns an error if the process could not be started.
pub fn ask_examiner(
    program: &Path,
    environment: BTreeMap<OsString, OsString>,
    want: &Want,
    deadline_ms: u64,
) -> Result<Examined, SupervisorError> {
    let (mut channel, theirs) = Channel::pair().map_err(SupervisorError::from_system)?;
    let arguments = vec![spawn::descriptor_argument(&theirs)];
    let mut child = spawn::start(Spawn {
        inherit: vec![theirs],
        ..Spawn::new(program, role::EXAMINER, arguments, environment)
    })?;
    if let Err(error) = channel.send(want) {
        return Err(SupervisorError::Protocol(format!(
            "the examiner did not accept its task: {error}"
        )));
    }
    let mut examined = Examined::default();
    let (error, at) = examined.receive_messages(&mut channel, deadline_ms);
    if let Some(error) = error {
        let by = name_end(&error, &mut child);
        examined.ended = Some(StartEnd { by, at });
    }
    drop(channel);
    // The code that runs when it exits is not ours, and may hang as well.
    if !end::has_ended(&mut child, SHORT_GRACE_MS) {
        let (_, is_dead) = end::kill_child(&mut child, SHORT_GRACE_MS);
        examined.is_unkillable = !is_dead;
    }
    Ok(examined)
}

impl Examined {
    /// Receives messages until the process is done. Returns the error that ended the messages early, and the call that
    /// had begun but not ended.
    fn receive_messages(
        &mut self,
        channel: &mut Channel,
        deadline_ms: u64,
    ) -> (Option<ChannelError>, Option<String>) {
        let mut at = None;
        loop {
            match receive::receive_within(channel, deadline_ms) {
                Ok(ExaminerMessage::Begin { call }) => at = Some(call),
                Ok(ExaminerMessage::Open { libraries }) => self.libraries = libraries,
                Ok(ExaminerMessage::Done { libraries }) => {
                    self.libraries = libraries;
                    return (None, at);
                }
                Ok(said) => {
                    if matches!(said, ExaminerMessage::End(_)) {
                        at = None;
                    }
                    self.said.push(said);
                }
                Err(error) => return (Some(error), at),
            }
        }
    }
}

/// Returns the end of a process whose messages ended with this error, as text.
fn name_end(error: &ChannelError, child: &mut spawn::Child) -> String {
    if receive::is_timeout(error) {
        return "hang".to_string();
    }
    // A process that crashes may write its memory to disk first.
    let is_gone = end::has_ended(child, CRASH_MS);
    match error {
        ChannelError::Closed if is_gone => by_status(child),
        _ => error.to_string(),
    }
}

/// Returns the end of a process that has ended, as text: by a signal, or with a code.
fn by_status(child: &spawn::Child) -> String {
    use std::os::unix::process::ExitStatusExt;
    let Some(status) = end::reap_child(child) else {
        return "unknown".to_string();
    };
    match (status.signal(), status.code()) {
        (Some(signal), _) => signal_name(signal),
        (None, Some(code)) => format!("exit {code}"),
        (None, None) => "unknown".to_string(),
    }
}
