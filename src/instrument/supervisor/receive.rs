//! Receiving one document from a channel before a deadline.

use rustix::event::{PollFd, PollFlags, poll};
use serde::de::DeserializeOwned;

use super::end::to_timespec;
use crate::interrupt::is_overdue;
use cuda_pitfalls_core::channel::{Channel, ChannelError};
use cuda_pitfalls_core::clock;

/// Waits for one document, at most this many milliseconds, and only briefly once the user wants to stop.
pub(super) fn receive_within<T: DeserializeOwned>(
    channel: &mut Channel,
    milliseconds: u64,
) -> Result<T, ChannelError> {
    let deadline = clock::running_ns() + milliseconds * 1_000_000;
    let mut is_late = false;
    loop {
        if let Some(document) = channel.take()? {
            return Ok(document);
        }
        if is_late {
            let why = if is_overdue() {
                "interrupted".to_string()
            } else {
                format!("no answer within {milliseconds} ms")
            };
            return Err(ChannelError::Io(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                why,
            )));
        }
        // A document from before the deadline counts, so the channel is read once more after it.
        let left = deadline.saturating_sub(clock::running_ns());
        is_late = left == 0 || is_overdue();
        let mut fds = [PollFd::new(channel, PollFlags::IN)];
        match poll(&mut fds, Some(&to_timespec(left.min(clock::SLICE_NS)))) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => channel.read_available()?,
            Err(error) => return Err(ChannelError::Io(error.into())),
        }
    }
}

/// Returns `true` if the error means that nothing arrived in time.
pub(super) fn is_timeout(error: &ChannelError) -> bool {
    matches!(error, ChannelError::Io(error) if error.kind() == std::io::ErrorKind::TimedOut)
}
