//! Queries to the sampler for callers that cannot wait as long as NVML may take.

use super::super::error::SupervisorError;
use super::super::receive::{is_timeout, receive_within};
use super::{ANSWER_MS, COST_OF_A_HANG, SamplerClient};
use cuda_pitfalls_core::channel::ChannelError;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::sample::{Polling, SamplerCommand, SamplerEvent, Snapshot};

impl SamplerClient {
    /// Returns a snapshot like [`SamplerClient::snapshot`], or `None` if no answer arrives within this many
    /// milliseconds. While that answer is outstanding, further calls return `None` at once.
    ///
    /// # Errors
    /// Returns the errors of [`SamplerClient::snapshot`].
    pub fn snapshot_within(
        &mut self,
        milliseconds: u64,
    ) -> Result<Option<Snapshot>, SupervisorError> {
        if !self.is_free(milliseconds)? {
            return Ok(None);
        }
        match self.ask(&SamplerCommand::Snapshot, milliseconds) {
            Ok(SamplerEvent::Snapshot(snapshot)) => Ok(Some(snapshot)),
            other => self.leave_unanswered(other),
        }
    }

    /// Stops polling like [`SamplerClient::stop_polling`], within this many milliseconds. Readings that arrive later
    /// are returned by the next call.
    ///
    /// # Errors
    /// Returns the errors of [`SamplerClient::snapshot`].
    pub fn stop_polling_within(
        &mut self,
        milliseconds: u64,
    ) -> Result<Option<Polling>, SupervisorError> {
        let is_free = self.is_free(milliseconds)?;
        if let Some(late) = self.late.take() {
            return Ok(Some(late));
        }
        if !is_free {
            return Ok(None);
        }
        match self.ask(&SamplerCommand::Stop, milliseconds) {
            Ok(SamplerEvent::Polling(run)) => Ok(Some(run)),
            other => self.leave_unanswered(other),
        }
    }

    /// Returns `true` if the sampler has answered every query. A sampler that is silent for as long as a hang is
    /// restarted.
    fn is_free(&mut self, milliseconds: u64) -> Result<bool, SupervisorError> {
        let Some(since_ns) = self.unanswered_ns else {
            return Ok(true);
        };
        let Some(channel) = &mut self.channel else {
            return Err(self.replace_sampler("it is not running", 1));
        };
        // The caller has already waited its full time for this answer.
        match receive_within(channel, milliseconds.min(1)) {
            Ok(SamplerEvent::Polling(run)) => self.late = Some(run),
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {
                let waited_ns = clock::running_ns().saturating_sub(since_ns);
                let is_hung = waited_ns > ANSWER_MS * 1_000_000;
                return if is_hung {
                    Err(self.replace_sampler(&error.to_string(), COST_OF_A_HANG))
                } else {
                    Ok(false)
                };
            }
            Err(error) => return Err(self.replace_sampler(&error.to_string(), 1)),
        }
        self.unanswered_ns = None;
        Ok(true)
    }

    /// Returns `None` for a query whose answer has not arrived yet.
    ///
    /// # Errors
    /// Returns an error if the answer belongs to a different query.
    fn leave_unanswered<T>(
        &mut self,
        answer: Result<SamplerEvent, ChannelError>,
    ) -> Result<Option<T>, SupervisorError> {
        if answer.as_ref().is_err_and(is_timeout) {
            self.unanswered_ns = Some(clock::running_ns());
            return Ok(None);
        }
        Err(self.reject_answer(answer))
    }
}
