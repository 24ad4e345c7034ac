//! Streams and events: they do no work, but they belong to a context, which is the source of their errors.

use crate::model::context::ContextOwner;
use crate::model::status::{INVALID_HANDLE, Outcome};
use std::time::Instant;

/// `cudaStreamPerThread`, the last of the default streams. Those mean the current context, whichever that is.
pub const PER_THREAD_STREAM: u64 = 2;

/// Returns `true` if a stream was created explicitly.
pub fn is_explicit(stream: u64) -> bool {
    stream > PER_THREAD_STREAM
}

/// An event and when it was last recorded.
pub struct StreamEvent {
    pub owner: ContextOwner,
    pub recorded: Option<Instant>,
}

impl StreamEvent {
    /// `cuEventElapsedTime` up to another event, in milliseconds: both must be recorded, and belong to one device.
    pub fn elapsed_ms(&self, end: &Self) -> Outcome<f32> {
        let (Some(from), Some(to)) = (self.recorded, end.recorded) else {
            return Err(INVALID_HANDLE);
        };
        if self.owner.device != end.owner.device {
            return Err(INVALID_HANDLE);
        }
        Ok(if to >= from {
            (to - from).as_secs_f32() * 1000.0
        } else {
            -((from - to).as_secs_f32() * 1000.0)
        })
    }
}
